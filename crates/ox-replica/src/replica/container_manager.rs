//! Deletion of empty containers and expired TTL nodes (`ContainerManager`).

use super::proposals::Proposer;
use super::{Replica, ReplicaSettings};
use crate::clock::Now;
use ox_proto::SessionId;
use ox_tree::State;
use ox_tree::ops::{self, Prepared};
use std::collections::VecDeque;

/// Searches for candidates at a fixed interval, and returns them one by one at a limited rate.
#[derive(Debug)]
pub(super) struct ContainerManager {
    interval_ms: i64,
    pause_ms: i64,
    never_used_ms: i64,
    next_look_ms: i64,
    next_removal_ms: i64,
    candidates: VecDeque<String>,
}

impl ContainerManager {
    pub(super) fn new(settings: &ReplicaSettings, now_ms: i64) -> Self {
        let interval_ms = settings.sweep_interval_ms.max(1);
        Self {
            interval_ms,
            pause_ms: 60_000 / settings.sweep_per_minute.max(1),
            never_used_ms: settings.sweep_never_used_ms,
            next_look_ms: now_ms + interval_ms,
            next_removal_ms: now_ms,
            candidates: VecDeque::new(),
        }
    }

    /// How long a container that never had a child is kept; 0 means forever.
    pub(super) fn never_used_ms(&self) -> i64 {
        self.never_used_ms
    }

    pub(super) fn deadline(&self) -> Option<i64> {
        Some(if self.candidates.is_empty() { self.next_look_ms } else { self.next_removal_ms })
    }

    /// The next node to delete, if one is due. It is checked again when the deletion is prepared.
    pub(super) fn next(&mut self, now: Now, state: &State) -> Option<String> {
        if self.candidates.is_empty() && self.next_look_ms <= now.mono_ms {
            self.next_look_ms = now.mono_ms + self.interval_ms;
            self.candidates = state.expired_nodes(now.wall_ms, self.never_used_ms).into();
        }
        if now.mono_ms < self.next_removal_ms {
            return None;
        }
        let candidate = self.candidates.pop_front()?;
        self.next_removal_ms = now.mono_ms + self.pause_ms;
        Some(candidate)
    }
}
impl Replica {
    pub(super) fn propose_removal(&mut self, now: Now, path: &str, state: &State) {
        let never_used_ms = self.container_manager.never_used_ms();
        self.propose(
            now,
            SessionId::NONE,
            0,
            Proposer::Server,
            state,
            |view, out| match ops::prepare_delete_container(view, path, never_used_ms, out) {
                Prepared::Txn(kind) => Some((kind, Some(view.digest()))),
                Prepared::Refused(_) => None,
            },
        );
    }
}
