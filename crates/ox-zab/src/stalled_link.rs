//! Whether the link to a leader is stalled by a network fault that is over.
//!
//! After a long loss the system repeats what was sent at intervals of seconds, also when the network is back. So while the leader
//! is silent a new election connection to it is asked for: once the leader sends its vote on that, the network and the leader
//! work, and a link that is still silent does not. A leader that is merely paused sends no vote, and keeps its learners.

use std::time::Duration;

/// What a learner does about the link to its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkVerdict {
    /// Nothing.
    Keep,
    /// Ask for a new election connection to the leader.
    Probe,
    /// Close the link, and connect again.
    Reset,
}

/// The silence of a leader that should have sent a ping.
#[derive(Clone, Copy, Debug)]
pub struct LeaderSilence {
    /// How long ago bytes last came.
    pub silent: Duration,
    /// Whether all bytes that came were read. A learner that does not read, because it has too much to do or was paused, knows
    /// nothing about its leader.
    pub is_read: bool,
    /// How long ago the leader was first heard on an election connection that was opened during the silence.
    pub spoke: Option<Duration>,
}

impl LeaderSilence {
    /// Judges a link on which a leader may be silent for `patience`, and for `grace` after it was heard elsewhere.
    pub fn judge(&self, patience: Duration, grace: Duration) -> LinkVerdict {
        let Self { silent, is_read, spoke } = *self;
        match spoke {
            _ if !is_read || silent < patience => LinkVerdict::Keep,
            None => LinkVerdict::Probe,
            Some(spoke) if spoke < grace => LinkVerdict::Keep,
            Some(_) => LinkVerdict::Reset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_reset_when_its_leader_is_heard_elsewhere_and_all_was_read() {
        let judge = |silent_ms, is_read, spoke_ms: Option<u64>| {
            let (silent, spoke) = (Duration::from_millis(silent_ms), spoke_ms.map(Duration::from_millis));
            LeaderSilence { silent, is_read, spoke }.judge(Duration::from_millis(750), Duration::from_millis(150))
        };
        assert_eq!(judge(700, true, Some(600)), LinkVerdict::Keep);
        assert_eq!(judge(750, true, None), LinkVerdict::Probe);
        assert_eq!(judge(60_000, true, Some(100)), LinkVerdict::Keep);
        assert_eq!(judge(60_000, true, Some(150)), LinkVerdict::Reset);
        for spoke_ms in [None, Some(150)] {
            assert_eq!(judge(60_000, false, spoke_ms), LinkVerdict::Keep, "the learner itself does not read");
        }
    }
}
