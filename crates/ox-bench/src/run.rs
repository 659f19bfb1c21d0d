//! Does what the command line says.

use crate::args::{
    Args, CleanArgs, Command, CompareArgs, FillArgs, FloodArgs, IdleArgs, JobArgs, RunArgs, checked_root, seconds,
};
use crate::compare;
use crate::fill;
use crate::flood::{Flood, Kind};
use crate::idle::Idle;
use crate::job::{Job, Server};
use crate::progress::Progress;
use crate::report;
use crate::setup;
use crate::stop_flag::Stop;
use crate::tree_layout::Shape;
use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use std::io::{self, Write};

/// Runs `oxkeeper bench`.
pub fn run(args: Args) -> Result<()> {
    let stop = Stop::on_signals()?;
    match args.command {
        None => run_once(&args.run, &stop),
        Some(Command::Compare(args)) => run_compare(&args, &stop),
        Some(Command::Fill(args)) => run_fill(&args, &stop),
        Some(Command::Idle(args)) => run_idle(&args, &stop),
        Some(Command::Flood(args)) => run_flood(&args, &stop),
        Some(Command::Clean(args)) => run_clean(&args),
    }
}

fn run_once(args: &RunArgs, stop: &Stop) -> Result<()> {
    let job = args.job.job()?;
    let servers = args.servers()?;
    let progress = Progress::new("");
    eprintln!("{} on {}", report::describe(&job), args.server.join(", "));
    let figures = on_ground(&job, &servers[..1], &args.job, stop, || job.measure(&servers, 0, stop, &progress))?;
    print(args.job.shared.json, &figures, report::figures)
}

fn run_compare(args: &CompareArgs, stop: &Stop) -> Result<()> {
    let job = args.job.job()?;
    let servers = args.servers()?;
    let [a, b] = servers.map(|server| server.target.address);
    eprintln!("{} on A = {a} and B = {b}, {} rounds each", report::describe(&job), args.rounds);
    let compared = on_ground(&job, &servers, &args.job, stop, || {
        compare::alternate(&job, [&servers[..1], &servers[1..]], args.rounds, stop)
    })?;
    print(args.job.shared.json, &compared, report::compared)
}

fn run_fill(args: &FillArgs, stop: &Stop) -> Result<()> {
    let server = args.shared.server(&args.server, args.memory.pid)?;
    let shape = args.tree.shape()?;
    let figures = fill::fill(server, &shape, args.memory.gauge(), stop, &Progress::new(""))?;
    print(args.shared.json, &figures, report::fill)
}

fn run_idle(args: &IdleArgs, stop: &Stop) -> Result<()> {
    let idle = Idle {
        server: args.shared.server(&args.server, args.memory.pid)?,
        shape: Shape { root: checked_root(&args.root)?, parents: 1, keys: 1, data_bytes: 0 },
        sessions: args.sessions as usize,
        watches_per_session: args.watches,
        gauge: args.memory.gauge(),
        hold: seconds("--hold", args.hold)?,
    };
    print(args.shared.json, &idle.run(stop, &Progress::new(""))?, report::idle)
}

fn run_flood(args: &FloodArgs, stop: &Stop) -> Result<()> {
    let flood = Flood {
        server: args.shared.server(&args.server, Some(args.pid))?,
        kinds: if args.kinds.is_empty() { Kind::value_variants().to_vec() } else { args.kinds.clone() },
        connections: args.connections as usize,
        time: seconds("--time", args.time)?,
        rest: seconds("--rest", args.rest)?,
    };
    print(args.shared.json, &flood.run(stop, &Progress::new(""))?, report::flood)
}

fn run_clean(args: &CleanArgs) -> Result<()> {
    let server = args.shared.server(&args.server, None)?;
    setup::clean(server.target, &checked_root(&args.root)?, &Progress::new("clean up: "))
}

/// Makes the nodes, does `work` and removes the nodes, also when something failed before.
fn on_ground<T>(
    job: &Job,
    servers: &[Server],
    args: &JobArgs,
    stop: &Stop,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let set_up = Progress::new("set up: ");
    let prepared = servers.iter().try_for_each(|server| job.prepare(*server, stop, &set_up).context("set up"));
    let result = prepared.and_then(|()| work());
    set_up.clear();
    if args.keep {
        return result;
    }
    for server in servers {
        let cleaned = job.clean(*server, &Progress::new("clean up: "));
        if let (Err(error), Ok(_)) = (cleaned, &result) {
            return Err(error.context("clean up\nhint: `oxkeeper bench clean` tries again"));
        }
    }
    result
}

fn print<T: Serialize>(json: bool, figures: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
    let text = if json { serde_json::to_string_pretty(figures)? + "\n" } else { text(figures) };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()), // the reader has seen enough
        printed => printed.context("print"),
    }
}
