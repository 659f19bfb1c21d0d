//! Tables of results, with the measurements behind them.

use super::goal::Goal;
use ox_bench::report::BUSY_CPUS;
use ox_bench::results::RunResults;
use ox_bench::statistics::{Statistics, short};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// One result of both servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) section: String,
    pub(crate) name: String,
    pub(crate) unit: String,
    /// Rounds per server and workload of the run that measured this row.
    pub(crate) rounds: u32,
    pub(crate) round_seconds: f64,
    /// Every measurement of our server.
    pub(crate) ours: Vec<f64>,
    /// Every measurement of the baseline.
    pub(crate) baseline: Vec<f64>,
    pub(crate) goal: Goal,
}

/// All measurements of a comparison, of one run or of several that measured different sections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PerfReport {
    /// Names of our server and of the baseline.
    pub(crate) servers: [String; 2],
    /// Cores of the machine, shared by server and load generator.
    pub(crate) cores: usize,
    pub(crate) rows: Vec<Row>,
    /// Sections and workloads that failed, with the error.
    pub(crate) failures: Vec<String>,
    /// Complete results of every round, by workload: ours, then the baseline's.
    pub(crate) raw: BTreeMap<String, [Vec<RunResults>; 2]>,
}

impl PerfReport {
    pub(crate) fn new(servers: [String; 2]) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        Self { servers, cores, rows: Vec::new(), failures: Vec::new(), raw: BTreeMap::new() }
    }

    /// Adds the results of an earlier report for sections and workloads that this one has not measured.
    pub(crate) fn keep_unmeasured(&mut self, before: &Self) {
        let measured: BTreeSet<String> = self.rows.iter().map(|row| row.section.clone()).collect();
        self.rows.extend(before.rows.iter().filter(|row| !measured.contains(&row.section)).cloned());
        for (workload, rounds) in &before.raw {
            self.raw.entry(workload.clone()).or_insert_with(|| rounds.clone());
        }
    }

    /// Cores kept busy by other processes during the rounds.
    pub(crate) fn others_cpus(&self) -> Option<Statistics> {
        Statistics::of(&self.raw.values().flatten().flatten().map(RunResults::others_cpus).collect::<Vec<_>>())
    }

    /// One table per section: medians, extremes, ratio, goal.
    pub(crate) fn markdown(&self) -> String {
        let [ours, baseline] = &self.servers;
        let mut out = format!(
            "{ours} and {baseline} run alternately on one machine. Server and load generator share its {} cores.\n\
             The values are medians, with the lowest and the highest value in brackets.\n",
            self.cores
        );
        if let Some(others) = self.others_cpus() {
            let verdict = if others.median < BUSY_CPUS { "" } else { ", so these results are provisional" };
            let _ = writeln!(
                out,
                "Other processes used {} ({} - {}) cores during the rounds{verdict}.",
                short(others.median),
                short(others.low),
                short(others.high)
            );
        }
        let mut section = "";
        for row in &self.rows {
            if section != row.section {
                section = &row.section;
                let _ = write!(
                    out,
                    "\n### {section}\n\nMeasured with {} rounds of {} s.\n\n| workload | unit | {ours} | {baseline} | ratio | goal | met |\n|---|---|---|---|---|---|---|\n",
                    row.rounds, row.round_seconds
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
    pub(crate) fn summaries(&self) -> Option<(Statistics, Statistics)> {
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

    fn row(section: &str, name: &str, ours: &[f64], baseline: &[f64], goal: Goal) -> Row {
        let (section, name, unit) = (section.into(), name.into(), "per CPU s".into());
        Row { section, name, unit, rounds: 2, round_seconds: 5.0, ours: ours.into(), baseline: baseline.into(), goal }
    }

    #[test]
    fn rows_are_formatted_as_tables() {
        let mut report = PerfReport::new(["Ours".into(), "Theirs".into()]);
        report.cores = 2;
        report.rows.push(row("Requests", "get", &[160e3, 150e3], &[50e3], Goal::Times(3.0)));
        report.rows.push(row("Requests", "set", &[2.0], &[], Goal::None));
        report.rows.push(row("Start", "empty", &[0.5], &[0.7], Goal::OneIn(20.0)));
        report.failures.push("Memory: server died\nhint: x".into());
        let expected = "\
Ours and Theirs run alternately on one machine. Server and load generator share its 2 cores.
The values are medians, with the lowest and the highest value in brackets.

### Requests

Measured with 2 rounds of 5 s.

| workload | unit | Ours | Theirs | ratio | goal | met |
|---|---|---|---|---|---|---|
| get | per CPU s | 155k (150k - 160k) | 50k | 3.1 | 3 x | yes |
| set | per CPU s | 2 | - | - |  |  |

### Start

Measured with 2 rounds of 5 s.

| workload | unit | Ours | Theirs | ratio | goal | met |
|---|---|---|---|---|---|---|
| empty | per CPU s | 0.5 | 0.7 | 0.71 | 1/20 | no |

Not measured: Memory: server died
";
        assert_eq!(report.markdown(), expected);
    }

    #[test]
    fn rows_of_unmeasured_sections_are_kept() {
        let report = |rows: &[(&str, f64)]| {
            let mut report = PerfReport::new(["Ours".into(), "Theirs".into()]);
            report.rows.extend(rows.iter().map(|(section, value)| row(section, "x", &[*value], &[], Goal::None)));
            report
        };
        let mut new = report(&[("B", 2.0)]);
        new.raw.insert("y".into(), [Vec::new(), Vec::new()]);
        let mut old = report(&[("A", 1.0), ("B", 1.0)]);
        old.raw.insert("x".into(), [Vec::new(), Vec::new()]);
        new.keep_unmeasured(&old);
        let rows: Vec<_> = new.rows.iter().map(|row| (row.section.as_str(), row.ours[0])).collect();
        assert_eq!(rows, [("B", 2.0), ("A", 1.0)]);
        assert!(new.raw.keys().eq(["x", "y"]));
    }
}
