//! `cargo xtask perf`: benchmarks Oxkeeper and Apache alternately, with every workload that has a goal. Writes the
//! tables in `docs/operate/performance.md` and all measurements to `docs/operate/performance.json`.

use crate::interop::servers::{Software, apache, free_port};
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result};
use ox_bench::perf::server::ServerCommand;
use ox_bench::perf::{PerfConfig, perf};
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
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::find();
    Software::Oxkeeper.prepare(&workspace)?;
    Software::Apache.prepare(&workspace)?;
    let dir = tempfile::Builder::new().prefix("oxkeeper-perf-").tempdir().context("create a temporary directory")?;
    let binary = workspace.target().join("release/oxkeeper");
    let ours = vec![binary.display().to_string(), "server".into(), "{config}".into(), "--log".into(), "warn".into()];
    let classes = apache::class_path(&workspace, dir.path())?;
    let java = ["java", "-Xmx4g", apache::ENCODING, "-cp", &classes, apache::MAIN, "{config}"];
    let servers = [
        ServerCommand::new("Oxkeeper", ours, dir.path().join("oxkeeper"), free_port()?),
        ServerCommand::java("Apache 3.9.3", java.map(str::to_owned).to_vec(), dir.path().join("apache"), free_port()?),
    ];
    let docs = workspace.root().join("docs/operate");
    let mut config = PerfConfig::new(servers, docs.join("performance.md"), docs.join("performance.json"));
    config.rounds = args.rounds;
    config.round = Duration::from_secs(args.seconds);
    config.nodes_max = args.nodes;
    config.only.clone_from(&args.only);
    let report = perf(config)?;
    print!("{}", report.markdown());
    Ok(())
}
