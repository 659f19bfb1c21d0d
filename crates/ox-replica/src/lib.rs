//! A server without sockets and disks: sessions, request order, proposals, replies.
//!
//! The crate is pure: time is an argument of every step, and bytes are passed in batches. A [`Conn`] is the server's
//! end of a client connection and belongs to an I/O thread. The [`Replica`] orders, prepares and applies all writes and
//! replies to them.
//!
//! ```text
//!   frames -> Conn -- reads, replied to from the state -----------> out
//!               |  \-- while its writes are in flight: all requests, in order --+
//!               +-- Submission --> Replica::step --> LogBatch --> disk          |
//!                                     ^                             |           |
//!                                     +-------- durable ------------+           |
//!                                  Replica::apply --> Outboxes <-- later reads -+
//! ```

mod admission;
mod audit;
mod clock;
mod conn;
mod conn_id;
mod counters;
mod effects;
mod enforced_schemes;
mod input;
pub mod limits;
mod log_batch;
mod namespace_traffic;
pub mod outbox;
mod pause_detector;
mod replica;
mod sasl;
mod sessions;
mod sessions_per_address;
mod slow_writes;
mod submission;
mod throttle;

pub use admission::{Admission, AdmissionLimits, IN_FLIGHT_BYTES_MAX, MemoryBudget, Pressure, SMALL_BYTES, Shortage};
pub use audit::{AuditEvent, AuditResult};
pub use clock::Now;
pub use conn::{AuthEvent, Conn, ConnAuth, ConnSettings, FrameOutcome, Service};
pub use conn_id::ConnId;
pub use counters::{ReplicaCounters, Runs};
pub use effects::{LogJob, ReplicaEffect, ReplicaEffects};
pub use enforced_schemes::EnforcedSchemes;
pub use input::{ReplicaInput, ReplicaLimits};
pub use log_batch::LogBatch;
pub use namespace_traffic::NamespaceTraffic;
pub use pause_detector::PauseDetector;
pub use replica::{LocalSessions, Replica, ReplicaSettings, ReplicaStatus, WriteAdmission};
pub use sasl::{SaslFailure, SaslOutcome, SaslServer, SaslService, ServerLogin};
pub use sessions::{LastSeen, SessionInfo};
pub use slow_writes::{SlowWrite, SlowWrites};
pub use submission::{ClientInput, Entry, Load, Submission};
pub use throttle::{HandshakeKind, Throttle, ThrottleSettings, Weights};
