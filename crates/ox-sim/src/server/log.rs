//! The transaction log of a standalone server or of a member, which the log job writes.

use super::config::ConfigChange;
use ox_proto::Zxid;
use ox_replica::LogBatch;
use ox_store::{Appended, MemberLog, StoreError, Synced, TxnLog};
use ox_tree::{FrozenView, State};
use ox_zab::{DiskDone, DiskJob};
use std::sync::Arc;

/// The queue of the log job holds these, in order.
pub(crate) enum Work {
    Batch(Arc<LogBatch>),
    /// A disk job, with the state that an installation stores.
    Job(DiskJob, Option<FrozenView>),
    /// A change of the configuration files.
    Config(ConfigChange),
}

/// A completed disk job. `left` is the state that the files contain now, if the job has changed it.
pub(crate) struct Report {
    pub(crate) done: DiskDone,
    pub(crate) left: Option<Box<State>>,
}

pub(crate) enum Log {
    Alone(Box<TxnLog>),
    Member(Box<MemberLog>),
}

impl Log {
    pub(crate) fn append(&mut self, batch: &LogBatch) -> Result<Appended, StoreError> {
        let LogBatch { bytes, first, last, records } = batch;
        match self {
            Self::Alone(log) => log.append(bytes, *first, *last, *records),
            Self::Member(log) => log.append(bytes, *first, *last, *records),
        }
    }

    pub(crate) fn sync(&mut self) -> Result<Synced, StoreError> {
        match self {
            Self::Alone(log) => log.sync(),
            Self::Member(log) => log.sync(),
        }
    }

    pub(crate) fn current_file(&self) -> Option<Zxid> {
        match self {
            Self::Alone(log) => log.current_file(),
            Self::Member(log) => log.current_file(),
        }
    }

    pub(crate) fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Alone(log) => log.close(),
            Self::Member(log) => log.close(),
        }
    }
}
