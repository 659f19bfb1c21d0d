//! Lists and deletes snapshots and logs in the directory of a stopped server.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// A snapshot with its last zxid, or a log with its first zxid, from the file name.
struct Numbered {
    zxid: u64,
    path: PathBuf,
}

/// Deletes older snapshots and the logs that the newest snapshot makes unnecessary, so that the next server must load
/// that snapshot. `suffix` is the extension of compressed snapshots, or empty. An error if there is no snapshot except
/// that of the empty tree.
pub(super) fn keep_newest_snapshot(data: &Path, suffix: &str) -> Result<()> {
    let directory = data.join("version-2");
    let mut snapshots = numbered(&directory, "snapshot.", suffix)?;
    let newest = snapshots.pop().with_context(|| format!("no snapshot*{suffix} in {}", directory.display()))?;
    ensure!(0 < newest.zxid, "the only snapshot is of the empty tree");
    // The last log that begins before the snapshot also contains transactions after it.
    let logs = numbered(&directory, "log.", "")?;
    let first_needed = logs.iter().rposition(|log| log.zxid <= newest.zxid).unwrap_or(0);
    for old in snapshots.iter().chain(&logs[..first_needed]) {
        std::fs::remove_file(&old.path).with_context(|| format!("delete {}", old.path.display()))?;
    }
    Ok(())
}

/// The log with the highest zxid in its name.
pub(super) fn newest_log(data: &Path) -> Result<PathBuf> {
    let directory = data.join("version-2");
    let newest = numbered(&directory, "log.", "")?.pop();
    let newest = newest.with_context(|| format!("no log in {}", directory.display()))?;
    Ok(newest.path)
}

/// The files with this prefix and suffix, sorted by zxid.
fn numbered(directory: &Path, prefix: &str, suffix: &str) -> Result<Vec<Numbered>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))? {
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
    fn newest_snapshot_and_its_logs_are_kept() {
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().join("version-2");
        std::fs::create_dir(&directory).unwrap();
        for name in ["snapshot.0.gz", "snapshot.2a.gz", "log.1", "log.10", "log.2b"] {
            std::fs::write(directory.join(name), "").unwrap();
        }
        keep_newest_snapshot(data.path(), ".gz").unwrap();
        let mut left: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["log.10", "log.2b", "snapshot.2a.gz"]);
        assert!(keep_newest_snapshot(data.path(), "").is_err());
    }
}
