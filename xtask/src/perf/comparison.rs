//! All workloads of the performance goals, alternately on our server and a baseline.
//!
//! Each section starts its own servers, so that memory and start-up are measured on fresh processes and a failing
//! section loses only its own rows. The report is written after each section.

use super::report::PerfReport;
use super::sections::{Sections, Stage};
use super::server::MeasuredProgram;
use crate::catch::catching;
use anyhow::{Context, Result};
use ox_bench::stop_flag::StopFlag;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct PerfConfig {
    /// Our server, then the baseline it is compared with.
    pub(crate) servers: [MeasuredProgram; 2],
    /// Rounds per server and workload.
    pub(crate) rounds: u32,
    /// Length of a round.
    pub(crate) round: Duration,
    /// The largest tree; the growth rows go up to it in steps of ten from 1000.
    pub(crate) nodes_max: u32,
    /// Idle sessions whose memory is measured.
    pub(crate) idle_sessions: u32,
    /// Sections to run, all if empty; see [`Stage::name`].
    pub(crate) only: Vec<String>,
    /// Path of the page with the tables.
    pub(crate) markdown: PathBuf,
    /// Path of the file with all measurements.
    pub(crate) json: PathBuf,
}

/// Runs the sections and returns their results together with the stored results of all other sections. The report lists
/// sections that fail; it is an error only if there is no result at all.
pub(crate) fn compare(config: &PerfConfig) -> Result<PerfReport> {
    let stop = StopFlag::on_signals()?;
    for name in &config.only {
        let known: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        anyhow::ensure!(known.contains(&name.as_str()), "unknown section '{name}'; known: {}", known.join(", "));
    }
    let stored = if config.json.exists() { Some(load(&config.json)?) } else { None };
    let mut report = PerfReport::new([0, 1].map(|index: usize| config.servers[index].program.name.clone()));
    let mut complete = report.clone();
    let wanted = |stage: &Stage| config.only.is_empty() || config.only.iter().any(|name| name == stage.name());
    for stage in Stage::ALL.iter().filter(|stage| wanted(stage)) {
        if stop.is_set() {
            report.failures.push("interrupted".into());
            break;
        }
        eprintln!("{}", stage.name());
        if let Err(error) = catching(|| Sections::new(config, &stop, &mut report).run(*stage)) {
            eprintln!("{}: {error:#}", stage.name());
            report.failures.push(format!("{}: {error:#}", stage.name()));
        }
        config.servers.iter().try_for_each(MeasuredProgram::delete_data)?;
        complete = report.clone();
        stored.iter().for_each(|stored| complete.keep_unmeasured(stored));
        write(&config.json, serde_json::to_string_pretty(&complete)? + "\n")?;
        write_tables(&config.markdown, &complete)?;
    }
    anyhow::ensure!(!report.rows.is_empty(), "nothing was measured: {}", report.failures.join("; "));
    Ok(complete)
}

/// Reads the measurements that [`compare`] has stored.
pub(crate) fn load(json: &Path) -> Result<PerfReport> {
    let text = fs::read_to_string(json).with_context(|| format!("read {}", json.display()))?;
    serde_json::from_str(&text).with_context(|| format!("parse {}", json.display()))
}

/// Replaces the tables of a page; creates the page if it does not exist.
pub(crate) fn write_tables(markdown: &Path, report: &PerfReport) -> Result<()> {
    let page = fs::read_to_string(markdown).unwrap_or_default();
    write(markdown, put_into(&page, &report.markdown()))
}

fn write(path: &Path, text: String) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Markers around the tables in a page that has other content.
const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

/// Replaces the text between the markers, or appends it with markers.
fn put_into(page: &str, tables: &str) -> String {
    let parts = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.unwrap_or((page, ""));
    format!("{head}{BEGIN}{tables}{END}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_of_page_are_replaced() {
        let page = put_into("# Title\n", "one\n");
        assert_eq!(page, format!("# Title\n{BEGIN}one\n{END}"));
        let page = put_into(&(page + "tail\n"), "two\n");
        assert_eq!(page, format!("# Title\n{BEGIN}two\n{END}tail\n"));
    }
}
