//! Formats results as text. Results go to stdout; with `--json` only JSON does.

use crate::compare::Compared;
use crate::failure::code_text;
use crate::fill::FillResults;
use crate::flood::FloodResults;
use crate::idle::IdleResults;
use crate::job::Job;
use crate::memory::Growth;
use crate::operation::Workload;
use crate::results::{Latency, RunResults};
use crate::statistics::{Statistics, short};
use std::fmt::Write;

/// With more busy CPUs than this the results of a run are unreliable.
pub const BUSY_CPUS: f64 = 0.2;

/// One line that describes the measurement.
pub fn describe(job: &Job) -> String {
    let Job { workload, connections, depth, layout, .. } = job;
    let rate = job.rate.map_or(String::new(), |rate| format!(", {} per second", short(rate)));
    match workload {
        Workload::Session => format!("session: {connections} at a time"),
        Workload::Notify => format!("notify: {connections} watchers of one node"),
        Workload::Mix(mix) => format!(
            "{mix}: {connections} connections, depth {depth}{rate}, {} keys of {} B below {} parents",
            layout.keys, layout.data_bytes, layout.parents
        ),
    }
}

/// The results of one run.
pub fn results(results: &RunResults) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<12} {text}");
    };
    if results.interrupted {
        line("interrupted", format!("after {:.1} s of the measurement", results.seconds));
    }
    line(
        "throughput",
        format!("{} per second ({} in {:.1} s)", short(results.per_second), results.operations, results.seconds),
    );
    line("latency", latency(&results.latency_us));
    for (operation, part) in &results.by_operation {
        let rate = short(part.operations as f64 / results.seconds);
        line(&format!("  {operation}"), format!("{}   {rate} per second", latency(&part.latency_us)));
    }
    if results.server.is_some_and(|cost| cost.cpu_seconds <= 0.0) {
        line("server", "used no CPU time: does --pid name its process?".into());
    } else if let Some(cost) = &results.server {
        line(
            "server",
            format!(
                "{} per CPU second, {:.2} us CPU each, {:.2} CPUs busy, RSS {:.1} MB",
                short(cost.per_cpu_second),
                cost.cpu_us_per_operation,
                cost.cpu_seconds / results.seconds,
                cost.rss_bytes as f64 / 1e6
            ),
        );
    }
    let others = results.others_cpus();
    let warning = match results.server {
        None => ", a server on this machine included; --pid separates it",
        Some(_) if BUSY_CPUS <= others => ": the machine is too busy for reliable results",
        Some(_) => "",
    };
    line("generator", format!("{:.2} CPUs busy", results.client_cpu_seconds / results.seconds));
    line("others", format!("{others:.2} CPUs busy{warning}"));
    if results.errors.is_empty() {
        line("errors", "none".into());
    }
    for (code, count) in &results.errors {
        line("errors", format!("{count} x {}", code_text(*code)));
    }
    out
}

/// A table of two servers.
pub fn compared(compared: &Compared) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{:<22} {:>9} {:>7}   {:>9} {:>7}   {:>7}", "figure", "A", "spread", "B", "spread", "A / B");
    let cells = |summary: &Statistics| format!("{:>9} {:>6.0}%", short(summary.median), summary.spread_percent());
    for row in &compared.comparisons {
        let _ = writeln!(out, "{:<22} {}   {}   {:>7}", row.figure, cells(&row.a), cells(&row.b), short(row.ratio));
    }
    if compared.interrupted {
        let _ = writeln!(out, "interrupted after {} complete rounds", compared.rounds_b.len());
    }
    let knows_servers = compared.rounds_a.iter().chain(&compared.rounds_b).all(|round| round.server.is_some());
    if let Some(others) = compared.others_cpus().filter(|others| knows_servers && BUSY_CPUS <= *others) {
        let _ = writeln!(out, "others kept {others:.2} CPUs busy: too many for reliable results");
    }
    for (name, rounds) in [("A", &compared.rounds_a), ("B", &compared.rounds_b)] {
        let errors: u64 = rounds.iter().map(RunResults::error_count).sum();
        if 0 < errors {
            let _ = writeln!(out, "errors of {name}: {errors}");
        }
    }
    out
}

pub fn fill(results: &FillResults) -> String {
    let FillResults { nodes, seconds, per_second, per_node } = results;
    let mut out = format!("{nodes} nodes in {seconds:.1} s, {} per second\n", short(*per_second));
    if let Some(growth) = per_node {
        let _ = writeln!(out, "per node     {}", growth_text(growth));
    }
    out
}

/// The cost of idle sessions and watches.
pub fn idle(results: &IdleResults) -> String {
    let mut out = format!("per session  {} ({} sessions)\n", growth_text(&results.per_session), results.sessions);
    if let Some(growth) = &results.per_watch {
        let _ = writeln!(out, "per watch    {} ({} watches)", growth_text(growth), results.watches);
    }
    out
}

pub fn flood(results: &FloodResults) -> String {
    let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let FloodResults { before_bytes, peak_bytes, after_bytes, sent_bytes, closed, .. } = results;
    let [before, peak, after, sent] = [before_bytes, peak_bytes, after_bytes, sent_bytes].map(|b| megabytes(*b));
    let latencies = [results.probe_p50_us, results.probe_p99_us, results.probe_max_us].map(|us| duration(us as f64));
    let [p50, p99, max] = latencies;
    format!(
        "RSS          before {before:.0} MiB, peak {peak:.0} MiB, after the rest {after:.0} MiB\n\
         sent         {sent:.0} MiB, {closed} connections closed by the server\n\
         other client {} requests, p50 {p50}, p99 {p99}, max {max}, {} failures\n",
        results.probes, results.probe_failures
    )
}

fn growth_text(growth: &Growth) -> String {
    let heap = growth.heap_bytes.map_or(String::new(), |heap| format!(", {heap:.0} B of Java heap"));
    format!("{:.0} B of RSS{heap}", growth.rss_bytes)
}

fn latency(latency: &Latency) -> String {
    let Latency { p50, p90, p99, p999, max } = latency;
    let [p50, p90, p99, p999, max] = [p50, p90, p99, p999, max].map(|us| duration(*us));
    format!("p50 {p50:>8}  p90 {p90:>8}  p99 {p99:>8}  p99.9 {p999:>8}  max {max:>8}")
}

fn duration(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} us"),
        us if us < 1_000_000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::operation::Operation;
    use crate::process::ProcessUsage;
    use crate::results::Window;

    #[test]
    fn run_is_reported_in_few_lines() {
        let mut counters = Counters::default();
        counters.record(Operation::Get, 200_000, 900);
        counters.record(Operation::Set, 3_000_000, 100);
        counters.record_error(-101);
        let usage = |cpu_seconds| ProcessUsage { cpu_seconds, rss_bytes: 50_000_000 };
        let window = Window {
            seconds: 2.0,
            server: Some((usage(1.0), usage(1.5))),
            client_cpu_seconds: 0.1,
            machine_cpu_seconds: 0.7,
        };
        let text = super::results(&RunResults::new(&counters, window));
        let expected = "\
throughput   500 per second (1000 in 2.0 s)
latency      p50   200 us  p90   200 us  p99  3.00 ms  p99.9  3.00 ms  max  3.00 ms
  get        p50   200 us  p90   200 us  p99   200 us  p99.9   200 us  max   200 us   450 per second
  set        p50  3.00 ms  p90  3.00 ms  p99  3.00 ms  p99.9  3.00 ms  max  3.00 ms   50 per second
server       2000 per CPU second, 500.00 us CPU each, 0.25 CPUs busy, RSS 50.0 MB
generator    0.05 CPUs busy
others       0.05 CPUs busy
errors       1 x no such node (-101)
";
        assert_eq!(text, expected);
    }

    /// Without the process of the server, its CPU time cannot be told from that of others.
    #[test]
    fn unknown_server_counts_among_others_without_a_warning() {
        let usage = ProcessUsage { cpu_seconds: 1.0, rss_bytes: 50_000_000 };
        let report = |server| {
            let window = Window { seconds: 1.0, server, client_cpu_seconds: 0.0, machine_cpu_seconds: 1.0 };
            super::results(&RunResults::new(&Counters::default(), window))
        };
        let unknown = report(None);
        assert!(
            unknown.contains("\nothers       1.00 CPUs busy, a server on this machine included; --pid separates it\n")
        );
        let idle = report(Some((usage, usage)));
        assert!(idle.contains("\nserver       used no CPU time: does --pid name its process?\n"), "{idle}");
        assert!(
            idle.contains("\nothers       1.00 CPUs busy: the machine is too busy for reliable results\n"),
            "{idle}"
        );
    }
}
