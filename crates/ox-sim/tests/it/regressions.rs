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

/// A session whose write was answered after a long wait ended before its pings, which had come meanwhile, were read.
#[test]
fn seed_7311_a_session_that_had_waited_for_the_disk() {
    survives(7311, &Plan::of(7311));
}

/// The checker took an old log that could not be removed, and stood alone since, for a hole in the history.
#[test]
fn seed_8217_an_old_log_that_is_left_over() {
    survives(8217, &Plan::of(8217));
}
