//! A member's part of the replica thread: what its peers say comes in, effects go out.

use super::log::Work;
use super::wire_end::{Plug, SlowRead};
use super::process::Process;
use super::unidentified::Connections;
use super::{Report, Track};
use crate::checkers::quorums::Agreed;
use crate::checkers::{Finding, sent_is_durable, configs, elections, leaders};
use crate::env::Env;
use crate::event::{Event, Job, Who};
use crate::faults::Fault;
use crate::net::WireId;
use crate::server::config::ConfigChange;
use crate::server::reference_log::Change;
use bytes::Bytes;
use ox_history::Time;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_proto::limits::FRAME_BYTES_MAX_DEFAULT;
use ox_store::snapshot::stream::{SnapshotReceiver, SnapshotSender};
use ox_store::{StoredHistory, Truncated};
use ox_tree::State;
use ox_zab::{
    DiskDone, DiskJob, Effect, Epoch, LearnerKind, Link, LinkId, Message, Moved, Notification, Origin, Peer, PeerState,
    Reason, Search, ServerId, Side,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What peers say and do.
pub(crate) enum PeerInput {
    Note(usize, Notification, Option<Arc<Ensemble>>),
    Election(usize, Link),
    /// A dial for the leader of this number has succeeded or failed.
    Dialed(usize, Option<WireId>),
    Link(WireId),
    /// An attacker opens so many connections to the quorum port.
    Flood(usize, Origin),
    Readable(WireId),
    /// A stored history was looked for.
    LookedUp(LinkId, Zxid, Option<Box<StoredHistory>>),
    /// What had to wait has gone out, or a part of a history.
    Progress(WireId),
    /// The sockets have taken packets, which count so much in a send window.
    Sent(WireId, usize),
    /// The sockets may take more.
    Writable(WireId),
    /// It cannot be used any more.
    Broken(WireId),
}

/// What a member has that a server alone has not.
#[derive(Default)]
pub(crate) struct Member {
    pub(crate) peers: VecDeque<PeerInput>,
    pub(crate) reports: VecDeque<Report>,
    pub(super) plugs: BTreeMap<WireId, Plug>,
    pub(crate) slow_read: SlowRead,
    pub(super) unidentified: Connections,
    pub(crate) is_listening: bool,
    /// The configuration in force, if that can change.
    pub(crate) ensemble: Option<Arc<Ensemble>>,
    /// Stored histories that are looked for.
    look_ups: BTreeMap<LinkId, Search>,
    pub(super) found: BTreeMap<LinkId, Box<StoredHistory>>,
    /// The epochs that leaders have named.
    pub(crate) asked: BTreeMap<LinkId, Epoch>,
    /// The epoch it was last seen leading.
    pub(crate) leads: Option<Epoch>,
    pub(crate) serves: bool,
    /// Since when it does, or does not.
    pub(crate) serves_since: Time,
    /// When each server was last heard on a wire.
    pub(crate) heard: BTreeMap<usize, Time>,
}

pub(crate) fn server_id(number: usize) -> ServerId {
    ServerId(i64::try_from(number).unwrap_or(0) + 1)
}

pub(crate) fn number(server: ServerId) -> usize {
    usize::try_from(server.0 - 1).unwrap_or(0)
}

fn link(wire: WireId) -> LinkId {
    LinkId(wire as u64)
}

pub(super) fn wire(link: LinkId) -> WireId {
    usize::try_from(link.0).unwrap_or(usize::MAX)
}

impl Process {
    /// Something has come from a peer.
    pub(crate) fn on_peer(&mut self, env: &mut Env, who: Who, input: PeerInput) {
        self.member.peers.push_back(input);
        self.wake_replica(env, who);
    }

    /// Takes what the disk has done.
    pub(super) fn take_report(&mut self, env: &mut Env, track: &mut Track, who: Who, report: Report) {
        let now = self.now(env);
        let Report { done, left } = report;
        env.note(format_args!("replica: the disk has done {done:?}"));
        if let Some(left) = left {
            self.state = *left;
            self.show_config(env);
        }
        self.replica.on_done(now, done);
        let wires: Vec<WireId> = self.member.plugs.keys().copied().collect();
        self.member.peers.extend(wires.into_iter().map(PeerInput::Readable));
        self.maybe_settle(env, track, who);
    }

    /// Takes one thing that a peer has said.
    pub(super) fn take_peer_input(&mut self, env: &mut Env, track: &mut Track, who: Who, input: PeerInput) {
        let now = self.now(env);
        self.expire_unidentified(env, who);
        match input {
            PeerInput::Note(from, note, config) => {
                env.note(format_args!("peer {}: {from} says {note:?}", who.server));
                if let Some(config) = config {
                    self.replica.on_config(now, server_id(from), config);
                }
                self.replica.on_notification(now, server_id(from), note);
            }
            PeerInput::Election(peer, link) => {
                env.note(format_args!("peer {}: {peer} is {link:?}", who.server));
                self.replica.on_election_link(now, server_id(peer), link);
            }
            PeerInput::Dialed(leader, None) => self.replica.on_dialed(now, server_id(leader), None),
            PeerInput::Dialed(leader, Some(wire)) => {
                self.plug(wire, Side::Leader);
                self.replica.on_dialed(now, server_id(leader), Some(link(wire)));
                self.member.peers.push_back(PeerInput::Readable(wire));
            }
            PeerInput::Link(wire) => {
                let leads = self.replica.peer_state() == Some(PeerState::Leading);
                env.marks.observed_followers += u64::from(!leads && self.replica.is_serving());
                self.plug(wire, Side::Learner);
                self.admit(env, who, wire);
                self.member.peers.push_back(PeerInput::Readable(wire));
            }
            PeerInput::Flood(count, origin) => self.flood(env, who, count, origin),
            PeerInput::Readable(wire) => self.read_wire(env, track, who, wire),
            PeerInput::LookedUp(link, below, found) => {
                env.note(format_args!("peer {}: looked for what {} lacks: {}", who.server, link.0, found.is_some()));
                let below = found.is_some().then_some(below);
                self.member.found.extend(found.map(|found| (link, found)));
                self.replica.on_looked_up(now, link, below);
            }
            PeerInput::Progress(wire) => self.replica.on_progress(now, link(wire), Moved::Went),
            PeerInput::Sent(wire, bytes) => self.replica.on_sent(now, link(wire), bytes),
            PeerInput::Writable(wire) => self.drain(env, who, wire, true),
            PeerInput::Broken(wire) => {
                self.unplug(env, who, wire);
                self.replica.on_link_gone(now, link(wire));
            }
        }
        self.maybe_settle(env, track, who);
    }

    fn plug(&mut self, wire: WireId, from: Side) {
        self.member.plugs.insert(wire, Plug::new(from));
    }

    /// Does what peers have asked for.
    pub(super) fn settle(&mut self, env: &mut Env) {
        if self.replica.is_unsettled() {
            let now = self.now(env);
            self.replica.settle(now, &self.state, &mut self.outboxes);
            self.proposed.push_back((self.replica.last_proposed(), env.now));
        }
    }

    /// Production acts upon one input, or upon many together.
    fn maybe_settle(&mut self, env: &mut Env, track: &mut Track, who: Who) {
        if env.dice.chance(env.plan.settle_per_mille) || self.replica.log_is_full() {
            self.settle(env);
            if env.dice.chance(500) {
                self.flush(env, track, who);
            }
        }
        self.look_at_role(env, track, who);
    }

    /// Reads some of what has arrived on a wire, and takes the packets that are taken now.
    fn read_wire(&mut self, env: &mut Env, track: &mut Track, who: Who, id: WireId) {
        let most = *env.dice.pick(&[7, 100, 64 << 10]);
        let now = self.now(env);
        let Some(plug) = self.member.plugs.get_mut(&id) else { return };
        let other = 1 - env.net.wires[id].side(who);
        let waits = plug.loading.is_none() && !self.replica.takes_packets(link(id));
        let is_full = waits && env.plan.held_bytes <= plug.input.len();
        let slow = Some(self.member.slow_read).filter(|slow| slow.is_on(env));
        let is_early = slow.is_some() && env.now < plug.reads_at;
        let most = if is_full || is_early { 0 } else { slow.map_or(most, |slow| slow.bytes.min(most)) };
        let bytes = env.wire_read(id, other, most);
        if !bytes.is_empty() {
            plug.input.extend_from_slice(&bytes);
            let is_identified = plug.is_identified;
            if let Some(SlowRead { pause_us, .. }) = slow {
                plug.reads_at = Time(env.now.0 + pause_us);
                env.plan_in(pause_us, Event::Ready(id, 1 - other));
            }
            if !is_identified {
                self.on_hello_bytes(env, who, id);
            }
            self.member.heard.insert(env.net.wires[id].ends[other].server, env.now);
            self.replica.on_progress(now, link(id), Moved::Came);
            if slow.is_none() && env.net.wires[id].pipes[other].has_bytes() {
                self.member.peers.push_back(PeerInput::Readable(id));
            }
        }
        while self.take_packet(env, track, who, id) {}
        // What was said before the end counts, but not what has to wait for the disk.
        if self.member.plugs.contains_key(&id) && env.net.wires[id].pipes[other].is_at_end() {
            self.unplug(env, who, id);
            self.replica.on_link_gone(now, link(id));
        }
    }

    pub(super) fn unplug(&mut self, env: &mut Env, who: Who, id: WireId) {
        self.forget_unidentified(id);
        self.member.found.remove(&link(id));
        if self.member.plugs.remove(&id).is_some() {
            env.wire_close(id, env.net.wires[id].side(who));
        }
    }

    /// Takes the next packet of a wire, or the next part of a state. False if there is none.
    fn take_packet(&mut self, env: &mut Env, track: &mut Track, who: Who, id: WireId) -> bool {
        let now = self.now(env);
        let Some(plug) = self.member.plugs.get_mut(&id) else { return false };
        if let Some((receiver, zxid)) = &mut plug.loading {
            let zxid = *zxid;
            let input = std::mem::take(&mut plug.input);
            match receiver.feed(&input) {
                Ok(None) => return false,
                Ok(Some(taken)) => {
                    plug.input = input[taken..].to_vec();
                    let (receiver, _) = plug.loading.take().expect("it was fed");
                    match receiver.finish(zxid) {
                        Ok(received) => {
                            env.note(format_args!("peer {}: has received a state at {zxid}", who.server));
                            env.marks.snapshots_received += 1;
                            self.replica.on_loaded(now, received.state);
                        }
                        Err(error) => Finding::new(crate::outcome::Kind::Link, error.to_string()).report(env),
                    }
                    return true;
                }
                Err(error) => Finding::new(crate::outcome::Kind::Link, error.to_string()).report(env),
            }
            return false;
        }
        if !self.replica.takes_packets(link(id)) {
            return false;
        }
        let chunk = Bytes::copy_from_slice(&plug.input);
        match plug.reader.next(&chunk, FRAME_BYTES_MAX_DEFAULT) {
            Ok(None) => false,
            Ok(Some((packet, length))) => {
                plug.input.drain(..length);
                let is_first = !std::mem::replace(&mut plug.is_identified, true);
                match Message::read(&packet, &chunk, plug.from) {
                    Ok(message) => {
                        if is_first {
                            self.replica.on_link(now, link(id));
                        }
                        if let Message::Snap(zxid) = message {
                            plug.loading = Some((SnapshotReceiver::new(crate::jobs::tree_options(&env.plan)), zxid));
                        }
                        if let Message::LeaderInfo(epoch) = message {
                            self.member.asked.insert(link(id), epoch);
                        }
                        if !matches!(message, Message::Ping(_) | Message::Pong(..)) {
                            env.note(format_args!("peer {}: gets {}", who.server, short(&message)));
                        }
                        self.replica.on_message(now, link(id), message);
                        if is_first {
                            self.forget_unidentified(id);
                        }
                        self.maybe_settle(env, track, who);
                    }
                    Err(error) => Finding::new(crate::outcome::Kind::Link, error.to_string()).report(env),
                }
                env.failure.is_none()
            }
            Err(error) => {
                Finding::new(crate::outcome::Kind::Link, error.to_string()).report(env);
                false
            }
        }
    }

    /// Ends a turn: what was made goes to the disk, what was decided is done.
    pub(super) fn flush(&mut self, env: &mut Env, track: &mut Track, who: Who) {
        loop {
            self.hand_over_log(env, track, who);
            let effects = self.replica.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                if let Err(finding) = sent_is_durable::check(self, env, track, who, &effect) {
                    return finding.report(env);
                }
                self.perform(env, track, who, effect);
            }
        }
    }

    fn perform(&mut self, env: &mut Env, track: &mut Track, who: Who, effect: Effect) {
        match effect {
            Effect::Notify(to, note) => {
                env.note(format_args!("peer {}: tells {to} {note:?}", who.server));
                env.notify(who.server, number(to), (note, self.member.ensemble.clone()));
            }
            Effect::Dial(leader) => {
                env.note(format_args!("peer {}: dials {leader}", who.server));
                let master = self.replica.as_peer().and_then(|peer| choose_master(env, peer, who));
                env.dial(who, number(leader), master);
            }
            Effect::Send(link, message) => {
                if !matches!(message, Message::Ping(_) | Message::Pong(..)) {
                    env.note(format_args!("peer {}: says {} on {}", who.server, short(&message), link.0));
                }
                self.send_message(env, who, wire(link), &message);
            }
            Effect::SendSnapshot(link) => {
                let sender = SnapshotSender::new(self.state.freeze());
                env.note(format_args!("peer {}: sends its state at {}", who.server, sender.last_zxid()));
                let mut bytes = Vec::new();
                Message::Snap(sender.last_zxid()).put(&mut bytes);
                for bytes in std::iter::once(bytes).chain(sender) {
                    self.send_history(env, who, wire(link), bytes);
                }
            }
            Effect::LookUp(link, search) => {
                env.marks.continued += u64::from(search.continues);
                self.member.look_ups.insert(link, search);
                let delay = self.thread_delay(env);
                env.plan_in(delay, Event::Job(Job::LookUp(who, link)));
            }
            Effect::SendStored(link) => self.send_stored(env, who, link),
            Effect::Close(link) => self.unplug(env, who, wire(link)),
            Effect::Disk(job) => self.give_job(env, track, who, job),
            Effect::Listen | Effect::ServeObservers => self.member.is_listening = true,
            Effect::Leave(reason) => {
                self.member.is_listening = false;
                env.note(format_args!("peer {}: leaves: {reason:?}", who.server));
                env.marks.roles_left += 1;
                env.marks.stalled_leaders += u64::from(reason == Reason::DiskStalled);
                env.marks.used_up_epochs += u64::from(reason == Reason::EpochUsedUp);
                env.marks.gave_way += u64::from(reason == Reason::NoRoom);
            }
            Effect::Looking => {
                env.note(format_args!("peer {}: looks for a leader", who.server));
                self.member.is_listening = false;
            }
            Effect::Seen(ensemble) => self.see_config(env, who, ensemble),
            Effect::Activate(ensemble, leader) => {
                env.note(format_args!("peer {}: {:x} is in force, {leader:?} leads", who.server, ensemble.version()));
                env.marks.configs += 1;
                self.activate(env, who, ensemble);
            }
            Effect::Append(_)
            | Effect::Commit(_)
            | Effect::Stage(_)
            | Effect::Established(_)
            | Effect::UpToDate(_)
            | Effect::FromLearner(..)
            | Effect::FromLeader(_)
            | Effect::Synced(_) => unreachable!("the replica does that"),
        }
    }

    /// A configuration is proposed, or a proposed one is withdrawn. Its voters that join may lose everything now.
    fn see_config(&mut self, env: &mut Env, who: Who, ensemble: Arc<Ensemble>) {
        let in_force = self.member.ensemble.as_ref().map_or(0, |ensemble| ensemble.version());
        let is_newer = in_force < ensemble.version();
        let leads = self.replica.peer_state() == Some(PeerState::Leading);
        if is_newer && leads && env.dice.chance(env.plan.empty_joiner_per_mille) && !env.is_healed {
            let delay = env.dice.between(0, 20_000);
            env.plan_in(delay, Event::Fault(Fault::EmptyJoiner));
        }
        let change = if is_newer { ConfigChange::Proposed(ensemble) } else { ConfigChange::Kept };
        self.write_config(env, who, change);
    }

    /// Puts the configuration where clients can read it.
    pub(crate) fn show_config(&mut self, env: &Env) {
        let now = self.now(env);
        if let Some(ensemble) = &self.member.ensemble {
            self.state.set_config(&ensemble.to_string(), ensemble.version(), now.wall_ms);
        }
    }

    /// A configuration is in force from now on.
    fn activate(&mut self, env: &mut Env, who: Who, ensemble: Arc<Ensemble>) {
        if let Err(finding) = configs::check(env, &ensemble) {
            return finding.report(env);
        }
        self.member.ensemble = Some(Arc::clone(&ensemble));
        if !self.replica.is_serving() {
            self.show_config(env); // who serves gets it with its transaction, and its clients the event
        }
        let pending = self.replica.as_peer().and_then(|peer| peer.configs().pending());
        let pending = pending.filter(|pending| ensemble.version() < pending.version()).cloned();
        self.write_config(env, who, ConfigChange::Committed(ensemble, pending));
    }

    fn write_config(&mut self, env: &mut Env, who: Who, change: ConfigChange) {
        self.log_queue.push_back(Work::Config(change));
        self.wake_log(env, who);
    }

    /// What a learner lacks, as far as it is still asked for.
    pub(crate) fn take_look_up(&mut self, link: LinkId) -> Option<Search> {
        self.member.look_ups.remove(&link)
    }

    fn give_job(&mut self, env: &mut Env, track: &mut Track, who: Who, job: DiskJob) {
        env.note(format_args!("peer {}: {job:?}", who.server));
        let mut frozen = None;
        if let DiskJob::Install(_) = job {
            self.state = self.replica.take_staged().expect("a state was staged");
            self.show_config(env);
            frozen = Some(self.state.freeze());
        }
        track.begin(job);
        self.log_queue.push_back(Work::Job(job, frozen));
        self.wake_log(env, who);
    }

    /// Looks whether this server leads, or serves, since a moment ago.
    pub(super) fn look_at_role(&mut self, env: &mut Env, track: &Track, who: Who) {
        let Some(peer) = self.replica.as_peer() else { return };
        let leads = peer.leader().filter(|leader| leader.is_established()).and_then(ox_zab::Leader::epoch);
        if leads != self.member.leads {
            self.member.leads = leads;
            if let Some(epoch) = leads {
                env.note(format_args!("peer {}: leads epoch {epoch}", who.server));
                env.marks.leaders += 1;
                let judged = leaders::check(env, track, who, epoch).and_then(|()| elections::check(env, who));
                if let Err(finding) = judged {
                    return finding.report(env);
                }
                env.agreed.push(Agreed::Leader(who, epoch, peer.configs().quorums().committed.clone()));
            }
        }
        let serves = self.replica.is_serving();
        let has_changed = serves != std::mem::replace(&mut self.member.serves, serves);
        if has_changed {
            self.member.serves_since = env.now;
        }
        if has_changed && serves {
            let last = self.state.last_zxid();
            env.note(format_args!("peer {}: serves at {last} as {:?}", who.server, self.replica.peer_state()));
            // Who is established late, behind a later leader, decides about nobody.
            let is_last = env.leaders.last_key_value().is_some_and(|(_, leader)| *leader == who);
            if self.replica.peer_state() == Some(PeerState::Leading) && is_last {
                env.history.starts.push(env.now);
            }
            self.show(env);
        }
    }

    /// The state is shown to whoever asks.
    pub(super) fn show(&self, env: &mut Env) {
        let (last, now, before) = (self.state.last_zxid(), env.now, env.journal.shown);
        if let Err(finding) = env.journal.show(last, now) {
            return finding.report(env);
        }
        if before < last
            && let Some(peer) = self.replica.as_peer()
        {
            env.agreed.push(Agreed::Shown(last, peer.configs().quorums().committed.clone()));
        }
    }
}

/// The server that an observer connects to in place of the leader, whether it serves observers or not.
fn choose_master(env: &mut Env, peer: &Peer, who: Who) -> Option<usize> {
    let observes = peer.configs().kind_of(server_id(who.server)) == LearnerKind::Observer;
    if !observes || !env.plan.observer_masters || env.dice.chance(250) {
        return None;
    }
    let voters: Vec<usize> = peer.configs().committed().voters().map(number).collect();
    Some(*env.dice.pick(&voters))
}

fn short(message: &Message) -> String {
    let mut text = format!("{message:?}");
    text.truncate(text.floor_char_boundary(100));
    text
}

impl Track {
    /// A job is given to the disk.
    fn begin(&mut self, job: DiskJob) {
        let number = |epoch: Epoch| u32::try_from(epoch.0).unwrap_or(0);
        match job {
            DiskJob::AcceptedEpoch(epoch) => self.epochs_begun.accepted = number(epoch),
            DiskJob::CurrentEpoch(epoch) => self.epochs_begun.current = number(epoch),
            DiskJob::Truncate(zxid) => self.change = Change::Truncate(zxid),
            DiskJob::Install(zxid) => self.change = Change::Install(zxid),
            DiskJob::Found => (),
        }
    }

    /// The disk has reported a job.
    pub(crate) fn done(&mut self, done: DiskDone, journal: &super::Journal) {
        match done {
            DiskDone::AcceptedEpoch(_) => self.epochs.accepted = self.epochs_begun.accepted,
            DiskDone::CurrentEpoch(_) => self.epochs.current = self.epochs_begun.current,
            DiskDone::Truncated(end) => {
                self.change = Change::None;
                if let Some(end) = end {
                    self.last = journal.cut(self.last, end);
                    self.synced = self.synced.min(self.last);
                }
            }
            DiskDone::Installed(zxid) => {
                self.change = Change::None;
                (self.last, self.synced) = (zxid, zxid);
            }
            DiskDone::Founded => (),
        }
    }
}

/// What a truncation reports, and the state that is left.
pub(crate) fn truncated(outcome: Truncated) -> (DiskDone, Option<Box<State>>) {
    match outcome {
        Truncated::Done(loaded) | Truncated::Short(loaded) => {
            (DiskDone::Truncated(Some(loaded.state.last_zxid())), Some(Box::new(loaded.state)))
        }
        Truncated::NotPossible(_) => (DiskDone::Truncated(None), None),
    }
}
