//! One file per subcommand.

pub(crate) mod cli;
pub(crate) mod ensemble;
pub(crate) mod files;
pub(crate) mod server;
