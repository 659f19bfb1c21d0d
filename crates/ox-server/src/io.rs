//! Client connections: few threads, each owning its connections from accept to close.
//!
//! One turn of a thread: wait; read every ready socket once into one arena; take the state, deliver the mail that
//! was waiting, serve all complete frames; let go; hand writes to the replica; write every socket once. System
//! calls happen while no lock is held, locks are taken once per turn.
//!
//! The invariant that keeps anybody from waiting without cause: a connection that has something to do and is not in
//! the thread's list has something else coming that puts it there. That is an answer of the replica, or room in the
//! socket, or, for a connection that is stalled or paused because memory is short, the clock.

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
