//! Measures two servers alternately, so that disturbances of the machine affect both.

use crate::failure;
use crate::job::{Job, MeasuredServer};
use crate::progress::ProgressLine;
use crate::results::RunResults;
use crate::statistics::Statistics;
use crate::stop_flag::StopFlag;
use anyhow::{Context, Result};
use serde::Serialize;

/// One result of both servers.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Name of the result, as in reports.
    pub figure: &'static str,
    pub a: Statistics,
    pub b: Statistics,
    /// Median of A divided by median of B.
    pub ratio: f64,
}

/// All results, with the rounds that they are computed from.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Whether a signal ended the comparison before the last round.
    pub interrupted: bool,
    /// One entry per result that both servers have.
    pub comparisons: Vec<Comparison>,
    /// Rounds of server A.
    pub rounds_a: Vec<RunResults>,
    /// Rounds of server B.
    pub rounds_b: Vec<RunResults>,
}

impl Compared {
    /// Cores kept busy by other processes, in the median round.
    pub fn others_cpus(&self) -> Option<f64> {
        let rounds = self.rounds_a.iter().chain(&self.rounds_b);
        Statistics::of(&rounds.map(RunResults::others_cpus).collect::<Vec<_>>()).map(|summary| summary.median)
    }
}

type Figure = (&'static str, fn(&RunResults) -> Option<f64>);

/// The compared results, in the order of reports.
const COMPARED: [Figure; 9] = [
    ("per second", |results| Some(results.per_second)),
    ("per server CPU second", |results| results.server.map(|cost| cost.per_cpu_second)),
    ("server CPU us each", |results| results.server.map(|cost| cost.cpu_us_per_operation)),
    ("server RSS MB", |results| results.server.map(|cost| cost.rss_bytes as f64 / 1e6)),
    ("p50 us", |results| Some(results.latency_us.p50)),
    ("p90 us", |results| Some(results.latency_us.p90)),
    ("p99 us", |results| Some(results.latency_us.p99)),
    ("p99.9 us", |results| Some(results.latency_us.p999)),
    ("max us", |results| Some(results.latency_us.max)),
];

/// Measures A, B, A, B and so on, each a server or an ensemble. The nodes must exist.
pub fn alternate(job: &Job, servers: [&[MeasuredServer]; 2], rounds: u32, stop: &StopFlag) -> Result<Compared> {
    let (mut rounds_a, mut rounds_b) = (Vec::new(), Vec::new());
    'rounds: for round in 0..rounds {
        for (name, server, rounds_of) in [("A", servers[0], &mut rounds_a), ("B", servers[1], &mut rounds_b)] {
            let progress = ProgressLine::new(&format!("{name} round {} of {rounds}: ", round + 1));
            let results = job.measure(server, round, stop, &progress);
            if stop.is_set() && 0 < round {
                break 'rounds; // without the round that is not complete
            }
            rounds_of.push(results.with_context(|| format!("measure server {name}, {}", server[0].target.address))?);
        }
        failure::unless_interrupted(stop)?;
    }
    rounds_a.truncate(rounds_b.len());
    let comparisons = comparisons(&rounds_a, &rounds_b);
    Ok(Compared { interrupted: stop.is_set(), comparisons, rounds_a, rounds_b })
}

fn comparisons(rounds_a: &[RunResults], rounds_b: &[RunResults]) -> Vec<Comparison> {
    let summary = |rounds: &[RunResults], value: fn(&RunResults) -> Option<f64>| {
        Statistics::of(&rounds.iter().filter_map(value).collect::<Vec<_>>())
    };
    let compare = |(figure, value): &Figure| {
        let (a, b) = (summary(rounds_a, *value)?, summary(rounds_b, *value)?);
        Some(Comparison { figure, a, b, ratio: a.median / b.median })
    };
    COMPARED.iter().filter_map(compare).collect()
}
