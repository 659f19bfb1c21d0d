//! A workload with all its settings, independent of the server.

use crate::load::{RequestLoad, RunTiming};
use crate::notify::{Notify, WatcherKind};
use crate::operation::{Operation, Workload};
use crate::progress::ProgressLine;
use crate::results::RunResults;
use crate::session::BenchTarget;
use crate::session_churn::SessionChurn;
use crate::setup::{self, Claim, Needs};
use crate::stop_flag::StopFlag;
use crate::tree_layout::TreeLayout;
use anyhow::Result;

#[derive(Clone, Copy, Debug)]
pub struct MeasuredServer {
    pub target: BenchTarget,
    /// The process, to measure its cost.
    pub pid: Option<u32>,
}

/// A workload and its parameters.
#[derive(Clone, Debug)]
pub struct Job {
    pub workload: Workload,
    /// The nodes that the load works on.
    pub layout: TreeLayout,
    /// Elements of a multi.
    pub multi_size: usize,
    pub connections: usize,
    /// Requests in flight per connection.
    pub depth: usize,
    pub threads: usize,
    /// Requests per second over all connections; `None` means as many as possible.
    pub rate: Option<f64>,
    pub watch_mode: WatcherKind,
    pub timing: RunTiming,
}

/// The root node of a job, which the end of the run deletes.
#[derive(Debug)]
pub struct ClaimedRoot<'a> {
    claim: Claim,
    layout: &'a TreeLayout,
    needs: Needs,
}

impl ClaimedRoot<'_> {
    /// Creates the nodes that the job needs.
    pub fn create(self, stop: &StopFlag, progress: &ProgressLine) -> Result<()> {
        self.claim.create(self.layout, self.needs, stop, progress)
    }
}

impl Job {
    /// Creates the nodes that the job needs.
    pub fn prepare(&self, server: MeasuredServer, stop: &StopFlag, progress: &ProgressLine) -> Result<()> {
        match self.claim(server)? {
            None => Ok(()),
            Some(root) => root.create(stop, progress),
        }
    }

    /// Takes the root node for this job; `None` if the job needs no nodes.
    pub fn claim(&self, server: MeasuredServer) -> Result<Option<ClaimedRoot<'_>>> {
        let Some(needs) = self.needs() else { return Ok(None) };
        Ok(Some(ClaimedRoot { claim: Claim::of(server.target, &self.layout)?, layout: &self.layout, needs }))
    }

    /// Deletes the nodes again.
    pub fn clean(&self, server: MeasuredServer, progress: &ProgressLine) -> Result<()> {
        match self.needs() {
            None => Ok(()),
            Some(_) => setup::clean(server.target, &self.layout.root, progress).map(drop),
        }
    }

    fn needs(&self) -> Option<Needs> {
        match &self.workload {
            Workload::Session => None,
            Workload::Notify => Some(Needs::Root),
            Workload::Mix(mix) if mix.creates() => Some(Needs::KeysAndCreateParents),
            Workload::Mix(mix) => {
                let needs_keys =
                    mix.parts().iter().any(|(operation, _)| !matches!(operation, Operation::Ping | Operation::Sync));
                Some(if needs_keys { Needs::Keys } else { Needs::Root })
            }
        }
    }

    /// Measures once, on a server or on the members of an ensemble, over which requests are spread; session churn and
    /// watchers use only the first. `round` differs between measurements on the same nodes.
    ///
    /// # Panics
    /// If `servers` is empty.
    pub fn measure(
        &self,
        servers: &[MeasuredServer],
        round: u32,
        stop: &StopFlag,
        progress: &ProgressLine,
    ) -> Result<RunResults> {
        let MeasuredServer { target, pid } = servers[0];
        let results = match &self.workload {
            Workload::Session => {
                SessionChurn { target, pid, connections: self.connections, timing: self.timing }.run(stop, progress)
            }
            Workload::Notify => Notify {
                target,
                pid,
                layout: self.layout.clone(),
                watchers: self.connections,
                mode: self.watch_mode,
                timing: self.timing,
            }
            .run(stop, progress),
            Workload::Mix(mix) => RequestLoad { job: self, mix, servers, round }.run(stop, progress),
        };
        progress.clear();
        Ok(RunResults { interrupted: stop.is_set(), ..results? })
    }
}
