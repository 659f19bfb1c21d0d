//! The ensemble, as this member knows it.

use super::ServerHandle;
use crate::status::java_text;
use crate::status::server_mode::REPLICA_TIMEOUT;
use ox_proto::ServerId;
use ox_proto::ensemble::{Address, Member, Role};
use ox_replica::Replica;
use ox_zab::LearnerKind;
use std::sync::mpsc::sync_channel;

/// The ensemble of a member that has a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsembleReport {
    pub server: i64,
    pub leader: Option<i64>,
    pub last_zxid: i64,
    /// Ordered by their ids.
    pub members: Vec<MemberReport>,
    /// Observers that this server serves.
    pub observers: Vec<ObserverReport>,
}

/// One line `server.N`; addresses are hosts as they are configured, with their ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    pub id: i64,
    pub is_voter: bool,
    pub quorum: Vec<(String, u16)>,
    pub election: Vec<(String, u16)>,
    pub client: Option<(String, u16)>,
}

/// An observer that this server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObserverReport {
    pub server: i64,
    /// As Java prints it: `/127.0.0.1:3000`; empty if it is not known.
    pub address: String,
    pub established_ms: i64,
}

impl ServerHandle {
    /// `None` on a standalone server, and if the replica thread does not reply.
    pub fn ensemble(&self) -> Option<EnsembleReport> {
        let shared = self.shared();
        let member = shared.config.member.as_ref()?;
        let ensemble = shared.ensemble.read().clone()?;
        let (sender, receiver) = sync_channel(1);
        shared.inbox.query(move |replica, _| {
            let _ = sender.send(roles(replica)); // fails when the caller has stopped waiting
        });
        let (leader, observers) = receiver.recv_timeout(REPLICA_TIMEOUT).ok()?;
        let links = shared.learner_links.lock();
        let observers = observers.into_iter().map(|server| {
            let found = links.get(&server);
            ObserverReport {
                server: server.0,
                address: found.and_then(|found| found.address).map(java_text::address).unwrap_or_default(),
                established_ms: found.map_or(0, |found| found.established_ms),
            }
        });
        Some(EnsembleReport {
            server: member.server.0,
            leader: leader.map(|leader| leader.0),
            last_zxid: shared.state.read().last_zxid().0,
            members: ensemble.members().iter().map(|(id, member)| report(*id, member)).collect(),
            observers: observers.collect(),
        })
    }
}

/// The leader, and the active observers.
fn roles(replica: &Replica) -> (Option<ServerId>, Vec<ServerId>) {
    let Some(peer) = replica.status().peer() else { return (None, Vec::new()) };
    let observers = peer.role().leader().map(|leader| {
        let is_observer = |kind, is_active| kind == LearnerKind::Observer && is_active;
        let active = leader.learners().filter(|(_, kind, is_active)| is_observer(*kind, *is_active));
        active.map(|(server, ..)| server).collect()
    });
    (peer.status().leader, observers.unwrap_or_default())
}

fn report(id: ServerId, member: &Member) -> MemberReport {
    let address = |address: &Address| (address.java_host().into_owned(), address.port);
    MemberReport {
        id: id.0,
        is_voter: member.role == Role::Participant,
        quorum: member.quorum.iter().map(address).collect(),
        election: member.election.iter().map(address).collect(),
        client: member.client.as_ref().map(address),
    }
}
