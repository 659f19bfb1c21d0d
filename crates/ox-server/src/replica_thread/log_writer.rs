//! The log thread: runs group commit and disk jobs (`ox-driver/src/log_writer.rs`) on a queue with a condition variable.
//!
//! The inbox of the replica thread receives the last durable zxid, and a report of each job.

use crate::peers::config_activation::save_config;
use crate::shared::{Fatal, Shared};
use crate::watchdog::{CHECK_INTERVAL, Heartbeat};
use ox_driver::log_writer::{Durable, Group, GroupLimits, LogQueue, LogWork, LogWriter, QueuedBatch};
use ox_driver::server_log::ServerLog;
use ox_store::{StoreError, Synced};
use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Work for the log thread, in order.
#[derive(Default)]
pub(crate) struct SharedLogQueue {
    queue: Mutex<LogQueue>,
    arrived: Condvar,
}

impl SharedLogQueue {
    pub(crate) fn push(&self, work: LogWork) {
        self.queue.lock().push(work);
        self.arrived.notify_one();
    }

    /// Closes the queue: the thread ends when it has written what is queued.
    pub(crate) fn close(&self) {
        self.queue.lock().close();
        self.arrived.notify_one();
    }

    /// Takes from the queue; waits for `timeout` at most if it is empty.
    fn take<T>(&self, timeout: Duration, take: impl FnOnce(&mut LogQueue) -> T) -> T {
        let mut queue = self.queue.lock();
        if queue.may_wait() && !timeout.is_zero() {
            self.arrived.wait_for(&mut queue, timeout);
        }
        take(&mut queue)
    }
}

/// Writes until the queue is closed. An error ends the server, because nothing may be acknowledged after it.
pub(crate) fn run(shared: &Shared, queue: &SharedLogQueue, log: ServerLog, heartbeat: &Heartbeat) {
    let storage = &shared.config.storage;
    let limits = GroupLimits {
        records_max: (storage.max_batch_size != 0).then_some(storage.max_batch_size as usize),
        flush_delay: Duration::from_millis(storage.flush_delay_ms),
        poll_max: Duration::from_millis(storage.max_write_queue_poll_ms),
    };
    let mut writer = LogWriter::new(log, limits);
    while !queue.queue.lock().is_done() {
        heartbeat.beat();
        let Some(work) = queue.take(CHECK_INTERVAL, LogQueue::pop) else { continue };
        let worked = match work {
            LogWork::Batch(first) => write_group(shared, queue, &mut writer, first),
            LogWork::Config(change) => {
                save_config(shared, &change);
                if let Some(version) = change.active_version() {
                    shared.inbox.put(|input| input.config_stored = Some(version));
                }
                Ok(())
            }
            LogWork::Job(job, snapshot) => {
                let executed = writer.execute(job, snapshot.as_ref());
                executed.map(|report| shared.inbox.put(|input| input.reports.push(report)))
            }
        };
        if let Err(error) = worked {
            return shared.fail(Fatal::Log(error));
        }
    }
    if let Err(error) = writer.close() {
        tracing::warn!(%error, "cannot record the synced position; the next start checks the end of the log");
    }
}

/// Appends all queued batches and fsyncs once.
fn write_group(
    shared: &Shared,
    queue: &SharedLogQueue,
    writer: &mut LogWriter,
    first: QueuedBatch,
) -> Result<(), StoreError> {
    let now = || shared.clock.elapsed();
    writer.append(now(), first)?;
    while let Some(timeout) = writer.wait_for_batch(now())
        && let Some(next) = queue.take(timeout, LogQueue::pop_batch)
    {
        writer.append(now(), next)?;
    }
    let Durable { synced, snapshot_due } = writer.sync()?;
    note(shared, writer.group(), &synced);
    shared.inbox.put(|input| {
        input.durable = Some(synced.last);
        input.snapshot_due = snapshot_due.or(input.snapshot_due);
    });
    Ok(())
}

fn note(shared: &Shared, group: &Group, synced: &Synced) {
    let (metrics, now) = (&shared.metrics, shared.clock.elapsed());
    let took_ms = millis(synced.took);
    metrics.fsynctime.note(took_ms, 1);
    if shared.config.storage.fsync_warning_ms < took_ms {
        shared.stats.slow_fsyncs.add(1);
        tracing::warn!(
            "fsync-ing the write ahead log in SyncThread:0 took {took_ms}ms which will adversely effect operation \
             latency.File size is {} bytes. See the ZooKeeper troubleshooting guide",
            synced.log_bytes
        );
    }
    let flush_ms = millis(now.saturating_sub(group.began));
    metrics.sync_process_time.note(flush_ms, 1);
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    metrics.sync_processor_queue_size.note(count(group.batches.len() - 1), 1);
    metrics.sync_processor_batch_size.note(count(group.records), 1);
    metrics.sync_processor_queue_flush_time_ms.note(flush_ms, group.records as u64);
    for (since, records) in &group.batches {
        metrics.sync_processor_queue_time_ms.note(millis(group.began.saturating_sub(*since)), *records as u64);
        metrics.sync_processor_queue_and_flush_time_ms.note(millis(now.saturating_sub(*since)), *records as u64);
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
