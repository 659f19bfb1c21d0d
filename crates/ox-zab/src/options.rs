//! What a configuration may say about a member besides its limits.

/// Options that most members leave alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerOptions {
    /// Followers serve observers, too.
    pub serves_observers: bool,
    /// Observers that get a state at a time.
    pub snaps_max: usize,
    /// Observers that get what they lack at a time.
    pub diffs_max: usize,
    /// Learners always get the state.
    pub always_snap: bool,
    /// A new leader that has waited so long for others gives up when it hears that one of them looks for a leader.
    pub epoch_wait_ms: Option<i64>,
    /// How long a learner tries to reach its leader.
    pub dial_ms: i64,
    /// The longest time between two attempts.
    pub dial_pause_ms: i64,
    /// The longest time that an observer which has lost its leader waits before it looks for another.
    pub observer_rest_ms: i64,
    /// Unsent bytes of a learner's link at which its transactions wait in the log.
    pub learner_window_bytes: usize,
    /// Unsent bytes of the link to the leader at which requests wait.
    pub request_window_bytes: usize,
    /// Voters that have nothing begin a history when a quorum of them has nothing.
    pub founds: bool,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            serves_observers: false,
            snaps_max: 10,
            diffs_max: 100,
            always_snap: false,
            epoch_wait_ms: None,
            dial_ms: 10_000,
            dial_pause_ms: 100,
            observer_rest_ms: 0,
            learner_window_bytes: 8 << 20,
            request_window_bytes: 2 << 20,
            founds: true,
        }
    }
}
