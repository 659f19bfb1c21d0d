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

/// Two observers answered each other's notifications for ever.
#[test]
fn seed_42_observers_that_talk_without_end() {
    survives(42, &Plan::of(42));
}

/// A leader did not know the session that its learner had already given to a client.
#[test]
fn seed_288_a_learner_is_quicker_than_its_leader() {
    survives(288, &Plan::of(288));
}

/// The checker took a leader that was established late, and could agree on nothing, for one that lacked history.
#[test]
fn seed_229_a_leader_that_is_late() {
    survives(229, &Plan::of(229));
}

/// A connection got its session back because the one that had taken it was gone.
#[test]
fn seed_387_a_session_that_was_lost() {
    survives(387, &Plan::of(387));
}

/// A torn sector hid a transaction before the first one of a new epoch.
#[test]
fn seed_702_a_tear_before_a_new_epoch() {
    survives(702, &Plan::of(702));
}

/// A learner that had caught up reported an old session as alive.
#[test]
fn seed_831_old_sessions_are_no_news() {
    survives(831, &Plan::of(831));
}

/// A leader that nobody followed any more told a client that its session was gone: it had only proposed its end.
#[test]
fn seed_243_a_session_whose_end_was_only_proposed() {
    survives(243, &Plan::of(243).with_voters(3));
}
