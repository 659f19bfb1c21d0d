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

mod admission;
mod clock;
mod conn;
mod counters;
pub mod limits;
mod log_batch;
mod namespace_traffic;
mod pause_detector;
mod replica;
mod sessions;
mod sessions_per_address;
mod submission;
mod throttle;

pub use admission::{Admission, IN_FLIGHT_BYTES_MAX, MemoryBudget, Pressure, Room, SMALL_BYTES, Shortage};
pub use clock::Now;
pub use conn::{Conn, ConnSettings, Service, Verdict};
pub use counters::{Runs, Tallies};
pub use log_batch::LogBatch;
pub use namespace_traffic::Traffic;
pub use pause_detector::Pulse;
pub use replica::{LocalSessions, Replica, ReplicaSettings, Writes};
pub use sessions::{SessionInfo, Touch};
pub use submission::{Ask, Item, Load, Submission};
pub use throttle::{Newcomer, Throttle, ThrottleSettings, Weights};
