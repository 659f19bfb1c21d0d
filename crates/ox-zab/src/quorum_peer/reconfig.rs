//! Configurations of the ensemble, and what a new one changes for this member.

#![expect(clippy::wildcard_enum_match_arm, reason = "two effects concern configurations")]

use super::{QuorumPeer, Role, learner_state};
use crate::effect::{Effect, Effects};
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use std::sync::Arc;

/// A configuration gives this learner another leader or another kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoleChange {
    /// Applied before the role ends, so that the requesting client gets its reply.
    pub(super) after: Zxid,
    pub(super) next: Option<ServerId>,
}

impl QuorumPeer {
    pub(super) fn on_config(&mut self, now_ms: i64, from: ServerId, ensemble: Arc<Ensemble>, out: &mut Effects) {
        let configs = &self.settings.configs;
        let is_news = configs.committed().version() < ensemble.version();
        if !matches!(self.role, Role::Looking) || !configs.is_dynamic() || !configs.is_member(from) || !is_news {
            return;
        }
        let is_same = configs.committed().is_same(&ensemble);
        let effect = Effect::ActivateConfig(ensemble, None);
        if self.apply_config(&effect) {
            out.push(effect);
            if !is_same {
                self.start_election(now_ms, out);
            }
        }
    }

    /// Updates the configurations and this member's role. False if the effect brings nothing new.
    pub(super) fn apply_config(&mut self, effect: &Effect) -> bool {
        let configs = &mut self.settings.configs;
        let (ensemble, leader) = match effect {
            Effect::ConfigProposed(_) | Effect::ActivateConfig(..) if !configs.is_dynamic() => return false,
            Effect::ConfigProposed(ensemble) => {
                configs.set_proposed(Arc::clone(ensemble));
                return true;
            }
            Effect::ActivateConfig(ensemble, leader) => (ensemble, *leader),
            _ => return true,
        };
        let before = Arc::clone(configs.committed());
        if !configs.commit(Arc::clone(ensemble)) {
            return false;
        }
        if before.is_same(ensemble) {
            return true;
        }
        let kind = configs.kind_of(self.settings.server);
        let is_other = std::mem::replace(&mut self.kind, kind) != kind;
        self.election.set_learner_state(learner_state(kind));
        if let Role::Learning(learner) = &self.role {
            let old = self.election.vote().leader;
            let has_other_leader =
                leader.map_or_else(|| !has_same_address(old, &before, ensemble), |leader| leader != old);
            if is_other || has_other_leader {
                let waits = leader.is_some() && learner.is_active();
                let after = if waits { Zxid(ensemble.version()) } else { Zxid(i64::MIN) };
                self.role_change = Some(RoleChange { after, next: leader });
            }
        }
        true
    }
}

/// Whether a leader is a voter of both configurations, with the same quorum address.
fn has_same_address(leader: ServerId, before: &Ensemble, after: &Ensemble) -> bool {
    let at = |ensemble: &Ensemble| {
        let votes = ensemble.voters().any(|voter| voter == leader);
        votes.then(|| ensemble.members()[&leader].quorum.clone())
    };
    at(before).is_some() && at(before) == at(after)
}
