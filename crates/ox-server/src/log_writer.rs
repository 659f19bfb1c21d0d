//! The thread that makes transactions durable: one write per batch, one sync for all that has gathered.

use crate::shared::{Fatal, Shared};
use crate::watchdog::{LOOK, Turns};
use ox_replica::LogBatch;
use ox_store::{Appended, Synced, TxnLog};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A batch and when it was handed over.
struct Waiting {
    batch: Arc<LogBatch>,
    since: Instant,
}

#[derive(Default)]
struct Inner {
    batches: VecDeque<Waiting>,
    closed: bool,
}

/// Batches on their way to the disk.
#[derive(Default)]
pub(crate) struct LogQueue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

impl LogQueue {
    pub(crate) fn push(&self, batch: Arc<LogBatch>) {
        self.inner.lock().batches.push_back(Waiting { batch, since: Instant::now() });
        self.arrived.notify_one();
    }

    /// No more will come: the thread ends when it has written what is there.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Nothing is left to write, and no more will come.
    fn is_done(&self) -> bool {
        let inner = self.inner.lock();
        inner.closed && inner.batches.is_empty()
    }

    /// The next batch; `None` when none came in time, or none will.
    fn pop(&self, patience: Duration) -> Option<Waiting> {
        let mut inner = self.inner.lock();
        if inner.batches.is_empty() && !inner.closed && !patience.is_zero() {
            self.arrived.wait_for(&mut inner, patience);
        }
        inner.batches.pop_front()
    }
}

/// Writes until the queue is closed. An error ends the server: nothing may be acknowledged any more.
pub(crate) fn run(shared: &Shared, queue: &LogQueue, mut log: TxnLog, turns: &Turns) {
    let mut group = Group::default();
    while !queue.is_done() {
        turns.mark();
        let Some(first) = queue.pop(LOOK) else { continue };
        if let Err(error) = write_group(shared, queue, &mut log, first, &mut group) {
            return shared.fail(Fatal::Log(error));
        }
    }
    if let Err(error) = log.close() {
        tracing::warn!(%error, "cannot note the end of the log; the next start checks it");
    }
}

/// Batches that become durable together: since when each waited, and its records.
#[derive(Default)]
struct Group {
    batches: Vec<(Instant, usize)>,
    records: usize,
}

/// Appends everything that has gathered and syncs once.
fn write_group(
    shared: &Shared,
    queue: &LogQueue,
    log: &mut TxnLog,
    first: Waiting,
    group: &mut Group,
) -> Result<(), ox_store::Error> {
    let (storage, began) = (&shared.config.storage, Instant::now());
    let flush_at = began + Duration::from_millis(storage.flush_delay_ms);
    group.records = 0;
    let (mut snapshot_due, mut next) = (None, Some(first));
    while let Some(Waiting { batch, since }) = next {
        group.records += batch.records;
        group.batches.push((since, batch.records));
        let file = log.current_file();
        if log.append(&batch.bytes, batch.first, batch.last, batch.records)? == Appended::SnapshotDue {
            snapshot_due = Some(batch.last);
        }
        if let Some(first) = log.current_file().filter(|first| Some(*first) != file) {
            tracing::info!("Creating new log file: log.{:x}", first.0);
        }
        let is_full = storage.max_batch_size != 0 && storage.max_batch_size as usize <= group.records;
        let patience = flush_at.saturating_duration_since(Instant::now());
        let patience = patience.min(Duration::from_millis(storage.max_write_queue_poll_ms));
        next = if is_full { None } else { queue.pop(patience) };
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
             latency. File size is {} bytes",
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
