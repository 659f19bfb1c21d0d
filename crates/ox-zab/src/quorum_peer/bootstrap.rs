//! Members that have nothing: they may be new, or have lost everything.

use super::{Peer, Role, Standing};
use crate::effect::{Effect, Effects};
use crate::vote::{Notification, Vote};
use ox_proto::quorum::notification::PeerState;
use ox_proto::{ServerId, Zxid};

/// How long nobody may contradict before servers are believed to have nothing.
const DOUBT_MS: i64 = 400;

impl Peer {
    /// A voter that has nothing waits until it knows enough others that have nothing: then there is nothing to lose.
    /// Apache begins a connection with what it said last, however old; the truth follows at once, so it is waited for.
    pub(super) fn note_emptiness(&mut self, now_ms: i64, from: ServerId, note: &Notification, out: &mut Effects) {
        let quorums = self.settings.configs.quorums();
        let is_open = matches!(self.role, Role::Looking | Role::Dialing { .. }) && self.standing == Standing::Empty;
        if !is_open || ![self.settings.server, from].iter().all(|server| quorums.is_voter(*server)) {
            return;
        }
        let Vote { zxid, epoch, .. } = note.vote;
        let is_in_doubt = zxid < Zxid::ZERO && epoch == 0;
        if Zxid::ZERO < zxid || 0 < epoch || is_in_doubt {
            self.standing = Standing::Quarantined;
            if let (Role::Dialing { leader, .. }, Some(_)) = (&self.role, self.found_at_ms.take()) {
                out.push(Effect::Dial(*leader));
            }
            return;
        }
        if note.state == PeerState::Looking {
            self.empty.insert(from);
        }
        self.count_empty(now_ms);
    }

    /// Begins a history, in a while, when a quorum, this member among it, has none.
    pub(super) fn count_empty(&mut self, now_ms: i64) {
        let (me, quorums) = (self.settings.server, self.settings.configs.quorums());
        let is_voter = quorums.committed.is_voter(me);
        let has_nothing = |server: ServerId| server == me || self.empty.contains(&server);
        let may_found = self.standing == Standing::Empty && is_voter && self.settings.options.founds;
        if may_found && self.jobs == 0 && quorums.are_reached(has_nothing) {
            self.found_at_ms.get_or_insert(now_ms + DOUBT_MS);
        }
    }
}
