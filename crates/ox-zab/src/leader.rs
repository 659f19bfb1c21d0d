//! The leader: discovery, synchronisation of its learners, and broadcast.
//!
//! ```text
//!               quorum of hellos                            quorum of ACKEPOCH
//!   Discovery ───────────────────► PersistAcceptedEpoch ─► AwaitAckEpoch ────────► PersistCurrentEpoch ─► AwaitNewLeaderAck
//!                                         (disk)                                         (disk)                  │
//!                                                                                Established ◄───────────────────┘
//!                                                                                             quorum of ACKs
//! ```
//! The leader announces nothing that its disk does not hold: it stores the epoch before LEADERINFO, and counts its own
//! history only when that is durable. It refuses a voter whose history is ahead of its own. If voters have accepted a
//! higher epoch, it steps down in the end.

mod learner_handler;
mod pending_syncs;
mod reconfig;

use crate::broadcast::Broadcast;
use crate::config_pair::ConfigPair;
use crate::context::Context;
use crate::effect::{DiskDone, DiskJob, Effect, Effects, LinkId, LogDiffRange, Reason};
use crate::epoch::{Epoch, Epochs};
use crate::learner_stream::{Committed, Pumped};
use crate::learner_sync::{Progress, SyncChoice, SyncPlan};
use crate::liveness::Traffic;
use crate::message::{EncodedTxn, LearnerKind, Message};
use crate::options::PeerOptions;
use crate::timing::{Timing, Wait};
use bytes::Bytes;
use learner_handler::{AckWait, LearnerHandler, Stage};
use ox_proto::ServerId;
use ox_proto::Zxid;
use pending_syncs::PendingSyncs;
use reconfig::HandOver;
use std::collections::{BTreeMap, BTreeSet};

/// A time that does not come.
const NEVER_MS: i64 = i64::MAX;

/// How far the accepted epoch of an unknown server, or of one that only claims to be a voter, may be ahead of ours.
const UNKNOWN_EPOCH_JUMP_MAX: i64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Waits for hellos of a quorum.
    Discovery,
    /// Stores its accepted epoch.
    PersistAcceptedEpoch,
    /// Waits for ACKEPOCH of a quorum.
    AwaitAckEpoch,
    /// Stores its current epoch.
    PersistCurrentEpoch,
    /// Waits until a quorum has acknowledged NEWLEADER.
    AwaitNewLeaderAck,
    Established,
}

/// The state with which an elected server becomes leader.
#[derive(Clone, Debug)]
pub struct LeaderInit {
    pub server: ServerId,
    pub epochs: Epochs,
    /// The highest epoch that any voter is known to have accepted.
    pub known_accepted: Epoch,
    pub options: PeerOptions,
}

/// The leader role of an elected server (`Leader`).
#[derive(Debug)]
pub struct Leader {
    me: LeaderInit,
    timing: Timing,
    configs: ConfigPair,
    phase: Phase,
    /// The epoch of this leadership. During discovery, the lowest epoch that it may get.
    epoch: Epoch,
    /// The last transaction of the initial history.
    initial: Zxid,
    links: BTreeMap<LinkId, LearnerHandler>,
    discovered: BTreeSet<ServerId>,
    epoch_acked: BTreeSet<ServerId>,
    synced: BTreeSet<ServerId>,
    broadcast: Broadcast,
    /// Commits up to this zxid may be sent to learners.
    announced: Zxid,
    /// Reconfigurations that learners have not all been sent yet, by zxid, with the leader that each names.
    activations: BTreeMap<Zxid, ServerId>,
    /// Last transaction applied to the state.
    applied: Zxid,
    syncs: PendingSyncs,
    ping_at_ms: i64,
    began_ms: i64,
    /// Since the last step towards being established. Learners that merely connect or disconnect do not count.
    last_progress: Wait,
    own_ack_wait: AckWait,
    /// When the first voter connected that has accepted a higher epoch.
    higher_epoch_since_ms: Option<i64>,
    /// The highest epoch that such voters have accepted.
    highest: Epoch,
    /// Set when a committed configuration names another leader.
    hand_over: Option<HandOver>,
    /// Voters that elected this leader and have changed their vote, or will refuse its epoch.
    lost_supporters: BTreeSet<ServerId>,
    /// A standalone server: it has no learners, no timers and no epochs.
    is_standalone: bool,
}

impl Leader {
    /// The initial history ends with the last transaction of `cx.history`; the state has applied up to `applied`.
    pub fn new(me: LeaderInit, timing: Timing, configs: ConfigPair, applied: Zxid, cx: &mut Context<'_>) -> Self {
        let initial = cx.history.last();
        let mut leader = Self {
            epoch: me.epochs.accepted.max(me.known_accepted).next(),
            broadcast: Broadcast::new(configs.quorums().committed.clone(), initial),
            timing,
            phase: Phase::Discovery,
            initial,
            links: BTreeMap::new(),
            discovered: BTreeSet::from([me.server]),
            epoch_acked: BTreeSet::new(),
            synced: BTreeSet::new(),
            announced: initial,
            activations: BTreeMap::new(),
            applied,
            syncs: PendingSyncs::default(),
            ping_at_ms: cx.now_ms + timing.ping_ms(),
            began_ms: cx.now_ms,
            last_progress: Wait::new(cx.now_ms),
            own_ack_wait: None,
            higher_epoch_since_ms: None,
            highest: me.known_accepted,
            hand_over: None,
            lost_supporters: BTreeSet::new(),
            is_standalone: false,
            me,
            configs,
        };
        leader.check_discovery(cx);
        leader
    }

    /// The leader role of a standalone server, established after a history that ends with `last`.
    pub(crate) fn standalone(me: LeaderInit, timing: Timing, configs: ConfigPair, last: Zxid) -> Self {
        Self {
            epoch: Epoch::ZERO,
            broadcast: Broadcast::new(configs.quorums().committed.clone(), last),
            timing,
            phase: Phase::Established,
            initial: last,
            links: BTreeMap::new(),
            discovered: BTreeSet::new(),
            epoch_acked: BTreeSet::new(),
            synced: BTreeSet::new(),
            announced: last,
            activations: BTreeMap::new(),
            applied: last,
            syncs: PendingSyncs::default(),
            ping_at_ms: NEVER_MS,
            began_ms: 0,
            last_progress: Wait::new(0),
            own_ack_wait: None,
            higher_epoch_since_ms: None,
            highest: Epoch::ZERO,
            hand_over: None,
            lost_supporters: BTreeSet::new(),
            is_standalone: true,
            me,
            configs,
        }
    }

    pub(crate) fn is_standalone(&self) -> bool {
        self.is_standalone
    }

    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// The epoch of this leadership; none during discovery.
    pub fn epoch(&self) -> Option<Epoch> {
        (Phase::Discovery < self.phase).then_some(self.epoch)
    }

    /// When discovery began, if it has not ended.
    pub fn discovery_since_ms(&self) -> Option<i64> {
        (self.phase == Phase::Discovery).then_some(self.began_ms)
    }

    /// Notes that `server`, which had elected this leader, has changed its vote. Returns whether the remaining voters
    /// are no longer enough to establish this leader: those that have joined, are connected, or have elected it too.
    pub(crate) fn loses_support_of(&mut self, server: ServerId, has_elected: impl Fn(ServerId) -> bool) -> bool {
        self.lost_supporters.insert(server);
        let has_joined = match self.phase {
            Phase::Discovery => &self.discovered,
            Phase::PersistAcceptedEpoch | Phase::AwaitAckEpoch => &self.epoch_acked,
            Phase::PersistCurrentEpoch | Phase::AwaitNewLeaderAck => &self.synced,
            Phase::Established => return false,
        };
        !self.configs.quorums().may_elect(|server| has_joined.contains(&server) || self.may_join(server, &has_elected))
    }

    /// Whether `server` can still be expected to join.
    fn may_join(&self, server: ServerId, has_elected: impl Fn(ServerId) -> bool) -> bool {
        let is_linked = |server| self.links.values().any(|link| link.server == server && link.is_follower());
        let is_expected = is_linked(server) || has_elected(server);
        server == self.me.server || (is_expected && !self.lost_supporters.contains(&server))
    }

    /// Whether this leader cannot be established because voters have accepted a higher epoch: without them, the voters
    /// that are synchronised, are connected, or have elected it are no quorum.
    pub(crate) fn is_below_accepted_epoch(&self, has_elected: impl Fn(ServerId) -> bool) -> bool {
        let may_agree = |server| self.synced.contains(&server) || self.may_join(server, &has_elected);
        self.higher_epoch_since_ms.is_some() && !self.is_established() && !self.configs.quorums().are_reached(may_agree)
    }

    /// The highest epoch above its own that this leader has met.
    pub(crate) fn highest_accepted(&self) -> Epoch {
        self.highest
    }

    pub(crate) fn has_follower(&self, server: ServerId) -> bool {
        self.links.values().any(|link| link.server == server && Stage::AwaitHello < link.stage && link.is_follower())
    }

    /// The zxid of the proposal after `last`. None if the epoch has no zxid left, so that the leader has to step down.
    // Compat: when the counter of a standalone server overflows, it continues in the next epoch, from 0.
    pub fn zxid_after(&self, last: Zxid) -> Option<Zxid> {
        if self.is_standalone { Some(Zxid(last.0 + 1)) } else { Epoch::next_zxid(last) }
    }

    pub fn last_proposed(&self) -> Zxid {
        self.broadcast.last_proposed()
    }

    /// The last committed transaction.
    pub fn committed(&self) -> Zxid {
        self.broadcast.committed()
    }

    /// Learners that have sent their hello, with their kind and whether they are active.
    pub fn learners(&self) -> impl Iterator<Item = (ServerId, LearnerKind, bool)> {
        let known = self.links.values().filter(|link| Stage::AwaitHello < link.stage);
        known.map(|link| (link.server, link.kind, link.stage == Stage::Active))
    }

    pub fn is_voter(&self, server: ServerId) -> bool {
        self.configs.quorums().is_voter(server)
    }

    /// Whether a quorum of active followers remains without this leader. Together they have every committed
    /// transaction.
    pub(crate) fn can_be_replaced(&self) -> bool {
        let takes_part = |server: ServerId| {
            let is_it =
                |link: &LearnerHandler| link.server == server && link.stage == Stage::Active && link.is_follower();
            server != self.me.server && self.links.values().any(is_it)
        };
        self.is_established() && !self.is_handing_over() && self.configs.quorums().are_reached(takes_part)
    }

    /// Number of syncs without a reply.
    pub fn pending_syncs(&self) -> usize {
        self.syncs.len()
    }

    /// When the caller has to call [`Self::on_time`]; none for a standalone server.
    pub fn deadline(&self) -> Option<i64> {
        (!self.is_standalone).then_some(self.ping_at_ms)
    }

    /// Links of all connected learners.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        self.links.keys().copied()
    }

    pub fn on_link(&mut self, cx: &Context<'_>, id: LinkId) {
        self.links.insert(id, LearnerHandler::new(cx.now_ms, self.me.options.learner_window_bytes));
    }

    /// A link was closed. The learner's ACKEPOCH stays valid, and so do its ACKs until it is synchronised again.
    pub fn on_link_gone(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    /// Bytes were sent or received. While a learner is being sent a long history, this also counts as progress of the
    /// leader.
    pub fn on_traffic(&mut self, now_ms: i64, id: LinkId, moved: Traffic) {
        if let Some(link) = self.links.get_mut(&id) {
            let is_receiving_history = link.is_receiving_history();
            if moved.is_sign_of_life(is_receiving_history) {
                link.last_received = Wait::new(now_ms);
                if is_receiving_history {
                    self.last_progress = Wait::new(now_ms);
                }
            }
        }
    }

    /// The socket accepted `bytes` that were sent to a learner.
    pub fn on_sent(&mut self, cx: &mut Context<'_>, id: LinkId, bytes: usize) {
        if let Some(link) = self.links.get_mut(&id) {
            link.stream.on_sent(bytes);
            self.pump(cx, id);
        }
    }

    /// Sends a reply after all commits so far. Closes the link if the learner leaves too many replies unread.
    pub fn send(&mut self, out: &mut Effects, id: LinkId, message: Message) {
        if let Some(link) = self.links.get_mut(&id) {
            link.stream.send_after(out, id, message, self.announced);
            if link.stream.is_overfull() {
                self.links.remove(&id);
                out.push(Effect::Close(id));
            }
        }
    }

    /// The lowest zxid after which a learner still needs the recent log.
    pub fn pinned(&self) -> Option<Zxid> {
        self.links.values().filter_map(|link| link.stream.pinned()).min()
    }

    pub fn on_message(&mut self, cx: &mut Context<'_>, id: LinkId, message: Message) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.on_received(cx.now_ms);
        match (link.stage, message) {
            (Stage::AwaitHello, Message::Hello { server, kind, accepted, config_version }) => {
                (link.server, link.kind) = (server, kind);
                self.on_hello(cx, id, accepted, config_version);
            }
            (Stage::LeaderInfoSent, Message::AckEpoch { last, current }) => self.on_ack_epoch(cx, id, last, current),
            (Stage::Syncing | Stage::Synced | Stage::Active, Message::Ack(zxid)) => self.on_ack(cx, id, zxid),
            // A run of ACKs acknowledges every transaction up to its last.
            (Stage::Syncing | Stage::Synced | Stage::Active, Message::Acks(run)) => self.on_ack(cx, id, run.last),
            (Stage::Synced | Stage::Active, Message::Pong(zxid, touched)) => self.on_pong(cx, id, zxid, touched),
            (Stage::Active, message @ (Message::Request(_) | Message::Revalidate(..))) => {
                cx.out.push(Effect::FromLearner(id, link.server, message));
            }
            (Stage::Synced | Stage::Active, Message::Other(_)) => (),
            _ => self.close(cx, id),
        }
    }

    pub fn on_done(&mut self, cx: &mut Context<'_>, done: DiskDone) {
        self.last_progress = Wait::new(cx.now_ms);
        match (self.phase, done) {
            (Phase::PersistAcceptedEpoch, DiskDone::AcceptedEpoch(epoch)) if epoch == self.epoch => {
                self.phase = Phase::AwaitAckEpoch;
                self.epoch_acked.insert(self.me.server);
                for (id, link) in &mut self.links {
                    if link.stage == Stage::HelloReceived {
                        link.stage = Stage::LeaderInfoSent;
                        link.stream.send_now(cx.out, *id, Message::LeaderInfo(epoch));
                    }
                }
                self.check_epoch_acks(cx);
            }
            (Phase::PersistCurrentEpoch, DiskDone::CurrentEpoch(epoch)) if epoch == self.epoch => {
                self.phase = Phase::AwaitNewLeaderAck;
                self.broadcast = Broadcast::new(self.configs.quorums().committed.clone(), epoch.start());
                self.synced.insert(self.me.server);
                self.sync_waiting(cx);
                self.check_established(cx);
            }
            _ => (),
        }
    }

    /// Proposes transactions, in order. The caller appends them to its own log.
    pub fn propose(&mut self, cx: &mut Context<'_>, txns: impl IntoIterator<Item = EncodedTxn>) {
        for txn in txns {
            self.note_proposed_config(cx, &txn);
            self.broadcast.propose(txn.zxid);
            self.own_ack_wait = self.own_ack_wait.or(Some(Wait::new(cx.now_ms)));
            cx.history.push(txn);
        }
        self.pump_all(cx);
    }

    /// Proposes everything up to `last` without the transactions: there is no learner.
    pub fn propose_up_to(&mut self, cx: &Context<'_>, last: Zxid) {
        assert!(self.is_standalone, "learners need the transactions");
        if self.broadcast.last_proposed() < last {
            self.broadcast.propose_up_to(last);
            self.own_ack_wait = self.own_ack_wait.or(Some(Wait::new(cx.now_ms)));
        }
    }

    /// The leader's own log is durable up to `durable`.
    pub fn on_durable(&mut self, cx: &mut Context<'_>, durable: Zxid) {
        if self.phase == Phase::Established && self.epoch.start() < durable {
            if self.broadcast.acked(self.me.server) < Some(durable) {
                self.own_ack_wait = (durable < self.broadcast.last_proposed()).then_some(Wait::new(cx.now_ms));
            }
            self.broadcast.on_ack(self.me.server, durable);
            self.announce_commits(cx);
        }
    }

    pub fn on_applied(&mut self, applied: Zxid) {
        self.applied = applied;
    }

    /// Requests [`Effect::Synced`] once this server has proven that it still leads, and everything proposed so far and
    /// everything up to `after`, which the caller may be about to propose, is committed.
    pub fn on_sync(&mut self, id: u64, after: Zxid) {
        self.syncs.push(id, self.broadcast.last_proposed().max(after));
    }

    /// Ends an iteration of the driver's loop: work that several inputs caused is done once.
    pub fn flush(&mut self, cx: &mut Context<'_>) {
        if self.syncs.need_round() {
            self.ping(cx);
        }
        self.reply_to_syncs(cx);
        self.finish_hand_over(cx);
    }

    /// Pings learners, and closes links that are silent for too long.
    pub fn on_time(&mut self, cx: &mut Context<'_>) {
        if cx.now_ms < self.ping_at_ms {
            return;
        }
        self.ping_at_ms = cx.now_ms + self.timing.ping_ms();
        self.ping(cx);
        if self.phase == Phase::Discovery {
            self.check_discovery(cx);
        }
        let timing = self.timing;
        let is_late = |link: &LearnerHandler| {
            let is_stuck = link.ack_wait.is_some_and(|wait| timing.sync_ms() < wait.lasted_ms(cx.now_ms));
            link.timeout_ms(&timing) < link.last_received.lasted_ms(cx.now_ms) || (is_stuck && link.has_replied)
        };
        let late = self.links.iter().filter(|(_, link)| is_late(link)).map(|(id, _)| *id);
        for id in late.collect::<Vec<_>>() {
            self.close(cx, id);
        }
        if let Some(reason) = self.reason_to_step_down(cx.now_ms).filter(|_| !self.is_handing_over()) {
            cx.out.push(Effect::StepDown(reason));
        }
    }

    /// The process did not run for a while. Learners get time again, because their packets may not have been read yet.
    pub(crate) fn on_pause(&mut self, now_ms: i64) {
        let timing = self.timing;
        self.links.values_mut().for_each(|link| link.on_pause(now_ms, &timing));
        self.own_ack_wait.iter_mut().for_each(|wait| wait.on_pause(now_ms, timing.sync_ms(), &timing));
        self.last_progress.on_pause(now_ms, timing.init_ms(), &timing);
    }

    fn reason_to_step_down(&self, now_ms: i64) -> Option<Reason> {
        let (init_ms, sync_ms) = (self.timing.init_ms(), self.timing.sync_ms());
        if self.phase != Phase::Established {
            return (init_ms < self.last_progress.lasted_ms(now_ms)).then_some(Reason::NoQuorum);
        }
        // An observer cannot acknowledge proposals, even if the proposed configuration makes it a voter.
        if !self.configs.quorums().are_reached(|server| self.follows(server)) {
            return Some(Reason::NoQuorum);
        }
        if self.own_ack_wait.is_some_and(|wait| sync_ms < wait.lasted_ms(now_ms)) {
            return Some(Reason::DiskStalled);
        }
        self.higher_epoch_since_ms.filter(|since| init_ms < now_ms - since).map(|_| Reason::HigherAcceptedEpoch)
    }

    fn on_hello(&mut self, cx: &mut Context<'_>, id: LinkId, accepted: Epoch, config_version: i64) {
        // The learner has a newer configuration, so a later leader exists, or its epoch leaves none for this leader.
        let server = self.links[&id].server;
        let is_refused = server == self.me.server || self.is_handing_over();
        if self.configs.committed().version() < config_version || Epoch::LAST <= accepted || is_refused {
            return self.close(cx, id);
        }
        // An unknown server must not exhaust the epoch space.
        if !self.configs.is_member(server) && UNKNOWN_EPOCH_JUMP_MAX < accepted.0.saturating_sub(self.epoch.0) {
            return self.close(cx, id);
        }
        let others = self.links.iter().filter(|(other, link)| **other != id && link.server == server);
        for other in others.map(|(other, _)| *other).collect::<Vec<_>>() {
            self.close(cx, other);
        }
        let link = self.links.get_mut(&id).expect("the link is open");
        link.stage = Stage::HelloReceived;
        self.lost_supporters.remove(&server);
        if self.phase == Phase::Discovery {
            self.epoch = self.epoch.max(accepted.next());
            if self.discovered.insert(server) {
                self.last_progress = Wait::new(cx.now_ms);
            }
            return self.check_discovery(cx);
        }
        if self.epoch < accepted && self.configs.quorums().is_voter(server) {
            // Any host may claim to be a voter, and must not exhaust the epochs of a leader that has a quorum. This
            // does not lock out a voter that is needed: a leader that loses its quorum steps down, and a leader that is
            // not established accepts any epoch. Until then, a voter that is really so far ahead cannot join.
            let is_far = UNKNOWN_EPOCH_JUMP_MAX < accepted.0.saturating_sub(self.epoch.0);
            if is_far && self.phase == Phase::Established {
                return self.close(cx, id);
            }
            self.higher_epoch_since_ms = self.higher_epoch_since_ms.or(Some(cx.now_ms));
            self.highest = self.highest.max(accepted);
            self.lost_supporters.insert(server); // it will refuse this epoch
        }
        if Phase::PersistAcceptedEpoch < self.phase {
            link.stage = Stage::LeaderInfoSent;
            link.stream.send_now(cx.out, id, Message::LeaderInfo(self.epoch));
        }
    }

    fn check_discovery(&mut self, cx: &mut Context<'_>) {
        // Only the voters of a proposed configuration may know what was committed under it. Apache asks the voters of
        // the committed configuration only. We wait half a tick for a quorum of the proposed one too, because it may
        // have accepted later epochs, but no longer, because some of its voters may be empty.
        let (quorums, has) = (self.configs.quorums(), |server| self.discovered.contains(&server));
        let is_early = cx.now_ms < self.began_ms + self.timing.ping_ms();
        if quorums.are_reached(has) || (!is_early && quorums.may_elect(has)) {
            if Epoch::LAST < self.epoch {
                return cx.out.push(Effect::StepDown(Reason::ZxidRollover));
            }
            self.phase = Phase::PersistAcceptedEpoch;
            cx.out.push(Effect::Disk(DiskJob::AcceptedEpoch(self.epoch)));
        }
    }

    fn on_ack_epoch(&mut self, cx: &mut Context<'_>, id: LinkId, last: Zxid, current: Option<Epoch>) {
        let link = self.links.get_mut(&id).expect("the link is open");
        (link.last, link.stage) = (last, Stage::EpochAcked);
        self.broadcast.retract(link.server, last);
        if let Some(current) = current.filter(|_| self.phase == Phase::AwaitAckEpoch) {
            if (self.me.epochs.current, self.initial) < (current, last) {
                return self.close(cx, id); // synchronising it would lose committed transactions
            }
            if last != Zxid(-1) && self.epoch_acked.insert(link.server) {
                self.last_progress = Wait::new(cx.now_ms);
            }
            self.check_epoch_acks(cx);
        } else if Phase::AwaitNewLeaderAck <= self.phase && !self.is_reconfiguring() {
            self.plan_sync(cx, id);
        }
    }

    fn check_epoch_acks(&mut self, cx: &mut Context<'_>) {
        if self.configs.quorums().may_elect(|server| self.epoch_acked.contains(&server)) {
            self.phase = Phase::PersistCurrentEpoch;
            self.assign_config_version(cx);
            cx.out.push(Effect::Disk(DiskJob::CurrentEpoch(self.epoch)));
        }
    }

    /// The last transaction that is committed, or will be once this leader is established.
    fn committable(&self) -> Zxid {
        if self.epoch.start() < self.announced { self.announced } else { self.initial }
    }

    /// Result of [`Effect::ReadLog`]: the on-disk log contains what the learner lacks before `below`, or does not.
    pub fn on_log_read(&mut self, cx: &mut Context<'_>, id: LinkId, below: Option<Zxid>) {
        let is_reconfiguring = self.is_reconfiguring();
        let Some(link) = self.links.get_mut(&id) else { return };
        match (link.stage, below) {
            (Stage::ReadingLog, _) if is_reconfiguring => link.stage = Stage::EpochAcked,
            (Stage::ReadingLog, below) => self.start_sync(cx, id, SyncPlan::from_log_read(below)),
            (Stage::Syncing, Some(below)) if link.stream.is_reading_log() => {
                link.stream.on_log_read(Zxid(below.0 - 1));
                cx.out.push(Effect::SendLogDiff(id));
                self.pump(cx, id);
            }
            (Stage::Syncing, None) if link.stream.is_reading_log() => self.close(cx, id),
            _ => (),
        }
    }

    fn progress(&self) -> Progress {
        let processed = if self.phase == Phase::Established { self.broadcast.committed() } else { self.initial };
        Progress { processed, committed: self.committable(), applied: self.applied }
    }

    /// Chooses how to synchronise a learner.
    fn plan_sync(&mut self, cx: &mut Context<'_>, id: LinkId) {
        let progress = self.progress();
        let link = self.links.get_mut(&id).expect("the link is open");
        match SyncChoice::of(link.last, cx.history, progress, &self.me.options) {
            SyncChoice::Plan(plan) => self.start_sync(cx, id, plan),
            SyncChoice::ReadLog(below) => {
                link.stage = Stage::ReadingLog;
                cx.out.push(Effect::ReadLog(id, LogDiffRange { after: link.last, below, continues: false }));
            }
        }
    }

    /// Starts to synchronise a learner. Observers over the limit are closed, so that they retry; followers are always
    /// admitted.
    fn start_sync(&mut self, cx: &mut Context<'_>, id: LinkId, plan: SyncPlan) {
        let progress = self.progress();
        let to_follower = self.links.get(&id).is_some_and(LearnerHandler::is_follower);
        let observers = self.links.values().filter(|link| link.stage == Stage::Syncing && !link.is_follower());
        if !to_follower && plan.is_over_limit(observers.map(|link| link.gets_snapshot), &self.me.options) {
            return self.close(cx, id);
        }
        let link = self.links.get_mut(&id).expect("the link is open");
        (link.stage, link.gets_snapshot) = (Stage::Syncing, plan.is_snap());
        // The learner may have to truncate or replace transactions that it has acknowledged.
        self.broadcast.retract(link.server, progress.committed);
        plan.send(cx, id, progress, to_follower, &mut link.stream);
        self.pump(cx, id);
    }

    /// Sends a learner as much as its send window allows. Closes the link if the learner lacks transactions that are
    /// gone.
    fn pump(&mut self, cx: &mut Context<'_>, id: LinkId) {
        let (committable, is_reconfiguring) = (self.committable(), self.is_reconfiguring());
        let Some(link) = self.links.get_mut(&id) else { return };
        let (limit, epoch_start) = (self.announced, self.epoch.start());
        let committed = Committed { limit, epoch_start, activations: &self.activations };
        loop {
            match link.stream.pump(cx.history, cx.out, id, committed) {
                Pumped::Done => break,
                // The learner would take the uncommitted configuration in NEWLEADER for a committed one.
                Pumped::CaughtUp if is_reconfiguring => break,
                Pumped::CaughtUp => {
                    link.synced_to = committable;
                    let config = Bytes::from(self.configs.latest().to_string());
                    link.stream.complete(cx.out, id, Message::NewLeader { epoch: self.epoch, config });
                }
                Pumped::Trimmed => match link.stream.continue_from_log(cx.history) {
                    Some(search) => break cx.out.push(Effect::ReadLog(id, search)),
                    None => return self.close(cx, id),
                },
            }
        }
        link.on_pumped(cx.now_ms);
    }

    fn pump_all(&mut self, cx: &mut Context<'_>) {
        let announced = self.links.iter().filter(|(_, link)| link.receives_broadcast()).map(|(id, _)| *id);
        for id in announced.collect::<Vec<_>>() {
            self.pump(cx, id);
        }
    }

    fn on_ack(&mut self, cx: &mut Context<'_>, id: LinkId, zxid: Zxid) {
        let is_old = zxid.counter() == 0 || zxid <= self.committable() || zxid <= self.initial;
        let link = self.links.get_mut(&id).expect("the link is open");
        if link.stage == Stage::Syncing && zxid == self.epoch.start() {
            link.stage = Stage::Synced;
            let (server, has) = (link.server, link.synced_to.max(link.early_ack));
            link.on_acked(has, cx.now_ms);
            if self.synced.insert(server) {
                self.last_progress = Wait::new(cx.now_ms);
            }
            if link.is_follower() {
                self.broadcast.on_ack(server, has);
            }
            if self.is_established() {
                self.activate(cx, id);
            }
            self.check_established(cx);
            return self.announce_commits(cx);
        }
        if self.broadcast.last_proposed() < zxid {
            return self.close(cx, id);
        }
        // The wait covers also transactions that were committed without this learner's ACK.
        link.on_acked(zxid, cx.now_ms);
        // Some releases acknowledge transactions of the initial history too, before or after NEWLEADER.
        if is_old {
            return;
        }
        if link.stage == Stage::Syncing {
            link.early_ack = zxid.max(link.early_ack);
            return;
        }
        if link.is_follower() {
            self.broadcast.on_ack(link.server, zxid);
            self.announce_commits(cx);
        }
    }

    fn check_established(&mut self, cx: &mut Context<'_>) {
        if self.phase == Phase::AwaitNewLeaderAck
            && self.configs.quorums().are_reached(|server| self.synced.contains(&server))
        {
            self.phase = Phase::Established;
            self.announced = self.epoch.start();
            cx.out.push(Effect::Commit(self.initial));
            self.commit_initial_config(cx);
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
            link.stream.send_after(cx.out, id, Message::UpToDate, self.announced);
            self.pump(cx, id);
        }
    }

    /// Sends commits to learners, and activates a committed configuration.
    fn announce_commits(&mut self, cx: &mut Context<'_>) {
        let was_reconfiguring = self.is_reconfiguring();
        while self.phase == Phase::Established && self.announced < self.broadcast.committed() && !self.is_handing_over()
        {
            let committed = self.broadcast.committed();
            // Nothing after a reconfiguration is committed before that is active.
            let reconfigures = self.broadcast.reconfigures_at().filter(|zxid| *zxid == committed);
            let leader = reconfigures.map(|zxid| self.activate_config(cx, zxid));
            if let Some(leader) = leader {
                self.activations.retain(|zxid, _| self.links.values().any(|link| link.stream.lacks(*zxid)));
                self.activations.insert(committed, leader);
            }
            self.announced = committed;
            self.pump_all(cx);
            cx.out.push(Effect::Commit(committed));
        }
        if was_reconfiguring && !self.is_reconfiguring() && !self.is_handing_over() {
            self.sync_waiting(cx);
        }
        self.reply_to_syncs(cx);
    }

    fn ping(&mut self, cx: &mut Context<'_>) {
        let (round, zxid) = (self.syncs.next_round(), self.broadcast.last_proposed());
        for (id, link) in self.links.iter_mut().filter(|(_, link)| link.receives_broadcast()) {
            // A learner does not reply to pings before UPTODATE.
            if link.stream.is_up_to_date() {
                link.pings.push_back(round);
            }
            link.stream.send_now(cx.out, *id, Message::Ping(zxid));
        }
    }

    fn on_pong(&mut self, cx: &mut Context<'_>, id: LinkId, zxid: Zxid, touched: Bytes) {
        let link = self.links.get_mut(&id).expect("the link is open");
        if let Some(round) = link.pings.pop_front() {
            link.pong_round = round;
        }
        let server = link.server;
        cx.out.push(Effect::FromLearner(id, server, Message::Pong(zxid, touched)));
        self.reply_to_syncs(cx);
    }

    fn reply_to_syncs(&mut self, cx: &mut Context<'_>) {
        if self.phase != Phase::Established {
            return;
        }
        let (me, links, quorums) = (self.me.server, &self.links, self.configs.quorums());
        let is_proven = |round| {
            let has_ponged =
                |server: ServerId| links.values().any(|link| link.server == server && round <= link.pong_round);
            quorums.are_reached(|server| server == me || has_ponged(server))
        };
        while let Some(id) = self.syncs.pop(self.broadcast.committed(), is_proven) {
            cx.out.push(Effect::Synced(id));
        }
    }

    fn close(&mut self, cx: &mut Context<'_>, id: LinkId) {
        self.links.remove(&id);
        cx.out.push(Effect::Close(id));
    }
}
