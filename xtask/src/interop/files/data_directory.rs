//! The files of a stopped server: are they what the variant asked for, and is the newest snapshot enough?

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// A snapshot or log, and the zxid in its name: last for a snapshot, first for a log.
struct Numbered {
    zxid: u64,
    path: PathBuf,
}

/// Deletes all that a server does not need beside its newest snapshot, so that whoever opens the folder must read it.
///
/// `suffix` is the end of snapshot names, empty for plain ones. Nothing is deleted where no snapshot but that of the empty
/// tree is expected.
pub(super) fn keep_newest_snapshot(data: &Path, suffix: &str) -> Result<()> {
    let folder = data.join("version-2");
    let mut snapshots = numbered(&folder, "snapshot.", suffix)?;
    let newest = snapshots.pop().with_context(|| format!("no snapshot*{suffix} in {}", folder.display()))?;
    ensure!(0 < newest.zxid, "the only snapshot is that of the empty tree");
    // The log in use when the snapshot was taken begins before it and is needed.
    let logs = numbered(&folder, "log.", "")?;
    let first_needed = logs.iter().rposition(|log| log.zxid <= newest.zxid).unwrap_or(0);
    for old in snapshots.iter().chain(&logs[..first_needed]) {
        std::fs::remove_file(&old.path).with_context(|| format!("delete {}", old.path.display()))?;
    }
    Ok(())
}

/// The log that was written last.
pub(super) fn newest_log(data: &Path) -> Result<PathBuf> {
    let folder = data.join("version-2");
    let newest = numbered(&folder, "log.", "")?.pop().with_context(|| format!("no log in {}", folder.display()))?;
    Ok(newest.path)
}

/// The files of one kind, oldest first.
fn numbered(folder: &Path, prefix: &str, suffix: &str) -> Result<Vec<Numbered>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let digits = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix));
        if let Some(zxid) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            found.push(Numbered { zxid, path: entry.path() });
        }
    }
    found.sort_by_key(|file| file.zxid);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_snapshot_and_the_logs_it_needs() {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join("version-2");
        std::fs::create_dir(&folder).unwrap();
        for name in ["snapshot.0.gz", "snapshot.2a.gz", "log.1", "log.10", "log.2b"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        keep_newest_snapshot(data.path(), ".gz").unwrap();
        let mut left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["log.10", "log.2b", "snapshot.2a.gz"]);
        assert!(keep_newest_snapshot(data.path(), "").is_err());
    }
}
