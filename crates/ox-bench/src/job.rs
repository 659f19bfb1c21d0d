//! A workload with all its settings, ready to be run on any server.

use crate::load::{Load, Timing};
use crate::notify::{Notify, WatchMode};
use crate::operation::{Operation, Workload};
use crate::progress::Progress;
use crate::results::Figures;
use crate::session::Target;
use crate::session_churn::Churn;
use crate::setup::{self, Needs};
use crate::stop_flag::Stop;
use crate::tree_layout::Shape;
use anyhow::Result;

/// A server to measure.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// How to reach it.
    pub target: Target,
    /// Its process, if its cost is wanted.
    pub pid: Option<u32>,
}

/// What is done to a server.
#[derive(Clone, Debug)]
pub struct Job {
    /// What the clients do.
    pub workload: Workload,
    /// The nodes they do it to.
    pub shape: Shape,
    /// Elements of a multi.
    pub multi_size: usize,
    /// Number of connections.
    pub connections: usize,
    /// Requests under way per connection.
    pub depth: usize,
    /// Load threads.
    pub threads: usize,
    /// Requests per second over all connections, or as many as can be.
    pub rate: Option<f64>,
    /// How watchers watch.
    pub watch_mode: WatchMode,
    /// How long.
    pub timing: Timing,
}

impl Job {
    /// Makes the nodes the job needs.
    pub fn prepare(&self, server: Server, stop: &Stop, progress: &Progress) -> Result<()> {
        match self.needs() {
            None => Ok(()),
            Some(needs) => setup::prepare(server.target, &self.shape, needs, stop, progress),
        }
    }

    /// Removes the nodes again.
    pub fn clean(&self, server: Server, progress: &Progress) -> Result<()> {
        match self.needs() {
            None => Ok(()),
            Some(_) => setup::clean(server.target, &self.shape.root, progress),
        }
    }

    fn needs(&self) -> Option<Needs> {
        match &self.workload {
            Workload::Session => None,
            Workload::Notify => Some(Needs::Root),
            Workload::Mix(mix) if mix.creates() => Some(Needs::KeysAndNursery),
            Workload::Mix(mix) => {
                let needs_keys =
                    mix.parts().iter().any(|(operation, _)| !matches!(operation, Operation::Ping | Operation::Sync));
                Some(if needs_keys { Needs::Keys } else { Needs::Root })
            }
        }
    }

    /// Measures once, on a server or on the members of an ensemble, over which requests are spread; sessions and
    /// watchers take the first. `round` differs between the measurements made on the same nodes.
    ///
    /// # Panics
    /// Without a server.
    pub fn measure(&self, servers: &[Server], round: u32, stop: &Stop, progress: &Progress) -> Result<Figures> {
        let Server { target, pid } = servers[0];
        let figures = match &self.workload {
            Workload::Session => {
                Churn { target, pid, connections: self.connections, timing: self.timing }.run(stop, progress)
            }
            Workload::Notify => Notify {
                target,
                pid,
                shape: self.shape.clone(),
                watchers: self.connections,
                mode: self.watch_mode,
                timing: self.timing,
            }
            .run(stop, progress),
            Workload::Mix(mix) => Load {
                servers: servers.to_vec(),
                mix: mix.clone(),
                shape: self.shape.clone(),
                multi_size: self.multi_size,
                connections: self.connections,
                depth: self.depth,
                threads: self.threads,
                rate: self.rate,
                timing: self.timing,
                round,
            }
            .run(stop, progress),
        };
        progress.clear();
        figures
    }
}
