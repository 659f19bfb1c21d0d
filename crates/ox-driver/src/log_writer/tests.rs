//! Group commit on a simulated disk.

use super::*;
use ox_proto::log_frame::{begin_log_frame, end_log_frame};
use ox_store::disk::{DiskFault, SimDisk};
use ox_store::{Store, StoreOptions};
use ox_tree::TreeOptions;

const SECOND: Duration = Duration::from_secs(1);

fn writer(limits: GroupLimits) -> (LogWriter, SimDisk) {
    let disk = SimDisk::new();
    let mut options = StoreOptions::new("/data");
    options.log.preallocate_bytes = 0;
    let opened = Store::open(Arc::new(disk.clone()), &options, &TreeOptions::default(), 1).unwrap();
    (LogWriter::new(ServerLog::Standalone(Box::new(opened.log), opened.store), limits), disk)
}

fn limits(records_max: Option<usize>) -> GroupLimits {
    GroupLimits { records_max, flush_delay: 3 * SECOND, poll_max: SECOND }
}

/// A batch of one record with this many bytes.
fn batch(zxid: i64, bytes: usize) -> QueuedBatch {
    let mut frames = Vec::new();
    let mark = begin_log_frame(&mut frames);
    frames.extend(std::iter::repeat_n(1, bytes));
    end_log_frame(&mut frames, mark);
    let batch = LogBatch { bytes: frames.into(), first: Zxid(zxid), last: Zxid(zxid), records: 1 };
    QueuedBatch { batch: Arc::new(batch), since: Duration::ZERO }
}

#[test]
fn group_is_full_after_its_records_or_bytes() {
    let (mut writer, _) = writer(limits(Some(2)));
    writer.append(SECOND, batch(1, 10)).unwrap();
    assert!(writer.wait_for_batch(SECOND).is_some());
    writer.append(SECOND, batch(2, 10)).unwrap();
    assert_eq!(writer.wait_for_batch(SECOND), None, "two records");
    assert_eq!(writer.sync().unwrap().synced.last, Zxid(2));
    writer.append(SECOND, batch(3, FSYNC_BATCH_BYTES)).unwrap();
    assert_eq!((writer.wait_for_batch(SECOND), writer.group().records), (None, 1));
}

#[test]
fn group_waits_for_batches_until_its_flush_delay() {
    let (mut writer, _) = writer(limits(None));
    writer.append(SECOND, batch(1, 10)).unwrap();
    let waits = [1000, 3200, 4000, 9000].map(|ms| writer.wait_for_batch(Duration::from_millis(ms)));
    assert_eq!(waits, [1000, 800, 0, 0].map(|ms| Some(Duration::from_millis(ms))));
}

#[test]
fn one_fsync_covers_all_batches_of_a_group() {
    let (mut writer, disk) = writer(limits(None));
    (1..=3).for_each(|zxid| writer.append(SECOND, batch(zxid, 10)).unwrap());
    assert_eq!((writer.group().batches.len(), writer.group().starts_file), (3, true));
    let calls = disk.calls();
    assert_eq!(writer.sync().unwrap().synced.last, Zxid(3));
    let first_group = disk.calls() - calls;
    (4..=9).for_each(|zxid| writer.append(SECOND, batch(zxid, 10)).unwrap());
    let calls = disk.calls();
    assert_eq!(writer.sync().unwrap().synced.last, Zxid(9));
    assert!(disk.calls() - calls <= first_group, "more batches need no more calls");
    assert_eq!((writer.group().batches.len(), writer.group().starts_file), (6, false));
}

#[test]
fn nothing_is_written_after_an_error() {
    let (mut writer, disk) = writer(limits(None));
    writer.append(SECOND, batch(1, 10)).unwrap();
    disk.set_fault(disk.calls() + 1, DiskFault::LostSync);
    assert!(writer.sync().is_err());
    assert!(matches!(writer.sync(), Err(StoreError::LogFailed)), "a failed fsync is not repeated");
    assert!(writer.append(SECOND, batch(2, 10)).is_err());
}

#[test]
fn batches_up_to_the_next_job_are_a_group() {
    let mut queue = LogQueue::default();
    queue.push(LogWork::Batch(batch(1, 10)));
    queue.push(LogWork::Config(ConfigChange::Kept));
    queue.push(LogWork::Batch(batch(2, 10)));
    queue.close();
    assert!(queue.pop_batch().is_some() && queue.pop_batch().is_none(), "the job is next");
    assert!(matches!(queue.pop(), Some(LogWork::Config(_))) && !queue.is_done() && !queue.may_wait());
    assert!(queue.pop_batch().is_some() && queue.is_done());
}
