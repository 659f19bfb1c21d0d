//! The state of a server, for operators who send it a signal.

use crate::four_letter::srvr;
use crate::server_mode::ServerMode;
use crate::shared::Shared;

/// Logs threads and statistics, one line each. Threads come first: the rest waits for the replica and its lock, which
/// may be what hangs.
pub(crate) fn log(shared: &Shared) {
    for line in threads() {
        tracing::info!("state: {line}");
    }
    let text = match ServerMode::query(shared) {
        Some(mode) => srvr(shared, mode),
        None => format!("Mode: not serving\nZxid: {}\n", shared.state.read().last_zxid()),
    };
    for line in text.lines() {
        tracing::info!("state: {line}");
    }
}

/// Name, state and CPU time of each thread; empty where the system has no `/proc`.
fn threads() -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let mut lines: Vec<String> = tasks
        .filter_map(|task| {
            let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            thread_line(&stat)
        })
        .collect();
    lines.sort();
    lines
}

/// The line of a thread, from its `stat` file.
fn thread_line(stat: &str) -> Option<String> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks: u64 = fields.get(11..13)?.iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    let state = match *fields.first()? {
        "R" => "running",
        "S" => "waiting",
        "D" => "waiting for the disk",
        "T" | "t" => "stopped",
        other => other,
    };
    Some(format!("thread {name}: {state}, CPU time {} ms", ticks * MS_PER_TICK))
}

/// The kernel counts CPU time in hundredths of a second.
const MS_PER_TICK: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_line_has_name_state_and_cpu_time() {
        let stat = "7 (io (0) x) S 1 2 3 4 5 6 7 8 9 10 21 4 0 0 20 0 9";
        assert_eq!(thread_line(stat).unwrap(), "thread io (0) x: waiting, CPU time 250 ms");
        assert_eq!(thread_line("7 io"), None);
    }
}
