//! A follower as observer master (`ObserverMaster`): synchronises observers, and sends them committed transactions.
//!
//! Its leader is established, so there is no discovery. Requests of observers are forwarded to the leader. Observers
//! are sent commits in the order in which the follower learned of them.

use crate::context::Context;
use crate::effect::{Effect, Effects, LinkId, LogDiffRange};
use crate::epoch::Epoch;
use crate::learner_stream::{Committed, LearnerStream, Pumped};
use crate::learner_sync::{Progress, SyncChoice, SyncPlan};
use crate::liveness::Traffic;
use crate::message::{LearnerKind, Message};
use crate::options::PeerOptions;
use crate::timing::{Timing, Wait};
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use std::collections::BTreeMap;

/// How far an observer has joined. Stages only advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    AwaitHello,
    LeaderInfoSent,
    /// The on-disk log is searched for a DIFF.
    ReadingLog,
    /// Is being sent its history.
    Syncing,
    Active,
}

#[derive(Debug)]
struct ObserverHandler {
    server: ServerId,
    stage: Stage,
    /// The observer's last transaction, from its ACKEPOCH.
    last: Zxid,
    gets_snapshot: bool,
    last_received: Wait,
    stream: LearnerStream,
}

impl ObserverHandler {
    /// Whether new transactions are sent to this observer.
    fn receives_broadcast(&self) -> bool {
        Stage::Syncing <= self.stage
    }

    /// How long the observer may be silent.
    fn timeout_ms(&self, timing: &Timing) -> i64 {
        if self.stage == Stage::Active { timing.sync_ms() } else { timing.init_ms() }
    }

    /// While an observer receives history it replies to nothing, so bytes that it accepts count as a sign of life.
    fn is_receiving_history(&self) -> bool {
        self.stage == Stage::Syncing || (self.stage == Stage::Active && !self.stream.is_up_to_date())
    }
}

#[derive(Debug)]
pub struct ObserverMaster {
    timing: Timing,
    options: PeerOptions,
    epoch: Epoch,
    config: Bytes,
    config_version: i64,
    /// Reconfigurations that observers have not all been sent yet, by zxid, with the leader that each names.
    activations: BTreeMap<Zxid, ServerId>,
    links: BTreeMap<LinkId, ObserverHandler>,
    /// The last committed transaction. Observers may be sent everything up to it.
    committed: Zxid,
    /// Last transaction applied to the state.
    applied: Zxid,
    ping_at_ms: i64,
}

/// The state with which a follower starts to serve observers.
#[derive(Clone, Debug)]
pub struct ServingState {
    pub epoch: Epoch,
    /// Text of the committed configuration.
    pub config: Bytes,
    pub config_version: i64,
    pub committed: Zxid,
    pub applied: Zxid,
}

impl ObserverMaster {
    pub fn new(state: ServingState, timing: Timing, options: PeerOptions, now_ms: i64) -> Self {
        let ServingState { epoch, config, config_version, committed, applied } = state;
        let ping_at_ms = now_ms + timing.ping_ms();
        let (links, activations) = (BTreeMap::new(), BTreeMap::new());
        Self { timing, options, epoch, config, config_version, activations, links, committed, applied, ping_at_ms }
    }

    /// Whether the link is that of an observer.
    pub fn has(&self, id: LinkId) -> bool {
        self.links.contains_key(&id)
    }

    /// Links of all connected observers.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        self.links.keys().copied()
    }

    /// Number of active observers.
    pub fn active(&self) -> usize {
        self.links.values().filter(|link| link.stage == Stage::Active).count()
    }

    /// When the caller has to call [`Self::on_time`].
    pub fn deadline(&self) -> Option<i64> {
        (!self.links.is_empty()).then_some(self.ping_at_ms)
    }

    pub fn on_link(&mut self, now_ms: i64, id: LinkId) {
        let (server, stage, last) = (ServerId(i64::MIN), Stage::AwaitHello, Zxid::ZERO);
        let stream = LearnerStream::new(self.options.learner_window_bytes);
        self.links.insert(
            id,
            ObserverHandler { server, stage, last, gets_snapshot: false, last_received: Wait::new(now_ms), stream },
        );
    }

    /// The socket accepted `bytes` that were sent to an observer.
    pub fn on_sent(&mut self, cx: &mut Context<'_>, id: LinkId, bytes: usize) {
        if let Some(link) = self.links.get_mut(&id) {
            link.stream.on_sent(bytes);
            self.pump(cx, id);
        }
    }

    /// Sends a reply after all commits so far. Closes the link if the observer leaves too many replies unread.
    pub fn send(&mut self, out: &mut Effects, id: LinkId, message: Message) {
        if let Some(link) = self.links.get_mut(&id) {
            link.stream.send_after(out, id, message, self.committed);
            if link.stream.is_overfull() {
                self.links.remove(&id);
                out.push(Effect::Close(id));
            }
        }
    }

    /// The lowest zxid after which an observer still needs the recent log.
    pub fn pinned(&self) -> Option<Zxid> {
        self.links.values().filter_map(|link| link.stream.pinned()).min()
    }

    pub fn on_link_gone(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    pub fn on_traffic(&mut self, now_ms: i64, id: LinkId, moved: Traffic) {
        if let Some(link) = self.links.get_mut(&id)
            && moved.is_sign_of_life(link.is_receiving_history())
        {
            link.last_received = Wait::new(now_ms);
        }
    }

    pub fn on_applied(&mut self, applied: Zxid) {
        self.applied = applied;
    }

    pub fn on_message(&mut self, cx: &mut Context<'_>, id: LinkId, message: Message) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.last_received = Wait::new(cx.now_ms);
        match (link.stage, message) {
            (Stage::AwaitHello, Message::Hello { server, kind: LearnerKind::Observer, config_version, .. })
                if config_version <= self.config_version =>
            {
                self.on_hello(cx, id, server);
            }
            (Stage::LeaderInfoSent, Message::AckEpoch { last, .. }) => {
                link.last = last;
                self.plan_sync(cx, id);
            }
            (Stage::Syncing, Message::Ack(zxid)) if zxid == self.epoch.start() => {
                link.stage = Stage::Active;
                link.stream.send_after(cx.out, id, Message::UpToDate, self.committed);
            }
            // Observers do not vote: their ACKs are ignored.
            (Stage::Syncing | Stage::Active, Message::Ack(_) | Message::Acks(_)) => (),
            (Stage::Active, message @ (Message::Request(_) | Message::Revalidate(..) | Message::Pong(..))) => {
                cx.out.push(Effect::FromLearner(id, link.server, message));
            }
            (Stage::Syncing | Stage::Active, Message::Pong(..) | Message::Other(_)) => (),
            _ => self.close(cx, id),
        }
    }

    /// Result of [`Effect::ReadLog`]: the on-disk log contains what the observer lacks before `below`, or does not.
    pub fn on_log_read(&mut self, cx: &mut Context<'_>, id: LinkId, below: Option<Zxid>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        match (link.stage, below) {
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

    /// A configuration becomes active. Called before the commit of its transaction.
    pub fn on_activate(&mut self, ensemble: &Ensemble, leader: Option<ServerId>) {
        (self.config, self.config_version) = (ensemble.to_string().into(), ensemble.version());
        self.activations.retain(|zxid, _| self.links.values().any(|link| link.stream.lacks(*zxid)));
        self.activations.extend(leader.map(|leader| (Zxid(ensemble.version()), leader)));
    }

    pub fn on_commit(&mut self, cx: &mut Context<'_>, committed: Zxid) {
        if self.committed < committed {
            self.committed = committed;
            let receiving = self.links.iter().filter(|(_, link)| link.receives_broadcast()).map(|(id, _)| *id);
            for id in receiving.collect::<Vec<_>>() {
                self.pump(cx, id);
            }
        }
    }

    /// Pings observers, and closes links that are silent for too long.
    pub fn on_time(&mut self, cx: &mut Context<'_>) {
        if cx.now_ms < self.ping_at_ms {
            return;
        }
        self.ping_at_ms = cx.now_ms + self.timing.ping_ms();
        let is_late = |link: &ObserverHandler| link.timeout_ms(&self.timing) < link.last_received.lasted_ms(cx.now_ms);
        let late: Vec<LinkId> = self.links.iter().filter(|(_, link)| is_late(link)).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.close(cx, id));
        for (id, link) in self.links.iter_mut().filter(|(_, link)| link.receives_broadcast()) {
            link.stream.send_now(cx.out, *id, Message::Ping(self.committed));
        }
    }

    /// The process did not run for a while: packets of observers may not have been read yet.
    pub(crate) fn on_pause(&mut self, now_ms: i64) {
        for link in self.links.values_mut() {
            link.last_received.on_pause(now_ms, link.timeout_ms(&self.timing), &self.timing);
        }
    }

    fn on_hello(&mut self, cx: &mut Context<'_>, id: LinkId, server: ServerId) {
        let others = self.links.iter().filter(|(other, link)| **other != id && link.server == server);
        for other in others.map(|(other, _)| *other).collect::<Vec<_>>() {
            self.close(cx, other);
        }
        let link = self.links.get_mut(&id).expect("the link is open");
        (link.server, link.stage) = (server, Stage::LeaderInfoSent);
        link.stream.send_now(cx.out, id, Message::LeaderInfo(self.epoch));
    }

    /// Chooses how to synchronise an observer.
    fn plan_sync(&mut self, cx: &mut Context<'_>, id: LinkId) {
        let progress = self.progress();
        let link = self.links.get_mut(&id).expect("the link is open");
        if self.committed < link.last && Epoch::of(link.last) == self.epoch && link.last.counter() != 0 {
            // The observer's last transaction is committed, but this follower does not know that yet. Truncating it
            // would undo what the observer's clients have seen.
            return self.close(cx, id);
        }
        // An empty or quarantined observer cannot use an empty DIFF.
        let lack = match link.last <= Zxid::ZERO {
            true => SyncChoice::Plan(SyncPlan::Snap),
            false => SyncChoice::of(link.last, cx.history, progress, &self.options),
        };
        match lack {
            SyncChoice::Plan(plan) => self.start_sync(cx, id, plan),
            SyncChoice::ReadLog(below) => {
                link.stage = Stage::ReadingLog;
                cx.out.push(Effect::ReadLog(id, LogDiffRange { after: link.last, below, continues: false }));
            }
        }
    }

    /// Starts to synchronise an observer. Observers over the limit are closed, so that they retry.
    fn start_sync(&mut self, cx: &mut Context<'_>, id: LinkId, plan: SyncPlan) {
        let others = self.links.values().filter(|link| link.stage == Stage::Syncing);
        if plan.is_over_limit(others.map(|link| link.gets_snapshot), &self.options) {
            return self.close(cx, id);
        }
        let progress = self.progress();
        let link = self.links.get_mut(&id).expect("the link is open");
        (link.stage, link.gets_snapshot) = (Stage::Syncing, plan.is_snap());
        plan.send(cx, id, progress, false, &mut link.stream);
        self.pump(cx, id);
    }

    /// Sends an observer as much as its send window allows. Closes the link if it lacks transactions that are gone.
    fn pump(&mut self, cx: &mut Context<'_>, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (limit, epoch_start) = (self.committed, self.epoch.start());
        let committed = Committed { limit, epoch_start, activations: &self.activations };
        loop {
            match link.stream.pump(cx.history, cx.out, id, committed) {
                Pumped::Done => return,
                Pumped::CaughtUp => {
                    let new_leader = Message::NewLeader { epoch: self.epoch, config: self.config.clone() };
                    link.stream.complete(cx.out, id, new_leader);
                }
                Pumped::Trimmed => match link.stream.continue_from_log(cx.history) {
                    Some(search) => return cx.out.push(Effect::ReadLog(id, search)),
                    None => return self.close(cx, id),
                },
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { processed: self.committed, committed: self.committed, applied: self.applied }
    }

    fn close(&mut self, cx: &mut Context<'_>, id: LinkId) {
        self.links.remove(&id);
        cx.out.push(Effect::Close(id));
    }
}
