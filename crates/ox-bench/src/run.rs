//! Executes the command line.

use crate::args::{
    BenchArgs, BenchCommand, CleanArgs, CompareArgs, FillArgs, FloodArgs, IdleArgs, JobArgs, ROOT_DEFAULT, RunArgs,
    checked_root, seconds,
};
use crate::compare;
use crate::fill;
use crate::flood::{Flood, FloodKind};
use crate::idle::Idle;
use crate::job::{Job, MeasuredServer};
use crate::progress::ProgressLine;
use crate::report;
use crate::setup;
use crate::stop_flag::StopFlag;
use crate::tree_layout::TreeLayout;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;
use std::io::{self, Write};

pub fn run(args: BenchArgs) -> Result<()> {
    let stop = StopFlag::on_signals()?;
    match args.command {
        None => run_once(&args.run, &stop),
        Some(BenchCommand::Compare(args)) => run_compare(&args, &stop),
        Some(BenchCommand::Fill(args)) => run_fill(&args, &stop),
        Some(BenchCommand::Idle(args)) => run_idle(&args, &stop),
        Some(BenchCommand::Flood(args)) => run_flood(&args, &stop),
        Some(BenchCommand::Clean(args)) => run_clean(&args),
    }
}

fn run_once(args: &RunArgs, stop: &StopFlag) -> Result<()> {
    let job = args.job.job()?;
    let servers = args.servers()?;
    let progress = ProgressLine::new("");
    eprintln!("{} on {}", report::describe(&job), args.target.server());
    let results = with_nodes(&job, &servers[..1], &args.job, stop, || job.measure(&servers, 0, stop, &progress))?;
    print(args.job.shared.json, &results, report::results)
}

fn run_compare(args: &CompareArgs, stop: &StopFlag) -> Result<()> {
    let job = args.job.job()?;
    let servers = args.servers()?;
    let [a, b] = servers.map(|server| server.target.address);
    eprintln!("{} on A = {a} and B = {b}, {} rounds each", report::describe(&job), args.rounds);
    let compared = with_nodes(&job, &servers, &args.job, stop, || {
        compare::alternate(&job, [&servers[..1], &servers[1..]], args.rounds, stop)
    })?;
    print(args.job.shared.json, &compared, report::compared)
}

/// A flood consists of raw bytes.
fn plain(server: MeasuredServer) -> Result<MeasuredServer> {
    ensure!(server.target.security.is_none(), "a flood uses neither TLS nor SASL");
    Ok(server)
}

fn run_fill(args: &FillArgs, stop: &StopFlag) -> Result<()> {
    let server = args.shared.server(args.target.server(), args.memory.pid)?;
    let layout = args.tree.layout()?;
    let results = fill::fill(server, &layout, args.memory.gauge(), stop, &ProgressLine::new(""))?;
    print(args.shared.json, &results, report::fill)
}

fn run_idle(args: &IdleArgs, stop: &StopFlag) -> Result<()> {
    let idle = Idle {
        server: args.shared.server(args.target.server(), args.memory.pid)?,
        layout: TreeLayout { root: checked_root(&args.root)?, parents: 1, keys: 1, data_bytes: 0 },
        sessions: args.sessions as usize,
        watches_per_session: args.watches,
        gauge: args.memory.gauge(),
        hold: seconds("--hold", args.hold)?,
    };
    print(args.shared.json, &idle.run(stop, &ProgressLine::new(""))?, report::idle)
}

fn run_flood(args: &FloodArgs, stop: &StopFlag) -> Result<()> {
    let flood = Flood {
        server: plain(args.shared.server(args.target.server(), Some(args.pid))?)?,
        kinds: if args.kinds.is_empty() { FloodKind::value_variants().to_vec() } else { args.kinds.clone() },
        connections: args.connections as usize,
        time: seconds("--time", args.time)?,
        rest: seconds("--rest", args.rest)?,
    };
    print(args.shared.json, &flood.run(stop, &ProgressLine::new(""))?, report::flood)
}

fn run_clean(args: &CleanArgs) -> Result<()> {
    let server = args.shared.server(args.target.server(), None)?;
    let root = checked_root(&args.root)?;
    let is_deleted = setup::clean(server.target, &root, &ProgressLine::new("clean up: "))?;
    print(args.shared.json, &serde_json::json!({ "root": root, "deleted": is_deleted }), |_| match is_deleted {
        true => format!("deleted {root}\n"),
        false => format!("nothing to delete: {root} does not exist\n"),
    })
}

/// Creates the nodes, runs `work` and deletes the nodes, also after an error.
fn with_nodes<T>(
    job: &Job,
    servers: &[MeasuredServer],
    args: &JobArgs,
    stop: &StopFlag,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let set_up = ProgressLine::new("set up: ");
    let mut claimed = Vec::new();
    let prepared = servers.iter().try_for_each(|server| {
        let Some(root) = job.claim(*server).context("set up")? else { return Ok(()) };
        claimed.push(*server);
        root.create(stop, &set_up).context("set up")
    });
    let mut result = prepared.and_then(|()| work());
    set_up.clear();
    if args.keep {
        return result;
    }
    for server in claimed {
        let Err(error) = job.clean(server, &ProgressLine::new("clean up: ")) else { continue };
        let left = left_behind(server, &job.layout.root);
        match &result {
            Ok(_) => result = Err(error.context(format!("clean up\n{left}"))),
            Err(_) => eprintln!("warning: {left}"), // the error of the run explains more than that of the clean-up
        }
    }
    result
}

/// Nodes that could not be deleted, and the command that deletes them.
fn left_behind(server: MeasuredServer, root: &str) -> String {
    let mut command = format!("oxkeeper bench clean -s {}", server.target.address);
    if root != ROOT_DEFAULT {
        command += &format!(" --root {root}");
    }
    format!("nodes below {root} were left behind; `{command}` deletes them")
}

fn print<T: Serialize>(json: bool, results: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
    let text = if json { serde_json::to_string_pretty(results)? + "\n" } else { text(results) };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()), // the reader closed the pipe
        printed => printed.context("print"),
    }
}
