//! The files of an ensemble member: epochs, quarantine, and a life with several leaders, with every call failing once
//! and power going at every call.

use crate::sim::{ROOT, damage, file, golden, names, options, remove};
use crate::workload::make;
use ox_proto::Zxid;
use ox_store::disk::{Fault, Keep, SimDisk};
use ox_store::names::Compression;
use ox_store::{
    Epochs, Error, Loaded, MemberOptions, OnDamage, OpenedMember, Standing, Store, StoreOptions, Truncated,
};
use ox_tree::{Options, State};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn open_with(disk: &SimDisk, options: &StoreOptions, member: &MemberOptions) -> Result<OpenedMember, Error> {
    Store::open_member(Arc::new(disk.clone()), options, member, &Options::default(), 3)
}

pub(crate) fn open(disk: &SimDisk) -> Result<OpenedMember, Error> {
    open_with(disk, &options(), &MemberOptions::new(1))
}

pub(crate) fn loaded(standing: Standing) -> Loaded {
    match standing {
        Standing::Loaded(loaded) => *loaded,
        Standing::Empty => panic!("empty"),
        Standing::Quarantined(quarantine) => panic!("quarantined: {}", quarantine.reason),
    }
}

fn quarantined(disk: &SimDisk, member: &MemberOptions, what: &str) -> String {
    match open_with(disk, &options(), member).unwrap_or_else(|error| panic!("{what}: {error}")).standing {
        Standing::Quarantined(quarantine) => quarantine.reason,
        Standing::Empty => panic!("{what}: empty"),
        Standing::Loaded(loaded) => panic!("{what}: loaded at {}", loaded.state.last_zxid()),
    }
}

/// Transactions, each with the salt that its content was made with.
pub(crate) type Txns = Vec<(Zxid, u8)>;

pub(crate) fn zx(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(epoch, counter)
}

/// `(epoch, from..=to)` with a salt.
pub(crate) fn txns(epoch: u32, counters: std::ops::RangeInclusive<u32>, salt: u8) -> Txns {
    counters.map(|counter| (zx(epoch, counter), salt)).collect()
}

pub(crate) fn state_of(txns: &[(Zxid, u8)]) -> State {
    let mut state = State::new(Options::default());
    txns.iter().for_each(|(zxid, salt)| make(&mut state, *zxid, *salt, &mut Vec::new()));
    state
}

/// What a member may be found to hold.
#[derive(Clone, Default)]
struct Allowed {
    /// Histories; of each at least so many transactions.
    histories: Vec<(Txns, usize)>,
    /// The least and the most that the epochs can be.
    epochs: (Epochs, Epochs),
}

impl Allowed {
    fn check(&self, opened: &OpenedMember, loaded: &Loaded, what: &str) -> Txns {
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
        let in_window: Vec<Zxid> = loaded.window.iter().map(|logged| logged.zxid).collect();
        let tail: Vec<Zxid> = found.iter().map(|(zxid, _)| *zxid).collect();
        assert!(tail.ends_with(&in_window), "{what}: {in_window:?} in the window of {tail:?}");
        found
    }
}

/// A member at work.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) options: StoreOptions,
    pub(crate) disk: SimDisk,
    allowed: Allowed,
    pub(crate) txns: Txns,
}

impl Life {
    fn new() -> Self {
        let disk = SimDisk::new();
        disk.install(&Path::new(ROOT).join("initialize"), b"");
        let allowed = Allowed { histories: vec![(Txns::new(), 0)], ..Allowed::default() };
        Self { options: options(), disk, allowed, txns: Txns::new() }
    }

    fn fork(&self) -> Self {
        Self { disk: self.disk.fork(), ..self.clone() }
    }

    fn open(&self) -> Result<OpenedMember, Error> {
        open_with(&self.disk, &self.options, &MemberOptions::new(1))
    }

    /// Appends batches and syncs after each.
    pub(crate) fn append(&mut self, opened: &mut OpenedMember, batches: &[Txns]) -> Result<(), Error> {
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

    pub(crate) fn accept(&mut self, opened: &mut OpenedMember, epoch: u32) -> Result<(), Error> {
        self.allowed.epochs.1.accepted = epoch;
        opened.log.set_accepted(epoch)?;
        self.allowed.epochs.0.accepted = epoch;
        Ok(())
    }

    pub(crate) fn take_over(&mut self, opened: &mut OpenedMember, epoch: u32) -> Result<(), Error> {
        self.allowed.epochs.1.current = epoch;
        opened.log.set_current(epoch)?;
        self.allowed.epochs.0.current = epoch;
        Ok(())
    }

    /// What is above `to` may go while this runs, and is gone when it is done.
    fn truncate(&mut self, opened: &mut OpenedMember, to: Zxid) -> Result<(), Error> {
        let kept: Txns = self.txns.iter().filter(|(zxid, _)| *zxid <= to).copied().collect();
        self.allowed.histories = vec![(self.txns.clone(), kept.len())];
        let Truncated::Done(loaded) = opened.log.truncate(to)? else { panic!("{to} is there") };
        self.allowed.histories = vec![(kept.clone(), kept.len())];
        self.txns = self.allowed.check(opened, &loaded, "truncated");
        assert_eq!(self.txns, kept);
        Ok(())
    }

    /// Follows a leader, is cut by the next within a log and across logs, and goes on.
    fn be_cut(&mut self) -> Result<(), Error> {
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

    /// The old history or the new one while this runs, and the new one when it is done.
    pub(crate) fn install(&mut self, opened: &mut OpenedMember, txns: Txns) -> Result<(), Error> {
        self.allowed.histories.push((txns.clone(), txns.len()));
        self.allowed.epochs.1.current = self.allowed.epochs.0.accepted;
        opened.log.install(&state_of(&txns).freeze())?;
        self.allowed.histories = vec![(txns.clone(), txns.len())];
        self.txns = txns;
        Ok(())
    }

    /// Has records that the next leader does not know, above and below its snapshot, and gets that.
    fn be_replaced(&mut self) -> Result<(), Error> {
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
        // A snapshot of the same name, and records behind it that go.
        self.snapshot(&opened);
        self.append(&mut opened, &[txns(3, 7..=8, 0)])?;
        self.accept(&mut opened, 4)?;
        self.install(&mut opened, [txns(1, 1..=6, 0), txns(3, 1..=6, 5)].concat())?;
        self.append(&mut opened, &[txns(4, 1..=2, 0)])?;
        self.take_over(&mut opened, 4)?;
        self.snapshot(&opened);
        opened.log.close()
    }

    fn snapshot(&self, opened: &OpenedMember) {
        if opened.store.write_snapshot(&state_of(&self.txns).freeze()).is_ok() {
            _ = opened.store.purge(3, &|| false);
        }
    }

    /// The first leader, the second with a DIFF, a restart, and a third.
    fn follow(&mut self) -> Result<(), Error> {
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
        let loaded = loaded(std::mem::replace(&mut opened.standing, Standing::Empty));
        self.txns = self.allowed.check(&opened, &loaded, "restart");
        self.accept(&mut opened, 4)?;
        // After a crash between history and epoch the start brings the epoch up.
        self.allowed.epochs.1.current = 4;
        self.append(&mut opened, &[txns(4, 1..=2, 0)])?;
        self.take_over(&mut opened, 4)?;
        self.snapshot(&opened);
        opened.log.close()
    }

    /// A copy that met `fault` at call `call`; `None` when it was not reached.
    fn until(&self, call: u64, fault: Fault, work: fn(&mut Self) -> Result<(), Error>) -> Option<Self> {
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

    /// Starts, checks, works on, loses power, starts and checks again.
    fn check_start(mut self, what: &str) {
        let mut opened = self.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        // A history of a newer epoch than the file says: the start has brought it up.
        let standing = std::mem::replace(&mut opened.standing, Standing::Empty);
        let loaded = loaded(standing);
        self.txns = self.allowed.check(&opened, &loaded, what);
        self.allowed.histories = vec![(self.txns.clone(), self.txns.len())];
        self.allowed.epochs = (opened.log.epochs(), opened.log.epochs());
        self.check_after(Keep::Nothing, &format!("{what}, cut right after"));
        let epoch = opened.log.epochs().accepted + 1;
        let works = |life: &mut Self, opened: &mut OpenedMember| {
            life.accept(opened, epoch)?;
            life.take_over(opened, epoch)?;
            life.append(opened, &[txns(epoch, 1..=2, 1), txns(epoch, 3..=3, 1)])
        };
        works(&mut self, &mut opened).unwrap();
        drop(opened);
        for keep in [Keep::Nothing, Keep::Everything] {
            self.check_after(keep, &format!("{what}, then {keep:?}"));
        }
    }

    fn check_after(&self, keep: Keep, what: &str) {
        let life = self.fork();
        life.disk.power_on(keep);
        let opened = life.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut opened = opened;
        let standing = std::mem::replace(&mut opened.standing, Standing::Empty);
        life.allowed.check(&opened, &loaded(standing), what);
    }
}

fn outcomes(disk: &SimDisk, seed: u64) -> Vec<Keep> {
    let pieces = disk.unsynced_pieces();
    let mut keeps = vec![Keep::Nothing, Keep::Everything];
    keeps.extend((0..pieces).flat_map(|piece| [Keep::Only(piece), Keep::AllBut(piece)]));
    keeps.extend((0..4).map(|round| Keep::Random(seed * 4 + round)));
    keeps
}

fn cut_power_everywhere(start: &Life, work: fn(&mut Life) -> Result<(), Error>, states_min: usize) {
    let mut states = 0;
    for call in 1.. {
        let Some(life) = start.until(call, Fault::PowerCut, work) else { break };
        for keep in outcomes(&life.disk, call) {
            let life = life.fork();
            life.disk.power_on(keep);
            life.check_start(&format!("power cut at call {call}, {keep:?}"));
            states += 1;
        }
    }
    assert!(states_min < states, "only {states} states");
}

fn fail_everywhere(start: &Life, work: fn(&mut Life) -> Result<(), Error>) {
    for fault in [Fault::Error(ErrorKind::StorageFull), Fault::Error(ErrorKind::PermissionDenied), Fault::LostSync] {
        for call in 1.. {
            let Some(life) = start.until(call, fault, work) else { break };
            let what = format!("{fault:?} at call {call}");
            let restarted = life.fork();
            restarted.disk.restart_process();
            restarted.check_start(&format!("{what}, restart"));
            for keep in [Keep::Nothing, Keep::Everything, Keep::Random(call)] {
                life.check_after(keep, &format!("{what}, {keep:?}"));
            }
        }
    }
}

#[test]
fn following_survives_power_cuts_and_failing_calls() {
    let start = Life::new();
    cut_power_everywhere(&start, Life::follow, 1_000);
    fail_everywhere(&start, Life::follow);
    let mut split = Life::new();
    split.options.log_dir = Some("/logs/zk".into());
    fail_everywhere(&split, Life::follow);
}

/// K11, K20, K21: nothing that stays is lost, nothing that went comes back.
#[test]
fn k021_truncating_survives_power_cuts_and_failing_calls() {
    cut_power_everywhere(&Life::new(), Life::be_cut, 1_000);
    fail_everywhere(&Life::new(), Life::be_cut);
    let mut split = Life::new();
    split.options.log_dir = Some("/logs/zk".into());
    fail_everywhere(&split, Life::be_cut);
}

/// K12, K13: the old history or the new one, never a mix, and never the old one after the new.
#[test]
fn k013_installing_survives_power_cuts_and_failing_calls() {
    cut_power_everywhere(&Life::new(), Life::be_replaced, 1_000);
    fail_everywhere(&Life::new(), Life::be_replaced);
    let mut split = Life::new();
    split.options.log_dir = Some("/logs/zk".into());
    split.options.compression = Compression::Gz;
    fail_everywhere(&split, Life::be_replaced);
}

#[test]
fn what_a_snapshot_replaced_goes_with_the_next_one() {
    let (life, mut opened) = with_logs(&[zx(1, 5)]);
    let before = names(&life.disk, "log.").len() + names(&life.disk, "snapshot.").len();
    opened.log.install(&state_of(&txns(2, 1..=3, 7)).freeze()).unwrap();
    assert_eq!(names(&life.disk, "old.").len(), before);
    assert_eq!(names(&life.disk, "log."), [""; 0]);
    assert_eq!(names(&life.disk, "snapshot."), ["snapshot.200000003"]);
    assert_eq!(opened.log.last(), zx(2, 3));
    opened.store.write_snapshot(&state_of(&txns(2, 1..=3, 7)).freeze()).unwrap();
    assert_eq!(names(&life.disk, "old.").len(), before, "the only snapshot there is");
    // A snapshot of the old history that comes late.
    let error = opened.store.write_snapshot(&state_of(&txns(1, 1..=9, 0)).freeze()).unwrap_err();
    assert!(matches!(error, Error::SnapshotBehind { .. }), "{error}");
    let mut state = state_of(&txns(2, 1..=3, 7));
    state.set_last_zxid(zx(4, 0));
    opened.store.write_snapshot(&state.freeze()).unwrap();
    assert_eq!(names(&life.disk, "old."), [""; 0]);
}

/// The note says that files were moved, and the snapshot is gone: nobody knows what was.
#[test]
fn an_installation_that_cannot_be_finished() {
    let (life, mut opened) = with_logs(&[zx(1, 5)]);
    let start = life.disk.fork();
    opened.log.install(&state_of(&txns(2, 1..=3, 7)).freeze()).unwrap();
    let calls = life.disk.calls() - start.calls();
    let mut lost = 0;
    for call in 1..=calls {
        let (life, mut opened) = with_logs(&[zx(1, 5)]);
        let disk = life.disk;
        disk.set_fault(disk.calls() + call, Fault::PowerCut);
        assert!(opened.log.install(&state_of(&txns(2, 1..=3, 7)).freeze()).is_err());
        disk.power_on(Keep::Everything);
        if disk.content(&file("oxk.install")).is_none_or(|bytes| bytes[39] == 0) {
            continue;
        }
        lost += 1;
        damage(&disk, "snapshot.200000003", |bytes| bytes[50] ^= 1);
        let reason = quarantined(&disk, &MemberOptions::new(1), "a lost snapshot");
        assert!(reason.contains("snapshot.200000003"), "{reason}");
        let standalone = Store::open(Arc::new(disk.clone()), &options(), &Options::default(), 3);
        assert!(standalone.is_err_and(|error| error.is_damage()));
    }
    assert!(5 < lost, "only {lost}");
}

/// Damage, quarantine, a leader's snapshot, and a voter again; with a crash at every call.
#[test]
fn a_quarantined_member_is_healed() {
    let (disk, _) = worked();
    let log = names(&disk, "log.").pop().unwrap();
    damage(&disk, &log, |bytes| bytes[40] ^= 1);
    drop(open(&disk).unwrap());
    let healthy = [txns(1, 1..=6, 0), txns(6, 1..=2, 0)].concat();
    for call in 1.. {
        let disk = disk.fork();
        let mut opened = open(&disk).unwrap();
        assert!(matches!(opened.standing, Standing::Quarantined(_)));
        disk.set_fault(disk.calls() + call, Fault::PowerCut);
        let heal = |opened: &mut OpenedMember| {
            opened.log.install(&state_of(&healthy).freeze())?;
            opened.log.set_accepted(6)?;
            opened.log.set_current(6)?;
            opened.log.end_quarantine()
        };
        let healed = heal(&mut opened).is_ok();
        disk.clear_faults();
        for keep in outcomes(&disk, call) {
            let disk = disk.fork();
            disk.power_on(keep);
            let opened = open(&disk).unwrap();
            match opened.standing {
                Standing::Quarantined(_) => assert!(!healed, "{call}, {keep:?}"),
                Standing::Empty => panic!("{call}, {keep:?}: empty"),
                Standing::Loaded(loaded) => {
                    assert_eq!(loaded.state.digest(), state_of(&healthy).digest(), "{call}, {keep:?}");
                    assert_eq!(opened.log.epochs(), Epochs { accepted: 6, current: 6 });
                }
            }
        }
        if healed {
            break;
        }
    }
}

/// Epochs 1 and 3, a log for every few records, and snapshots here and there.
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

/// K17, K18: cut exactly where asked, across logs and epochs, with snapshots on either side; the records that follow are
/// found again.
#[test]
fn k017_truncated_exactly() {
    let all = [txns(1, 1..=9, 0), txns(3, 1..=6, 0)].concat();
    for snapshots in [&[][..], &[zx(1, 3)], &[zx(1, 5), zx(1, 9)], &[zx(3, 2), zx(3, 6)]] {
        for (to, _) in all.iter().chain(&[(Zxid::ZERO, 0)]) {
            let (mut life, mut opened) = with_logs(snapshots);
            life.truncate(&mut opened, *to).unwrap();
            let salted = |zxid: Zxid| vec![(zxid, 5)];
            life.accept(&mut opened, 5).unwrap();
            life.allowed.epochs.1.current = 5;
            life.append(&mut opened, &[salted(zx(5, 1)), salted(zx(5, 2))]).unwrap();
            drop(opened);
            for keep in [Keep::Nothing, Keep::Everything] {
                life.check_after(keep, &format!("{to} with {snapshots:?}, {keep:?}"));
            }
        }
    }
}

/// A zxid that is not there is never pretended, except for the start of an epoch that was taken over.
#[test]
fn truncated_to_what_is_not_there() {
    for (to, last, is_done) in [
        (zx(1, 12), zx(1, 9), false),
        (zx(2, 1), zx(1, 9), false),
        (zx(2, 0), zx(2, 0), true),
        (zx(3, 0), zx(3, 0), true),
        (zx(3, 6), zx(3, 6), true),
    ] {
        let (_, mut opened) = with_logs(&[zx(1, 5)]);
        let (loaded, done) = match opened.log.truncate(to).unwrap() {
            Truncated::Done(loaded) => (loaded, true),
            Truncated::Short(loaded) => (loaded, false),
            Truncated::NotPossible(reason) => panic!("{to}: {reason}"),
        };
        assert_eq!((loaded.state.last_zxid(), opened.log.last(), done), (last, last, is_done), "{to}");
    }
    let (_, mut opened) = with_logs(&[zx(1, 5)]);
    assert!(matches!(opened.log.truncate(zx(3, 7)).unwrap(), Truncated::NotPossible(_)), "beyond the end");
    assert!(matches!(opened.log.truncate(zx(3, 2)).unwrap(), Truncated::Done(_)), "nothing had happened");
}

/// Where nothing is left to build on, nothing is touched.
#[test]
fn a_truncation_that_is_not_possible_touches_nothing() {
    let (mut life, mut opened) = with_logs(&[zx(1, 5), zx(3, 2)]);
    let contents = |disk: &SimDisk| -> Vec<_> {
        let names = names(disk, "").into_iter().filter(|name| !name.starts_with("oxk."));
        names.map(|name| (disk.content(&file(&name)), name)).collect()
    };
    let check = |life: &Life, opened: &mut OpenedMember, to: Zxid, what: &str| {
        opened.log.roll();
        assert!(opened.log.sync().is_ok());
        let before = contents(&life.disk);
        let truncated = opened.log.truncate(to).unwrap();
        assert!(matches!(truncated, Truncated::NotPossible(_)), "{what}");
        let after = contents(&life.disk);
        for ((before, name), (after, _)) in before.iter().zip(&after) {
            let (before, after) = (before.as_ref().unwrap(), after.as_ref().unwrap());
            assert!(before.starts_with(after) && before[after.len()..].iter().all(|byte| *byte == 0), "{what}: {name}");
        }
        assert_eq!(before.len(), after.len(), "{what}");
    };
    remove(&life.disk, "snapshot.0");
    check(&life, &mut opened, zx(1, 4), "no snapshot before it");
    remove(&life.disk, "log.100000003");
    check(&life, &mut opened, zx(1, 4), "no snapshot and no log");
    check(&life, &mut opened, zx(3, 1), "a hole behind the only snapshot");
    // It goes on all the same.
    life.append(&mut opened, &[txns(3, 7..=8, 0)]).unwrap();
}

/// A member that followed two leaders, stopped.
fn worked() -> (SimDisk, Txns) {
    let mut life = Life::new();
    life.follow().unwrap();
    let mut opened = life.open().unwrap();
    life.append(&mut opened, &[txns(4, 3..=6, 0), txns(4, 7..=8, 0)]).unwrap();
    drop(opened);
    life.disk.restart_process();
    (life.disk, life.txns)
}

fn set(disk: &SimDisk, name: &str, content: &str) {
    disk.install(&file(name), content.as_bytes());
}

fn read(disk: &SimDisk, name: &str) -> Option<String> {
    disk.content(&file(name)).map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn a_member_starts_on_what_apache_left() {
    for (number, epochs) in [(1, (3, 3)), (2, (3, 3)), (3, (3, 3))] {
        let (disk, expected) = golden(&format!("g-ensemble/{number}"));
        let before: Vec<_> = names(&disk, "").into_iter().map(|name| (disk.content(&file(&name)), name)).collect();
        let opened = open_with(&disk, &options(), &MemberOptions::new(number)).unwrap();
        let found = opened.log.epochs();
        assert_eq!((found.accepted, found.current), epochs);
        let loaded = loaded(opened.standing);
        crate::expected::check_state(&loaded.state, &expected, &format!("member {number}"));
        assert_eq!(loaded.window.last().map(|logged| logged.zxid), Some(loaded.state.last_zxid()));
        assert!(loaded.has_snapshot && loaded.report.dropped.is_none());
        // Nothing was written at start but our own side files; the last log lost its zeros.
        for (content, name) in before {
            let after = disk.content(&file(&name)).unwrap();
            assert!(content.unwrap().starts_with(&after), "{name}");
        }
    }
}

#[test]
fn the_window_holds_what_a_proposal_carries() {
    let (disk, txns) = worked();
    for (window, found) in [(500, 6), (4, 4)] {
        let member = MemberOptions { window, ..MemberOptions::new(1) };
        let loaded = loaded(open_with(&disk.fork(), &options(), &member).unwrap().standing);
        assert_eq!(loaded.window.len(), found, "a snapshot covers the rest");
        check_window(&loaded, &txns);
    }
}

fn check_window(loaded: &Loaded, txns: &[(Zxid, u8)]) {
    for (logged, (zxid, salt)) in loaded.window.iter().rev().zip(txns.iter().rev()) {
        let before: Txns = txns.iter().filter(|(other, _)| other < zxid).copied().collect();
        let mut frame = Vec::new();
        make(&mut state_of(&before), *zxid, *salt, &mut frame);
        assert_eq!((logged.zxid, &logged.record[..]), (*zxid, &frame[12..frame.len() - 1]));
    }
}

/// K58: another server's directory is refused untouched.
#[test]
fn k058_a_copied_directory_is_refused() {
    let (disk, _) = worked();
    let before = names(&disk, "");
    let Err(error) = open_with(&disk, &options(), &MemberOptions::new(2)) else { panic!("opened") };
    assert!(matches!(error, Error::OtherServer { found: 1, server: 2, .. }), "{error}");
    assert_eq!(error.exit_code(), 3);
    assert_eq!(names(&disk, ""), before);
    set(&disk, "oxk.identity", "garbage");
    assert!(open(&disk).is_ok(), "nobody else's");
    assert_eq!(read(&disk, "oxk.identity").as_deref(), Some("1"));
}

/// K57: an empty directory gives no vote, unless the operator says that it is right.
#[test]
fn k057_an_empty_member_abstains() {
    let disk = SimDisk::new();
    for _ in 0..2 {
        let opened = open(&disk).unwrap();
        assert!(matches!(opened.standing, Standing::Empty));
        let error = opened.store.write_snapshot(&state_of(&[]).freeze()).unwrap_err();
        assert!(matches!(error, Error::NotSynced), "{error}");
        assert_eq!(names(&disk, "snapshot."), [""; 0]);
        assert_eq!(names(&disk, "acceptedEpoch"), [""; 0]);
    }
    let mut opened = open(&disk).unwrap();
    assert_eq!(opened.log.found().unwrap().state.last_zxid(), Zxid::ZERO);
    assert_eq!(names(&disk, "snapshot."), ["snapshot.0"]);
    drop(opened);
    disk.power_on(Keep::Nothing);
    assert_eq!(loaded(open(&disk).unwrap().standing).state.last_zxid(), Zxid::ZERO);
    for dir in ["/srv/zk/initialize", "/logs/initialize"] {
        let (disk, mut options) = (SimDisk::new(), options());
        options.log_dir = Some("/logs".into());
        disk.install(Path::new(dir), b"");
        let opened = open_with(&disk, &options, &MemberOptions::new(1)).unwrap();
        assert_eq!(loaded(opened.standing).state.last_zxid(), Zxid::ZERO, "{dir}");
        assert!(disk.content(Path::new(dir)).is_none());
    }
}

/// K57: epochs without a history are a history that was lost, whoever vouches for it.
#[test]
fn k057_a_wiped_member_is_quarantined() {
    let (disk, _) = worked();
    names(&disk, "log.").iter().chain(&names(&disk, "snapshot.")).for_each(|name| remove(&disk, name));
    remove(&disk, "oxk.synced");
    disk.install(Path::new("/srv/zk/initialize"), b"");
    let reason = quarantined(&disk, &MemberOptions::new(1), "wiped");
    assert!(reason.contains("lost"), "{reason}");
}

#[test]
fn k049_epoch_files_that_do_not_fit() {
    let (disk, txns) = worked();
    assert_eq!(txns.last(), Some(&(zx(4, 8), 0)));
    type Change = fn(&SimDisk);
    let changes: [(&str, Change); 6] = [
        ("both missing", |disk| ["acceptedEpoch", "currentEpoch"].iter().for_each(|name| remove(disk, name))),
        ("accepted missing", |disk| remove(disk, "acceptedEpoch")),
        ("current missing", |disk| remove(disk, "currentEpoch")),
        ("accepted empty", |disk| set(disk, "acceptedEpoch", "")),
        ("accepted below current", |disk| set(disk, "acceptedEpoch", "3")),
        ("never accepted", |disk| ["acceptedEpoch", "currentEpoch"].iter().for_each(|name| set(disk, name, "3"))),
    ];
    for (what, change) in changes {
        let disk = disk.fork();
        change(&disk);
        let exit = MemberOptions { on_damage: OnDamage::Exit, ..MemberOptions::new(1) };
        let Err(error) = open_with(&disk.fork(), &options(), &exit) else { panic!("{what}: opened") };
        assert!(
            matches!(error, Error::Epochs { .. }) && error.is_damage() && error.exit_code() == 1,
            "{what}: {error}"
        );
        let accept = MemberOptions { on_damage: OnDamage::Accept, ..MemberOptions::new(1) };
        let accepted = open_with(&disk.fork(), &options(), &accept).unwrap();
        let in_doubt = ["both missing", "current missing"].contains(&what);
        assert_eq!(matches!(accepted.standing, Standing::Loaded(_)), in_doubt, "{what}");
        let before: Vec<_> = names(&disk, "").into_iter().filter(|name| !name.starts_with("oxk.")).collect();
        quarantined(&disk, &MemberOptions::new(1), what);
        // The note counts, also when the damage cannot be seen any more.
        ["acceptedEpoch", "currentEpoch"].iter().for_each(|name| set(&disk, name, "4"));
        disk.power_on(Keep::Nothing);
        quarantined(&disk, &MemberOptions::new(1), "the note");
        let after: Vec<_> = names(&disk, "").into_iter().filter(|name| !name.starts_with("oxk.")).collect();
        assert!(before.iter().all(|name| after.contains(name)), "{what}: nothing was touched");
    }
}

/// K48: the crash between history and epoch.
#[test]
fn k048_the_history_is_newer_than_the_epoch() {
    for (tmp, expected) in [(None, 4), (Some("5"), 5), (Some("6"), 4), (Some("x"), 4)] {
        let (disk, _) = worked();
        set(&disk, "acceptedEpoch", "5");
        set(&disk, "currentEpoch", "3");
        tmp.into_iter().for_each(|text| set(&disk, "currentEpoch.tmp", text));
        set(&disk, "updatingEpoch", "");
        let opened = open(&disk).unwrap();
        assert_eq!(opened.log.epochs(), Epochs { accepted: 5, current: expected }, "{tmp:?}");
        assert_eq!(read(&disk, "currentEpoch"), Some(expected.to_string()));
        assert_eq!(names(&disk, "updatingEpoch"), [""; 0]);
        assert_eq!(names(&disk, "currentEpoch.tmp"), [""; 0]);
    }
}

/// Damaged logs and snapshots: a standalone server refuses, a member is quarantined and touches nothing.
#[test]
fn damage_is_a_value_for_a_member() {
    let (disk, _) = worked();
    let log = names(&disk, "log.").pop().unwrap();
    let damaged = disk.fork();
    damage(&damaged, &log, |bytes| bytes[40] ^= 1);
    let before: Vec<_> = names(&damaged, "").into_iter().map(|name| (damaged.content(&file(&name)), name)).collect();
    let mut opened = open(&damaged).unwrap();
    let Standing::Quarantined(quarantine) = &opened.standing else { panic!("not quarantined") };
    assert!(quarantine.reason.contains(&log), "{}", quarantine.reason);
    assert_eq!(opened.log.epochs().accepted, 4, "the promise is intact");
    for (content, name) in before {
        assert!(name.starts_with("oxk.") || damaged.content(&file(&name)) == content, "{name} was touched");
    }
    assert!(opened.store.purge(3, &|| false).unwrap().removed.is_empty());
    opened.log.end_quarantine().unwrap();
    drop(opened);
    damaged.power_on(Keep::Nothing);
    assert_eq!(names(&damaged, "oxk.quarantine"), [""; 0]);
    let standalone = Store::open(Arc::new(damaged.clone()), &options(), &Options::default(), 3);
    assert!(standalone.is_err_and(|error| error.is_damage()));
    // While running, too.
    let mut opened = open(&disk).unwrap();
    opened.log.quarantine("the digest of 0x5 differs".to_owned(), 77).unwrap();
    drop(opened);
    disk.power_on(Keep::Nothing);
    let Standing::Quarantined(quarantine) = open(&disk).unwrap().standing else { panic!("not quarantined") };
    assert_eq!((quarantine.since_ms, &*quarantine.reason), (77, "the digest of 0x5 differs"));
}

/// A tail that a standalone server cuts as Apache does may have been acknowledged to a leader.
#[test]
fn a_doubtful_tail_is_not_cut() {
    let (disk, _) = worked();
    remove(&disk, "oxk.synced");
    let log = names(&disk, "log.").pop().unwrap();
    let (mut torn, mut doubtful) = (0, 0);
    for block in 0..disk.content(&file(&log)).unwrap().len() / 512 {
        let disk = disk.fork();
        damage(&disk, &log, |bytes| bytes[block * 512..][..512].fill(0));
        let standalone = Store::open(Arc::new(disk.fork()), &options(), &Options::default(), 3);
        let Ok(standalone) = standalone else { continue };
        let Some(dropped) = standalone.report.dropped else { continue };
        let accept = MemberOptions { on_damage: OnDamage::Accept, ..MemberOptions::new(1) };
        let accepted = loaded(open_with(&disk.fork(), &options(), &accept).unwrap().standing);
        assert_eq!(accepted.state.last_zxid(), standalone.state.last_zxid());
        let standing = open(&disk).unwrap().standing;
        assert_eq!(matches!(standing, Standing::Quarantined(_)), dropped.last.is_some(), "block {block}");
        (torn, doubtful) = (torn + 1, doubtful + usize::from(dropped.last.is_some()));
    }
    assert!(0 < doubtful && doubtful < torn, "{doubtful} of {torn}");
}

/// The logs before a leader's snapshot may be a history that was given up: they are no substitute for it.
#[test]
fn an_older_snapshot_needs_proof() {
    let mut life = Life::new();
    life.options.log.snap_count = 1_000_000;
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 3).unwrap();
    life.take_over(&mut opened, 3).unwrap();
    life.append(&mut opened, &[txns(1, 1..=5, 0)]).unwrap();
    let logged = opened.store.write_snapshot(&state_of(&life.txns).freeze()).is_ok();
    let mut other = state_of(&[txns(1, 1..=5, 0), txns(2, 1..=2, 0)].concat());
    other.set_last_zxid(zx(3, 0));
    opened.store.write_snapshot(&other.freeze()).unwrap();
    drop(opened);
    life.disk.restart_process();
    assert!(logged);
    let last = |disk: &SimDisk| loaded(open_with(disk, &life.options, &MemberOptions::new(1)).unwrap().standing);
    assert_eq!(last(&life.disk.fork()).state.last_zxid(), zx(3, 0));
    // A broken snapshot at a record of the log is made up for; one at the start of an epoch is not.
    let disk = life.disk.fork();
    remove(&disk, "snapshot.300000000");
    damage(&disk, "snapshot.100000005", |bytes| bytes[100] ^= 1);
    assert_eq!(last(&disk).state.last_zxid(), zx(1, 5));
    damage(&life.disk, "snapshot.300000000", |bytes| bytes[100] ^= 1);
    quarantined(&life.disk, &MemberOptions::new(1), "a history that was given up");
}

/// 7.6: the snapshot has parts of transactions that the log has not.
#[test]
fn a_snapshot_ahead_of_the_log() {
    let mut fuzzy = state_of(&txns(1, 1..=7, 0));
    fuzzy.set_last_zxid(zx(1, 7));
    let mut life = Life::new();
    let mut opened = life.open().unwrap();
    life.accept(&mut opened, 1).unwrap();
    life.take_over(&mut opened, 1).unwrap();
    life.append(&mut opened, &[txns(1, 1..=7, 0)]).unwrap();
    opened.store.write_snapshot(&fuzzy.freeze()).unwrap();
    drop(opened);
    life.disk.restart_process();
    // As Apache leaves it: named by where it began, and the log never got the rest.
    let bytes = life.disk.content(&file("snapshot.100000007")).unwrap();
    remove(&life.disk, "snapshot.100000007");
    remove(&life.disk, "snapshot.0");
    remove(&life.disk, "log.100000001");
    remove(&life.disk, "oxk.synced");
    life.disk.install(&file("snapshot.100000005"), &bytes);
    let opened = life.open().unwrap();
    let store = opened.store.clone();
    let mut loaded = loaded(opened.standing);
    assert_eq!((loaded.state.last_zxid(), loaded.reach), (zx(1, 5), zx(1, 7)));
    let error = store.write_snapshot(&loaded.state.freeze()).unwrap_err();
    assert!(matches!(error, Error::SnapshotBehind { .. }), "{error}");
    // The leader sends the rest.
    let mut frames = Vec::new();
    for (zxid, salt) in txns(1, 6..=7, 0) {
        make(&mut loaded.state, zxid, salt, &mut frames);
    }
    assert_eq!(loaded.state.digest(), fuzzy.digest());
    let error = store.write_snapshot(&loaded.state.freeze()).unwrap_err();
    assert!(matches!(error, Error::SnapshotAhead { .. }), "{error}");
}
