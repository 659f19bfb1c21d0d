//! One file per subcommand; [`output`] and [`progress`] are shared by several.

pub(crate) mod admin;
pub(crate) mod bench;
pub(crate) mod check_config;
pub(crate) mod cli;
pub(crate) mod docker_entrypoint;
pub(crate) mod ensemble;
pub(crate) mod four_letter_command;
pub(crate) mod generate;
pub(crate) mod log;
pub(crate) mod output;
mod progress;
pub(crate) mod server;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod tls;
