//! From the election to LEADERINFO: how often a learner dials the leader, how long it waits for LEADERINFO, and what
//! happens to a leader that does not send it.
//!
//! A leader that other voters can replace gets a fraction of `syncLimit`, because it may be deaf: it sends but does not
//! receive. It is then left out of the next rounds, and the timeout for the next leader doubles up to `initLimit`, so
//! that a slow ensemble elects a leader in the end. A leader that cannot be replaced gets `initLimit` from the start.

use super::{PeerSettings, QuorumPeer, Role};
use crate::effect::{Effects, Reason};
use crate::election::Absence;
use crate::message::LearnerKind;
use crate::options::PeerOptions;
use crate::timing::Wait;
use crate::vote::VoteNotification;
use ox_proto::ServerId;
use ox_proto::quorum::notification::PeerState;

/// Failed attempts to connect after which a new election starts.
const DIALS_MAX: u32 = 14;

/// The pause before the second attempt. It doubles each time; an elected leader opens its port at about the time of the
/// first attempt.
const DIAL_PAUSE_FIRST_MS: i64 = 5;

/// A leader that sent no LEADERINFO is left out of elections for this many times the timeout that it had.
const LEFT_OUT_FACTOR: i64 = 4;

/// Number of failures after which the timeout does not double any more.
const DOUBLINGS_MAX: u32 = 16;

/// Attempts to connect to the elected leader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectAttempts {
    dials: u32,
    silence: Wait,
    /// How long LEADERINFO may take. None if no other voter could lead instead.
    timeout_ms: Option<i64>,
    /// The leader still sent a LOOKING vote at a time when it should have received the votes of a quorum.
    still_looking: bool,
    /// The leader sent a vote for another server: it has received the votes of others.
    votes_for_another: bool,
    /// Leaders without LEADERINFO since the last established one.
    failures: u32,
    /// The last of these leaders.
    failed: Option<ServerId>,
}

impl ConnectAttempts {
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

impl QuorumPeer {
    pub(super) fn start_connecting(&mut self, now_ms: i64, leader: ServerId) {
        let (silence, timeout_ms) = (Wait::new(now_ms), self.connect_timeout_ms(leader));
        let ConnectAttempts { failures, failed, .. } = self.attempts;
        self.attempts = ConnectAttempts { silence, timeout_ms, failures, failed, ..ConnectAttempts::default() };
    }

    /// How long LEADERINFO may take. None if no other voter is known that could lead instead.
    fn connect_timeout_ms(&self, leader: ServerId) -> Option<i64> {
        let (timing, quorums) = (self.settings.timing, self.settings.configs.quorums());
        let is_spare = self.kind == LearnerKind::Follower && self.election.can_elect_another(leader, quorums);
        let doubled_ms = self.first_timeout_ms().saturating_mul(1 << self.attempts.failures.min(DOUBLINGS_MAX));
        is_spare.then_some(doubled_ms.min(timing.init_ms()))
    }

    /// A notification may show that another voter could lead, whose vote was not needed to elect the leader.
    pub(super) fn review_connect_timeout(&mut self) {
        if let (Some(leader), None) = (self.connecting_to(), self.attempts.timeout_ms) {
            self.attempts.timeout_ms = self.connect_timeout_ms(leader);
        }
    }

    /// The timeout of the first leader after an established one.
    fn first_timeout_ms(&self) -> i64 {
        let PeerSettings { timing, election, .. } = &self.settings;
        // The leader may wait for better votes as long as this server did, and the next attempt to connect must fall
        // after that.
        (timing.sync_ms() / 4).max(timing.ping_ms()) + 2 * election.finalize_wait_ms
    }

    /// How long one election may leave a candidate out. A voter that does not leave it out elects it again, and returns
    /// to the election after the doubled timeout and the wait for better votes. Readmitting the candidate before that
    /// would let the voters elect it in turns. Together with the first timeout this is 3/4 of `syncLimit` plus 1.6 s,
    /// which is at most one `syncLimit` if that is 6.4 s or more.
    fn left_out_election_ms(&self) -> i64 {
        2 * self.first_timeout_ms() + 2 * self.settings.election.finalize_wait_ms
    }

    /// The process did not run for a while. Peers get time again, because their packets may not have been read yet.
    pub(super) fn on_pause(&mut self, now_ms: i64) {
        match &mut self.role {
            Role::Leading(leader) => leader.on_pause(now_ms),
            Role::Learning(learner) => learner.on_pause(now_ms),
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => (),
        }
        self.observer_master.iter_mut().for_each(|master| master.on_pause(now_ms));
        if let Some(timeout_ms) = self.attempts.timeout_ms {
            self.attempts.silence.on_pause(now_ms, timeout_ms, &self.settings.timing);
        }
    }

    /// The elected leader, while it has not sent LEADERINFO.
    fn connecting_to(&self) -> Option<ServerId> {
        match &self.role {
            Role::Dialing { leader, .. } => Some(*leader),
            Role::Learning(learner) if !learner.has_leader_info() => Some(self.election.vote().leader),
            Role::Learning(_) | Role::Looking | Role::Leading(_) | Role::Leaving { .. } => None,
        }
    }

    /// When this server stops waiting for LEADERINFO.
    pub(super) fn connect_deadline(&self) -> Option<i64> {
        self.connecting_to()?;
        self.attempts.timeout_ms.map(|timeout_ms| self.attempts.silence.deadline(timeout_ms))
    }

    /// Notes whether the elected leader votes for another server, and whether it is still LOOKING. A leader that is deaf
    /// to other voters, but not to this one, refuses connections and keeps asking for the votes that have elected it,
    /// although it had twice the finalize wait to receive them. A leader that knows it is elected sends the same vote to
    /// voters without a link (`unestablished_leader.rs`); if this server cannot connect to it, it is no better a
    /// candidate, and if a quorum can, this server joins it although it is left out.
    pub(super) fn note_leader_vote(&mut self, now_ms: i64, from: ServerId, note: &VoteNotification) {
        let is_late = 2 * self.settings.election.finalize_wait_ms <= self.attempts.silence.lasted_ms(now_ms);
        let is_looking = note.state == PeerState::Looking && self.election.is_of_last_round(note);
        let is_leader = self.connecting_to() == Some(from);
        self.attempts.still_looking |= is_leader && is_late && is_looking;
        self.attempts.votes_for_another |= is_leader && note.vote.leader != from;
    }

    /// The role ends. A leader that sent no LEADERINFO in time, or was still LOOKING, is left out of the next rounds.
    /// One that votes for another server, or only refused connections, does receive packets and may just have stepped
    /// down: it is left out the second time.
    pub(super) fn note_connect_failure(&mut self, now_ms: i64) {
        let Some(leader) = self.connecting_to() else { return };
        self.attempts.failures += 1;
        let is_late = self.connect_deadline().is_some_and(|at_ms| at_ms <= now_ms);
        let is_silent = is_late && !self.attempts.votes_for_another;
        let has_failed_before = self.attempts.failed.replace(leader) == Some(leader);
        let is_unfit = is_silent || has_failed_before || self.attempts.still_looking;
        if let Some(timeout_ms) = self.attempts.timeout_ms.filter(|_| is_unfit) {
            let election_ms = self.left_out_election_ms();
            self.election.leave_out(leader, Absence { until_ms: now_ms + LEFT_OUT_FACTOR * timeout_ms, election_ms });
        }
    }

    /// The connection failed, or was closed before LEADERINFO.
    pub(super) fn dial_again(&mut self, now_ms: i64, leader: ServerId, out: &mut Effects) {
        self.attempts.dials += 1;
        let PeerOptions { dial_ms, dial_pause_ms, .. } = self.settings.options;
        let is_long = dial_ms <= self.attempts.silence.lasted_ms(now_ms);
        let pause_ms = dial_pause_ms.min(DIAL_PAUSE_FIRST_MS << (self.attempts.dials - 1).min(DIALS_MAX));
        self.role = Role::Dialing { leader, again_at_ms: Some(now_ms + pause_ms) };
        if DIALS_MAX <= self.attempts.dials || is_long || self.election.knows_down(leader) {
            self.end_role(now_ms, Reason::LinkLost, out);
        }
    }
}
