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
mod clock;
mod io;
mod limits;
mod live_settings;
mod log_limit;
mod maintenance;
mod member_setup;
mod options;
mod peers;
mod replica_thread;
mod rotating_file;
mod server;
mod service_keytab;
mod shared;
mod status;
mod store_reloads;
mod test_server;
mod watchdog;

pub use audit::AUDIT_LOG_TARGET;
pub use io::client_port_tls::{check_stores, tls_settings};
pub use io::client_sasl::SaslSetupError;
pub use io::fd_limit::TooFewDescriptors;
pub use peers::quorum_sasl::QuorumSaslError;
pub use rotating_file::RotatingFile;
pub use server::{Server, ServerHandle, ServerSummary, StartError, disk_space_needed, has_disk_space};
pub use shared::Fatal;
pub use status::four_letter::{MonitorValue, UNKNOWN, commands_page, environment};
pub use status::java_text::{address as java_address, double as java_double};
pub use status::metrics::metrics_page;
pub use status::os_info::{host_name, open_files_max};
pub use status::prometheus::{MetricsOptions, metrics_text_of_no_server};
pub use status::report::{
    Authorisation, BufferSizes, CloseSessionOutcome, ConnectionReport, Credentials, EnsembleReport, LastSnapshot,
    MemberReport, ObserverReport, ReloadedStores, RestoreFailed, ServerStats, ServingMode, SessionReport,
    SettingsReport, SnapshotFailed, Visit, WrittenSnapshot,
};
pub use status::startup_banner::SETTINGS_LOG_TARGET;
pub use status::version::Build;
pub use test_server::TestServer;
