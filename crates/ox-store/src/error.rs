//! What can go wrong, said so that an operator can act on it.

use crate::member::EpochError;
use crate::snapshot::SnapshotError;
use crate::space::is_full;
use ox_proto::{DecodeError, Zxid};
use std::io;
use std::path::{Path, PathBuf};

/// Why a log cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file is shorter than its header, or the header is zero, and records follow.
    #[error("the file header is missing")]
    NoHeader,
    /// Another kind of file.
    #[error("the file header has a wrong magic number")]
    BadMagic,
    /// No frame where one must be.
    #[error("no intact record; {intact_after} intact records follow")]
    BadFrame {
        /// Frames found behind it, counted up to the largest batch.
        intact_after: usize,
    },
    /// A frame that would be a torn tail, but its bytes had been synced.
    #[error("no intact record, although the log had been synced up to byte {synced}")]
    SyncedBytes {
        /// Position in the marker.
        synced: u64,
    },
    /// The checksum fits but the record means nothing to us.
    #[error("the record cannot be decoded: {0}")]
    BadRecord(DecodeError),
    /// The same zxid twice, with different content.
    #[error("record {0} stands here again with another content")]
    Repeated(Zxid),
}

/// What stops a start, an append or a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A directory is missing and must not be created.
    #[error("{} does not exist, and zookeeper.datadir.autocreate is false: create it by hand", .0.display())]
    MissingDirectory(PathBuf),
    /// A directory cannot be created or written to.
    #[error("cannot write to {}: {source}", path.display())]
    UnusableDirectory {
        /// The directory.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// Another process uses the directory.
    #[error("{} is in use by another process", .0.display())]
    Locked(PathBuf),
    /// dataDir and dataLogDir differ, but files lie in the wrong one.
    #[error("{} lies in the wrong directory: snapshots belong in dataDir, logs in dataLogDir", .0.display())]
    Misplaced(PathBuf),
    /// The directory of another ensemble member.
    #[error("{} belongs to server {found}, not to server {server}: it was copied, or myid is wrong", path.display())]
    OtherServer {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        found: i64,
        /// Who wants it.
        server: i64,
    },
    /// The epoch files do not fit each other or the history.
    #[error("{}: {source}", path.display())]
    Epochs {
        /// The directory they are in.
        path: PathBuf,
        /// What is wrong.
        source: EpochError,
    },
    /// Epochs without any history.
    #[error("{} has epochs, but neither snapshots nor logs: the history is lost", .0.display())]
    HistoryLost(PathBuf),
    /// The note about a leader's snapshot is damaged.
    #[error("{} does not say which snapshot was being installed", .0.display())]
    InstallUnreadable(PathBuf),
    /// The old history was moved aside, and the new one is not there.
    #[error("{}, which a leader sent and which replaced all older files, is missing or damaged", .0.display())]
    InstallLost(PathBuf),
    /// A log is damaged where its records are needed.
    #[error("{} is damaged at byte {offset}, behind zxid {after}: {damage}", path.display())]
    Corrupt {
        /// The log.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// Last zxid known before the damage; what follows it is in doubt.
        after: Zxid,
        /// What is wrong.
        damage: Damage,
    },
    /// Transactions are missing between two that are there.
    #[error("transactions after {after} are missing: {} continues with {found}", path.display())]
    Gap {
        /// Last zxid before the hole.
        after: Zxid,
        /// First zxid behind it.
        found: Zxid,
        /// Log that holds it.
        path: PathBuf,
    },
    /// A new epoch does not continue the tree we have.
    #[error("transactions between {after} and {found} are missing: the digest of {found} does not fit ({})", path.display())]
    EpochGap {
        /// Last zxid of the old epoch that is there.
        after: Zxid,
        /// First of the new one.
        found: Zxid,
        /// Log that holds it.
        path: PathBuf,
    },
    /// Records that had been synced are gone.
    #[error("{} had been synced up to zxid {synced}, as oxk.synced beside it notes, but the history ends at {last}",
            path.display())]
    SyncedLost {
        /// The log that the marker names.
        path: PathBuf,
        /// Zxid in the marker.
        synced: Zxid,
        /// Last zxid found.
        last: Zxid,
    },
    /// A copy of a directory whose server was running, so that its end may be missing.
    #[error("{} is a copy that was made while its server was running: it ends at {last}, the original had reached \
             {synced} at least", path.display())]
    Copied {
        /// The directory of the logs.
        path: PathBuf,
        /// Last zxid in the copy.
        last: Zxid,
        /// Last zxid of which the copy shows that the original had it.
        synced: Zxid,
    },
    /// Such a copy, with something missing before its end.
    #[error("{} is a copy that was made while its server was running, and not only its end is missing: {source}",
            path.display())]
    CopyBroken {
        /// The directory of the logs.
        path: PathBuf,
        /// What is wrong.
        source: Box<Error>,
    },
    /// Such a copy, made while a leader's snapshot took the place of the history.
    #[error("{} was copied while a leader's snapshot was being installed", .0.display())]
    InstallCopied(PathBuf),
    /// A snapshot that cannot be used is newer than everything that can.
    #[error("{} goes further and cannot be used; without it the history ends at {last}", path.display())]
    SnapshotLost {
        /// The newer snapshot.
        path: PathBuf,
        /// Last zxid found.
        last: Zxid,
    },
    /// An older snapshot and the logs behind it need not be what a newer one continues.
    #[error("nothing shows that {} belongs to the history that starts from snapshot {base}", path.display())]
    Unproven {
        /// The newer snapshot, which cannot be used.
        path: PathBuf,
        /// Zxid of the older one.
        base: Zxid,
    },
    /// Logs without a snapshot to start from.
    #[error("no snapshot found, but there are log entries (first log {}); \
             zookeeper.snapshot.trust.empty=true replays them from the beginning", .0.display())]
    NoSnapshot(PathBuf),
    /// No snapshot leads to a complete history.
    #[error("no complete history: {}", list_reasons(.0))]
    NoUsableSnapshot(Vec<Rejected>),
    /// A snapshot file cannot be used.
    #[error("snapshot {}: {source}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: SnapshotError,
    },
    /// A snapshot could not be written; the server may go on and try again.
    #[error("write snapshot {}: {source}", path.display())]
    SnapshotWrite {
        /// Its final name.
        path: PathBuf,
        /// What happened.
        source: Box<Error>,
    },
    /// The files of a member that a leader has yet to replace.
    #[error("the files are left alone until this server was synced by a leader")]
    NotSynced,
    /// A snapshot of a state that contains parts of later transactions.
    #[error("no snapshot at {last}: the state contains parts of transactions up to {reach}")]
    SnapshotBehind {
        /// Where it would be.
        last: Zxid,
        /// The first place where one can be.
        reach: Zxid,
    },
    /// A snapshot of more than this server's own log holds.
    #[error("no snapshot at {last}: the log is synced up to {synced} only")]
    SnapshotAhead {
        /// Where it would be.
        last: Zxid,
        /// What is durable.
        synced: Zxid,
    },
    /// After a truncation the files lead somewhere else.
    #[error("the history should have ended at {wanted} after a truncation, and ends at {found}")]
    TruncateFailed {
        /// Where it should end.
        wanted: Zxid,
        /// Where it does.
        found: Zxid,
    },
    /// Stored records that were checked are not there any more.
    #[error("the stored history behind {0} has changed while it was read")]
    HistoryChanged(Zxid),
    /// An earlier error ended this log.
    #[error("the transaction log has failed before and takes nothing more")]
    LogFailed,
    /// Purging would leave too little.
    #[error("nothing purged: {0}")]
    PurgeRefused(Box<Error>),
    /// The caller had no more time.
    #[error("nothing purged: stopped on the way")]
    PurgeStopped,
}

/// A snapshot that was tried and cannot be used.
#[derive(Debug)]
pub struct Rejected {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: Box<Error>,
}

/// Each reason once: damage of a log is met again from every snapshot before it. That an older snapshot does not make
/// up for a newer one is no reason of its own.
fn list_reasons(rejected: &[Rejected]) -> String {
    let own = rejected.iter().filter(|one| !matches!(*one.reason, Error::SnapshotLost { .. } | Error::Unproven { .. }));
    let mut reasons: Vec<String> = own.map(|one| one.reason.to_string()).collect();
    reasons.dedup();
    reasons.join("; ")
}

const PUT_BACK: &str = "put back what is missing from a copy; or start once with oxkeeper.recovery.allowGaps=true, in the \
                        configuration file or as -D, to go on without it";
const PUT_BACK_OR_RESET: &str = "put back what is missing from a copy; or, if an older copy was put back on purpose, \
                                 delete oxk.synced, or start once with oxkeeper.recovery.allowGaps=true, in the \
                                 configuration file or as -D, to go on without what is lost";
const PUT_BACK_FILE: &str = "put back an intact copy of the file; or move it away and start once with \
                             oxkeeper.recovery.allowGaps=true, in the configuration file or as -D, to go on without \
                             what it holds";
const VOUCH_FOR_COPY: &str = "a leader's history replaces it; if all members are copies, start a quorum of them once with \
                              oxkeeper.recovery.onDamage=accept, in the configuration file or as -D, to go on from the \
                              copy that reaches furthest";
const COPY_AGAIN: &str = "copy the directory again";
const PUT_BACK_SNAPSHOT: &str = "put back an intact snapshot from a copy; or, if the logs reach back to the beginning, \
                                 move the snapshots away and start once with zookeeper.snapshot.trust.empty=true";
const PUT_BACK_EPOCHS: &str = "put back acceptedEpoch and currentEpoch; or, if this is data for a new ensemble, remove both \
                               and create a file named initialize in dataDir";
const PUT_BACK_HISTORY: &str = "put back the snapshots and logs; or, if this is to be an empty member of a new ensemble, \
                                remove acceptedEpoch and currentEpoch too";
const PUT_BACK_INSTALL: &str = "put back an intact copy of it; or of all snapshots and logs as they were before, and remove \
                                oxk.install";

impl Error {
    /// What an operator can do about a history that is not complete.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Corrupt { damage: Damage::BadMagic | Damage::BadRecord(_) | Damage::Repeated(_), .. } => {
                Some(PUT_BACK_FILE)
            }
            Self::SyncedLost { .. } => Some(PUT_BACK_OR_RESET),
            Self::Corrupt { .. }
            | Self::Gap { .. }
            | Self::EpochGap { .. }
            | Self::SnapshotLost { .. }
            | Self::Unproven { .. } => Some(PUT_BACK),
            Self::Copied { .. } => Some(VOUCH_FOR_COPY),
            Self::CopyBroken { .. } | Self::InstallCopied(_) => Some(COPY_AGAIN),
            Self::Snapshot { .. } => Some(PUT_BACK_SNAPSHOT),
            Self::Epochs { .. } => Some(PUT_BACK_EPOCHS),
            Self::HistoryLost(_) => Some(PUT_BACK_HISTORY),
            Self::InstallUnreadable(_) | Self::InstallLost(_) => Some(PUT_BACK_INSTALL),
            Self::NoUsableSnapshot(rejected) => {
                // Where a snapshot could be read, it is the logs that need help.
                let is_read = |one: &&Rejected| !matches!(*one.reason, Self::Snapshot { .. });
                let first = rejected.iter().find(is_read).or(rejected.first());
                first.and_then(|one| one.reason.remedy())
            }
            Self::Io { .. }
            | Self::MissingDirectory(_)
            | Self::UnusableDirectory { .. }
            | Self::Locked(_)
            | Self::Misplaced(_)
            | Self::OtherServer { .. }
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

    /// The stored history is damaged, incomplete or in doubt; told from trouble with the system that holds it.
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

    /// The disk has no space for what was to be written. Nothing that was there before is harmed.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others are about something else")]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } | Self::UnusableDirectory { source, .. } => is_full(source),
            Self::SnapshotWrite { source, .. } => source.is_full(),
            _ => false,
        }
    }

    /// The process exit code that Apache's operators know: 3 for directories, 10 for a snapshot that could not be
    /// written, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::MissingDirectory(_)
            | Self::UnusableDirectory { .. }
            | Self::Locked(_)
            | Self::Misplaced(_)
            | Self::OtherServer { .. } => 3,
            Self::SnapshotWrite { .. } => 10,
            Self::Io { .. }
            | Self::Epochs { .. }
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
            | Self::NoSnapshot(_)
            | Self::NoUsableSnapshot(_)
            | Self::Snapshot { .. }
            | Self::NotSynced
            | Self::SnapshotBehind { .. }
            | Self::SnapshotAhead { .. }
            | Self::TruncateFailed { .. }
            | Self::HistoryChanged(_)
            | Self::LogFailed
            | Self::PurgeRefused(_)
            | Self::PurgeStopped => 1,
        }
    }
}

/// The words of a decompressor.
fn is_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// A sector that the disk cannot read any more (F11).
fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Adds the path to an I/O error.
pub(crate) trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io { action, path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_trouble() {
        let io = |source: io::ErrorKind| Error::Io { action: "write", path: "log.1".into(), source: source.into() };
        let snapshot = |source: Error| Error::SnapshotWrite { path: "snapshot.1".into(), source: Box::new(source) };
        assert!(io(io::ErrorKind::StorageFull).is_full() && io(io::ErrorKind::QuotaExceeded).is_full());
        assert!(snapshot(io(io::ErrorKind::StorageFull)).is_full());
        assert!(!io(io::ErrorKind::PermissionDenied).is_full() && !Error::LogFailed.is_full());
    }

    #[test]
    fn damage_is_told_from_trouble() {
        let io = |source: io::Error| Error::Io { action: "read", path: "log.1".into(), source };
        let unreadable = || io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
        assert!(io(unreadable()).is_damage(), "a bad sector");
        assert!(!io(io::ErrorKind::PermissionDenied.into()).is_damage());
        let snapshot = |source: io::Error| Error::Snapshot { path: "snapshot.1".into(), source: source.into() };
        assert!(snapshot(io::ErrorKind::InvalidData.into()).is_damage(), "it cannot be decompressed");
        assert!(!snapshot(io::ErrorKind::OutOfMemory.into()).is_damage());
        let rejected = |reason: Error| Rejected { path: "snapshot.1".into(), reason: Box::new(reason) };
        let sick = io(io::ErrorKind::PermissionDenied.into());
        assert!(Error::NoUsableSnapshot(vec![rejected(snapshot(unreadable()))]).is_damage());
        assert!(!Error::NoUsableSnapshot(vec![rejected(snapshot(unreadable())), rejected(sick)]).is_damage());
    }
}
