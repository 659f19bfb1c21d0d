//! Everything that can arrive for the replica loop: from the I/O threads, the log thread, the peers thread and
//! short-lived threads.
//!
//! Its producers bound it: connections are not read while too much is in flight (`client_io/global_limits.rs`), and
//! links are not read while the replica has too many of their packets (`links.rs`).

use crate::links::LinkEvent;
use crate::server_log::JobReport;
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, SessionId, Zxid};
use ox_replica::{ReplicaLimits, Submission};
use ox_store::{FreeSpace, LogDiff};
use ox_tree::State;
use ox_zab::{ElectionConnection, LinkId, VoteNotification};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// All input since the replica thread last took it.
#[derive(Default)]
pub struct ReplicaInbox {
    pub submissions: Vec<Submission>,
    /// The log is durable up to this zxid.
    pub durable: Option<Zxid>,
    /// A snapshot is due when this zxid is applied.
    pub snapshot_due: Option<Zxid>,
    pub space: Option<FreeSpace>,
    pub limits: Option<ReplicaLimits>,
    /// Sessions that an operator closes.
    pub close_sessions: Vec<SessionId>,
    /// A state that an operator restores on a standalone server.
    pub restore: Option<Box<State>>,
    /// Finished disk jobs of the log thread.
    pub reports: Vec<JobReport>,
    /// Version of the newest configuration whose files are written.
    pub config_stored: Option<i64>,
    /// Events of the connections to other servers.
    pub peers: Vec<PeerEvent>,
    /// The newest notification of each server.
    pub votes: BTreeMap<ServerId, LatestVote>,
}

/// An event of the peers thread.
pub enum PeerEvent {
    /// An election connection has opened or closed.
    Election(ServerId, ElectionConnection),
    /// The link to the leader is open, or the dial failed.
    Dialed(ServerId, Option<LinkId>),
    /// A learner has connected, from this address.
    LearnerConnected(LinkId, Option<SocketAddr>),
    /// The quorum port cannot be bound.
    CannotListen,
    Link(LinkEvent),
    /// The on-disk log was searched up to this zxid, with the diff if it can be sent.
    LogDiffRead(LinkId, Zxid, Option<Box<LogDiff>>),
    /// A snapshot was received and loaded.
    SnapshotLoaded(LinkId, Box<State>),
}

/// The newest notification of a server.
#[derive(Debug)]
pub struct LatestVote {
    pub note: VoteNotification,
    /// The sender's configuration, if it is newer than this server's.
    pub config: Option<Arc<Ensemble>>,
    /// The version of the sender's configuration, for the log.
    pub config_version: i64,
}

impl ReplicaInbox {
    pub fn is_empty(&self) -> bool {
        self.submissions.is_empty()
            && self.durable.is_none()
            && self.snapshot_due.is_none()
            && self.space.is_none()
            && self.limits.is_none()
            && self.close_sessions.is_empty()
            && self.restore.is_none()
            && self.reports.is_empty()
            && self.config_stored.is_none()
            && self.peers.is_empty()
            && self.votes.is_empty()
    }

    /// Adds a notification, which replaces an older one. A configuration is kept if the newer notification has none.
    pub fn add_vote(&mut self, from: ServerId, latest: LatestVote) {
        let before = self.votes.remove(&from).and_then(|vote| vote.config);
        self.votes.insert(from, LatestVote { config: latest.config.or(before), ..latest });
    }
}
