//! A tree of a given size, and what it costs.

use crate::job::Server;
use crate::memory::{self, Gauge, Growth};
use crate::progress::Progress;
use crate::setup::{self, Needs};
use crate::stop_flag::Stop;
use crate::tree_layout::Shape;
use anyhow::Result;
use serde::Serialize;
use std::time::Instant;

/// What a fill found out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FillFigures {
    /// Nodes made, parents not counted.
    pub nodes: u32,
    /// How long it took.
    pub seconds: f64,
    /// Nodes per second, from one connection.
    pub per_second: f64,
    /// Memory per node, when the server's process is known.
    pub per_node: Option<Growth>,
}

/// Makes the keys of `shape` and leaves them.
pub fn fill(server: Server, shape: &Shape, gauge: Gauge, stop: &Stop, progress: &Progress) -> Result<FillFigures> {
    setup::clean(server.target, &shape.root, progress)?;
    let read = || server.pid.map(|pid| memory::read(pid, gauge)).transpose();
    let before = read()?;
    let start = Instant::now();
    setup::prepare(server.target, shape, Needs::Keys, stop, progress)?;
    let seconds = start.elapsed().as_secs_f64();
    let per_node = before.zip(read()?).map(|(before, after)| after.growth_per(shape.keys as usize, &before));
    Ok(FillFigures { nodes: shape.keys, seconds, per_second: f64::from(shape.keys) / seconds, per_node })
}
