//! All workloads of the performance goals, alternately on our server and a baseline.
//!
//! Each section starts its own servers, so that memory and start-up are measured on fresh processes and a failing
//! section loses only its own rows. The report is written after each section.

pub mod ensemble;
pub mod failover;
pub mod goal;
pub mod report;
pub mod sections;
pub mod server;
pub mod snapshot;

use crate::stop_flag::StopFlag;
use anyhow::{Context, Result};
use report::PerfReport;
use sections::{Sections, Stage};
use serde_json::Value;
use server::ServerCommand;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct PerfConfig {
    /// Our server, then the baseline it is compared with.
    pub servers: [ServerCommand; 2],
    /// Rounds per server and workload.
    pub rounds: u32,
    /// Length of a round.
    pub round: Duration,
    /// The largest tree; the growth rows go up to it in steps of ten from 1000.
    pub nodes_max: u32,
    /// Idle sessions whose memory is measured.
    pub idle_sessions: u32,
    /// Sections to run, all if empty; see [`Stage::name`].
    pub only: Vec<String>,
    /// Path of the page with the tables.
    pub markdown: PathBuf,
    /// Path of the file with all measurements.
    pub json: PathBuf,
}

impl PerfConfig {
    /// The complete list with the settings of the goals: 4 rounds of 5 s, a million nodes.
    pub fn new(servers: [ServerCommand; 2], markdown: PathBuf, json: PathBuf) -> Self {
        Self {
            servers,
            rounds: 4,
            round: Duration::from_secs(5),
            nodes_max: 1_000_000,
            idle_sessions: 5000,
            only: Vec::new(),
            markdown,
            json,
        }
    }
}

/// Runs the sections. The report lists sections that fail; it is an error only if there is no result at all.
pub fn perf(config: PerfConfig) -> Result<PerfReport> {
    let stop = StopFlag::on_signals()?;
    for name in &config.only {
        let known: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        anyhow::ensure!(known.contains(&name.as_str()), "unknown section '{name}'; known: {}", known.join(", "));
    }
    let names = [0, 1].map(|index: usize| config.servers[index].name.clone());
    let mut report = PerfReport::new(names, config.rounds, config.round);
    let wanted = |stage: &Stage| config.only.is_empty() || config.only.iter().any(|name| name == stage.name());
    for stage in Stage::ALL.iter().filter(|stage| wanted(stage)) {
        if stop.is_set() {
            report.failures.push("interrupted".into());
            break;
        }
        eprintln!("{}", stage.name());
        if let Err(error) = Sections::new(&config, &stop, &mut report).run(*stage) {
            eprintln!("{}: {error:#}", stage.name());
            report.failures.push(format!("{}: {error:#}", stage.name()));
        }
        config.servers.iter().try_for_each(ServerCommand::delete_data)?;
        write(&config, &report)?;
    }
    anyhow::ensure!(!report.rows.is_empty(), "nothing was measured: {}", report.failures.join("; "));
    Ok(report)
}

/// Markers around the tables in a page that has other content.
const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

fn write(config: &PerfConfig, report: &PerfReport) -> Result<()> {
    let save =
        |path: &PathBuf, text: String| fs::write(path, text).with_context(|| format!("write {}", path.display()));
    let page = fs::read_to_string(&config.markdown).unwrap_or_default();
    save(&config.markdown, put_into(&page, &report.markdown()))?;
    let before = fs::read_to_string(&config.json).ok().and_then(|text| serde_json::from_str(&text).ok());
    let all = keep_rows(serde_json::to_value(report)?, before.unwrap_or_default());
    save(&config.json, serde_json::to_string_pretty(&all)? + "\n")
}

/// Replaces the tables of a page; sections that were not measured stay, after the others.
fn put_into(page: &str, tables: &str) -> String {
    let parts = page.split_once(BEGIN).and_then(|(head, rest)| {
        let (old, tail) = rest.split_once(END)?;
        Some((head, old, tail))
    });
    let (head, old, tail) = parts.unwrap_or((page, "", ""));
    let mut out = format!("{head}{BEGIN}{tables}");
    for section in old.split("\n### ").skip(1) {
        let name = section.lines().next().unwrap_or_default();
        if !tables.contains(&format!("\n### {name}\n")) {
            out += &format!("\n### {}\n", section.trim_end());
        }
    }
    out + END + tail
}

/// Adds the results of the last report for sections and workloads that were not measured.
fn keep_rows(mut report: Value, before: Value) -> Value {
    let Value::Object(mut before) = before else { return report };
    let (rows, raw) = (before.remove("rows"), before.remove("raw"));
    if let (Some(Value::Array(old)), Some(rows)) = (rows, report["rows"].as_array_mut()) {
        let sections: BTreeSet<String> = rows.iter().map(|row| row["section"].to_string()).collect();
        rows.extend(old.into_iter().filter(|row| !sections.contains(&row["section"].to_string())));
    }
    if let (Some(Value::Object(old)), Some(raw)) = (raw, report["raw"].as_object_mut()) {
        for (name, rounds) in old {
            raw.entry(name).or_insert(rounds);
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_tables_of_page_are_replaced() {
        let page = put_into("# Title\n", "one\n");
        assert_eq!(page, format!("# Title\n{BEGIN}one\n{END}"));
        let page = put_into(&(page + "tail\n"), "two\n\n### B\n\n2\n");
        assert_eq!(page, format!("# Title\n{BEGIN}two\n\n### B\n\n2\n{END}tail\n"));
        let page = put_into(&page, "three\n\n### A\n\n3\n");
        assert_eq!(page, format!("# Title\n{BEGIN}three\n\n### A\n\n3\n\n### B\n\n2\n{END}tail\n"));
    }

    #[test]
    fn rows_of_other_sections_are_kept() {
        let old = json!({"rows": [{"section": "A", "n": 1}, {"section": "B", "n": 1}], "raw": {"x": 1, "y": 1}});
        let new = json!({"rows": [{"section": "B", "n": 2}], "raw": {"y": 2}});
        let all = json!({"rows": [{"section": "B", "n": 2}, {"section": "A", "n": 1}], "raw": {"x": 1, "y": 2}});
        assert_eq!(keep_rows(new, old), all);
    }
}
