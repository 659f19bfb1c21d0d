//! Where a tree comes from: a snapshot, or a directory, which stands for its newest state.

use anyhow::{Context, Result, bail};
use ox_store::disk::Disk;
use ox_store::names::SnapshotFile;
use ox_store::tools::{history, snapshot, source};
use ox_tree::Frozen;
use std::path::Path;

/// A snapshot by its name.
pub(super) fn snapshot_file(path: &Path) -> Result<SnapshotFile> {
    let Some(file) = source::snapshot_file(path) else {
        path.metadata().with_context(|| format!("open {}", path.display()))?;
        bail!("{} is not named like a snapshot\nhint: snapshot.<zxid in hex>[.gz|.snappy]", path.display())
    };
    Ok(file)
}

/// The tree of a snapshot, or of everything in a directory: its newest snapshot and the logs behind it. `logs` is where
/// the logs are if they are elsewhere.
pub(super) fn tree(disk: &dyn Disk, path: &Path, logs: Option<&Path>) -> Result<Frozen> {
    if !source::is_dir(disk, path) {
        return Ok(snapshot::load_tree(disk, &snapshot_file(path)?)?);
    }
    let dirs = source::dirs(disk, path, logs)?;
    let outlook = history::foresee(disk, &dirs)?;
    if outlook.listing.logs.is_empty() && outlook.listing.snapshots.is_empty() {
        bail!("no snapshots and logs in {}\nhint: name dataDir, or the version-2 in it", path.display());
    }
    let history = outlook.history.with_context(|| format!("read {}", path.display()))?;
    Ok(history.state.freeze())
}
