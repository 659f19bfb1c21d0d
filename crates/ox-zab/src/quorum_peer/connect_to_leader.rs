//! The way from an elected leader to its LEADERINFO: how often it is dialled, how long its answer is awaited, and what
//! becomes of a leader that does not answer.
//!
//! A leader that other voters can replace gets a part of `syncLimit`, because it may be one that sends and does not
//! receive. It is left out of the next rounds then, and the patience with the next leader doubles, up to `initLimit`,
//! so that a slow ensemble still ends with a leader. A leader that cannot be replaced gets `initLimit` at once.

use super::{Peer, PeerSettings, Role};
use crate::effect::{Effects, Reason};
use crate::election::Absence;
use crate::message::LearnerKind;
use crate::options::PeerOptions;
use crate::timing::Wait;
use crate::vote::Notification;
use ox_proto::ServerId;
use ox_proto::quorum::notification::PeerState;

/// Dials of one leader that fail before another one is looked for.
const DIALS_MAX: u32 = 14;

/// The pause before the second dial, which doubles each time: an elected leader opens its port about when it is dialled.
const DIAL_PAUSE_FIRST_MS: i64 = 5;

/// How much longer than it was waited for a leader that did not answer is left out of elections.
const LEFT_OUT_FACTOR: i64 = 4;

/// Failed attempts after which the patience does not double any more.
const DOUBLINGS_MAX: u32 = 16;

/// Attempts to reach a leader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    dials: u32,
    silence: Wait,
    /// How long the leader's LEADERINFO is awaited, if others could lead in its place.
    patience_ms: Option<i64>,
    /// The leader still sent its vote as LOOKING when it should have had those of a quorum, and a link to this server.
    still_asks: bool,
    /// Leaders that did not answer since the last one that was established.
    failures: u32,
    /// The last of them.
    failed: Option<ServerId>,
}

impl Reach {
    /// There is an established leader.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Peer {
    /// A leader is elected; it is dialled now.
    pub(super) fn begin_to_reach(&mut self, now_ms: i64, leader: ServerId) {
        let (timing, quorums) = (self.settings.timing, self.settings.configs.quorums());
        let is_spare = self.kind == LearnerKind::Follower && self.election.can_spare(leader, quorums);
        let doubled_ms = self.first_patience_ms().saturating_mul(1 << self.reach.failures.min(DOUBLINGS_MAX));
        let patience_ms = is_spare.then_some(doubled_ms.min(timing.init_ms()));
        self.reach = Reach { dials: 0, silence: Wait::new(now_ms), patience_ms, still_asks: false, ..self.reach };
    }

    /// How long the answer of the first leader is awaited.
    fn first_patience_ms(&self) -> i64 {
        let PeerSettings { timing, election, .. } = &self.settings;
        // The leader may wait for votes as long as this server did, and the dial has to meet the end of that.
        (timing.sync_ms() / 4).max(timing.ping_ms()) + 2 * election.settle_ms
    }

    /// How long an election may leave a candidate out. A voter that does not leave it out elects it once more, and is back after
    /// the doubled patience and the wait for better votes: to readmit the candidate sooner would elect it in turns.
    /// With the patience before, that is 3/4 of `syncLimit` and 1.6 s: at most one `syncLimit`, if that is 6.4 s or more.
    fn left_out_election_ms(&self) -> i64 {
        2 * self.first_patience_ms() + 2 * self.settings.election.settle_ms
    }

    /// The process did not run for a while: what other servers have sent meanwhile is read before they are judged.
    pub fn on_pause(&mut self, now_ms: i64) {
        match &mut self.role {
            Role::Leading(leader) => leader.on_pause(now_ms),
            Role::Learning(learner) => learner.on_pause(now_ms),
            Role::Looking | Role::Dialing { .. } | Role::Leaving { .. } => (),
        }
        self.master.iter_mut().for_each(|master| master.on_pause(now_ms));
        if let Some(patience_ms) = self.reach.patience_ms {
            self.reach.silence.on_pause(now_ms, patience_ms, &self.settings.timing);
        }
    }

    /// The leader that has not sent LEADERINFO yet.
    fn unreached(&self) -> Option<ServerId> {
        match &self.role {
            Role::Dialing { leader, .. } => Some(*leader),
            Role::Learning(learner) if !learner.has_heard() => Some(self.election.vote().leader),
            Role::Learning(_) | Role::Looking | Role::Leading(_) | Role::Leaving { .. } => None,
        }
    }

    /// When the leader is given up for not having answered.
    pub(super) fn reach_deadline(&self) -> Option<i64> {
        self.unreached()?;
        self.reach.patience_ms.map(|patience_ms| self.reach.silence.deadline(patience_ms))
    }

    /// A vote has come. A leader that is deaf to the others, and not to this server, refuses connections and keeps asking for
    /// the votes that have elected it. It has had time to receive them: as long as voters wait for a better vote, twice.
    /// A leader that knows it is elected sends the same to voters without a link (`contention.rs`). Where this server cannot
    /// connect to it, it is no better a candidate; and where a quorum can, it is joined although it is left out.
    pub(super) fn note_vote_of_leader(&mut self, now_ms: i64, from: ServerId, note: &Notification) {
        let is_late = 2 * self.settings.election.settle_ms <= self.reach.silence.lasted_ms(now_ms);
        let is_looking = note.state == PeerState::Looking && self.election.is_of_outcome(note);
        self.reach.still_asks |= is_late && is_looking && self.unreached() == Some(from);
    }

    /// The role ends. A leader that has not answered in time, or still asked for votes, is left out of the next rounds.
    /// One that has only refused connections receives packets, and may have stepped down just then: it is left out the
    /// second time.
    pub(super) fn note_unreached(&mut self, now_ms: i64) {
        let Some(leader) = self.unreached() else { return };
        self.reach.failures += 1;
        let is_silent = self.reach_deadline().is_some_and(|at_ms| at_ms <= now_ms);
        let has_failed_before = self.reach.failed.replace(leader) == Some(leader);
        let is_unfit = is_silent || has_failed_before || self.reach.still_asks;
        if let Some(patience_ms) = self.reach.patience_ms.filter(|_| is_unfit) {
            let election_ms = self.left_out_election_ms();
            self.election.leave_out(leader, Absence { until_ms: now_ms + LEFT_OUT_FACTOR * patience_ms, election_ms });
        }
    }

    /// The leader was not reached, or has sent nothing.
    pub(super) fn dial_again(&mut self, now_ms: i64, leader: ServerId, out: &mut Effects) {
        self.reach.dials += 1;
        let PeerOptions { dial_ms, dial_pause_ms, .. } = self.settings.options;
        let is_long = dial_ms <= self.reach.silence.lasted_ms(now_ms);
        let pause_ms = dial_pause_ms.min(DIAL_PAUSE_FIRST_MS << (self.reach.dials - 1).min(DIALS_MAX));
        self.role = Role::Dialing { leader, again_at_ms: Some(now_ms + pause_ms) };
        if DIALS_MAX <= self.reach.dials || is_long || self.election.knows_gone(leader) {
            self.leave(now_ms, Reason::LinkLost, out);
        }
    }
}
