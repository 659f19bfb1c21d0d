//! Guards whose removal is detected by a test, or not at all; the simulator has to detect all others.

/// Guards whose removal the simulator is not expected to detect, and why. They are run nevertheless.
pub(super) const NOT_DETECTED: &[(&str, &str)] = &[(
    "a member votes with its last durable zxid",
    "a role ends after its disk jobs have finished, so the history in memory is durable when the member votes",
)];

/// Guards whose removal makes a test fail: guard, package and test. Most seeds do not reach the situations that these
/// guards are for, so the test runs instead of the simulator.
pub(super) const DETECTED_BY_TEST: &[(&str, &str, &str)] = &[
    (
        "a large frame is received after memory for it is reserved",
        "ox-driver",
        "client_io::tests::incomplete_large_frames_hold_no_more_than_their_share",
    ),
    (
        "a pause of the I/O thread extends all deadlines",
        "ox-driver",
        "client_io::tests::pause_of_the_thread_closes_no_connection",
    ),
    (
        "a link is read again when the replica has taken its packets",
        "ox-driver",
        "links::tests::link_is_read_again_when_the_replica_has_taken_its_packets",
    ),
    (
        "a link whose log diff is being read gets its turn in the next iteration",
        "ox-driver",
        "links::tests::log_diff_continues_when_the_disk_has_delivered",
    ),
    (
        "packets end where a snapshot begins",
        "ox-driver",
        "links::tests::k093_snapshot_is_sent_in_chunks_and_delays_no_other_link",
    ),
    (
        "the replica is notified of a pause of the process",
        "ox-driver",
        "replica_loop::tests::pause_within_an_iteration_expires_no_session",
    ),
    (
        "a reply never reaches a later connection in the same slot",
        "ox-driver",
        "client_io::tests::reply_to_a_closed_connection_does_not_reach_the_next_one_in_its_slot",
    ),
    (
        "unsent events of a client are limited",
        "ox-driver",
        "client_io::tests::client_that_does_not_read_its_events_is_closed",
    ),
    (
        "a client that does not read its replies is not served",
        "ox-driver",
        "client_io::tests::requests_of_a_client_that_does_not_read_its_replies_wait",
    ),
    (
        "a client whose request waits for memory counts as seen",
        "ox-driver",
        "client_io::tests::session_of_a_stalled_connection_whose_client_closed_its_side_is_not_touched",
    ),
    (
        "silent connections are closed",
        "ox-driver",
        "client_io::idle::tests::silent_connection_is_closed_at_the_check_after_its_timeout",
    ),
    (
        "a client that reads nothing is closed after its timeout",
        "ox-driver",
        "client_io::idle::tests::client_that_does_not_read_is_closed_after_its_timeout",
    ),
    (
        "a slow reader is closed while memory is short",
        "ox-driver",
        "client_io::idle::tests::stuck_reader_is_closed_while_memory_is_short",
    ),
    (
        "lingering sockets are closed when their time is over",
        "ox-driver",
        "client_io::tests::lingering_input_does_not_overwrite_received_frames",
    ),
    (
        "a socket is closed after its client has read the last reply",
        "ox-driver",
        "client_io::tests::lingering_socket_is_closed_when_its_client_has_read_the_last_reply",
    ),
    (
        "a replaced state shows the active configuration",
        "ox-driver",
        "replica_loop::tests::replaced_state_shows_the_active_configuration",
    ),
    (
        "a server that does not serve starts no snapshot",
        "ox-driver",
        "replica_loop::tests::member_without_a_leader_writes_no_snapshot",
    ),
    (
        "a log diff that was lost closes the link",
        "ox-driver",
        "replica_loop::tests::log_diff_that_was_lost_closes_the_link",
    ),
    (
        "a link is not read while the replica has too many of its packets",
        "ox-driver",
        "links::tests::leader_is_not_silent_while_its_learner_does_not_read",
    ),
    (
        "an iteration of all links transfers a limited number of bytes",
        "ox-driver",
        "links::tests::iteration_transfers_a_limited_number_of_bytes",
    ),
    (
        "a log diff that could not be read to its end closes the link",
        "ox-driver",
        "links::tests::log_diff_that_could_not_be_read_closes_the_link",
    ),
    (
        "bytes that a socket accepts immediately are no sign of life",
        "ox-driver",
        "links::tests::only_bytes_that_had_to_wait_are_a_sign_of_life",
    ),
    (
        "a new link of a server replaces its oldest one",
        "ox-driver",
        "links::tests::new_link_of_a_server_replaces_its_oldest_one",
    ),
    (
        "links of unknown servers together hold one packet",
        "ox-driver",
        "links::tests::unknown_servers_hold_no_more_than_one_packet_together",
    ),
    (
        "a learner sends only its hello before the leader has replied",
        "ox-driver",
        "links::tests::learner_sends_only_its_hello_before_the_leader_has_replied",
    ),
    (
        "packets of a link that the replica has closed are dropped",
        "ox-driver",
        "links::held_packets::tests::packets_of_a_link_that_the_replica_has_closed_leave_nothing",
    ),
    (
        "a client that waits for a reply is not silent",
        "ox-replica",
        "sessions::client_waiting_for_disk_does_not_expire",
    ),
    (
        "a client that has waited for its reply gets its full timeout",
        "ox-replica",
        "sessions::client_that_waited_for_disk_gets_full_timeout",
    ),
    ("a client under back-pressure is not silent", "ox-replica", "overload::client_waiting_for_memory_is_not_silent"),
    (
        "after a pause of the process every session gets its full timeout",
        "ox-replica",
        "sessions::session_gets_full_timeout_after_a_pause",
    ),
    (
        "a new leader gives every session its full timeout",
        "ox-replica",
        "leadership::k123_session_gets_full_timeout_after_leader_change",
    ),
    (
        "resuming a session at a follower takes it immediately",
        "ox-replica",
        "observer_relay::session_moved_to_observer_leaves_connection_before_revalidation",
    ),
    ("a learner refuses an epoch below its accepted epoch", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("NEWLEADER is acknowledged after its epoch is durable", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a proposal is acknowledged after its fsync", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a transaction must follow the previous zxid", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("packets wait for the disk job of the current phase", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a learner that requested a snapshot accepts nothing else", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a quarantined member does not count for an epoch", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a learner leaves a silent leader", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a leader announces its epoch after storing it", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("the new epoch is above every accepted epoch", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a learner that is ahead of its leader is refused", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("an accepted epoch counts once per server", "ox-zab", "random_faults::random_faults_keep_one_served_history"),
    ("a leader is established by a quorum", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a leader without a quorum steps down", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a sync needs replies to a ping that was sent after it", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a leader whose disk hangs steps down", "ox-zab", "scripts::scripts_have_expected_effects"),
    (
        "transactions that a snapshot does not contain follow it",
        "ox-zab",
        "random_faults::random_faults_keep_one_served_history",
    ),
    (
        "a transaction is committed after a quorum has acknowledged it",
        "ox-zab",
        "broadcast::tests::three_voters_commit_after_two_acks",
    ),
    (
        "a learner with an unknown transaction is truncated",
        "ox-zab",
        "recent_log::tests::sync_mode_depends_on_end_of_learner_log",
    ),
    ("a learner that is ahead is truncated", "ox-zab", "recent_log::tests::learner_ahead_of_leader_is_truncated"),
    ("a role ends after its disk jobs have finished", "ox-zab", "scripts::scripts_have_expected_effects"),
    ("a quarantined member does not vote", "ox-zab", "scripts::scripts_have_expected_effects"),
    (
        "a candidate that does not reply is left out",
        "ox-zab",
        "deaf_members::leader_deaf_to_a_quorum_is_replaced_within_two_sync_limits",
    ),
    (
        "a leader that is not established asks for the current leader",
        "ox-zab",
        "random_faults::restarted_server_elected_by_old_votes_joins_the_leader_soon",
    ),
    (
        "an epoch needs a voter of every quorum of a proposed configuration",
        "ox-zab",
        "quorum::tests::proposed_configuration_without_quorum_elsewhere_may_elect",
    ),
    (
        "a member reports a session as expired after its closing is committed",
        "ox-replica",
        "leadership::k122_expiry_is_reported_after_proof_of_leadership",
    ),
    (
        "client connections are closed when the role ends",
        "ox-replica",
        "leadership::k121_leader_without_followers_expires_no_session",
    ),
    (
        "a leader reports a session as expired after its closing is committed",
        "ox-replica",
        "leadership::k121_leader_without_followers_expires_no_session",
    ),
    (
        "the newest connection of a session owns it",
        "ox-replica",
        "sessions::tests::previous_owner_does_not_regain_session",
    ),
    (
        "an observer forwards writes of its own sessions only",
        "ox-replica",
        "observer_relay::session_moved_from_observer_is_written_by_new_connection_only",
    ),
    ("no disk job follows a failed one", "ox-store", "member::jobs_after_a_failed_job_are_refused"),
    (
        "an epoch that does not continue the previous one is damage",
        "ox-store",
        "member_cases::missing_end_of_an_epoch_is_noticed",
    ),
    (
        "an unreadable record before a new epoch is damage",
        "ox-store",
        "member_cases::damage_before_an_epoch_is_noticed_in_apache_logs",
    ),
    (
        "a log follows the record that it names as its predecessor",
        "ox-store",
        "member_cases::missing_end_of_an_epoch_is_noticed_without_digests",
    ),
    (
        "files that would lead past a gap are retired",
        "ox-store",
        "member_cases::damage_to_a_covered_log_retires_older_snapshots",
    ),
    (
        "no snapshot is ahead of the synced log",
        "ox-store",
        "member_cases::k024_start_writes_no_snapshot_of_uncommitted_transactions",
    ),
    (
        "a snapshot that cannot be decompressed is damage",
        "ox-store",
        "snapshot::compress::tests::damage_is_distinguished_from_system_failures",
    ),
];
