//! Creates a tree of a given size and measures its memory cost.

use crate::job::MeasuredServer;
use crate::memory::{self, Gauge, Growth};
use crate::progress::ProgressLine;
use crate::setup::{self, Needs};
use crate::stop_flag::StopFlag;
use crate::tree_layout::TreeLayout;
use anyhow::Result;
use serde::Serialize;
use std::time::Instant;

/// The results of a fill.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FillResults {
    /// Nodes created, without parents.
    pub nodes: u32,
    pub seconds: f64,
    /// Nodes per second, from one connection.
    pub per_second: f64,
    /// Memory per node, if the server's process is known.
    pub per_node: Option<Growth>,
}

/// Creates the keys of `layout` and leaves them in place.
pub fn fill(
    server: MeasuredServer,
    layout: &TreeLayout,
    gauge: Gauge,
    stop: &StopFlag,
    progress: &ProgressLine,
) -> Result<FillResults> {
    setup::clean(server.target, &layout.root, progress)?;
    let read = || server.pid.map(|pid| memory::read(pid, gauge)).transpose();
    let before = read()?;
    let start = Instant::now();
    setup::prepare(server.target, layout, Needs::Keys, stop, progress)?;
    let seconds = start.elapsed().as_secs_f64();
    let per_node = before.zip(read()?).map(|(before, after)| after.growth_per(layout.keys as usize, &before));
    Ok(FillResults { nodes: layout.keys, seconds, per_second: f64::from(layout.keys) / seconds, per_node })
}
