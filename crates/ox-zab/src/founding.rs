//! How an ensemble begins where nobody has anything.
//!
//! A voter that has nothing may have lost it. It waits until it knows of a quorum, itself among it, that has nothing
//! either: then there is nothing to lose, and each of them begins an empty history. Apache begins a connection with what
//! it said last, however old; the truth follows at once, so it is waited for.

use crate::quorum::Quorums;
use ox_proto::ServerId;
use std::collections::BTreeSet;

/// How long nobody may contradict before servers are believed to have nothing.
const DOUBT_MS: i64 = 400;

/// Who has nothing.
#[derive(Debug, Default)]
pub(crate) struct Founding {
    /// Voters that have nothing.
    empty: BTreeSet<ServerId>,
    /// When that is believed.
    at_ms: Option<i64>,
}

impl Founding {
    /// When a history is begun, if nobody contradicts.
    pub(crate) fn at_ms(&self) -> Option<i64> {
        self.at_ms
    }

    /// A voter has nothing.
    pub(crate) fn add(&mut self, server: ServerId) {
        self.empty.insert(server);
    }

    /// Believes it, in a while, if `me` and those who have nothing are enough.
    pub(crate) fn count(&mut self, now_ms: i64, me: ServerId, quorums: &Quorums) {
        let has_nothing = |server: ServerId| server == me || self.empty.contains(&server);
        if quorums.committed.is_voter(me) && quorums.are_reached(has_nothing) {
            self.at_ms.get_or_insert(now_ms + DOUBT_MS);
        }
    }

    /// Somebody knows better. Tells whether a history was about to be begun.
    pub(crate) fn give_up(&mut self) -> bool {
        self.at_ms.take().is_some()
    }

    /// Whether it is time; that is said once.
    pub(crate) fn is_due(&mut self, now_ms: i64) -> bool {
        self.at_ms.take_if(|at| *at <= now_ms).is_some()
    }
}
