//! Two servers, measured in turn: what disturbs the machine disturbs both.

use crate::job::{Job, Server};
use crate::progress::Progress;
use crate::results::Figures;
use crate::statistics::Summary;
use crate::stop_flag::Stop;
use anyhow::{Context, Result};
use serde::Serialize;

/// A figure of both servers.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What is compared.
    pub figure: &'static str,
    /// Server A.
    pub a: Summary,
    /// Server B.
    pub b: Summary,
    /// Median of A divided by median of B.
    pub ratio: f64,
}

/// All figures, and what they come from.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// One entry per figure that both servers have.
    pub comparisons: Vec<Comparison>,
    /// Rounds of server A.
    pub rounds_a: Vec<Figures>,
    /// Rounds of server B.
    pub rounds_b: Vec<Figures>,
}

impl Compared {
    /// Cores kept busy by other processes, in the median round.
    pub fn others_cpus(&self) -> Option<f64> {
        let rounds = self.rounds_a.iter().chain(&self.rounds_b);
        Summary::of(&rounds.map(Figures::others_cpus).collect::<Vec<_>>()).map(|summary| summary.median)
    }
}

type Figure = (&'static str, fn(&Figures) -> Option<f64>);

/// The figures compared, in the order of reports.
const FIGURES: [Figure; 9] = [
    ("per second", |figures| Some(figures.per_second)),
    ("per server CPU second", |figures| figures.server.map(|cost| cost.per_cpu_second)),
    ("server CPU us each", |figures| figures.server.map(|cost| cost.cpu_us_per_operation)),
    ("server RSS MB", |figures| figures.server.map(|cost| cost.rss_bytes as f64 / 1e6)),
    ("p50 us", |figures| Some(figures.latency_us.p50)),
    ("p90 us", |figures| Some(figures.latency_us.p90)),
    ("p99 us", |figures| Some(figures.latency_us.p99)),
    ("p99.9 us", |figures| Some(figures.latency_us.p999)),
    ("max us", |figures| Some(figures.latency_us.max)),
];

/// Measures A, B, A, B and so on, each a server or an ensemble. The nodes must be there.
pub fn alternate(job: &Job, servers: [&[Server]; 2], rounds: u32, stop: &Stop) -> Result<Compared> {
    let (mut rounds_a, mut rounds_b) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for (name, server, results) in [("A", servers[0], &mut rounds_a), ("B", servers[1], &mut rounds_b)] {
            let progress = Progress::new(&format!("{name} round {} of {rounds}: ", round + 1));
            let figures = job.measure(server, round, stop, &progress);
            results.push(figures.with_context(|| format!("measure server {name}, {}", server[0].target.address))?);
        }
        if stop.is_set() {
            break;
        }
    }
    Ok(Compared { comparisons: comparisons(&rounds_a, &rounds_b), rounds_a, rounds_b })
}

fn comparisons(rounds_a: &[Figures], rounds_b: &[Figures]) -> Vec<Comparison> {
    let summary = |rounds: &[Figures], value: fn(&Figures) -> Option<f64>| {
        Summary::of(&rounds.iter().filter_map(value).collect::<Vec<_>>())
    };
    let compare = |(figure, value): &Figure| {
        let (a, b) = (summary(rounds_a, *value)?, summary(rounds_b, *value)?);
        Some(Comparison { figure, a, b, ratio: a.median / b.median })
    };
    FIGURES.iter().filter_map(compare).collect()
}
