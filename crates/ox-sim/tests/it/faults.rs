//! One kind of fault at a time, often: each must be survived by itself, and must really strike.

use crate::survives;
use ox_sim::{Marks, Plan};

fn check(faulty: impl Fn(&mut Plan), struck: impl Fn(&Marks) -> u64) {
    let mut marks = Marks::default();
    for seed in 0..8 {
        let mut plan = Plan::calm();
        faulty(&mut plan);
        marks.add(&survives(seed, &plan).marks);
    }
    assert!(0 < struck(&marks), "the fault never struck: {marks:?}");
}

#[test]
fn f1_the_process_is_killed() {
    check(|plan| plan.kill_ms = 800, |marks| marks.kills);
}

#[test]
fn f2_the_process_stands_still() {
    check(|plan| plan.freeze_ms = 1_500, |marks| marks.pauses_noticed);
}

#[test]
fn f7_the_process_hardly_runs() {
    check(|plan| (plan.stall_ms, plan.thread_delay_us) = (500, 1_000), |marks| marks.answers);
}

#[test]
fn f9_power_goes() {
    check(|plan| plan.power_ms = 800, |marks| marks.power_cuts);
}

#[test]
fn f9_power_goes_between_two_disk_calls() {
    check(|plan| plan.power_at_call_ms = 500, |marks| marks.power_cuts);
}

#[test]
fn f9_power_goes_before_the_sync() {
    let faulty = |plan: &mut Plan| {
        plan.power_before_sync_ms = 600;
        plan.burst = 20;
    };
    check(faulty, |marks| marks.power_cuts_before_sync);
}

#[test]
fn f9_power_tears_the_first_batch_of_a_log() {
    let faulty = |plan: &mut Plan| {
        plan.power_before_sync_ms = 500;
        (plan.burst, plan.snap_count, plan.large_per_mille) = (20, 8, 500);
    };
    check(faulty, |marks| marks.torn_tails);
}

#[test]
fn copy_of_a_running_server_starts_or_has_to_be_made_again() {
    let faulty = |plan: &mut Plan| {
        (plan.copy_ms, plan.snap_count, plan.stop_ms) = (200, 6, 3_000);
        (plan.burst, plan.requests) = (10, 200);
    };
    check(faulty, |marks| marks.copies.saturating_sub(marks.copies_refused * 10));
}

#[test]
fn f10_a_sync_fails_and_loses_its_data() {
    check(|plan| plan.lost_sync_ms = 500, |marks| marks.log_errors + marks.start_errors + marks.snapshot_errors);
}

#[test]
fn f12_a_disk_call_fails() {
    check(|plan| plan.disk_error_ms = 500, |marks| marks.log_errors + marks.start_errors + marks.snapshot_errors);
}

#[test]
fn f13_the_disk_is_full() {
    check(|plan| plan.full_ms = 800, |marks| marks.refused_writes);
}

#[test]
fn f18_the_disk_is_slow() {
    check(|plan| plan.slow_disk_ms = 800, |marks| marks.group_commits);
}

#[test]
fn f27_the_network_is_slow() {
    check(|plan| (plan.slow_net_ms, plan.net_delay_us) = (800, 50_000), |marks| marks.answers);
}

#[test]
fn f28_connections_break_in_the_middle_of_a_frame() {
    check(|plan| plan.cut_ms = 100, |marks| marks.resumed);
}

#[test]
fn f34_the_wall_clock_jumps() {
    check(|plan| plan.clock_ms = 300, |marks| marks.clock_jumps);
}

#[test]
fn f37_a_client_sleeps() {
    let faulty = |plan: &mut Plan| {
        plan.nap_ms = 500;
        plan.window_bytes = 64;
        plan.unsent_pause_bytes = 256;
    };
    check(faulty, |marks| marks.slow_reader_pauses);
}

#[test]
fn f37_clients_send_more_than_the_server_takes() {
    let faulty = |plan: &mut Plan| {
        (plan.outstanding_max, plan.burst, plan.think_us) = (1, 30, 5_000);
        plan.throttle_max = Some(4);
    };
    check(faulty, |marks| marks.stalled);
    let faulty = |plan: &mut Plan| (plan.outstanding_max, plan.burst, plan.think_us) = (1, 30, 5_000);
    check(faulty, |marks| marks.one_each);
}

#[test]
fn f38_connections_are_let_in_one_by_one() {
    check(|plan| (plan.connection_tokens, plan.cut_ms) = (1, 100), |marks| marks.resumed);
}

#[test]
fn sessions_move_while_the_old_connection_lives() {
    check(|plan| plan.take_over_per_mille = 200, |marks| marks.taken_over);
}

#[test]
fn sessions_are_abandoned() {
    check(|plan| plan.abandon_ms = 1_000, |marks| marks.expired);
}

#[test]
fn clean_stops_lose_nothing() {
    check(|plan| plan.stop_ms = 1_000, |marks| marks.clean_stops);
}
