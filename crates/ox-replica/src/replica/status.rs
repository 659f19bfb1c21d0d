//! What a replica reports about itself, for status commands, log lines and tests.

use super::write_admission::WriteAdmission;
use super::{Replica, Role};
use crate::sessions::SessionInfo;
use ox_proto::{SessionId, Zxid};
use ox_zab::{PeerState, QuorumPeer};

/// A replica, for reading.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaStatus<'a>(pub(super) &'a Replica);

impl<'a> ReplicaStatus<'a> {
    /// None for a standalone server.
    pub fn peer(self) -> Option<&'a QuorumPeer> {
        self.0.has_peers.then_some(&*self.0.peer)
    }

    /// None for a standalone server.
    pub fn peer_state(self) -> Option<PeerState> {
        self.peer().map(|peer| peer.status().state)
    }

    /// Whether clients are served with reads and writes.
    pub fn is_serving(self) -> bool {
        self.0.is_serving()
    }

    /// The same, but false for a leader with `leaderServes=no`.
    pub fn takes_clients(self) -> bool {
        self.0.takes_clients()
    }

    /// Whether only reads are served, to clients that accept it.
    pub fn is_read_only(self) -> bool {
        self.0.is_read_only()
    }

    pub fn writes(self) -> WriteAdmission {
        self.0.log_space.writes()
    }

    /// Transactions that are proposed and not applied.
    pub fn outstanding(self) -> usize {
        self.0.proposals.len()
    }

    /// The last transaction that was proposed or logged here.
    pub fn last_proposed(self) -> Zxid {
        self.0.last_proposed_zxid
    }

    pub fn knows_session(self, session: SessionId) -> bool {
        self.0.sessions.is_known(session) || self.0.local.sessions.is_known(session)
    }

    pub fn session_count(self) -> usize {
        self.0.sessions.len()
    }

    /// Sessions after `after`, at most `max`, for the command `dump`.
    pub fn sessions_after(self, after: Option<SessionId>, max: usize) -> Vec<SessionInfo> {
        self.0.sessions.infos_after(after, max)
    }

    pub fn local_session_count(self) -> usize {
        self.0.local.sessions.len()
    }

    /// Local sessions after `after`, at most `max`, for the command `dump`.
    pub fn local_sessions_after(self, after: Option<SessionId>, max: usize) -> Vec<SessionInfo> {
        self.0.local.sessions.infos_after(after, max)
    }

    /// Transactions whose digest did not match the tree; 0 unless the state is corrupt.
    pub fn digest_mismatches(self) -> u64 {
        self.0.digest_mismatches
    }
}

impl Replica {
    pub(super) fn is_serving(&self) -> bool {
        matches!(self.role, Role::Leader | Role::Learner(_))
    }

    pub(super) fn takes_clients(&self) -> bool {
        self.is_serving() && (self.leader_serves || self.role != Role::Leader)
    }
}
