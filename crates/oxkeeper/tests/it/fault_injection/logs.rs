//! The logs on the disks of the members.

use ox_history::LogEntry;
use ox_proto::Zxid;
use ox_proto::txn::Record;
use ox_store::disk::RealDisk;
use ox_store::log_reader::LogReader;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The history up to a transaction, merged from all logs below a directory: what one member has replaced by a
/// snapshot, another may have kept.
pub(crate) fn history(home: &Path, last: Zxid) -> Vec<LogEntry> {
    let (mut all, mut before) = (BTreeMap::new(), BTreeMap::new());
    for files in lines_of_logs(home).values() {
        let mut previous = None;
        for path in files.values() {
            let mut reader = LogReader::open(&RealDisk, path).expect("a log");
            while let Some(frame) = reader.next_frame().expect("a log can be read") {
                let record = LogEntry::of(&Record::decode(frame.record).expect("a transaction"), None);
                let zxid = record.zxid;
                if let Some(previous) = previous.replace(zxid) {
                    before.insert(zxid, previous);
                }
                let other = all.insert(zxid, record.clone());
                assert!(other.is_none_or(|other| other == record), "{zxid} means two things");
            }
        }
    }
    // An uncommitted transaction precedes no other one.
    let (mut history, mut next) = (Vec::new(), Some(last));
    while let Some(zxid) = next {
        history.extend(all.remove(&zxid));
        next = before.get(&zxid).copied();
    }
    history.reverse();
    let first = history.first().map(|first| first.zxid);
    assert_eq!(first, Some(Zxid::new(1, 1)), "no log contains the beginning of the history");
    history
}

/// Log files of one directory, by their first zxids.
fn lines_of_logs(home: &Path) -> BTreeMap<(PathBuf, String), BTreeMap<i64, PathBuf>> {
    let (mut lines, mut directories) = (BTreeMap::new(), vec![home.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().flatten() {
            if entry.path().is_dir() {
                directories.push(entry.path());
            } else if let Some((line, first)) = entry.file_name().to_str().and_then(|name| name.rsplit_once("log."))
                && let Ok(first) = i64::from_str_radix(first, 16)
            {
                let line: &mut BTreeMap<_, _> = lines.entry((directory.clone(), line.to_owned())).or_default();
                line.insert(first, entry.path());
            }
        }
    }
    lines
}
