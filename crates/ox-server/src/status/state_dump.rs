//! The state of a server, for operators who send it a signal.

use crate::shared::Shared;
use crate::status::server_mode::ServerMode;
use std::sync::atomic::Ordering::Relaxed;

/// Logs threads and statistics, at the level warn: an operator has asked for them. Threads come first: the rest waits
/// for the replica and its lock, which may be what hangs.
pub(crate) fn log(shared: &Shared) {
    for ThreadState { name, state, cpu_ms } in threads() {
        tracing::warn!(name, state, cpu_ms, "state of a thread");
    }
    let mode = ServerMode::query(shared).map_or("not serving", ServerMode::name);
    let (zxid, nodes) = {
        let state = shared.state.read();
        (state.last_zxid(), state.node_count())
    };
    let (stats, connections) = (&shared.stats, shared.connections.len());
    tracing::warn!(
        mode,
        %zxid,
        nodes,
        connections,
        received = stats.received.get(),
        sent = stats.sent.get(),
        outstanding = stats.outstanding.load(Relaxed),
        latency_max_ms = stats.latency.totals().max,
        "state of the server"
    );
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ThreadState {
    name: String,
    state: String,
    cpu_ms: u64,
}

/// Name, state and CPU time of each thread; empty where the system has no `/proc`.
fn threads() -> Vec<ThreadState> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let mut threads: Vec<ThreadState> = tasks
        .filter_map(|task| {
            let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            thread_state(&stat)
        })
        .collect();
    threads.sort();
    threads
}

/// The state of a thread, from its `stat` file.
fn thread_state(stat: &str) -> Option<ThreadState> {
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
    Some(ThreadState { name: name.to_owned(), state: state.to_owned(), cpu_ms: ticks * MS_PER_TICK })
}

/// The kernel counts CPU time in hundredths of a second.
const MS_PER_TICK: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_state_has_name_state_and_cpu_time() {
        let stat = "7 (io (0) x) S 1 2 3 4 5 6 7 8 9 10 21 4 0 0 20 0 9";
        let expected = ThreadState { name: "io (0) x".to_owned(), state: "waiting".to_owned(), cpu_ms: 250 };
        assert_eq!(thread_state(stat), Some(expected));
        assert_eq!(thread_state("7 io"), None);
    }
}
