//! What the members were left with on their disks.

use ox_history::Logged;
use ox_proto::Zxid;
use ox_proto::txn::Record;
use ox_store::disk::RealDisk;
use ox_store::log_reader::LogReader;
use std::path::Path;

/// The transactions in a member's log files, in order.
pub(crate) fn read(version_2: &Path) -> Vec<Logged> {
    let mut files: Vec<_> = std::fs::read_dir(version_2)
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let zxid = i64::from_str_radix(name.strip_prefix("log.")?, 16).ok()?;
            Some((zxid, entry.path()))
        })
        .collect();
    files.sort();
    let mut all = Vec::new();
    for (_, path) in files {
        let mut reader = LogReader::open(&RealDisk, &path).expect("a log");
        while let Some(frame) = reader.next_frame().expect("a log can be read") {
            let record = Record::decode(frame.record).expect("a transaction");
            all.push(Logged::of(&record, None));
        }
    }
    all
}

/// Whether nothing is missing at the beginning.
pub(crate) fn is_whole(log: &[Logged]) -> bool {
    log.first().is_some_and(|first| first.zxid == Zxid::new(1, 1))
}
