//! Ensembles, mostly with one kind of fault at a time.

use crate::survives;
use ox_sim::{CoverageCounts, FaultProfile, Plan};

/// All operations in all roles, without faults; a restart of all servers recovers everything.
#[test]
fn k025_k140_ensemble_without_faults_serves_all_operations() {
    for (seed, voters, observers) in [(0, 3, 0), (1, 3, 0), (2, 3, 1), (3, 5, 0), (4, 2, 0), (5, 1, 1), (6, 7, 2)] {
        let outcome = survives(seed, &Plan::calm_ensemble(voters, observers));
        assert!(100 < outcome.coverage.replies, "seed {seed}: {} replies", outcome.coverage.replies);
        assert_eq!(outcome.coverage.expired, 0, "seed {seed}: no session expires");
    }
}

/// Runs three voters and an observer with one kind of fault, and checks that the fault occurred.
fn check(faulty: impl Fn(&mut Plan), struck: impl Fn(&CoverageCounts) -> u64) {
    check_seeds(6, faulty, struck);
}

/// As `check`, with more seeds for rare situations.
fn check_seeds(seeds: u64, faulty: impl Fn(&mut Plan), struck: impl Fn(&CoverageCounts) -> u64) {
    let mut coverage = CoverageCounts::default();
    for seed in 0..seeds {
        let mut plan = Plan::calm_ensemble(3, 1);
        plan.commit_log = 5;
        faulty(&mut plan);
        coverage.add(&survives(seed, &plan).coverage);
    }
    assert!(0 < struck(&coverage), "the fault never occurred: {coverage:?}");
    assert!(0 < coverage.leaders, "no leader was established");
}

#[test]
fn f1_ensemble_survives_killed_processes() {
    check(|plan| plan.kill_ms = 800, |coverage| coverage.kills);
}

#[test]
fn f2_ensemble_survives_frozen_processes() {
    check(|plan| plan.freeze_ms = 1_500, |coverage| coverage.freezes);
}

#[test]
fn f9_ensemble_survives_power_cuts() {
    check(|plan| plan.power_ms = 800, |coverage| coverage.power_cuts);
}

#[test]
fn f9_ensemble_survives_power_cuts_between_disk_calls() {
    check(|plan| plan.power_at_call_ms = 300, |coverage| coverage.power_cuts);
}

#[test]
fn f10_ensemble_survives_fsyncs_that_fail_and_lose_data() {
    check(
        |plan| plan.lost_sync_ms = 500,
        |coverage| coverage.log_errors + coverage.start_errors + coverage.snapshot_errors,
    );
}

/// A server whose disk fails ends immediately and another one leads. It recovers what its disk had reported.
#[test]
fn k010_k035_k036_server_with_failed_disk_call_ends_and_recovers() {
    check(|plan| (plan.disk_error_ms, plan.snap_count) = (300, 4), |coverage| coverage.log_errors * coverage.leaders);
}

#[test]
fn f18_ensemble_survives_slow_disks() {
    check(|plan| plan.slow_disk_ms = 500, |coverage| coverage.group_commits);
}

#[test]
fn k095_leader_with_hung_disk_steps_down() {
    let faulty = |plan: &mut Plan| {
        (plan.hang_ms, plan.sync_ticks, plan.observers) = (700, 2, 0);
        (plan.think_us, plan.requests) = (100_000, 150);
    };
    check(faulty, |coverage| coverage.disk_stall_step_downs);
}

#[test]
fn k041_member_with_damaged_files_is_quarantined() {
    check(|plan| (plan.damage_ms, plan.kill_ms) = (700, 1_500), |coverage| coverage.quarantines);
}

#[test]
fn k058_member_on_a_copy_of_its_own_directory_loses_nothing_acknowledged() {
    check(
        |plan| (plan.copy_ms, plan.stop_ms, plan.depose_ms) = (600, 2_000, 1_500),
        |coverage| coverage.copies.min(coverage.quarantines),
    );
}

#[test]
fn k057_member_without_its_files_is_synchronised() {
    let faulty = |plan: &mut Plan| (plan.damage_ms, plan.kill_ms, plan.victim) = (200, 800, 1);
    check(faulty, |coverage| coverage.empty_starts);
}

#[test]
fn f13_ensemble_survives_full_disks() {
    check(|plan| plan.full_ms = 800, |coverage| coverage.full_disks);
}

/// A leader whose disk is low steps down. If all disks are low, one server leads and refuses writes.
#[test]
fn p63_leader_with_low_disk_steps_down() {
    let faulty = |plan: &mut Plan| {
        (plan.full_ms, plan.low_water_bytes, plan.preallocate_bytes, plan.observers) = (500, 8_000, 0, 0);
        (plan.think_us, plan.requests) = (50_000, 150);
    };
    check_seeds(20, faulty, |coverage| coverage.disk_low_step_downs);
}

#[test]
fn large_requests_beyond_their_limit_are_refused() {
    check(|plan| (plan.large_bytes, plan.large_bytes_max) = (Some(60), 120), |coverage| coverage.large_refused);
}

#[test]
fn f27_ensemble_survives_slow_paths() {
    check_seeds(20, |plan| plan.slow_path_ms = 300, |coverage| coverage.roles_left);
}

#[test]
fn k085_leader_steps_down_when_zxid_rolls_over() {
    check(|plan| plan.epoch_txns = 20, |coverage| coverage.rollover_step_downs);
}

#[test]
fn learners_beyond_the_recent_log_get_log_diffs() {
    let faulty = |plan: &mut Plan| (plan.wire_ms, plan.kill_ms, plan.commit_log, plan.size_factor) = (500, 800, 2, 1e9);
    check(faulty, |coverage| coverage.log_diffs);
}

/// Small link buffers, large writes, pauses and slow readers: `checkers/elections.rs` checks that no election runs.
#[test]
fn full_links_and_paused_members_cause_no_election() {
    let mut coverage = CoverageCounts::default();
    for seed in 40..140 {
        coverage.add(&survives(seed, &Plan::with_profile(seed, FaultProfile::Links)).coverage);
        let met = [
            coverage.full_wires,
            coverage.full_links,
            coverage.partial_link_reads,
            coverage.partial_link_writes,
            coverage.freezes,
            coverage.slow_reads,
            coverage.continued_diffs,
        ];
        if 47 <= seed && met.iter().all(|count| 0 < *count) {
            return;
        }
    }
    panic!("a situation of full links, pauses or continued log diffs was not met");
}

#[test]
fn links_transfer_everything_although_reads_and_writes_end_at_any_byte() {
    let faulty = |plan: &mut Plan| {
        (plan.link_partial_per_mille, plan.link_chunk_bytes, plan.wire_bytes) = (500, 100, 500);
        plan.wire_ms = 2_000; // learners are synchronised again and again
    };
    check(faulty, |coverage| coverage.partial_link_reads.min(coverage.partial_link_writes).min(coverage.full_wires));
}

#[test]
fn links_are_not_read_while_the_replica_has_many_packets() {
    check(|plan| (plan.held_bytes, plan.slow_disk_ms) = (1, 500), |coverage| coverage.full_links);
}

#[test]
fn f25_ensemble_survives_partitions() {
    check(|plan| plan.partition_ms = 1_000, |coverage| coverage.partitions);
}

/// `checkers/outage.rs` limits how long writes pause.
#[test]
fn f25_deaf_or_mute_servers_do_not_stop_writes() {
    let faulty = |plan: &mut Plan| {
        (plan.tick_ms, plan.sync_ticks) = (200, 3);
        (plan.one_way_ms, plan.active_ms) = (4_000, 30_000);
    };
    check(faulty, |coverage| coverage.one_way);
}

#[test]
fn empty_voter_of_proposed_configuration_does_not_stop_the_ensemble() {
    let mut struck = 0;
    for seed in 0..12 {
        let mut plan = Plan::calm_ensemble(3, 2);
        (plan.change_per_mille, plan.empty_joiner_per_mille) = (400, 1_000);
        struck += survives(seed, &plan).coverage.empty_joiners;
    }
    assert!(0 < struck, "no voter lost its disk");
}

#[test]
fn k029_ensemble_survives_wires_that_break_within_a_packet() {
    check(|plan| plan.wire_ms = 300, |coverage| coverage.wires_cut);
}

#[test]
fn f34_ensemble_survives_jumps_of_the_wall_clock() {
    check(|plan| (plan.clock_ms, plan.kill_ms) = (300, 1_500), |coverage| coverage.clock_jumps);
}

#[test]
fn sessions_move_between_servers() {
    check(|plan| (plan.take_over_per_mille, plan.cut_ms) = (100, 300), |coverage| coverage.moved);
}

#[test]
fn handshakes_wait_for_the_next_leader() {
    let faulty = |plan: &mut Plan| {
        (plan.change_per_mille, plan.kill_ms, plan.cut_ms, plan.wire_ms) = (200, 1_500, 300, 1_000);
    };
    check(faulty, |coverage| coverage.parked);
}

#[test]
fn k031_learners_install_snapshots() {
    let faulty = |plan: &mut Plan| {
        (plan.partition_ms, plan.power_ms, plan.wire_ms) = (800, 1_500, 800);
        (plan.requests, plan.commit_log) = (150, 3);
    };
    check(faulty, |coverage| coverage.installs);
}

/// Servers join, leave and change their roles, the leader too; all end with one configuration and history (K102, P20).
#[test]
fn k102_reconfigured_ensemble_stays_consistent() {
    let faulty = |plan: &mut Plan| (plan.change_per_mille, plan.kill_ms) = (300, 3_000);
    check(faulty, |coverage| coverage.configs.min(coverage.config_files));
}

/// Configuration files name a committed configuration, whichever disk call a power cut hits (K104).
#[test]
fn k104_reconfiguration_survives_power_cuts() {
    let faulty = |plan: &mut Plan| (plan.change_per_mille, plan.power_at_call_ms) = (400, 500);
    check(faulty, |coverage| coverage.configs.min(coverage.power_cuts));
}

#[test]
fn k026_observers_connect_to_followers() {
    let faulty = |plan: &mut Plan| {
        (plan.observer_masters, plan.observers, plan.wire_ms) = (true, 2, 1_000);
        (plan.take_over_per_mille, plan.sync_per_mille) = (50, 200);
    };
    check(faulty, |coverage| coverage.observer_master_links);
}

/// Delayed replies are no proof of leadership (P29, K100).
#[test]
fn k100_deposed_leader_with_delayed_replies_serves_no_sync() {
    let faulty = |plan: &mut Plan| {
        (plan.depose_ms, plan.sync_per_mille, plan.sync_ticks) = (1_500, 500, 3);
        (plan.think_us, plan.requests) = (100_000, 150);
    };
    check(faulty, |coverage| coverage.deposed);
}

/// Local sessions are upgraded when they create an ephemeral node (P45).
#[test]
fn k113_local_sessions_survive_faults() {
    let faulty = |plan: &mut Plan| {
        (plan.local_sessions, plan.cut_ms, plan.slow_path_ms, plan.client_pause_ms) = (true, 500, 500, 1_000);
        (plan.tick_ms, plan.timeouts_ms, plan.think_us) = (200, (400, 800), 200_000);
    };
    check(faulty, |coverage| coverage.local_sessions.min(coverage.upgraded).min(coverage.expired));
}

/// A server without a quorum serves reads to read-only clients, refuses writes, and closes these connections when it has
/// a leader again (K27, K124).
#[test]
fn k027_server_without_leader_serves_reads_only() {
    let faulty = |plan: &mut Plan| {
        (plan.read_only, plan.local_sessions, plan.partition_ms) = (true, true, 1_000);
        (plan.tick_ms, plan.timeouts_ms, plan.think_us, plan.requests) = (200, (400, 2_000), 100_000, 150);
    };
    check_seeds(40, faulty, |coverage| coverage.read_only_sessions.min(coverage.read_only_refusals));
}

/// Input of peers is processed one by one, or in batches as large as possible.
#[test]
fn batch_size_of_peer_input_does_not_matter() {
    for flush_per_mille in [0, 1000] {
        let faulty = |plan: &mut Plan| (plan.flush_per_mille, plan.wire_ms, plan.burst) = (flush_per_mille, 500, 20);
        check(faulty, |coverage| coverage.wires_cut);
    }
}
