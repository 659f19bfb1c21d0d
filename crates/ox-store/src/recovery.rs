//! From files to a state: which snapshot, which logs, and whether together they are the whole history.
//!
//! ```text
//! snapshots, newest first:  load ──> replay the logs behind it ──> complete? ── yes ──> repair, sync, serve
//!                             │ broken         │ hole, corrupt         │ older history only
//!                             └──── next ──────┴─────── next ──────────┘
//! ```
//! The rule above all: a history with something missing is never served. Each snapshot is decoded into a state of
//! its own, so nothing of a rejected one is left; every transaction must follow the one before it; and what a
//! rejected snapshot or the synced-position marker shows to have existed must have been reached. Reading changes
//! nothing on disk; [`repair`] does that once the outcome is known.
//!
//! A copy that was made while the server ran (`marker.rs`) may lack its end, and nothing else: a standalone server starts
//! on it, an ensemble member does not use it before it has synchronised with a leader.

pub(crate) mod digests;
pub(crate) mod repair;
pub(crate) mod replay;

use crate::disk::Disk;
use crate::error::{Error, Rejected};
use crate::marker::Marker;
use crate::names::{Dirs, Listing, LogFile, SnapshotFile};
use crate::snapshot::read::{Sink, StoredNode, read_snapshot};
use crate::snapshot::{Contents, Trailer};
use ox_proto::{RawAcls, SessionId, Zxid};
use ox_tree::{Loader, State, TreeOptions};
pub use repair::Dropped;
use replay::{Base, Chain, Replay};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to do about a torn tail that Apache would refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornTail {
    /// Cut it: it was never acknowledged.
    #[default]
    Truncate,
    /// Refuse to start.
    Refuse,
}

/// Choices of the operator that recovery obeys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) trust_empty: bool,
    pub(crate) torn_tail: TornTail,
    pub(crate) allow_gaps: bool,
    pub(crate) batch_max: usize,
    /// None for a standalone server.
    pub(crate) member: Option<MemberRules>,
}

/// What differs for an ensemble member: it may know less than the others, but never claim more than is proven.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberRules {
    /// Cut a tail that may have been acknowledged.
    pub(crate) accept_doubt: bool,
    /// How many of the newest records are kept.
    pub(crate) window: usize,
    /// Nothing above this is part of the history.
    pub(crate) limit: Option<Zxid>,
}

impl Rules {
    pub(crate) fn limit(&self) -> Option<Zxid> {
        self.member?.limit
    }
}

/// A complete history.
pub(crate) struct Recovered {
    pub(crate) state: State,
    /// What it was built on; none for an empty database or a replay from the beginning.
    pub(crate) snapshot: Option<(SnapshotFile, Trailer)>,
    pub(crate) replay: Replay,
    /// Snapshots that cannot be used, newest first.
    pub(crate) rejected: Vec<Rejected>,
    /// Snapshots that contain more than the logs; to be moved aside, because the history goes on without them.
    pub(crate) ahead: Vec<SnapshotFile>,
    /// The state contains parts of transactions beyond the logs, up to here, and counts as being there.
    pub(crate) raised_to: Option<Zxid>,
    /// Logs without a record, to be removed.
    pub(crate) empty_logs: Vec<LogFile>,
    /// Nodes whose access control list is in none of the files.
    pub(crate) unresolved: Vec<String>,
    /// How long reading the snapshot took, and replaying the logs.
    pub(crate) took: (Duration, Duration),
}

/// The files a recovery works on.
pub(crate) struct Files<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) dirs: &'a Dirs,
    pub(crate) listing: &'a Listing,
    /// The marker, if it speaks of this directory.
    pub(crate) marker: Option<Marker>,
    /// The marker of the running server that this directory was copied from.
    pub(crate) copied_from: Option<Marker>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, dirs: &'a Dirs, listing: &'a Listing) -> Result<Self, Error> {
        let (marker, copied_from) = match Marker::load(disk, &dirs.logs)? {
            Some(found) if found.is_copied && !found.is_complete(disk, dirs, listing)? => (None, Some(found.marker)),
            found => (found.map(|found| found.marker), None),
        };
        Ok(Self { disk, dirs, listing, marker, copied_from })
    }
}

/// Builds the state.
pub(crate) fn recover(files: &Files<'_>, rules: &Rules, options: &TreeOptions) -> Result<Recovered, Error> {
    let chain = Chain::open(files, *rules)?;
    let chosen = choose(files, &chain, rules, options);
    let mut recovered = match &files.copied_from {
        Some(original) => check_copy(files, original, rules, chosen)?,
        None => chosen?,
    };
    recovered.empty_logs = chain.empty;
    Ok(recovered)
}

/// A copy may lack its end. A member has acknowledged what is missing, so only its operator can vouch for the rest.
fn check_copy(
    files: &Files<'_>,
    original: &Marker,
    rules: &Rules,
    chosen: Result<Recovered, Error>,
) -> Result<Recovered, Error> {
    let path = files.dirs.logs.clone();
    let mut recovered = match chosen {
        Err(error) if error.is_damage() => return Err(Error::CopyBroken { path, source: Box::new(error) }),
        chosen => chosen?,
    };
    let last = recovered.replay.last;
    let copied = Error::Copied { path, last, synced: original.last.max(last) };
    if rules.member.is_some_and(|member| !member.accept_doubt) {
        return Err(copied);
    }
    recovered.replay.warnings.push(format!("{copied}; going on without what came after {last}"));
    Ok(recovered)
}

fn choose(files: &Files<'_>, chain: &Chain<'_>, rules: &Rules, options: &TreeOptions) -> Result<Recovered, Error> {
    let snapshots = &files.listing.snapshots;
    let mut rejected: Vec<Rejected> = Vec::new();
    let mut ahead: Vec<SnapshotFile> = Vec::new();
    let limit = rules.limit().unwrap_or(Zxid(i64::MAX));
    for snapshot in snapshots.iter().filter(|snapshot| snapshot.last <= limit) {
        let attempt = attempt(files, chain, snapshot, options)
            .and_then(|found| found.complete(files, rules, &rejected, snapshots));
        match attempt {
            Ok(found) if found.is_ahead() || limit < found.replay.reach => ahead.push(snapshot.clone()),
            Ok(found) => return Ok(Recovered { rejected, ahead, ..found }),
            Err(reason) => rejected.push(Rejected { path: snapshot.path.clone(), reason: Box::new(reason) }),
        }
    }
    if let Some(newest) = ahead.first().filter(|_| rules.limit().is_none()) {
        // Nothing older is complete: keep what it contains. A member gets the rest from the others; a standalone server
        // never uses those zxids again.
        let found = attempt(files, chain, newest, options)?.complete(files, rules, &rejected, snapshots)?;
        let found = if rules.member.is_some() { found } else { found.raised() };
        return Ok(Recovered { rejected, ..found });
    }
    if chain.logs.is_empty() && snapshots.is_empty() {
        return from_nothing(files, chain, options)?.complete(files, rules, &[], snapshots);
    }
    if rules.trust_empty {
        let found =
            from_nothing(files, chain, options).and_then(|found| found.complete(files, rules, &rejected, snapshots));
        return found.map(|found| Recovered { rejected, ..found });
    }
    match chain.logs.first() {
        Some(log) if snapshots.is_empty() => Err(Error::NoSnapshot(log.path.clone())),
        _ => Err(Error::NoUsableSnapshot(rejected)),
    }
}

/// A snapshot as a state of its own.
pub(crate) struct LoadedSnapshot {
    pub(crate) state: State,
    pub(crate) contents: Contents,
    /// Nodes whose access control list is not in the file.
    pub(crate) unresolved: Vec<String>,
    /// Last zxid of which parts may be contained, and whether the snapshot says so itself.
    pub(crate) reach: (Zxid, bool),
}

/// Reads a snapshot into a fresh state.
pub(crate) fn load(disk: &dyn Disk, snapshot: &SnapshotFile, options: &TreeOptions) -> Result<LoadedSnapshot, Error> {
    let mut sink = LoaderSink(Loader::new(options.clone()));
    let contents = read_snapshot(disk, snapshot, &mut sink)?;
    let unresolved = sink.0.take_unresolved();
    let state = sink.0.finish(snapshot.last).map_err(|error| {
        let source = crate::snapshot::SnapshotError::Content(error.to_string());
        Error::Snapshot { path: snapshot.path.clone(), source }
    })?;
    let told = contents.trailer.last_zxid.or(contents.trailer.digest.map(|(zxid, _)| zxid));
    let reach = told.unwrap_or_else(|| state.max_node_zxid()).max(snapshot.last);
    Ok(LoadedSnapshot { state, contents, unresolved, reach: (reach, told.is_some()) })
}

/// Loads a snapshot and replays what follows it.
fn attempt(
    files: &Files<'_>,
    chain: &Chain<'_>,
    snapshot: &SnapshotFile,
    options: &TreeOptions,
) -> Result<Recovered, Error> {
    let started = Instant::now();
    let LoadedSnapshot { mut state, contents, mut unresolved, reach } = load(files.disk, snapshot, options)?;
    let trailer = contents.trailer;
    let base = Base {
        last: snapshot.last,
        reach: reach.0,
        reach_is_told: reach.1,
        digest: trailer.digest,
        is_nothing: false,
        newer: files.listing.snapshots.iter().map(|file| file.last).filter(|last| snapshot.last < *last).collect(),
    };
    let loaded = Instant::now();
    let replay = chain.replay(&base, &mut state)?;
    let took = (loaded - started, loaded.elapsed());
    unresolved.retain(|path| state.is_closed(path)); // creates and setACLs in the logs carry the list
    Ok(Recovered { took, unresolved, ..Recovered::new(state, Some((snapshot.clone(), trailer)), replay) })
}

fn from_nothing(files: &Files<'_>, chain: &Chain<'_>, options: &TreeOptions) -> Result<Recovered, Error> {
    let mut state = State::new(options.clone());
    let base = Base {
        last: Zxid::ZERO,
        reach: Zxid::ZERO,
        reach_is_told: true,
        digest: None,
        is_nothing: true,
        newer: files.listing.snapshots.iter().map(|file| file.last).filter(|last| Zxid::ZERO < *last).collect(),
    };
    let started = Instant::now();
    let replay = chain.replay(&base, &mut state)?;
    Ok(Recovered { took: (Duration::ZERO, started.elapsed()), ..Recovered::new(state, None, replay) })
}

impl Recovered {
    fn new(state: State, snapshot: Option<(SnapshotFile, Trailer)>, replay: Replay) -> Self {
        let (rejected, ahead, empty_logs, unresolved) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let took = (Duration::ZERO, Duration::ZERO);
        Self { state, snapshot, replay, rejected, ahead, raised_to: None, empty_logs, unresolved, took }
    }

    /// The snapshot contains parts of transactions that the logs do not have.
    fn is_ahead(&self) -> bool {
        self.replay.last < self.replay.reach
    }

    /// Whether older snapshots lead to the one that was loaded. The start of an epoch has no record: nobody can tell.
    pub(crate) fn leads_to_base(&self) -> bool {
        let Some((base, _)) = &self.snapshot else { return true };
        let Replay { covered_to, torn, .. } = &self.replay;
        let is_reached = base.last <= *covered_to || (base.last.counter() == 0 && torn.is_none());
        is_reached && self.unused_and_damaged().next().is_none()
    }

    /// Damaged logs that nothing was taken from.
    pub(crate) fn unused_and_damaged(&self) -> impl Iterator<Item = &LogFile> {
        self.replay.damaged_but_covered.iter().filter(|log| !self.replay.used.contains(&log.path))
    }

    fn raised(mut self) -> Self {
        let reach = self.replay.reach;
        self.state.set_last_zxid(reach);
        self.raised_to = Some(reach);
        self
    }

    /// Everything that is known to have existed must have been reached.
    fn complete(
        self,
        files: &Files<'_>,
        rules: &Rules,
        rejected: &[Rejected],
        snapshots: &[SnapshotFile],
    ) -> Result<Self, Error> {
        let last = self.replay.last;
        if rules.allow_gaps {
            return Ok(self);
        }
        let lost = snapshots.iter().find(|file| last < file.last && rejected.iter().any(|one| one.path == file.path));
        if let Some(file) = lost {
            return Err(Error::SnapshotLost { path: file.path.clone(), last });
        }
        let met = self.replay.met();
        if let Some(marker) = files.marker.filter(|marker| met < marker.last && !self.replay.marker_is_foreign) {
            let path: PathBuf = files.dirs.logs.join(crate::names::log_name(marker.log));
            return Err(Error::SyncedLost { path, synced: marker.last, last });
        }
        // A leader's snapshot may have replaced what the logs before it hold, and an epoch change hides that.
        let base = self.snapshot.as_ref().map_or(Zxid::ZERO, |(file, _)| file.last);
        let is_unproven = |file: &&SnapshotFile| base < file.last && !self.replay.passed.contains(&file.last);
        if let Some(file) = snapshots.iter().filter(|_| rules.member.is_some()).find(is_unproven) {
            return Err(Error::Unproven { path: file.path.clone(), base });
        }
        Ok(self)
    }
}

/// Hands a snapshot's content to the tree.
pub(crate) struct LoaderSink(pub(crate) Loader);

impl Sink for LoaderSink {
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
