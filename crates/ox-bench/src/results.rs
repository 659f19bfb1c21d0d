//! Results of a run: throughput, latency, CPU and memory.

use crate::counters::Counters;
use crate::operation::Operation;
use crate::process::ProcessUsage;
use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The results of one measured window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResults {
    /// Whether a signal ended the window early.
    #[serde(default)]
    pub interrupted: bool,
    pub seconds: f64,
    /// Replies in the window, errors included.
    pub operations: u64,
    pub per_second: f64,
    /// Latencies of all operations.
    pub latency_us: Latency,
    /// Counts and latencies per operation, if there are several.
    pub by_operation: BTreeMap<String, OperationResults>,
    /// Replies with an error, by code.
    pub errors: BTreeMap<i32, u64>,
    /// Cost of the server, if its process is known.
    pub server: Option<ServerCost>,
    /// CPU time of the load generator.
    pub client_cpu_seconds: f64,
    /// CPU time of all other processes. Much of it distorts the results, and not evenly: a server that serves many
    /// requests per wake-up looks better on a busy machine.
    pub others_cpu_seconds: f64,
}

/// The results of one operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperationResults {
    pub operations: u64,
    pub latency_us: Latency,
}

/// Latency percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// CPU and memory of the server's process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ServerCost {
    /// CPU time within the window.
    pub cpu_seconds: f64,
    /// Operations per CPU second, the most stable of all results.
    #[serde(deserialize_with = "null_as_nan")]
    pub per_cpu_second: f64,
    /// CPU time of one operation.
    #[serde(deserialize_with = "null_as_nan")]
    pub cpu_us_per_operation: f64,
    /// Resident memory at the end.
    pub rss_bytes: u64,
}

/// JSON has no infinity and no NaN: `serde_json` writes null for a quotient whose divisor was 0.
fn null_as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Measurements at both ends of a window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub seconds: f64,
    /// The server's usage at start and end.
    pub server: Option<(ProcessUsage, ProcessUsage)>,
    /// CPU time of the load generator within the window.
    pub client_cpu_seconds: f64,
    /// CPU time of all processes within the window.
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

impl RunResults {
    /// Evaluates the counters of a mixed load.
    pub fn new(counters: &Counters, window: Window) -> Self {
        let mut all = crate::counters::histogram();
        let mut by_operation = BTreeMap::new();
        for operation in Operation::ALL {
            let latencies = counters.latencies(operation);
            if !latencies.is_empty() {
                all.add(latencies).expect("all have the same bounds");
                let part = OperationResults { operations: latencies.len(), latency_us: latencies.into() };
                by_operation.insert(operation.name().to_owned(), part);
            }
        }
        if by_operation.len() == 1 {
            by_operation.clear();
        }
        Self { by_operation, errors: counters.errors.clone(), ..Self::of(&all, window) }
    }

    /// Evaluates a single kind of operation.
    pub fn of(latencies: &Histogram<u64>, window: Window) -> Self {
        let operations = latencies.len();
        let server_cpu_seconds = window.server.map_or(0.0, |(before, after)| after.cpu_seconds - before.cpu_seconds);
        Self {
            interrupted: false,
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
