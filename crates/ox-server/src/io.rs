//! Client connections: few threads, each owning its connections from accept to close.
//!
//! One turn of a thread: wait; read every ready socket once into one arena; take the state, deliver the mail that
//! was waiting, serve all complete frames; let go; hand writes to the replica; write every socket once. System
//! calls happen while no lock is held, locks are taken once per turn.

mod accept;
mod connection;
mod figures;
mod pool;
mod turn;
mod waiting;

pub(crate) use accept::bind;
pub(crate) use turn::{IoThread, WAKER};
