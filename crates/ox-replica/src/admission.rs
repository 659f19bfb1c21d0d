//! What a server may hold for its clients, and what it admits while it holds much.
//!
//! One budget covers the bytes of client requests and replies: requests being received, requests in flight (queued,
//! proposed and not applied), and replies and events that are not sent. Each has a share that drains by itself, so
//! none waits for another: requests in flight are applied or dropped, a request being received becomes complete or its
//! connection is closed, replies are read or their connection is closed.
//!
//! A share admits as long as it is not used up. The request that uses it up may have any size: so a share is exceeded by
//! one request at most, a request larger than the whole budget still gets through, and large requests do not starve
//! behind small ones.

use crate::submission::Load;

/// Requests and replies up to this size are served while larger ones wait.
pub const SMALL_BYTES: usize = 4 << 10;

/// The share of requests in flight is not larger than this, however large the budget: learners hold as much again.
pub const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;

/// The part of the share of requests in flight that is kept for small ones.
const SMALL_PART: usize = 8;

/// Bytes that a server holds for its clients at most, by where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Of requests in flight.
    pub in_flight: usize,
    /// Of requests that are being received.
    pub received: usize,
    /// Of replies and events.
    pub unsent: usize,
}

impl MemoryBudget {
    /// Shares out so many bytes: a half to replies, a quarter each to requests received and in flight.
    pub fn new(bytes: usize) -> Self {
        let quarter = (bytes / 4).max(1);
        Self { in_flight: quarter.min(IN_FLIGHT_BYTES_MAX), received: quarter, unsent: 2 * quarter }
    }

    /// All shares together.
    pub fn bytes(&self) -> usize {
        self.in_flight + self.received + self.unsent
    }

    /// How near replies and events are to the end of their share.
    pub fn pressure(&self, unsent: usize) -> Pressure {
        if self.unsent <= unsent {
            Pressure::Full
        } else if self.unsent / 2 <= unsent {
            Pressure::High
        } else {
            Pressure::Low
        }
    }
}

/// How much of the share of replies and events is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Less than half: each connection is bounded by itself only.
    #[default]
    Low,
    /// Connections with unsent replies get no further ones; those that hold much and do not move are closed.
    High,
    /// All: only small replies are made.
    Full,
}

/// What the server can take on besides what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// Each connection is bounded by itself only.
    #[default]
    Plenty,
    /// The server holds enough: a request enters only where the connection has none in flight.
    OneEach,
    /// The same, and it must be small ([`SMALL_BYTES`]).
    Small,
    /// No request enters. What can be answered immediately still is.
    None,
}

impl Room {
    /// What a write of so many bytes waits for, if it may not enter.
    pub fn shortage(self, bytes: usize) -> Option<Shortage> {
        let is_small = bytes <= SMALL_BYTES;
        match self {
            Self::Plenty | Self::OneEach => None,
            Self::Small => (!is_small).then_some(Shortage::LargeWrites),
            Self::None => Some(if is_small { Shortage::SmallWrites } else { Shortage::LargeWrites }),
        }
    }

    /// The same for a large write that has waited long enough: it enters where a small one may. Otherwise small ones that keep
    /// the share used up would keep it out.
    pub fn for_overdue(self) -> Self {
        if self == Self::Small { Self::OneEach } else { self }
    }
}

/// What a connection waits for that the server has no memory for. Connections that wait for one of them must not delay those
/// that wait for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// A large request that is being received needs its share of received bytes.
    Frames,
    /// A write up to [`SMALL_BYTES`] needs the share of requests in flight.
    SmallWrites,
    /// The same of a larger write.
    LargeWrites,
    /// A reply above [`SMALL_BYTES`] needs the share of replies.
    Replies,
}

/// Decides which requests enter.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// The bytes.
    pub budget: MemoryBudget,
    /// Requests in flight beyond which each connection may have only one.
    pub requests_max: usize,
    /// Requests in flight beyond which none enters.
    pub throttle_max: Option<usize>,
}

impl Admission {
    /// What may still enter while this is in flight, and so many bytes of replies are unsent.
    pub fn room(&self, in_flight: Load, unsent: usize) -> Room {
        let MemoryBudget { in_flight: share, .. } = self.budget;
        if self.throttle_max.is_some_and(|max| max <= in_flight.requests)
            || share + share / SMALL_PART < in_flight.bytes
        {
            Room::None
        } else if share <= in_flight.bytes {
            Room::Small
        } else if self.requests_max < in_flight.requests || self.budget.pressure(unsent) != Pressure::Low {
            Room::OneEach
        } else {
            Room::Plenty
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn admission(bytes: usize) -> Admission {
        Admission { budget: MemoryBudget::new(bytes), requests_max: 1000, throttle_max: None }
    }

    fn load(requests: usize, bytes: usize) -> Load {
        Load { requests, bytes }
    }

    #[test]
    fn room_near_limits_shrinks_in_steps() {
        let admission = admission(8 << 20);
        let share = admission.budget.in_flight;
        assert_eq!(admission.room(load(1000, share - 1), 0), Room::Plenty);
        assert_eq!(admission.room(load(1001, share - 1), 0), Room::OneEach);
        assert_eq!(admission.room(load(0, 0), admission.budget.unsent / 2), Room::OneEach);
        assert_eq!(admission.room(load(0, share), 0), Room::Small);
        assert_eq!(admission.room(load(0, share + share / SMALL_PART), 0), Room::Small);
        assert_eq!(admission.room(load(0, share + share / SMALL_PART + 1), 0), Room::None);
        let throttled = Admission { throttle_max: Some(2), ..admission };
        assert_eq!((throttled.room(load(1, 0), 0), throttled.room(load(2, 0), 0)), (Room::Plenty, Room::None));
    }

    #[test]
    fn shares_stay_within_the_budget_and_are_never_empty() {
        for bytes in [0, 1, 7, 64 << 10, 8 << 20, 1 << 30, 1 << 40] {
            let budget = MemoryBudget::new(bytes);
            assert!(budget.bytes() <= bytes.max(4), "{bytes}");
            assert!(0 < budget.in_flight && 0 < budget.received && 0 < budget.unsent);
            assert!(budget.in_flight <= IN_FLIGHT_BYTES_MAX);
            assert_eq!(budget.pressure(0), Pressure::Low, "{bytes}");
        }
    }

    proptest! {
        /// Whatever sizes come in whatever order, requests in flight exceed the share by one request at most, and an
        /// idle server admits any of them.
        #[test]
        fn in_flight_bytes_of_any_requests_stay_bounded(
            sizes in proptest::collection::vec((1_usize..4 << 20, any::<bool>(), any::<bool>()), 1..200),
            budget in 1_usize..64 << 20,
        ) {
            let admission = admission(budget);
            let (share, mut in_flight) = (admission.budget.in_flight, std::collections::VecDeque::new());
            let mut now = Load::default();
            for (bytes, completes, is_overdue) in sizes {
                if completes && let Some(done) = in_flight.pop_front() {
                    now -= load(1, done);
                }
                let room = admission.room(now, 0);
                let room = if is_overdue { room.for_overdue() } else { room };
                let enters = room.shortage(bytes).is_none();
                prop_assert!(enters || !in_flight.is_empty(), "an idle server admits {bytes} bytes");
                if enters {
                    in_flight.push_back(bytes);
                    now += load(1, bytes);
                }
                let largest = in_flight.iter().copied().max().unwrap_or(0);
                prop_assert!(now.bytes < share + share / SMALL_PART + SMALL_BYTES + largest);
            }
        }
    }
}
