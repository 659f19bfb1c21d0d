//! What the operating system says about this process and its machine. Linux tells it in files; where they are missing
//! the answer is unknown.

use std::fs;

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// What the process may use: the container's limit, or all there is.
    pub(crate) limit: u64,
    /// What it uses.
    pub(crate) used: u64,
}

pub(crate) fn memory() -> Option<Memory> {
    let all = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    let used = kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")?;
    let container = line("/sys/fs/cgroup/memory.max").and_then(|limit| limit.parse::<u64>().ok());
    Some(Memory { limit: container.map_or(all, |limit| limit.min(all)), used })
}

pub(crate) fn host_name() -> Option<String> {
    line("/proc/sys/kernel/hostname").or_else(|| std::env::var("HOSTNAME").ok())
}

/// Whose process this is.
pub(crate) fn user_name() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let id = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?;
    user_of(&fs::read_to_string("/etc/passwd").ok()?, id)
}

/// `name:password:id:..`
fn user_of(passwd: &str, id: &str) -> Option<String> {
    let mut users = passwd.lines().map(|line| line.split(':'));
    users
        .find_map(|mut fields| Some((fields.next()?, fields.nth(1)?)).filter(|(_, found)| *found == id))
        .map(|(name, _)| name.to_owned())
}

pub(crate) fn kernel() -> Option<String> {
    line("/proc/sys/kernel/osrelease")
}

/// Files and sockets this process has open.
pub(crate) fn open_files() -> Option<u64> {
    // The directory that is read is one of them.
    Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// Files and sockets it may have open.
pub(crate) fn open_files_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// `VmRSS:    1234 kB`, in bytes.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(rest.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_sizes() {
        assert_eq!(user_of("root:x:0:0::/root:\nzk:x:10:10:::\n", "10").as_deref(), Some("zk"));
        assert_eq!(kilobytes("VmPeak:\t 5 kB\nVmRSS:\t   1234 kB\n", "VmRSS:"), Some(1234 << 10));
    }
}
