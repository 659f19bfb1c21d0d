//! What a server is at this moment, for those who ask: alone, or a member in one of its roles.

use crate::shared::Shared;
use ox_proto::ServerId;
use ox_replica::Replica;
use ox_zab::{LearnerKind, PeerState, QuorumPeer};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// The replica never waits for the disk, so it answers soon or not at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server that serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Alone,
    /// Without a leader, for clients that only read.
    ReadOnly,
    Leader(Following),
    /// With so many observers, if it serves any.
    Follower(Option<i64>),
    /// Of which server.
    Observer(ServerId),
}

/// Those who follow a leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Following {
    pub(crate) learners: i64,
    pub(crate) synced_followers: i64,
    /// They follow, and their votes do not count.
    pub(crate) synced_non_voting: i64,
    pub(crate) synced_observers: i64,
    pub(crate) pending_syncs: i64,
}

impl Standing {
    /// Asks the replica; none if it serves nobody.
    pub(crate) fn ask(shared: &Shared) -> Option<Self> {
        if shared.config.member.is_none() {
            return Some(Self::Alone);
        }
        let (sender, receiver) = sync_channel(1);
        shared.inbox.put(|input| {
            input.questions.push(Box::new(move |replica, _| {
                let _ = sender.send(Self::of(replica)); // nobody waits any more when this fails
            }));
        });
        let standing = receiver.recv_timeout(PATIENCE).ok().flatten()?;
        // Whom it observes, the replica does not know: that depends on who was reached.
        let observed = ServerId(shared.stats.observed.load(Relaxed));
        Some(if let Self::Observer(_) = standing { Self::Observer(observed) } else { standing })
    }

    fn of(replica: &Replica) -> Option<Self> {
        if replica.is_read_only() {
            return Some(Self::ReadOnly);
        }
        if !replica.takes_clients() {
            return None;
        }
        let Some(peer) = replica.as_peer() else { return Some(Self::Alone) };
        match peer.state() {
            PeerState::Looking => None,
            PeerState::Leading => Some(Self::Leader(Following::of(peer))),
            PeerState::Following => {
                let observers = peer.observer_master().map(|master| i64::try_from(master.active()).unwrap_or(i64::MAX));
                Some(Self::Follower(observers))
            }
            PeerState::Observing => peer.leader_id().map(Self::Observer),
        }
    }

    /// As `srvr` calls it.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::Alone => "standalone",
            Self::ReadOnly => "read-only",
            Self::Leader(_) => "leader",
            Self::Follower(_) => "follower",
            Self::Observer(_) => "observer",
        }
    }
}

impl Following {
    fn of(peer: &QuorumPeer) -> Self {
        let mut following = Self::default();
        let Some(leader) = peer.leader() else { return following };
        following.pending_syncs = i64::try_from(leader.pending_syncs()).unwrap_or(i64::MAX);
        for (server, kind, is_active) in leader.learners() {
            following.learners += 1;
            let count = match kind {
                LearnerKind::Observer => &mut following.synced_observers,
                LearnerKind::Follower if leader.is_voter(server) => &mut following.synced_followers,
                LearnerKind::Follower => &mut following.synced_non_voting,
            };
            *count += i64::from(is_active);
        }
        following
    }
}
