//! A follower that serves observers: it gives them the history it has, and tells them what it hears is agreed on.
//!
//! Its leader is established, so nobody is waited for. What observers ask for goes to the leader, and what is told them
//! is told by the follower, in the order in which it heard of it.

use crate::context::Context;
use crate::effect::{Effect, Effects, LinkId, Search};
use crate::epoch::Epoch;
use crate::learner_stream::{Committed, LearnerStream, Pumped};
use crate::learner_sync::{Given, Lack, Reach};
use crate::liveness::Moved;
use crate::message::{LearnerKind, Message};
use crate::options::PeerOptions;
use crate::timing::{Timing, Wait};
use bytes::Bytes;
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use std::collections::BTreeMap;

/// How far an observer has come. Only forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Has not introduced itself.
    Unknown,
    /// Was told the epoch.
    Asked,
    /// Its history is looked for in the stored log.
    LookingUp,
    /// Gets the history.
    Syncing,
    /// Takes part.
    Active,
}

#[derive(Debug)]
struct Link {
    server: ServerId,
    stage: Stage,
    /// The end of its history when it came.
    last: Zxid,
    /// Whether it gets the state, while it gets the history.
    gets_state: bool,
    silence: Wait,
    stream: LearnerStream,
}

impl Link {
    /// Whether it hears of everything new.
    fn is_told(&self) -> bool {
        Stage::Syncing <= self.stage
    }

    /// How long it may be silent.
    fn patience_ms(&self, timing: &Timing) -> i64 {
        if self.stage == Stage::Active { timing.sync_ms() } else { timing.init_ms() }
    }

    /// Whether it receives history and replies to nothing: what it is sent shows that it is there.
    fn is_given_history(&self) -> bool {
        self.stage == Stage::Syncing || (self.stage == Stage::Active && !self.stream.is_up_to_date())
    }
}

/// What a follower serves its observers with.
#[derive(Debug)]
pub struct Master {
    timing: Timing,
    options: PeerOptions,
    epoch: Epoch,
    config: Bytes,
    config_version: i64,
    /// Transactions that have activated a configuration, with the leader from then on, until all observers know.
    activations: BTreeMap<Zxid, ServerId>,
    links: BTreeMap<LinkId, Link>,
    /// Everything up to here is agreed on, and told.
    committed: Zxid,
    /// Where the state is.
    applied: Zxid,
    ping_at_ms: i64,
}

/// Where a follower is when it begins to serve observers.
#[derive(Clone, Debug)]
pub struct Office {
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The configuration's text.
    pub config: Bytes,
    /// The configuration's version.
    pub config_version: i64,
    /// Everything up to here is agreed on.
    pub committed: Zxid,
    /// Where the state is.
    pub applied: Zxid,
}

impl Master {
    /// Of a follower whose leader is established.
    pub fn new(office: Office, timing: Timing, options: PeerOptions, now_ms: i64) -> Self {
        let Office { epoch, config, config_version, committed, applied } = office;
        let ping_at_ms = now_ms + timing.ping_ms();
        let (links, activations) = (BTreeMap::new(), BTreeMap::new());
        Self { timing, options, epoch, config, config_version, activations, links, committed, applied, ping_at_ms }
    }

    /// Whether an observer is at the other end.
    pub fn has(&self, id: LinkId) -> bool {
        self.links.contains_key(&id)
    }

    /// All observers that are connected.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        self.links.keys().copied()
    }

    /// Observers that take part.
    pub fn active(&self) -> usize {
        self.links.values().filter(|link| link.stage == Stage::Active).count()
    }

    /// When [`Self::on_time`] wants to be called.
    pub fn deadline(&self) -> Option<i64> {
        (!self.links.is_empty()).then_some(self.ping_at_ms)
    }

    /// An observer has connected.
    pub fn on_link(&mut self, now_ms: i64, id: LinkId) {
        let (server, stage, last) = (ServerId(i64::MIN), Stage::Unknown, Zxid::ZERO);
        let stream = LearnerStream::new(self.options.learner_window_bytes);
        self.links.insert(id, Link { server, stage, last, gets_state: false, silence: Wait::new(now_ms), stream });
    }

    /// The socket has taken bytes that were sent to an observer: there is room for more.
    pub fn on_sent(&mut self, cx: &mut Context<'_>, id: LinkId, bytes: usize) {
        if let Some(link) = self.links.get_mut(&id) {
            link.stream.on_sent(bytes);
            self.pump(cx, id);
        }
    }

    /// Sends an observer a reply, behind everything that is committed. One that leaves too many of them unread is closed.
    pub fn send(&mut self, out: &mut Effects, id: LinkId, message: Message) {
        if let Some(link) = self.links.get_mut(&id) {
            link.stream.send_after(out, id, message, self.committed);
            if link.stream.is_overfull() {
                self.links.remove(&id);
                out.push(Effect::Close(id));
            }
        }
    }

    /// What observers still have to be sent of the log in memory begins after this transaction.
    pub fn pinned(&self) -> Option<Zxid> {
        self.links.values().filter_map(|link| link.stream.pinned()).min()
    }

    /// An observer is gone.
    pub fn on_link_gone(&mut self, id: LinkId) {
        self.links.remove(&id);
    }

    /// Bytes have gone to an observer, or come from it.
    pub fn on_progress(&mut self, now_ms: i64, id: LinkId, moved: Moved) {
        if let Some(link) = self.links.get_mut(&id)
            && moved.is_sign_of_life(link.is_given_history())
        {
            link.silence = Wait::new(now_ms);
        }
    }

    /// The state contains everything up to `applied`.
    pub fn on_applied(&mut self, applied: Zxid) {
        self.applied = applied;
    }

    /// A packet of an observer.
    pub fn on_message(&mut self, cx: &mut Context<'_>, id: LinkId, message: Message) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.silence = Wait::new(cx.now_ms);
        match (link.stage, message) {
            (Stage::Unknown, Message::Hello { server, kind: LearnerKind::Observer, config_version, .. })
                if config_version <= self.config_version =>
            {
                self.on_hello(cx, id, server);
            }
            (Stage::Asked, Message::AckEpoch { last, .. }) => {
                link.last = last;
                self.sync(cx, id);
            }
            (Stage::Syncing, Message::Ack(zxid)) if zxid == self.epoch.start() => {
                link.stage = Stage::Active;
                link.stream.send_after(cx.out, id, Message::UpToDate, self.committed);
            }
            // Observers have no vote; what they acknowledge is of no interest.
            (Stage::Syncing | Stage::Active, Message::Ack(_) | Message::Acks(_)) => (),
            (Stage::Active, message @ (Message::Request(_) | Message::Revalidate(..) | Message::Pong(..))) => {
                cx.out.push(Effect::FromLearner(id, link.server, message));
            }
            (Stage::Syncing | Stage::Active, Message::Pong(..) | Message::Other(_)) => (),
            _ => self.close(cx, id),
        }
    }

    /// The on-disk log has what an observer lacks before `below`, or not.
    pub fn on_looked_up(&mut self, cx: &mut Context<'_>, id: LinkId, below: Option<Zxid>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        match (link.stage, below) {
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

    /// Another configuration is in force; its transaction is about to be told as agreed on.
    pub fn on_activate(&mut self, ensemble: &Ensemble, leader: Option<ServerId>) {
        (self.config, self.config_version) = (ensemble.to_string().into(), ensemble.version());
        self.activations.retain(|zxid, _| self.links.values().any(|link| link.stream.lacks(*zxid)));
        self.activations.extend(leader.map(|leader| (Zxid(ensemble.version()), leader)));
    }

    /// More is committed.
    pub fn on_commit(&mut self, cx: &mut Context<'_>, committed: Zxid) {
        if self.committed < committed {
            self.committed = committed;
            let told = self.links.iter().filter(|(_, link)| link.is_told()).map(|(id, _)| *id);
            for id in told.collect::<Vec<_>>() {
                self.pump(cx, id);
            }
        }
    }

    /// Speaks to everybody, and looks who has not spoken for too long.
    pub fn on_time(&mut self, cx: &mut Context<'_>) {
        if cx.now_ms < self.ping_at_ms {
            return;
        }
        self.ping_at_ms = cx.now_ms + self.timing.ping_ms();
        let is_late = |link: &Link| link.patience_ms(&self.timing) < link.silence.lasted_ms(cx.now_ms);
        let late: Vec<LinkId> = self.links.iter().filter(|(_, link)| is_late(link)).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.close(cx, id));
        for (id, link) in self.links.iter_mut().filter(|(_, link)| link.is_told()) {
            link.stream.send_now(cx.out, *id, Message::Ping(self.committed));
        }
    }

    /// The process did not run for a while: what observers have sent meanwhile is read before they are judged.
    pub(crate) fn on_pause(&mut self, now_ms: i64) {
        for link in self.links.values_mut() {
            link.silence.on_pause(now_ms, link.patience_ms(&self.timing), &self.timing);
        }
    }

    fn on_hello(&mut self, cx: &mut Context<'_>, id: LinkId, server: ServerId) {
        let others = self.links.iter().filter(|(other, link)| **other != id && link.server == server);
        for other in others.map(|(other, _)| *other).collect::<Vec<_>>() {
            self.close(cx, other);
        }
        let link = self.links.get_mut(&id).expect("it has just spoken");
        (link.server, link.stage) = (server, Stage::Asked);
        link.stream.send_now(cx.out, id, Message::LeaderInfo(self.epoch));
    }

    /// Finds out what an observer lacks.
    fn sync(&mut self, cx: &mut Context<'_>, id: LinkId) {
        let reach = self.reach();
        let link = self.links.get_mut(&id).expect("it has just spoken");
        if self.committed < link.last && Epoch::of(link.last) == self.epoch && link.last.counter() != 0 {
            // What it has is agreed on, only not heard of here. To cut it would take it back from clients.
            return self.close(cx, id);
        }
        // Who has nothing, or has lost it, cannot do with an empty difference.
        let lack = match link.last <= Zxid::ZERO {
            true => Lack::Known(Given::State),
            false => Lack::of(link.last, cx.history, reach, &self.options),
        };
        match lack {
            Lack::Known(given) => self.give(cx, id, given),
            Lack::MayBeStored(below) => {
                link.stage = Stage::LookingUp;
                cx.out.push(Effect::LookUp(id, Search { after: link.last, below, continues: false }));
            }
        }
    }

    /// Gives an observer what it lacks, and everything new from now on.
    fn give(&mut self, cx: &mut Context<'_>, id: LinkId, given: Given) {
        let others = self.links.values().filter(|link| link.stage == Stage::Syncing);
        if given.is_full(others.map(|link| link.gets_state), &self.options) {
            return self.close(cx, id);
        }
        let reach = self.reach();
        let link = self.links.get_mut(&id).expect("it has just spoken");
        (link.stage, link.gets_state) = (Stage::Syncing, given.is_state());
        given.send(cx, id, reach, false, &mut link.stream);
        self.pump(cx, id);
    }

    /// Hands an observer as much as its link takes, and closes it if what it lacks is no longer there.
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
                Pumped::Trimmed => match link.stream.look_up(cx.history) {
                    Some(search) => return cx.out.push(Effect::LookUp(id, search)),
                    None => return self.close(cx, id),
                },
            }
        }
    }

    fn reach(&self) -> Reach {
        Reach { processed: self.committed, agreed: self.committed, applied: self.applied }
    }

    fn close(&mut self, cx: &mut Context<'_>, id: LinkId) {
        self.links.remove(&id);
        cx.out.push(Effect::Close(id));
    }
}
