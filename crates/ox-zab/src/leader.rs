//! A leader: agrees on an epoch with a quorum, gives everybody its history, then orders and commits.
//!
//! ```text
//!   gathering ─quorum of hellos─► promising ─► acking ─quorum of promises─► settling ─► presenting ─quorum of acks─► established
//!                                  (disk)                                    (disk)
//! ```
//! Nothing is told that the disk does not know: the epoch is durable before it is announced, the history before it is
//! counted. Who is ahead of this leader is turned away; who has promised more makes it step down in the end.

mod learner_handler;
mod pending_syncs;
mod reconfig;

use crate::broadcast::Broadcast;
use crate::config_pair::Configs;
use crate::context::Context;
use crate::effect::{DiskDone, DiskJob, Effect, Effects, LinkId, Reason, Search};
use crate::epoch::{Epoch, Epochs};
use crate::learner_stream::{Committed, Pumped};
use crate::learner_sync::{Given, Lack, Reach};
use crate::liveness::Moved;
use crate::message::{LearnerKind, Message, Txn};
use crate::options::PeerOptions;
use crate::timing::{Timing, Wait};
use bytes::Bytes;
use learner_handler::{Awaited, Link, Stage};
use ox_proto::ServerId;
use ox_proto::Zxid;
use pending_syncs::Syncs;
use reconfig::HandOver;
use std::collections::{BTreeMap, BTreeSet};

/// How far the promise of a server that nobody knows may be ahead.
const STRANGERS_JUMP_MAX: i64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Hellos of a quorum are awaited.
    Gathering,
    /// The own promise is on its way to the disk.
    Promising,
    /// Promises of a quorum are awaited.
    Acking,
    /// The own history is made that of the epoch.
    Settling,
    /// Acknowledgements of the history are awaited.
    Presenting,
    /// Writes are ordered.
    Established,
}

/// What a leader brings along.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its number.
    pub server: ServerId,
    /// What its disk remembers.
    pub epochs: Epochs,
    /// The highest epoch that a voter is known to have accepted.
    pub known: Epoch,
    /// How many observers are served at a time.
    pub options: PeerOptions,
}

/// A server that was elected.
#[derive(Debug)]
pub struct Leader {
    me: Candidate,
    timing: Timing,
    configs: Configs,
    phase: Phase,
    /// The epoch, or the lowest that it can be while it is not fixed.
    epoch: Epoch,
    /// The end of the history it was elected with.
    initial: Zxid,
    links: BTreeMap<LinkId, Link>,
    introduced: BTreeSet<ServerId>,
    promised: BTreeSet<ServerId>,
    synced: BTreeSet<ServerId>,
    order: Broadcast,
    /// Up to here learners may be told of commits.
    told: Zxid,
    /// Transactions that have activated a configuration, with the leader from then on, until all learners know.
    activations: BTreeMap<Zxid, ServerId>,
    /// Where the state is.
    applied: Zxid,
    syncs: Syncs,
    ping_at_ms: i64,
    began_ms: i64,
    /// For the next step towards being established. That learners come and go is none.
    progress: Wait,
    own_awaited: Awaited,
    /// Since when voters have been coming that have accepted a higher epoch.
    knocked_ms: Option<i64>,
    /// The highest of these epochs.
    highest: Epoch,
    /// A configuration names somebody else.
    hand_over: Option<HandOver>,
    /// Voters that had elected this leader, and look for another one.
    deserters: BTreeSet<ServerId>,
}

impl Leader {
    /// A leader whose history ends at the last transaction of `cx.history`; its state is at `applied`.
    pub fn new(me: Candidate, timing: Timing, configs: Configs, applied: Zxid, cx: &mut Context<'_>) -> Self {
        let initial = cx.history.last();
        let mut leader = Self {
            epoch: me.epochs.accepted.max(me.known).next(),
            order: Broadcast::new(configs.quorums().committed.clone(), initial),
            timing,
            phase: Phase::Gathering,
            initial,
            links: BTreeMap::new(),
            introduced: BTreeSet::from([me.server]),
            promised: BTreeSet::new(),
            synced: BTreeSet::new(),
            told: initial,
            activations: BTreeMap::new(),
            applied,
            syncs: Syncs::default(),
            ping_at_ms: cx.now_ms + timing.ping_ms(),
            began_ms: cx.now_ms,
            progress: Wait::new(cx.now_ms),
            own_awaited: None,
            knocked_ms: None,
            highest: me.known,
            hand_over: None,
            deserters: BTreeSet::new(),
            me,
            configs,
        };
        leader.count_introduced(cx);
        leader
    }

    /// Whether writes can be ordered.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// The epoch, once it is fixed.
    pub fn epoch(&self) -> Option<Epoch> {
        (Phase::Gathering < self.phase).then_some(self.epoch)
    }

    /// Since when hellos of a quorum are awaited, if they are.
    pub fn gathers_since_ms(&self) -> Option<i64> {
        (self.phase == Phase::Gathering).then_some(self.began_ms)
    }

    /// A voter that had elected this leader looks for another one. Returns whether too few are left to be established
    /// with: those that have come, are connected, or can still be expected because they have elected it too.
    pub(crate) fn is_deserted_by(&mut self, server: ServerId, has_elected: impl Fn(ServerId) -> bool) -> bool {
        self.deserters.insert(server);
        let has_come = match self.phase {
            Phase::Gathering => &self.introduced,
            Phase::Promising | Phase::Acking => &self.promised,
            Phase::Settling | Phase::Presenting => &self.synced,
            Phase::Established => return false,
        };
        !self.configs.quorums().may_elect(|server| has_come.contains(&server) || self.may_come(server, &has_elected))
    }

    /// Whether this server can still be expected to take part.
    fn may_come(&self, server: ServerId, has_elected: impl Fn(ServerId) -> bool) -> bool {
        let is_linked = |server| self.links.values().any(|link| link.server == server && link.is_follower());
        let is_expected = is_linked(server) || has_elected(server);
        server == self.me.server || (is_expected && !self.deserters.contains(&server))
    }

    /// Whether this leader cannot be established because voters have accepted a higher epoch than its own: without them, those
    /// that have synchronised, are connected, or have elected it are no quorum.
    pub(crate) fn is_outbid(&self, has_elected: impl Fn(ServerId) -> bool) -> bool {
        let may_agree = |server| self.synced.contains(&server) || self.may_come(server, &has_elected);
        self.knocked_ms.is_some() && !self.is_established() && !self.configs.quorums().are_reached(may_agree)
    }

    /// The highest epoch that voters have accepted, as far as it is above this leader's.
    pub(crate) fn highest_accepted(&self) -> Epoch {
        self.highest
    }

    /// Whether a server is connected as a follower.
    pub(crate) fn has_follower(&self, server: ServerId) -> bool {
        self.links.values().any(|link| link.server == server && Stage::Unknown < link.stage && link.is_follower())
    }

    /// The zxid of the next proposal; none when the epoch has no more, and the leader leaves.
    pub fn next(&self) -> Option<Zxid> {
        Epoch::next_zxid(self.order.last_proposed())
    }

    /// The last proposal.
    pub fn last_proposed(&self) -> Zxid {
        self.order.last_proposed()
    }

    /// Everything up to here is agreed on.
    pub fn committed(&self) -> Zxid {
        self.order.committed()
    }

    /// Learners that have introduced themselves: who, as what, and whether they take part.
    pub fn learners(&self) -> impl Iterator<Item = (ServerId, LearnerKind, bool)> {
        let known = self.links.values().filter(|link| Stage::Unknown < link.stage);
        known.map(|link| (link.server, link.kind, link.stage == Stage::Active))
    }

    /// Whether a server votes.
    pub fn is_voter(&self, server: ServerId) -> bool {
        self.configs.quorums().is_voter(server)
    }

    /// Whether enough voters take part to go on without this leader. All of them have what it has, as far as that is
    /// agreed on.
    pub(crate) fn can_be_replaced(&self) -> bool {
        let takes_part = |server: ServerId| {
            let is_it = |link: &Link| link.server == server && link.stage == Stage::Active && link.is_follower();
            server != self.me.server && self.links.values().any(is_it)
        };
        self.is_established() && !self.is_leaving() && self.configs.quorums().are_reached(takes_part)
    }

    /// Syncs that wait for an answer.
    pub fn pending_syncs(&self) -> usize {
        self.syncs.len()
    }

    /// When [`Self::on_time`] wants to be called.
    pub fn deadline(&self) -> i64 {
        self.ping_at_ms
    }

    /// All learners that are connected.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        self.links.keys().copied()
    }

    /// A learner has connected.
    pub fn on_link(&mut self, cx: &Context<'_>, id: LinkId) {
        self.links.insert(id, Link::new(cx.now_ms, self.me.options.learner_window_bytes));
    }

    /// A learner is gone. That it has promised stays true; what it has acknowledged too, until it is given its history
    /// anew.
    pub fn on_link_gone(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    /// Bytes have gone to a learner, or come from it. To give away much history takes its time.
    pub fn on_progress(&mut self, now_ms: i64, id: LinkId, moved: Moved) {
        if let Some(link) = self.links.get_mut(&id) {
            let is_given_history = link.is_given_history();
            if moved.is_sign_of_life(is_given_history) {
                link.silence = Wait::new(now_ms);
                if is_given_history {
                    self.progress = Wait::new(now_ms);
                }
            }
        }
    }

    /// The socket has taken bytes that were sent to a learner: there is room for more.
    pub fn on_sent(&mut self, cx: &mut Context<'_>, id: LinkId, bytes: usize) {
        if let Some(link) = self.links.get_mut(&id) {
            link.stream.on_sent(bytes);
            self.pump(cx, id);
        }
    }

    /// Sends a learner a reply, behind everything that is committed. One that leaves too many of them unread is closed.
    pub fn send(&mut self, out: &mut Effects, id: LinkId, message: Message) {
        if let Some(link) = self.links.get_mut(&id) {
            link.stream.send_after(out, id, message, self.told);
            if link.stream.is_overfull() {
                self.links.remove(&id);
                out.push(Effect::Close(id));
            }
        }
    }

    /// What learners still have to be sent of the log in memory begins after this transaction.
    pub fn pinned(&self) -> Option<Zxid> {
        self.links.values().filter_map(|link| link.stream.pinned()).min()
    }

    /// A packet of a learner.
    pub fn on_message(&mut self, cx: &mut Context<'_>, id: LinkId, message: Message) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.has_sent(cx.now_ms);
        match (link.stage, message) {
            (Stage::Unknown, Message::Hello { server, kind, accepted, config_version }) => {
                (link.server, link.kind) = (server, kind);
                self.on_hello(cx, id, accepted, config_version);
            }
            (Stage::Asked, Message::AckEpoch { last, current }) => self.on_ack_epoch(cx, id, last, current),
            (Stage::Syncing | Stage::Synced | Stage::Active, Message::Ack(zxid)) => self.on_ack(cx, id, zxid),
            // Who acknowledges several has each of them.
            (Stage::Syncing | Stage::Synced | Stage::Active, Message::Acks(run)) => self.on_ack(cx, id, run.last),
            (Stage::Synced | Stage::Active, Message::Pong(zxid, touched)) => self.on_pong(cx, id, zxid, touched),
            (Stage::Active, message @ (Message::Request(_) | Message::Revalidate(..))) => {
                cx.out.push(Effect::FromLearner(id, link.server, message));
            }
            (Stage::Synced | Stage::Active, Message::Other(_)) => (),
            _ => self.close(cx, id),
        }
    }

    /// The disk has finished a job.
    pub fn on_done(&mut self, cx: &mut Context<'_>, done: DiskDone) {
        self.progress = Wait::new(cx.now_ms);
        match (self.phase, done) {
            (Phase::Promising, DiskDone::AcceptedEpoch(epoch)) if epoch == self.epoch => {
                self.phase = Phase::Acking;
                self.promised.insert(self.me.server);
                for (id, link) in &mut self.links {
                    if link.stage == Stage::Introduced {
                        link.stage = Stage::Asked;
                        link.stream.send_now(cx.out, *id, Message::LeaderInfo(epoch));
                    }
                }
                self.count_promised(cx);
            }
            (Phase::Settling, DiskDone::CurrentEpoch(epoch)) if epoch == self.epoch => {
                self.phase = Phase::Presenting;
                self.order = Broadcast::new(self.configs.quorums().committed.clone(), epoch.start());
                self.synced.insert(self.me.server);
                self.let_in(cx);
                self.count_synced(cx);
            }
            _ => (),
        }
    }

    /// Sends proposals out, in order. They are on their way to the own disk too.
    pub fn propose(&mut self, cx: &mut Context<'_>, txns: impl IntoIterator<Item = Txn>) {
        for txn in txns {
            self.note_proposal(cx, &txn);
            self.order.propose(txn.zxid);
            self.own_awaited = self.own_awaited.or(Some(Wait::new(cx.now_ms)));
            cx.history.push(txn);
        }
        self.pump_all(cx);
    }

    /// The own disk holds everything up to `durable`.
    pub fn on_durable(&mut self, cx: &mut Context<'_>, durable: Zxid) {
        if self.phase == Phase::Established && self.epoch.start() < durable {
            if self.order.acked(self.me.server) < Some(durable) {
                self.own_awaited = (durable < self.order.last_proposed()).then_some(Wait::new(cx.now_ms));
            }
            self.order.on_ack(self.me.server, durable);
            self.tell_commits(cx);
        }
    }

    /// The state contains everything up to `applied`.
    pub fn on_applied(&mut self, applied: Zxid) {
        self.applied = applied;
    }

    /// Somebody wants to be told when everything that was committed anywhere is committed here, and everything up to
    /// `after`, which may be about to be proposed: [`Effect::Synced`].
    pub fn on_sync(&mut self, id: u64, after: Zxid) {
        self.syncs.push(id, self.order.last_proposed().max(after));
    }

    /// Ends a turn: what several inputs need is done once.
    pub fn flush(&mut self, cx: &mut Context<'_>) {
        if self.syncs.want_round() {
            self.ping(cx);
        }
        self.answer_syncs(cx);
        self.finish_hand_over(cx);
    }

    /// Speaks to everybody, and looks who has not spoken for too long.
    pub fn on_time(&mut self, cx: &mut Context<'_>) {
        if cx.now_ms < self.ping_at_ms {
            return;
        }
        self.ping_at_ms = cx.now_ms + self.timing.ping_ms();
        self.ping(cx);
        if self.phase == Phase::Gathering {
            self.count_introduced(cx);
        }
        let timing = self.timing;
        let is_late = |link: &Link| {
            let is_stuck = link.awaited.is_some_and(|wait| timing.sync_ms() < wait.lasted_ms(cx.now_ms));
            link.patience_ms(&timing) < link.silence.lasted_ms(cx.now_ms) || (is_stuck && link.has_begun)
        };
        let late = self.links.iter().filter(|(_, link)| is_late(link)).map(|(id, _)| *id);
        for id in late.collect::<Vec<_>>() {
            self.close(cx, id);
        }
        if let Some(reason) = self.reason_to_leave(cx.now_ms).filter(|_| !self.is_leaving()) {
            cx.out.push(Effect::Leave(reason));
        }
    }

    /// The process did not run for a while: what came meanwhile is read before anything is judged by it.
    pub(crate) fn on_pause(&mut self, now_ms: i64) {
        let timing = self.timing;
        self.links.values_mut().for_each(|link| link.on_pause(now_ms, &timing));
        self.own_awaited.iter_mut().for_each(|wait| wait.on_pause(now_ms, timing.sync_ms(), &timing));
        self.progress.on_pause(now_ms, timing.init_ms(), &timing);
    }

    fn reason_to_leave(&self, now_ms: i64) -> Option<Reason> {
        let (init_ms, sync_ms) = (self.timing.init_ms(), self.timing.sync_ms());
        if self.phase != Phase::Established {
            return (init_ms < self.progress.lasted_ms(now_ms)).then_some(Reason::NoQuorum);
        }
        // Who observes cannot acknowledge, whatever it is to be.
        if !self.configs.quorums().are_reached(|server| self.follows(server)) {
            return Some(Reason::NoQuorum);
        }
        if self.own_awaited.is_some_and(|wait| sync_ms < wait.lasted_ms(now_ms)) {
            return Some(Reason::DiskStalled);
        }
        self.knocked_ms.filter(|since| init_ms < now_ms - since).map(|_| Reason::HigherPromise)
    }

    fn on_hello(&mut self, cx: &mut Context<'_>, id: LinkId, accepted: Epoch, config_version: i64) {
        // It has followed a later leader, or leaves no epoch to lead in.
        let server = self.links[&id].server;
        let is_taken = server == self.me.server || self.is_leaving();
        if self.configs.committed().version() < config_version || Epoch::LAST <= accepted || is_taken {
            return self.close(cx, id);
        }
        // Epochs end one day. A stranger cannot make them end today.
        if !self.configs.is_member(server) && STRANGERS_JUMP_MAX < accepted.0.saturating_sub(self.epoch.0) {
            return self.close(cx, id);
        }
        let others = self.links.iter().filter(|(other, link)| **other != id && link.server == server);
        for other in others.map(|(other, _)| *other).collect::<Vec<_>>() {
            self.close(cx, other);
        }
        let link = self.links.get_mut(&id).expect("it has just spoken");
        link.stage = Stage::Introduced;
        self.deserters.remove(&server);
        if self.phase == Phase::Gathering {
            self.epoch = self.epoch.max(accepted.next());
            if self.introduced.insert(server) {
                self.progress = Wait::new(cx.now_ms);
            }
            return self.count_introduced(cx);
        }
        if self.epoch < accepted && self.configs.quorums().is_voter(server) {
            // Any host may claim to be a voter: it cannot use up the epochs of a leader that has a quorum. A voter that is needed for
            // one is heard: a leader that loses its quorum steps down, and one that is not established takes any epoch. Until then
            // a voter that is really so far ahead cannot join.
            let is_far = STRANGERS_JUMP_MAX < accepted.0.saturating_sub(self.epoch.0);
            if is_far && self.phase == Phase::Established {
                return self.close(cx, id);
            }
            self.knocked_ms = self.knocked_ms.or(Some(cx.now_ms));
            self.highest = self.highest.max(accepted);
            self.deserters.insert(server); // it will refuse this epoch
        }
        if Phase::Promising < self.phase {
            link.stage = Stage::Asked;
            link.stream.send_now(cx.out, id, Message::LeaderInfo(self.epoch));
        }
    }

    fn count_introduced(&mut self, cx: &mut Context<'_>) {
        // What was committed under a configuration that is only proposed here may be known to its voters alone. Apache
        // asks those of the committed one. A quorum of the proposed one has a moment to come, since it may have
        // accepted later epochs; it is not waited for any longer, since some of it may be empty.
        let (quorums, has) = (self.configs.quorums(), |server| self.introduced.contains(&server));
        let is_early = cx.now_ms < self.began_ms + self.timing.ping_ms();
        if quorums.are_reached(has) || (!is_early && quorums.may_elect(has)) {
            if Epoch::LAST < self.epoch {
                return cx.out.push(Effect::Leave(Reason::EpochUsedUp));
            }
            self.phase = Phase::Promising;
            cx.out.push(Effect::Disk(DiskJob::AcceptedEpoch(self.epoch)));
        }
    }

    fn on_ack_epoch(&mut self, cx: &mut Context<'_>, id: LinkId, last: Zxid, current: Option<Epoch>) {
        let link = self.links.get_mut(&id).expect("it has just spoken");
        (link.last, link.stage) = (last, Stage::Promised);
        self.order.retract(link.server, last);
        if let Some(current) = current.filter(|_| self.phase == Phase::Acking) {
            if (self.me.epochs.current, self.initial) < (current, last) {
                return self.close(cx, id); // it would lose history
            }
            if last != Zxid(-1) && self.promised.insert(link.server) {
                self.progress = Wait::new(cx.now_ms);
            }
            self.count_promised(cx);
        } else if Phase::Presenting <= self.phase && !self.is_reconfiguring() {
            self.sync(cx, id);
        }
    }

    fn count_promised(&mut self, cx: &mut Context<'_>) {
        if self.configs.quorums().may_elect(|server| self.promised.contains(&server)) {
            self.phase = Phase::Settling;
            self.number_config(cx);
            cx.out.push(Effect::Disk(DiskJob::CurrentEpoch(self.epoch)));
        }
    }

    /// The last transaction that is agreed on, or will be when this leader is established.
    fn agreed(&self) -> Zxid {
        if self.epoch.start() < self.told { self.told } else { self.initial }
    }

    /// The on-disk log has what a learner lacks before `below`, or not.
    pub fn on_looked_up(&mut self, cx: &mut Context<'_>, id: LinkId, below: Option<Zxid>) {
        let is_reconfiguring = self.is_reconfiguring();
        let Some(link) = self.links.get_mut(&id) else { return };
        match (link.stage, below) {
            (Stage::LookingUp, _) if is_reconfiguring => link.stage = Stage::Promised,
            (Stage::LookingUp, below) => self.give(cx, id, Given::looked_up(below)),
            (Stage::Syncing, Some(below)) if link.stream.is_looking_up() => {
                link.stream.found(Zxid(below.0 - 1));
                cx.out.push(Effect::SendStored(id));
                self.pump(cx, id);
            }
            (Stage::Syncing, None) if link.stream.is_looking_up() => self.close(cx, id),
            _ => (),
        }
    }

    fn reach(&self) -> Reach {
        let processed = if self.phase == Phase::Established { self.order.committed() } else { self.initial };
        Reach { processed, agreed: self.agreed(), applied: self.applied }
    }

    /// Finds out what a learner lacks.
    fn sync(&mut self, cx: &mut Context<'_>, id: LinkId) {
        let reach = self.reach();
        let link = self.links.get_mut(&id).expect("it has just spoken");
        match Lack::of(link.last, cx.history, reach, &self.me.options) {
            Lack::Known(given) => self.give(cx, id, given),
            Lack::MayBeStored(below) => {
                link.stage = Stage::LookingUp;
                cx.out.push(Effect::LookUp(id, Search { after: link.last, below, continues: false }));
            }
        }
    }

    /// Gives a learner what it lacks, and everything new from now on. Followers are never kept waiting.
    fn give(&mut self, cx: &mut Context<'_>, id: LinkId, given: Given) {
        let reach = self.reach();
        let to_follower = self.links.get(&id).is_some_and(Link::is_follower);
        let observers = self.links.values().filter(|link| link.stage == Stage::Syncing && !link.is_follower());
        if !to_follower && given.is_full(observers.map(|link| link.gets_state), &self.me.options) {
            return self.close(cx, id);
        }
        let link = self.links.get_mut(&id).expect("it has just spoken");
        (link.stage, link.gets_state) = (Stage::Syncing, given.is_state());
        // It may have to cut, or replace, what it had acknowledged.
        self.order.retract(link.server, reach.agreed);
        given.send(cx, id, reach, to_follower, &mut link.stream);
        self.pump(cx, id);
    }

    /// Hands a learner as much as its link takes, and closes it if what it lacks is no longer there.
    fn pump(&mut self, cx: &mut Context<'_>, id: LinkId) {
        let (agreed, is_reconfiguring) = (self.agreed(), self.is_reconfiguring());
        let Some(link) = self.links.get_mut(&id) else { return };
        let (limit, epoch_start) = (self.told, self.epoch.start());
        let committed = Committed { limit, epoch_start, activations: &self.activations };
        loop {
            match link.stream.pump(cx.history, cx.out, id, committed) {
                Pumped::Done => break,
                // A configuration that is not committed yet would be taken for the one to begin with.
                Pumped::CaughtUp if is_reconfiguring => break,
                Pumped::CaughtUp => {
                    link.synced_to = agreed;
                    let config = Bytes::from(self.configs.latest().to_string());
                    link.stream.complete(cx.out, id, Message::NewLeader { epoch: self.epoch, config });
                }
                Pumped::Trimmed => match link.stream.look_up(cx.history) {
                    Some(search) => break cx.out.push(Effect::LookUp(id, search)),
                    None => return self.close(cx, id),
                },
            }
        }
        link.has_pumped(cx.now_ms);
    }

    fn pump_all(&mut self, cx: &mut Context<'_>) {
        let told = self.links.iter().filter(|(_, link)| link.is_told()).map(|(id, _)| *id);
        for id in told.collect::<Vec<_>>() {
            self.pump(cx, id);
        }
    }

    fn on_ack(&mut self, cx: &mut Context<'_>, id: LinkId, zxid: Zxid) {
        let is_old = zxid.counter() == 0 || zxid <= self.agreed() || zxid <= self.initial;
        let link = self.links.get_mut(&id).expect("it has just spoken");
        if link.stage == Stage::Syncing && zxid == self.epoch.start() {
            link.stage = Stage::Synced;
            let (server, has) = (link.server, link.synced_to.max(link.early_ack));
            link.has_acked(has, cx.now_ms);
            if self.synced.insert(server) {
                self.progress = Wait::new(cx.now_ms);
            }
            if link.is_follower() {
                self.order.on_ack(server, has);
            }
            if self.is_established() {
                self.activate(cx, id);
            }
            self.count_synced(cx);
            return self.tell_commits(cx);
        }
        if self.order.last_proposed() < zxid {
            return self.close(cx, id);
        }
        // What others have committed without it was waited for too.
        link.has_acked(zxid, cx.now_ms);
        // Learners of some releases acknowledge the history too, before or after they settle.
        if is_old {
            return;
        }
        if link.stage == Stage::Syncing {
            link.early_ack = zxid.max(link.early_ack);
            return;
        }
        if link.is_follower() {
            self.order.on_ack(link.server, zxid);
            self.tell_commits(cx);
        }
    }

    fn count_synced(&mut self, cx: &mut Context<'_>) {
        if self.phase == Phase::Presenting && self.configs.quorums().are_reached(|server| self.synced.contains(&server))
        {
            self.phase = Phase::Established;
            self.told = self.epoch.start();
            cx.out.push(Effect::Commit(self.initial));
            self.complete_config(cx);
            cx.out.push(Effect::Established(self.epoch));
            let synced = self.links.iter().filter(|(_, link)| link.stage == Stage::Synced);
            for id in synced.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.activate(cx, id);
            }
        }
    }

    fn activate(&mut self, cx: &mut Context<'_>, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.stage = Stage::Active;
            link.stream.send_after(cx.out, id, Message::UpToDate, self.told);
            self.pump(cx, id);
        }
    }

    /// Tells everybody what has been agreed on.
    fn tell_commits(&mut self, cx: &mut Context<'_>) {
        let was_reconfiguring = self.is_reconfiguring();
        while self.phase == Phase::Established && self.told < self.order.committed() && !self.is_leaving() {
            let committed = self.order.committed();
            // Nothing is agreed on behind it before it is in force.
            let reconfigures = self.order.reconfigures_at().filter(|zxid| *zxid == committed);
            let leader = reconfigures.map(|zxid| self.put_in_force(cx, zxid));
            if let Some(leader) = leader {
                self.activations.retain(|zxid, _| self.links.values().any(|link| link.stream.lacks(*zxid)));
                self.activations.insert(committed, leader);
            }
            self.told = committed;
            self.pump_all(cx);
            cx.out.push(Effect::Commit(committed));
        }
        if was_reconfiguring && !self.is_reconfiguring() && !self.is_leaving() {
            self.let_in(cx);
        }
        self.answer_syncs(cx);
    }

    fn ping(&mut self, cx: &mut Context<'_>) {
        let (round, zxid) = (self.syncs.next_round(), self.order.last_proposed());
        for (id, link) in self.links.iter_mut().filter(|(_, link)| link.is_told()) {
            // Before it takes part, a learner does not answer.
            if link.stream.is_up_to_date() {
                link.pings.push_back(round);
            }
            link.stream.send_now(cx.out, *id, Message::Ping(zxid));
        }
    }

    fn on_pong(&mut self, cx: &mut Context<'_>, id: LinkId, zxid: Zxid, touched: Bytes) {
        let link = self.links.get_mut(&id).expect("it has just spoken");
        if let Some(round) = link.pings.pop_front() {
            link.answered = round;
        }
        let server = link.server;
        cx.out.push(Effect::FromLearner(id, server, Message::Pong(zxid, touched)));
        self.answer_syncs(cx);
    }

    fn answer_syncs(&mut self, cx: &mut Context<'_>) {
        if self.phase != Phase::Established {
            return;
        }
        let (me, links, quorums) = (self.me.server, &self.links, self.configs.quorums());
        let is_proven = |round| {
            let has_answered =
                |server: ServerId| links.values().any(|link| link.server == server && round <= link.answered);
            quorums.are_reached(|server| server == me || has_answered(server))
        };
        while let Some(id) = self.syncs.pop(self.order.committed(), is_proven) {
            cx.out.push(Effect::Synced(id));
        }
    }

    fn close(&mut self, cx: &mut Context<'_>, id: LinkId) {
        self.links.remove(&id);
        cx.out.push(Effect::Close(id));
    }
}
