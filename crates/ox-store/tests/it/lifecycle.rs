//! The life of an ensemble member on a simulated disk, and the histories that may be found after a fault.

use crate::sim_stores::{ROOT, options};
use crate::workload::make;
use ox_proto::Zxid;
use ox_store::disk::{DiskFault, KeepUnsynced, SimDisk};
use ox_store::{
    Loaded, MemberOptions, OpenOutcome, OpenedMember, Store, StoreError, StoreOptions, StoredEpochs, Truncated,
};
use ox_tree::{State, TreeOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn open_with(
    disk: &SimDisk,
    options: &StoreOptions,
    member: &MemberOptions,
) -> Result<OpenedMember, StoreError> {
    Store::open_member(Arc::new(disk.clone()), options, member, &TreeOptions::default(), 3)
}

pub(crate) fn open(disk: &SimDisk) -> Result<OpenedMember, StoreError> {
    open_with(disk, &options(), &MemberOptions::new(1))
}

pub(crate) fn loaded(outcome: OpenOutcome) -> Loaded {
    match outcome {
        OpenOutcome::Loaded(loaded) => *loaded,
        OpenOutcome::Empty => panic!("empty"),
        OpenOutcome::Quarantined(quarantine) => panic!("quarantined: {}", quarantine.reason),
    }
}

pub(crate) fn quarantined(disk: &SimDisk, member: &MemberOptions, what: &str) -> String {
    match open_with(disk, &options(), member).unwrap_or_else(|error| panic!("{what}: {error}")).outcome {
        OpenOutcome::Quarantined(quarantine) => quarantine.reason,
        OpenOutcome::Empty => panic!("{what}: empty"),
        OpenOutcome::Loaded(loaded) => panic!("{what}: loaded at {}", loaded.state.last_zxid()),
    }
}

/// Transactions, each with the salt of its contents.
pub(crate) type Txns = Vec<(Zxid, u8)>;

pub(crate) fn zx(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(epoch, counter)
}

/// The transactions `(epoch, from..=to)` with a salt.
pub(crate) fn txns(epoch: u32, counters: std::ops::RangeInclusive<u32>, salt: u8) -> Txns {
    counters.map(|counter| (zx(epoch, counter), salt)).collect()
}

pub(crate) fn state_of(txns: &[(Zxid, u8)]) -> State {
    let mut state = State::new(TreeOptions::default());
    txns.iter().for_each(|(zxid, salt)| make(&mut state, *zxid, *salt, &mut Vec::new()));
    state
}

/// What a member may contain after a fault.
#[derive(Clone, Default)]
pub(crate) struct Allowed {
    /// The possible histories, each with its minimum number of transactions.
    pub(crate) histories: Vec<(Txns, usize)>,
    /// The minimum and maximum of the epochs.
    pub(crate) epochs: (StoredEpochs, StoredEpochs),
}

impl Allowed {
    pub(crate) fn check(&self, opened: &OpenedMember, loaded: &Loaded, what: &str) -> Txns {
        let (last, (least, most), found) = (loaded.state.last_zxid(), self.epochs, opened.log.epochs());
        assert!(least.accepted <= found.accepted && found.accepted <= most.accepted, "{what}: {found:?}");
        assert!(least.current <= found.current && found.current <= most.current, "{what}: {found:?}");
        assert!(last.epoch() <= found.current && found.current <= found.accepted, "{what}: {found:?} at {last}");
        assert_eq!(opened.log.last(), last, "{what}");
        assert_eq!(loaded.reach, last, "{what}");
        let fits = |history: &Txns, least: usize| {
            let count = history.iter().filter(|(zxid, _)| *zxid <= last).count();
            let model = state_of(&history[..count]);
            let same = model.digest() == loaded.state.digest() && model.sessions().eq(loaded.state.sessions());
            (least <= count && model.last_zxid() == last && same).then(|| history[..count].to_vec())
        };
        let found = self.histories.iter().find_map(|(history, least)| fits(history, *least));
        let found = found.unwrap_or_else(|| panic!("{what}: another history, up to {last}"));
        let recent: Vec<Zxid> = loaded.recent_txns.iter().map(|logged| logged.zxid).collect();
        let tail: Vec<Zxid> = found.iter().map(|(zxid, _)| *zxid).collect();
        assert!(tail.ends_with(&recent), "{what}: {recent:?} in the recent transactions of {tail:?}");
        found
    }
}

/// A member's disk, options and expected contents.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) options: StoreOptions,
    pub(crate) disk: SimDisk,
    pub(crate) allowed: Allowed,
    pub(crate) txns: Txns,
}

impl Life {
    pub(crate) fn new() -> Self {
        let disk = SimDisk::new();
        disk.install(&Path::new(ROOT).join("initialize"), b"");
        let allowed = Allowed { histories: vec![(Txns::new(), 0)], ..Allowed::default() };
        Self { options: options(), disk, allowed, txns: Txns::new() }
    }

    pub(crate) fn fork(&self) -> Self {
        Self { disk: self.disk.fork(), ..self.clone() }
    }

    /// Ends the process that has opened the files, without a power cut.
    pub(crate) fn end_process<T>(&self, opened: T) {
        drop(opened);
        self.disk.restart_process();
    }

    pub(crate) fn open(&self) -> Result<OpenedMember, StoreError> {
        open_with(&self.disk, &self.options, &MemberOptions::new(1))
    }

    /// Appends batches, with a sync after each.
    pub(crate) fn append(&mut self, opened: &mut OpenedMember, batches: &[Txns]) -> Result<(), StoreError> {
        for batch in batches {
            let mut state = state_of(&self.txns);
            let mut frames = Vec::new();
            batch.iter().for_each(|(zxid, salt)| make(&mut state, *zxid, *salt, &mut frames));
            let acked = self.txns.len();
            self.txns.extend(batch);
            self.allowed.histories = vec![(self.txns.clone(), acked)];
            let (first, last) = (batch[0].0, state.last_zxid());
            let _ = opened.log.append(&frames, first, last, batch.len())?;
            assert_eq!(opened.log.sync()?.last, last);
            self.allowed.histories = vec![(self.txns.clone(), self.txns.len())];
        }
        Ok(())
    }

    pub(crate) fn accept(&mut self, opened: &mut OpenedMember, epoch: u32) -> Result<(), StoreError> {
        self.allowed.epochs.1.accepted = epoch;
        opened.log.set_accepted(epoch)?;
        self.allowed.epochs.0.accepted = epoch;
        Ok(())
    }

    pub(crate) fn take_over(&mut self, opened: &mut OpenedMember, epoch: u32) -> Result<(), StoreError> {
        self.allowed.epochs.1.current = epoch;
        opened.log.set_current(epoch)?;
        self.allowed.epochs.0.current = epoch;
        Ok(())
    }

    /// Transactions above `to` may be gone while this runs, and are gone when it returns.
    pub(crate) fn truncate(&mut self, opened: &mut OpenedMember, to: Zxid) -> Result<(), StoreError> {
        let kept: Txns = self.txns.iter().filter(|(zxid, _)| *zxid <= to).copied().collect();
        self.allowed.histories = vec![(self.txns.clone(), kept.len())];
        let Truncated::Done(loaded) = opened.log.truncate(to)? else { panic!("{to} is there") };
        self.allowed.histories = vec![(kept.clone(), kept.len())];
        self.txns = self.allowed.check(opened, &loaded, "truncated");
        assert_eq!(self.txns, kept);
        Ok(())
    }

    /// Follows a leader, is truncated by the next within a log and across logs, and continues.
    pub(crate) fn be_cut(&mut self) -> Result<(), StoreError> {
        let mut opened = self.open()?;
        self.accept(&mut opened, 1)?;
        self.take_over(&mut opened, 1)?;
        self.append(&mut opened, &[txns(1, 1..=3, 0)])?;
        self.snapshot(&opened);
        for counter in [4, 7, 10] {
            opened.log.roll();
            self.append(&mut opened, &[txns(1, counter..=counter + 1, 0), txns(1, counter + 2..=counter + 2, 0)])?;
        }
        self.snapshot(&opened);
        self.accept(&mut opened, 2)?;
        self.truncate(&mut opened, zx(1, 11))?;
        self.append(&mut opened, &[txns(1, 12..=12, 9), txns(1, 13..=14, 9)])?;
        self.truncate(&mut opened, zx(1, 5))?;
        self.allowed.epochs.1.current = 2;
        self.append(&mut opened, &[txns(2, 1..=2, 0)])?;
        self.take_over(&mut opened, 2)?;
        self.append(&mut opened, &[txns(2, 3..=4, 0)])?;
        opened.log.close()
    }

    /// The old or the new history while this runs, and the new one when it returns.
    pub(crate) fn install(&mut self, opened: &mut OpenedMember, txns: Txns) -> Result<(), StoreError> {
        self.allowed.histories.push((txns.clone(), txns.len()));
        self.allowed.epochs.1.current = self.allowed.epochs.0.accepted;
        opened.log.install(&state_of(&txns).freeze())?;
        self.allowed.histories = vec![(txns.clone(), txns.len())];
        self.txns = txns;
        Ok(())
    }

    /// Has records that the next leader does not have, above and below the zxid of its snapshot, and installs the
    /// snapshot.
    pub(crate) fn be_replaced(&mut self) -> Result<(), StoreError> {
        let mut opened = self.open()?;
        self.accept(&mut opened, 1)?;
        self.take_over(&mut opened, 1)?;
        self.append(&mut opened, &[txns(1, 1..=3, 0)])?;
        self.snapshot(&opened);
        opened.log.roll();
        self.append(&mut opened, &[txns(1, 4..=9, 0)])?;
        self.accept(&mut opened, 3)?;
        self.install(&mut opened, [txns(1, 1..=6, 0), txns(2, 1..=2, 0)].concat())?;
        self.take_over(&mut opened, 3)?;
        self.append(&mut opened, &[txns(3, 1..=4, 0), txns(3, 5..=6, 0)])?;
        // A snapshot of the same name, and later records that are removed.
        self.snapshot(&opened);
        self.append(&mut opened, &[txns(3, 7..=8, 0)])?;
        self.accept(&mut opened, 4)?;
        self.install(&mut opened, [txns(1, 1..=6, 0), txns(3, 1..=6, 5)].concat())?;
        self.append(&mut opened, &[txns(4, 1..=2, 0)])?;
        self.take_over(&mut opened, 4)?;
        self.snapshot(&opened);
        opened.log.close()
    }

    pub(crate) fn snapshot(&self, opened: &OpenedMember) {
        if opened.store.write_snapshot(&state_of(&self.txns).freeze()).is_ok() {
            _ = opened.store.purge(3, &|| false);
        }
    }

    /// Follows a first leader, a second with a DIFF, restarts, and follows a third.
    pub(crate) fn follow(&mut self) -> Result<(), StoreError> {
        let mut opened = self.open()?;
        self.accept(&mut opened, 1)?;
        self.take_over(&mut opened, 1)?;
        self.append(&mut opened, &[txns(1, 1..=3, 0), txns(1, 4..=4, 0), txns(1, 5..=9, 0)])?;
        self.snapshot(&opened);
        opened.log.roll();
        self.append(&mut opened, &[txns(1, 10..=12, 0)])?;
        self.accept(&mut opened, 3)?;
        self.append(&mut opened, &[txns(1, 13..=14, 0)])?;
        self.take_over(&mut opened, 3)?;
        self.append(&mut opened, &[txns(3, 1..=5, 0)])?;
        drop(opened);
        self.disk.restart_process();
        let mut opened = self.open()?;
        let loaded = loaded(std::mem::replace(&mut opened.outcome, OpenOutcome::Empty));
        self.txns = self.allowed.check(&opened, &loaded, "restart");
        self.accept(&mut opened, 4)?;
        // After a crash between history and epoch, the start raises the epoch.
        self.allowed.epochs.1.current = 4;
        self.append(&mut opened, &[txns(4, 1..=2, 0)])?;
        self.take_over(&mut opened, 4)?;
        self.snapshot(&opened);
        opened.log.close()
    }

    /// A fork that met `fault` at call `call`; `None` if the work ended before.
    pub(crate) fn until(
        &self,
        call: u64,
        fault: DiskFault,
        work: fn(&mut Self) -> Result<(), StoreError>,
    ) -> Option<Self> {
        let mut life = self.fork();
        let reached = life.disk.calls() + call;
        life.disk.set_fault(reached, fault);
        let outcome = work(&mut life);
        if outcome.is_ok() && life.disk.calls() < reached {
            return None;
        }
        life.disk.clear_faults();
        Some(life)
    }

    /// Starts, checks, continues, cuts the power, starts and checks again.
    pub(crate) fn check_start(mut self, what: &str) {
        let mut opened = self.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        // The start has raised an epoch that was below the history's.
        let outcome = std::mem::replace(&mut opened.outcome, OpenOutcome::Empty);
        let loaded = loaded(outcome);
        self.txns = self.allowed.check(&opened, &loaded, what);
        self.allowed.histories = vec![(self.txns.clone(), self.txns.len())];
        self.allowed.epochs = (opened.log.epochs(), opened.log.epochs());
        self.check_after(KeepUnsynced::Nothing, &format!("{what}, cut right after"));
        let epoch = opened.log.epochs().accepted + 1;
        let works = |life: &mut Self, opened: &mut OpenedMember| {
            life.accept(opened, epoch)?;
            life.take_over(opened, epoch)?;
            life.append(opened, &[txns(epoch, 1..=2, 1), txns(epoch, 3..=3, 1)])
        };
        works(&mut self, &mut opened).unwrap();
        drop(opened);
        for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything] {
            self.check_after(keep, &format!("{what}, then {keep:?}"));
        }
    }

    pub(crate) fn check_after(&self, keep: KeepUnsynced, what: &str) {
        let life = self.fork();
        life.disk.power_on(keep);
        let opened = life.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut opened = opened;
        let outcome = std::mem::replace(&mut opened.outcome, OpenOutcome::Empty);
        life.allowed.check(&opened, &loaded(outcome), what);
    }
}

pub(crate) fn outcomes(disk: &SimDisk, seed: u64) -> Vec<KeepUnsynced> {
    let pieces = disk.unsynced_pieces();
    let mut keeps = vec![KeepUnsynced::Nothing, KeepUnsynced::Everything];
    keeps.extend((0..pieces).flat_map(|piece| [KeepUnsynced::Only(piece), KeepUnsynced::AllBut(piece)]));
    keeps.extend((0..4).map(|round| KeepUnsynced::Random(seed * 4 + round)));
    keeps
}

pub(crate) fn cut_power_everywhere(start: &Life, work: fn(&mut Life) -> Result<(), StoreError>, states_min: usize) {
    let mut states = 0;
    for call in 1.. {
        let Some(life) = start.until(call, DiskFault::PowerCut, work) else { break };
        for keep in outcomes(&life.disk, call) {
            let life = life.fork();
            life.disk.power_on(keep);
            life.check_start(&format!("power cut at call {call}, {keep:?}"));
            states += 1;
        }
    }
    assert!(states_min < states, "only {states} states");
}

/// Cuts the power, and again at every call of the following start.
pub(crate) fn cut_power_twice(start: &Life, work: fn(&mut Life) -> Result<(), StoreError>) {
    for call in (1..).step_by(5) {
        let Some(life) = start.until(call, DiskFault::PowerCut, work) else { break };
        life.disk.power_on(KeepUnsynced::Random(call));
        for second in 1.. {
            let life = life.fork();
            life.disk.set_fault(life.disk.calls() + second, DiskFault::PowerCut);
            if life.open().is_ok() {
                break;
            }
            life.check_after(KeepUnsynced::Random(call * 1_000 + second), &format!("cut at {call}, then at {second}"));
        }
    }
}

pub(crate) fn fail_everywhere(start: &Life, work: fn(&mut Life) -> Result<(), StoreError>) {
    for fault in
        [DiskFault::Error(ErrorKind::StorageFull), DiskFault::Error(ErrorKind::PermissionDenied), DiskFault::LostSync]
    {
        for call in 1.. {
            let Some(life) = start.until(call, fault, work) else { break };
            let what = format!("{fault:?} at call {call}");
            let restarted = life.fork();
            restarted.disk.restart_process();
            restarted.check_start(&format!("{what}, restart"));
            for keep in [KeepUnsynced::Nothing, KeepUnsynced::Everything, KeepUnsynced::Random(call)] {
                life.check_after(keep, &format!("{what}, {keep:?}"));
            }
        }
    }
}

/// A history of epochs 1 and 3 with many short logs and some snapshots.
pub(crate) fn with_logs(snapshots: &[Zxid]) -> (Life, OpenedMember) {
    let mut life = Life::new();
    life.options.log.snap_count = 1_000_000;
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 3).unwrap();
    life.take_over(&mut opened, 3).unwrap();
    for (number, (zxid, salt)) in [txns(1, 1..=9, 0), txns(3, 1..=6, 0)].concat().into_iter().enumerate() {
        if number % 4 == 2 {
            opened.log.roll();
        }
        life.append(&mut opened, &[vec![(zxid, salt)]]).unwrap();
        if snapshots.contains(&zxid) {
            opened.store.write_snapshot(&state_of(&life.txns).freeze()).unwrap();
        }
    }
    (life, opened)
}

/// A stopped member that has followed two leaders.
pub(crate) fn worked() -> (SimDisk, Txns) {
    let mut life = Life::new();
    life.follow().unwrap();
    let mut opened = life.open().unwrap();
    life.append(&mut opened, &[txns(4, 3..=6, 0), txns(4, 7..=8, 0)]).unwrap();
    life.end_process(opened);
    (life.disk, life.txns)
}
