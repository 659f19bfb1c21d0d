//! Reconfiguration at the leader: validation, activation, and handing over leadership.
//!
//! If the new configuration removes the leader or changes its address, the leader names a successor in
//! COMMITANDACTIVATE. It commits nothing more, and steps down when its followers have closed their links.

use super::{Leader, Phase, Stage};
use crate::config_pair::config_of_txn;
use crate::context::Context;
use crate::effect::{Effect, Reason};
use crate::message::EncodedTxn;
use crate::quorum::Quorum;
use ox_proto::ensemble::{Change, ChangeRules, Ensemble};
use ox_proto::{ErrorCode, ServerId, Zxid};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(super) struct HandOver {
    to: ServerId,
    /// Applied before the leader steps down, so that the requesting client gets its reply.
    after: Zxid,
    since_ms: i64,
}

impl Leader {
    /// The configuration after a client's change, which would be transaction `zxid`. `from` is the version that the
    /// client expects, or -1 for any.
    pub fn check_reconfig(
        &self,
        change: &Change<'_>,
        from: i64,
        zxid: Zxid,
        rules: ChangeRules,
    ) -> Result<Ensemble, ErrorCode> {
        if self.configs.proposed().is_some() || self.is_handing_over() {
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

    /// Whether a server is a synchronised follower, or this leader.
    pub(super) fn follows(&self, server: ServerId) -> bool {
        let is_synced =
            |link: &super::LearnerHandler| link.server == server && Stage::Synced <= link.stage && link.is_follower();
        server == self.me.server || self.links.values().any(is_synced)
    }

    /// Called before a proposal is sent. If it is a reconfiguration, the new quorum must acknowledge it too.
    pub(super) fn note_proposed_config(&mut self, cx: &mut Context<'_>, txn: &EncodedTxn) {
        if self.configs.is_dynamic()
            && let Ok(Some(config)) = config_of_txn(txn)
        {
            self.configs.set_proposed(Arc::clone(&config));
            self.broadcast.propose_quorum(Quorum::of(&config));
            cx.out.push(Effect::ConfigProposed(config));
        }
    }

    /// A configuration without a version gets that of the epoch's start.
    // Compat: servers learn this version with NEWLEADER; there is no transaction for it.
    pub(super) fn assign_config_version(&mut self, cx: &mut Context<'_>) {
        let committed = self.configs.committed();
        if !self.configs.is_dynamic() || self.configs.proposed().is_some() || committed.version() != 0 {
            return;
        }
        if let Ok(numbered) = Ensemble::clone(committed).with_version(self.epoch.start().0) {
            let numbered = Arc::new(numbered);
            self.configs.set_proposed(Arc::clone(&numbered));
            cx.out.push(Effect::ConfigProposed(numbered));
        }
    }

    /// A reconfiguration is committed: activates it. Returns the leader from now on.
    pub(super) fn activate_config(&mut self, cx: &mut Context<'_>, zxid: Zxid) -> ServerId {
        let leader = self.commit_config(cx, zxid, zxid);
        self.broadcast.activate();
        leader
    }

    fn commit_config(&mut self, cx: &mut Context<'_>, zxid: Zxid, after: Zxid) -> ServerId {
        let Some(config) = self.configs.proposed().cloned() else { return self.me.server };
        let leader = self.choose_leader(&config, zxid);
        self.configs.commit(Arc::clone(&config));
        cx.out.push(Effect::ActivateConfig(config, Some(leader)));
        if leader != self.me.server {
            self.hand_over = Some(HandOver { to: leader, after, since_ms: cx.now_ms });
        }
        leader
    }

    /// Commits the newest configuration that the quorum knows, as soon as the leader is established.
    pub(super) fn commit_initial_config(&mut self, cx: &mut Context<'_>) {
        self.commit_config(cx, self.epoch.start(), self.initial);
        self.broadcast.set_quorum(self.configs.quorums().committed.clone());
    }

    /// This server stays leader if it is a voter with an unchanged address. Otherwise the follower with the longest log
    /// leads.
    fn choose_leader(&self, config: &Ensemble, zxid: Zxid) -> ServerId {
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
            self.broadcast.acked(server).filter(|acked| zxid <= *acked)
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
                let successors = config.voters().filter(|voter| is_there(*voter));
                let successors = successors.filter_map(|voter| Some((has(voter)?, std::cmp::Reverse(voter))));
                // No voter is a synchronised follower: name any of them, it may reconnect.
                let any = || config.voters().find(|voter| *voter != me);
                successors.max().map(|(_, successor)| successor.0).or_else(any).unwrap_or(me)
            }
        }
    }

    /// Whether a proposed configuration is not committed yet. New learners have to wait: NEWLEADER would announce that
    /// configuration, and they would take it for committed.
    // Compat: Apache does announce it before it is committed.
    pub(super) fn is_reconfiguring(&self) -> bool {
        self.phase == Phase::Established && self.configs.proposed().is_some()
    }

    /// Starts to synchronise the learners that waited for the end of a reconfiguration.
    pub(super) fn sync_waiting(&mut self, cx: &mut Context<'_>) {
        let epoch_acked = self.links.iter().filter(|(_, link)| link.stage == Stage::EpochAcked);
        for id in epoch_acked.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.plan_sync(cx, id);
        }
    }

    /// Whether another server leads from now on: this one commits nothing more.
    pub fn is_handing_over(&self) -> bool {
        self.hand_over.is_some()
    }

    /// Steps down when the followers have left, or after `syncLimit`.
    pub(super) fn finish_hand_over(&mut self, cx: &mut Context<'_>) {
        let Some(HandOver { to, after, since_ms }) = self.hand_over else { return };
        let have_left = !self.configs.quorums().are_reached(|server| self.follows(server));
        let is_late = self.timing.sync_ms() < cx.now_ms - since_ms;
        if (have_left && after <= self.applied) || is_late {
            self.hand_over = None;
            cx.out.push(Effect::StepDown(Reason::HandedOver(to)));
        }
    }
}
