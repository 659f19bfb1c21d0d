//! Every disk call fails once, and power is cut at every call: nothing acknowledged is lost, every start succeeds
//! without an operator, and dropped transactions never reappear (P54, P55, P56, P59, P60).
//!
//! A case runs the workload up to a fault. Then the process restarts, or power is lost and some unsynced pieces
//! survive. After each start power is cut again without any unsynced piece surviving: everything that was served must
//! still exist.

use crate::corruption::check_log_ends;
use crate::sim_stores::{file, golden, open_with, options};
use crate::workload::{History, run};
use ox_proto::Zxid;
use ox_store::disk::{Disk, DiskFault, KeepUnsynced, OpenMode, SimDisk};
use ox_store::names::Compression;
use ox_store::{Opened, StoreError, StoreOptions};
use std::collections::BTreeSet;
use std::io::ErrorKind;

/// The disk, options and history of a case.
#[derive(Clone)]
struct Case {
    options: StoreOptions,
    disk: SimDisk,
    history: History,
}

impl Case {
    fn new() -> Self {
        Self { options: options(), disk: SimDisk::new(), history: History::default() }
    }

    fn fork(&self) -> Self {
        Self { disk: self.disk.fork(), ..self.clone() }
    }

    fn open(&self) -> Result<Opened, StoreError> {
        open_with(&self.disk, &self.options)
    }

    /// First start, work with rolls, snapshots and purges, clean stop, second start, work, crash.
    fn work(&mut self) -> Result<(), StoreError> {
        let mut opened = self.open()?;
        run(&mut opened, &[1, 2, 5, 1, 3, 4, 2, 6, 1, 1, 8], &mut self.history)?;
        opened.log.close()?;
        drop(opened.store);
        let mut opened = self.open()?;
        self.history.sync_every = 3;
        run(&mut opened, &[3, 1, 7, 2, 9, 1, 4, 8, 1, 1, 1, 1], &mut self.history)
    }

    /// A fork on which the workload met `fault` at call `call`; `None` if it ended before.
    fn until(&self, call: u64, fault: DiskFault) -> Option<Self> {
        let mut case = self.fork();
        case.disk.set_fault(case.disk.calls() + call, fault);
        let last = case.disk.calls() + call;
        let outcome = case.work();
        if outcome.is_ok() && case.disk.calls() < last {
            return None;
        }
        case.disk.clear_faults();
        Some(case)
    }

    /// Starts, checks, continues with other contents, cuts the power, starts and checks again.
    fn check_start(mut self, what: &str) {
        let mut opened = self.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        self.history.settle(&opened.state, what);
        if self.options.log_dir.is_none() {
            check_log_ends(&self.disk, what);
        }
        self.check_after(KeepUnsynced::Nothing, &format!("{what}, cut right after"));
        self.history.salt += 1;
        run(&mut opened, &[2, 9, 1], &mut self.history).unwrap();
        drop(opened);
        for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything] {
            self.check_after(keep, &format!("{what}, then {keep:?}"));
        }
    }

    fn check_after(&self, keep: KeepUnsynced, what: &str) {
        let mut case = self.fork();
        case.disk.power_on(keep);
        let opened = case.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        case.history.settle(&opened.state, what);
    }
}

fn outcomes(disk: &SimDisk, seed: u64) -> Vec<KeepUnsynced> {
    let pieces = disk.unsynced_pieces();
    let mut keeps = vec![KeepUnsynced::Nothing, KeepUnsynced::Everything];
    keeps.extend((0..pieces).flat_map(|piece| [KeepUnsynced::Only(piece), KeepUnsynced::AllBut(piece)]));
    keeps.extend((0..4).map(|round| KeepUnsynced::Random(seed * 4 + round)));
    keeps
}

#[test]
fn power_cut_at_every_call() {
    let mut states = 0;
    for call in 1.. {
        let Some(case) = Case::new().until(call, DiskFault::PowerCut) else { break };
        for keep in outcomes(&case.disk, call) {
            let case = case.fork();
            case.disk.power_on(keep);
            case.check_start(&format!("power cut at call {call}, {keep:?}"));
            states += 1;
        }
    }
    assert!(5_000 < states, "only {states} states");
}

#[test]
fn power_cut_with_two_directories_and_compression() {
    for compression in [Compression::Gz, Compression::Snappy] {
        let mut start = Case::new();
        start.options.log_dir = Some("/logs/zk".into());
        start.options.compression = compression;
        for call in 1.. {
            let Some(case) = start.until(call, DiskFault::PowerCut) else { break };
            for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything, KeepUnsynced::Random(call)] {
                let case = case.fork();
                case.disk.power_on(keep);
                case.check_start(&format!("{compression:?}, power cut at call {call}, {keep:?}"));
            }
        }
    }
}

#[test]
fn power_cut_while_taking_over_from_apache() {
    for set in ["e-corrupt/undamaged", "e-corrupt/torn-tail-hole", "e-corrupt/flip-data-covered"] {
        let start = Case { options: options(), disk: golden(set).0, history: History::after(set) };
        for call in 1.. {
            let Some(case) = start.until(call, DiskFault::PowerCut) else { break };
            for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything, KeepUnsynced::Random(call)] {
                let mut case = case.fork();
                case.disk.power_on(keep);
                let what = format!("{set}, power cut at call {call}, {keep:?}");
                let opened = case.open().unwrap_or_else(|error| panic!("{what}: {error}"));
                case.history.settle(&opened.state, &what);
                drop(opened);
                case.check_after(KeepUnsynced::Nothing, &what);
            }
        }
    }
}

/// Another server wrote to the directory after us and was killed: its records are in the page cache only. A power cut
/// may tear its log in a way that looks like bit rot in acknowledged records, with or without us. But an interrupted
/// start of ours makes nothing worse, and a successful one has made everything durable.
#[test]
fn power_cut_while_taking_over_an_unsynced_log() {
    let mut start = Case::new();
    start.options.log.snap_count = 1_000_000;
    let mut opened = start.open().unwrap();
    run(&mut opened, &[3, 3], &mut start.history).unwrap();
    let mut frames = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
    start.history.make(&mut opened.state, 3, &mut frames);
    drop(opened);
    start.disk.open(&file("log.7"), OpenMode::CreateNew).unwrap().write_all_at(&frames, 0).unwrap();
    start.disk.restart_process();
    let errors = |case: &Case| -> BTreeSet<String> {
        let forks = outcomes(&case.disk, 1).into_iter().map(|keep| (case.fork(), keep));
        let outcome = |(case, keep): (Case, KeepUnsynced)| {
            case.disk.power_on(keep);
            let opened = case.open().map_err(|error| error.to_string())?;
            case.history.clone().settle(&opened.state, &format!("{keep:?}"));
            Ok(())
        };
        forks.map(outcome).filter_map(Result::err).collect()
    };
    let without_us = errors(&start);
    assert!(!without_us.is_empty(), "a torn middle of an unsynced log is refused");
    for call in 1.. {
        let cut = start.fork();
        cut.disk.set_fault(cut.disk.calls() + call, DiskFault::PowerCut);
        let started = cut.open().is_ok();
        cut.disk.clear_faults();
        let more: Vec<_> = errors(&cut).difference(&without_us).cloned().collect();
        assert_eq!(more, [""; 0], "power cut at call {call}");
        if started {
            assert_eq!(errors(&cut), BTreeSet::new(), "after a start");
            break;
        }
    }
}

#[test]
fn power_cut_at_every_call_of_the_recovery_after_a_power_cut() {
    let mut states = 0;
    for call in 1.. {
        let Some(case) = Case::new().until(call, DiskFault::PowerCut) else { break };
        case.disk.power_on(KeepUnsynced::Random(call));
        for second in 1.. {
            let case = case.fork();
            case.disk.set_fault(case.disk.calls() + second, DiskFault::PowerCut);
            if case.open().is_ok() {
                break;
            }
            case.check_after(KeepUnsynced::Random(call * 1_000 + second), &format!("cut at {call}, then at {second}"));
            states += 1;
        }
    }
    assert!(5_000 < states, "only {states} states");
}

#[test]
fn every_call_fails_once() {
    let faults = [ErrorKind::StorageFull, ErrorKind::PermissionDenied, ErrorKind::Other];
    for fault in faults.map(DiskFault::Error).into_iter().chain([DiskFault::LostSync]) {
        for call in 1.. {
            let Some(case) = Case::new().until(call, fault) else { break };
            let what = format!("{fault:?} at call {call}");
            let restarted = case.fork();
            restarted.disk.restart_process();
            restarted.check_start(&format!("{what}, restart"));
            for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything, KeepUnsynced::Random(call)] {
                case.check_after(keep, &format!("{what}, {keep:?}"));
            }
        }
    }
}

/// Without fsync, a start must still succeed, with some earlier state.
#[test]
fn power_cut_without_fsync_leaves_an_earlier_state() {
    let mut start = Case::new();
    start.options.log.force_sync = false;
    for call in (1..).step_by(2) {
        let Some(mut case) = start.until(call, DiskFault::PowerCut) else { break };
        case.history.acked = Zxid::ZERO;
        for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything, KeepUnsynced::Random(call)] {
            case.check_after(keep, &format!("no syncs, power cut at call {call}, {keep:?}"));
        }
    }
}

/// Without fsync, only a tail may be lost: files before the last roll are complete, with or without preallocation.
#[test]
fn power_cut_without_fsync_keeps_files_before_the_last_roll() {
    for preallocate_bytes in [0, 2048] {
        let mut case = Case::new();
        case.options.log.force_sync = false;
        case.options.log.preallocate_bytes = preallocate_bytes;
        case.options.log.snap_count = 1_000_000;
        let mut opened = case.open().unwrap();
        run(&mut opened, &[3, 3], &mut case.history).unwrap();
        let before_the_roll = case.history.acked;
        opened.log.roll();
        run(&mut opened, &[3, 3], &mut case.history).unwrap();
        case.history.acked = before_the_roll;
        for keep in outcomes(&case.disk, preallocate_bytes) {
            case.check_after(keep, &format!("a roll, {preallocate_bytes} bytes ahead, {keep:?}"));
        }
    }
}
