//! A leader that is not established, and voters that follow another one or look for one.

use super::{Peer, Role};
use crate::effect::{Effect, Effects, Reason};
use crate::vote::{Notification, Vote};
use ox_proto::ServerId;
use ox_proto::quorum::notification::PeerState;

impl Peer {
    /// Repeats the vote to the voters that have not come yet, at the pace of pings. A server that has a leader sends
    /// notifications only in reply to a LOOKING server, so a leader that is not established has to ask.
    pub(super) fn probe_others(&self, now_ms: i64, out: &mut Effects) {
        let Role::Leading(leader) = &self.role else { return };
        if leader.is_established() || now_ms < leader.deadline() {
            return;
        }
        if self.jobs != 0 {
            return; // the vote names an epoch that the disk is about to replace
        }
        let me = self.settings.server;
        let probe = self.election.probe(Vote { leader: me, zxid: self.durable, epoch: self.epochs.current.0 });
        let voters = self.settings.configs.quorums().voters().into_iter();
        let missing = voters.filter(|voter| *voter != me && !leader.has_follower(*voter));
        out.extend(missing.map(|voter| Effect::Notify(voter, probe)));
    }

    /// Gives up for another leader that a quorum follows, unless this one is established.
    pub(super) fn yield_to_other_leader(&mut self, now_ms: i64, out: &mut Effects) {
        let Role::Leading(leader) = &self.role else { return };
        if leader.is_established() {
            return;
        }
        let quorums = self.settings.configs.quorums();
        if let Some(other) = self.election.other_leader(quorums, |server| leader.has_follower(server)) {
            self.leave(now_ms, Reason::OtherLeader(other), out);
        }
    }

    /// Gives up a leadership that cannot be established because a voter has accepted a higher epoch: the next one has an epoch
    /// above that. A quorum of a proposed configuration may need such a voter, which no epoch had to wait for.
    pub(super) fn yield_to_higher_epoch(&mut self, now_ms: i64, out: &mut Effects) {
        let (Role::Leading(leader), election) = (&self.role, &self.election) else { return };
        if leader.is_outbid(|server| election.was_elected_by(server)) {
            self.leave(now_ms, Reason::HigherPromise, out);
        }
    }

    /// Whether a supporter of a leader that is not established reports that it has changed its vote and no quorum
    /// remains; or that it is LOOKING again, after `epoch_wait_ms`.
    pub(super) fn is_deserted(&mut self, now_ms: i64, from: ServerId, note: &Notification) -> bool {
        let (Role::Leading(leader), election) = (&mut self.role, &self.election) else { return false };
        if note.state != PeerState::Looking || !election.was_elected_by(from) {
            return false;
        }
        let wait_ms = self.settings.options.epoch_wait_ms.unwrap_or(i64::MAX);
        let is_long = leader.gathers_since_ms().is_some_and(|since_ms| wait_ms <= now_ms - since_ms);
        let is_other = note.vote.leader != self.settings.server;
        is_long || (is_other && leader.is_deserted_by(from, |server| election.was_elected_by(server)))
    }
}
