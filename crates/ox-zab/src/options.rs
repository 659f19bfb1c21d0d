//! Optional settings of a member.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerOptions {
    /// Whether a follower acts as observer master.
    pub serves_observers: bool,
    /// Observers that may receive a snapshot at the same time.
    pub max_snap_syncs: usize,
    /// Observers that may receive a DIFF at the same time.
    pub max_diff_syncs: usize,
    /// Learners are always sent a snapshot.
    pub force_snapshot_sync: bool,
    /// After this time in discovery, a leader steps down when one of its supporters is LOOKING again. None: it waits
    /// for `initLimit`.
    pub epoch_wait_ms: Option<i64>,
    /// How long a learner tries to connect to its leader.
    pub dial_ms: i64,
    /// The longest pause between two attempts to connect.
    pub dial_pause_ms: i64,
    /// The longest time an observer that lost its leader waits before it starts an election.
    pub observer_delay_ms: i64,
    /// Unsent bytes on a learner's link above which its transactions wait in the recent log.
    pub learner_window_bytes: usize,
    /// Unsent bytes on the link to the leader above which forwarded requests wait.
    pub request_window_bytes: usize,
    /// Whether a quorum of empty voters bootstraps the ensemble by itself.
    pub may_bootstrap: bool,
}

impl Default for PeerOptions {
    fn default() -> Self {
        Self {
            serves_observers: false,
            max_snap_syncs: 10,
            max_diff_syncs: 100,
            force_snapshot_sync: false,
            epoch_wait_ms: None,
            dial_ms: 10_000,
            dial_pause_ms: 100,
            observer_delay_ms: 0,
            learner_window_bytes: 8 << 20,
            request_window_bytes: 2 << 20,
            may_bootstrap: true,
        }
    }
}
