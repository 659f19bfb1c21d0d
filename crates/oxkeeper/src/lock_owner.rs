//! Finds the process that has locked a data directory, through `/proc`.

use crate::port_owner::ProcessName;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The lock file of a data directory.
const LOCK_NAME: &str = "oxk.lock";

/// The process that has locked the directory. `None` if it is not known, as in another container.
pub(crate) fn find(dir: &Path) -> Option<ProcessName> {
    let inode = fs::metadata(dir.join(LOCK_NAME)).ok()?.ino();
    let pid = holder(&fs::read_to_string("/proc/locks").ok()?, inode)?;
    fs::metadata(format!("/proc/{pid}")).ok().map(|_| ProcessName::of_pid(pid))
}

/// The process that holds a lock of the inode, from the kernel's table. The numbers of devices are not compared: those of
/// some file systems differ from those in the metadata.
fn holder(table: &str, inode: u64) -> Option<u32> {
    let lines = table.lines().filter(|line| !line.contains("->")); // a process that waits for the lock
    let mut holders = lines.filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let of = fields.get(5)?.rsplit_once(':')?.1;
        (of.parse() == Ok(inode)).then(|| fields.get(4)?.parse().ok()).flatten()
    });
    holders.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_is_found_by_inode() {
        let table = "1: POSIX  ADVISORY  WRITE 411 fd:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 fd:01:7 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4712 fd:01:8 0 EOF\n";
        assert_eq!(holder(table, 7), Some(4711));
        assert_eq!((holder(table, 8), holder(table, 9), holder("nonsense", 7)), (None, None, None));
    }

    #[test]
    fn process_that_holds_a_lock_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find(dir.path()), None);
        let file = fs::File::create(dir.path().join(LOCK_NAME)).unwrap();
        file.try_lock().unwrap();
        assert_eq!(find(dir.path()), Some(ProcessName::of_pid(std::process::id())));
    }
}
