//! The thread that makes transactions durable: one write per batch, one sync for all that has gathered.

use crate::shared::{Fatal, Shared};
use ox_replica::LogBatch;
use ox_store::{Appended, TxnLog};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Inner {
    batches: VecDeque<Arc<LogBatch>>,
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
        self.inner.lock().batches.push_back(batch);
        self.arrived.notify_one();
    }

    /// No more will come: the thread ends when it has written what is there.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.arrived.notify_one();
    }

    /// The next batch; `None` when none came in time, or none will.
    fn pop(&self, patience: Option<Duration>) -> Option<Arc<LogBatch>> {
        let mut inner = self.inner.lock();
        loop {
            if let Some(batch) = inner.batches.pop_front() {
                return Some(batch);
            }
            if inner.closed {
                return None;
            }
            match patience {
                None => self.arrived.wait(&mut inner),
                Some(patience) => {
                    if patience.is_zero() || self.arrived.wait_for(&mut inner, patience).timed_out() {
                        return inner.batches.pop_front();
                    }
                }
            }
        }
    }
}

/// Writes until the queue is closed. An error ends the server: nothing may be acknowledged any more.
pub(crate) fn run(shared: &Shared, queue: &LogQueue, mut log: TxnLog) {
    while let Some(first) = queue.pop(None) {
        if let Err(error) = write_group(shared, queue, &mut log, first) {
            return shared.fail(Fatal::Log(error));
        }
    }
    if let Err(error) = log.close() {
        tracing::warn!(%error, "cannot note the end of the log; the next start checks it");
    }
}

/// Appends everything that has gathered and syncs once.
fn write_group(
    shared: &Shared,
    queue: &LogQueue,
    log: &mut TxnLog,
    first: Arc<LogBatch>,
) -> Result<(), ox_store::Error> {
    let storage = &shared.config.storage;
    let flush_at = Instant::now() + Duration::from_millis(storage.flush_delay_ms);
    let (mut records, mut snapshot_due) = (0, None);
    let mut next = Some(first);
    while let Some(batch) = next {
        records += batch.records;
        if log.append(&batch.bytes, batch.first, batch.last, batch.records)? == Appended::SnapshotDue {
            snapshot_due = Some(batch.last);
        }
        let is_full = storage.max_batch_size != 0 && storage.max_batch_size as usize <= records;
        let patience = flush_at.saturating_duration_since(Instant::now());
        let patience = patience.min(Duration::from_millis(storage.max_write_queue_poll_ms));
        next = if is_full { None } else { queue.pop(Some(patience)) };
    }
    let synced = log.sync()?;
    let took_ms = i64::try_from(synced.took.as_millis()).unwrap_or(i64::MAX);
    shared.stats.fsyncs.fetch_add(1, Ordering::Relaxed);
    shared.stats.fsync_ms.note(took_ms, 1);
    if storage.fsync_warning_ms < took_ms {
        shared.stats.slow_fsyncs.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            took_ms,
            log_bytes = synced.log_bytes,
            "fsync-ing the write ahead log took {took_ms}ms which will adversely affect operation latency"
        );
    }
    shared.inbox.put(|input| {
        input.durable = Some(synced.last);
        input.snapshot_due = snapshot_due.or(input.snapshot_due);
    });
    Ok(())
}
