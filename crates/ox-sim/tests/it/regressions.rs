//! Seeds that failed once, each with the reason. They are never removed.
//!
//! A seed means the same only as long as plans and clients draw the same numbers; when they change, the story is kept
//! by the unit test that goes with the fix, and the seed stays as one more run.

use crate::survives;
use ox_sim::{FaultProfile, Plan};

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

/// A server that had lost its leader dropped the watches of clients that it was still answering.
#[test]
fn seed_820_watches_of_who_is_sent_away() {
    survives(820, &Plan::of(820).with_voters(5));
}

/// A session was reported as gone while its end was being proposed.
#[test]
fn seed_932_a_session_whose_end_was_about_to_be_proposed() {
    survives(932, &Plan::of(932).with_voters(2));
}

/// A snapshot that could not be unpacked kept a member from starting.
#[test]
fn seed_42_a_damaged_packed_snapshot() {
    survives(42, &Plan::of(42).with_voters(3));
}

/// The simulator took away a log together with the marker that vouched for it, which nobody could notice.
#[test]
fn seed_82_a_lost_log() {
    survives(82, &Plan::of(82));
}

/// The simulator emptied a directory under a server that went on, and left one behind that looked complete.
#[test]
fn seed_134_a_directory_that_was_emptied() {
    survives(134, &Plan::of(134));
}

/// A learner whose disk had hung told its leader of a client that had gone long before.
#[test]
fn seed_2028_a_client_that_had_gone() {
    survives(2028, &Plan::of(2028));
}

/// The checker took a leader that was established late for the one that had ended a session.
#[test]
fn seed_2454_a_late_leader_ends_no_session() {
    survives(2454, &Plan::of(2454));
}

/// The simulator took a file away that was being read.
#[test]
fn seed_2118_a_file_that_is_lost_during_a_start() {
    survives(2118, &Plan::of(2118).with_voters(3));
}

/// The simulator took away the note of where session ids go on, and the clock that would have kept them apart.
#[test]
fn seed_1019_a_member_without_a_memory_and_without_a_clock() {
    survives(1019, &Plan::of(1019));
}

/// A lost log was not missed, because the epoch behind it began with a request that was refused.
#[test]
fn seed_2802_the_end_of_an_epoch_is_lost() {
    survives(2802, &Plan::of(2802));
}

/// The checker took an end that was agreed on, and applied nowhere yet, for none.
#[test]
fn seed_3217_an_end_that_is_agreed_on_and_not_applied() {
    survives(3217, &Plan::of(3217).with_voters(3));
}

/// The simulator damaged the end of a log whose successor began an epoch, which only digests could have missed.
#[test]
fn seed_3470_the_end_of_an_epoch_is_damaged() {
    survives(3470, &Plan::of(3470).with_voters(3));
}

/// An observer went on writing for a session that its follower had given to a client of its own.
#[test]
fn seed_7_a_session_that_left_an_observer() {
    survives(7, &Plan::of(7));
}

/// A history could not be cut, and was continued; what should have been cut had been forgotten, and was never applied.
#[test]
fn seed_31261_what_cannot_be_cut_stays() {
    survives(31261, &Plan::of(31261));
}

/// The checker did not know that a leader hears of its learners' clients as late as the ways between servers are slow.
#[test]
fn seed_30323_a_leader_that_hears_late_of_a_client() {
    survives(30323, &Plan::of(30323));
}

/// The checker did not know that a session begins late whose server waits for its disk, whether its client does or not.
#[test]
fn seed_101574_a_session_that_begins_behind_a_hung_disk() {
    survives(101574, &Plan::of(101574));
}

/// A leader gave an observer what its log held, without what had been purged at the end of an epoch.
#[test]
fn seed_141493_what_was_purged_is_not_passed_over() {
    survives(141493, &Plan::of(141493));
}

/// A client of a follower had lost its session elsewhere, and wrote for it again while an observer behind the same follower
/// was asking for it.
#[test]
fn seed_150109_a_session_that_comes_to_an_observer_behind_its_old_server() {
    survives(150109, &Plan::of(150109).with_voters(3));
}

/// A follower refused what an observer had asked for before it was gone, as if the session were somebody else's.
#[test]
fn seed_402253_an_observer_that_asks_and_goes() {
    survives(402253, &Plan::of(402253));
}

/// A member had moved a damaged log aside that a snapshot covered. Without that snapshot it began with an older one, and the
/// next epoch seemed to follow it.
#[test]
fn seed_400640_a_log_that_was_moved_aside() {
    survives(400640, &Plan::of(400640));
}

/// The simulation did not know that a learner may be gone before what was found for it is sent.
#[test]
fn seed_870484_a_learner_that_goes_before_it_gets_what_was_found() {
    survives(870484, &Plan::of(870484));
}

/// A server that had not run for a while did not notice, because it had meant to sleep, and ended a session whose client it
/// had not listened to.
#[test]
fn seed_910196_a_pause_that_hid_in_a_wait() {
    survives(910196, &Plan::of(910196).with_voters(1));
}

/// The checker did not know that a multi may make a node twice, first for somebody else and then for everybody.
#[test]
fn seed_920774_a_node_that_is_made_twice_in_a_multi() {
    survives(920774, &Plan::of(920774).with_voters(1));
}

/// Pings that a socket had taken counted as a sign of life of a learner that had not replied since UPTODATE, so a deaf leader
/// did not step down.
#[test]
fn seed_3100067_deaf_leader_with_a_learner_that_has_not_begun_steps_down() {
    survives(3_100_067, &Plan::with_profile(3_100_067, FaultProfile::Ways));
}

/// Of four voters one heard only one other. That one did not leave it out of the next round as the other two did, so that no
/// candidate had a quorum for as long as candidates are left out.
#[test]
fn seed_5000665_leader_deaf_to_two_of_three_is_replaced() {
    survives(5_000_665, &Plan::of(5_000_665));
}
