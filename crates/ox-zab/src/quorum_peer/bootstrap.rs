//! Bootstrap: when a quorum of empty voters starts a new history.

use super::{Eligibility, QuorumPeer, Role};
use crate::effect::{Effect, Effects};
use crate::vote::{Vote, VoteNotification};
use ox_proto::quorum::notification::PeerState;
use ox_proto::{ServerId, Zxid};

/// How long no voter may contradict before empty voters bootstrap.
const BOOTSTRAP_DELAY_MS: i64 = 400;

impl QuorumPeer {
    /// Counts empty voters. If a quorum is empty, nothing can have been committed, and the ensemble may bootstrap.
    /// Apache begins an election connection with its last notification, however old, and sends the current one
    /// immediately after; so we wait for that.
    pub(super) fn note_empty_voter(&mut self, now_ms: i64, from: ServerId, note: &VoteNotification, out: &mut Effects) {
        let quorums = self.settings.configs.quorums();
        let is_open =
            matches!(self.role, Role::Looking | Role::Dialing { .. }) && self.eligibility == Eligibility::Empty;
        if !is_open || ![self.settings.server, from].iter().all(|server| quorums.is_voter(*server)) {
            return;
        }
        let Vote { zxid, epoch, .. } = note.vote;
        let is_in_doubt = zxid < Zxid::ZERO && epoch == 0;
        if Zxid::ZERO < zxid || 0 < epoch || is_in_doubt {
            self.eligibility = Eligibility::Quarantined;
            if let (Role::Dialing { leader, .. }, Some(_)) = (&self.role, self.bootstrap_at_ms.take()) {
                out.push(Effect::Dial(*leader));
            }
            return;
        }
        if note.state == PeerState::Looking {
            self.empty.insert(from);
        }
        self.check_bootstrap(now_ms);
    }

    /// Schedules the bootstrap when a quorum that includes this member is empty.
    pub(super) fn check_bootstrap(&mut self, now_ms: i64) {
        let (me, quorums) = (self.settings.server, self.settings.configs.quorums());
        let is_voter = quorums.committed.is_voter(me);
        let is_empty = |server: ServerId| server == me || self.empty.contains(&server);
        let may_bootstrap = self.eligibility == Eligibility::Empty && is_voter && self.settings.options.may_bootstrap;
        if may_bootstrap && self.disk_jobs == 0 && quorums.are_reached(is_empty) {
            self.bootstrap_at_ms.get_or_insert(now_ms + BOOTSTRAP_DELAY_MS);
        }
    }
}
