//! An elected leader that is not established, while voters follow another leader or change their vote.

use super::{QuorumPeer, Role};
use crate::effect::{Effect, Effects, Reason};
use crate::vote::{Vote, VoteNotification};
use ox_proto::ServerId;
use ox_proto::quorum::notification::PeerState;

impl QuorumPeer {
    /// Repeats its vote, once per ping interval, to voters without a link. A server that has a leader sends
    /// notifications only in reply to a LOOKING server, so an unestablished leader has to ask.
    pub(super) fn probe_others(&self, now_ms: i64, out: &mut Effects) {
        let Role::Leading(leader) = &self.role else { return };
        if leader.is_established() || leader.deadline().is_none_or(|at_ms| now_ms < at_ms) {
            return;
        }
        if self.disk_jobs != 0 {
            return; // the vote names an epoch that the disk is about to replace
        }
        let me = self.settings.server;
        let probe = self.election.probe(Vote { leader: me, zxid: self.durable, epoch: self.epochs.current.0 });
        let voters = self.settings.configs.quorums().voters().into_iter();
        let missing = voters.filter(|voter| *voter != me && !leader.has_follower(*voter));
        out.extend(missing.map(|voter| Effect::Notify(voter, probe)));
    }

    /// Steps down if a quorum follows another leader and this one is not established.
    pub(super) fn yield_to_other_leader(&mut self, now_ms: i64, out: &mut Effects) {
        let Role::Leading(leader) = &self.role else { return };
        if leader.is_established() {
            return;
        }
        let quorums = self.settings.configs.quorums();
        if let Some(other) = self.election.other_leader(quorums, |server| leader.has_follower(server)) {
            self.end_role(now_ms, Reason::OtherLeader(other), out);
        }
    }

    /// Steps down if this leader cannot be established because a voter has accepted a higher epoch; the next leadership
    /// uses an epoch above that. This happens if a quorum of a proposed configuration needs the voter, because
    /// discovery did not have to wait for it.
    pub(super) fn yield_to_higher_epoch(&mut self, now_ms: i64, out: &mut Effects) {
        let (Role::Leading(leader), election) = (&self.role, &self.election) else { return };
        if leader.is_below_accepted_epoch(|server| election.was_elected_by(server)) {
            self.end_role(now_ms, Reason::HigherAcceptedEpoch, out);
        }
    }

    /// Whether a supporter of an unestablished leader has changed its vote and no quorum remains; or is LOOKING again
    /// after `epoch_wait_ms`.
    pub(super) fn has_lost_support(&mut self, now_ms: i64, from: ServerId, note: &VoteNotification) -> bool {
        let (Role::Leading(leader), election) = (&mut self.role, &self.election) else { return false };
        if note.state != PeerState::Looking || !election.was_elected_by(from) {
            return false;
        }
        let wait_ms = self.settings.options.epoch_wait_ms.unwrap_or(i64::MAX);
        let is_long = leader.discovery_since_ms().is_some_and(|since_ms| wait_ms <= now_ms - since_ms);
        let is_other = note.vote.leader != self.settings.server;
        is_long || (is_other && leader.loses_support_of(from, |server| election.was_elected_by(server)))
    }
}
