//! Errors of the store, worded for operators.

use crate::free_space::is_full;
use crate::member::EpochError;
use crate::snapshot::SnapshotError;
use ox_proto::{DecodeError, Zxid};
use std::io;
use std::path::{Path, PathBuf};

/// Why a log cannot be read further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file is shorter than its header or the header is zero, but records follow.
    #[error("the file header is missing")]
    NoHeader,
    /// The file is not a log.
    #[error("the file header has a wrong magic number")]
    BadMagic,
    /// There is no intact frame where a record must be.
    #[error("unreadable record, followed by {intact_after} intact records")]
    BadFrame {
        /// The number of intact frames that follow, counted up to the largest batch.
        intact_after: usize,
    },
    /// The frame would count as torn, but the marker shows that it was synced.
    #[error("unreadable record, although the log was synced up to byte {synced}")]
    SyncedBytes {
        /// The synced position in the marker.
        synced: u64,
    },
    /// The checksum matches, but the record cannot be decoded.
    #[error("the record cannot be decoded: {0}")]
    BadRecord(DecodeError),
    /// The zxid occurs twice, with different contents.
    #[error("record {0} occurs again with different contents")]
    Repeated(Zxid),
}

/// Why opening, appending, a snapshot or another operation of the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed operation, e.g. "fsync".
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A directory does not exist, and `zookeeper.datadir.autocreate` is false.
    #[error("{} does not exist, and zookeeper.datadir.autocreate is false: create it by hand", .0.display())]
    MissingDirectory(PathBuf),
    /// A directory, or its lock file, cannot be created, read or written.
    #[error("cannot use {}: {source}", path.display())]
    UnusableDirectory { path: PathBuf, source: io::Error },
    /// Another process holds the lock of the directory.
    #[error("{} is in use by another process", .0.display())]
    Locked(PathBuf),
    /// dataDir and dataLogDir differ, but a file is in the wrong directory.
    #[error("{} is in the wrong directory: snapshots belong in dataDir, logs in dataLogDir", .0.display())]
    Misplaced(PathBuf),
    /// As [`Self::Misplaced`], and the right directory has a file with that name.
    #[error("{} is in the wrong directory, and {} exists, too: these are two histories", path.display(), other.display())]
    MisplacedTwice { path: PathBuf, other: PathBuf },
    /// The directory for logs has none, and those of the last run are in another one.
    #[error("the logs of this data are in {}, but {} has none", logs.display(), configured.display())]
    LogsElsewhere { logs: PathBuf, configured: PathBuf },
    /// The directory belongs to another member of the ensemble.
    #[error("{} belongs to server {found}, not to server {server}: it was copied, or myid is wrong", path.display())]
    OtherServer {
        path: PathBuf,
        /// The server id in `oxk.identity`.
        found: i64,
        /// The id of this server.
        server: i64,
    },
    /// The epoch files contradict each other or the history.
    #[error("{}: {source}", path.display())]
    Epochs { path: PathBuf, source: EpochError },
    /// There are epoch files, but neither snapshots nor logs.
    #[error("{} has epochs, but neither snapshots nor logs: the history is lost", .0.display())]
    HistoryLost(PathBuf),
    /// `oxk.install`, which describes the installation of a leader's snapshot, is damaged.
    #[error("{} is damaged: it does not name the snapshot that was being installed", .0.display())]
    InstallUnreadable(PathBuf),
    /// The old history was moved aside, and the installed snapshot is missing or damaged.
    #[error("{}, which a leader sent and which replaced all older files, is missing or damaged", .0.display())]
    InstallLost(PathBuf),
    /// A log is damaged, and no snapshot covers the damaged part.
    #[error("{} is damaged at byte {offset}, after zxid {after}: {damage}", path.display())]
    Corrupt {
        path: PathBuf,
        offset: u64,
        /// The last zxid before the damage.
        after: Zxid,
        damage: Damage,
    },
    /// Transactions are missing within an epoch.
    #[error("transactions after {after} are missing: {} continues with {found}", path.display())]
    Gap {
        /// The last zxid before the gap.
        after: Zxid,
        /// The first zxid after the gap.
        found: Zxid,
        /// The log that contains `found`.
        path: PathBuf,
    },
    /// The digest of a new epoch's first transaction does not match the tree: the end of the old epoch is missing.
    #[error("transactions between {after} and {found} are missing: the digest of {found} does not match ({})", path.display())]
    EpochGap {
        /// The last zxid of the old epoch that was read.
        after: Zxid,
        /// The first zxid of the new epoch.
        found: Zxid,
        /// The log that contains `found`.
        path: PathBuf,
    },
    /// Records up to the synced position in the marker are missing.
    #[error("{} was synced up to zxid {synced}, according to oxk.synced beside it, but the history ends at {last}",
            path.display())]
    SyncedLost {
        /// The log that the marker names.
        path: PathBuf,
        /// The last synced zxid according to the marker.
        synced: Zxid,
        /// The last zxid of the history.
        last: Zxid,
    },
    /// The directory is a copy of a running server, so that its end may be missing; or files were removed from a copy.
    #[error("{} is a copy of a running server, or files were removed from it: it ends at {last}, the original had \
             reached {synced} at least", path.display())]
    Copied {
        path: PathBuf,
        /// The last zxid of the copy.
        last: Zxid,
        /// The lowest zxid that the original is known to have reached.
        synced: Zxid,
    },
    /// As [`Self::Copied`], with a gap or damage before the end of the copy.
    #[error("{} is a copy of a running server, or files were removed from it, and more than its end is missing: {source}",
            path.display())]
    CopyBroken { path: PathBuf, source: Box<StoreError> },
    /// As [`Self::Copied`], made during the installation of a leader's snapshot.
    #[error("{} was copied while a leader's snapshot was being installed", .0.display())]
    InstallCopied(PathBuf),
    /// An unusable snapshot is newer than the end of the history without it.
    #[error("{} is newer and cannot be used; without it the history ends at {last}", path.display())]
    SnapshotLost {
        path: PathBuf,
        /// The last zxid without it.
        last: Zxid,
    },
    /// It cannot be proven that an unusable newer snapshot belongs to the same history as an older one and its logs.
    #[error("nothing shows that {} belongs to the history that starts from snapshot {base}", path.display())]
    Unproven {
        /// The newer snapshot, which is unusable.
        path: PathBuf,
        /// The zxid of the older snapshot.
        base: Zxid,
    },
    /// There are logs, but no snapshot to start from.
    #[error("no snapshot found, but there are log entries (first log {}); \
             zookeeper.snapshot.trust.empty=true replays them from the beginning", .0.display())]
    NoSnapshot(PathBuf),
    /// No snapshot leads to a complete history.
    #[error("no complete history: {}", list_reasons(.0))]
    NoUsableSnapshot(Vec<RejectedSnapshot>),
    /// A snapshot file is damaged or cannot be read.
    #[error("snapshot {}: {source}", path.display())]
    Snapshot { path: PathBuf, source: SnapshotError },
    /// A snapshot could not be written. The server continues and may try again.
    #[error("cannot write snapshot {}: {source}", path.display())]
    SnapshotWrite {
        /// The final name of the snapshot.
        path: PathBuf,
        source: Box<StoreError>,
    },
    /// The member is quarantined or empty, and must not change its files until a leader has synchronised it.
    #[error("the files must not change until a leader has synchronised this server")]
    NotSynced,
    /// The state contains parts of later transactions, so that it must not become a snapshot.
    #[error("no snapshot at {last}: the state contains parts of transactions up to {reach}")]
    SnapshotBehind {
        /// The last zxid of the state.
        last: Zxid,
        /// The first zxid at which a snapshot is possible.
        reach: Zxid,
    },
    /// The state contains transactions that are not durable in the log yet.
    #[error("no snapshot at {last}: the log is synced up to {synced} only")]
    SnapshotAhead {
        /// The last zxid of the state.
        last: Zxid,
        /// The last durable zxid.
        synced: Zxid,
    },
    /// After a truncation, recovery does not end at the expected zxid.
    #[error("the history should have ended at {wanted} after a truncation, and ends at {found}")]
    TruncateFailed {
        /// The expected last zxid.
        wanted: Zxid,
        /// The last zxid that recovery found.
        found: Zxid,
    },
    /// Log records that were checked before have changed or were removed.
    #[error("the log after {0} has changed while it was read")]
    HistoryChanged(Zxid),
    /// An earlier call failed, after which the log accepts nothing more.
    #[error("the transaction log failed earlier and accepts nothing more")]
    LogFailed,
    /// The snapshots and logs that would remain are not a complete history.
    #[error("nothing purged: {0}")]
    PurgeRefused(Box<StoreError>),
    /// The caller stopped the purge before it removed anything.
    #[error("nothing purged: the purge was stopped")]
    PurgeStopped,
}

/// A snapshot that recovery could not use.
#[derive(Debug)]
pub struct RejectedSnapshot {
    pub path: PathBuf,
    pub reason: Box<StoreError>,
}

/// Lists each reason once: the damage of a log is found again from every older snapshot. That an older snapshot does
/// not reach a newer one is not a reason of its own.
fn list_reasons(rejected: &[RejectedSnapshot]) -> String {
    let own = rejected
        .iter()
        .filter(|one| !matches!(*one.reason, StoreError::SnapshotLost { .. } | StoreError::Unproven { .. }));
    let mut reasons: Vec<String> = own.map(|one| one.reason.to_string()).collect();
    reasons.dedup();
    reasons.join("; ")
}

const RECOVER: &str = "restore the log from a backup; or see with `oxkeeper log recover` what it still contains, and write \
                       that to a new log; or start once with oxkeeper.recovery.allowGaps=true, in the configuration \
                       file or as -D: then a standalone server keeps all intact records, also those after the damage, \
                       and a member those before it";
const RESTORE: &str = "restore the missing files from a backup; or start once with oxkeeper.recovery.allowGaps=true, in the \
                       configuration file or as -D, to continue without them";
const RESTORE_OR_RESET: &str = "restore the missing files from a backup; or, if an older backup was restored on purpose, \
                                delete oxk.synced; or start once with oxkeeper.recovery.allowGaps=true, in the \
                                configuration file or as -D, to continue without the lost transactions";
const RESTORE_FILE: &str = "restore an intact copy of the file; or see with `oxkeeper log recover` what it still \
                            contains; or move it away and start once with \
                            oxkeeper.recovery.allowGaps=true, in the configuration file or as -D, to continue without \
                            its contents";
const ACCEPT_COPY: &str = "a leader's snapshot replaces it; if all members are copies, start all of them once with \
                           oxkeeper.recovery.onDamage=accept, in the configuration file or as -D, to continue with the \
                           copy that has the highest zxid";
const OWN_DIRECTORY: &str = "stop the other process, or give each server its own dataDir";
const WRITABLE_DIRECTORY: &str =
    "let the user of the server own the directory and all files in it, or choose another directory";
const OTHER_DIRECTORY: &str = "choose another directory: a part of this path is a file";
const MOVE_FILE: &str = "move the file to the other directory, or correct dataDir and dataLogDir";
const CHOOSE_HISTORY: &str = "keep copies of both directories, compare the two files with `oxkeeper log dump`, and move \
                              the one that you do not need out of both directories";
const OWN_LOGS: &str = "set dataLogDir to their directory, or move them; to give up what only they contain, remove \
                        oxk.logs beside the snapshots";
const OWN_DATA: &str = "use the directory of this server, or correct myid; if the data was copied on purpose, delete \
                        version-2/oxk.* in the copy";
const COPY_AGAIN: &str = "copy the directory again";
const RESTORE_SNAPSHOT: &str = "restore an intact snapshot from a backup; or, if the logs are complete from the first \
                                transaction, move the snapshots away and start once with \
                                zookeeper.snapshot.trust.empty=true";
const RESTORE_EPOCHS: &str = "restore acceptedEpoch and currentEpoch; or, if this is data for a new ensemble, remove both \
                              and create a file named initialize in dataDir";
const ACCEPT_EPOCHS: &str = "the data is quarantined, so that a file named initialize has no effect: restore acceptedEpoch \
                             and currentEpoch, or, if this is data for a new ensemble, remove both; then start every member \
                             that has this data once with oxkeeper.recovery.onDamage=accept, in the configuration file or \
                             as -D";
const RESTORE_HISTORY: &str = "restore the snapshots and logs; or, if this is to be an empty member of a new ensemble, \
                               remove acceptedEpoch and currentEpoch too";
const RESTORE_INSTALL: &str = "restore an intact copy of it; or restore all earlier snapshots and logs, and remove \
                               oxk.install";

impl StoreError {
    /// As [`Self::remedy`], for a member whose data an earlier start has quarantined.
    pub fn remedy_in_quarantine(&self) -> Option<&'static str> {
        if let Self::Epochs { .. } = self { Some(ACCEPT_EPOCHS) } else { self.remedy() }
    }

    /// What an operator can do, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Corrupt {
                damage: Damage::BadMagic | Damage::NoHeader | Damage::BadRecord(_) | Damage::Repeated(_),
                ..
            } => Some(RESTORE_FILE),
            Self::SyncedLost { .. } => Some(RESTORE_OR_RESET),
            Self::Corrupt { .. } => Some(RECOVER),
            Self::Gap { .. } | Self::EpochGap { .. } | Self::SnapshotLost { .. } | Self::Unproven { .. } => {
                Some(RESTORE)
            }
            Self::Copied { .. } => Some(ACCEPT_COPY),
            Self::CopyBroken { .. } | Self::InstallCopied(_) => Some(COPY_AGAIN),
            Self::Snapshot { .. } => Some(RESTORE_SNAPSHOT),
            Self::Epochs { .. } => Some(RESTORE_EPOCHS),
            Self::HistoryLost(_) => Some(RESTORE_HISTORY),
            Self::InstallUnreadable(_) | Self::InstallLost(_) => Some(RESTORE_INSTALL),
            Self::NoUsableSnapshot(rejected) => {
                // If a snapshot could be read, the problem is in the logs.
                let is_read = |one: &&RejectedSnapshot| !matches!(*one.reason, Self::Snapshot { .. });
                let first = rejected.iter().find(is_read).or(rejected.first());
                first.and_then(|one| one.reason.remedy())
            }
            Self::Locked(_) => Some(OWN_DIRECTORY),
            Self::UnusableDirectory { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
                Some(OTHER_DIRECTORY)
            }
            Self::UnusableDirectory { .. } if !self.is_full() => Some(WRITABLE_DIRECTORY),
            Self::Io { .. } if self.is_forbidden() => Some(WRITABLE_DIRECTORY),
            Self::Misplaced(_) => Some(MOVE_FILE),
            Self::MisplacedTwice { .. } => Some(CHOOSE_HISTORY),
            Self::LogsElsewhere { .. } => Some(OWN_LOGS),
            Self::OtherServer { .. } => Some(OWN_DATA),
            Self::Io { .. }
            | Self::MissingDirectory(_)
            | Self::UnusableDirectory { .. }
            | Self::NoSnapshot(_)
            | Self::SnapshotWrite { .. }
            | Self::NotSynced
            | Self::SnapshotBehind { .. }
            | Self::SnapshotAhead { .. }
            | Self::TruncateFailed { .. }
            | Self::HistoryChanged(_)
            | Self::LogFailed
            | Self::PurgeRefused(_)
            | Self::PurgeStopped => None,
        }
    }

    /// Whether the stored history is damaged, incomplete or in doubt, as opposed to a failure of the system.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Epochs { .. }
            | Self::HistoryLost(_)
            | Self::InstallUnreadable(_)
            | Self::InstallLost(_)
            | Self::Corrupt { .. }
            | Self::Gap { .. }
            | Self::EpochGap { .. }
            | Self::SyncedLost { .. }
            | Self::Copied { .. }
            | Self::CopyBroken { .. }
            | Self::InstallCopied(_)
            | Self::SnapshotLost { .. }
            | Self::Unproven { .. }
            | Self::NoSnapshot(_) => true,
            Self::NoUsableSnapshot(rejected) => rejected.iter().all(|one| one.reason.is_damage()),
            Self::Snapshot { source: SnapshotError::Io(source), .. } => is_content(source) || is_unreadable(source),
            Self::Snapshot { .. } => true,
            Self::Io { source, .. } => is_unreadable(source),
            Self::MissingDirectory(_)
            | Self::UnusableDirectory { .. }
            | Self::Locked(_)
            | Self::Misplaced(_)
            | Self::MisplacedTwice { .. }
            | Self::LogsElsewhere { .. }
            | Self::OtherServer { .. }
            | Self::SnapshotWrite { .. }
            | Self::NotSynced
            | Self::SnapshotBehind { .. }
            | Self::SnapshotAhead { .. }
            | Self::TruncateFailed { .. }
            | Self::HistoryChanged(_)
            | Self::LogFailed
            | Self::PurgeRefused(_)
            | Self::PurgeStopped => false,
        }
    }

    /// Whether the disk is full. Existing data is not affected.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other error is about space")]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } | Self::UnusableDirectory { source, .. } => is_full(source),
            Self::SnapshotWrite { source, .. } => source.is_full(),
            _ => false,
        }
    }

    /// Whether the user of the server may not access a file.
    fn is_forbidden(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// The exit code, as in Apache: 3 for directories, 10 for a snapshot that could not be written, 1 for all others.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most errors have no exit code of their own")]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::MissingDirectory(_)
            | Self::UnusableDirectory { .. }
            | Self::Locked(_)
            | Self::Misplaced(_)
            | Self::MisplacedTwice { .. }
            | Self::LogsElsewhere { .. }
            | Self::OtherServer { .. } => 3,
            Self::Io { .. } if self.is_forbidden() => 3,
            Self::SnapshotWrite { .. } => 10,
            _ => 1,
        }
    }
}

/// Errors with which decompressors report invalid contents.
fn is_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// An unreadable sector (F11).
fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Adds operation and path to an I/O error.
pub trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Io { action, path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_recognised() {
        let io =
            |source: io::ErrorKind| StoreError::Io { action: "write", path: "log.1".into(), source: source.into() };
        let snapshot =
            |source: StoreError| StoreError::SnapshotWrite { path: "snapshot.1".into(), source: Box::new(source) };
        assert!(io(io::ErrorKind::StorageFull).is_full() && io(io::ErrorKind::QuotaExceeded).is_full());
        assert!(snapshot(io(io::ErrorKind::StorageFull)).is_full());
        assert!(!io(io::ErrorKind::PermissionDenied).is_full() && !StoreError::LogFailed.is_full());
    }

    #[test]
    fn forbidden_file_is_a_problem_of_the_directory_with_a_remedy() {
        let io = |kind: io::ErrorKind| StoreError::Io { action: "stat", path: "log.1".into(), source: kind.into() };
        let forbidden = io(io::ErrorKind::PermissionDenied);
        assert_eq!((forbidden.exit_code(), forbidden.remedy()), (3, Some(WRITABLE_DIRECTORY)));
        assert_eq!((io(io::ErrorKind::Other).exit_code(), io(io::ErrorKind::Other).remedy()), (1, None));
    }

    #[test]
    fn damage_is_distinguished_from_system_failures() {
        let io = |source: io::Error| StoreError::Io { action: "read", path: "log.1".into(), source };
        let unreadable = || io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
        assert!(io(unreadable()).is_damage(), "a bad sector");
        assert!(!io(io::ErrorKind::PermissionDenied.into()).is_damage());
        let snapshot = |source: io::Error| StoreError::Snapshot { path: "snapshot.1".into(), source: source.into() };
        assert!(snapshot(io::ErrorKind::InvalidData.into()).is_damage(), "it cannot be decompressed");
        assert!(!snapshot(io::ErrorKind::OutOfMemory.into()).is_damage());
        let rejected = |reason: StoreError| RejectedSnapshot { path: "snapshot.1".into(), reason: Box::new(reason) };
        let sick = io(io::ErrorKind::PermissionDenied.into());
        assert!(StoreError::NoUsableSnapshot(vec![rejected(snapshot(unreadable()))]).is_damage());
        assert!(!StoreError::NoUsableSnapshot(vec![rejected(snapshot(unreadable())), rejected(sick)]).is_damage());
    }
}
