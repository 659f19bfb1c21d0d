//! The configurations that a member knows: the one in force, and the one that may follow it.

use crate::message::{LearnerKind, Txn};
use crate::quorum::{Quorum, Quorums};
use ox_proto::OpCode;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::ensemble::{Addresses, Ensemble, Role};
use ox_proto::txn::{Record, Txn as Body, TxnHeader};
use std::sync::Arc;

/// Two configurations at most. While there are two, quorums of both must agree (P20).
#[derive(Clone, Debug)]
pub struct Configs {
    committed: Arc<Ensemble>,
    /// Newer than the one in force: proposed, or named by a leader.
    seen: Option<Arc<Ensemble>>,
    /// Whether what other servers say about configurations counts (R35).
    is_dynamic: bool,
    quorums: Quorums,
}

impl Configs {
    /// The configuration that is written in the file, and stays.
    pub fn fixed(ensemble: Ensemble) -> Self {
        Self { is_dynamic: false, ..Self::dynamic(ensemble, None) }
    }

    /// One that can be changed. `seen` counts if it is newer.
    pub fn dynamic(committed: Ensemble, seen: Option<Ensemble>) -> Self {
        let quorums = Quorums::of(Quorum::of(&committed));
        let mut configs = Self { committed: Arc::new(committed), seen: None, is_dynamic: true, quorums };
        if let Some(seen) = seen {
            configs.see(Arc::new(seen));
        }
        configs
    }

    /// Whether configurations can change.
    pub fn is_dynamic(&self) -> bool {
        self.is_dynamic
    }

    /// In force.
    pub fn committed(&self) -> &Arc<Ensemble> {
        &self.committed
    }

    /// The newest.
    pub fn latest(&self) -> &Arc<Ensemble> {
        self.seen.as_ref().unwrap_or(&self.committed)
    }

    /// One that is newer than the one in force.
    pub fn pending(&self) -> Option<&Arc<Ensemble>> {
        self.seen.as_ref()
    }

    /// Who decides.
    pub fn quorums(&self) -> &Quorums {
        &self.quorums
    }

    /// Whether a server is in one of them.
    pub fn is_member(&self, server: ServerId) -> bool {
        let has = |ensemble: &Arc<Ensemble>| ensemble.members().contains_key(&server);
        has(&self.committed) || self.seen.as_ref().is_some_and(has)
    }

    /// What a server is under the one in force. Who is in none follows without a vote.
    pub fn kind_of(&self, server: ServerId) -> LearnerKind {
        match self.committed.members().get(&server).map(|member| member.role) {
            Some(Role::Observer) => LearnerKind::Observer,
            Some(Role::Participant) | None => LearnerKind::Follower,
        }
    }

    /// Another one may follow; what was to follow before is forgotten.
    pub fn see(&mut self, ensemble: Arc<Ensemble>) {
        self.seen = Some(ensemble).filter(|seen| self.committed.version() < seen.version());
        self.quorums.proposed = self.seen.as_deref().map(Quorum::of);
    }

    /// The history ends here now: what was to follow behind it does not. False if there was nothing.
    pub fn forget_behind(&mut self, zxid: Zxid) -> bool {
        let is_gone = self.seen.as_ref().is_some_and(|seen| zxid.0 < seen.version());
        if is_gone {
            (self.seen, self.quorums.proposed) = (None, None);
        }
        is_gone
    }

    /// One is in force. False if that is no news.
    pub fn commit(&mut self, ensemble: Arc<Ensemble>) -> bool {
        if ensemble.version() <= self.committed.version() {
            return false;
        }
        self.quorums.committed = Quorum::of(&ensemble);
        self.committed = ensemble;
        let seen = self.seen.take();
        self.quorums.proposed = None;
        if let Some(seen) = seen {
            self.see(seen);
        }
        true
    }
}

/// The configuration that a transaction brings; an error if it brings one that cannot be read.
pub(crate) fn brought_by(txn: &Txn) -> Result<Option<Arc<Ensemble>>, String> {
    if TxnHeader::kind_of(&txn.record) != Some(OpCode::Reconfig.code()) {
        return Ok(None);
    }
    let unreadable = |what: &dyn std::fmt::Display| format!("the configuration of {} cannot be read: {what}", txn.zxid);
    let record = Record::decode(&txn.record).map_err(|error| unreadable(&error))?;
    let Body::Reconfig { data: Some(text), .. } = record.txn else { return Err(unreadable(&"there is none")) };
    parse(text).map(Some).map_err(|error| unreadable(&error))
}

/// Reads what another server says its configuration is. Whether several addresses may be used here is another question.
pub(crate) fn parse(text: &[u8]) -> Result<Arc<Ensemble>, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    Ensemble::parse(text, Addresses::Several).map(Arc::new).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ensemble(version: i64, voters: &[i64]) -> Ensemble {
        Ensemble::of_numbers(version, voters.iter().copied().map(ServerId), [ServerId(9)]).unwrap()
    }

    #[test]
    fn the_newer_one_must_agree_until_it_is_in_force() {
        let mut configs = Configs::dynamic(ensemble(3, &[1, 2, 3]), Some(ensemble(3, &[4])));
        assert_eq!(configs.pending(), None);
        configs.see(Arc::new(ensemble(5, &[4, 5])));
        assert!(configs.quorums().is_voter(ServerId(1)) && configs.quorums().is_voter(ServerId(5)));
        assert!(!configs.quorums().are_reached(|server| server.0 < 4));
        assert!(configs.commit(Arc::new(ensemble(5, &[4, 5]))));
        assert!(!configs.commit(Arc::new(ensemble(5, &[1]))), "it is known");
        assert_eq!((configs.pending(), configs.quorums().is_voter(ServerId(1))), (None, false));
        let kinds = [1, 4, 9].map(|server| configs.kind_of(ServerId(server)));
        assert_eq!(kinds, [LearnerKind::Follower, LearnerKind::Follower, LearnerKind::Observer]);
    }

    #[test]
    fn what_was_cut_does_not_follow() {
        let mut configs = Configs::dynamic(ensemble(3, &[1, 2, 3]), Some(ensemble(7, &[4])));
        assert!(!configs.forget_behind(Zxid(7)), "it is part of the history");
        assert!(configs.forget_behind(Zxid(6)));
        assert!(configs.pending().is_none() && !configs.quorums().is_voter(ServerId(4)));
        assert!(!configs.forget_behind(Zxid(6)), "there is nothing left to forget");
    }

    #[test]
    fn what_a_leader_names_replaces_what_was_seen() {
        let mut configs = Configs::dynamic(ensemble(3, &[1, 2, 3]), Some(ensemble(5, &[1])));
        configs.see(Arc::new(ensemble(4, &[1, 2])));
        assert_eq!(configs.latest().version(), 4);
        configs.see(Arc::new(ensemble(3, &[1, 2, 3])));
        assert_eq!((configs.pending(), configs.latest().version()), (None, 3));
        configs.see(Arc::new(ensemble(8, &[1, 2])));
        assert!(configs.commit(Arc::new(ensemble(6, &[1, 2]))));
        assert_eq!((configs.committed().version(), configs.latest().version()), (6, 8));
    }
}
