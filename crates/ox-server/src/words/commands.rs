//! The answers.

use super::Word;
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) fn run(shared: &Arc<Shared>, word: Word) -> String {
    match word.name {
        "ruok" => "imok".to_owned(),
        "isro" => "rw".to_owned(),
        "gtmk" => shared.trace_mask.load(Ordering::Relaxed).to_string(),
        "srvr" => srvr(shared),
        _ => String::new(),
    }
}

fn srvr(shared: &Shared) -> String {
    let stats = &shared.stats;
    let state = shared.state.read();
    format!(
        "Zookeeper version: 3.9.3-oxkeeper-{}, built on 2026-11-15 00:00 UTC\nLatency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\nOutstanding: {}\nZxid: {}\nMode: standalone\nNode count: {}\n",
        env!("CARGO_PKG_VERSION"),
        stats.latency.min(),
        0.0,
        stats.latency.max.load(Ordering::Relaxed),
        stats.received.load(Ordering::Relaxed),
        stats.sent.load(Ordering::Relaxed),
        shared.register.len(),
        stats.requests_outstanding.load(Ordering::Relaxed),
        state.last_zxid(),
        state.node_count(),
    )
}
