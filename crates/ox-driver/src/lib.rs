//! The loops that feed the deterministic core, as step machines without threads, clock and sockets of their own.
//!
//! `ox-server` runs them on real sockets and threads, `ox-sim` on virtual ones: the simulator executes the code that
//! ships.

pub mod client_io;
pub mod config_change;
mod limits;
pub mod links;
pub mod log_writer;
pub mod replica_loop;
pub mod server_log;
pub mod snapshot_schedule;
pub mod sockets;
pub mod space_check;
pub mod unsent_buffer;
