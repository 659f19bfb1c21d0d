//! The log thread: one write per batch, and one fsync for all batches that have arrived meanwhile (group commit).
//!
//! A member's disk jobs run here too, in order with the batches: storing epochs, truncating the log, installing a
//! leader's snapshot (`ox-store/src/member.rs`), and writing configuration files. The inbox of the replica thread
//! receives the last durable zxid, and a report of each job.

use crate::limits::FSYNC_BATCH_BYTES;
use crate::reconfig::ConfigChange;
use crate::shared::{Fatal, Shared};
use crate::watchdog::{CHECK_INTERVAL, Heartbeat};
use ox_proto::Zxid;
use ox_replica::LogBatch;
use ox_store::{Appended, MemberLog, Synced, Truncated, TxnLog};
use ox_tree::{FrozenView, State};
use ox_zab::{DiskDone, Epoch};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A batch and when it was queued.
struct QueuedBatch {
    batch: Arc<LogBatch>,
    since: Instant,
}

/// A disk job of a member, besides appending transactions.
pub(crate) enum Job {
    /// Store the accepted epoch, before ACKEPOCH is sent.
    AcceptedEpoch(Epoch),
    /// Store the current epoch, whose history the log contains.
    CurrentEpoch(Epoch),
    /// Truncate the log after this zxid.
    Truncate(Zxid),
    /// Replace all local files by this state.
    Install(FrozenView),
    /// Initialise an empty log, when a new ensemble bootstraps.
    Found,
}

/// A finished job, with the state to use from now on if the job has replaced it.
pub(crate) struct Report {
    pub(crate) done: DiskDone,
    pub(crate) state: Option<Box<State>>,
}

enum Work {
    Batch(QueuedBatch),
    Job(Job),
    Config(ConfigChange),
}

/// The transaction log that the thread writes.
pub(crate) enum Log {
    Standalone(Box<TxnLog>),
    Member(Box<MemberLog>),
}

impl Log {
    fn current_file(&self) -> Option<Zxid> {
        match self {
            Self::Standalone(log) => log.current_file(),
            Self::Member(log) => log.current_file(),
        }
    }

    fn append(&mut self, batch: &LogBatch) -> Result<Appended, ox_store::StoreError> {
        let LogBatch { bytes, first, last, records } = batch;
        match self {
            Self::Standalone(log) => log.append(bytes, *first, *last, *records),
            Self::Member(log) => log.append(bytes, *first, *last, *records),
        }
    }

    fn sync(&mut self) -> Result<Synced, ox_store::StoreError> {
        match self {
            Self::Standalone(log) => log.sync(),
            Self::Member(log) => log.sync(),
        }
    }

    fn close(self) -> Result<(), ox_store::StoreError> {
        match self {
            Self::Standalone(log) => log.close(),
            Self::Member(log) => log.close(),
        }
    }

    fn work(&mut self, job: &Job) -> Result<Report, ox_store::StoreError> {
        let Self::Member(log) = self else { unreachable!("a standalone server has no epochs") };
        let (mut state, number) = (None, |epoch: &Epoch| u32::try_from(epoch.0).expect("an accepted epoch"));
        let done = match job {
            Job::AcceptedEpoch(epoch) => {
                log.set_accepted(number(epoch))?;
                DiskDone::AcceptedEpoch(*epoch)
            }
            Job::CurrentEpoch(epoch) => {
                log.set_current(number(epoch))?;
                log.end_quarantine()?;
                DiskDone::CurrentEpoch(*epoch)
            }
            Job::Install(frozen) => {
                log.install(frozen)?;
                DiskDone::Installed(frozen.last_zxid())
            }
            Job::Found => {
                state = Some(Box::new(log.initialize()?.state));
                DiskDone::LogInitialized
            }
            Job::Truncate(zxid) => match log.truncate(*zxid)? {
                Truncated::Done(loaded) | Truncated::Short(loaded) => {
                    let end = loaded.state.last_zxid();
                    state = Some(Box::new(loaded.state));
                    DiskDone::Truncated(Some(end))
                }
                Truncated::NotPossible(why) => {
                    tracing::warn!(why, "requesting a snapshot from the leader: cannot truncate the log after {zxid}");
                    DiskDone::Truncated(None)
                }
            },
        };
        Ok(Report { done, state })
    }
}

#[derive(Default)]
struct Inner {
    batches: VecDeque<Work>,
    closed: bool,
}

/// Batches and jobs for the log thread, in order.
#[derive(Default)]
pub(crate) struct LogQueue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl LogQueue {
    pub(crate) fn push(&self, batch: Arc<LogBatch>) {
        self.inner.lock().batches.push_back(Work::Batch(QueuedBatch { batch, since: Instant::now() }));
        self.arrived.notify_one();
    }

    /// Adds a disk job after everything that was pushed before.
    pub(crate) fn push_job(&self, job: Job) {
        self.inner.lock().batches.push_back(Work::Job(job));
        self.arrived.notify_one();
    }

    /// Adds the writing of a configuration after everything that was pushed before.
    pub(crate) fn push_config(&self, change: ConfigChange) {
        self.inner.lock().batches.push_back(Work::Config(change));
        self.arrived.notify_one();
    }

    /// Closes the queue: the thread ends when it has written what is queued.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.arrived.notify_one();
    }

    fn is_done(&self) -> bool {
        let inner = self.inner.lock();
        inner.closed && inner.batches.is_empty()
    }

    /// The next batch of a group; `None` if none arrives in time, or if a job is next.
    fn pop_batch(&self, timeout: Duration) -> Option<QueuedBatch> {
        let mut inner = self.inner.lock();
        if inner.batches.is_empty() && !inner.closed && !timeout.is_zero() {
            self.arrived.wait_for(&mut inner, timeout);
        }
        match inner.batches.pop_front_if(|work| matches!(work, Work::Batch(_))) {
            Some(Work::Batch(waiting)) => Some(waiting),
            _ => None,
        }
    }

    /// The next item; `None` if none arrives in time.
    fn pop(&self, timeout: Duration) -> Option<Work> {
        let mut inner = self.inner.lock();
        if inner.batches.is_empty() && !inner.closed {
            self.arrived.wait_for(&mut inner, timeout);
        }
        inner.batches.pop_front()
    }
}

/// Writes until the queue is closed. An error ends the server, because nothing may be acknowledged after it.
pub(crate) fn run(shared: &Shared, queue: &LogQueue, mut log: Log, heartbeat: &Heartbeat) {
    let mut group = Group::default();
    while !queue.is_done() {
        heartbeat.beat();
        let Some(work) = queue.pop(CHECK_INTERVAL) else { continue };
        let worked = match work {
            Work::Batch(first) => write_group(shared, queue, &mut log, first, &mut group),
            Work::Config(change) => {
                change.save(shared);
                if let Some(version) = change.active_version() {
                    shared.inbox.put(|input| input.config_stored = Some(version));
                }
                Ok(())
            }
            Work::Job(job) => log.work(&job).map(|report| shared.inbox.put(|input| input.reports.push(report))),
        };
        if let Err(error) = worked {
            return shared.fail(Fatal::Log(error));
        }
    }
    if let Err(error) = log.close() {
        tracing::warn!(%error, "cannot record the synced position; the next start checks the end of the log");
    }
}

/// Batches that become durable together: when each was queued, and its number of records.
#[derive(Default)]
struct Group {
    batches: Vec<(Instant, usize)>,
    bytes: usize,
    records: usize,
}

/// Appends all queued batches and fsyncs once.
fn write_group(
    shared: &Shared,
    queue: &LogQueue,
    log: &mut Log,
    first: QueuedBatch,
    group: &mut Group,
) -> Result<(), ox_store::StoreError> {
    let (storage, began) = (&shared.config.storage, Instant::now());
    let flush_at = began + Duration::from_millis(storage.flush_delay_ms);
    (group.records, group.bytes) = (0, 0);
    let (mut snapshot_due, mut next) = (None, Some(first));
    while let Some(QueuedBatch { batch, since }) = next {
        group.records += batch.records;
        group.batches.push((since, batch.records));
        let file = log.current_file();
        if log.append(&batch)? == Appended::SnapshotDue {
            snapshot_due = Some(batch.last);
        }
        if let Some(first) = log.current_file().filter(|first| Some(*first) != file) {
            tracing::info!("Creating new log file: log.{:x}", first.0);
        }
        group.bytes += batch.bytes.len();
        let is_long = storage.max_batch_size != 0 && storage.max_batch_size as usize <= group.records;
        let is_full = is_long || FSYNC_BATCH_BYTES <= group.bytes;
        let timeout = flush_at.saturating_duration_since(Instant::now());
        let timeout = timeout.min(Duration::from_millis(storage.max_write_queue_poll_ms));
        next = if is_full { None } else { queue.pop_batch(timeout) };
    }
    let synced = log.sync()?;
    note(shared, group, began, &synced);
    shared.inbox.put(|input| {
        input.durable = Some(synced.last);
        input.snapshot_due = snapshot_due.or(input.snapshot_due);
    });
    Ok(())
}

fn note(shared: &Shared, group: &mut Group, began: Instant, synced: &Synced) {
    let (metrics, now) = (&shared.metrics, Instant::now());
    let took_ms = millis(synced.took);
    metrics.fsynctime.note(took_ms, 1);
    if shared.config.storage.fsync_warning_ms < took_ms {
        tracing::warn!(
            "fsync-ing the write ahead log in SyncThread:0 took {took_ms}ms which will adversely effect operation \
             latency.File size is {} bytes. See the ZooKeeper troubleshooting guide",
            synced.log_bytes
        );
    }
    let flush_ms = millis(now - began);
    metrics.sync_process_time.note(flush_ms, 1);
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    metrics.sync_processor_queue_size.note(count(group.batches.len() - 1), 1);
    metrics.sync_processor_batch_size.note(count(group.records), 1);
    metrics.sync_processor_queue_flush_time_ms.note(flush_ms, group.records as u64);
    for (since, records) in group.batches.drain(..) {
        metrics.sync_processor_queue_time_ms.note(millis(began.saturating_duration_since(since)), records as u64);
        metrics.sync_processor_queue_and_flush_time_ms.note(millis(now - since), records as u64);
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
