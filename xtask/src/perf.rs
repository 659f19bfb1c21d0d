//! `cargo xtask perf`: benchmarks Oxkeeper and Apache alternately, with every workload that has a goal. Stores all
//! measurements in `docs/operate/performance.json`, and writes the tables in `docs/operate/performance.md` and the
//! charts in `docs/operate/charts` from them.

mod chart;
mod comparison;
mod ensemble;
pub(crate) mod failover;
mod goal;
pub(crate) mod http_load;
mod report;
mod sections;
mod server;
mod snapshot;
mod tls;

use crate::interop::servers::oxkeeper::build;
use crate::interop::servers::{Software, apache};
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail};
use comparison::{PerfConfig, compare, load, write_tables};
use ox_testkit::Program;
use server::MeasuredProgram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Flags of `cargo xtask perf`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds per server and workload.
    #[arg(long, default_value_t = 4)]
    rounds: u32,
    /// Length of a round in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Number of nodes in the largest tree.
    #[arg(long, default_value_t = 1_000_000)]
    nodes: u32,
    /// Run only these sections, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Write tables and charts from the stored measurements and measure nothing.
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "nodes", "only"])]
    render: bool,
    /// Cargo profile of our binary.
    #[arg(long, value_name = "PROFILE", default_value = "dist")]
    profile: String,
    /// Compare two Oxkeeper binaries, separated by a comma, instead of Oxkeeper and Apache.
    #[arg(long, value_delimiter = ',', requires = "out")]
    binaries: Vec<PathBuf>,
    /// Directory for the tables and measurements, instead of `docs/operate`; without charts.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// An Oxkeeper binary. Its log is limited to warnings, as Apache's is.
pub(crate) fn oxkeeper(name: &str, binary: &Path) -> Program {
    Program::new(name, &[&binary.display().to_string(), "server", "{config}", "--log", "warn"])
}

/// The same, on one core.
fn oxkeeper_on_core(binary: &Path, core: u32) -> Program {
    let (core, binary) = (core.to_string(), binary.display().to_string());
    Program::new("Oxkeeper", &["taskset", "-c", &core, &binary, "server", "{config}", "--log", "warn"])
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find();
    let docs = args.out.clone().unwrap_or_else(|| workspace.root().join("docs/operate"));
    let (page, measurements, charts) =
        (docs.join("performance.md"), docs.join("performance.json"), docs.join("charts"));
    if args.render {
        let report = load(&measurements)?;
        write_tables(&page, &report)?;
        return chart::write_all(&charts, &report);
    }
    std::fs::create_dir_all(&docs).with_context(|| format!("create {}", docs.display()))?;
    let dir = tempfile::Builder::new().prefix("oxkeeper-perf-").tempdir().context("create a temporary directory")?;
    let config = PerfConfig {
        servers: servers(&workspace, args, dir.path())?,
        rounds: args.rounds,
        round: Duration::from_secs(args.seconds),
        nodes_max: args.nodes,
        idle_sessions: 5000,
        only: args.only.clone(),
        markdown: page,
        json: measurements,
    };
    let report = compare(&config)?;
    if args.out.is_none() {
        chart::write_all(&charts, &report)?;
    }
    print!("{}", report.markdown());
    Ok(())
}

/// Our server, then the baseline it is compared with.
fn servers(workspace: &Workspace, args: &Args, dir: &Path) -> Result<[MeasuredProgram; 2]> {
    match args.binaries.as_slice() {
        [] => (),
        [ours, baseline] => {
            let measured = |name: &str, binary: &Path| -> Result<MeasuredProgram> {
                Ok(MeasuredProgram::new(oxkeeper(name, &std::path::absolute(binary)?), dir.join(name)))
            };
            return Ok([measured("new", ours)?, measured("old", baseline)?]);
        }
        _ => bail!("--binaries takes two paths, separated by a comma"),
    }
    let ours = oxkeeper("Oxkeeper", &build(workspace, &args.profile)?);
    Software::Apache.prepare(workspace)?;
    let classes = apache::class_path(workspace, dir)?;
    let java = ["java", "-Xmx4g", apache::ENCODING, "-cp", &classes, apache::MAIN, "{config}"];
    Ok([
        MeasuredProgram::new(ours, dir.join("oxkeeper")),
        MeasuredProgram::java(Program::new("Apache 3.9.3", &java), dir.join("apache")),
    ])
}
