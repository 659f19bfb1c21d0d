//! The replica thread of a member: input from other servers and the disk, and effects for both.
//!
//! It also replaces the state: by a leader's snapshot, when it passes that to the log thread for installation; and by
//! the state that the log thread has recovered after it truncated the log. To send a snapshot, it freezes the state for
//! `ox-driver/src/links.rs`; to send a log diff, it starts the search of the on-disk log (`log_diff_reads.rs`).

use super::ReplicaLoop;
use super::log_diff_reads::LogDiffReads;
use super::role_log::RoleLog;
use super::state_lock::StateLock;
use crate::inbox::Input;
use crate::limits::{LINK_CHUNK_BYTES, LINK_CONSUMED_REPORT_BYTES};
use crate::member_setup::show_config;
use crate::peers::{LatestVote, PeerCommand, PeerCommands, PeerEvent};
use crate::reconfig::activate;
use crate::shared::Shared;
use ox_driver::config_change::ConfigChange;
use ox_driver::links::{HeldPackets, LinkEvent, Packets};
use ox_driver::log_writer::LogWork;
use ox_driver::server_log::JobReport;
use ox_proto::ensemble::Ensemble;
use ox_replica::{LogJob, Now, ReplicaEffect, ReplicaInput};
use ox_store::LogDiff;
use ox_zab::{DiskJob, Input as PeerInput, LinkId, LogDiffRange, Message, Reason};
use std::sync::Arc;

/// Communication with other servers.
pub(super) struct PeerChannel {
    commands: Arc<PeerCommands>,
    held: HeldPackets,
    log_diff_reads: LogDiffReads<Box<LogDiff>>,
    role_log: RoleLog,
}

impl PeerChannel {
    pub(super) fn new(commands: Arc<PeerCommands>, shared: Arc<Shared>) -> Self {
        let (held, log_diff_reads) = (HeldPackets::default(), LogDiffReads::default());
        Self { commands, held, log_diff_reads, role_log: RoleLog::new(shared) }
    }
}

impl ReplicaLoop {
    /// Processes finished disk jobs, events of connections and notifications.
    pub(super) fn process_peer_input(&mut self, now: Now, input: &mut Input, lock: &mut StateLock<'_>) {
        let Some(peers) = &mut self.peers else { return };
        input.durable.into_iter().for_each(|zxid| peers.role_log.durable(zxid, now.wall_ms));
        for JobReport { done, state } in std::mem::take(&mut input.reports) {
            if let Some(state) = state {
                lock.release();
                let mut shown = self.shared.state.write();
                *shown = *state;
                show_config(&self.shared, &mut shown);
            }
            self.pass(now, ReplicaInput::Done(done), lock);
        }
        if let Some(version) = input.config_stored {
            self.pass(now, ReplicaInput::ConfigStored(version), lock);
        }
        for event in std::mem::take(&mut input.peers) {
            self.on_peer_event(now, event, lock);
        }
        for (from, LatestVote { note, config, config_version }) in std::mem::take(&mut input.votes) {
            self.peers.iter_mut().for_each(|peers| peers.role_log.notified(&self.replica, from, note, config_version));
            if let Some(config) = config {
                self.pass(now, ReplicaInput::Peer(PeerInput::Config(from, config)), lock);
            }
            self.pass(now, ReplicaInput::Peer(PeerInput::Notification(from, note)), lock);
        }
        self.take_packets(now, lock);
        self.flush(now, lock);
        self.post();
    }

    fn on_peer_event(&mut self, now: Now, event: PeerEvent, lock: &mut StateLock<'_>) {
        let input = ReplicaInput::Peer(match event {
            PeerEvent::Election(server, link) => PeerInput::ElectionLink(server, link),
            PeerEvent::Dialed(leader, link) => {
                self.open(link);
                PeerInput::Dialed(leader, link)
            }
            PeerEvent::LearnerConnected(link, address) => {
                self.open(Some(link));
                self.peers.iter_mut().for_each(|peers| peers.role_log.connected(link, address));
                PeerInput::LinkOpened(link)
            }
            PeerEvent::CannotListen => PeerInput::StepDown(Reason::CannotListen),
            PeerEvent::Link(LinkEvent::Closed(link)) => {
                self.take_packets(now, lock); // packets received before the end count
                self.forget(link);
                return self.pass(now, ReplicaInput::LinkClosed(link), lock);
            }
            PeerEvent::Link(LinkEvent::Progress(link, moved)) => PeerInput::Traffic(link, moved),
            PeerEvent::Link(LinkEvent::Sent(link, bytes)) => PeerInput::Sent(link, bytes),
            PeerEvent::LogDiffRead(link, below, found) => {
                let below = found.is_some().then_some(below);
                if let Some(peers) = &mut self.peers {
                    peers.log_diff_reads.end(link, found);
                }
                PeerInput::LogRead(link, below)
            }
            PeerEvent::SnapshotLoaded(link, state) => {
                self.take_packets(now, lock);
                return self.pass(now, ReplicaInput::SnapshotReceived(link, state), lock);
            }
            PeerEvent::Link(LinkEvent::Messages(link, messages, bytes)) => {
                if let Some(peers) = &mut self.peers {
                    peers.held.add(link, messages, bytes);
                }
                return self.take_packets(now, lock);
            }
        });
        self.pass(now, input, lock);
    }

    fn open(&mut self, link: Option<LinkId>) {
        if let (Some(peers), Some(link)) = (&mut self.peers, link) {
            peers.held.open(link);
        }
    }

    fn forget(&mut self, link: LinkId) {
        if let Some(peers) = &mut self.peers {
            peers.held.forget(link);
            peers.log_diff_reads.forget(link);
            peers.role_log.link_closed(link);
        }
    }

    /// Passes packets to the replica for as long as it takes them.
    fn take_packets(&mut self, now: Now, lock: &mut StateLock<'_>) {
        let links = self.peers.as_ref().map_or(Vec::new(), |peers| peers.held.links());
        for link in links {
            while self.replica.takes_packets(link)
                && let Some(message) = self.next_packet(now, link)
            {
                self.pass(now, ReplicaInput::Packet(link, message), lock);
                if self.effects.has_log() {
                    self.execute_effects(now, lock);
                }
            }
        }
    }

    fn next_packet(&mut self, now: Now, link: LinkId) -> Option<Message> {
        let PeerChannel { held, role_log, .. } = self.peers.as_mut()?;
        let message = held.next(link)?;
        role_log.received(link, &message, now.wall_ms);
        Some(message)
    }

    /// Passes effects to the log thread and to the peers thread.
    pub(super) fn execute_effects(&mut self, now: Now, lock: &mut StateLock<'_>) {
        lock.release();
        let mut effects = self.effects.take();
        let unreported = self.peers.as_ref().map_or(0, |peers| peers.held.unreported_bytes());
        if !effects.is_empty() || LINK_CONSUMED_REPORT_BYTES <= unreported {
            let mut batch = CommandBatch::default();
            for effect in effects.drain(..) {
                if let Some(peers) = &mut self.peers {
                    peers.role_log.on_effect(&self.replica, &effect, now.wall_ms);
                }
                self.execute(effect, &mut batch);
            }
            if let Some(peers) = &mut self.peers {
                let consumed = peers.held.take_consumed();
                consumed.into_iter().for_each(|(link, bytes)| batch.push(PeerCommand::Consumed(link, bytes)));
                peers.commands.send(batch.commands);
            }
        }
        self.effects.reuse(effects);
        if let Some(peers) = &mut self.peers {
            peers.role_log.update(&self.replica);
        }
    }

    fn execute(&mut self, effect: ReplicaEffect, batch: &mut CommandBatch) {
        match effect {
            ReplicaEffect::Log(log) => self.push_log(log),
            ReplicaEffect::Disk(job) => self.push_disk_job(job),
            ReplicaEffect::Send(link, message) => batch.send(link, &message),
            ReplicaEffect::Notify(to, note) => batch.push(PeerCommand::Notify(to, note)),
            ReplicaEffect::Dial(leader) => batch.push(PeerCommand::Dial(leader)),
            ReplicaEffect::SendSnapshot(link) => {
                self.peers.iter_mut().for_each(|peers| peers.log_diff_reads.forget(link));
                batch.push(PeerCommand::Snapshot(link, self.shared.state.read().freeze()));
            }
            ReplicaEffect::ReadLog(link, search) => self.read_log_diff(link, search),
            ReplicaEffect::SendLogDiff(link) => {
                let found = self.peers.as_mut().and_then(|peers| peers.log_diff_reads.take(link));
                // Without the diff the link is closed: an announced DIFF must not be skipped.
                batch.push(found.map_or(PeerCommand::Close(link), |found| PeerCommand::LogDiff(link, found)));
            }
            ReplicaEffect::Close(link) => {
                self.forget(link);
                batch.push(PeerCommand::Close(link));
            }
            ReplicaEffect::Listen => batch.push(PeerCommand::Listen(true)),
            ReplicaEffect::ServeObservers => batch.push(PeerCommand::ServeObservers),
            ReplicaEffect::Looking | ReplicaEffect::StepDown(_) => batch.push(PeerCommand::Listen(false)),
            ReplicaEffect::ConfigProposed(ensemble) => {
                self.config_proposed(ensemble).into_iter().for_each(|command| batch.push(command));
            }
            ReplicaEffect::ActivateConfig { committed, proposed, .. } => {
                batch.push(self.config_committed(committed, proposed));
            }
        }
    }

    /// Handles a new proposed configuration, or the withdrawal of one.
    fn config_proposed(&self, ensemble: Arc<Ensemble>) -> Option<PeerCommand> {
        let committed = self.shared.ensemble.read().clone()?;
        let is_newer = committed.version() < ensemble.version();
        let change = if is_newer { ConfigChange::Proposed(Arc::clone(&ensemble)) } else { ConfigChange::Kept };
        self.log.push(LogWork::Config(change));
        Some(PeerCommand::Config(committed, is_newer.then_some(ensemble)))
    }

    /// Handles a committed configuration.
    fn config_committed(&self, committed: Arc<Ensemble>, proposed: Option<Arc<Ensemble>>) -> PeerCommand {
        activate(&self.shared, &committed, self.replica.status().is_serving());
        self.log.push(LogWork::Config(ConfigChange::Committed(Arc::clone(&committed), proposed.clone())));
        PeerCommand::Config(committed, proposed)
    }

    /// Searches the on-disk log, on a separate thread because that may take long.
    fn read_log_diff(&mut self, link: LinkId, LogDiffRange { after, below, continues }: LogDiffRange) {
        self.peers.iter_mut().for_each(|peers| peers.log_diff_reads.begin(link));
        let shared = Arc::clone(&self.shared);
        let factor = shared.config.member.as_ref().map_or(-1.0, |member| member.snapshot_size_factor);
        let factor = if continues { f64::INFINITY } else { factor };
        let look = move || {
            let found = shared.store.log_diff(after, below, factor).unwrap_or_else(|error| {
                tracing::warn!(%error, "sending a snapshot to a learner: cannot read the on-disk log");
                None
            });
            shared.inbox.put(|input| input.peers.push(PeerEvent::LogDiffRead(link, below, found.map(Box::new))));
        };
        if let Err(error) = std::thread::Builder::new().name("history".to_owned()).spawn(look) {
            tracing::error!(%error, "cannot start a thread to read the log");
            self.shared.inbox.put(|input| input.peers.push(PeerEvent::LogDiffRead(link, below, None)));
        }
    }

    fn push_disk_job(&self, job: LogJob) {
        let (job, snapshot) = match job {
            LogJob::AcceptedEpoch(epoch) => (DiskJob::AcceptedEpoch(epoch), None),
            LogJob::CurrentEpoch(epoch) => (DiskJob::CurrentEpoch(epoch), None),
            LogJob::Truncate(zxid) => (DiskJob::Truncate(zxid), None),
            LogJob::InitializeLog => (DiskJob::InitializeLog, None),
            LogJob::Install(snapshot) => {
                let mut state = self.shared.state.write();
                *state = *snapshot;
                show_config(&self.shared, &mut state);
                (DiskJob::Install(state.last_zxid()), Some(state.freeze()))
            }
        };
        self.log.push(LogWork::Job(job, snapshot));
    }
}

/// Commands being collected. Packets for a link go together, unless another command is in between.
#[derive(Default)]
struct CommandBatch {
    commands: Vec<PeerCommand>,
    /// Index of the `Send` command that takes further packets of a link.
    open: Vec<(LinkId, usize)>,
}

impl CommandBatch {
    fn send(&mut self, link: LinkId, message: &Message) {
        let open = self.open.iter().find(|(of, _)| *of == link);
        let at = open.map_or(self.commands.len(), |(_, at)| *at);
        let is_full =
            |command: &PeerCommand| matches!(command, PeerCommand::Send(_, of) if LINK_CHUNK_BYTES <= of.bytes.len());
        let at = if self.commands.get(at).is_some_and(is_full) { self.commands.len() } else { at };
        if at == self.commands.len() {
            self.open.retain(|(of, _)| *of != link);
            self.open.push((link, at));
            self.commands.push(PeerCommand::Send(link, Packets::default()));
        }
        if let PeerCommand::Send(_, packets) = &mut self.commands[at] {
            packets.put(message);
        }
    }

    fn push(&mut self, command: PeerCommand) {
        self.open.clear();
        self.commands.push(command);
    }
}
