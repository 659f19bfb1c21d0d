//! Changes of the ensemble: the leader judges them, and one at a time is under way.

use super::{Replica, Zab};
use ox_proto::ensemble::{Change, ChangeRules};
use ox_proto::{ErrorCode, OpCode, Zxid};
use ox_tree::View;
use ox_tree::ops::{self, Verdict};

/// What a change is judged by.
pub(super) struct Changes<'a> {
    pub(super) zab: &'a Zab,
    /// One that is made, and maybe not proposed yet.
    pub(super) prepared: Option<Zxid>,
    pub(super) rules: ChangeRules,
}

impl Changes<'_> {
    /// Prepares a write of any kind.
    pub(super) fn prepare(&self, view: &mut View<'_>, op: OpCode, body: &[u8], out: &mut Vec<u8>) -> Verdict {
        let Zab::Member(peer) = self.zab else { return ops::prepare(view, op, body, out) };
        let Some(leader) = peer.leader().filter(|_| op == OpCode::Reconfig) else {
            return ops::prepare(view, op, body, out);
        };
        let is_waiting = self.prepared.is_some_and(|prepared| leader.last_proposed() < prepared);
        let judge = |request: &ox_proto::request::ReconfigRequest<'_>, zxid| {
            if is_waiting {
                return Err(ErrorCode::ReconfigInProgress);
            }
            let change = Change {
                joining: request.joining.as_deref(),
                leaving: request.leaving.as_deref(),
                members: request.members.as_deref(),
            };
            leader.judge_change(&change, request.config, zxid, self.rules).map(|ensemble| ensemble.to_string())
        };
        ops::prepare_reconfig(view, body, &judge, out)
    }
}

impl Replica {
    /// Notes what was made.
    pub(super) fn note_reconfig(&mut self, made: OpCode, zxid: Zxid) {
        if made == OpCode::Reconfig {
            self.reconfigures_at = Some(zxid);
        }
    }
}
