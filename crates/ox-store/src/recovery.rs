//! Recovery: choosing a snapshot, replaying the logs, and checking that the history is complete.
//!
//! ```text
//! snapshots, newest first:  load ──> replay the logs after it ──> complete? ── yes ──> repair, fsync, serve
//!                            │ broken        │ gap, corrupt          │ older history only
//!                            └──── next ─────┴───────── next ────────┘
//! ```
//! An incomplete history is never served. Each snapshot is loaded into a separate state, so that nothing of a rejected
//! one remains; every transaction must follow its predecessor; and the history must reach every zxid that a rejected
//! snapshot or the marker of the synced position shows to have existed. Reading changes nothing on disk; [`repair`]
//! does that once the outcome is known.
//!
//! A copy that was made while the server ran (`marker.rs`) may lack its end, but nothing else. A standalone server
//! starts with it; an ensemble member does not use it until a leader has synchronised it.

pub(crate) mod digests;
pub(crate) mod repair;
pub(crate) mod replay;

use crate::disk::Disk;
use crate::error::{RejectedSnapshot, StoreError};
use crate::marker::Marker;
use crate::names::{DirListing, Dirs, LogFile, SnapshotFile};
use crate::snapshot::read::{SnapshotSink, StoredNode, read_snapshot, read_snapshot_stream};
use crate::snapshot::{SnapshotContents, SnapshotError, SnapshotTrailer};
use ox_proto::{RawAcls, SessionId, Zxid};
use ox_tree::{Loader, State, TreeOptions};
pub use repair::DroppedTail;
use replay::{Base, Chain, Replay, missing};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to do about a torn tail that Apache would refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornTail {
    /// Truncate it: it was never acknowledged.
    #[default]
    Truncate,
    Refuse,
}

/// The operator's settings for recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) trust_empty: bool,
    pub(crate) torn_tail: TornTail,
    pub(crate) allow_gaps: bool,
    pub(crate) batch_max: usize,
    /// `None` for a standalone server.
    pub(crate) member: Option<MemberRules>,
}

/// Rules for an ensemble member, which may know less than the others but must never claim more than is proven.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberRules {
    /// Truncate a tail that may have been acknowledged.
    pub(crate) accept_doubt: bool,
    /// The number of newest records to keep.
    pub(crate) recent_max: usize,
    /// Stop at this zxid, for a truncation.
    pub(crate) limit: Option<Zxid>,
}

impl Rules {
    pub(crate) fn limit(&self) -> Option<Zxid> {
        self.member?.limit
    }
}

/// A history that was found to be complete.
pub(crate) struct Recovered {
    pub(crate) state: State,
    /// The base of the replay; `None` for an empty database or a replay from the beginning.
    pub(crate) snapshot: Option<(SnapshotFile, SnapshotTrailer)>,
    pub(crate) replay: Replay,
    /// Unusable snapshots, newest first.
    pub(crate) rejected: Vec<RejectedSnapshot>,
    /// Snapshots that contain more than the logs. They are moved aside, because the history continues without them.
    pub(crate) ahead: Vec<SnapshotFile>,
    /// The state contains parts of transactions beyond the logs, up to here, and its last zxid was raised accordingly.
    pub(crate) raised_to: Option<Zxid>,
    /// Logs without records, to be removed.
    pub(crate) empty_logs: Vec<LogFile>,
    /// Nodes whose ACL is in none of the files.
    pub(crate) unresolved: Vec<String>,
    /// The durations of reading the snapshot and of replaying the logs.
    pub(crate) took: (Duration, Duration),
}

/// The files that recovery reads.
pub(crate) struct Files<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) dirs: &'a Dirs,
    pub(crate) listing: &'a DirListing,
    /// The marker, if it describes this directory.
    pub(crate) marker: Option<Marker>,
    /// The marker of the running server from which this directory was copied.
    pub(crate) copied_from: Option<Marker>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, dirs: &'a Dirs, listing: &'a DirListing) -> Result<Self, StoreError> {
        let (marker, copied_from) = match Marker::load(disk, &dirs.logs)? {
            Some(found) if found.is_copied && !found.is_complete(disk, dirs, listing)? => (None, Some(found.marker)),
            found => (found.map(|found| found.marker), None),
        };
        Ok(Self { disk, dirs, listing, marker, copied_from })
    }
}

/// Recovers the state without changing any file.
pub(crate) fn recover(files: &Files<'_>, rules: &Rules, options: &TreeOptions) -> Result<Recovered, StoreError> {
    let chain = Chain::open(files, *rules)?;
    let chosen = choose(files, &chain, rules, options);
    let mut recovered = match &files.copied_from {
        Some(original) => check_copy(files, original, rules, chosen)?,
        None => chosen?,
    };
    recovered.empty_logs = chain.empty;
    Ok(recovered)
}

/// A copy may lack its end. A member has acknowledged the missing records, so it needs the operator's consent.
fn check_copy(
    files: &Files<'_>,
    original: &Marker,
    rules: &Rules,
    chosen: Result<Recovered, StoreError>,
) -> Result<Recovered, StoreError> {
    let path = files.dirs.logs.clone();
    let mut recovered = match chosen {
        Err(error) if error.is_damage() => return Err(StoreError::CopyBroken { path, source: Box::new(error) }),
        chosen => chosen?,
    };
    let last = recovered.replay.last;
    let copied = StoreError::Copied { path, last, synced: original.last.max(last) };
    if rules.member.is_some_and(|member| !member.accept_doubt) {
        return Err(copied);
    }
    recovered.replay.warnings.push(format!("{copied}; continuing without the transactions after {last}"));
    Ok(recovered)
}

fn choose(files: &Files<'_>, chain: &Chain<'_>, rules: &Rules, options: &TreeOptions) -> Result<Recovered, StoreError> {
    let snapshots = &files.listing.snapshots;
    let mut rejected: Vec<RejectedSnapshot> = Vec::new();
    let mut ahead: Vec<SnapshotFile> = Vec::new();
    let limit = rules.limit().unwrap_or(Zxid(i64::MAX));
    for snapshot in snapshots.iter().filter(|snapshot| snapshot.last <= limit) {
        let attempt = attempt(files, chain, snapshot, options)
            .and_then(|found| found.complete(files, rules, &rejected, snapshots));
        match attempt {
            Ok(found) if found.is_ahead() || limit < found.replay.reach => ahead.push(snapshot.clone()),
            Ok(found) => return Ok(Recovered { rejected, ahead, ..found }),
            Err(reason) => rejected.push(RejectedSnapshot { path: snapshot.path.clone(), reason: Box::new(reason) }),
        }
    }
    if let Some(newest) = ahead.first().filter(|_| rules.limit().is_none()) {
        // No older snapshot is complete: keep the contents of this one. A member receives the rest from the leader; a
        // standalone server never uses those zxids again.
        let found = attempt(files, chain, newest, options)?.complete(files, rules, &rejected, snapshots)?;
        let found = if rules.member.is_some() { found } else { found.raised() };
        return Ok(Recovered { rejected, ..found });
    }
    if chain.logs.is_empty() && snapshots.is_empty() {
        return replay_from_start(files, chain, options)?.complete(files, rules, &[], snapshots);
    }
    if rules.trust_empty {
        let found = replay_from_start(files, chain, options)
            .and_then(|found| found.complete(files, rules, &rejected, snapshots));
        return found.map(|found| Recovered { rejected, ..found });
    }
    match chain.logs.first() {
        Some(log) if snapshots.is_empty() => Err(StoreError::NoSnapshot(log.path.clone())),
        _ => Err(StoreError::NoUsableSnapshot(rejected)),
    }
}

/// A snapshot, loaded into a separate state.
pub struct LoadedSnapshot {
    pub state: State,
    pub contents: SnapshotContents,
    /// Nodes whose ACL is not in the file.
    pub unresolved: Vec<String>,
    /// The last zxid of which parts may be contained, and whether the snapshot itself contains this zxid.
    pub reach: (Zxid, bool),
}

/// Loads a snapshot into a new state.
pub fn load_snapshot(
    disk: &dyn Disk,
    snapshot: &SnapshotFile,
    options: &TreeOptions,
) -> Result<LoadedSnapshot, StoreError> {
    let mut sink = LoaderSink(Loader::new(options.clone()));
    let contents = read_snapshot(disk, snapshot, &mut sink)?;
    let unresolved = sink.0.take_unresolved();
    let state = sink.0.finish(snapshot.last).map_err(|error| {
        let source = SnapshotError::Content(error.to_string());
        StoreError::Snapshot { path: snapshot.path.clone(), source }
    })?;
    let recorded = contents.trailer.last_zxid.or(contents.trailer.digest.map(|(zxid, _)| zxid));
    let reach = recorded.unwrap_or_else(|| state.max_node_zxid()).max(snapshot.last);
    Ok(LoadedSnapshot { state, contents, unresolved, reach: (reach, recorded.is_some()) })
}

/// Loads an uncompressed snapshot that an operator sends, to restore it. It must contain its last zxid and all ACLs.
pub fn load_snapshot_stream(from: impl io::Read + Send, options: &TreeOptions) -> Result<State, SnapshotError> {
    let mut sink = LoaderSink(Loader::new(options.clone()));
    let contents = read_snapshot_stream(from, &mut sink)?;
    let trailer = contents.trailer;
    let last = trailer.last_zxid.or(trailer.digest.map(|(zxid, _)| zxid)).ok_or(SnapshotError::NoZxid)?;
    if let Some(path) = sink.0.take_unresolved().first() {
        return Err(SnapshotError::Content(format!("the ACL of {path} is missing")));
    }
    sink.0.finish(last).map_err(|error| SnapshotError::Content(error.to_string()))
}

/// Loads a snapshot and replays the logs after it.
fn attempt(
    files: &Files<'_>,
    chain: &Chain<'_>,
    snapshot: &SnapshotFile,
    options: &TreeOptions,
) -> Result<Recovered, StoreError> {
    let started = Instant::now();
    let LoadedSnapshot { mut state, contents, mut unresolved, reach } = load_snapshot(files.disk, snapshot, options)?;
    let trailer = contents.trailer;
    let base = Base {
        last: snapshot.last,
        reach: reach.0,
        reach_is_recorded: reach.1,
        digest: trailer.digest,
        is_nothing: false,
        newer: files.listing.snapshots.iter().map(|file| file.last).filter(|last| snapshot.last < *last).collect(),
    };
    let loaded = Instant::now();
    let replay = chain.replay(&base, &mut state)?;
    let took = (loaded - started, loaded.elapsed());
    unresolved.retain(|path| state.is_closed(path)); // creates and setACLs in the logs carry the ACL
    Ok(Recovered { took, unresolved, ..Recovered::new(state, Some((snapshot.clone(), trailer)), replay) })
}

fn replay_from_start(files: &Files<'_>, chain: &Chain<'_>, options: &TreeOptions) -> Result<Recovered, StoreError> {
    let mut state = State::new(options.clone());
    let base = Base {
        last: Zxid::ZERO,
        reach: Zxid::ZERO,
        reach_is_recorded: true,
        digest: None,
        is_nothing: true,
        newer: files.listing.snapshots.iter().map(|file| file.last).filter(|last| Zxid::ZERO < *last).collect(),
    };
    let started = Instant::now();
    let replay = chain.replay(&base, &mut state)?;
    Ok(Recovered { took: (Duration::ZERO, started.elapsed()), ..Recovered::new(state, None, replay) })
}

impl Recovered {
    fn new(state: State, snapshot: Option<(SnapshotFile, SnapshotTrailer)>, replay: Replay) -> Self {
        let (rejected, ahead, empty_logs, unresolved) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let took = (Duration::ZERO, Duration::ZERO);
        Self { state, snapshot, replay, rejected, ahead, raised_to: None, empty_logs, unresolved, took }
    }

    /// Whether the snapshot contains parts of transactions that the logs do not have.
    fn is_ahead(&self) -> bool {
        self.replay.last < self.replay.reach
    }

    /// Whether older snapshots lead to the loaded one. At the start of an epoch, which has no record, this is unknown.
    pub(crate) fn leads_to_base(&self) -> bool {
        let Some((base, _)) = &self.snapshot else { return true };
        let Replay { covered_to, torn, .. } = &self.replay;
        let is_reached = base.last <= *covered_to || (base.last.counter() == 0 && torn.is_none());
        is_reached && self.unused_and_damaged().next().is_none()
    }

    /// Damaged logs of which no record was applied.
    pub(crate) fn unused_and_damaged(&self) -> impl Iterator<Item = &LogFile> {
        self.replay.damaged_but_covered.iter().filter(|log| !self.replay.used.contains(&log.path))
    }

    fn raised(mut self) -> Self {
        let reach = self.replay.reach;
        self.state.set_last_zxid(reach);
        self.raised_to = Some(reach);
        self
    }

    /// Checks that every zxid that is known to have existed was reached.
    fn complete(
        mut self,
        files: &Files<'_>,
        rules: &Rules,
        rejected: &[RejectedSnapshot],
        snapshots: &[SnapshotFile],
    ) -> Result<Self, StoreError> {
        let last = self.replay.last;
        let lost = snapshots.iter().find(|file| last < file.last && rejected.iter().any(|one| one.path == file.path));
        if let Some(file) = lost {
            self.give_up(rules, StoreError::SnapshotLost { path: file.path.clone(), last }, file.last)?;
        }
        let last_read = self.replay.last_read();
        if let Some(marker) = files.marker.filter(|marker| last_read < marker.last && !self.replay.marker_is_foreign) {
            let path: PathBuf = files.dirs.logs.join(crate::names::log_name(marker.log));
            self.give_up(rules, StoreError::SyncedLost { path, synced: marker.last, last }, marker.last)?;
        }
        if rules.allow_gaps {
            return Ok(self);
        }
        // A leader's snapshot may have replaced the history in the older logs, which a change of epoch hides.
        let base = self.snapshot.as_ref().map_or(Zxid::ZERO, |(file, _)| file.last);
        let is_unproven = |file: &&SnapshotFile| base < file.last && !self.replay.passed.contains(&file.last);
        if let Some(file) = snapshots.iter().filter(|_| rules.member.is_some()).find(is_unproven) {
            return Err(StoreError::Unproven { path: file.path.clone(), base });
        }
        Ok(self)
    }

    /// Fails because the transactions after the history, up to `to`, are missing; if gaps are allowed, reports them.
    fn give_up(&mut self, rules: &Rules, error: StoreError, to: Zxid) -> Result<(), StoreError> {
        if !rules.allow_gaps {
            return Err(error);
        }
        let lost = lost_after(self.replay.last, to);
        let warning = format!("continuing because of oxkeeper.recovery.allowGaps: {error}; {lost} given up");
        self.replay.warnings.push(warning);
        Ok(())
    }
}

/// The transactions after `last`, up to `to`, as the subject of "given up".
fn lost_after(last: Zxid, to: Zxid) -> String {
    if last.epoch() == to.epoch() {
        missing(last, Zxid(to.0.saturating_add(1)))
    } else {
        format!("all transactions after {last}, up to {to}, are")
    }
}

/// Passes the contents of a snapshot to the tree.
pub(crate) struct LoaderSink(pub(crate) Loader);

impl SnapshotSink for LoaderSink {
    fn session(&mut self, id: SessionId, timeout_ms: i32) -> Result<(), String> {
        self.0.session(id, timeout_ms);
        Ok(())
    }

    fn acl(&mut self, id: i64, acls: RawAcls<'_>) -> Result<(), String> {
        self.0.acl(id, acls).map_err(|error| error.to_string())
    }

    fn node(&mut self, node: &StoredNode<'_>) -> Result<(), String> {
        self.0.node(&node.path, node.data, node.acl, node.stat).map_err(|error| error.to_string())
    }
}
