//! The replica thread of a member: what other servers and the disk say goes in, what they shall do comes out.

use super::ReplicaLoop;
use super::journal::Journal;
use super::lookups::Lookups;
use crate::inbox::Input;
use crate::limits::{LINK_PIECE_BYTES, LINK_UNSAID_BYTES};
use crate::log_writer::{Job, Report};
use crate::member::show_config;
use crate::peers::{Command, Event, Heard, Orders, Packets};
use crate::reconfig::{ConfigChange, put_in_force};
use crate::shared::Shared;
use ox_proto::ServerId;
use ox_proto::ensemble::Ensemble;
use ox_replica::Now;
use ox_store::StoredHistory;
use ox_zab::{DiskJob, Effect, LinkId, LogDiffRange, Message, PeerState, Reason};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Packets of a link that are not taken yet, with the bytes that each batch holds.
#[derive(Default)]
struct Waiting {
    messages: VecDeque<Message>,
    batches: VecDeque<(usize, usize)>,
}

/// The way to other servers.
pub(super) struct PeerLines {
    orders: Arc<Orders>,
    waiting: BTreeMap<LinkId, Waiting>,
    lookups: Lookups<Box<StoredHistory>>,
    /// Bytes of packets that were dealt with, for the peers thread to know.
    consumed: BTreeMap<LinkId, usize>,
    journal: Journal,
}

impl PeerLines {
    pub(super) fn new(orders: Arc<Orders>, shared: Arc<Shared>) -> Self {
        let (waiting, consumed) = (BTreeMap::new(), BTreeMap::new());
        Self { orders, waiting, lookups: Lookups::default(), consumed, journal: Journal::new(shared) }
    }
}

impl ReplicaLoop {
    /// Takes in what the disk has done and what other servers say.
    pub(super) fn hear_peers(&mut self, now: Now, input: &mut Input) {
        let me = self.me();
        let Some(peers) = &mut self.peers else { return };
        input.durable.into_iter().for_each(|zxid| peers.journal.durable(me, zxid, now.wall_ms));
        for Report { done, state } in std::mem::take(&mut input.reports) {
            if let Some(state) = state {
                let mut shown = self.shared.state.write();
                *shown = *state;
                show_config(&self.shared, &mut shown);
            }
            self.replica.on_done(now, done);
        }
        input.config_stored.into_iter().for_each(|version| self.replica.on_config_stored(version));
        for event in std::mem::take(&mut input.peers) {
            self.hear(now, event);
        }
        for (from, Heard { note, config }) in std::mem::take(&mut input.heard) {
            config.into_iter().for_each(|config| self.replica.on_config(now, from, config));
            self.replica.on_notification(now, from, note);
        }
        self.take_packets(now);
        self.settle(now);
    }

    fn me(&self) -> ServerId {
        self.shared.config.member.as_ref().map_or(ServerId(0), |member| member.server)
    }

    fn hear(&mut self, now: Now, event: Event) {
        match event {
            Event::Election(server, link) => self.replica.on_election_link(now, server, link),
            Event::Dialed(leader, link) => self.replica.on_dialed(now, leader, link),
            Event::Linked(link) => self.replica.on_link(now, link),
            Event::CannotListen => self.replica.step_down(now, Reason::CannotListen),
            Event::Gone(link) => {
                self.take_packets(now); // what was said before it went counts
                self.forget(link);
                self.replica.on_link_gone(now, link);
            }
            Event::Progress(link, moved) => self.replica.on_traffic(now, link, moved),
            Event::Sent(link, bytes) => self.replica.on_sent(now, link, bytes),
            Event::LookedUp(link, below, mut found) => {
                let below = found.is_some().then_some(below);
                self.peers.iter_mut().for_each(|peers| peers.lookups.end(link, found.take()));
                self.replica.on_log_read(now, link, below);
            }
            Event::Loaded(link, state) => {
                self.take_packets(now);
                if self.replica.is_receiving_snapshot(link) {
                    self.replica.on_snapshot_received(now, *state);
                }
            }
            Event::Messages(link, messages, bytes) => {
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
            peers.lookups.forget(link);
            peers.consumed.remove(&link);
            peers.journal.gone(link);
        }
    }

    /// Gives the replica packets for as long as it takes them.
    fn take_packets(&mut self, now: Now) {
        let links: Vec<LinkId> = self.peers.iter().flat_map(|peers| peers.waiting.keys().copied()).collect();
        for link in links {
            while self.replica.takes_packets(link)
                && let Some(message) = self.next_packet(now, link)
            {
                self.replica.on_message(now, link, message);
                if self.replica.log_is_full() {
                    self.settle(now);
                }
            }
        }
    }

    fn next_packet(&mut self, now: Now, link: LinkId) -> Option<Message> {
        let PeerLines { waiting, consumed, journal, .. } = self.peers.as_mut()?;
        let waiting = waiting.get_mut(&link)?;
        let message = waiting.messages.pop_front()?;
        if let Some((left, bytes)) = waiting.batches.front_mut() {
            *left -= 1;
            if *left == 0 {
                *consumed.entry(link).or_default() += *bytes;
                waiting.batches.pop_front();
            }
        }
        journal.heard(link, &message, now.wall_ms);
        Some(message)
    }

    /// Does what the ensemble asks for.
    pub(super) fn settle(&mut self, now: Now) {
        if self.peers.is_none() {
            return;
        }
        if self.replica.is_unsettled() {
            let shared = Arc::clone(&self.shared);
            self.replica.settle(now, &shared.state.read(), &mut self.outboxes);
            self.post();
        }
        self.hand_over_log();
        self.perform(now);
        if let Some(peers) = &mut self.peers {
            peers.journal.look_at(&self.replica);
        }
    }

    /// Passes effects on: to the disk, and to the peers thread.
    pub(super) fn perform(&mut self, now: Now) {
        let effects = self.replica.take_effects();
        let unsaid = self.peers.iter().flat_map(|peers| peers.consumed.values()).sum::<usize>();
        if effects.is_empty() && unsaid < LINK_UNSAID_BYTES {
            return;
        }
        let me = self.me();
        let mut orders = Gathered::default();
        for effect in effects {
            let Some(PeerLines { journal, .. }) = &mut self.peers else { return };
            match effect {
                Effect::Send(link, message) => {
                    journal.says(link, &message, now.wall_ms);
                    orders.send(link, &message);
                }
                Effect::Notify(to, note) => orders.push(Command::Notify(to, note)),
                Effect::Dial(leader) => {
                    journal.elected(leader, self.replica.peer_state().unwrap_or(PeerState::Looking));
                    orders.push(Command::Dial(leader));
                }
                Effect::SendSnapshot(link) => {
                    journal.sends_state(link);
                    self.peers.iter_mut().for_each(|peers| peers.lookups.forget(link));
                    orders.push(Command::Snapshot(link, self.shared.state.read().freeze()));
                }
                Effect::ReadLog(link, search) => self.look_up(link, search),
                Effect::SendLogDiff(link) => {
                    let found = self.peers.as_mut().and_then(|peers| peers.lookups.take(link));
                    // Without it the link is gone, or has to go: what was announced must not be left out.
                    orders.push(found.map_or(Command::Close(link), |found| Command::Stored(link, found)));
                }
                Effect::Close(link) => {
                    self.forget(link);
                    orders.push(Command::Close(link));
                }
                Effect::Disk(job) => self.give_job(job),
                Effect::Listen => {
                    journal.elected(me, PeerState::Leading);
                    orders.push(Command::Listen(true));
                }
                Effect::ServeObservers => orders.push(Command::ServeObservers),
                Effect::Looking => {
                    journal.looking();
                    orders.push(Command::Listen(false));
                }
                Effect::StepDown(reason) => {
                    journal.left(&reason);
                    orders.push(Command::Listen(false));
                }
                Effect::ConfigProposed(ensemble) => {
                    self.see_config(ensemble).into_iter().for_each(|order| orders.push(order))
                }
                Effect::ActivateConfig(ensemble, _) => {
                    self.activate_config(&ensemble).into_iter().for_each(|order| orders.push(order));
                }
                Effect::Append(_) | Effect::Commit(_) | Effect::ApplyToSnapshot(_) | Effect::Established(_) => (),
                Effect::UpToDate(_) | Effect::FromLearner(..) | Effect::FromLeader(_) | Effect::Synced(_) => (),
            }
        }
        if let Some(peers) = &mut self.peers {
            let consumed = std::mem::take(&mut peers.consumed);
            consumed.into_iter().for_each(|(link, bytes)| orders.push(Command::Consumed(link, bytes)));
            peers.orders.give(orders.commands);
        }
    }

    /// Another configuration may follow, or none.
    fn see_config(&self, ensemble: Arc<Ensemble>) -> Option<Command> {
        let committed = self.shared.ensemble.read().clone()?;
        let is_newer = committed.version() < ensemble.version();
        self.log.push_config(if is_newer { ConfigChange::Proposed(Arc::clone(&ensemble)) } else { ConfigChange::Kept });
        Some(Command::Config(committed, is_newer.then_some(ensemble)))
    }

    /// A configuration is in force.
    fn activate_config(&self, ensemble: &Arc<Ensemble>) -> Option<Command> {
        put_in_force(&self.shared, ensemble, self.replica.is_serving());
        let pending =
            self.replica.as_peer()?.configs().proposed().filter(|pending| ensemble.version() < pending.version());
        let pending = pending.cloned();
        self.log.push_config(ConfigChange::Committed(Arc::clone(ensemble), pending.clone()));
        Some(Command::Config(Arc::clone(ensemble), pending))
    }

    /// Looks into the stored log, on a thread of its own: that may take a while.
    fn look_up(&mut self, link: LinkId, LogDiffRange { after, below, continues }: LogDiffRange) {
        self.peers.iter_mut().for_each(|peers| peers.lookups.begin(link));
        let shared = Arc::clone(&self.shared);
        let factor = shared.config.member.as_ref().map_or(-1.0, |member| member.snapshot_size_factor);
        let factor = if continues { f64::INFINITY } else { factor };
        let look = move || {
            let found = shared.store.history(after, below, factor).unwrap_or_else(|error| {
                tracing::warn!(%error, "the stored log cannot be read for a learner; it gets the state");
                None
            });
            shared.inbox.put(|input| input.peers.push(Event::LookedUp(link, below, found.map(Box::new))));
        };
        if let Err(error) = std::thread::Builder::new().name("history".to_owned()).spawn(look) {
            tracing::error!(%error, "cannot start a thread to read the log with");
            self.shared.inbox.put(|input| input.peers.push(Event::LookedUp(link, below, None)));
        }
    }

    fn give_job(&mut self, job: DiskJob) {
        let job = match job {
            DiskJob::AcceptedEpoch(epoch) => Job::AcceptedEpoch(epoch),
            DiskJob::CurrentEpoch(epoch) => Job::CurrentEpoch(epoch),
            DiskJob::Truncate(zxid) => Job::Truncate(zxid),
            DiskJob::InitializeLog => Job::Found,
            DiskJob::Install(_) => {
                let Some(staged) = self.replica.take_snapshot() else { return };
                let mut state = self.shared.state.write();
                *state = staged;
                show_config(&self.shared, &mut state);
                Job::Install(state.freeze())
            }
        };
        self.log.push_job(job);
    }
}

/// Orders in the making. Packets for a link go together, unless something else lies between them.
#[derive(Default)]
struct Gathered {
    commands: Vec<Command>,
    /// Where packets for a link can be added.
    open: Vec<(LinkId, usize)>,
}

impl Gathered {
    fn send(&mut self, link: LinkId, message: &Message) {
        let open = self.open.iter().find(|(of, _)| *of == link);
        let at = open.map_or(self.commands.len(), |(_, at)| *at);
        let is_full = |command: &Command| matches!(command, Command::Send(_, of) if LINK_PIECE_BYTES <= of.bytes.len());
        let at = if self.commands.get(at).is_some_and(is_full) { self.commands.len() } else { at };
        if at == self.commands.len() {
            self.open.retain(|(of, _)| *of != link);
            self.open.push((link, at));
            self.commands.push(Command::Send(link, Packets::default()));
        }
        if let Command::Send(_, packets) = &mut self.commands[at] {
            packets.put(message);
        }
    }

    fn push(&mut self, command: Command) {
        self.open.clear();
        self.commands.push(command);
    }
}
