//! Seeds that failed before, each with the cause. They are never removed.
//!
//! A seed reproduces its failure only as long as plans and clients draw the same numbers. After that, the unit test of the
//! fix covers the bug, and the seed remains as one more simulation.

use crate::survives;
use ox_sim::{FaultProfile, Plan};

/// The checker did not know the owner of a session whose handshake got no reply and whose first writes were refused.
#[test]
fn seed_383_session_without_handshake_reply() {
    survives(383, &Plan::of(383));
}

/// A session expired after the late reply to a write, before the pings that had arrived meanwhile were read.
#[test]
fn seed_7311_session_that_waited_for_the_disk() {
    survives(7311, &Plan::of(7311));
}

/// The checker took an old log that a purge had failed to delete for a gap in the history.
#[test]
fn seed_8217_old_log_left_by_purge() {
    survives(8217, &Plan::of(8217));
}

/// Two observers replied to each other's notifications forever.
#[test]
fn seed_42_endless_notifications_of_observers() {
    survives(42, &Plan::of(42));
}

/// A leader did not know a session that its learner had already granted to a client.
#[test]
fn seed_288_learner_applies_before_its_leader() {
    survives(288, &Plan::of(288));
}

/// The checker reported a leader as incomplete that was established late and could commit nothing.
#[test]
fn seed_229_late_leader() {
    survives(229, &Plan::of(229));
}

/// A connection got its session back because the connection that had taken it over was closed.
#[test]
fn seed_387_session_taken_over() {
    survives(387, &Plan::of(387));
}

/// A torn sector hid a transaction before the first one of a new epoch.
#[test]
fn seed_702_torn_sector_before_a_new_epoch() {
    survives(702, &Plan::of(702));
}

/// A synchronised learner touched a session because of old traffic.
#[test]
fn seed_831_stale_touch_of_a_learner() {
    survives(831, &Plan::of(831));
}

/// A leader without followers reported a session as expired whose closeSession it had only proposed.
#[test]
fn seed_243_session_with_proposed_close() {
    survives(243, &Plan::of(243).with_voters(3));
}

/// A server that had lost its leader dropped watches of clients before their last replies.
#[test]
fn seed_820_watches_of_closing_connections() {
    survives(820, &Plan::of(820).with_voters(5));
}

/// A session was reported as expired while its closeSession was being proposed.
#[test]
fn seed_932_session_with_close_about_to_be_proposed() {
    survives(932, &Plan::of(932).with_voters(2));
}

/// A damaged compressed snapshot kept a member from starting.
#[test]
fn seed_42_damaged_compressed_snapshot() {
    survives(42, &Plan::of(42).with_voters(3));
}

/// The simulator deleted a log together with its synced position, which no server could detect.
#[test]
fn seed_82_lost_log_and_marker() {
    survives(82, &Plan::of(82));
}

/// The simulator emptied the directory of a running server, which then wrote files that looked complete.
#[test]
fn seed_134_emptied_directory_of_a_running_server() {
    survives(134, &Plan::of(134));
}

/// A learner whose disk had hung touched the session of a client that had disconnected long before.
#[test]
fn seed_2028_touch_of_a_disconnected_client() {
    survives(2028, &Plan::of(2028));
}

/// The checker attributed the expiry of a session to a leader that was established late.
#[test]
fn seed_2454_late_leader_expires_no_session() {
    survives(2454, &Plan::of(2454));
}

/// The simulator deleted a file while a start read it.
#[test]
fn seed_2118_file_lost_during_a_start() {
    survives(2118, &Plan::of(2118).with_voters(3));
}

/// The simulator deleted the record of session ids and also reset the clock that would have kept the ids distinct.
#[test]
fn seed_1019_lost_session_ids_and_clock() {
    survives(1019, &Plan::of(1019));
}

/// A lost log was not detected, because the next epoch began with an error transaction.
#[test]
fn seed_2802_lost_end_of_an_epoch() {
    survives(2802, &Plan::of(2802));
}

/// The checker ignored a closeSession that was committed but not applied anywhere yet.
#[test]
fn seed_3217_committed_close_not_applied() {
    survives(3217, &Plan::of(3217).with_voters(3));
}

/// The simulator damaged the end of a log before a new epoch, which only digests could detect.
#[test]
fn seed_3470_damaged_end_of_an_epoch() {
    survives(3470, &Plan::of(3470).with_voters(3));
}

/// An observer continued to write for a session that a client of its follower had taken over.
#[test]
fn seed_7_session_taken_from_an_observer() {
    survives(7, &Plan::of(7));
}

/// A log could not be truncated and was continued; the rest was dropped from memory and never applied.
#[test]
fn seed_31261_failed_truncation() {
    survives(31261, &Plan::of(31261));
}

/// The checker did not know that slow paths between servers delay the touches of learners.
#[test]
fn seed_30323_delayed_touches() {
    survives(30323, &Plan::of(30323));
}

/// The checker did not know that a hung disk delays the start of a session.
#[test]
fn seed_101574_session_start_delayed_by_a_hung_disk() {
    survives(101574, &Plan::of(101574));
}

/// A leader sent an observer a log diff without transactions that were purged at the end of an epoch.
#[test]
fn seed_141493_log_diff_after_a_purge() {
    survives(141493, &Plan::of(141493));
}

/// A client of a follower had lost its session to another server, and wrote again while an observer of the same follower
/// was revalidating the session.
#[test]
fn seed_150109_session_revalidated_by_an_observer_of_its_old_server() {
    survives(150109, &Plan::of(150109).with_voters(3));
}

/// A follower refused a request of a disconnected observer, as if the session had another owner.
#[test]
fn seed_402253_request_of_a_disconnected_observer() {
    survives(402253, &Plan::of(402253));
}

/// A member had moved a damaged log aside that a snapshot covered. When that snapshot was lost, it loaded an older one, and
/// the next epoch seemed to follow.
#[test]
fn seed_400640_log_moved_aside() {
    survives(400640, &Plan::of(400640));
}

/// The simulator did not know that a learner may disconnect before its log diff is sent.
#[test]
fn seed_870484_learner_disconnects_before_its_log_diff() {
    survives(870484, &Plan::of(870484));
}

/// A server did not detect a pause during its own wait, and expired a session whose messages it had not read.
#[test]
fn seed_910196_pause_during_a_wait() {
    survives(910196, &Plan::of(910196).with_voters(1));
}

/// The checker did not know that a multi may create a node twice, first with a restrictive and then with an open ACL.
#[test]
fn seed_920774_node_created_twice_in_a_multi() {
    survives(920774, &Plan::of(920774).with_voters(1));
}

/// Pings that the socket accepted counted as a sign of life of a learner that had not replied since UPTODATE, so a deaf leader
/// did not step down.
#[test]
fn seed_3100067_deaf_leader_with_a_silent_learner_steps_down() {
    survives(3_100_067, &Plan::with_profile(3_100_067, FaultProfile::Network));
}

/// One of four voters received from one other only. That one did not leave it out of the next round as the other two did, so
/// that no candidate had a quorum for as long as candidates are left out.
#[test]
fn seed_5000665_leader_deaf_to_two_of_three_is_replaced() {
    survives(5_000_665, &Plan::of(5_000_665));
}

/// The voters had no leader for half a minute. The observers then asked for the new one only half a minute later.
#[test]
fn seed_24002192_observers_find_new_leader_soon_after_long_outage() {
    survives(24_002_192, &Plan::of(24_002_192));
}

/// A voter began to connect to a deaf leader before it had heard the vote of the third voter. It waited for the leader as
/// if no other server could lead.
#[test]
fn seed_19800018_voter_heard_after_the_election_shortens_the_wait_for_a_deaf_leader() {
    survives(19_800_018, &Plan::with_profile(19_800_018, FaultProfile::OneWay));
}

/// The only client had seen a transaction at a read-only server that was never committed. No server of the next epochs
/// accepted it, because no other client wrote.
#[test]
fn seed_8500448_client_that_has_seen_an_uncommitted_transaction_is_accepted() {
    survives(8_500_448, &Plan::with_profile(8_500_448, FaultProfile::Reconfig));
}
