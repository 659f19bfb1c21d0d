//! A running server: sockets, threads and clocks around the deterministic core.
//!
//! ```text
//!  clients <-> I/O threads --Submission--> replica thread --LogBatch--> log thread
//!                  ^   \                     |      ^                      |
//!                  |    +-- reads: state <---+      +------ durable -------+
//!                  +------- Outbox ----------+ (applies, replies, fires watches)
//! ```
//!
//! [`Server::start`] recovers the data and serves clients; [`Server::wait`] returns how the server ended. A fatal error
//! is a value: the server stops serving and reports it, and the caller ends the process. [`Server::ephemeral`] starts a
//! server for tests.

mod audit;
mod client_port_tls;
mod client_sasl;
mod clock;
mod connection_table;
mod fd_limit;
mod four_letter;
mod inbox;
mod io;
mod java_text;
mod limits;
mod log_limit;
mod log_writer;
mod mailbox;
mod maintenance;
mod member_setup;
mod metrics;
mod options;
mod os_info;
mod peers;
mod reconfig;
mod replica_thread;
mod server;
mod server_mode;
mod shared;
mod snapshotter;
mod startup_banner;
mod state_dump;
mod stats;
mod test_server;
mod version;
mod watchdog;

pub use audit::AUDIT_LOG_TARGET;
pub use client_port_tls::check_stores;
pub use client_sasl::SaslSetupError;
pub use fd_limit::TooFewDescriptors;
pub use four_letter::commands_page;
pub use metrics::metrics_page;
pub use server::{Server, ServerHandle, ServerSummary, StartError, has_disk_space};
pub use shared::Fatal;
pub use startup_banner::SETTINGS_LOG_TARGET;
pub use test_server::TestServer;
pub use version::Build;
