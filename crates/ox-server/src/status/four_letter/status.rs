//! Commands about the server as a whole: `ruok`, `srvr`, `srst`, `isro`, `hash`, `gtmk`, `stmk`.

use super::monitor::reset_stats;
use crate::shared::Shared;
use crate::status::java_text;
use crate::status::server_mode::ServerMode;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn ruok(_: &Shared) -> String {
    "imok".to_owned()
}

pub(super) fn isro(_: &Shared, mode: ServerMode) -> String {
    if mode == ServerMode::ReadOnly { "ro" } else { "rw" }.to_owned()
}

pub(super) fn srvr(shared: &Shared, mode: ServerMode) -> String {
    format!("{}{}", head(shared, mode), stats_lines(shared, mode))
}

/// The first lines of `srvr` and `stat`.
pub(super) fn head(shared: &Shared, mode: ServerMode) -> String {
    let remark = match mode {
        ServerMode::ReadOnly => "READ-ONLY mode; serving only read-only clients\n",
        ServerMode::Standalone | ServerMode::Leader(_) | ServerMode::Follower(_) | ServerMode::Observer(_) => "",
    };
    format!("Zookeeper version: {}\n{remark}", shared.build.version())
}

/// The lines that `srvr` and `stat` share.
pub(super) fn stats_lines(shared: &Shared, mode: ServerMode) -> String {
    let stats = &shared.stats;
    let latency = stats.latency.totals();
    let average = java_text::double(java_text::average(latency.sum, latency.count));
    let (zxid, nodes) = {
        let state = shared.state.read();
        (state.last_zxid(), state.node_count())
    };
    let mut text = String::new();
    let lines = [
        ("Latency min/avg/max", format!("{}/{average}/{}", latency.min, latency.max)),
        ("Received", stats.received.get().to_string()),
        ("Sent", stats.sent.get().to_string()),
        ("Connections", shared.connections.len().to_string()),
        ("Outstanding", stats.outstanding.load(Relaxed).to_string()),
        ("Zxid", zxid.to_string()),
        ("Mode", mode.name().to_owned()),
        ("Node count", nodes.to_string()),
    ];
    for (name, value) in lines {
        writeln!(text, "{name}: {value}").expect("a string takes every write");
    }
    if let ServerMode::Leader(_) = mode {
        let (last, min, max) = stats.proposals.last_min_max();
        writeln!(text, "Proposal sizes last/min/max: {last}/{min}/{max}").expect("a string takes every write");
    }
    text
}

pub(super) fn srst(shared: &Shared, _: ServerMode) -> String {
    reset_stats(shared);
    shared.stats.proposals.reset();
    "Server stats reset.\n".to_owned()
}

pub(super) fn hash(shared: &Shared, _: ServerMode) -> String {
    let digests: Vec<_> = shared.state.read().digest_log().collect();
    let mut text = String::new();
    for (zxid, digest) in digests {
        writeln!(text, "{:x}: {digest}", zxid.0).expect("a string takes every write");
    }
    text
}

pub(super) fn gtmk(shared: &Shared) -> String {
    shared.trace_mask.load(Relaxed).cast_signed().to_string()
}

pub(super) fn stmk(shared: &Shared, mask: u64) -> String {
    shared.trace_mask.store(mask, Relaxed);
    gtmk(shared)
}
