//! A learner: promises the leader's epoch, makes its history equal to the leader's, then logs, acknowledges, applies.
//!
//! ```text
//!   hello ─► promising ─► waiting ──DIFF──────────────► continuing ─┐
//!               (disk)      │ └───TRUNC─► truncating ──────► "      ├─NEWLEADER─► settling ─ACK─► acked ─UPTODATE─► active
//!                           └─────SNAP──► loading ──► staging ──────┘               (disk)
//! ```
//! Whatever a packet claims is checked against what came before (R3), and an acknowledgement leaves only when the disk
//! has reported what it covers (R1). While the disk works on the order of things ([`Learner::takes_packets`] is false),
//! packets wait in the link.

use crate::configs::{brought_by, parse};
use crate::context::Context;
use crate::effect::{DiskDone, DiskJob, Effect, Effects, LinkId, Reason};
use crate::epoch::{Epoch, Epochs};
use crate::learner_stream::RequestStream;
use crate::message::{LearnerKind, Message, Run, Txn};
use crate::peer::Standing;
use crate::progress::Moved;
use crate::timing::{Timing, Wait};
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a learner brings along.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Its number.
    pub server: ServerId,
    /// As what it joins.
    pub kind: LearnerKind,
    /// What its disk remembers.
    pub epochs: Epochs,
    /// The end of its durable history.
    pub last: Zxid,
    /// The version of its configuration.
    pub config_version: i64,
    /// Whether the leader's configurations count.
    pub is_dynamic: bool,
    /// Its own history is of no use: it wants the leader's state.
    pub wants_snapshot: bool,
    /// What may be counted: nothing before it has the leader's state, unless it has a history.
    pub standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The leader's epoch is awaited.
    Hello,
    /// The promise is on its way to the disk.
    Promising,
    /// The first packet of the history is awaited.
    Waiting,
    /// The disk cuts the history.
    Truncating,
    /// The leader's state is coming in.
    Loading(Zxid),
    /// The history is received: logged, or applied to the received state.
    Syncing,
    /// The history is complete and on its way to the disk.
    Settling(Epoch),
    /// The leader knows; it is not established yet.
    Acked(Epoch),
    /// The leader is established.
    Active,
}

/// A proposal that waits for its turn.
#[derive(Debug)]
struct Held {
    txn: Txn,
    /// What it brings.
    config: Option<Arc<Ensemble>>,
    is_committed: bool,
}

/// The learner's end of a link to a leader.
#[derive(Debug)]
pub struct Learner {
    claim: Claim,
    timing: Timing,
    to_leader: RequestStream,
    phase: Phase,
    /// The leader's epoch, once known.
    epoch: Epoch,
    /// The last transaction received, or where the history was continued.
    last: Zxid,
    /// Whether the next transaction may overlap with the received state.
    may_overlap: bool,
    /// Where the received state is; nothing is logged before that is installed.
    staged: Option<Zxid>,
    /// Only the leader's state will do.
    asked_for_snapshot: bool,
    /// It has told the leader which history it holds.
    has_claimed: bool,
    /// Proposals that are not logged yet, because the history must be settled first.
    held: VecDeque<Held>,
    /// Logged, and not acknowledged.
    unacked: VecDeque<Zxid>,
    /// Logged, and not committed.
    uncommitted: VecDeque<Zxid>,
    /// The last configuration that was proposed.
    proposed: Option<(Zxid, Arc<Ensemble>)>,
    /// The one that the leader begins with.
    named: Option<Arc<Ensemble>>,
    silence: Wait,
}

impl Learner {
    /// Introduces a server to its leader.
    pub fn new(claim: Claim, timing: Timing, link: LinkId, window_bytes: usize, cx: &mut Context<'_>) -> Self {
        let Claim { server, kind, config_version, epochs, .. } = claim;
        let mut to_leader = RequestStream::new(link, window_bytes);
        to_leader.send(cx.out, Message::Hello { server, kind, accepted: epochs.accepted, config_version });
        Self {
            claim,
            timing,
            to_leader,
            phase: Phase::Hello,
            epoch: Epoch(-1),
            last: claim.last,
            may_overlap: false,
            staged: None,
            asked_for_snapshot: false,
            has_claimed: false,
            held: VecDeque::new(),
            unacked: VecDeque::new(),
            uncommitted: VecDeque::new(),
            proposed: None,
            named: None,
            silence: Wait::new(cx.now_ms),
        }
    }

    /// The link to the leader.
    pub fn link(&self) -> LinkId {
        self.to_leader.link()
    }

    /// Sends the leader a request, or a reply to a ping.
    pub fn send(&mut self, out: &mut Effects, message: Message) {
        self.to_leader.send(out, message);
    }

    /// The socket has taken bytes that were sent to the leader: there is room for more.
    pub fn on_sent(&mut self, out: &mut Effects, bytes: usize) {
        self.to_leader.on_sent(out, bytes);
    }

    /// False while what comes next depends on the disk.
    pub fn takes_packets(&self) -> bool {
        !matches!(self.phase, Phase::Promising | Phase::Truncating | Phase::Settling(_) | Phase::Loading(_))
    }

    /// Whether the leader's state is being received: raw bytes, no packets.
    pub fn is_loading(&self) -> bool {
        matches!(self.phase, Phase::Loading(_))
    }

    /// Whether the leader has said who it is.
    pub fn has_heard(&self) -> bool {
        self.phase != Phase::Hello
    }

    /// Whether clients are served.
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// Whether the leader, if it hangs up now, does not want this history.
    pub(crate) fn is_judged(&self) -> bool {
        self.phase == Phase::Waiting && self.has_claimed
    }

    /// Bytes have come from the leader, if only a part of a packet, or gone to it.
    pub fn on_progress(&mut self, now_ms: i64, moved: Moved) {
        if moved.is_sign_of_life(false) {
            self.silence = Wait::new(now_ms);
        }
    }

    /// When the leader has been silent for too long.
    pub fn deadline(&self) -> Option<i64> {
        self.patience_ms().map(|patience_ms| self.silence.deadline(patience_ms))
    }

    /// How long the leader may be silent; none while the disk is waited for.
    fn patience_ms(&self) -> Option<i64> {
        match self.phase {
            Phase::Promising | Phase::Truncating | Phase::Settling(_) => None,
            Phase::Hello | Phase::Waiting | Phase::Loading(_) | Phase::Syncing => Some(self.timing.init_ms()),
            Phase::Acked(_) | Phase::Active => Some(self.timing.sync_ms()),
        }
    }

    /// The process did not run for a while: what the leader has sent meanwhile is read before it is judged.
    pub(crate) fn on_pause(&mut self, now_ms: i64) {
        if let Some(patience_ms) = self.patience_ms() {
            self.silence.on_pause(now_ms, patience_ms, &self.timing);
        }
    }

    /// Gives a silent leader up.
    pub fn on_time(&mut self, cx: &mut Context<'_>) {
        if self.deadline().is_some_and(|deadline| deadline <= cx.now_ms) {
            self.leave(Reason::Silence, cx);
        }
    }

    /// A packet of the leader.
    ///
    /// # Panics
    /// While packets are not taken.
    pub fn on_message(&mut self, message: Message, cx: &mut Context<'_>) {
        assert!(self.takes_packets(), "a packet while the disk decides");
        self.silence = Wait::new(cx.now_ms);
        match (self.phase, message) {
            (Phase::Hello, Message::LeaderInfo(epoch)) => self.on_leader_info(epoch, cx),
            (Phase::Waiting, Message::Diff(_)) => self.on_diff(cx),
            (Phase::Waiting, Message::Trunc(zxid)) => self.on_trunc(zxid, cx),
            (Phase::Waiting, Message::Snap(zxid)) => self.phase = Phase::Loading(zxid),
            // What is not agreed on is not for observers.
            (
                Phase::Active,
                Message::Proposal(_) | Message::Commit(_) | Message::Commits(_) | Message::CommitAndActivate(..),
            ) if self.is_observer() => {}
            (Phase::Syncing | Phase::Acked(_) | Phase::Active, Message::Proposal(txn)) => {
                self.on_proposal(txn, false, cx);
            }
            (Phase::Syncing | Phase::Acked(_) | Phase::Active, Message::Inform(txn)) if self.is_observer() => {
                self.on_proposal(txn, true, cx);
            }
            (Phase::Syncing | Phase::Acked(_) | Phase::Active, Message::InformAndActivate(txn, leader))
                if self.is_observer() =>
            {
                let zxid = txn.zxid;
                self.on_proposal(txn, true, cx);
                self.activate(zxid, leader, cx);
            }
            (Phase::Syncing | Phase::Acked(_) | Phase::Active, Message::Commit(zxid)) => {
                self.on_commit(zxid.into(), cx)
            }
            (Phase::Syncing | Phase::Acked(_) | Phase::Active, Message::Commits(run)) => self.on_commit(run, cx),
            (Phase::Syncing | Phase::Acked(_) | Phase::Active, Message::CommitAndActivate(zxid, leader)) => {
                self.on_commit(zxid.into(), cx);
                self.activate(zxid, leader, cx);
            }
            (Phase::Syncing, Message::NewLeader { epoch, config }) => self.on_new_leader(epoch, &config, cx),
            (Phase::Acked(epoch), Message::UpToDate) => self.on_up_to_date(epoch, cx),
            (Phase::Active, message) => cx.out.push(Effect::FromLeader(message)),
            // Whatever else is said while the history is settled has no answer.
            (Phase::Syncing | Phase::Acked(_), _) => (),
            (_, message) => self.leave(Reason::Violation(format!("{message:?} in {:?}", self.phase)), cx),
        }
    }

    /// The disk has finished a job.
    pub fn on_done(&mut self, done: DiskDone, cx: &mut Context<'_>) {
        self.silence = Wait::new(cx.now_ms); // no packet was read while the disk was busy
        match (self.phase, done) {
            (Phase::Promising, DiskDone::AcceptedEpoch(epoch)) if epoch == self.epoch => {
                self.claim.epochs.accepted = epoch;
                self.ack_epoch(Some(self.claim.epochs.current), cx);
            }
            (Phase::Truncating, DiskDone::Truncated(end)) => self.on_truncated(end, cx),
            (Phase::Settling(epoch), DiskDone::CurrentEpoch(done)) if done == epoch => {
                self.claim.epochs.current = epoch;
                self.phase = Phase::Acked(epoch);
                self.to_leader.send(cx.out, Message::Ack(epoch.start()));
            }
            _ => (),
        }
    }

    /// The leader's whole state has come in.
    pub fn on_loaded(&mut self, now_ms: i64) {
        if let Phase::Loading(zxid) = self.phase {
            self.silence = Wait::new(now_ms);
            (self.last, self.may_overlap, self.staged) = (zxid, true, Some(zxid));
            self.phase = Phase::Syncing;
        }
    }

    /// The disk holds everything up to `durable`.
    pub fn on_durable(&mut self, durable: Zxid, cx: &mut Context<'_>) {
        let mut acks: Option<Message> = None;
        while self.phase == Phase::Active
            && let Some(zxid) = self.unacked.pop_front_if(|zxid| *zxid <= durable)
        {
            let next = Message::Ack(zxid);
            if !acks.as_mut().is_some_and(|acks| acks.join(&next)) {
                acks.replace(next).into_iter().for_each(|acks| self.to_leader.send(cx.out, acks));
            }
        }
        acks.into_iter().for_each(|acks| self.to_leader.send(cx.out, acks));
    }

    fn is_observer(&self) -> bool {
        self.claim.kind == LearnerKind::Observer
    }

    fn on_leader_info(&mut self, epoch: Epoch, cx: &mut Context<'_>) {
        let accepted = self.claim.epochs.accepted;
        if epoch < accepted {
            return self.leave(Reason::OldEpoch(epoch), cx);
        }
        self.epoch = epoch;
        if epoch == accepted || self.claim.standing != Standing::History {
            return self.ack_epoch(None, cx);
        }
        self.phase = Phase::Promising;
        cx.out.push(Effect::Disk(DiskJob::AcceptedEpoch(epoch)));
    }

    /// Promises the epoch. Who says which epoch's history it holds is counted, so it tells the truth; to ask for a
    /// snapshot by pretending to have nothing is for those who are not counted.
    fn ack_epoch(&mut self, current: Option<Epoch>, cx: &mut Context<'_>) {
        self.asked_for_snapshot =
            current.is_none() && (self.claim.wants_snapshot || self.claim.standing != Standing::History);
        let last = if self.asked_for_snapshot { Zxid::ZERO } else { self.claim.last };
        (self.phase, self.has_claimed) = (Phase::Waiting, current.is_some());
        self.to_leader.send(cx.out, Message::AckEpoch { last, current });
    }

    fn on_diff(&mut self, cx: &mut Context<'_>) {
        // A leader that has nothing either is equal to who has nothing.
        let has_nothing = self.claim.last == Zxid::ZERO && self.claim.standing != Standing::Quarantined;
        if self.asked_for_snapshot && !has_nothing {
            return self.leave(Reason::NeedsSnapshot, cx);
        }
        self.phase = Phase::Syncing;
        cx.out.push(Effect::Commit(self.last)); // the leader has all of it
    }

    fn on_trunc(&mut self, zxid: Zxid, cx: &mut Context<'_>) {
        if self.asked_for_snapshot {
            return self.leave(Reason::NeedsSnapshot, cx);
        }
        self.phase = Phase::Truncating;
        cx.out.push(Effect::Disk(DiskJob::Truncate(zxid)));
        self.last = zxid;
    }

    fn on_truncated(&mut self, end: Option<Zxid>, cx: &mut Context<'_>) {
        match end {
            Some(end) if end == self.last => {
                self.claim.last = end;
                self.phase = Phase::Syncing;
                cx.out.push(Effect::Commit(end));
            }
            // The transaction it should end with is not in it: say so, and be told anew.
            Some(_) => self.leave(Reason::LinkLost, cx),
            None => self.leave(Reason::NeedsSnapshot, cx),
        }
    }

    fn on_proposal(&mut self, txn: Txn, is_committed: bool, cx: &mut Context<'_>) {
        // What comes behind NEWLEADER is logged: it can only be new.
        let may_overlap = std::mem::replace(&mut self.may_overlap, false) && self.phase == Phase::Syncing;
        if self.claim.standing == Standing::Empty && self.phase == Phase::Syncing && self.staged.is_none() {
            // Of a history that begins with nothing, only all of it can be believed.
            return self.leave(Reason::NeedsSnapshot, cx);
        }
        if is_committed && !may_overlap && txn.zxid <= self.last {
            return; // Compat: Apache's followers tell their observers again what they have just given them
        }
        let overlaps = may_overlap && txn.zxid <= self.last;
        if !overlaps && !txn.zxid.follows(self.last) {
            let reason = format!("{} after {}", txn.zxid, self.last);
            return self.leave_asking_for_snapshot(&reason, cx);
        }
        let config = match brought_by(&txn) {
            _ if !self.claim.is_dynamic => None,
            Ok(config) => config,
            Err(reason) => return self.leave(Reason::Violation(reason), cx),
        };
        if let Some(config) = &config {
            self.proposed = Some((txn.zxid, Arc::clone(config)));
        }
        self.last = txn.zxid;
        let held = Held { txn, config, is_committed };
        if self.phase == Phase::Active {
            return self.log(held, cx);
        }
        self.held.push_back(held);
        if is_committed && self.phase == Phase::Syncing {
            self.take_committed(cx);
        }
    }

    fn on_commit(&mut self, run: Run, cx: &mut Context<'_>) {
        if self.phase == Phase::Active {
            return self.on_commit_logged(run, cx);
        }
        for zxid in run.iter() {
            let Some(held) = self.held.iter_mut().find(|held| !held.is_committed) else {
                return self.leave(Reason::Violation(format!("commit of {zxid}, which was not proposed")), cx);
            };
            if held.txn.zxid != zxid {
                let reason = format!("commit of {zxid} before {}", held.txn.zxid);
                return self.leave(Reason::Violation(reason), cx);
            }
            held.is_committed = true;
        }
        if self.phase == Phase::Syncing {
            self.take_committed(cx);
        }
    }

    /// Takes the committed part of what is held into the history.
    fn take_committed(&mut self, cx: &mut Context<'_>) {
        while let Some(Held { txn, config, .. }) = self.held.pop_front_if(|held| held.is_committed) {
            cx.out.extend(config.map(Effect::Seen));
            if let Some(staged) = &mut self.staged {
                *staged = txn.zxid.max(*staged);
                cx.out.push(Effect::Stage(txn));
            } else {
                let zxid = txn.zxid;
                append(txn, cx);
                cx.out.push(Effect::Commit(zxid));
            }
        }
    }

    fn on_new_leader(&mut self, epoch: Epoch, config: &[u8], cx: &mut Context<'_>) {
        if epoch != self.epoch {
            return self.leave(Reason::Violation(format!("NEWLEADER of epoch {epoch}, not {}", self.epoch)), cx);
        }
        if self.claim.is_dynamic && 1 < config.len() {
            match parse(config) {
                Ok(named) => {
                    self.named = Some(Arc::clone(&named));
                    cx.out.push(Effect::Seen(named));
                }
                Err(why) => return self.leave(Reason::Violation(format!("NEWLEADER with a configuration: {why}")), cx),
            }
        }
        if let Some(end) = self.staged.take() {
            // All that the state may contain has been committed by now.
            if self.last < end || self.held.front().is_some_and(|held| held.txn.zxid <= end) {
                return self.leave(Reason::Violation(format!("a state at {end} without what it contains")), cx);
            }
            cx.history.restart(end);
            cx.out.push(Effect::Disk(DiskJob::Install(end)));
        } else if self.claim.standing == Standing::Empty {
            cx.out.push(Effect::Disk(DiskJob::Found));
        }
        if self.claim.epochs.accepted < epoch {
            self.claim.epochs.accepted = epoch; // it was not counted, so it has not promised yet
            cx.out.push(Effect::Disk(DiskJob::AcceptedEpoch(epoch)));
        }
        self.phase = Phase::Settling(epoch);
        cx.out.push(Effect::Disk(DiskJob::CurrentEpoch(epoch)));
    }

    fn on_up_to_date(&mut self, epoch: Epoch, cx: &mut Context<'_>) {
        cx.out.extend(self.named.take().map(|named| Effect::Activate(named, None)));
        self.to_leader.send(cx.out, Message::Ack(epoch.start()));
        self.phase = Phase::Active;
        cx.out.push(Effect::UpToDate(epoch));
        for held in std::mem::take(&mut self.held) {
            self.log(held, cx);
        }
    }

    fn log(&mut self, held: Held, cx: &mut Context<'_>) {
        let Held { txn, config, is_committed } = held;
        let zxid = txn.zxid;
        cx.out.extend(config.map(Effect::Seen));
        append(txn, cx);
        if !self.is_observer() {
            self.unacked.push_back(zxid);
        }
        if is_committed {
            cx.out.push(Effect::Commit(zxid));
        } else {
            self.uncommitted.push_back(zxid);
        }
    }

    fn on_commit_logged(&mut self, run: Run, cx: &mut Context<'_>) {
        for zxid in run.iter() {
            let first = self.uncommitted.pop_front();
            if first != Some(zxid) {
                return self.leave(Reason::Violation(format!("commit of {zxid} instead of {first:?}")), cx);
            }
        }
        cx.out.push(Effect::Commit(run.last));
    }

    /// What a transaction has brought is in force from here on.
    fn activate(&mut self, zxid: Zxid, leader: ServerId, cx: &mut Context<'_>) {
        if matches!(cx.out.last(), Some(Effect::Leave(_))) {
            return;
        }
        if let Some((_, config)) = self.proposed.take_if(|(at, _)| *at == zxid) {
            cx.out.push(Effect::Activate(config, Some(leader)));
        }
    }

    /// The leader's history and this one do not fit together, for whatever reason.
    fn leave_asking_for_snapshot(&mut self, reason: &str, cx: &mut Context<'_>) {
        let in_sync = !matches!(self.phase, Phase::Active);
        let reason = if in_sync { Reason::NeedsSnapshot } else { Reason::Violation(reason.to_owned()) };
        self.leave(reason, cx);
    }

    fn leave(&mut self, reason: Reason, cx: &mut Context<'_>) {
        cx.out.push(Effect::Leave(reason));
    }
}

fn append(txn: Txn, cx: &mut Context<'_>) {
    cx.history.push(txn.clone());
    cx.out.push(Effect::Append(txn));
}
