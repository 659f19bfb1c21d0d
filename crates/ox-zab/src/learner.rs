//! A learner: accepts the leader's epoch, makes its log equal to the leader's, then logs, acknowledges and applies.
//!
//! ```text
//!   AwaitLeaderInfo ─► PersistAcceptedEpoch ─► AwaitSync ─DIFF────────────────────────► Syncing
//!                             (disk)             │ └─TRUNC─► Truncating ─────────────────►│
//!                                                └───SNAP──► ReceivingSnapshot ──────────►│ NEWLEADER
//!                                 Active ◄─UPTODATE─ AwaitUpToDate ◄─ACK─ PersistCurrentEpoch ◄┘
//!                                                                              (disk)
//! ```
//! Every packet is checked against those before it (R3), and an ACK is sent only when the disk has reported what it
//! covers (R1). While the next step depends on the disk ([`Learner::takes_packets`] returns false), packets wait in the
//! link.
//!
//! After DIFF or TRUNC, committed transactions before NEWLEADER are logged and applied. After SNAP, the driver receives
//! the snapshot (`ox-driver/src/links.rs`) and loads it (`ox-server/src/peers.rs`); those transactions
//! are applied to it ([`Effect::ApplyToSnapshot`]), and NEWLEADER starts its installation
//! ([`DiskJob::Install`]). All other proposals are logged after UPTODATE.

use crate::config_pair::{config_of_txn, parse};
use crate::context::Context;
use crate::effect::{DiskDone, DiskJob, Effect, Effects, LinkId, Reason};
use crate::epoch::{Epoch, Epochs};
use crate::learner_stream::RequestStream;
use crate::liveness::Traffic;
use crate::message::{EncodedTxn, LearnerKind, Message, ZxidRange};
use crate::quorum_peer::Eligibility;
use crate::timing::{Timing, Wait};
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use std::collections::VecDeque;
use std::sync::Arc;

/// The state with which a server becomes a learner.
#[derive(Clone, Copy, Debug)]
pub struct LearnerInit {
    pub server: ServerId,
    pub kind: LearnerKind,
    pub epochs: Epochs,
    /// The last durable transaction.
    pub last: Zxid,
    /// Version of the committed configuration.
    pub config_version: i64,
    /// Whether the learner adopts the leader's configurations.
    pub is_dynamic: bool,
    /// The log could not be made equal to a leader's before, so the learner asks for a snapshot.
    pub wants_snapshot: bool,
    /// An empty or quarantined learner is not counted before it has the leader's history.
    pub eligibility: Eligibility,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    AwaitLeaderInfo,
    /// The disk stores the accepted epoch.
    PersistAcceptedEpoch,
    /// Waits for DIFF, TRUNC or SNAP.
    AwaitSync,
    Truncating,
    ReceivingSnapshot(Zxid),
    /// Logs the leader's history, or applies it to the received snapshot.
    Syncing,
    /// The disk stores the history and then the current epoch.
    PersistCurrentEpoch(Epoch),
    AwaitUpToDate(Epoch),
    Active,
}

/// A received proposal that is not logged yet.
#[derive(Debug)]
struct PendingTxn {
    txn: EncodedTxn,
    /// The configuration that it proposes.
    config: Option<Arc<Ensemble>>,
    is_committed: bool,
}

/// The learner role of a server (`Learner`).
#[derive(Debug)]
pub struct Learner {
    init: LearnerInit,
    timing: Timing,
    to_leader: RequestStream,
    phase: Phase,
    /// The leader's epoch; -1 before LEADERINFO.
    epoch: Epoch,
    /// The last transaction received, or the zxid after which the leader continues.
    last: Zxid,
    /// The first transactions after a snapshot may already be part of it.
    may_overlap: bool,
    /// Last zxid applied to the received snapshot. Nothing is logged before it is installed.
    snapshot_zxid: Option<Zxid>,
    /// The learner reported an empty log, so it accepts only a snapshot.
    asked_for_snapshot: bool,
    /// The learner's ACKEPOCH counted towards the quorum.
    has_reported_history: bool,
    /// Proposals that are logged after UPTODATE.
    pending: VecDeque<PendingTxn>,
    /// Logged proposals without an ACK.
    unacked: VecDeque<Zxid>,
    /// Logged proposals without a COMMIT.
    uncommitted: VecDeque<Zxid>,
    /// The last proposed configuration, with its zxid.
    proposed: Option<(Zxid, Arc<Ensemble>)>,
    /// The configuration in NEWLEADER.
    leader_config: Option<Arc<Ensemble>>,
    last_received: Wait,
}

impl Learner {
    /// Starts with sending the hello.
    pub fn new(init: LearnerInit, timing: Timing, link: LinkId, window_bytes: usize, cx: &mut Context<'_>) -> Self {
        let LearnerInit { server, kind, config_version, epochs, .. } = init;
        let mut to_leader = RequestStream::new(link, window_bytes);
        to_leader.send(cx.out, Message::Hello { server, kind, accepted: epochs.accepted, config_version });
        Self {
            init,
            timing,
            to_leader,
            phase: Phase::AwaitLeaderInfo,
            epoch: Epoch(-1),
            last: init.last,
            may_overlap: false,
            snapshot_zxid: None,
            asked_for_snapshot: false,
            has_reported_history: false,
            pending: VecDeque::new(),
            unacked: VecDeque::new(),
            uncommitted: VecDeque::new(),
            proposed: None,
            leader_config: None,
            last_received: Wait::new(cx.now_ms),
        }
    }

    pub fn link(&self) -> LinkId {
        self.to_leader.link()
    }

    pub fn send(&mut self, out: &mut Effects, message: Message) {
        self.to_leader.send(out, message);
    }

    /// The socket accepted `bytes` that were sent to the leader.
    pub fn on_sent(&mut self, out: &mut Effects, bytes: usize) {
        self.to_leader.on_sent(out, bytes);
    }

    /// False while the next step depends on the disk, or a snapshot is being received.
    pub fn takes_packets(&self) -> bool {
        !matches!(
            self.phase,
            Phase::PersistAcceptedEpoch
                | Phase::Truncating
                | Phase::PersistCurrentEpoch(_)
                | Phase::ReceivingSnapshot(_)
        )
    }

    /// While this is true, the link carries a snapshot and no packets.
    pub fn is_receiving_snapshot(&self) -> bool {
        matches!(self.phase, Phase::ReceivingSnapshot(_))
    }

    /// Whether LEADERINFO was received.
    pub fn has_leader_info(&self) -> bool {
        self.phase != Phase::AwaitLeaderInfo
    }

    /// Whether UPTODATE was received, so that clients may be served.
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// A leader that closes the link now refuses this member's history.
    pub(crate) fn awaits_sync_choice(&self) -> bool {
        self.phase == Phase::AwaitSync && self.has_reported_history
    }

    /// Bytes were received from the leader, perhaps only a part of a packet, or sent to it.
    pub fn on_traffic(&mut self, now_ms: i64, moved: Traffic) {
        if moved.is_sign_of_life(false) {
            self.last_received = Wait::new(now_ms);
        }
    }

    /// When the leader has been silent for too long.
    pub fn deadline(&self) -> Option<i64> {
        self.timeout_ms().map(|timeout_ms| self.last_received.deadline(timeout_ms))
    }

    /// How long the leader may be silent. None while the learner waits for its own disk.
    fn timeout_ms(&self) -> Option<i64> {
        match self.phase {
            Phase::PersistAcceptedEpoch | Phase::Truncating | Phase::PersistCurrentEpoch(_) => None,
            Phase::AwaitLeaderInfo | Phase::AwaitSync | Phase::ReceivingSnapshot(_) | Phase::Syncing => {
                Some(self.timing.init_ms())
            }
            Phase::AwaitUpToDate(_) | Phase::Active => Some(self.timing.sync_ms()),
        }
    }

    /// The process did not run for a while: packets of the leader may not have been read yet.
    pub(crate) fn on_pause(&mut self, now_ms: i64) {
        if let Some(timeout_ms) = self.timeout_ms() {
            self.last_received.on_pause(now_ms, timeout_ms, &self.timing);
        }
    }

    /// Ends the role if the leader was silent for too long.
    pub fn on_time(&mut self, cx: &mut Context<'_>) {
        if self.deadline().is_some_and(|deadline| deadline <= cx.now_ms) {
            self.step_down(Reason::Timeout, cx);
        }
    }

    /// A packet of the leader arrived.
    ///
    /// # Panics
    /// If [`Self::takes_packets`] returns false.
    pub fn on_message(&mut self, message: Message, cx: &mut Context<'_>) {
        assert!(self.takes_packets(), "a packet arrived while the learner waits for its disk");
        self.last_received = Wait::new(cx.now_ms);
        match (self.phase, message) {
            (Phase::AwaitLeaderInfo, Message::LeaderInfo(epoch)) => self.on_leader_info(epoch, cx),
            (Phase::AwaitSync, Message::Diff(_)) => self.on_diff(cx),
            (Phase::AwaitSync, Message::Trunc(zxid)) => self.on_trunc(zxid, cx),
            (Phase::AwaitSync, Message::Snap(zxid)) => self.phase = Phase::ReceivingSnapshot(zxid),
            // Apache sends these to observers too; they only use INFORM.
            (
                Phase::Active,
                Message::Proposal(_) | Message::Commit(_) | Message::Commits(_) | Message::CommitAndActivate(..),
            ) if self.is_observer() => {}
            (Phase::Syncing | Phase::AwaitUpToDate(_) | Phase::Active, Message::Proposal(txn)) => {
                self.on_proposal(txn, false, cx);
            }
            (Phase::Syncing | Phase::AwaitUpToDate(_) | Phase::Active, Message::Inform(txn)) if self.is_observer() => {
                self.on_proposal(txn, true, cx);
            }
            (Phase::Syncing | Phase::AwaitUpToDate(_) | Phase::Active, Message::InformAndActivate(txn, leader))
                if self.is_observer() =>
            {
                let zxid = txn.zxid;
                self.on_proposal(txn, true, cx);
                self.activate(zxid, leader, cx);
            }
            (Phase::Syncing | Phase::AwaitUpToDate(_) | Phase::Active, Message::Commit(zxid)) => {
                self.on_commit(zxid.into(), cx)
            }
            (Phase::Syncing | Phase::AwaitUpToDate(_) | Phase::Active, Message::Commits(run)) => {
                self.on_commit(run, cx)
            }
            (Phase::Syncing | Phase::AwaitUpToDate(_) | Phase::Active, Message::CommitAndActivate(zxid, leader)) => {
                self.on_commit(zxid.into(), cx);
                self.activate(zxid, leader, cx);
            }
            (Phase::Syncing, Message::NewLeader { epoch, config }) => self.on_new_leader(epoch, &config, cx),
            (Phase::AwaitUpToDate(epoch), Message::UpToDate) => self.on_up_to_date(epoch, cx),
            (Phase::Active, message) => cx.out.push(Effect::FromLeader(message)),
            // Other packets during synchronisation need no reply.
            (Phase::Syncing | Phase::AwaitUpToDate(_), _) => (),
            (_, message) => self.step_down(Reason::Violation(format!("{message:?} in {:?}", self.phase)), cx),
        }
    }

    pub fn on_done(&mut self, done: DiskDone, cx: &mut Context<'_>) {
        self.last_received = Wait::new(cx.now_ms); // no packet was read while the disk was busy
        match (self.phase, done) {
            (Phase::PersistAcceptedEpoch, DiskDone::AcceptedEpoch(epoch)) if epoch == self.epoch => {
                self.init.epochs.accepted = epoch;
                self.ack_epoch(Some(self.init.epochs.current), cx);
            }
            (Phase::Truncating, DiskDone::Truncated(end)) => self.on_truncated(end, cx),
            (Phase::PersistCurrentEpoch(epoch), DiskDone::CurrentEpoch(done)) if done == epoch => {
                self.init.epochs.current = epoch;
                self.phase = Phase::AwaitUpToDate(epoch);
                self.to_leader.send(cx.out, Message::Ack(epoch.start()));
            }
            _ => (),
        }
    }

    /// The leader's snapshot was received completely.
    pub fn on_snapshot_received(&mut self, now_ms: i64) {
        if let Phase::ReceivingSnapshot(zxid) = self.phase {
            self.last_received = Wait::new(now_ms);
            (self.last, self.may_overlap, self.snapshot_zxid) = (zxid, true, Some(zxid));
            self.phase = Phase::Syncing;
        }
    }

    /// The log is durable up to `durable`: sends the ACKs that are due.
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
        self.init.kind == LearnerKind::Observer
    }

    fn on_leader_info(&mut self, epoch: Epoch, cx: &mut Context<'_>) {
        let accepted = self.init.epochs.accepted;
        if epoch < accepted {
            return self.step_down(Reason::OldEpoch(epoch), cx);
        }
        self.epoch = epoch;
        if epoch == accepted || self.init.eligibility != Eligibility::HasHistory {
            return self.ack_epoch(None, cx);
        }
        self.phase = Phase::PersistAcceptedEpoch;
        cx.out.push(Effect::Disk(DiskJob::AcceptedEpoch(epoch)));
    }

    /// Accepts the epoch. An ACKEPOCH with the current epoch counts towards the quorum, so it reports the true end of
    /// the log. Only an ACKEPOCH that does not count may report an empty log, to ask for a snapshot.
    fn ack_epoch(&mut self, current: Option<Epoch>, cx: &mut Context<'_>) {
        self.asked_for_snapshot =
            current.is_none() && (self.init.wants_snapshot || self.init.eligibility != Eligibility::HasHistory);
        let last = if self.asked_for_snapshot { Zxid::ZERO } else { self.init.last };
        (self.phase, self.has_reported_history) = (Phase::AwaitSync, current.is_some());
        self.to_leader.send(cx.out, Message::AckEpoch { last, current });
    }

    fn on_diff(&mut self, cx: &mut Context<'_>) {
        // If the leader is empty too, an empty learner needs no snapshot.
        let has_nothing = self.init.last == Zxid::ZERO && self.init.eligibility != Eligibility::Quarantined;
        if self.asked_for_snapshot && !has_nothing {
            return self.step_down(Reason::NeedsSnapshot, cx);
        }
        self.phase = Phase::Syncing;
        cx.out.push(Effect::Commit(self.last)); // the leader has committed all of it
    }

    fn on_trunc(&mut self, zxid: Zxid, cx: &mut Context<'_>) {
        if self.asked_for_snapshot {
            return self.step_down(Reason::NeedsSnapshot, cx);
        }
        self.phase = Phase::Truncating;
        cx.out.push(Effect::Disk(DiskJob::Truncate(zxid)));
        self.last = zxid;
    }

    fn on_truncated(&mut self, end: Option<Zxid>, cx: &mut Context<'_>) {
        match end {
            Some(end) if end == self.last => {
                self.init.last = end;
                self.phase = Phase::Syncing;
                cx.out.push(Effect::Commit(end));
            }
            // The log does not contain the transaction where it should end. After reconnecting, the leader learns its
            // new end.
            Some(_) => self.step_down(Reason::LinkLost, cx),
            None => self.step_down(Reason::NeedsSnapshot, cx),
        }
    }

    fn on_proposal(&mut self, txn: EncodedTxn, is_committed: bool, cx: &mut Context<'_>) {
        // What follows NEWLEADER is logged, and cannot overlap with the snapshot.
        let may_overlap = std::mem::replace(&mut self.may_overlap, false) && self.phase == Phase::Syncing;
        if self.init.eligibility == Eligibility::Empty && self.phase == Phase::Syncing && self.snapshot_zxid.is_none() {
            // An empty learner cannot verify that a DIFF is complete.
            return self.step_down(Reason::NeedsSnapshot, cx);
        }
        if is_committed && !may_overlap && txn.zxid <= self.last {
            return; // Compat: Apache's observer masters repeat transactions that they have just synchronised
        }
        let overlaps = may_overlap && txn.zxid <= self.last;
        if !overlaps && !txn.zxid.follows(self.last) {
            let reason = format!("{} after {}", txn.zxid, self.last);
            return self.step_down_for_snapshot(&reason, cx);
        }
        let config = match config_of_txn(&txn) {
            _ if !self.init.is_dynamic => None,
            Ok(config) => config,
            Err(reason) => return self.step_down(Reason::Violation(reason), cx),
        };
        if let Some(config) = &config {
            self.proposed = Some((txn.zxid, Arc::clone(config)));
        }
        self.last = txn.zxid;
        let pending = PendingTxn { txn, config, is_committed };
        if self.phase == Phase::Active {
            return self.log(pending, cx);
        }
        self.pending.push_back(pending);
        if is_committed && self.phase == Phase::Syncing {
            self.take_committed_txns(cx);
        }
    }

    fn on_commit(&mut self, run: ZxidRange, cx: &mut Context<'_>) {
        if self.phase == Phase::Active {
            return self.on_commit_logged(run, cx);
        }
        for zxid in run.iter() {
            let Some(pending) = self.pending.iter_mut().find(|pending| !pending.is_committed) else {
                return self.step_down(Reason::Violation(format!("COMMIT of {zxid}, which was not proposed")), cx);
            };
            if pending.txn.zxid != zxid {
                let reason = format!("COMMIT of {zxid} before {}", pending.txn.zxid);
                return self.step_down(Reason::Violation(reason), cx);
            }
            pending.is_committed = true;
        }
        if self.phase == Phase::Syncing {
            self.take_committed_txns(cx);
        }
    }

    /// Logs the committed prefix of the pending transactions, or applies it to the snapshot.
    fn take_committed_txns(&mut self, cx: &mut Context<'_>) {
        while let Some(PendingTxn { txn, config, .. }) = self.pending.pop_front_if(|pending| pending.is_committed) {
            if let Some(snapshot_zxid) = &mut self.snapshot_zxid {
                *snapshot_zxid = txn.zxid.max(*snapshot_zxid);
                cx.out.push(Effect::ApplyToSnapshot(txn));
            } else {
                let zxid = txn.zxid;
                append(txn, cx);
                cx.out.push(Effect::Commit(zxid));
            }
            cx.out.extend(config.map(Effect::ConfigProposed));
        }
    }

    fn on_new_leader(&mut self, epoch: Epoch, config: &[u8], cx: &mut Context<'_>) {
        if epoch != self.epoch {
            return self.step_down(Reason::Violation(format!("NEWLEADER of epoch {epoch}, not {}", self.epoch)), cx);
        }
        if self.init.is_dynamic && 1 < config.len() {
            match parse(config) {
                Ok(leader_config) => {
                    self.leader_config = Some(Arc::clone(&leader_config));
                    cx.out.push(Effect::ConfigProposed(leader_config));
                }
                Err(why) => {
                    return self
                        .step_down(Reason::Violation(format!("NEWLEADER with an invalid configuration: {why}")), cx);
                }
            }
        }
        if let Some(end) = self.snapshot_zxid.take() {
            // By NEWLEADER, everything that the snapshot contains must have been committed.
            if self.last < end || self.pending.front().is_some_and(|pending| pending.txn.zxid <= end) {
                return self.step_down(
                    Reason::Violation(format!("snapshot at {end} contains transactions that were not committed")),
                    cx,
                );
            }
            cx.history.restart(end);
            cx.out.push(Effect::Disk(DiskJob::Install(end)));
        } else if self.init.eligibility == Eligibility::Empty {
            cx.out.push(Effect::Disk(DiskJob::InitializeLog));
        }
        if self.init.epochs.accepted < epoch {
            self.init.epochs.accepted = epoch; // its ACKEPOCH did not count, so it was not stored
            cx.out.push(Effect::Disk(DiskJob::AcceptedEpoch(epoch)));
        }
        self.phase = Phase::PersistCurrentEpoch(epoch);
        cx.out.push(Effect::Disk(DiskJob::CurrentEpoch(epoch)));
    }

    fn on_up_to_date(&mut self, epoch: Epoch, cx: &mut Context<'_>) {
        cx.out.extend(self.leader_config.take().map(|leader_config| Effect::ActivateConfig(leader_config, None)));
        self.to_leader.send(cx.out, Message::Ack(epoch.start()));
        self.phase = Phase::Active;
        cx.out.push(Effect::UpToDate(epoch));
        for pending in std::mem::take(&mut self.pending) {
            self.log(pending, cx);
        }
    }

    fn log(&mut self, pending: PendingTxn, cx: &mut Context<'_>) {
        let PendingTxn { txn, config, is_committed } = pending;
        let zxid = txn.zxid;
        append(txn, cx);
        cx.out.extend(config.map(Effect::ConfigProposed));
        if !self.is_observer() {
            self.unacked.push_back(zxid);
        }
        if is_committed {
            cx.out.push(Effect::Commit(zxid));
        } else {
            self.uncommitted.push_back(zxid);
        }
    }

    fn on_commit_logged(&mut self, run: ZxidRange, cx: &mut Context<'_>) {
        for zxid in run.iter() {
            let first = self.uncommitted.pop_front();
            if first != Some(zxid) {
                return self.step_down(Reason::Violation(format!("COMMIT of {zxid} instead of {first:?}")), cx);
            }
        }
        cx.out.push(Effect::Commit(run.last));
    }

    /// The configuration of a committed reconfiguration becomes active.
    fn activate(&mut self, zxid: Zxid, leader: ServerId, cx: &mut Context<'_>) {
        if matches!(cx.out.last(), Some(Effect::StepDown(_))) {
            return;
        }
        if let Some((_, config)) = self.proposed.take_if(|(at, _)| *at == zxid) {
            cx.out.push(Effect::ActivateConfig(config, Some(leader)));
        }
    }

    /// The leader's log and the local one contradict each other.
    fn step_down_for_snapshot(&mut self, reason: &str, cx: &mut Context<'_>) {
        let in_sync = !matches!(self.phase, Phase::Active);
        let reason = if in_sync { Reason::NeedsSnapshot } else { Reason::Violation(reason.to_owned()) };
        self.step_down(reason, cx);
    }

    fn step_down(&mut self, reason: Reason, cx: &mut Context<'_>) {
        cx.out.push(Effect::StepDown(reason));
    }
}

fn append(txn: EncodedTxn, cx: &mut Context<'_>) {
    cx.history.push(txn.clone());
    cx.out.push(Effect::Append(txn));
}
