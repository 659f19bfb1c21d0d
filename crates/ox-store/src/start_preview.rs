//! What a start would do with a directory, without changing it.

use crate::disk::Disk;
use crate::error::{RejectedSnapshot, StoreError};
use crate::log_location;
use crate::member::epochs::{FoundEpochs, TrustHints};
use crate::member::open::read_history;
use crate::member::{MemberOptions, Quarantine, identity, install};
use crate::names::{self, DirListing, Dirs};
use crate::recovery::{Files, recover};
use crate::store::StoreOptions;
use ox_proto::Zxid;
use ox_tree::{State, TreeOptions};
use std::path::PathBuf;

/// The history that a start would recover.
pub struct PreviewedHistory {
    pub state: State,
    /// The base of the replay.
    pub snapshot: Option<PathBuf>,
    /// Newer snapshots that could not be used.
    pub rejected: Vec<RejectedSnapshot>,
    /// The number of transactions that would be replayed.
    pub replayed: u64,
    pub last: Zxid,
    /// The tail that would be truncated: the log, the offset, and the last zxid that would be lost.
    pub cut: Option<(PathBuf, u64, Option<Zxid>)>,
    /// The numbers of compared digests and of mismatches.
    pub digests: (u64, u64),
    pub warnings: Vec<String>,
    /// The directory is a copy of a running server.
    pub is_copied: bool,
}

/// The files of a directory and the result of a start with them.
pub struct StartPreview {
    pub listing: DirListing,
    /// It belongs to an ensemble member, which would be quarantined because of damage instead of refusing to start.
    pub is_member: bool,
    /// The reason of a quarantine that an earlier start has recorded.
    pub quarantine: Option<String>,
    /// The history, or why a start would refuse it.
    pub history: Result<PreviewedHistory, StoreError>,
}

/// Does everything that a start does before it changes files.
pub fn preview_start(disk: &dyn Disk, dirs: &Dirs) -> Result<StartPreview, StoreError> {
    let listing = names::list(disk, dirs)?;
    let epochs = FoundEpochs::read(disk, &dirs.snapshots)?;
    let is_member = !epochs.are_missing() || identity::is_claimed(disk, dirs)?;
    let quarantine = Quarantine::read(disk, &dirs.snapshots)?.filter(|_| is_member).map(|note| note.reason);
    let history = read((disk, dirs, &listing), is_member.then_some(&epochs));
    Ok(StartPreview { listing, is_member, quarantine, history })
}

/// The history that a standalone server would recover, also from files that a member would not use.
pub fn read_as_standalone(disk: &dyn Disk, dirs: &Dirs) -> Result<PreviewedHistory, StoreError> {
    read((disk, dirs, &names::list(disk, dirs)?), None)
}

fn read(files: (&dyn Disk, &Dirs, &DirListing), epochs: Option<&FoundEpochs>) -> Result<PreviewedHistory, StoreError> {
    let (disk, dirs, listing) = files;
    listing.check_places(disk, dirs)?;
    log_location::check(disk, dirs)?;
    let (options, tree_options) = (StoreOptions::new(""), TreeOptions::default());
    let is_copied = Files::new(disk, dirs, listing)?.copied_from.is_some();
    let recovered = match epochs {
        Some(found) => {
            let rules = MemberOptions { recent_max: 0, ..MemberOptions::new(0) }.rules(&options);
            let read = read_history(files, &rules, &tree_options, (found, TrustHints::default()))?;
            read.ok_or_else(|| StoreError::HistoryLost(dirs.snapshots.clone()))?.0
        }
        None => recover(&Files::new(disk, dirs, listing)?, &options.rules(), &tree_options)?,
    };
    let replay = recovered.replay;
    let mut warnings = replay.warnings;
    if install::is_begun(disk, dirs)? {
        warnings.push("the installation of a leader's snapshot was interrupted: a start completes it first".into());
    }
    let covered = replay.damaged_but_covered.iter();
    warnings.extend(covered.map(|log| format!("{} is damaged where a snapshot covers it", log.path.display())));
    let ahead = recovered.ahead.iter();
    warnings.extend(
        ahead.map(|file| format!("{} contains transactions that the logs do not contain", file.path.display())),
    );
    let unrecognised = listing.unrecognised.iter();
    warnings.extend(unrecognised.map(|path| format!("{} is not used; Apache may take it for a log", path.display())));
    Ok(PreviewedHistory {
        last: recovered.state.last_zxid(),
        state: recovered.state,
        snapshot: recovered.snapshot.map(|(file, _)| file.path),
        rejected: recovered.rejected,
        replayed: replay.records,
        cut: replay.torn.map(|torn| (torn.log.path, torn.offset, torn.last_dropped)),
        digests: (replay.digests.compared, replay.digests.mismatches),
        warnings,
        is_copied,
    })
}

/// Whether a start would treat the directory as a copy of a running server, whose end may be missing.
pub fn is_copied(disk: &dyn Disk, dirs: &Dirs) -> Result<bool, StoreError> {
    Ok(Files::new(disk, dirs, &names::list(disk, dirs)?)?.copied_from.is_some())
}

/// The checks of a start that need neither the lock nor the contents of logs and snapshots: files in the wrong directory,
/// and directories of another server. `server` is the id of a member.
pub fn check_dirs(disk: &dyn Disk, dirs: &Dirs, server: Option<i64>) -> Result<(), StoreError> {
    names::list(disk, dirs)?.check_places(disk, dirs)?;
    log_location::check(disk, dirs)?;
    server.map_or(Ok(()), |server| check_owner(disk, dirs, server))
}

/// Fails if the logs of the last run are in another directory, and the configured one has none. It need not exist.
pub fn check_log_location(disk: &dyn Disk, dirs: &Dirs) -> Result<(), StoreError> {
    log_location::check(disk, dirs)
}

/// Fails if the directories belong to another server than the member `server`. They need not exist.
pub fn check_owner(disk: &dyn Disk, dirs: &Dirs, server: i64) -> Result<(), StoreError> {
    identity::check(disk, dirs, server)
}
