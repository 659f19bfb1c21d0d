//! Tables of results, with the measurements behind them.

use crate::perf::goal::Goal;
use crate::report::BUSY_CPUS;
use crate::results::RunResults;
use crate::statistics::{Statistics, short};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// One result of both servers.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub section: &'static str,
    pub name: String,
    pub unit: &'static str,
    /// Every measurement of our server.
    pub ours: Vec<f64>,
    /// Every measurement of the baseline.
    pub baseline: Vec<f64>,
    pub goal: Goal,
}

/// All measurements of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct PerfReport {
    /// Names of our server and of the baseline.
    pub servers: [String; 2],
    /// Cores of the machine, shared by server and load generator.
    pub cores: usize,
    /// Rounds per server and workload.
    pub rounds: u32,
    pub round_seconds: f64,
    pub rows: Vec<Row>,
    /// Sections and workloads that failed, with the error.
    pub failures: Vec<String>,
    /// Complete results of every round, by workload: ours, then the baseline's.
    pub raw: BTreeMap<String, [Vec<RunResults>; 2]>,
}

impl PerfReport {
    pub fn new(servers: [String; 2], rounds: u32, round: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let round_seconds = round.as_secs_f64();
        Self { servers, cores, rounds, round_seconds, rows: Vec::new(), failures: Vec::new(), raw: BTreeMap::new() }
    }

    /// Cores kept busy by other processes during the rounds.
    pub fn others_cpus(&self) -> Option<Statistics> {
        Statistics::of(&self.raw.values().flatten().flatten().map(RunResults::others_cpus).collect::<Vec<_>>())
    }

    /// One table per section: medians, extremes, ratio, goal.
    pub fn markdown(&self) -> String {
        let [ours, baseline] = &self.servers;
        let mut out = format!(
            "{ours} and {baseline} in turn on one machine with {} cores, which server and generator share.\n\
             {} rounds of {} s each; median (lowest - highest).\n",
            self.cores, self.rounds, self.round_seconds
        );
        if let Some(others) = self.others_cpus() {
            let verdict = if others.median < BUSY_CPUS { "" } else { ", so these figures are provisional" };
            let _ = writeln!(
                out,
                "Other processes kept {} ({} - {}) cores busy meanwhile{verdict}.",
                short(others.median),
                short(others.low),
                short(others.high)
            );
        }
        let mut section = "";
        for row in &self.rows {
            if section != row.section {
                section = row.section;
                let _ = write!(
                    out,
                    "\n### {section}\n\n| workload | unit | {ours} | {baseline} | ratio | goal | met |\n|---|---|---|---|---|---|---|\n"
                );
            }
            let _ = writeln!(out, "{}", row.markdown());
        }
        for failure in &self.failures {
            let _ = write!(out, "\nNot measured: {}\n", failure.lines().next().unwrap_or_default());
        }
        out
    }
}

impl Row {
    /// Medians of ours and of the baseline.
    pub fn summaries(&self) -> Option<(Statistics, Statistics)> {
        Some((Statistics::of(&self.ours)?, Statistics::of(&self.baseline)?))
    }

    fn markdown(&self) -> String {
        let cell = |summary: Option<Statistics>| {
            summary.map_or("-".into(), |Statistics { median, low, high }| {
                if low < high { format!("{} ({} - {})", short(median), short(low), short(high)) } else { short(median) }
            })
        };
        let (ratio, met) = match self.summaries() {
            None => ("-".into(), ""),
            Some((ours, baseline)) => (
                short(ours.median / baseline.median),
                match self.goal.is_met(&ours, &baseline) {
                    None => "",
                    Some(true) => "yes",
                    Some(false) => "no",
                },
            ),
        };
        format!(
            "| {} | {} | {} | {} | {ratio} | {} | {met} |",
            self.name,
            self.unit,
            cell(Statistics::of(&self.ours)),
            cell(Statistics::of(&self.baseline)),
            self.goal.text()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_formatted_as_tables() {
        let mut report = PerfReport::new(["Ours".into(), "Theirs".into()], 2, Duration::from_secs(5));
        report.cores = 2;
        let row = |section, name: &str, ours, baseline, goal| Row {
            section,
            name: name.into(),
            unit: "per CPU s",
            ours,
            baseline,
            goal,
        };
        report.rows.push(row("Requests", "get", vec![160e3, 150e3], vec![50e3], Goal::Times(3.0)));
        report.rows.push(row("Requests", "set", vec![2.0], vec![], Goal::None));
        report.rows.push(row("Start", "empty", vec![0.5], vec![0.7], Goal::OneIn(20.0)));
        report.failures.push("Memory: server died\nhint: x".into());
        let expected = "\
Ours and Theirs in turn on one machine with 2 cores, which server and generator share.
2 rounds of 5 s each; median (lowest - highest).

### Requests

| workload | unit | Ours | Theirs | ratio | goal | met |
|---|---|---|---|---|---|---|
| get | per CPU s | 155k (150k - 160k) | 50k | 3.1 | 3 x | yes |
| set | per CPU s | 2 | - | - |  |  |

### Start

| workload | unit | Ours | Theirs | ratio | goal | met |
|---|---|---|---|---|---|---|
| empty | per CPU s | 0.5 | 0.7 | 0.71 | 1/20 | no |

Not measured: Memory: server died
";
        assert_eq!(report.markdown(), expected);
    }
}
