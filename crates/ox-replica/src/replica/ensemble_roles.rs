//! The roles of a member towards its clients: when they begin and end.
//!
//! A role begins when everything that was committed before it is applied. Learners may be faster than their leader, so
//! what they request before that waits.

use super::forwarded_requests::LearnerEvent;
use super::observer_relay::ObserverSessions;
use super::pending_requests::Reply;
use super::proposals::Proposer;
use super::revalidations::Revalidations;
use super::{Replica, Role};
use crate::clock::Now;
use crate::effects::ReplicaEffects;
use crate::outbox::Outboxes;
use crate::sessions::{LastSeen, Sessions};
use ox_proto::Zxid;
use ox_tree::{PendingChanges, State};
use ox_zab::{Input as PeerInput, LinkId};

impl Replica {
    /// After transactions were applied: starts roles, and replies to syncs and handshakes that waited for them.
    pub(super) fn on_applied(&mut self, now: Now, state: &State, out: &mut ReplicaEffects) {
        let reached = self.reached();
        let begins = self.begins_at.take_if(|(_, from)| *from <= reached);
        begins.into_iter().for_each(|(role, _)| self.begin(now, role, state));
        self.step_peer(now, PeerInput::Applied(state.last_zxid()));
        self.perform_effects(now, state, out);
        while let Some((conn, (submission, at), behind)) = self.syncs.pop(reached) {
            self.reply_in_order(conn, Reply::Entry(submission, at), state, &mut out.outboxes);
            for (submission, at) in behind {
                self.take(now, &submission, at, state, &mut out.outboxes);
                self.perform_effects(now, state, out);
            }
        }
        if begins.is_some() {
            for (link, event) in std::mem::take(&mut self.early_events) {
                self.on_learner_event(now, link, event, state, &mut out.outboxes);
            }
        }
        if self.is_serving() && (begins.is_some() || self.handshakes.are_due(state.last_zxid())) {
            self.take_handshakes(now, state, &mut out.outboxes);
        }
        self.perform_effects(now, state, out);
    }

    /// Every transaction up to this zxid that this server knows of is applied.
    fn reached(&self) -> Zxid {
        self.proposals.first_zxid().map_or(Zxid(i64::MAX), |first| Zxid(first.0 - 1))
    }

    /// Whether a role or a sync waits for a transaction that is applied already.
    pub(super) fn has_due_wait(&self) -> bool {
        let reached = self.reached();
        self.begins_at.is_some_and(|(_, from)| from <= reached) || self.syncs.is_due(reached)
    }

    fn begin(&mut self, now: Now, role: Role, state: &State) {
        self.role = role;
        self.local.sessions.touch_all(now.mono_ms);
        if role == Role::Leader {
            self.track_sessions(now, state);
            for session in state.dead_owners() {
                self.propose_close(now, session, 0, Proposer::Server, state);
            }
        }
    }

    /// Gives every global session its full timeout.
    pub(super) fn track_sessions(&mut self, now: Now, state: &State) {
        for (session, timeout_ms) in state.sessions() {
            self.sessions.add(session, timeout_ms, now.mono_ms, LastSeen::default(), None);
        }
    }

    /// Handles what a learner has sent for its clients, or keeps it while a role is about to begin.
    pub(super) fn on_learner_event(
        &mut self,
        now: Now,
        link: LinkId,
        event: LearnerEvent,
        state: &State,
        out: &mut Outboxes,
    ) {
        if self.begins_at.is_some() {
            return self.early_events.push_back((link, event));
        }
        match (event, self.role) {
            (LearnerEvent::Request(request), Role::Learner(leader)) => self.relay_request(now, leader, link, request),
            (LearnerEvent::Request(request), _) => self.on_learner_request(now, link, &request, state),
            (LearnerEvent::Revalidate(session, timeout_ms), Role::Learner(leader)) => {
                self.relay_revalidate(now, leader, link, session, timeout_ms, out);
            }
            (LearnerEvent::Revalidate(session, timeout_ms), _) => {
                self.on_learner_revalidate(now, link, session, timeout_ms, state, out);
            }
            (LearnerEvent::Closed, _) => self.observer_sessions.forget(link),
        }
    }

    /// Drops all requests of the role that ends, and closes the connections of clients.
    pub(super) fn leave(&mut self, now: Now, state: &State, out: &mut Outboxes) {
        if self.is_serving() {
            self.keep_handshakes(now);
        }
        (self.begins_at, self.snapshot) = (None, None);
        self.reconfigures_at = None;
        self.log_space.forget_leader();
        if self.role == Role::Leader {
            // These proposals were not sent. What a leader has sent is part of the history, and is logged.
            self.proposals.drop_open_batch();
        }
        self.read_only.reset();
        self.role = Role::None;
        self.pending = PendingChanges::default();
        self.sessions = Sessions::new(self.tick_ms);
        self.pending_writes.clear();
        self.syncs.clear();
        self.revalidations = Revalidations::default();
        self.observer_sessions = ObserverSessions::default();
        self.early_events.clear();
        self.config_reply.on_leave();
        self.release_reply(now, state, out);
        self.close_all(out);
    }
}
