//! The golden sets of `ox-store`, on simulated disks that tests can damage.

use ox_store::disk::{Disk, SimDisk};
use ox_store::{Opened, Store, StoreError, StoreOptions};
use ox_tree::TreeOptions;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The data directory on a simulated disk.
pub(crate) const ROOT: &str = "/srv/zk";

pub(crate) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-store/testdata")
}

/// The names of the sets with one directory for snapshots and logs that a server opens with default settings.
pub(crate) fn default_sets() -> Vec<String> {
    let index: Vec<Value> = serde_json::from_slice(&std::fs::read(testdata().join("index.json")).unwrap()).unwrap();
    let is_default = |entry: &&Value| entry["dataDir"] == entry["dataLogDir"] && entry["properties"] == json!({});
    index.iter().filter(is_default).map(|entry| entry["set"].as_str().unwrap().to_owned()).collect()
}

/// A set with one directory.
pub(crate) fn golden(set: &str) -> SimDisk {
    let disk = SimDisk::new();
    for item in std::fs::read_dir(testdata().join(set).join("version-2")).unwrap() {
        let item = item.unwrap();
        disk.install(&file(item.file_name().to_str().unwrap()), &std::fs::read(item.path()).unwrap());
    }
    disk
}

/// Starts a server's store on the disk.
pub(crate) fn open(disk: &SimDisk) -> Result<Opened, StoreError> {
    let options = StoreOptions { reserve_bytes: 0, ..StoreOptions::new(ROOT) };
    Store::open(Arc::new(disk.clone()), &options, &TreeOptions::default(), 3)
}

/// The path of a file in the data directory.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(ROOT).join("version-2").join(name)
}

/// The names of files with the given prefix.
pub(crate) fn names(disk: &SimDisk, prefix: &str) -> Vec<String> {
    let names = disk.list(&file("")).unwrap();
    names.into_iter().filter(|name| name.starts_with(prefix)).collect()
}

/// Replaces a file by a copy that `change` has modified.
pub(crate) fn damage(disk: &SimDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.content(&file(name)).unwrap_or_else(|| panic!("{name} exists"));
    change(&mut bytes);
    disk.install(&file(name), &bytes);
}
