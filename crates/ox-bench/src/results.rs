//! What a run found out.

use crate::counters::Tally;
use crate::operation::Operation;
use crate::process::Usage;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;

/// The figures of one measured window.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Length of the window.
    pub seconds: f64,
    /// Operations answered in it, errors included.
    pub operations: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Latencies of all operations.
    pub latency_us: Latency,
    /// Counts and latencies per operation, where there is more than one.
    pub by_operation: BTreeMap<&'static str, Part>,
    /// Replies with an error, by code.
    pub errors: BTreeMap<i32, u64>,
    /// What the server spent, when its process is known.
    pub server: Option<ServerCost>,
    /// What this program spent.
    pub client_cpu_seconds: f64,
    /// What all other processes spent. Much of it spoils the figures, and not evenly: a server that serves many requests
    /// per wake-up looks better on a busy machine.
    pub others_cpu_seconds: f64,
}

/// One operation's share.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// How often it was answered.
    pub operations: u64,
    /// How long that took.
    pub latency_us: Latency,
}

/// Latency percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90 of 100 are faster.
    pub p90: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
    /// 999 of 1000 are faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

/// CPU and memory of the server's process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServerCost {
    /// CPU time within the window.
    pub cpu_seconds: f64,
    /// Operations per CPU second, the steadiest figure of all.
    pub per_cpu_second: f64,
    /// CPU time of one operation.
    pub cpu_us_per_operation: f64,
    /// Resident memory at the end.
    pub rss_bytes: u64,
}

/// Both ends of a measured window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its length.
    pub seconds: f64,
    /// The server's usage at start and end.
    pub server: Option<(Usage, Usage)>,
    /// This program's CPU time within it.
    pub client_cpu_seconds: f64,
    /// The CPU time of all processes within it.
    pub machine_cpu_seconds: f64,
}

impl From<&Histogram<u64>> for Latency {
    fn from(nanoseconds: &Histogram<u64>) -> Self {
        let us = |ns: u64| ns as f64 / 1000.0;
        Self {
            p50: us(nanoseconds.value_at_quantile(0.5)),
            p90: us(nanoseconds.value_at_quantile(0.9)),
            p99: us(nanoseconds.value_at_quantile(0.99)),
            p999: us(nanoseconds.value_at_quantile(0.999)),
            max: us(nanoseconds.max()),
        }
    }
}

impl Figures {
    /// Evaluates a tally.
    pub fn new(tally: &Tally, window: Window) -> Self {
        let mut all = crate::counters::histogram();
        let mut by_operation = BTreeMap::new();
        for operation in Operation::ALL {
            let latencies = tally.latencies(operation);
            if !latencies.is_empty() {
                all.add(latencies).expect("all have the same bounds");
                let part = Part { operations: latencies.len(), latency_us: latencies.into() };
                by_operation.insert(operation.name(), part);
            }
        }
        if by_operation.len() == 1 {
            by_operation.clear();
        }
        Self { by_operation, errors: tally.errors.clone(), ..Self::of(&all, window) }
    }

    /// Evaluates one kind of operation.
    pub fn of(latencies: &Histogram<u64>, window: Window) -> Self {
        let operations = latencies.len();
        let server_cpu_seconds = window.server.map_or(0.0, |(before, after)| after.cpu_seconds - before.cpu_seconds);
        Self {
            seconds: window.seconds,
            operations,
            per_second: operations as f64 / window.seconds,
            latency_us: latencies.into(),
            by_operation: BTreeMap::new(),
            errors: BTreeMap::new(),
            server: window.server.map(|(_, after)| ServerCost {
                cpu_seconds: server_cpu_seconds,
                per_cpu_second: operations as f64 / server_cpu_seconds,
                cpu_us_per_operation: server_cpu_seconds * 1e6 / operations as f64,
                rss_bytes: after.rss_bytes,
            }),
            client_cpu_seconds: window.client_cpu_seconds,
            others_cpu_seconds: (window.machine_cpu_seconds - window.client_cpu_seconds - server_cpu_seconds).max(0.0),
        }
    }

    /// Cores kept busy by other processes.
    pub fn others_cpus(&self) -> f64 {
        self.others_cpu_seconds / self.seconds
    }

    /// Number of replies with an error.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}
