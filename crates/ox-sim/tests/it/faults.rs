//! A standalone server with one kind of fault at a time, often: it must survive, and the fault must occur.

use crate::survives;
use ox_sim::{CoverageCounts, Plan};

fn check(faulty: impl Fn(&mut Plan), struck: impl Fn(&CoverageCounts) -> u64) {
    let mut coverage = CoverageCounts::default();
    for seed in 0..8 {
        let mut plan = Plan::calm();
        faulty(&mut plan);
        coverage.add(&survives(seed, &plan).coverage);
    }
    assert!(0 < struck(&coverage), "the fault never occurred: {coverage:?}");
}

#[test]
fn f1_server_survives_kills() {
    check(|plan| plan.kill_ms = 800, |coverage| coverage.kills);
}

#[test]
fn f2_server_detects_freezes() {
    check(|plan| plan.freeze_ms = 1_500, |coverage| coverage.pauses_noticed);
}

#[test]
fn f7_server_survives_slow_threads() {
    check(|plan| (plan.stall_ms, plan.thread_delay_us) = (500, 1_000), |coverage| coverage.replies);
}

#[test]
fn f9_server_survives_power_cuts() {
    check(|plan| plan.power_ms = 800, |coverage| coverage.power_cuts);
}

#[test]
fn f9_server_survives_power_cuts_between_disk_calls() {
    check(|plan| plan.power_at_call_ms = 500, |coverage| coverage.power_cuts);
}

#[test]
fn f9_server_survives_power_cuts_before_fsync() {
    let faulty = |plan: &mut Plan| {
        plan.power_before_sync_ms = 600;
        plan.burst = 20;
    };
    check(faulty, |coverage| coverage.power_cuts_before_sync);
}

#[test]
fn f9_server_truncates_torn_first_batch_of_a_log() {
    let faulty = |plan: &mut Plan| {
        plan.power_before_sync_ms = 500;
        (plan.burst, plan.snap_count, plan.large_per_mille) = (20, 8, 500);
    };
    check(faulty, |coverage| coverage.torn_tails);
}

#[test]
fn copy_of_running_server_starts_or_is_refused() {
    let faulty = |plan: &mut Plan| {
        (plan.copy_ms, plan.snap_count, plan.stop_ms) = (200, 6, 3_000);
        (plan.burst, plan.requests) = (10, 200);
    };
    check(faulty, |coverage| coverage.copies.saturating_sub(coverage.copies_refused * 10));
}

#[test]
fn f10_server_survives_fsyncs_that_fail_and_lose_data() {
    check(
        |plan| plan.lost_sync_ms = 500,
        |coverage| coverage.log_errors + coverage.start_errors + coverage.snapshot_errors,
    );
}

#[test]
fn f12_server_survives_failed_disk_calls() {
    check(
        |plan| plan.disk_error_ms = 500,
        |coverage| coverage.log_errors + coverage.start_errors + coverage.snapshot_errors,
    );
}

#[test]
fn f13_server_with_full_disk_refuses_writes() {
    check(|plan| plan.full_ms = 800, |coverage| coverage.refused_writes);
}

#[test]
fn f18_server_with_slow_disk_commits_in_groups() {
    check(|plan| plan.slow_disk_ms = 800, |coverage| coverage.group_commits);
}

#[test]
fn f27_server_survives_slow_network() {
    check(|plan| (plan.slow_net_ms, plan.net_delay_us) = (800, 50_000), |coverage| coverage.replies);
}

#[test]
fn f28_sessions_survive_connections_that_break_within_a_frame() {
    check(|plan| plan.cut_ms = 100, |coverage| coverage.resumed);
}

#[test]
fn f34_server_survives_jumps_of_the_wall_clock() {
    check(|plan| plan.clock_ms = 300, |coverage| coverage.clock_jumps);
}

#[test]
fn f37_paused_client_is_slowed_down_as_slow_reader() {
    let faulty = |plan: &mut Plan| {
        plan.client_pause_ms = 500;
        plan.window_bytes = 64;
        plan.unsent_pause_bytes = 256;
    };
    check(faulty, |coverage| coverage.slow_reader_pauses);
}

#[test]
fn f37_overloaded_server_limits_admission() {
    let faulty = |plan: &mut Plan| {
        (plan.outstanding_max, plan.burst, plan.think_us) = (1, 30, 5_000);
        plan.throttle_max = Some(4);
    };
    check(faulty, |coverage| coverage.stalled);
    let faulty = |plan: &mut Plan| (plan.outstanding_max, plan.burst, plan.think_us) = (1, 30, 5_000);
    check(faulty, |coverage| coverage.one_per_connection);
}

#[test]
fn f38_sessions_survive_connection_throttling() {
    check(|plan| (plan.connection_tokens, plan.cut_ms) = (1, 100), |coverage| coverage.resumed);
}

#[test]
fn sessions_move_while_the_old_connection_is_open() {
    check(|plan| plan.take_over_per_mille = 200, |coverage| coverage.taken_over);
}

#[test]
fn abandoned_sessions_expire() {
    check(|plan| plan.abandon_ms = 1_000, |coverage| coverage.expired);
}

#[test]
fn clean_stops_lose_nothing() {
    check(|plan| plan.stop_ms = 1_000, |coverage| coverage.clean_stops);
}
