//! CPU time and memory of processes, from `/proc`.

use anyhow::{Context, Result, anyhow};
use std::fs;

/// Clock ticks per second in `/proc/PID/stat`: 100 on every architecture, as Linux reports it to user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time and memory of a process at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessUsage {
    /// User and system time of all threads, including those that ended.
    pub cpu_seconds: f64,
    pub rss_bytes: u64,
}

pub fn usage(pid: u32) -> Result<ProcessUsage> {
    read(&pid.to_string())
        .map_err(|cause| anyhow!("cannot read the usage of process {pid}: {cause:#}\nhint: is it still running?"))
}

/// Total usage of several processes; `None` if there are none.
pub fn usage_of_all(pids: &[u32]) -> Result<Option<ProcessUsage>> {
    let mut all: Option<ProcessUsage> = None;
    for pid in pids {
        let ProcessUsage { cpu_seconds, rss_bytes } = usage(*pid)?;
        let sum = all.get_or_insert(ProcessUsage { cpu_seconds: 0.0, rss_bytes: 0 });
        sum.cpu_seconds += cpu_seconds;
        sum.rss_bytes += rss_bytes;
    }
    Ok(all)
}

pub fn own_usage() -> Result<ProcessUsage> {
    read("self")
}

/// CPU time of all processes of the machine, without interrupts.
pub fn machine_cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
    machine_seconds(&stat).context("unknown form of /proc/stat")
}

/// The first line is `cpu USER NICE SYSTEM IDLE ..`.
fn machine_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()? + next()?) / TICKS_PER_SECOND)
}

fn read(pid: &str) -> Result<ProcessUsage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(ProcessUsage {
        cpu_seconds: cpu_seconds(&stat).context("unknown form of /proc/PID/stat")?,
        rss_bytes: rss_bytes(&status).context("no VmRSS in /proc/PID/status")?,
    })
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?; // the name in parentheses may contain anything
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

fn rss_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_after_any_name() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(machine_seconds("cpu  100 20 30 4000 5\ncpu0 1 2 3 4"), Some(1.5));
        assert_eq!(rss_bytes("VmPeak:\t 9 kB\nVmRSS:\t  12 kB\n"), Some(12 * 1024));
    }

    #[test]
    fn own_usage_is_positive() {
        assert!(0 < usage(std::process::id()).unwrap().rss_bytes);
        let error = format!("{:#}", usage(u32::MAX).unwrap_err());
        assert!(error.starts_with("cannot read the usage of process 4294967295: No such file"), "{error}");
        assert!(error.ends_with("\nhint: is it still running?"), "{error}");
    }
}
