//! The [`QuorumPeer`] inside the replica: input for it, and the execution of its effects.
//!
//! ```text
//! packets, disk, time ──> QuorumPeer ──Effect──> perform ──> log, commits, roles, clients
//!                              ^                    │ └────> ReplicaEffects: sockets, disk jobs, files (for the driver)
//!                              └── requests, ... ───┘
//! ```
//! What `perform` does may be new input for the quorum peer. So its effects go into a queue, and a step of the replica
//! ends when the queue is empty.

use super::forwarded_requests::LearnerEvent;
use super::proposals::{Proposal, Proposer};
use super::syncs::SyncWaiter;
use super::{Replica, Role};
use crate::clock::Now;
use crate::effects::{LogJob, ReplicaEffect, ReplicaEffects};
use crate::outbox::Outboxes;
use ox_proto::ServerId;
use ox_proto::ensemble::Ensemble;
use ox_proto::txn::Record;
use ox_tree::State;
use ox_zab::{DiskDone, DiskJob, Effect, EncodedTxn, Input as PeerInput, Learner, LinkId, Message, Reason};
use std::sync::Arc;

impl Replica {
    /// Passes an event to the quorum peer. Its effects are executed by [`Self::perform_effects`].
    pub(super) fn step_peer(&mut self, now: Now, input: PeerInput) {
        self.peer.step(now.mono_ms, input, &mut self.new_effects);
        self.peer_effects.extend(self.new_effects.drain(..));
    }

    /// Executes all effects of the quorum peer, also those that the execution causes.
    pub(super) fn perform_effects(&mut self, now: Now, state: &State, out: &mut ReplicaEffects) {
        while let Some(effect) = self.peer_effects.pop_front() {
            self.perform(now, effect, state, out);
        }
    }

    /// A packet of a peer arrived.
    pub(super) fn on_packet(&mut self, now: Now, link: LinkId, message: Message) {
        if let Message::Proposal(txn) | Message::Inform(txn) | Message::InformAndActivate(txn, _) = &message
            && !is_readable(txn)
        {
            // A logged transaction has to be applied later, here and after every restart.
            let reason = Reason::Violation(format!("transaction {} cannot be decoded", txn.zxid));
            return self.step_peer(now, PeerInput::Violation(link, reason));
        }
        self.step_peer(now, PeerInput::Packet(link, message));
    }

    /// The leader's snapshot was received completely. It is dropped if the link carries none for the present role.
    pub(super) fn on_snapshot_received(&mut self, now: Now, link: LinkId, snapshot: Box<State>) {
        let is_expected = |learner: &Learner| learner.link() == link && learner.is_receiving_snapshot();
        if self.peer.role().learner().is_some_and(is_expected) {
            self.snapshot = Some(snapshot);
            self.step_peer(now, PeerInput::SnapshotReceived);
        }
    }

    pub(super) fn on_done(&mut self, now: Now, done: DiskDone) {
        if let DiskDone::Installed(zxid) | DiskDone::Truncated(Some(zxid)) = done {
            (self.durable, self.committed) = (zxid, zxid);
            self.proposals.clear(); // the state was recovered again
            if !self.has_peers {
                return self.on_restored(zxid);
            }
        }
        self.step_peer(now, PeerInput::Done(done));
    }

    fn perform(&mut self, now: Now, effect: Effect, state: &State, out: &mut ReplicaEffects) {
        match effect {
            Effect::Append(txn) => self.append(&txn),
            Effect::Commit(zxid) => self.committed = zxid.max(self.committed),
            Effect::ApplyToSnapshot(txn) => self.apply_to_snapshot(&txn),
            Effect::Established(epoch) => {
                self.last_proposed_zxid = epoch.start();
                self.begins_at = Some((Role::Leader, self.committed));
            }
            Effect::UpToDate(_) => {
                self.begins_at = self.leader_link().map(|link| (Role::Learner(link), self.committed));
                self.pinged_ms = now.mono_ms;
            }
            Effect::FromLearner(link, _, message) => self.on_learner(now, link, message, state, &mut out.outboxes),
            Effect::FromLeader(message) => self.on_leader(now, message, &mut out.outboxes),
            Effect::Synced(_) => self.on_synced(now, &mut out.outboxes),
            Effect::StepDown(reason) => {
                self.leave(now, state, &mut out.outboxes);
                out.push(ReplicaEffect::StepDown(reason));
            }
            Effect::Looking => {
                self.on_looking(now);
                out.push(ReplicaEffect::Looking);
            }
            Effect::Dial(leader) => {
                self.end_read_only(&mut out.outboxes);
                out.push(ReplicaEffect::Dial(leader));
            }
            Effect::Listen => {
                self.end_read_only(&mut out.outboxes);
                out.push(ReplicaEffect::Listen);
            }
            Effect::Disk(job) => self.start_job(job, out),
            Effect::ConfigProposed(ensemble) => {
                self.log_before(out);
                out.push(ReplicaEffect::ConfigProposed(ensemble));
            }
            Effect::ActivateConfig(ensemble, leader) => self.activate_config(ensemble, leader, out),
            Effect::Send(link, message) => out.push(ReplicaEffect::Send(link, message)),
            Effect::Notify(server, note) => out.push(ReplicaEffect::Notify(server, note)),
            Effect::SendSnapshot(link) => out.push(ReplicaEffect::SendSnapshot(link)),
            Effect::ReadLog(link, range) => out.push(ReplicaEffect::ReadLog(link, range)),
            Effect::SendLogDiff(link) => out.push(ReplicaEffect::SendLogDiff(link)),
            Effect::Close(link) => out.push(ReplicaEffect::Close(link)),
            Effect::ServeObservers => out.push(ReplicaEffect::ServeObservers),
        }
    }

    fn append(&mut self, txn: &EncodedTxn) {
        let span = self.proposals.log_mut().foreign(txn.zxid, &txn.record);
        self.last_proposed_zxid = txn.zxid;
        self.log_space.spend(span.len());
        self.proposals.push(Proposal::new(txn.zxid, span, Proposer::Leader));
    }

    fn apply_to_snapshot(&mut self, txn: &EncodedTxn) {
        if let (Some(snapshot), Ok(record)) = (&mut self.snapshot, Record::decode(&txn.record)) {
            snapshot.replay(&record);
        }
    }

    /// Hands a learner's log batch over before a job of the log thread. The open batch of a leader has not been
    /// proposed, and nothing that precedes it depends on it.
    fn log_before(&mut self, out: &mut ReplicaEffects) {
        if self.role != Role::Leader {
            self.hand_over_log(out);
        }
    }

    fn start_job(&mut self, job: DiskJob, out: &mut ReplicaEffects) {
        self.log_before(out);
        let job = match job {
            DiskJob::AcceptedEpoch(epoch) => LogJob::AcceptedEpoch(epoch),
            DiskJob::CurrentEpoch(epoch) => LogJob::CurrentEpoch(epoch),
            // Transactions that are to be truncated stay until they are: if truncation fails, they remain in the log.
            DiskJob::Truncate(zxid) => LogJob::Truncate(zxid),
            DiskJob::InitializeLog => LogJob::InitializeLog,
            DiskJob::Install(_) => {
                self.proposals.clear();
                // It becomes the state even if the role ends meanwhile.
                LogJob::Install(self.snapshot.take().expect("a snapshot is installed after it was received"))
            }
        };
        out.push(ReplicaEffect::Disk(job));
    }

    fn activate_config(&mut self, committed: Arc<Ensemble>, leader: Option<ServerId>, out: &mut ReplicaEffects) {
        self.config_reply.on_activate(committed.version());
        self.log_before(out);
        let proposed = self.peer.configs().proposed();
        let proposed = proposed.filter(|proposed| committed.version() < proposed.version()).cloned();
        out.push(ReplicaEffect::ActivateConfig { committed, proposed, leader });
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only a few of the messages concern clients")]
    fn on_learner(&mut self, now: Now, link: LinkId, message: Message, state: &State, out: &mut Outboxes) {
        match message {
            Message::Request(request) => {
                self.on_learner_event(now, link, LearnerEvent::Request(request), state, out);
            }
            Message::Revalidate(session, timeout_ms) => {
                self.on_learner_event(now, link, LearnerEvent::Revalidate(session, timeout_ms), state, out);
            }
            Message::Pong(_, touched) if self.role == Role::Leader => self.on_touched(now, link, &touched),
            Message::Pong(_, touched) => self.relay_touched(link, &touched),
            _ => (),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only a few of the messages concern clients")]
    fn on_leader(&mut self, now: Now, message: Message, out: &mut Outboxes) {
        match message {
            Message::Ping(zxid) => self.reply_to_ping(now, zxid),
            Message::Revalidated(session, valid) => self.on_revalidated(now, session, valid, out),
            Message::Sync => self.on_synced(now, out),
            _ => (),
        }
    }

    /// Leadership is proven, or the leader has replied to a sync.
    fn on_synced(&mut self, now: Now, out: &mut Outboxes) {
        match self.syncs.confirm(self.committed) {
            Some(SyncWaiter::Link(link)) => self.send(now, link, Message::Sync),
            Some(SyncWaiter::Revalidation(link, session, valid)) => {
                self.send(now, link, Message::Revalidated(session, valid));
            }
            Some(SyncWaiter::ExpiredConn(conn, read_only)) => self.refuse(conn, read_only, out),
            Some(SyncWaiter::ResumedConn(conn, granted)) => self.resume(conn, granted, out),
            Some(SyncWaiter::Conn(..)) | None => (),
        }
    }
}

/// Whether the record can be decoded and has the zxid of its proposal.
fn is_readable(txn: &EncodedTxn) -> bool {
    Record::decode(&txn.record).is_ok_and(|record| record.header.zxid == txn.zxid)
}
