//! Several servers.

use crate::survives;
use ox_sim::{Coverage, FaultProfile, Plan};

/// All operations, in all roles; and everything is there after a restart of all.
#[test]
fn k025_k140_calm_weather() {
    for (seed, voters, observers) in [(0, 3, 0), (1, 3, 0), (2, 3, 1), (3, 5, 0), (4, 2, 0), (5, 1, 1), (6, 7, 2)] {
        let outcome = survives(seed, &Plan::calm_ensemble(voters, observers));
        assert!(100 < outcome.coverage.replies, "seed {seed}: {} answers", outcome.coverage.replies);
        assert_eq!(outcome.coverage.expired, 0, "seed {seed}: nobody went away");
    }
}

/// One kind of fault at a time, on three voters and an observer.
fn check(faulty: impl Fn(&mut Plan), struck: impl Fn(&Coverage) -> u64) {
    check_seeds(6, faulty, struck);
}

/// The same with more seeds, for what few of them come to.
fn check_seeds(seeds: u64, faulty: impl Fn(&mut Plan), struck: impl Fn(&Coverage) -> u64) {
    let mut coverage = Coverage::default();
    for seed in 0..seeds {
        let mut plan = Plan::calm_ensemble(3, 1);
        plan.commit_log = 5;
        faulty(&mut plan);
        coverage.add(&survives(seed, &plan).coverage);
    }
    assert!(0 < struck(&coverage), "the fault never struck: {coverage:?}");
    assert!(0 < coverage.leaders, "nobody led");
}

#[test]
fn f1_processes_are_killed() {
    check(|plan| plan.kill_ms = 800, |coverage| coverage.kills);
}

#[test]
fn f2_processes_stand_still() {
    check(|plan| plan.freeze_ms = 1_500, |coverage| coverage.freezes);
}

#[test]
fn f9_power_goes() {
    check(|plan| plan.power_ms = 800, |coverage| coverage.power_cuts);
}

#[test]
fn f9_power_goes_between_two_disk_calls() {
    check(|plan| plan.power_at_call_ms = 300, |coverage| coverage.power_cuts);
}

#[test]
fn f10_a_sync_fails_and_loses_its_data() {
    check(
        |plan| plan.lost_sync_ms = 500,
        |coverage| coverage.log_errors + coverage.start_errors + coverage.snapshot_errors,
    );
}

/// Whose disk fails ends at once, and somebody else leads; it comes back with what its disk had reported.
#[test]
fn k010_k035_k036_a_disk_call_fails() {
    check(|plan| (plan.disk_error_ms, plan.snap_count) = (300, 4), |coverage| coverage.log_errors * coverage.leaders);
}

#[test]
fn f18_disks_are_slow() {
    check(|plan| plan.slow_disk_ms = 500, |coverage| coverage.group_commits);
}

#[test]
fn k095_the_disk_of_a_leader_hangs() {
    let faulty = |plan: &mut Plan| {
        (plan.hang_ms, plan.sync_ticks, plan.observers) = (700, 2, 0);
        (plan.think_us, plan.requests) = (100_000, 150);
    };
    check(faulty, |coverage| coverage.disk_stall_step_downs);
}

#[test]
fn k041_files_of_a_member_are_damaged() {
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
fn k057_everything_of_a_member_is_lost() {
    let faulty = |plan: &mut Plan| (plan.damage_ms, plan.kill_ms, plan.victim) = (200, 800, 1);
    check(faulty, |coverage| coverage.empty_starts);
}

#[test]
fn f13_the_disk_of_a_member_is_full() {
    check(|plan| plan.full_ms = 800, |coverage| coverage.full_disks);
}

/// Whose disk is nearly full lets others lead. With disks full everywhere, somebody leads, and refuses.
#[test]
fn p63_a_leader_whose_disk_is_nearly_full_gives_way() {
    let faulty = |plan: &mut Plan| {
        (plan.full_ms, plan.low_water_bytes, plan.preallocate_bytes, plan.observers) = (500, 8_000, 0, 0);
        (plan.think_us, plan.requests) = (50_000, 150);
    };
    check(faulty, |coverage| coverage.disk_low_step_downs);
}

#[test]
fn f27_a_way_between_servers_is_slow() {
    check(|plan| plan.slow_path_ms = 300, |coverage| coverage.roles_left);
}

#[test]
fn k085_epochs_have_an_end() {
    check(|plan| plan.epoch_txns = 20, |coverage| coverage.rollover_step_downs);
}

#[test]
fn learners_get_what_is_stored() {
    let faulty = |plan: &mut Plan| (plan.wire_ms, plan.kill_ms, plan.commit_log, plan.size_factor) = (500, 800, 2, 1e9);
    check(faulty, |coverage| coverage.log_diffs);
}

/// Links that hold little, writes that fill them, members that pause and read slowly: `checkers/elections.rs` judges.
#[test]
fn full_links_and_paused_members_cost_no_election() {
    let mut coverage = Coverage::default();
    for seed in 0..8 {
        coverage.add(&survives(seed, &Plan::with_profile(seed, FaultProfile::Links)).coverage);
    }
    let met = [coverage.full_wires, coverage.freezes, coverage.slow_reads, coverage.continued_diffs];
    assert!(met.iter().all(|count| 0 < *count), "full links, pauses, slow readers, logs read again: {met:?}");
}

#[test]
fn f25_servers_do_not_hear_each_other() {
    check(|plan| plan.partition_ms = 1_000, |coverage| coverage.partitions);
}

/// How long writes pause is judged by the checker of outages.
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
    assert!(0 < struck, "no voter lost anything");
}

#[test]
fn k029_connections_of_servers_break_in_the_middle_of_a_packet() {
    check(|plan| plan.wire_ms = 300, |coverage| coverage.wires_cut);
}

#[test]
fn f34_wall_clocks_jump() {
    check(|plan| (plan.clock_ms, plan.kill_ms) = (300, 1_500), |coverage| coverage.clock_jumps);
}

#[test]
fn sessions_move_between_servers() {
    check(|plan| (plan.take_over_per_mille, plan.cut_ms) = (100, 300), |coverage| coverage.moved);
}

/// New connections wait while leaders change.
#[test]
fn handshakes_wait_for_the_next_leader() {
    let faulty = |plan: &mut Plan| {
        (plan.change_per_mille, plan.kill_ms, plan.cut_ms, plan.wire_ms) = (200, 1_500, 300, 1_000);
    };
    check(faulty, |coverage| coverage.parked);
}

#[test]
fn k031_histories_are_replaced() {
    let faulty = |plan: &mut Plan| {
        (plan.partition_ms, plan.power_ms, plan.wire_ms) = (800, 1_500, 800);
        (plan.requests, plan.commit_log) = (150, 3);
    };
    check(faulty, |coverage| coverage.installs);
}

/// K102, P20: servers come, go and change their roles, the leader too; files and histories stay one.
#[test]
fn k102_the_ensemble_changes() {
    let faulty = |plan: &mut Plan| (plan.change_per_mille, plan.kill_ms) = (300, 3_000);
    check(faulty, |coverage| coverage.configs.min(coverage.config_files));
}

/// K104: the files of a configuration name one that was agreed on, whatever disk call the power goes at.
#[test]
fn k104_power_goes_while_the_ensemble_changes() {
    let faulty = |plan: &mut Plan| (plan.change_per_mille, plan.power_at_call_ms) = (400, 500);
    check(faulty, |coverage| coverage.configs.min(coverage.power_cuts));
}

#[test]
fn k026_observers_follow_followers() {
    let faulty = |plan: &mut Plan| {
        (plan.observer_masters, plan.observers, plan.wire_ms) = (true, 2, 1_000);
        (plan.take_over_per_mille, plan.sync_per_mille) = (50, 200);
    };
    check(faulty, |coverage| coverage.observer_master_links);
}

/// P29, K100: who still hears old answers proves nothing by them.
#[test]
fn k100_a_leader_is_deposed_and_hears_old_answers() {
    let faulty = |plan: &mut Plan| {
        (plan.depose_ms, plan.sync_per_mille, plan.sync_ticks) = (1_500, 500, 3);
        (plan.think_us, plan.requests) = (100_000, 150);
    };
    check(faulty, |coverage| coverage.deposed);
}

/// P45: sessions that only their server knows, until they want an ephemeral node.
#[test]
fn k113_sessions_are_local() {
    let faulty = |plan: &mut Plan| {
        (plan.local_sessions, plan.cut_ms, plan.slow_path_ms, plan.client_pause_ms) = (true, 500, 500, 1_000);
        (plan.tick_ms, plan.timeouts_ms, plan.think_us) = (200, (400, 800), 200_000);
    };
    check(faulty, |coverage| coverage.local_sessions.min(coverage.upgraded).min(coverage.expired));
}

/// K27, K124: who has lost its quorum shows what it has to those who asked for no more, takes nothing, and sends
/// everybody away when there is a leader again.
#[test]
fn k027_servers_without_a_leader_are_read() {
    let faulty = |plan: &mut Plan| {
        (plan.read_only, plan.local_sessions, plan.partition_ms) = (true, true, 1_000);
        (plan.tick_ms, plan.timeouts_ms, plan.think_us, plan.requests) = (200, (400, 2_000), 100_000, 150);
    };
    check_seeds(20, faulty, |coverage| coverage.read_only_sessions.min(coverage.read_only_refusals));
}

/// What peers say is acted upon one by one, or in batches as large as can be.
#[test]
fn packets_are_taken_in_batches() {
    for settle_per_mille in [0, 1000] {
        let faulty = |plan: &mut Plan| (plan.settle_per_mille, plan.wire_ms, plan.burst) = (settle_per_mille, 500, 20);
        check(faulty, |coverage| coverage.wires_cut);
    }
}
