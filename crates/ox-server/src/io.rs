//! Client connections: a few threads, each of which owns its connections to their close.
//!
//! `io_thread.rs` accepts connections, waits for events (mio) and runs the iteration of `ox-driver/src/client_io.rs`,
//! which reads, serves and writes them. `host.rs` gives that iteration sockets, state, metrics and log lines;
//! `stream.rs` is what is below a socket, TCP or TLS. `tls_handshakes.rs` runs the handshakes of TLS connections on
//! threads of their own, before an I/O thread gets them.

mod accept;
mod auth_log;
pub(crate) mod client_port_tls;
pub(crate) mod client_sasl;
pub(crate) mod connection_table;
pub(crate) mod failed_logins;
pub(crate) mod fd_limit;
mod host;
mod in_flight;
mod io_thread;
mod iteration_stats;
pub(crate) mod mailbox;
pub(crate) mod reverse_lookups;
pub(crate) mod stream;
mod tls_handshakes;
mod transport;

pub(crate) use accept::bind;
pub(crate) use io_thread::{IoThread, WAKER};
pub(crate) use tls_handshakes::{HandshakeQueue, HandshakeThread, WaitingClient};
pub(crate) use transport::Transport;
