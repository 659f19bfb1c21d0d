//! A server's store: opening it, and the handles for the server's threads.
//!
//! ```text
//! Store::open ──> State            (for the server)
//!            ├──> TxnLog           (for the log thread)
//!            ├──> Store            snapshots and purging, one at a time, from any thread
//!            └──> RecoveryReport   (for the operator's log)
//! ```

use crate::atomic_file;
use crate::directories::{Lock, lock_dirs, open_dirs};
use crate::disk::{Disk, OpenMode};
use crate::error::{IoContext, RejectedSnapshot, StoreError};
use crate::free_space::{FreeSpace, Reserve, Reserved, free_for_snapshot};
use crate::limits::STOP_NOTICED;
use crate::log_location;
use crate::member::install;
use crate::names::{self, Compression, DirListing, Dirs, LogFile, SnapshotFile};
use crate::purge::{self, Purged};
use crate::recovery::repair::{DroppedTail, move_aside, repair, sync_history};
use crate::recovery::{Files, Recovered, Rules, TornTail, recover};
use crate::session_clock;
use crate::snapshot::SnapshotTrailer;
use crate::snapshot::read::read_snapshot;
use crate::snapshot::write::{Structure, UnpublishedSnapshot, WriteLimits, prepare, publish};
use crate::txn_log::{LogOptions, TxnLog};
use crate::valid_range::ValidRange;
use ox_proto::Zxid;
use ox_proto::txn::{DIGEST_VERSION, TxnDigest};
use ox_tree::{FrozenView, State, TreeOptions};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Settings that concern files. Java property names are given in code font.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub data_dir: PathBuf,
    /// `dataLogDir`; `None` if it is the same directory.
    pub log_dir: Option<PathBuf>,
    pub create_dirs: bool,
    pub log: LogOptions,
    pub compression: Compression,
    /// `serializeLastProcessedZxid.enabled`: write the last part of a snapshot. The digest part depends on
    /// `digest.enabled`.
    pub write_last_zxid: bool,
    pub trust_empty: bool,
    pub torn_tail: TornTail,
    pub allow_gaps: bool,
    /// `maxBatchSize`: how many records one fsync may cover.
    pub batch_max: usize,
    /// Writes should be refused below this much free space; less on a small volume.
    pub low_water_bytes: u64,
    /// The size of the reserve for a full disk; less on a small volume.
    pub reserve_bytes: u64,
    /// The wall clock, for session ids and for names of files that are moved aside.
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

/// The snapshot that a standalone server takes when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartSnapshot {
    /// The newest snapshot equals the state.
    NotNeeded,
    /// Written, because without it the next start would recover a different state.
    Written,
    /// The caller should write it soon. Until then, the next start takes as long as this one.
    Due,
}

/// What the server logs about a recovery.
#[derive(Debug)]
pub struct RecoveryReport {
    /// The base of the replay; `None` for an empty database or a replay from the beginning.
    pub snapshot: Option<PathBuf>,
    /// The digest in that snapshot, and the last transaction applied when it was computed.
    pub snapshot_digest: Option<(Zxid, TxnDigest)>,
    /// Newer snapshots that could not be used.
    pub rejected: Vec<RejectedSnapshot>,
    /// The number of replayed transactions.
    pub replayed: u64,
    pub snapshot_took: Duration,
    pub replay_took: Duration,
    /// The last zxid of the state.
    pub last_zxid: Zxid,
    pub digest: i64,
    /// The number of digests in records or snapshots that did not match.
    pub digest_mismatches: u64,
    /// The zxid of the first mismatch.
    pub first_digest_mismatch: Option<Zxid>,
    /// Transactions that did not match the tree although the snapshot was complete.
    pub conflicts: u64,
    /// Nodes whose ACL is in none of the files; only super may access them.
    pub unresolved_acls: Vec<String>,
    /// The tail that was truncated.
    pub dropped: Option<DroppedTail>,
    /// The number of removed ephemeral nodes of sessions that do not exist.
    pub removed_ephemerals: usize,
    pub start_snapshot: StartSnapshot,
    /// Irregularities for the operator's attention.
    pub warnings: Vec<String>,
}

/// The handles of an opened store.
pub struct Opened {
    /// For snapshots, purging and free space.
    pub store: Store,
    pub state: State,
    pub log: TxnLog,
    /// The initial time of new session ids: later than at any earlier start, whatever the wall clock is.
    pub session_clock_ms: i64,
    pub report: RecoveryReport,
}

/// Snapshots and maintenance. Cheap to clone. The directories stay locked as long as a clone or the log exists.
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
    /// For a member's epochs and `oxk.*` files; allocated for members only.
    pub(crate) epochs_reserve: Arc<Reserve>,
    /// Held while snapshots are added or removed.
    pub(crate) files: Mutex<()>,
    /// Held only for a few instructions.
    pub(crate) valid_range: Mutex<ValidRange>,
    lock: Arc<Lock>,
}

/// The result of a request for a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotTaken {
    /// A new snapshot, which is durable.
    Written(SnapshotFile),
    /// An intact snapshot of that zxid exists already.
    Existed(SnapshotFile),
}

impl Store {
    /// Opens the directories of a standalone server and recovers its state. `seed` randomises when snapshots are due.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
        tree_options: &TreeOptions,
        seed: u64,
    ) -> Result<Opened, StoreError> {
        let store = Self::lock(disk, options, tree_options, ValidRange::Standalone)?;
        let (disk, dirs) = (&*store.0.disk, &store.0.dirs);
        match install::resume(disk, dirs) {
            // An installation that we did not start; the directory is not a member's.
            Err(StoreError::InstallUnreadable(_)) => (),
            resumed => resumed?,
        }
        let listing = store.listing()?;
        let files = Files::new(disk, dirs, &listing)?;
        let mut recovered = recover(&files, &options.rules(), tree_options)?;
        let dropped = repair(&files, &recovered, options.now_ms)?;
        sync_history(&files, &recovered)?;
        let removed_ephemerals = recovered.state.remove_dead_sessions_nodes();

        let start_snapshot = store.snapshot_at_start(&mut recovered, removed_ephemerals, options.now_ms)?;
        tidy(&files, options)?;
        let session_clock_ms = store.prepare_to_serve(options)?;
        let log = store.log(options, recovered.state.last_zxid(), seed)?;
        let (state, report) = report(&store, &listing, recovered, (dropped, removed_ephemerals, start_snapshot));
        Ok(Opened { store, state, log, session_clock_ms, report })
    }

    /// Opens and locks the directories.
    pub(crate) fn lock(
        disk: Arc<dyn Disk>,
        options: &StoreOptions,
        tree_options: &TreeOptions,
        valid_range: ValidRange,
    ) -> Result<Self, StoreError> {
        let log_dir = options.log_dir.as_deref().unwrap_or(&options.data_dir);
        let dirs = open_dirs(&*disk, &options.data_dir, log_dir, options.create_dirs)?;
        let lock = Arc::new(lock_dirs(&*disk, &dirs)?);
        log_location::check(&*disk, &dirs)?;
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
            valid_range: Mutex::new(valid_range),
            lock,
        })))
    }

    /// Lists the directories; fails if files are in the wrong one.
    pub(crate) fn listing(&self) -> Result<names::DirListing, StoreError> {
        let listing = names::list(&*self.0.disk, &self.0.dirs)?;
        listing.check_places(&*self.0.disk, &self.0.dirs)?;
        Ok(listing)
    }

    /// Prepares what a server needs before it serves; returns the time for its session ids.
    pub(crate) fn prepare_to_serve(&self, options: &StoreOptions) -> Result<i64, StoreError> {
        log_location::record(&*self.0.disk, &self.0.dirs)?;
        let session_clock_ms = session_clock::advance(&*self.0.disk, &self.0.dirs.logs, options.now_ms)?;
        self.0.reserve.create()?;
        Ok(session_clock_ms)
    }

    /// The log that continues after `last`.
    pub(crate) fn log(&self, options: &StoreOptions, last: Zxid, seed: u64) -> Result<TxnLog, StoreError> {
        let shared = &*self.0;
        let held = (Arc::clone(&shared.lock), Arc::clone(&shared.reserved), Arc::clone(&shared.reserve));
        TxnLog::new(Arc::clone(&shared.disk), shared.dirs.clone(), options.log.clone(), last, seed, held)
    }

    /// Writes a snapshot of `frozen`, unless an intact one of that zxid exists. Fails if the snapshot would use space
    /// that the log needs. The store remains usable after an error.
    pub fn write_snapshot(&self, frozen: &FrozenView) -> Result<SnapshotTaken, StoreError> {
        self.write_snapshot_throttled(frozen, &|| ())
    }

    /// As [`Self::write_snapshot`], calling `pause` after each chunk to limit the load.
    pub fn write_snapshot_throttled(&self, frozen: &FrozenView, pause: &dyn Fn()) -> Result<SnapshotTaken, StoreError> {
        let shared = &*self.0;
        let _files = shared.files.lock();
        let last = frozen.last_zxid();
        shared.valid_range.lock().check_snapshot(last)?;
        let listing = names::list(&*shared.disk, &shared.dirs)?;
        for file in listing.snapshots.iter().filter(|file| file.last == last) {
            if read_snapshot(&*shared.disk, file, &mut Structure::default()).is_ok() {
                shared.disk.sync_dir(&shared.dirs.snapshots).context("fsync directory", &shared.dirs.snapshots)?;
                return Ok(SnapshotTaken::Existed(file.clone()));
            }
        }
        let (dir, low_water_bytes) = (&shared.dirs.snapshots, shared.low_water_bytes);
        let free_bytes = &|| free_for_snapshot(&*shared.disk, dir, low_water_bytes);
        let written = self.write_into(frozen, WriteLimits { free_bytes, pause })?;
        // Besides the leader's snapshot that replaced the old files there is another one now. What cannot be removed is
        // removed next time.
        listing.old.iter().for_each(|path| _ = shared.disk.remove(path));
        self.drop_from_cache(&listing, last);
        Ok(SnapshotTaken::Written(written))
    }

    /// Drops files that the snapshot supersedes from the page cache, so that new files reuse their pages.
    fn drop_from_cache(&self, before: &DirListing, last: Zxid) {
        let old = before.snapshots.iter().find(|file| file.last < last);
        let since = old.map_or(Zxid::ZERO, |file| file.last);
        let is_covered = |pair: &&[LogFile]| since < pair[1].first && pair[1].first <= last;
        let logs = before.logs.windows(2).filter(is_covered).map(|pair| &pair[0].path);
        for path in logs.chain(old.map(|file| &file.path)) {
            if let Ok(file) = self.0.disk.open(path, OpenMode::Read) {
                file.drop_from_cache();
            }
        }
    }

    /// Removes files that are not needed to keep `retain` intact snapshots, at least 3, and the logs after them. It
    /// reads all of these first, and waits for a snapshot that is being written. `stop` is polled frequently.
    pub fn purge(&self, retain: usize, stop: &dyn Fn() -> bool) -> Result<Purged, StoreError> {
        let shared = &*self.0;
        let _files = loop {
            if stop() {
                return Err(StoreError::PurgeStopped);
            }
            if let Some(files) = shared.files.try_lock_for(STOP_NOTICED) {
                break files;
            }
        };
        if *shared.valid_range.lock() == ValidRange::Unusable {
            return Ok(Purged::default());
        }
        purge::purge(&*shared.disk, &shared.dirs, retain, &shared.valid_range, stop)
    }

    /// The free space for logs and snapshots.
    pub fn space(&self) -> Result<FreeSpace, StoreError> {
        let shared = &*self.0;
        FreeSpace::measure(&*shared.disk, &shared.dirs, &shared.reserved, &shared.reserve, shared.low_water_bytes)
    }

    /// Allocates the reserve again if the log had to release it and there is enough free space now.
    pub fn renew_reserve(&self, space: &FreeSpace) -> Result<(), StoreError> {
        let shared = &*self.0;
        shared.reserve.renew(space)?;
        if *shared.valid_range.lock() == ValidRange::Standalone { Ok(()) } else { shared.epochs_reserve.renew(space) }
    }

    pub fn dirs(&self) -> &Dirs {
        &self.0.dirs
    }

    fn trailer(&self, frozen: &FrozenView) -> SnapshotTrailer {
        let last = frozen.last_zxid();
        // Compat: before its first transaction Apache writes a digest of 0 at zxid 0, which readers do not compare.
        let tree_digest = if last == Zxid::ZERO { 0 } else { frozen.digest() };
        let digest = TxnDigest { version: DIGEST_VERSION, tree_digest };
        SnapshotTrailer {
            digest: self.0.write_digest.then_some((last, digest)),
            last_zxid: self.0.write_last_zxid.then_some(last),
        }
    }

    /// Writes a snapshot immediately if recovery from the existing files would not yield this state.
    fn snapshot_at_start(
        &self,
        recovered: &mut Recovered,
        removed: usize,
        now_ms: i64,
    ) -> Result<StartSnapshot, StoreError> {
        let (replay, damaged) = (&recovered.replay, &recovered.replay.damaged_but_covered);
        let changed = 0 < removed || recovered.raised_to.is_some() || recovered.snapshot.is_none() || replay.has_gaps;
        let stands = !changed && replay.records == 0;
        if !stands && !changed && damaged.is_empty() && replay.rescued.is_empty() {
            return Ok(StartSnapshot::Due);
        }
        if !stands {
            self.replace_snapshot(&recovered.state.freeze(), recovered.snapshot.as_ref(), now_ms)?;
        }
        // The snapshot contains all their records, and Apache would refuse to read them.
        for log in damaged {
            move_aside(&*self.0.disk, &log.path, now_ms)?;
        }
        let replay = &mut recovered.replay;
        for log in replay.rescued.iter().filter(|log| !replay.damaged_but_covered.contains(log)) {
            let aside = move_aside(&*self.0.disk, &log.path, now_ms)?;
            let (path, aside) = (log.path.display(), aside.display());
            replay.warnings.push(format!(
                "the intact records of {path} were kept, in a new snapshot; the damaged file was kept as {aside}"
            ));
        }
        Ok(if stands { StartSnapshot::NotNeeded } else { StartSnapshot::Written })
    }

    /// Writes a snapshot that replaces the loaded one if it has the same zxid.
    fn replace_snapshot(
        &self,
        frozen: &FrozenView,
        loaded: Option<&(SnapshotFile, SnapshotTrailer)>,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        let shared = &*self.0;
        let _files = shared.files.lock();
        // The server cannot start without it, so it may use all free space.
        let file = self.write_into(frozen, WriteLimits::ANY)?;
        match loaded {
            Some((old, _)) if old.last == file.last && old.path != file.path => {
                move_aside(&*shared.disk, &old.path, now_ms).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn write_into(&self, frozen: &FrozenView, limits: WriteLimits<'_>) -> Result<SnapshotFile, StoreError> {
        self.prepare(frozen, limits).and_then(|prepared| publish(&*self.0.disk, prepared))
    }

    /// Writes a snapshot under a temporary name.
    pub(crate) fn prepare(
        &self,
        frozen: &FrozenView,
        limits: WriteLimits<'_>,
    ) -> Result<UnpublishedSnapshot, StoreError> {
        let (shared, trailer) = (&*self.0, self.trailer(frozen));
        let (dir, last) = (&shared.dirs.snapshots, frozen.last_zxid());
        prepare(&*shared.disk, dir, last, shared.compression, limits, |writer| writer.write(frozen, &trailer))
    }

    /// Warns if Apache with these settings could not read the loaded snapshot.
    fn warn_about_trailer(&self, snapshot: Option<&(SnapshotFile, SnapshotTrailer)>, warnings: &mut Vec<String>) {
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

    /// Possible locations of the `initialize` marker: Apache looks in one directory, its scripts put it into the other.
    pub fn initialize_markers(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::once(&self.data_dir).chain(&self.log_dir).map(|dir| dir.join("initialize"))
    }
}

/// Removes temporary files of earlier runs, and the `initialize` marker, which is valid for one start.
pub(crate) fn tidy(files: &Files<'_>, options: &StoreOptions) -> Result<(), StoreError> {
    for path in &files.listing.unfinished {
        // This start may have reused the name of a temporary file.
        atomic_file::remove_quietly(files.disk, path)?;
    }
    for path in options.initialize_markers() {
        if let (true, Some(dir)) = (atomic_file::remove_quietly(files.disk, &path)?, path.parent()) {
            files.disk.sync_dir(dir).context("fsync directory", dir)?;
        }
    }
    Ok(())
}

pub(crate) fn report(
    store: &Store,
    listing: &names::DirListing,
    recovered: Recovered,
    (dropped, removed_ephemerals, start_snapshot): (Option<DroppedTail>, usize, StartSnapshot),
) -> (State, RecoveryReport) {
    let Recovered { state, snapshot, replay, rejected, ahead, raised_to, unresolved, took, .. } = recovered;
    let mut warnings = replay.warnings;
    let unrecognised =
        |path: &PathBuf| format!("{} is not a log or snapshot and is ignored; Apache may read it", path.display());
    warnings.extend(listing.unrecognised.iter().map(unrecognised));
    warnings.extend(ahead.iter().map(|file| {
        format!("{} contains transactions that the logs do not contain, and was moved aside", file.path.display())
    }));
    warnings.extend(raised_to.map(|zxid| {
        format!(
            "the logs end at {}, but the snapshot contains parts of later transactions; continuing after {zxid}",
            replay.last
        )
    }));
    if raised_to.is_none() && replay.last < replay.reach {
        let (last, reach) = (replay.last, replay.reach);
        warnings.push(format!("the logs end at {last}, the snapshot has parts of transactions up to {reach}"));
    }
    warnings.extend(replay.damaged_but_covered.iter().map(|log| {
        let moved = start_snapshot == StartSnapshot::Written || !replay.used.contains(&log.path);
        let what = if moved { ", and was moved aside" } else { "; Apache could not read it" };
        format!("{} is damaged where the snapshot covers it{what}", log.path.display())
    }));
    store.warn_about_trailer(snapshot.as_ref(), &mut warnings);
    let report = RecoveryReport {
        snapshot_digest: snapshot.as_ref().and_then(|(_, trailer)| trailer.digest),
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
