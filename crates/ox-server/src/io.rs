//! Client connections: a few threads, each of which owns its connections from accept to close.
//!
//! `io_thread.rs` accepts connections, waits for events (mio) and runs the iteration of `ox-driver/src/client_io.rs`,
//! which reads, serves and writes them. `host.rs` gives that iteration sockets, state, metrics and log lines.

mod accept;
mod auth_log;
mod host;
mod in_flight;
mod io_thread;
mod iteration_stats;

pub(crate) use accept::bind;
pub(crate) use io_thread::{IoThread, WAKER};
