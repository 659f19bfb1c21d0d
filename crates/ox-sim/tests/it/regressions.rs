//! Seeds that failed once, each with the reason. They are never removed.
//!
//! A seed means the same only as long as plans and clients draw the same numbers; when they change, the story is kept
//! by the unit test that goes with the fix, and the seed stays as one more run.

use crate::survives;
use ox_sim::Plan;

/// The checker did not know whose a session was whose handshake was never answered and whose first writes the server
/// had turned away.
#[test]
fn seed_383_a_session_nobody_was_told_of() {
    survives(383, &Plan::of(383));
}
