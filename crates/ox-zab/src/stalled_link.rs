//! Detects a link to the leader that is stalled although the network works again.
//!
//! After a long outage TCP retransmits at intervals of many seconds, even when the network is back. So while the leader
//! is silent, the learner opens a new election connection to it. If the leader sends its vote on that connection, the
//! network and the leader work, and a link that is still silent does not. A leader that is merely paused sends no vote,
//! and keeps its learners.

use std::time::Duration;

/// What a learner does about the link to its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkAction {
    Keep,
    /// Open a new election connection to the leader.
    Probe,
    /// Close the link, and connect again.
    Reset,
}

/// The silence of a leader that should have sent a ping.
#[derive(Clone, Copy, Debug)]
pub struct LeaderSilence {
    /// Time since the last received bytes.
    pub silent: Duration,
    /// Whether all received bytes were processed. A learner that was paused, or has too much to do, knows nothing about
    /// its leader.
    pub is_read: bool,
    /// Time since the leader's first notification on an election connection that was opened during the silence.
    pub spoke: Option<Duration>,
}

impl LeaderSilence {
    /// Checks a link on which the leader may be silent for `patience`, and for `grace` after its notification.
    pub fn judge(&self, patience: Duration, grace: Duration) -> LinkAction {
        let Self { silent, is_read, spoke } = *self;
        match spoke {
            _ if !is_read || silent < patience => LinkAction::Keep,
            None => LinkAction::Probe,
            Some(spoke) if spoke < grace => LinkAction::Keep,
            Some(_) => LinkAction::Reset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_reset_when_leader_votes_elsewhere_and_all_was_read() {
        let judge = |silent_ms, is_read, spoke_ms: Option<u64>| {
            let (silent, spoke) = (Duration::from_millis(silent_ms), spoke_ms.map(Duration::from_millis));
            LeaderSilence { silent, is_read, spoke }.judge(Duration::from_millis(750), Duration::from_millis(150))
        };
        assert_eq!(judge(700, true, Some(600)), LinkAction::Keep);
        assert_eq!(judge(750, true, None), LinkAction::Probe);
        assert_eq!(judge(60_000, true, Some(100)), LinkAction::Keep);
        assert_eq!(judge(60_000, true, Some(150)), LinkAction::Reset);
        for spoke_ms in [None, Some(150)] {
            assert_eq!(judge(60_000, false, spoke_ms), LinkAction::Keep, "the learner has unread bytes");
        }
    }
}
