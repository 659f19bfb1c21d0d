//! Properties of the process and the machine, from Linux's files. Where these are missing, the result is unknown.

use std::fs;

/// Memory of the process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// What the process may use: the container's limit, or the memory of the machine.
    pub(crate) limit: u64,
    /// Resident set size of the process.
    pub(crate) used: u64,
}

pub(crate) fn memory() -> Option<Memory> {
    let all = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    let used = kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")?;
    Some(Memory { limit: container_limit().map_or(all, |limit| limit.min(all)), used })
}

/// The smallest limit of the process's control groups: version 2, each group inside its parent, or version 1.
fn container_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = group_files(&groups);
    files.iter().filter_map(|file| line(file)?.parse().ok()).min()
}

/// Files that may contain a limit, by the lines `ID:CONTROLLERS:PATH` of `/proc/self/cgroup`.
fn group_files(groups: &str) -> Vec<String> {
    let mut files = vec!["/sys/fs/cgroup/memory.max".to_owned(), V1_LIMIT.to_owned()];
    for group in groups.lines() {
        let mut fields = group.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let ends = path.char_indices().filter(|(at, c)| *c == '/' && 0 < *at).map(|(at, _)| at);
        let parents = ends.chain([path.len()]).map(|end| &path[..end]).filter(|path| *path != "/");
        files.extend(parents.map(|path| format!("{mount}{path}/{file}")));
    }
    files
}

const V1_LIMIT: &str = "/sys/fs/cgroup/memory/memory.limit_in_bytes";

pub fn host_name() -> Option<String> {
    line("/proc/sys/kernel/hostname").or_else(|| std::env::var("HOSTNAME").ok())
}

/// The user that the process runs as.
pub(crate) fn user_name() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let id = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?;
    user_of(&fs::read_to_string("/etc/passwd").ok()?, id)
}

/// The name of user `id`, from lines `name:password:id:..`.
fn user_of(passwd: &str, id: &str) -> Option<String> {
    let mut users = passwd.lines().map(|line| line.split(':'));
    users
        .find_map(|mut fields| Some((fields.next()?, fields.nth(1)?)).filter(|(_, found)| *found == id))
        .map(|(name, _)| name.to_owned())
}

pub(crate) fn kernel() -> Option<String> {
    line("/proc/sys/kernel/osrelease")
}

/// Open files and sockets of this process.
pub(crate) fn open_files() -> Option<u64> {
    // Since Linux 6.2 the size of the directory is their number, which costs less than reading ten thousand entries.
    if let Some(count) = fs::metadata("/proc/self/fd").ok().map(|found| found.len()).filter(|count| 0 < *count) {
        return Some(count);
    }
    // The directory being read is one of them.
    Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// CPU time and start of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProcessTimes {
    pub(crate) cpu_seconds: f64,
    /// Seconds since 1970, UTC.
    pub(crate) start_seconds: f64,
}

/// The kernel counts times of processes in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

pub(crate) fn process_times() -> Option<ProcessTimes> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<f64>().ok()?;
    let (cpu_ticks, start_ticks) = ticks(&stat)?;
    let (cpu_seconds, start_seconds) = (cpu_ticks / TICKS_PER_SECOND, boot + start_ticks / TICKS_PER_SECOND);
    Some(ProcessTimes { cpu_seconds, start_seconds })
}

/// CPU time and start since boot, from the line of `/proc/self/stat`.
fn ticks(stat: &str) -> Option<(f64, f64)> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((number(11)? + number(12)?, number(19)?))
}

/// Virtual memory of this process, in bytes.
pub(crate) fn virtual_memory() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmSize:")
}

/// Threads of this process.
pub(crate) fn threads() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

/// The limit of open files and sockets.
pub fn open_files_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The value of a line such as `VmRSS:    1234 kB`, in bytes.
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
    fn limits_of_all_enclosing_control_groups_count() {
        let files = |groups| group_files(groups).split_off(2);
        assert_eq!(files("0::/\n"), Vec::<String>::new());
        let expected = ["/sys/fs/cgroup/system.slice/memory.max", "/sys/fs/cgroup/system.slice/zk.service/memory.max"];
        assert_eq!(files("0::/system.slice/zk.service\n"), expected);
        let version_1 = "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n";
        let expected = [
            "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes",
        ];
        assert_eq!(files(version_1), expected);
    }

    #[test]
    fn times_of_the_process_are_parsed() {
        let stat = "7 (io (0) x) S 1 2 3 4 5 6 7 8 9 10 21 4 0 0 20 0 9 0 1234 5 6";
        assert_eq!(ticks(stat), Some((25.0, 1234.0)));
    }

    #[test]
    fn user_names_and_sizes_are_parsed() {
        assert_eq!(user_of("root:x:0:0::/root:\nzk:x:10:10:::\n", "10").as_deref(), Some("zk"));
        assert_eq!(kilobytes("VmPeak:\t 5 kB\nVmRSS:\t   1234 kB\n", "VmRSS:"), Some(1234 << 10));
    }
}
