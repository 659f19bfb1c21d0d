//! Answers that need a proof of leadership: a quorum has answered pings that were sent after the question came.

use ox_proto::Zxid;
use std::collections::VecDeque;

#[derive(Debug)]
struct Sync {
    id: u64,
    /// Must be committed first.
    after: Zxid,
    /// The round of pings that proves it.
    round: u64,
}

/// Rounds of pings, and who waits for them.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    round: u64,
    waiting: VecDeque<Sync>,
}

impl Syncs {
    /// The last round of pings.
    pub(super) fn next_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(&mut self, id: u64, after: Zxid) {
        self.waiting.push_back(Sync { id, after, round: self.round + 1 });
    }

    /// Whether somebody waits for pings that have not been sent.
    pub(super) fn want_round(&self) -> bool {
        self.waiting.back().is_some_and(|sync| self.round < sync.round)
    }

    /// The next one that can be answered, in the order of arrival.
    pub(super) fn pop(&mut self, committed: Zxid, is_proven: impl Fn(u64) -> bool) -> Option<u64> {
        let sync = self.waiting.pop_front_if(|sync| sync.after <= committed && is_proven(sync.round))?;
        Some(sync.id)
    }
}
