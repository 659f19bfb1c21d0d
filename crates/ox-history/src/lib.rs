//! Was everything that clients saw possible? The checker of histories (method T3 of the reliability plan).
//!
//! A [`History`] is what clients of some servers recorded, together with the log those servers were left with. The
//! log tells the one order of all writes, so the check is linear: [`check`] replays that order through a small
//! [`model`] of the tree, written independently of the server's own, and compares every answer, every event and
//! the final state with it.
//!
//! ```text
//! streams ──> matching ──> order, sessions        what stands in which stream, and which write is which
//!                   └────> replay ──> model        every answer at its zxid
//!                             └─────> watches      the exact events of each connection
//! ```
//! Pure, and the same for simulated and for real servers. The first violation ends the check: what follows it could
//! not be judged.

#![expect(clippy::wildcard_enum_match_arm, reason = "most checks are about two or three of two dozen operations")]

mod check_summary;
mod checks;
pub mod history;
pub mod model;
mod op;
mod replay;
mod violation;
pub mod wire;

pub use check_summary::Summary;
pub use history::{Connection, Dump, DumpNode, Granted, History, Logged, LoggedTxn, Received, Sent, Settings, Time};
pub use op::{Answer, Body, Create, Element, Op, Reconfig};
pub use violation::{Place, Property, Reason, Violation};

/// Checks a history; the summary says what was looked at.
pub fn check(history: &History) -> Result<Summary, Box<Violation>> {
    checks::run(history)
}
