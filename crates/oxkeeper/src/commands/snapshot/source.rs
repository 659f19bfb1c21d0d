//! The source of a tree: a snapshot, or the data directories of a server.

use crate::commands::server::{OUTSIDE, system_properties};
use anyhow::{Context, Result, bail};
use ox_config::{Config, StartArgs};
use ox_inspect::{locate, snapshot_check};
use ox_store::StoreError;
use ox_store::disk::{Disk, RealDisk};
use ox_store::names::{Dirs, SnapshotFile, list};
use ox_store::start_preview;
use ox_tree::FrozenView;
use std::path::Path;

/// A snapshot identified by its file name.
pub(super) fn snapshot_file(path: &Path) -> Result<SnapshotFile> {
    let Some(file) = locate::snapshot_file(path) else {
        if path.is_dir() {
            let dirs = locate::dirs(&RealDisk, path, None)?;
            let newest = list(&RealDisk, &dirs)?.snapshots.into_iter().next();
            let hint = newest.map(|newest| format!("\nhint: its newest snapshot is {}", newest.path.display()));
            bail!("{} is a directory; expected a snapshot{}", path.display(), hint.unwrap_or_default());
        }
        path.metadata().with_context(|| format!("cannot open {}", path.display()))?;
        bail!(
            "{} is not named like a snapshot\nhint: snapshots are named snapshot.<zxid in hex>[.gz|.snappy]",
            path.display()
        )
    };
    Ok(file)
}

/// The tree of a snapshot, or of a server's directories: their newest snapshot and the logs after it. `dataDir` and
/// `logs`, or a configuration file, identify the directories. Prints to stderr which files were read.
pub(super) fn tree(disk: &dyn Disk, path: &Path, logs: Option<&Path>) -> Result<FrozenView> {
    if let Some(file) = locate::snapshot_file(path).filter(|_| !locate::is_dir(disk, path)) {
        if logs.is_some() {
            bail!(
                "{} is a single snapshot: no logs are applied to it\nhint: give its directory instead",
                path.display()
            );
        }
        return Ok(snapshot_check::load_tree(disk, &file)?);
    }
    let dirs = directories(disk, path, logs)?;
    let outlook = start_preview::preview_start(disk, &dirs)?;
    if outlook.listing.logs.is_empty() && outlook.listing.snapshots.is_empty() {
        bail!("no snapshots and logs in {}\nhint: give dataDir, or version-2 in it", path.display());
    }
    let history = match outlook.history {
        // A member would refuse a copy, but its content can be shown.
        Err(StoreError::Copied { .. }) => start_preview::read_as_standalone(disk, &dirs),
        history => history,
    };
    let history = history.with_context(|| format!("cannot read {}", path.display()))?;
    let Dirs { snapshots, logs: log_dir } = &dirs;
    crate::say(format_args!("read snapshots in {}, logs in {}", snapshots.display(), log_dir.display()));
    if outlook.listing.logs.is_empty() {
        crate::say(format_args!(
            "warning: there are no logs in {}\nhint: if the server has a dataLogDir, give that too, or its zoo.cfg",
            log_dir.display()
        ));
    }
    history.warnings.iter().for_each(|warning| crate::say(format_args!("warning: {warning}")));
    Ok(history.state.freeze())
}

/// The directories of a server, from `dataDir` or its configuration file.
fn directories(disk: &dyn Disk, path: &Path, logs: Option<&Path>) -> Result<Dirs> {
    if locate::is_dir(disk, path) {
        return Ok(locate::dirs(disk, path, logs)?);
    }
    path.metadata().with_context(|| format!("cannot open {}", path.display()))?;
    let config = Config::load(&StartArgs::File(path.to_owned()), &system_properties(&[]), &OUTSIDE, &mut Vec::new());
    let config = config.with_context(|| {
        format!("{} is neither named like a snapshot nor a valid configuration file", path.display())
    })?;
    Ok(locate::dirs(disk, &config.data_dir, Some(logs.unwrap_or(&config.data_log_dir)))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_in_place_of_a_snapshot_names_its_newest_one() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("version-2");
        std::fs::create_dir(&data).unwrap();
        for name in ["snapshot.0", "snapshot.1f"] {
            std::fs::write(data.join(name), "").unwrap();
        }
        let error = snapshot_file(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is a directory") && error.ends_with("version-2/snapshot.1f"), "{error}");
    }
}
