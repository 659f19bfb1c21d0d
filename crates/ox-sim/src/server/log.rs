//! The log of a server that is alone, or of a member: what the log job works on.

use super::config::ConfigChange;
use ox_proto::Zxid;
use ox_replica::LogBatch;
use ox_store::{Appended, MemberLog, StoreError, Synced, TxnLog};
use ox_tree::{FrozenView, State};
use ox_zab::{DiskDone, DiskJob};
use std::sync::Arc;

/// What waits for the disk, in order.
pub(crate) enum Work {
    Batch(Arc<LogBatch>),
    /// The state is what an installation makes durable.
    Job(DiskJob, Option<FrozenView>),
    /// Files of the configuration.
    Config(ConfigChange),
}

/// A job that the disk has done, and the state that the files lead to where that is another one.
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
