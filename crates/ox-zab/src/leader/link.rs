//! A leader's end of the link to one learner.

use crate::message::LearnerKind;
use ox_proto::ServerId;
use ox_proto::Zxid;
use std::collections::VecDeque;

/// How far a learner has come. Only forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Has not introduced itself.
    Unknown,
    /// Waits for the epoch.
    Introduced,
    /// Was told the epoch.
    Asked,
    /// Has promised the epoch; waits for the history.
    Promised,
    /// Its history is looked for in the stored log.
    LookingUp,
    /// Gets the history.
    Syncing,
    /// Has the history; waits for the others.
    Synced,
    /// Takes part.
    Active,
}

/// Something that must not take too long: which transaction, and since when it is waited for.
pub(super) type Awaited = Option<(Zxid, i64)>;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) server: ServerId,
    pub(super) kind: LearnerKind,
    pub(super) stage: Stage,
    /// The end of its history when it came.
    pub(super) last: Zxid,
    /// Whether it gets the state, while it gets the history.
    pub(super) gets_state: bool,
    /// What it has once it acknowledges the history.
    pub(super) synced_to: Zxid,
    /// What it acknowledged before the history was.
    pub(super) early_ack: Zxid,
    pub(super) heard_ms: i64,
    pub(super) awaited: Awaited,
    /// Rounds of pings that it has not answered.
    pub(super) pings: VecDeque<u64>,
    /// The last one that it has.
    pub(super) answered: u64,
}

impl Link {
    pub(super) fn new(now_ms: i64) -> Self {
        Self {
            server: ServerId(i64::MIN),
            kind: LearnerKind::Observer,
            stage: Stage::Unknown,
            last: Zxid::ZERO,
            gets_state: false,
            synced_to: Zxid::ZERO,
            early_ack: Zxid::ZERO,
            heard_ms: now_ms,
            awaited: None,
            pings: VecDeque::new(),
            answered: 0,
        }
    }

    /// Whether it hears of everything new.
    pub(super) fn is_told(&self) -> bool {
        Stage::Syncing <= self.stage
    }

    pub(super) fn is_follower(&self) -> bool {
        self.kind == LearnerKind::Follower
    }
}
