//! Addresses of the servers of the ensemble, from the committed and the proposed configuration.

use ox_config::MemberConfig;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Ensemble, Member, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Addresses of all configured servers.
pub(super) struct EnsembleAddresses {
    committed: Arc<Ensemble>,
    proposed: Option<Arc<Ensemble>>,
    /// This server's entry. A server that is in no configuration keeps its last one.
    own: Member,
    listen_on_all_ips: bool,
    /// The port on which observer masters listen.
    observer_port: Option<u16>,
}

impl EnsembleAddresses {
    /// `None` if this server is not in its own configuration.
    pub(super) fn new(member: &MemberConfig) -> Option<Self> {
        let own = member.ensemble.members().get(&member.server)?.clone();
        let proposed = member.proposed.clone().map(Arc::new);
        let committed = Arc::new(member.ensemble.clone());
        let (listen_on_all_ips, observer_port) = (member.listen_on_all_ips, member.observer_master_port);
        Some(Self { committed, proposed, own, listen_on_all_ips, observer_port })
    }

    /// Sets the configurations after a change.
    pub(super) fn set(&mut self, me: ServerId, committed: Arc<Ensemble>, proposed: Option<Arc<Ensemble>>) {
        if let Some(own) = committed.members().get(&me) {
            self.own = own.clone();
        }
        (self.committed, self.proposed) = (committed, proposed);
    }

    pub(super) fn committed(&self) -> &Ensemble {
        &self.committed
    }

    pub(super) fn own(&self) -> &Member {
        &self.own
    }

    /// The quorum addresses of a leader.
    pub(super) fn quorum_addresses(&self, server: ServerId) -> Option<Vec<Address>> {
        let ensembles = std::iter::once(&self.committed).chain(&self.proposed);
        ensembles.into_iter().find_map(|ensemble| ensemble.members().get(&server)).map(|member| member.quorum.clone())
    }

    /// The election addresses of all servers.
    pub(super) fn election_addresses(&self) -> BTreeMap<ServerId, Vec<Address>> {
        let proposed = self.proposed.iter().flat_map(|ensemble| ensemble.members());
        let members = proposed.chain(self.committed.members());
        members.map(|(id, member)| (*id, member.election.clone())).collect()
    }

    /// Whether a server is in the committed or the proposed configuration.
    pub(super) fn is_member(&self, server: ServerId) -> bool {
        let proposed = self.proposed.as_ref().is_some_and(|ensemble| ensemble.members().contains_key(&server));
        proposed || self.committed.members().contains_key(&server)
    }

    /// The hosts of each configured server.
    pub(super) fn hosts(&self) -> BTreeMap<ServerId, BTreeSet<String>> {
        let mut hosts = BTreeMap::<_, BTreeSet<String>>::new();
        let ensembles = std::iter::once(&self.committed).chain(&self.proposed);
        for (id, member) in ensembles.flat_map(|ensemble| ensemble.members()) {
            let addresses = member.quorum.iter().chain(&member.election);
            hosts.entry(*id).or_default().extend(addresses.map(|address| address.host.clone()));
        }
        hosts
    }

    /// Participants of the committed and of the proposed configuration.
    pub(super) fn voters(&self) -> BTreeSet<ServerId> {
        let members =
            self.committed.members().iter().chain(self.proposed.iter().flat_map(|ensemble| ensemble.members()));
        members.filter(|(_, member)| member.role == Role::Participant).map(|(id, _)| *id).collect()
    }

    /// The addresses that this server binds for learners when it leads.
    pub(super) fn quorum_binds(&self) -> Vec<Address> {
        self.binds(&self.own.quorum)
    }

    /// The addresses that this server binds for notifications.
    pub(super) fn election_binds(&self) -> Vec<Address> {
        self.binds(&self.own.election)
    }

    /// The observer masters with their addresses; none if observers link to the leader.
    pub(super) fn observer_masters(&self) -> Vec<(ServerId, Vec<Address>)> {
        let Some(port) = self.observer_port else { return Vec::new() };
        let voters = self.committed.members().iter().filter(|(_, member)| member.role == Role::Participant);
        voters.map(|(id, member)| (*id, at_port(member, port))).collect()
    }

    /// The addresses that this server binds for observers when it follows.
    pub(super) fn observer_master_binds(&self) -> Vec<Address> {
        self.observer_port.map_or_else(Vec::new, |port| self.binds(&at_port(&self.own, port)))
    }

    fn binds(&self, addresses: &[Address]) -> Vec<Address> {
        let on_all = |address: &Address| Address::new("0.0.0.0", address.port);
        let bind = |address: &Address| if self.listen_on_all_ips { on_all(address) } else { address.clone() };
        addresses.iter().map(bind).collect()
    }
}

fn at_port(member: &Member, port: u16) -> Vec<Address> {
    member.quorum.iter().map(|address| Address::new(&address.host, port)).collect()
}
