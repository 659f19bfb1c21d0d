//! The replica thread of a member: input from other servers and the disk, and effects for both.
//!
//! It also replaces the state: by a leader's snapshot, when it passes that to the log thread for installation; and by
//! the state that the log thread has recovered after it truncated the log. To send a snapshot, it freezes the state for
//! `peers/link.rs`; to send a log diff, it starts the search of the on-disk log (`log_diff_reads.rs`).

use super::ReplicaLoop;
use super::log_diff_reads::LogDiffReads;
use super::role_log::RoleLog;
use crate::inbox::Input;
use crate::limits::{LINK_CHUNK_BYTES, LINK_CONSUMED_REPORT_BYTES};
use crate::member_setup::show_config;
use crate::peers::{LatestVote, Packets, PeerCommand, PeerCommands, PeerEvent};
use crate::reconfig::activate;
use crate::shared::Shared;
use ox_driver::config_change::ConfigChange;
use ox_driver::log_writer::LogWork;
use ox_driver::server_log::JobReport;
use ox_proto::ServerId;
use ox_proto::ensemble::Ensemble;
use ox_replica::Now;
use ox_store::LogDiff;
use ox_zab::{DiskJob, Effect, LinkId, LogDiffRange, Message, PeerState, Reason};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Packets of a link that the replica has not taken, with the bytes of each batch.
#[derive(Default)]
struct QueuedPackets {
    messages: VecDeque<Message>,
    batches: VecDeque<(usize, usize)>,
}

/// Communication with other servers.
pub(super) struct PeerChannel {
    commands: Arc<PeerCommands>,
    waiting: BTreeMap<LinkId, QueuedPackets>,
    log_diff_reads: LogDiffReads<Box<LogDiff>>,
    /// Bytes of processed packets that are not yet reported to the peers thread.
    consumed: BTreeMap<LinkId, usize>,
    role_log: RoleLog,
}

impl PeerChannel {
    pub(super) fn new(commands: Arc<PeerCommands>, shared: Arc<Shared>) -> Self {
        let (waiting, consumed) = (BTreeMap::new(), BTreeMap::new());
        Self { commands, waiting, log_diff_reads: LogDiffReads::default(), consumed, role_log: RoleLog::new(shared) }
    }
}

impl ReplicaLoop {
    /// Processes finished disk jobs, events of connections and notifications.
    pub(super) fn process_peer_input(&mut self, now: Now, input: &mut Input) {
        let me = self.me();
        let Some(peers) = &mut self.peers else { return };
        input.durable.into_iter().for_each(|zxid| peers.role_log.durable(me, zxid, now.wall_ms));
        for JobReport { done, state } in std::mem::take(&mut input.reports) {
            if let Some(state) = state {
                let mut shown = self.shared.state.write();
                *shown = *state;
                show_config(&self.shared, &mut shown);
            }
            self.replica.on_done(now, done);
        }
        input.config_stored.into_iter().for_each(|version| self.replica.on_config_stored(version));
        for event in std::mem::take(&mut input.peers) {
            self.on_peer_event(now, event);
        }
        for (from, LatestVote { note, config, config_version }) in std::mem::take(&mut input.votes) {
            self.peers.iter_mut().for_each(|peers| peers.role_log.notified(&self.replica, from, note, config_version));
            config.into_iter().for_each(|config| self.replica.on_config(now, from, config));
            self.replica.on_notification(now, from, note);
        }
        self.take_packets(now);
        self.process_effects(now);
    }

    fn me(&self) -> ServerId {
        self.shared.config.member.as_ref().map_or(ServerId(0), |member| member.server)
    }

    fn on_peer_event(&mut self, now: Now, event: PeerEvent) {
        match event {
            PeerEvent::Election(server, link) => self.replica.on_election_link(now, server, link),
            PeerEvent::Dialed(leader, link) => self.replica.on_dialed(now, leader, link),
            PeerEvent::LearnerConnected(link, address) => {
                self.peers.iter_mut().for_each(|peers| peers.role_log.connected(link, address));
                self.replica.on_link(now, link);
            }
            PeerEvent::CannotListen => self.replica.step_down(now, Reason::CannotListen),
            PeerEvent::LinkClosed(link) => {
                self.take_packets(now); // packets received before the end count
                self.forget(link);
                self.replica.on_link_gone(now, link);
            }
            PeerEvent::Progress(link, moved) => self.replica.on_traffic(now, link, moved),
            PeerEvent::Sent(link, bytes) => self.replica.on_sent(now, link, bytes),
            PeerEvent::LogDiffRead(link, below, mut found) => {
                let below = found.is_some().then_some(below);
                self.peers.iter_mut().for_each(|peers| peers.log_diff_reads.end(link, found.take()));
                self.replica.on_log_read(now, link, below);
            }
            PeerEvent::SnapshotLoaded(link, state) => {
                self.take_packets(now);
                if self.replica.is_receiving_snapshot(link) {
                    self.replica.on_snapshot_received(now, *state);
                }
            }
            PeerEvent::Messages(link, messages, bytes) => {
                if let Some(peers) = &mut self.peers {
                    let waiting = peers.waiting.entry(link).or_default();
                    waiting.batches.push_back((messages.len(), bytes));
                    waiting.messages.extend(messages);
                }
                self.take_packets(now);
            }
        }
    }

    fn forget(&mut self, link: LinkId) {
        if let Some(peers) = &mut self.peers {
            peers.waiting.remove(&link);
            peers.log_diff_reads.forget(link);
            peers.consumed.remove(&link);
            peers.role_log.link_closed(link);
        }
    }

    /// Passes packets to the replica for as long as it takes them.
    fn take_packets(&mut self, now: Now) {
        let links: Vec<LinkId> = self.peers.iter().flat_map(|peers| peers.waiting.keys().copied()).collect();
        for link in links {
            while self.replica.takes_packets(link)
                && let Some(message) = self.next_packet(now, link)
            {
                self.replica.on_message(now, link, message);
                if self.replica.log_is_full() {
                    self.process_effects(now);
                }
            }
        }
    }

    fn next_packet(&mut self, now: Now, link: LinkId) -> Option<Message> {
        let PeerChannel { waiting, consumed, role_log, .. } = self.peers.as_mut()?;
        let waiting = waiting.get_mut(&link)?;
        let message = waiting.messages.pop_front()?;
        if let Some((left, bytes)) = waiting.batches.front_mut() {
            *left -= 1;
            if *left == 0 {
                *consumed.entry(link).or_default() += *bytes;
                waiting.batches.pop_front();
            }
        }
        role_log.received(link, &message, now.wall_ms);
        Some(message)
    }

    /// Executes the effects of the quorum peer.
    pub(super) fn process_effects(&mut self, now: Now) {
        if self.peers.is_none() {
            return;
        }
        if self.replica.is_unsettled() {
            let shared = Arc::clone(&self.shared);
            self.replica.settle(now, &shared.state.read(), &mut self.outboxes);
            self.post();
        }
        self.hand_over_log();
        self.dispatch_effects(now);
        if let Some(peers) = &mut self.peers {
            peers.role_log.update(&self.replica);
        }
    }

    /// Passes effects to the log thread and to the peers thread.
    pub(super) fn dispatch_effects(&mut self, now: Now) {
        let effects = self.replica.take_effects();
        let suppressed = self.peers.iter().flat_map(|peers| peers.consumed.values()).sum::<usize>();
        if effects.is_empty() && suppressed < LINK_CONSUMED_REPORT_BYTES {
            return;
        }
        let me = self.me();
        let mut batch = CommandBatch::default();
        for effect in effects {
            let Some(PeerChannel { role_log, .. }) = &mut self.peers else { return };
            match effect {
                Effect::Send(link, message) => {
                    role_log.sending(&self.replica, link, &message, now.wall_ms);
                    batch.send(link, &message);
                }
                Effect::Notify(to, note) => batch.push(PeerCommand::Notify(to, note)),
                Effect::Dial(leader) => {
                    role_log.elected(leader, self.replica.peer_state().unwrap_or(PeerState::Looking));
                    batch.push(PeerCommand::Dial(leader));
                }
                Effect::SendSnapshot(link) => {
                    role_log.sending_snapshot(&self.replica, link);
                    self.peers.iter_mut().for_each(|peers| peers.log_diff_reads.forget(link));
                    batch.push(PeerCommand::Snapshot(link, self.shared.state.read().freeze()));
                }
                Effect::ReadLog(link, search) => self.read_log_diff(link, search),
                Effect::SendLogDiff(link) => {
                    let found = self.peers.as_mut().and_then(|peers| peers.log_diff_reads.take(link));
                    // Without the diff the link is closed: an announced DIFF must not be skipped.
                    batch.push(found.map_or(PeerCommand::Close(link), |found| PeerCommand::LogDiff(link, found)));
                }
                Effect::Close(link) => {
                    self.forget(link);
                    batch.push(PeerCommand::Close(link));
                }
                Effect::Disk(job) => {
                    if let DiskJob::CurrentEpoch(_) = job {
                        role_log.synchronising("");
                    }
                    self.push_disk_job(job);
                }
                Effect::Listen => {
                    role_log.elected(me, PeerState::Leading);
                    batch.push(PeerCommand::Listen(true));
                }
                Effect::ServeObservers => batch.push(PeerCommand::ServeObservers),
                Effect::Looking => {
                    role_log.looking(&self.replica);
                    batch.push(PeerCommand::Listen(false));
                }
                Effect::StepDown(reason) => {
                    role_log.stepped_down(&reason);
                    batch.push(PeerCommand::Listen(false));
                }
                Effect::ConfigProposed(ensemble) => {
                    self.config_proposed(ensemble).into_iter().for_each(|command| batch.push(command))
                }
                Effect::ActivateConfig(ensemble, _) => {
                    self.config_committed(&ensemble).into_iter().for_each(|command| batch.push(command));
                }
                Effect::Append(_) | Effect::Commit(_) | Effect::ApplyToSnapshot(_) | Effect::Established(_) => (),
                Effect::UpToDate(_) | Effect::FromLearner(..) | Effect::FromLeader(_) | Effect::Synced(_) => (),
            }
        }
        if let Some(peers) = &mut self.peers {
            let consumed = std::mem::take(&mut peers.consumed);
            consumed.into_iter().for_each(|(link, bytes)| batch.push(PeerCommand::Consumed(link, bytes)));
            peers.commands.send(batch.commands);
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
    fn config_committed(&self, ensemble: &Arc<Ensemble>) -> Option<PeerCommand> {
        activate(&self.shared, ensemble, self.replica.is_serving());
        let pending =
            self.replica.as_peer()?.configs().proposed().filter(|pending| ensemble.version() < pending.version());
        let pending = pending.cloned();
        self.log.push(LogWork::Config(ConfigChange::Committed(Arc::clone(ensemble), pending.clone())));
        Some(PeerCommand::Config(Arc::clone(ensemble), pending))
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

    fn push_disk_job(&mut self, job: DiskJob) {
        let mut snapshot = None;
        if let DiskJob::Install(_) = job {
            let Some(staged) = self.replica.take_snapshot() else { return };
            let mut state = self.shared.state.write();
            *state = staged;
            show_config(&self.shared, &mut state);
            snapshot = Some(state.freeze());
        }
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
