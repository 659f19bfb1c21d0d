//! Links to other servers: each event concerns the leader, the learner or the observer master of this member.

#![expect(clippy::wildcard_enum_match_arm, reason = "a role handles the events that concern it")]

use super::{PeerSettings, QuorumPeer, Role};
use crate::context::Context;
use crate::effect::{Effect, Effects, LinkId, Reason};
use crate::learner::{Learner, LearnerInit};
use crate::liveness::Traffic;
use crate::message::Message;
use ox_proto::{ServerId, Zxid};

impl QuorumPeer {
    pub(super) fn on_dialed(&mut self, now_ms: i64, leader: ServerId, link: Option<LinkId>, out: &mut Effects) {
        if !matches!(self.role, Role::Dialing { leader: dialled, .. } if dialled == leader) {
            out.extend(link.map(Effect::Close));
            return;
        }
        let Some(link) = link else { return self.dial_again(now_ms, leader, out) };
        self.bootstrap_at_ms = None; // the leader decides
        let claim = LearnerInit {
            server: self.settings.server,
            kind: self.kind,
            epochs: self.epochs,
            last: self.durable,
            config_version: self.settings.configs.committed().version(),
            is_dynamic: self.settings.configs.is_dynamic(),
            wants_snapshot: self.wants_snapshot,
            eligibility: self.eligibility,
        };
        let mut cx = Context { now_ms, history: &mut self.history, out };
        let PeerSettings { timing, options, .. } = self.settings;
        let learner = Learner::new(claim, timing, link, options.request_window_bytes, &mut cx);
        self.role = Role::Learning(Box::new(learner));
    }

    pub(super) fn on_link(&mut self, now_ms: i64, link: LinkId, out: &mut Effects) {
        match self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_link(cx, link)),
            _ if self.observer_master.is_some() => {
                self.with_observer_master(now_ms, out, |master, cx| master.on_link(cx.now_ms, link))
            }
            _ => out.push(Effect::Close(link)),
        }
    }

    pub(super) fn on_link_gone(&mut self, now_ms: i64, link: LinkId, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, _| leader.on_link_gone(link)),
            Role::Learning(learner) if learner.link() == link => {
                // A proxy may accept before the leader listens.
                let leader = self.election.vote().leader;
                self.was_rejected |= learner.awaits_sync_choice();
                if learner.has_leader_info() {
                    self.end_role(now_ms, Reason::LinkLost, out);
                } else {
                    self.dial_again(now_ms, leader, out);
                }
            }
            _ => self.with_observer_master(now_ms, out, |master, _| master.on_link_gone(link)),
        }
        self.trim();
    }

    pub(super) fn on_traffic(&mut self, now_ms: i64, link: LinkId, moved: Traffic) {
        match &mut self.role {
            Role::Leading(leader) => leader.on_traffic(now_ms, link, moved),
            Role::Learning(learner) if learner.link() == link => learner.on_traffic(now_ms, moved),
            _ => self.observer_master.iter_mut().for_each(|master| master.on_traffic(now_ms, link, moved)),
        }
    }

    pub(super) fn on_sent(&mut self, now_ms: i64, link: LinkId, bytes: usize, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_sent(cx, link, bytes)),
            Role::Learning(learner) if learner.link() == link => learner.on_sent(out, bytes),
            _ => self.with_observer_master(now_ms, out, |master, cx| master.on_sent(cx, link, bytes)),
        }
        self.trim();
    }

    pub(super) fn send(&mut self, link: LinkId, message: Message, out: &mut Effects) {
        match &mut self.role {
            Role::Leading(leader) => leader.send(out, link, message),
            Role::Learning(learner) if learner.link() == link => learner.send(out, message),
            _ => self.observer_master.iter_mut().for_each(|master| master.send(out, link, message.clone())),
        }
    }

    /// False if packets of this link have to wait, because the disk has to finish a job first.
    pub fn takes_packets(&self, link: LinkId) -> bool {
        match &self.role {
            Role::Learning(learner) if learner.link() == link => learner.takes_packets() && self.role_change.is_none(),
            _ => true,
        }
    }

    pub(super) fn on_message(&mut self, now_ms: i64, link: LinkId, message: Message, out: &mut Effects) {
        match &self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_message(cx, link, message)),
            Role::Learning(learner) if learner.link() == link => {
                self.with_learner(now_ms, out, |learner, cx| learner.on_message(message, cx));
            }
            _ => self.with_observer_master(now_ms, out, |master, cx| master.on_message(cx, link, message)),
        }
    }

    pub(super) fn on_violation(&mut self, now_ms: i64, link: LinkId, reason: Reason, out: &mut Effects) {
        if self.role().learner().is_some_and(|learner| learner.link() == link) {
            self.end_role(now_ms, reason, out);
        } else {
            out.push(Effect::Close(link));
            self.on_link_gone(now_ms, link, out);
        }
    }

    pub(super) fn on_log_read(&mut self, now_ms: i64, link: LinkId, below: Option<Zxid>, out: &mut Effects) {
        match self.role {
            Role::Leading(_) => self.with_leader(now_ms, out, |leader, cx| leader.on_log_read(cx, link, below)),
            _ => self.with_observer_master(now_ms, out, |master, cx| master.on_log_read(cx, link, below)),
        }
    }
}
