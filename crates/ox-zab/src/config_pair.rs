//! The committed and the proposed configuration of a member.

use crate::message::{EncodedTxn, LearnerKind};
use crate::quorum::{Quorum, Quorums};
use ox_proto::OpCode;
use ox_proto::ServerId;
use ox_proto::Zxid;
use ox_proto::ensemble::{Addresses, Ensemble, Role};
use ox_proto::txn::{Record, Txn as Body, TxnHeader};
use std::sync::Arc;

/// While a configuration is proposed, decisions need quorums of both (P20).
#[derive(Clone, Debug)]
pub struct ConfigPair {
    committed: Arc<Ensemble>,
    /// Newer than the committed one: proposed by a transaction, or announced in NEWLEADER.
    proposed: Option<Arc<Ensemble>>,
    /// Whether configurations of other servers are adopted (R35).
    is_dynamic: bool,
    quorums: Quorums,
}

impl ConfigPair {
    /// A static configuration, which never changes.
    pub fn fixed(ensemble: Ensemble) -> Self {
        Self { is_dynamic: false, ..Self::dynamic(ensemble, None) }
    }

    /// A configuration that can be changed. `proposed` is dropped unless it is newer.
    pub fn dynamic(committed: Ensemble, proposed: Option<Ensemble>) -> Self {
        let quorums = Quorums::of(Quorum::of(&committed));
        let mut configs = Self { committed: Arc::new(committed), proposed: None, is_dynamic: true, quorums };
        if let Some(proposed) = proposed {
            configs.set_proposed(Arc::new(proposed));
        }
        configs
    }

    pub fn is_dynamic(&self) -> bool {
        self.is_dynamic
    }

    pub fn committed(&self) -> &Arc<Ensemble> {
        &self.committed
    }

    /// The proposed configuration, or the committed one if none is proposed.
    pub fn latest(&self) -> &Arc<Ensemble> {
        self.proposed.as_ref().unwrap_or(&self.committed)
    }

    pub fn proposed(&self) -> Option<&Arc<Ensemble>> {
        self.proposed.as_ref()
    }

    pub fn quorums(&self) -> &Quorums {
        &self.quorums
    }

    /// Whether a server belongs to either configuration.
    pub fn is_member(&self, server: ServerId) -> bool {
        let has = |ensemble: &Arc<Ensemble>| ensemble.members().contains_key(&server);
        has(&self.committed) || self.proposed.as_ref().is_some_and(has)
    }

    /// The kind of a server in the committed configuration. A server that is not a member follows without a vote.
    pub fn kind_of(&self, server: ServerId) -> LearnerKind {
        match self.committed.members().get(&server).map(|member| member.role) {
            Some(Role::Observer) => LearnerKind::Observer,
            Some(Role::Participant) | None => LearnerKind::Follower,
        }
    }

    /// Replaces the proposed configuration. Dropped unless it is newer than the committed one.
    pub fn set_proposed(&mut self, ensemble: Arc<Ensemble>) {
        self.proposed = Some(ensemble).filter(|proposed| self.committed.version() < proposed.version());
        self.quorums.proposed = self.proposed.as_deref().map(Quorum::of);
    }

    /// The log was truncated after `zxid`: drops a configuration that was proposed later. Returns whether there was
    /// one.
    pub fn drop_proposed_after(&mut self, zxid: Zxid) -> bool {
        let is_gone = self.proposed.as_ref().is_some_and(|proposed| zxid.0 < proposed.version());
        if is_gone {
            (self.proposed, self.quorums.proposed) = (None, None);
        }
        is_gone
    }

    /// Returns false if the configuration is not newer than the committed one.
    pub fn commit(&mut self, ensemble: Arc<Ensemble>) -> bool {
        if ensemble.version() <= self.committed.version() {
            return false;
        }
        self.quorums.committed = Quorum::of(&ensemble);
        self.committed = ensemble;
        let proposed = self.proposed.take();
        self.quorums.proposed = None;
        if let Some(proposed) = proposed {
            self.set_proposed(proposed);
        }
        true
    }
}

/// The configuration that a transaction proposes, if it is a reconfiguration; an error if it cannot be decoded.
pub(crate) fn config_of_txn(txn: &EncodedTxn) -> Result<Option<Arc<Ensemble>>, String> {
    if TxnHeader::kind_of(&txn.record) != Some(OpCode::Reconfig.code()) {
        return Ok(None);
    }
    let unreadable =
        |what: &dyn std::fmt::Display| format!("invalid configuration in transaction {}: {what}", txn.zxid);
    let record = Record::decode(&txn.record).map_err(|error| unreadable(&error))?;
    let Body::Reconfig { data: Some(text), .. } = record.txn else { return Err(unreadable(&"there is none")) };
    parse(text).map(Some).map_err(|error| unreadable(&error))
}

/// Parses a configuration of another server. Accepts several addresses per server; whether this server may use them is
/// checked elsewhere.
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
    fn proposed_configuration_needs_its_quorum_until_committed() {
        let mut configs = ConfigPair::dynamic(ensemble(3, &[1, 2, 3]), Some(ensemble(3, &[4])));
        assert_eq!(configs.proposed(), None);
        configs.set_proposed(Arc::new(ensemble(5, &[4, 5])));
        assert!(configs.quorums().is_voter(ServerId(1)) && configs.quorums().is_voter(ServerId(5)));
        assert!(!configs.quorums().are_reached(|server| server.0 < 4));
        assert!(configs.commit(Arc::new(ensemble(5, &[4, 5]))));
        assert!(!configs.commit(Arc::new(ensemble(5, &[1]))), "already committed");
        assert_eq!((configs.proposed(), configs.quorums().is_voter(ServerId(1))), (None, false));
        let kinds = [1, 4, 9].map(|server| configs.kind_of(ServerId(server)));
        assert_eq!(kinds, [LearnerKind::Follower, LearnerKind::Follower, LearnerKind::Observer]);
    }

    #[test]
    fn truncation_drops_proposed_configuration() {
        let mut configs = ConfigPair::dynamic(ensemble(3, &[1, 2, 3]), Some(ensemble(7, &[4])));
        assert!(!configs.drop_proposed_after(Zxid(7)), "still part of the log");
        assert!(configs.drop_proposed_after(Zxid(6)));
        assert!(configs.proposed().is_none() && !configs.quorums().is_voter(ServerId(4)));
        assert!(!configs.drop_proposed_after(Zxid(6)), "already dropped");
    }

    #[test]
    fn leader_config_replaces_proposed_config() {
        let mut configs = ConfigPair::dynamic(ensemble(3, &[1, 2, 3]), Some(ensemble(5, &[1])));
        configs.set_proposed(Arc::new(ensemble(4, &[1, 2])));
        assert_eq!(configs.latest().version(), 4);
        configs.set_proposed(Arc::new(ensemble(3, &[1, 2, 3])));
        assert_eq!((configs.proposed(), configs.latest().version()), (None, 3));
        configs.set_proposed(Arc::new(ensemble(8, &[1, 2])));
        assert!(configs.commit(Arc::new(ensemble(6, &[1, 2]))));
        assert_eq!((configs.committed().version(), configs.latest().version()), (6, 8));
    }
}
