//! The server's mode: standalone, or a member in one of its roles.

use crate::shared::Shared;
use ox_proto::ServerId;
use ox_replica::Replica;
use ox_zab::{Abstention, LearnerKind, MissingVotes, PeerState, QuorumPeer};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// The replica never waits for the disk, so it replies soon or not at all.
pub(crate) const REPLICA_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the replica thread; `None` if it does not reply.
pub(crate) fn ask_replica<T: Send + 'static>(
    shared: &Shared,
    ask: impl FnOnce(&Replica) -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = sync_channel(1);
    shared.inbox.query(move |replica, _| {
        let _ = sender.send(ask(replica)); // fails when the caller has stopped waiting
    });
    receiver.recv_timeout(REPLICA_TIMEOUT).ok()
}

/// Why a member that looks for a leader may not find one, as far as it knows. `None` if it does not look for one.
pub(crate) fn election_obstacles(shared: &Shared) -> Option<String> {
    shared.config.member.as_ref()?;
    ask_replica(shared, |replica| replica.status().peer().and_then(obstacles)).flatten()
}

fn obstacles(peer: &QuorumPeer) -> Option<String> {
    if peer.status().state != PeerState::Looking {
        return None;
    }
    let abstains = |data: Abstention| match data {
        Abstention::Empty => "abstains, because its data directory is empty",
        Abstention::Quarantined => "abstains, because its data is quarantined",
    };
    let MissingVotes { own, abstaining, unreachable } = peer.missing_votes();
    let own = own.map(|data| format!("this server {}", abstains(data)));
    let others = abstaining.into_iter().map(|(server, data)| format!("server {server} {}", abstains(data)));
    let cause = (!unreachable.is_empty())
        .then(|| "the cause, if it is known, is in the log of this server after `Cannot open channel`".to_owned());
    let unreachable = unreachable.into_iter().map(|server| format!("server {server} cannot be reached"));
    let found: Vec<String> = own.into_iter().chain(others).chain(unreachable).chain(cause).collect();
    Some(found.join("; ")).filter(|text| !text.is_empty())
}

/// The mode of a server that serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMode {
    Standalone,
    /// Without a leader, for clients that accept read-only mode.
    ReadOnly,
    Leader(LearnerCounts),
    /// With the number of its observers, if it is an observer master.
    Follower(Option<i64>),
    /// With the server that it is linked to.
    Observer(ServerId),
}

/// Learners of a leader, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LearnerCounts {
    pub(crate) learners: i64,
    pub(crate) synced_followers: i64,
    /// Followers whose votes do not count.
    pub(crate) synced_non_voting: i64,
    pub(crate) synced_observers: i64,
    pub(crate) pending_syncs: i64,
}

impl ServerMode {
    /// Asks the replica thread; `None` if it serves no clients.
    pub(crate) fn query(shared: &Shared) -> Option<Self> {
        if shared.config.member.is_none() {
            return (!shared.restore.is_running()).then_some(Self::Standalone);
        }
        let mode = ask_replica(shared, Self::of).flatten()?;
        // The replica does not know which observer master was reached.
        let observed = ServerId(shared.stats.observed.load(Relaxed));
        Some(if let Self::Observer(_) = mode { Self::Observer(observed) } else { mode })
    }

    fn of(replica: &Replica) -> Option<Self> {
        let status = replica.status();
        if status.is_read_only() {
            return Some(Self::ReadOnly);
        }
        if !status.takes_clients() {
            return None;
        }
        let Some(peer) = status.peer() else { return Some(Self::Standalone) };
        match peer.status().state {
            PeerState::Looking => None,
            PeerState::Leading => Some(Self::Leader(LearnerCounts::of(peer))),
            PeerState::Following => {
                let observers =
                    peer.role().observer_master().map(|master| i64::try_from(master.active()).unwrap_or(i64::MAX));
                Some(Self::Follower(observers))
            }
            PeerState::Observing => peer.status().leader.map(Self::Observer),
        }
    }

    /// The name that `srvr` shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::ReadOnly => "read-only",
            Self::Leader(_) => "leader",
            Self::Follower(_) => "follower",
            Self::Observer(_) => "observer",
        }
    }
}

impl LearnerCounts {
    fn of(peer: &QuorumPeer) -> Self {
        let mut counts = Self::default();
        let Some(leader) = peer.role().leader() else { return counts };
        counts.pending_syncs = i64::try_from(leader.pending_syncs()).unwrap_or(i64::MAX);
        for (server, kind, is_active) in leader.learners() {
            counts.learners += 1;
            let count = match kind {
                LearnerKind::Observer => &mut counts.synced_observers,
                LearnerKind::Follower if leader.is_voter(server) => &mut counts.synced_followers,
                LearnerKind::Follower => &mut counts.synced_non_voting,
            };
            *count += i64::from(is_active);
        }
        counts
    }
}
