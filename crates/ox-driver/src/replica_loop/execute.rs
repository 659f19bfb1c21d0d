//! Executes the effects of the replica: work for the log thread, commands to the peers thread, changes of the state.

use super::peer_commands::CommandBatch;
use super::{PeerCommand, ReplicaHost, ReplicaLoop, StateWriter, replace_state, show_config};
use crate::config_change::ConfigChange;
use crate::log_writer::{LogWork, QueuedBatch};
use ox_proto::ensemble::Ensemble;
use ox_replica::{LogJob, Now, ReplicaEffect};
use ox_zab::DiskJob;
use std::sync::Arc;

impl ReplicaLoop {
    /// Executes all effects, in order. The log thread has its work before the peers thread has the packets.
    pub(super) fn execute_effects<H: ReplicaHost>(&mut self, now: Now, host: &mut H) {
        host.release_state();
        let mut effects = self.effects.take();
        if !effects.is_empty() || self.settings.consumed_report_bytes <= self.held.unreported_bytes() {
            let mut batch = CommandBatch::new(self.settings.link_chunk_bytes);
            for effect in effects.drain(..) {
                host.on_effect(now, &self.replica, &effect);
                self.execute(now, effect, &mut batch, host);
            }
            for (link, bytes) in self.held.take_consumed() {
                batch.push(PeerCommand::Consumed(link, bytes));
            }
            if !batch.commands.is_empty() {
                host.command_peers(batch.commands);
            }
        }
        self.effects.reuse(effects);
        host.on_executed(&self.replica);
    }

    pub(super) fn execute<H: ReplicaHost>(
        &mut self,
        now: Now,
        effect: ReplicaEffect,
        batch: &mut CommandBatch,
        host: &mut H,
    ) {
        match effect {
            ReplicaEffect::Log(log) => {
                let since = host.elapsed();
                host.push_log(LogWork::Batch(QueuedBatch { batch: log, since }));
            }
            ReplicaEffect::Disk(job) => push_disk_job(now, job, host),
            ReplicaEffect::Send(link, message) => batch.send(link, &message),
            ReplicaEffect::Notify(to, note) => batch.push(PeerCommand::Notify(to, note)),
            ReplicaEffect::Dial(leader) => batch.push(PeerCommand::Dial(leader)),
            ReplicaEffect::SendSnapshot(link) => {
                self.log_diff_reads.forget(link);
                batch.push(PeerCommand::Snapshot(link, host.state().freeze()));
                host.release_state();
            }
            ReplicaEffect::ReadLog(link, range) => {
                self.log_diff_reads.begin(link);
                host.search_log(link, range);
            }
            ReplicaEffect::SendLogDiff(link) => {
                let found = self.log_diff_reads.take(link);
                // Without the diff the link is closed: an announced DIFF must not be skipped.
                batch.push(found.map_or(PeerCommand::Close(link), |found| PeerCommand::LogDiff(link, found)));
            }
            ReplicaEffect::Close(link) => {
                self.forget(link, host);
                batch.push(PeerCommand::Close(link));
            }
            ReplicaEffect::Listen => batch.push(PeerCommand::Listen(true)),
            ReplicaEffect::ServeObservers => batch.push(PeerCommand::ServeObservers),
            ReplicaEffect::Looking | ReplicaEffect::StepDown(_) => batch.push(PeerCommand::Listen(false)),
            ReplicaEffect::ConfigProposed(ensemble) => on_config_proposed(ensemble, batch, host),
            ReplicaEffect::ActivateConfig { committed, proposed, .. } => {
                self.on_config_committed(now, committed, proposed, batch, host);
            }
        }
    }

    /// Handles a committed configuration.
    fn on_config_committed<H: ReplicaHost>(
        &self,
        now: Now,
        committed: Arc<Ensemble>,
        proposed: Option<Arc<Ensemble>>,
        batch: &mut CommandBatch,
        host: &mut H,
    ) {
        host.activate(&committed);
        if !self.replica.status().is_serving() {
            // A serving member applies it with its transaction, which also notifies its clients.
            show_config(host.write_state().state(), &committed, now.wall_ms);
        }
        host.push_log(LogWork::Config(ConfigChange::Committed(Arc::clone(&committed), proposed.clone())));
        batch.push(PeerCommand::Config(committed, proposed));
    }
}

/// Handles a new proposed configuration, or the withdrawal of one.
fn on_config_proposed<H: ReplicaHost>(ensemble: Arc<Ensemble>, batch: &mut CommandBatch, host: &mut H) {
    let Some(committed) = host.ensemble() else { return };
    let is_newer = committed.version() < ensemble.version();
    let change = if is_newer { ConfigChange::Proposed(Arc::clone(&ensemble)) } else { ConfigChange::Kept };
    host.push_log(LogWork::Config(change));
    batch.push(PeerCommand::Config(committed, is_newer.then_some(ensemble)));
}

fn push_disk_job<H: ReplicaHost>(now: Now, job: LogJob, host: &mut H) {
    let (job, snapshot) = match job {
        LogJob::AcceptedEpoch(epoch) => (DiskJob::AcceptedEpoch(epoch), None),
        LogJob::CurrentEpoch(epoch) => (DiskJob::CurrentEpoch(epoch), None),
        LogJob::Truncate(zxid) => (DiskJob::Truncate(zxid), None),
        LogJob::InitializeLog => (DiskJob::InitializeLog, None),
        LogJob::Install(snapshot) => {
            replace_state(now, *snapshot, host);
            let frozen = host.state().freeze();
            host.release_state();
            (DiskJob::Install(frozen.last_zxid()), Some(frozen))
        }
    };
    host.push_log(LogWork::Job(job, snapshot));
}
