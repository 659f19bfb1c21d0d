//! Group commit: all batches that have arrived are appended, then one fsync makes them durable.
//!
//! ```text
//!   replica ── LogWork ──► LogQueue ──► append, append, .. sync ──► durable zxid, snapshot due
//!                              └──────► execute (a member's disk job) ──► JobReport
//!                              └──────► save (configuration files)
//! ```
//! A member's disk jobs and configuration files are written in order with the batches: what was queued before a job is
//! durable when the job runs. The caller owns thread and clock. It stops at the first error, because nothing may be
//! acknowledged after it; `ox-store` refuses all further calls.

use crate::config_change::ConfigChange;
use crate::limits::FSYNC_BATCH_BYTES;
use crate::server_log::{JobReport, ServerLog};
use ox_proto::Zxid;
use ox_replica::LogBatch;
use ox_store::{Appended, StoreError, Synced};
use ox_tree::FrozenView;
use ox_zab::DiskJob;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A batch and when it was queued.
pub struct QueuedBatch {
    pub batch: Arc<LogBatch>,
    pub since: Duration,
}

/// Work of the log thread.
pub enum LogWork {
    Batch(QueuedBatch),
    /// A member's disk job, with the state that an installation stores.
    Job(DiskJob, Option<FrozenView>),
    Config(ConfigChange),
}

/// Work for the log thread, in order.
#[derive(Default)]
pub struct LogQueue {
    work: VecDeque<LogWork>,
    is_closed: bool,
}

impl LogQueue {
    pub fn push(&mut self, work: LogWork) {
        self.work.push_back(work);
    }

    /// Closes the queue: the thread ends when it has written what is queued.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    pub fn len(&self) -> usize {
        self.work.len()
    }

    pub fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    /// Whether more work can arrive, and none is queued.
    pub fn may_wait(&self) -> bool {
        self.work.is_empty() && !self.is_closed
    }

    /// Whether everything is written and nothing more can arrive.
    pub fn is_done(&self) -> bool {
        self.work.is_empty() && self.is_closed
    }

    pub fn front(&self) -> Option<&LogWork> {
        self.work.front()
    }

    pub fn pop(&mut self) -> Option<LogWork> {
        self.work.pop_front()
    }

    /// The next batch of a group; `None` if something else is next.
    pub fn pop_batch(&mut self) -> Option<QueuedBatch> {
        match self.work.pop_front_if(|work| matches!(work, LogWork::Batch(_)))? {
            LogWork::Batch(queued) => Some(queued),
            LogWork::Job(..) | LogWork::Config(_) => None,
        }
    }
}

/// When a group is fsynced.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// After this many records (`maxBatchSize`).
    pub records_max: Option<usize>,
    /// At this time after its first batch was taken (`flushDelay`), unless no batch is queued before.
    pub flush_delay: Duration,
    /// The longest wait for the next batch (`maxWriteQueuePollTime`).
    pub poll_max: Duration,
}

/// Batches that become durable together.
#[derive(Debug, Default)]
pub struct Group {
    /// When each was queued, and its number of records.
    pub batches: Vec<(Duration, usize)>,
    pub records: usize,
    /// When the first one was taken.
    pub began: Duration,
    /// Whether its first batch started a log file.
    pub starts_file: bool,
    bytes: usize,
    last: Zxid,
    snapshot_due: Option<Zxid>,
}

/// The result of an fsync.
pub struct Durable {
    pub synced: Synced,
    /// A snapshot is due when this zxid is applied.
    pub snapshot_due: Option<Zxid>,
}

pub struct LogWriter {
    log: ServerLog,
    limits: GroupLimits,
    group: Group,
    /// The group has batches that are not fsynced.
    is_open: bool,
}

impl LogWriter {
    pub fn new(log: ServerLog, limits: GroupLimits) -> Self {
        Self { log, limits, group: Group::default(), is_open: false }
    }

    /// The batches that are not durable yet, or those of the last fsync.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Appends a batch to the open group, or opens one.
    pub fn append(&mut self, now: Duration, queued: QueuedBatch) -> Result<(), StoreError> {
        let Self { log, group, .. } = self;
        if !std::mem::replace(&mut self.is_open, true) {
            group.batches.clear();
            let batches = std::mem::take(&mut group.batches);
            *group = Group { batches, began: now, ..Group::default() };
        }
        let QueuedBatch { batch, since } = queued;
        group.records += batch.records;
        group.batches.push((since, batch.records));
        (group.bytes, group.last) = (group.bytes + batch.bytes.len(), batch.last);
        let file = log.current_file();
        if log.append(&batch)? == Appended::SnapshotDue {
            group.snapshot_due = Some(batch.last);
        }
        if let Some(first) = log.current_file().filter(|first| Some(*first) != file) {
            group.starts_file = true;
            tracing::info!("Creating new log file: log.{:x}", first.0);
        }
        Ok(())
    }

    /// How long to wait for the next batch of the group; `None` if the group is full.
    pub fn wait_for_batch(&self, now: Duration) -> Option<Duration> {
        let is_long = self.limits.records_max.is_some_and(|max| max <= self.group.records);
        if is_long || FSYNC_BATCH_BYTES <= self.group.bytes {
            return None;
        }
        let flush_at = self.group.began + self.limits.flush_delay;
        Some(flush_at.saturating_sub(now).min(self.limits.poll_max))
    }

    /// Makes the group durable.
    pub fn sync(&mut self) -> Result<Durable, StoreError> {
        let synced = self.log.sync()?;
        assert_eq!(synced.last, self.group.last, "the fsync covers all appended records");
        self.is_open = false;
        Ok(Durable { synced, snapshot_due: self.group.snapshot_due })
    }

    /// Executes a member's disk job. `snapshot` is the state that an installation stores.
    pub fn execute(&mut self, job: DiskJob, snapshot: Option<&FrozenView>) -> Result<JobReport, StoreError> {
        self.log.execute(job, snapshot)
    }

    /// Ends the log, after everything queued is written, and records the synced position.
    pub fn close(self) -> Result<(), StoreError> {
        self.log.close()
    }
}

#[cfg(test)]
mod tests;
