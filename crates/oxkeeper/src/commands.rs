//! One file per subcommand.

pub(crate) mod files;
pub(crate) mod server;
