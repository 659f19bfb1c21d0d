//! Every call fails once, and power goes at every call: nothing acknowledged is lost, every start works without
//! help, and what was given up never comes back (P54, P55, P56, P59, P60).
//!
//! A case is a run of the workload up to a fault, then what the world makes of it: the process dies and starts
//! again, or power is lost and some unsynced pieces survive. Each start is followed by another power cut in which
//! nothing unsynced survives: what was served once must still be there.

use crate::corruption::check_log_ends;
use crate::sim::open;
use crate::workload::{History, run};
use ox_store::Error;
use ox_store::disk::{Fault, Keep, SimDisk};
use std::io::ErrorKind;

/// First start, work with rolls, snapshots and purges, clean stop, second start, work, sudden end.
fn work(disk: &SimDisk, history: &mut History) -> Result<(), Error> {
    let mut opened = open(disk)?;
    run(&mut opened, &[1, 2, 5, 1, 3, 4, 2, 6, 1, 1, 8], history)?;
    opened.log.close()?;
    drop(opened.store);
    let mut opened = open(disk)?;
    history.sync_every = 3;
    run(&mut opened, &[3, 1, 7, 2, 9, 1, 4, 8, 1, 1, 1, 1], history)
}

/// Runs the workload on a fresh disk with `fault` at call `call`; `None` when the fault was not reached.
fn run_until(call: u64, fault: Fault) -> Option<(SimDisk, History)> {
    let disk = SimDisk::new();
    disk.set_fault(call, fault);
    let mut history = History::default();
    let outcome = work(&disk, &mut history);
    if outcome.is_ok() && disk.calls() < call {
        return None;
    }
    disk.clear_faults();
    Some((disk, history))
}

/// Starts, checks, works on with other content, loses power, starts and checks again.
fn check_start(disk: &SimDisk, history: &History, what: &str) {
    let mut history = history.clone();
    let mut opened = open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    history.settle(&opened.state, what);
    check_log_ends(disk, what);
    let idle = disk.fork();
    idle.power_on(Keep::Nothing);
    let again = open(&idle).unwrap_or_else(|error| panic!("{what}, cut right after: {error}"));
    history.clone().settle(&again.state, &format!("{what}, cut right after"));

    history.salt += 1;
    run(&mut opened, &[2, 9, 1], &mut history).unwrap();
    drop(opened);
    for keep in [Keep::Nothing, Keep::Everything] {
        let disk = disk.fork();
        disk.power_on(keep);
        let opened = open(&disk).unwrap_or_else(|error| panic!("{what}, then {keep:?}: {error}"));
        history.clone().settle(&opened.state, &format!("{what}, then {keep:?}"));
    }
}

fn outcomes(disk: &SimDisk, seed: u64) -> Vec<Keep> {
    let pieces = disk.unsynced_pieces();
    let mut keeps = vec![Keep::Nothing, Keep::Everything];
    keeps.extend((0..pieces).flat_map(|piece| [Keep::Only(piece), Keep::AllBut(piece)]));
    keeps.extend((0..4).map(|round| Keep::Random(seed * 4 + round)));
    keeps
}

#[test]
fn power_cut_at_every_call() {
    let mut states = 0;
    for call in 1.. {
        let Some((disk, history)) = run_until(call, Fault::PowerCut) else { break };
        for keep in outcomes(&disk, call) {
            let disk = disk.fork();
            disk.power_on(keep);
            check_start(&disk, &history, &format!("power cut at call {call}, {keep:?}"));
            states += 1;
        }
    }
    assert!(1_000 < states, "only {states} states");
}

#[test]
fn power_cut_at_every_call_of_the_recovery_after_a_power_cut() {
    let mut states = 0;
    for call in 1.. {
        let Some((disk, history)) = run_until(call, Fault::PowerCut) else { break };
        disk.power_on(Keep::Random(call));
        for second in 1.. {
            let disk = disk.fork();
            disk.set_fault(disk.calls() + second, Fault::PowerCut);
            if open(&disk).is_ok() {
                break;
            }
            disk.power_on(Keep::Random(call * 1_000 + second));
            let opened = open(&disk).unwrap_or_else(|error| panic!("cut at {call}, then at {second}: {error}"));
            history.clone().settle(&opened.state, &format!("cut at {call}, then at {second}"));
            states += 1;
        }
    }
    assert!(1_000 < states, "only {states} states");
}

#[test]
fn every_call_fails_once() {
    let faults = [ErrorKind::StorageFull, ErrorKind::PermissionDenied, ErrorKind::Other];
    for fault in faults.map(Fault::Error).into_iter().chain([Fault::LostSync]) {
        for call in 1.. {
            let Some((disk, history)) = run_until(call, fault) else { break };
            let what = format!("{fault:?} at call {call}");
            let restarted = disk.fork();
            restarted.restart_process();
            check_start(&restarted, &history, &format!("{what}, restart"));
            for keep in [Keep::Nothing, Keep::Everything, Keep::Random(call)] {
                let disk = disk.fork();
                disk.power_on(keep);
                check_start(&disk, &history, &format!("{what}, {keep:?}"));
            }
        }
    }
}
