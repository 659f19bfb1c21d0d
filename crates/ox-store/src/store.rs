//! A server's store: opening it, and the handles that the server's threads work with.
//!
//! ```text
//! Store::open ──> State     (to the server)
//!            ├──> TxnLog    (to the log thread)
//!            ├──> Store     snapshots and purging, one at a time, from any thread
//!            └──> RecoveryReport   (to the operator's log)
//! ```

use crate::directories::{Lock, lock_dirs, open_dirs};
use crate::disk::{Disk, Open};
use crate::error::{Error, IoContext, Rejected};
use crate::limits::STOP_NOTICED;
use crate::lineage::Lineage;
use crate::member::install;
use crate::names::{self, Compression, Dirs, Listing, LogFile, SnapshotFile};
use crate::purge::{self, Purged};
use crate::recovery::repair::{Dropped, move_aside, repair, secure};
use crate::recovery::{Files, Recovered, Rules, TornTail, recover};
use crate::session_clock;
use crate::small_file;
use crate::snapshot::Trailer;
use crate::snapshot::read::read_snapshot;
use crate::snapshot::write::{Prepared, Structure, Terms, prepare, publish};
use crate::space::{Reserve, Reserved, Space, room};
use crate::txn_log::{LogOptions, TxnLog};
use ox_proto::Zxid;
use ox_proto::txn::{DIGEST_VERSION, TxnDigest};
use ox_tree::{FrozenView, State, TreeOptions};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything the configuration says about files.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// `dataDir`.
    pub data_dir: PathBuf,
    /// `dataLogDir`; none when it is the same.
    pub log_dir: Option<PathBuf>,
    /// `datadir.autocreate`.
    pub create_dirs: bool,
    /// How logs are written.
    pub log: LogOptions,
    /// `snapshot.compression.method`.
    pub compression: Compression,
    /// `serializeLastProcessedZxid.enabled`: the last part of a snapshot. The digest part follows `digest.enabled`.
    pub write_last_zxid: bool,
    /// `snapshot.trust.empty`.
    pub trust_empty: bool,
    /// `oxkeeper.txnlog.tornTail`.
    pub torn_tail: TornTail,
    /// `oxkeeper.recovery.allowGaps`.
    pub allow_gaps: bool,
    /// `maxBatchSize`: how many records one sync may cover.
    pub batch_max: usize,
    /// Below this much free space writes should be refused; less on a small volume.
    pub low_water_bytes: u64,
    /// Kept in a file of its own, to be given back when the log meets a full disk; less on a small volume.
    pub reserve_bytes: u64,
    /// Wall clock, for session ids and the names of files that are moved aside.
    pub now_ms: i64,
}

impl StoreOptions {
    /// Apache's defaults for a directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            log_dir: None,
            create_dirs: true,
            log: LogOptions::default(),
            compression: Compression::None,
            write_last_zxid: true,
            trust_empty: false,
            torn_tail: TornTail::Truncate,
            allow_gaps: false,
            batch_max: 1000,
            low_water_bytes: 64 << 20,
            reserve_bytes: 8 << 20,
            now_ms: 0,
        }
    }
}

/// What became of the snapshot that a standalone server takes when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartSnapshot {
    /// The newest one is exactly this state.
    NotNeeded,
    /// Written: without it the next start would come to another state.
    Written,
    /// To be written by the caller, at its leisure: until then the next start takes as long as this one.
    Due,
}

/// What the driver tells the operator about a start.
#[derive(Debug)]
pub struct RecoveryReport {
    /// The snapshot used; none for an empty database or a replay from the beginning.
    pub snapshot: Option<PathBuf>,
    /// Newer ones that could not be used.
    pub rejected: Vec<Rejected>,
    /// Transactions replayed.
    pub replayed: u64,
    /// How long reading the snapshot took.
    pub snapshot_took: Duration,
    /// How long replaying the logs took.
    pub replay_took: Duration,
    /// Last zxid of the state.
    pub last_zxid: Zxid,
    /// Digest of the tree.
    pub digest: i64,
    /// Digests in files that did not fit.
    pub digest_mismatches: u64,
    /// The first of them.
    pub first_digest_mismatch: Option<Zxid>,
    /// Transactions that did not fit the tree although the snapshot was complete.
    pub conflicts: u64,
    /// Nodes whose access control list is in none of the files: closed to everybody but the super user.
    pub unresolved_acls: Vec<String>,
    /// The tail that was cut.
    pub dropped: Option<Dropped>,
    /// Ephemeral nodes of sessions that do not exist, removed.
    pub removed_ephemerals: usize,
    /// The snapshot at start.
    pub start_snapshot: StartSnapshot,
    /// Oddities that somebody should know about.
    pub warnings: Vec<String>,
}

/// An opened store.
pub struct Opened {
    /// Snapshots, purging, free space.
    pub store: Store,
    /// The recovered state.
    pub state: State,
    /// The log to append to.
    pub log: TxnLog,
    /// The time that new session ids begin with: later than at any start before, whatever the wall clock says.
    pub session_clock_ms: i64,
    /// What happened.
    pub report: RecoveryReport,
}

/// Snapshots and housekeeping. Cheap to clone; the directories stay locked while a clone or the log lives.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dirs: Dirs,
    compression: Compression,
    write_last_zxid: bool,
    write_digest: bool,
    low_water_bytes: u64,
    reserved: Arc<Reserved>,
    reserve: Arc<Reserve>,
    /// For a member's epochs and notes; set aside for members only.
    pub(crate) epochs_reserve: Arc<Reserve>,
    /// Held while snapshots come or go.
    pub(crate) files: Mutex<()>,
    /// Never held for longer than a look.
    pub(crate) lineage: Mutex<Lineage>,
    lock: Arc<Lock>,
}

/// What a request for a snapshot led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotTaken {
    /// Written and durable.
    Written(SnapshotFile),
    /// There was a good one of that name.
    Existed(SnapshotFile),
}

impl Store {
    /// Opens the directories of a standalone server and recovers its state. `seed` spreads the points at which
    /// snapshots are due.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
        tree_options: &TreeOptions,
        seed: u64,
    ) -> Result<Opened, Error> {
        let store = Self::lock(disk, options, tree_options, Lineage::Standalone)?;
        let (disk, dirs) = (&*store.0.disk, &store.0.dirs);
        match install::resume(disk, dirs) {
            // Not one of ours, and no member's directory.
            Err(Error::InstallUnreadable(_)) => (),
            resumed => resumed?,
        }
        let listing = store.listing()?;
        let files = Files::new(disk, dirs, &listing)?;
        let mut recovered = recover(&files, &options.rules(), tree_options)?;
        let dropped = repair(&files, &recovered, options.now_ms)?;
        secure(&files, &recovered)?;
        let removed_ephemerals = recovered.state.remove_dead_sessions_nodes();

        let start_snapshot = store.snapshot_at_start(&recovered, removed_ephemerals, options.now_ms)?;
        tidy(&files, options)?;
        let session_clock_ms = store.get_ready(options)?;
        let log = store.log(options, recovered.state.last_zxid(), seed)?;
        let (state, report) = report(&store, &listing, recovered, (dropped, removed_ephemerals, start_snapshot));
        Ok(Opened { store, state, log, session_clock_ms, report })
    }

    /// Finds and locks the directories.
    pub(crate) fn lock(
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
        tree_options: &TreeOptions,
        lineage: Lineage,
    ) -> Result<Self, Error> {
        let log_dir = options.log_dir.as_deref().unwrap_or(&options.data_dir);
        let dirs = open_dirs(&*disk, &options.data_dir, log_dir, options.create_dirs)?;
        let lock = Arc::new(lock_dirs(&*disk, &dirs)?);
        let reserve = Arc::new(Reserve::new(Arc::clone(&disk), &dirs.logs, options.reserve_bytes));
        let epochs_reserve = Reserve::for_epochs(Arc::clone(&disk), &dirs.snapshots, options.reserve_bytes);
        Ok(Self(Arc::new(Shared {
            disk,
            dirs,
            compression: options.compression,
            write_last_zxid: options.write_last_zxid,
            write_digest: tree_options.digest_enabled,
            low_water_bytes: options.low_water_bytes,
            reserved: Arc::default(),
            reserve,
            epochs_reserve: Arc::new(epochs_reserve),
            files: Mutex::new(()),
            lineage: Mutex::new(lineage),
            lock,
        })))
    }

    /// What the directories hold; refused if they were mixed up.
    pub(crate) fn listing(&self) -> Result<names::Listing, Error> {
        let listing = names::list(&*self.0.disk, &self.0.dirs)?;
        match listing.misplaced.first() {
            Some(path) => Err(Error::Misplaced(path.clone())),
            None => Ok(listing),
        }
    }

    /// What a server needs before it can serve; returns the clock of its session ids.
    pub(crate) fn get_ready(&self, options: &StoreOptions) -> Result<i64, Error> {
        let session_clock_ms = session_clock::advance(&*self.0.disk, &self.0.dirs.logs, options.now_ms)?;
        self.0.reserve.create()?;
        Ok(session_clock_ms)
    }

    /// The log that continues after `last`.
    pub(crate) fn log(&self, options: &StoreOptions, last: Zxid, seed: u64) -> Result<TxnLog, Error> {
        let shared = &*self.0;
        let held = (Arc::clone(&shared.lock), Arc::clone(&shared.reserved), Arc::clone(&shared.reserve));
        TxnLog::new(Arc::clone(&shared.disk), shared.dirs.clone(), options.log.clone(), last, seed, held)
    }

    /// Writes the snapshot of `frozen`, unless a good one of that name exists. An error leaves the store usable; there
    /// is one when the snapshot would use up the space that the log needs.
    pub fn write_snapshot(&self, frozen: &FrozenView) -> Result<SnapshotTaken, Error> {
        self.write_snapshot_gently(frozen, &|| ())
    }

    /// The same, with a pause after each chunk, so that nobody notices.
    pub fn write_snapshot_gently(&self, frozen: &FrozenView, pause: &dyn Fn()) -> Result<SnapshotTaken, Error> {
        let shared = &*self.0;
        let _files = shared.files.lock();
        let last = frozen.last_zxid();
        shared.lineage.lock().check_snapshot(last)?;
        let listing = names::list(&*shared.disk, &shared.dirs)?;
        for file in listing.snapshots.iter().filter(|file| file.last == last) {
            if read_snapshot(&*shared.disk, file, &mut Structure::default()).is_ok() {
                shared.disk.sync_dir(&shared.dirs.snapshots).context("sync directory", &shared.dirs.snapshots)?;
                return Ok(SnapshotTaken::Existed(file.clone()));
            }
        }
        let (dir, low_water_bytes) = (&shared.dirs.snapshots, shared.low_water_bytes);
        let room = &|| room(&*shared.disk, dir, low_water_bytes);
        let written = self.write_into(frozen, Terms { room, pause })?;
        // Beside the leader's snapshot that replaced them there is a second one now. What stays is removed next time.
        listing.old.iter().for_each(|path| _ = shared.disk.remove(path));
        self.leave_cache(&listing, last);
        Ok(SnapshotTaken::Written(written))
    }

    /// Gives up the memory that the system holds for files that a snapshot has made old: the next ones take it, instead
    /// of memory that was never used before.
    fn leave_cache(&self, before: &Listing, last: Zxid) {
        let old = before.snapshots.iter().find(|file| file.last < last);
        let since = old.map_or(Zxid::ZERO, |file| file.last);
        let is_covered = |pair: &&[LogFile]| since < pair[1].first && pair[1].first <= last;
        let logs = before.logs.windows(2).filter(is_covered).map(|pair| &pair[0].path);
        for path in logs.chain(old.map(|file| &file.path)) {
            if let Ok(file) = self.0.disk.open(path, Open::Read) {
                file.leave_cache();
            }
        }
    }

    /// Removes what is not needed to keep `retain` good snapshots with all that follows them; at least 3. Reads all
    /// of that first, and waits for a snapshot that is being written: `stop` is asked all the time.
    pub fn purge(&self, retain: usize, stop: &dyn Fn() -> bool) -> Result<Purged, Error> {
        let shared = &*self.0;
        let _files = loop {
            if stop() {
                return Err(Error::PurgeStopped);
            }
            if let Some(files) = shared.files.try_lock_for(STOP_NOTICED) {
                break files;
            }
        };
        if *shared.lineage.lock() == Lineage::Unusable {
            return Ok(Purged::default());
        }
        purge::purge(&*shared.disk, &shared.dirs, retain, &shared.lineage, stop)
    }

    /// Free space where logs and snapshots go.
    pub fn space(&self) -> Result<Space, Error> {
        let shared = &*self.0;
        Space::measure(&*shared.disk, &shared.dirs, &shared.reserved, &shared.reserve, shared.low_water_bytes)
    }

    /// Sets the reserve aside again if the log had to give it back and there is plenty of space now.
    pub fn renew_reserve(&self, space: &Space) -> Result<(), Error> {
        let shared = &*self.0;
        shared.reserve.renew(space)?;
        if *shared.lineage.lock() == Lineage::Standalone { Ok(()) } else { shared.epochs_reserve.renew(space) }
    }

    /// Where logs and snapshots are.
    pub fn dirs(&self) -> &Dirs {
        &self.0.dirs
    }

    fn trailer(&self, frozen: &FrozenView) -> Trailer {
        let last = frozen.last_zxid();
        // Compat: before its first transaction Apache writes a digest of 0 at zxid 0, which readers do not compare.
        let tree_digest = if last == Zxid::ZERO { 0 } else { frozen.digest() };
        let digest = TxnDigest { version: DIGEST_VERSION, tree_digest };
        Trailer {
            digest: self.0.write_digest.then_some((last, digest)),
            last_zxid: self.0.write_last_zxid.then_some(last),
        }
    }

    /// Writes the snapshot now if the files alone would not lead to this state again.
    fn snapshot_at_start(&self, recovered: &Recovered, removed: usize, now_ms: i64) -> Result<StartSnapshot, Error> {
        let (replay, damaged) = (&recovered.replay, &recovered.replay.damaged_but_covered);
        let changed = 0 < removed || recovered.raised_to.is_some() || recovered.snapshot.is_none();
        let stands = !changed && replay.records == 0;
        if !stands && !changed && damaged.is_empty() {
            return Ok(StartSnapshot::Due);
        }
        if !stands {
            self.replace_snapshot(&recovered.state.freeze(), recovered.snapshot.as_ref(), now_ms)?;
        }
        // All of them is in the snapshot now, and Apache would refuse to read them.
        for log in damaged {
            move_aside(&*self.0.disk, &log.path, now_ms)?;
        }
        Ok(if stands { StartSnapshot::NotNeeded } else { StartSnapshot::Written })
    }

    /// Writes a snapshot in place of the one that was loaded, should that have the same zxid.
    fn replace_snapshot(
        &self,
        frozen: &FrozenView,
        loaded: Option<&(SnapshotFile, Trailer)>,
        now_ms: i64,
    ) -> Result<(), Error> {
        let shared = &*self.0;
        let _files = shared.files.lock();
        // There is no start without it, so it may have all the space there is.
        let file = self.write_into(frozen, Terms::ANY)?;
        match loaded {
            Some((old, _)) if old.last == file.last && old.path != file.path => {
                move_aside(&*shared.disk, &old.path, now_ms).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn write_into(&self, frozen: &FrozenView, terms: Terms<'_>) -> Result<SnapshotFile, Error> {
        self.prepare(frozen, terms).and_then(|prepared| publish(&*self.0.disk, prepared))
    }

    /// Writes a snapshot that has no name yet.
    pub(crate) fn prepare(&self, frozen: &FrozenView, terms: Terms<'_>) -> Result<Prepared, Error> {
        let (shared, trailer) = (&*self.0, self.trailer(frozen));
        let (dir, last) = (&shared.dirs.snapshots, frozen.last_zxid());
        prepare(&*shared.disk, dir, last, shared.compression, terms, |writer| writer.write(frozen, &trailer))
    }

    /// Warns when Apache with these settings could not read the snapshot that was loaded.
    fn warn_about_trailer(&self, snapshot: Option<&(SnapshotFile, Trailer)>, warnings: &mut Vec<String>) {
        let Some((file, trailer)) = snapshot else { return };
        let written = (trailer.digest.is_some(), trailer.last_zxid.is_some());
        if written != (self.0.write_digest, self.0.write_last_zxid) {
            let path = file.path.display();
            warnings.push(format!(
                "{path} was written with other settings of digest.enabled or serializeLastProcessedZxid.enabled; \
                 Apache could not read it with the present ones"
            ));
        }
    }
}

impl StoreOptions {
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            trust_empty: self.trust_empty,
            torn_tail: self.torn_tail,
            allow_gaps: self.allow_gaps,
            batch_max: self.batch_max,
            member: None,
        }
    }

    /// Where the `initialize` marker may be: Apache looks in one directory, its scripts put it into the other.
    pub(crate) fn initialize_markers(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::once(&self.data_dir).chain(&self.log_dir).map(|dir| dir.join("initialize"))
    }
}

/// Removes what an earlier run left unfinished, and the `initialize` marker, which counts for one start.
pub(crate) fn tidy(files: &Files<'_>, options: &StoreOptions) -> Result<(), Error> {
    for path in &files.listing.unfinished {
        // This start may itself have used the name of an unfinished file.
        small_file::remove_quietly(files.disk, path)?;
    }
    for path in options.initialize_markers() {
        if let (true, Some(dir)) = (small_file::remove_quietly(files.disk, &path)?, path.parent()) {
            files.disk.sync_dir(dir).context("sync directory", dir)?;
        }
    }
    Ok(())
}

pub(crate) fn report(
    store: &Store,
    listing: &names::Listing,
    recovered: Recovered,
    (dropped, removed_ephemerals, start_snapshot): (Option<Dropped>, usize, StartSnapshot),
) -> (State, RecoveryReport) {
    let Recovered { state, snapshot, replay, rejected, ahead, raised_to, unresolved, took, .. } = recovered;
    let mut warnings = replay.warnings;
    let strange =
        |path: &PathBuf| format!("{} is not a log or snapshot and is ignored; Apache may read it", path.display());
    warnings.extend(listing.strange.iter().map(strange));
    warnings.extend(
        ahead.iter().map(|file| format!("{} contains more than the logs and was moved aside", file.path.display())),
    );
    warnings.extend(raised_to.map(|zxid| {
        format!(
            "the logs end at {}, but the snapshot contains parts of later transactions; going on after {zxid}",
            replay.last
        )
    }));
    if raised_to.is_none() && replay.last < replay.reach {
        let (last, reach) = (replay.last, replay.reach);
        warnings.push(format!("the logs end at {last}, the snapshot has parts of transactions up to {reach}"));
    }
    warnings.extend(replay.damaged_but_covered.iter().map(|log| {
        let moved = start_snapshot == StartSnapshot::Written || !replay.used.contains(&log.path);
        let what = if moved { "and was moved aside" } else { "; Apache could not read it" };
        format!("{} is damaged where the snapshot covers it {what}", log.path.display())
    }));
    store.warn_about_trailer(snapshot.as_ref(), &mut warnings);
    let report = RecoveryReport {
        snapshot: snapshot.map(|(file, _)| file.path),
        rejected,
        replayed: replay.records,
        snapshot_took: took.0,
        replay_took: took.1,
        last_zxid: state.last_zxid(),
        digest: state.digest(),
        digest_mismatches: replay.digests.mismatches,
        first_digest_mismatch: replay.digests.first_mismatch,
        conflicts: replay.conflicts,
        unresolved_acls: unresolved,
        dropped,
        removed_ephemerals,
        start_snapshot,
        warnings,
    };
    (state, report)
}
