//! A running server: sockets, threads and clocks around the deterministic core.
//!
//! ```text
//!  clients <-> I/O threads --Submission--> replica thread --LogBatch--> log thread
//!                  ^   \                     |      ^                      |
//!                  |    +-- reads: state <---+      +------ durable -------+
//!                  +------- Outbox ----------+ (applies, answers, fires watches)
//! ```
//!
//! [`Server::start`] recovers the data and serves it; [`Server::wait`] says how it ended. A fatal error is a value:
//! the server stops serving and reports it, the process is the caller's to end. [`Server::ephemeral`] is for tests.

mod clock;
mod descriptors;
mod ephemeral;
mod inbox;
mod io;
mod java_text;
mod limits;
mod log_writer;
mod mailbox;
mod maintenance;
mod member;
mod metrics;
mod options;
mod peers;
mod reconfig;
mod register;
mod replica_loop;
mod seldom;
mod server;
mod shared;
mod snapshotter;
mod standing;
mod start_log;
mod stats;
mod system;
mod totals;
mod version;
mod watchdog;
mod words;

pub use descriptors::TooFewDescriptors;
pub use ephemeral::Ephemeral;
pub use metrics::metrics_page;
pub use server::{Server, StartError, Stopper, has_room};
pub use shared::Fatal;
pub use words::commands_page;
