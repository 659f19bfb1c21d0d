//! Client connections: a few threads, each of which owns its connections from accept to close.
//!
//! One iteration of a thread (`io_thread.rs`): wait; read every ready socket once into one arena; take the read lock of
//! the state, deliver the outboxes from the replica (`deliver.rs`), serve all complete frames (`serve.rs`); release the
//! lock; submit writes to the replica; write every socket once (`connection.rs`). No lock is held during system calls,
//! and each lock is taken once per iteration.
//!
//! The invariant that keeps a connection from hanging: a connection with work to do that is not in the ready list will
//! be put there by another event. That is a reply of the replica, free space in the socket or, for a connection that is
//! stalled or paused because memory is short, the clock.

mod accept;
mod buffer_pool;
mod connection;
mod deliver;
mod idle;
mod in_flight;
mod io_thread;
mod iteration_stats;
mod linger;
mod serve;
mod stalled;

pub(crate) use accept::bind;
pub(crate) use io_thread::{IoThread, WAKER};
