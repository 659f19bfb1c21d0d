//! Results in words. Numbers go to stdout; with `--json` nothing but JSON does.

use crate::compare::Compared;
use crate::failure::code_text;
use crate::fill::FillFigures;
use crate::flood::FloodFigures;
use crate::idle::IdleFigures;
use crate::job::Job;
use crate::memory::Growth;
use crate::operation::Workload;
use crate::results::{Figures, Latency};
use crate::statistics::{Summary, short};
use std::fmt::Write;

/// With more than this the figures of a run say little.
pub const BUSY_CPUS: f64 = 0.2;

/// One line that says what is measured.
pub fn describe(job: &Job) -> String {
    let Job { workload, connections, depth, shape, .. } = job;
    let rate = job.rate.map_or(String::new(), |rate| format!(", {} per second", short(rate)));
    match workload {
        Workload::Session => format!("session: {connections} at a time"),
        Workload::Notify => format!("notify: {connections} watchers of one node"),
        Workload::Mix(mix) => format!(
            "{mix}: {connections} connections, depth {depth}{rate}, {} keys of {} B below {} parents",
            shape.keys, shape.data_bytes, shape.parents
        ),
    }
}

/// The figures of one run.
pub fn figures(figures: &Figures) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<12} {text}");
    };
    line(
        "throughput",
        format!("{} per second ({} in {:.1} s)", short(figures.per_second), figures.operations, figures.seconds),
    );
    line("latency", latency(&figures.latency_us));
    for (operation, part) in &figures.by_operation {
        let rate = short(part.operations as f64 / figures.seconds);
        line(&format!("  {operation}"), format!("{}   {rate} per second", latency(&part.latency_us)));
    }
    if let Some(cost) = &figures.server {
        line(
            "server",
            format!(
                "{} per CPU second, {:.2} us CPU each, {:.2} CPUs busy, RSS {:.1} MB",
                short(cost.per_cpu_second),
                cost.cpu_us_per_operation,
                cost.cpu_seconds / figures.seconds,
                cost.rss_bytes as f64 / 1e6
            ),
        );
    }
    let others = figures.others_cpus();
    let warning = if others < BUSY_CPUS { "" } else { ": the machine is too busy for figures to trust" };
    line("generator", format!("{:.2} CPUs busy", figures.client_cpu_seconds / figures.seconds));
    line("others", format!("{others:.2} CPUs busy{warning}"));
    if figures.errors.is_empty() {
        line("errors", "none".into());
    }
    for (code, count) in &figures.errors {
        line("errors", format!("{count} x {}", code_text(*code)));
    }
    out
}

/// A table of two servers.
pub fn compared(compared: &Compared) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{:<22} {:>9} {:>7}   {:>9} {:>7}   {:>7}", "figure", "A", "spread", "B", "spread", "A / B");
    let cells = |summary: &Summary| format!("{:>9} {:>6.0}%", short(summary.median), summary.spread_percent());
    for row in &compared.comparisons {
        let _ = writeln!(out, "{:<22} {}   {}   {:>7}", row.figure, cells(&row.a), cells(&row.b), short(row.ratio));
    }
    if let Some(others) = compared.others_cpus().filter(|others| BUSY_CPUS <= *others) {
        let _ = writeln!(out, "others kept {others:.2} CPUs busy: too many for figures to trust");
    }
    for (name, rounds) in [("A", &compared.rounds_a), ("B", &compared.rounds_b)] {
        let errors: u64 = rounds.iter().map(Figures::error_count).sum();
        if 0 < errors {
            let _ = writeln!(out, "errors of {name}: {errors}");
        }
    }
    out
}

/// What a fill cost.
pub fn fill(figures: &FillFigures) -> String {
    let FillFigures { nodes, seconds, per_second, per_node } = figures;
    let mut out = format!("{nodes} nodes in {seconds:.1} s, {} per second\n", short(*per_second));
    if let Some(growth) = per_node {
        let _ = writeln!(out, "per node     {}", growth_text(growth));
    }
    out
}

/// What idle sessions and watches cost.
pub fn idle(figures: &IdleFigures) -> String {
    let mut out = format!("per session  {} ({} sessions)\n", growth_text(&figures.per_session), figures.sessions);
    if let Some(growth) = &figures.per_watch {
        let _ = writeln!(out, "per watch    {} ({} watches)", growth_text(growth), figures.watches);
    }
    out
}

/// What a flood cost.
pub fn flood(figures: &FloodFigures) -> String {
    let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let FloodFigures { before_bytes, peak_bytes, after_bytes, sent_bytes, closed, .. } = figures;
    let [before, peak, after, sent] = [before_bytes, peak_bytes, after_bytes, sent_bytes].map(|b| megabytes(*b));
    let latencies = [figures.probe_p50_us, figures.probe_p99_us, figures.probe_max_us].map(|us| duration(us as f64));
    let [p50, p99, max] = latencies;
    format!(
        "RSS          before {before:.0} MiB, peak {peak:.0} MiB, after the rest {after:.0} MiB\n\
         sent         {sent:.0} MiB, {closed} connections closed by the server\n\
         other client {} requests, p50 {p50}, p99 {p99}, max {max}, {} failures\n",
        figures.probes, figures.probe_failures
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
    use crate::counters::Tally;
    use crate::operation::Operation;
    use crate::process::Usage;
    use crate::results::Window;

    #[test]
    fn a_run_is_told_in_a_few_lines() {
        let mut tally = Tally::default();
        tally.record(Operation::Get, 200_000, 900);
        tally.record(Operation::Set, 3_000_000, 100);
        tally.record_error(-101);
        let usage = |cpu_seconds| Usage { cpu_seconds, rss_bytes: 50_000_000 };
        let window = Window {
            seconds: 2.0,
            server: Some((usage(1.0), usage(1.5))),
            client_cpu_seconds: 0.1,
            machine_cpu_seconds: 0.7,
        };
        let text = super::figures(&Figures::new(&tally, window));
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
}
