//! One ensemble member without sockets and disks: sessions, the order of requests, pending writes, answers.
//!
//! Pure: time comes in with every step, bytes go in and out as batches. [`Conn`] is the client's end of it, owned
//! by an I/O thread; [`Replica`] is the one place where writes are ordered, prepared, applied and answered.
//!
//! ```text
//!   frames -> Conn -- reads, answered from the state --> out
//!               |  \-- while own writes are on their way: everything, in order --+
//!               +-- Submission --> Replica::step --> LogBatch --> disk           |
//!                                     ^                             |            |
//!                                     +-------- durable ------------+            |
//!                                  Replica::apply --> Outboxes <-- waiting reads-+
//! ```

mod addresses;
mod admission;
mod clock;
mod conn;
pub mod limits;
mod log_batch;
mod pulse;
mod replica;
mod sessions;
mod submission;
mod tallies;
mod throttle;
mod traffic;

pub use admission::{Admission, IN_FLIGHT_BYTES_MAX, MemoryBudget, Pressure, Room, SMALL_BYTES, Shortage};
pub use clock::Now;
pub use conn::{Conn, ConnSettings, Service, Verdict};
pub use log_batch::LogBatch;
pub use pulse::Pulse;
pub use replica::{LocalSessions, Replica, ReplicaSettings, Writes};
pub use sessions::{SessionInfo, Touch};
pub use submission::{Ask, Item, Load, Submission};
pub use tallies::{Runs, Tallies};
pub use throttle::{Newcomer, Throttle, ThrottleSettings, Weights};
pub use traffic::Traffic;
