//! Checks recorded client histories against ZooKeeper's guarantees (method T3 of the reliability plan).
//!
//! A [`History`] is what clients of some servers recorded, together with the final log of those servers. The log gives
//! the total order of all writes, so the check is linear: [`check`] replays that order through a small [`model`] of the
//! tree, written independently of the server's, and compares every reply, every event and the final state with it.
//!
//! ```text
//! streams ──> matching ──> order, sessions        shape of the streams; which record is which request
//!                   └────> replay ──> model        every reply at its zxid
//!                             └─────> watches      the exact events of each connection
//! ```
//! Pure, and the same for simulated and real servers. The check ends at the first violation, because what follows it
//! could not be judged.

#![expect(clippy::wildcard_enum_match_arm, reason = "most checks are about two or three of two dozen operations")]

mod check_summary;
mod checks;
pub mod history;
pub mod model;
mod op;
mod replay;
mod violation;
pub mod wire;

pub use check_summary::CheckSummary;
pub use history::{
    Dump, DumpNode, HandshakeReply, History, HistorySettings, LogEntry, LoggedTxn, ReceivedFrame, RecordedConnection,
    SentRequest, Time,
};
pub use op::{Create, ElementResult, Op, OpResult, ReconfigOp, ReplyBody, RequestedAcl, requested};
pub use violation::{Property, Violation, ViolationKind, ViolationPlace};

/// Checks a history; the summary counts what was checked.
pub fn check(history: &History) -> Result<CheckSummary, Box<Violation>> {
    checks::run(history)
}
