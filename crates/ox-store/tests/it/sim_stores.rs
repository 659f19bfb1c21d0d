//! Stores on simulated disks, for tests that damage them.

use crate::expected::{Expected, IndexEntry, expected, index, testdata};
use crate::workload::{History, run};
use ox_store::disk::SimDisk;
use ox_store::{Opened, Store, StoreError, StoreOptions};
use ox_tree::TreeOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The data directory on the disk.
pub(crate) const ROOT: &str = "/srv/zk";

/// Small files and frequent snapshots.
pub(crate) fn options() -> StoreOptions {
    let mut options = StoreOptions::new(ROOT);
    options.log.preallocate_bytes = 2048;
    options.log.snap_count = 12;
    options.reserve_bytes = 0;
    options
}

pub(crate) fn open(disk: &SimDisk) -> Result<Opened, StoreError> {
    open_with(disk, &options())
}

pub(crate) fn open_with(disk: &SimDisk, options: &StoreOptions) -> Result<Opened, StoreError> {
    Store::open(Arc::new(disk.clone()), options, &TreeOptions::default(), 3)
}

/// The path of a file in the store.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(ROOT).join("version-2").join(name)
}

/// The names of files with the given prefix.
pub(crate) fn names(disk: &SimDisk, prefix: &str) -> Vec<String> {
    use ox_store::disk::Disk;
    let names = disk.list(&Path::new(ROOT).join("version-2")).unwrap();
    names.into_iter().filter(|name| name.starts_with(prefix)).collect()
}

/// Replaces a file by a copy that `change` has modified.
pub(crate) fn damage(disk: &SimDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.content(&file(name)).unwrap_or_else(|| panic!("{name} exists"));
    change(&mut bytes);
    disk.install(&file(name), &bytes);
}

/// Removes a file durably.
pub(crate) fn remove(disk: &SimDisk, name: &str) {
    use ox_store::disk::Disk;
    disk.remove(&file(name)).unwrap();
    disk.sync_dir(&Path::new(ROOT).join("version-2")).unwrap();
}

/// A disk on which the batches were run, after a crash of the process.
pub(crate) fn worked(options: &StoreOptions, batches: &[usize]) -> (SimDisk, History) {
    let disk = SimDisk::new();
    let mut history = History::default();
    let mut opened = open_with(&disk, options).unwrap();
    run(&mut opened, batches, &mut history).unwrap();
    drop(opened);
    disk.restart_process();
    (disk, history)
}

/// A golden set on a simulated disk.
pub(crate) fn golden(set: &str) -> (SimDisk, Expected) {
    let disk = SimDisk::new();
    let entry = index().into_iter().find(|entry| entry.set == set).unwrap();
    assert_eq!(entry.data_dir, entry.log_dir, "sets with one directory only");
    for item in std::fs::read_dir(testdata().join(set).join("version-2")).unwrap() {
        let item = item.unwrap();
        disk.install(&file(item.file_name().to_str().unwrap()), &std::fs::read(item.path()).unwrap());
    }
    (disk, expected(set))
}

/// All sets with a single directory that must start.
pub(crate) fn startable_sets() -> Vec<IndexEntry> {
    let fits = |entry: &IndexEntry| entry.required_outcome == "starts" && entry.data_dir == entry.log_dir;
    index().into_iter().filter(fits).collect()
}
