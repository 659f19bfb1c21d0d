//! The transaction log of a server, and a member's disk jobs.

use ox_proto::Zxid;
use ox_replica::LogBatch;
use ox_store::{Appended, MemberLog, Store, StoreError, Synced, Truncated, TxnLog};
use ox_tree::{FrozenView, State};
use ox_zab::{DiskDone, DiskJob, Epoch};

/// The log of a standalone server or of a member, which also stores epochs.
pub enum ServerLog {
    Standalone(Box<TxnLog>, Store),
    Member(Box<MemberLog>),
}

/// A finished disk job, with the state to use from now on if the job has replaced it.
pub struct JobReport {
    pub done: DiskDone,
    pub state: Option<Box<State>>,
}

impl ServerLog {
    /// The first zxid of the file being written.
    pub(crate) fn current_file(&self) -> Option<Zxid> {
        match self {
            Self::Standalone(log, _) => log.current_file(),
            Self::Member(log) => log.current_file(),
        }
    }

    pub(crate) fn append(&mut self, batch: &LogBatch) -> Result<Appended, StoreError> {
        let LogBatch { bytes, first, last, records } = batch;
        match self {
            Self::Standalone(log, _) => log.append(bytes, *first, *last, *records),
            Self::Member(log) => log.append(bytes, *first, *last, *records),
        }
    }

    pub(crate) fn sync(&mut self) -> Result<Synced, StoreError> {
        match self {
            Self::Standalone(log, _) => log.sync(),
            Self::Member(log) => log.sync(),
        }
    }

    pub(crate) fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Standalone(log, _) => log.close(),
            Self::Member(log) => log.close(),
        }
    }

    /// Executes a disk job. `snapshot` is the state that an installation stores.
    pub(crate) fn execute(&mut self, job: DiskJob, snapshot: Option<&FrozenView>) -> Result<JobReport, StoreError> {
        let log = match self {
            Self::Member(log) => log,
            Self::Standalone(log, store) => {
                let snapshot = snapshot.expect("the only job of a standalone server installs a restored snapshot");
                store.restore(log, snapshot)?;
                return Ok(JobReport { done: DiskDone::Installed(snapshot.last_zxid()), state: None });
            }
        };
        let number = |epoch: Epoch| u32::try_from(epoch.0).expect("an accepted epoch");
        let (mut done, mut state) = (job.done(), None);
        match job {
            DiskJob::AcceptedEpoch(epoch) => log.set_accepted(number(epoch))?,
            DiskJob::CurrentEpoch(epoch) => {
                log.set_current(number(epoch))?;
                log.end_quarantine()?;
            }
            DiskJob::Install(_) => {
                let snapshot = snapshot.expect("an installation has a snapshot");
                log.install(snapshot)?;
                done = DiskDone::Installed(snapshot.last_zxid());
            }
            DiskJob::InitializeLog => state = Some(log.initialize()?.state),
            DiskJob::Truncate(zxid) => match log.truncate(zxid)? {
                Truncated::Done(loaded) | Truncated::Short(loaded) => {
                    done = DiskDone::Truncated(Some(loaded.state.last_zxid()));
                    state = Some(loaded.state);
                }
                Truncated::NotPossible(why) => {
                    tracing::warn!(why, %zxid, "requesting a snapshot from the leader: cannot truncate the log");
                    done = DiskDone::Truncated(None);
                }
            },
        }
        Ok(JobReport { done, state: state.map(Box::new) })
    }
}
