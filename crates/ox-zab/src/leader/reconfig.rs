//! Configurations as a leader handles them: what may be proposed, when it is in force, who leads then.
//!
//! A leader that may not stay names its successor with the commit, and stays until its followers have left: they hang
//! up when they have heard. Meanwhile it agrees to nothing (that is for the successor to do).

use super::{Leader, Phase, Stage};
use crate::config_pair::brought_by;
use crate::context::Context;
use crate::effect::{Effect, Reason};
use crate::message::Txn;
use crate::quorum::Quorum;
use ox_proto::ensemble::{Change, ChangeRules, Ensemble};
use ox_proto::{ErrorCode, ServerId, Zxid};
use std::sync::Arc;

/// A leader on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandOver {
    to: ServerId,
    /// Applied first, so that who asked for it has the answer.
    after: Zxid,
    since_ms: i64,
}

impl Leader {
    /// The configuration after a change that a client asks for, which would be the transaction `zxid`. `from` is the
    /// version it means to change, -1 any.
    pub fn judge_change(
        &self,
        change: &Change<'_>,
        from: i64,
        zxid: Zxid,
        rules: ChangeRules,
    ) -> Result<Ensemble, ErrorCode> {
        if self.configs.pending().is_some() || self.is_leaving() {
            return Err(ErrorCode::ReconfigInProgress);
        }
        let committed = self.configs.committed();
        if from != -1 && from != committed.version() {
            return Err(ErrorCode::BadVersion);
        }
        let changed = committed.changed(change, zxid.0, rules)?;
        if !Quorum::of(&changed).is_reached(|server| self.follows(server)) {
            return Err(ErrorCode::NewConfigNoQuorum);
        }
        Ok(changed)
    }

    /// Whether a server has everything and hears of everything new, to acknowledge it.
    pub(super) fn follows(&self, server: ServerId) -> bool {
        let is_synced = |link: &super::Link| link.server == server && Stage::Synced <= link.stage && link.is_follower();
        server == self.me.server || self.links.values().any(is_synced)
    }

    /// A proposal is about to be made. If it brings a configuration, that has to agree from here on.
    pub(super) fn note_proposal(&mut self, cx: &mut Context<'_>, txn: &Txn) {
        if let Ok(Some(config)) = brought_by(txn)
            && self.configs.is_dynamic()
        {
            self.configs.see(Arc::clone(&config));
            self.order.propose_quorum(Quorum::of(&config));
            cx.out.push(Effect::Seen(config));
        }
    }

    /// The first configuration that is agreed on gets a version, which is the epoch's.
    // Compat: everybody learns it with NEWLEADER; there is no transaction for it.
    pub(super) fn number_config(&mut self, cx: &mut Context<'_>) {
        let committed = self.configs.committed();
        if !self.configs.is_dynamic() || self.configs.pending().is_some() || committed.version() != 0 {
            return;
        }
        if let Ok(numbered) = Ensemble::clone(committed).with_version(self.epoch.start().0) {
            let numbered = Arc::new(numbered);
            self.configs.see(Arc::clone(&numbered));
            cx.out.push(Effect::Seen(numbered));
        }
    }

    /// The proposal that brings a configuration is agreed on: it is in force. Returns who leads under it.
    pub(super) fn put_in_force(&mut self, cx: &mut Context<'_>, zxid: Zxid) -> ServerId {
        let leader = self.enforce(cx, zxid, zxid);
        self.order.activate();
        leader
    }

    fn enforce(&mut self, cx: &mut Context<'_>, zxid: Zxid, after: Zxid) -> ServerId {
        let Some(config) = self.configs.pending().cloned() else { return self.me.server };
        let leader = self.designate(&config, zxid);
        self.configs.commit(Arc::clone(&config));
        cx.out.push(Effect::Activate(config, Some(leader)));
        if leader != self.me.server {
            self.hand_over = Some(HandOver { to: leader, after, since_ms: cx.now_ms });
        }
        leader
    }

    /// The last configuration that anybody of the quorum has seen is completed by being established.
    pub(super) fn complete_config(&mut self, cx: &mut Context<'_>) {
        self.enforce(cx, self.epoch.start(), self.initial);
        self.order.set_quorum(self.configs.quorums().committed.clone());
    }

    /// Who leads under a configuration: this server if it votes and is found where it was, otherwise whoever has most
    /// of what follows `zxid`.
    fn designate(&self, config: &Ensemble, zxid: Zxid) -> ServerId {
        let me = self.me.server;
        let stays = |ensemble: &Ensemble| {
            let mine = ensemble.members().get(&me)?;
            let votes = ensemble.voters().any(|voter| voter == me) && ensemble.weight(me) != 0;
            votes.then(|| mine.quorum.clone())
        };
        let is_there = |server: ServerId| server != me && self.follows(server) && config.weight(server) != 0;
        let is_first = zxid == self.epoch.start();
        let has = |server: ServerId| {
            if is_first {
                return self.synced.contains(&server).then_some(zxid);
            }
            self.order.acked(server).filter(|acked| zxid <= *acked)
        };
        let is_new = !self.configs.committed().members().contains_key(&me);
        match (stays(config), stays(self.configs.committed())) {
            (Some(_), None) if is_new => me,
            (Some(new), Some(old))
                if new.len() == old.len() && new.iter().all(|at| old.iter().any(|o| o.is_same(at))) =>
            {
                me
            }
            _ => {
                let heirs = config.voters().filter(|voter| is_there(*voter));
                let heirs = heirs.filter_map(|voter| Some((has(voter)?, std::cmp::Reverse(voter))));
                // Whoever votes is better than who does not, though it has just gone.
                let any = || config.voters().find(|voter| *voter != me);
                heirs.max().map(|(_, heir)| heir.0).or_else(any).unwrap_or(me)
            }
        }
    }

    /// Whether a proposed configuration is not in force yet. Who comes now has to wait: it would be told the newest one,
    /// and take it for agreed on.
    // Compat: Apache tells it, and is obeyed, before anything is agreed on.
    pub(super) fn is_reconfiguring(&self) -> bool {
        self.phase == Phase::Established && self.configs.pending().is_some()
    }

    /// Gives those their history who had to wait.
    pub(super) fn let_in(&mut self, cx: &mut Context<'_>) {
        let promised = self.links.iter().filter(|(_, link)| link.stage == Stage::Promised);
        for id in promised.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.sync(cx, id);
        }
    }

    /// Whether everything is agreed on by somebody else from now on.
    pub fn is_leaving(&self) -> bool {
        self.hand_over.is_some()
    }

    /// Leaves when the followers have heard who leads, or after a while.
    pub(super) fn finish_hand_over(&mut self, cx: &mut Context<'_>) {
        let Some(HandOver { to, after, since_ms }) = self.hand_over else { return };
        let has_heard = !self.configs.quorums().are_reached(|server| self.follows(server));
        let is_late = self.timing.sync_ms() < cx.now_ms - since_ms;
        if (has_heard && after <= self.applied) || is_late {
            self.hand_over = None;
            cx.out.push(Effect::Leave(Reason::HandedOver(to)));
        }
    }
}
