//! Admission of client requests, and the memory budget for requests and replies. A connection whose request is not
//! admitted is not read, so that back-pressure reaches the client.
//!
//! One budget covers requests being received, requests in flight (queued, or proposed and not applied), and unsent
//! replies and events. Each of these has a share that drains by itself, so that none waits for another: requests in
//! flight are applied or dropped; a request being received becomes complete or its connection is closed; replies are
//! read or their connection is closed.
//!
//! A share admits requests until it is used up. The last request may have any size. So a share is exceeded by one
//! request at most, a request larger than the whole budget is still served, and small requests do not starve large
//! ones.

use crate::submission::Load;

/// Requests and replies up to this size are served while larger ones wait.
pub const SMALL_BYTES: usize = 4 << 10;

/// Upper limit for the share of requests in flight, because learners hold as much again.
pub const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;

/// The additional part of the share of requests in flight that is reserved for small ones.
const SMALL_PART: usize = 8;

/// Limits of the bytes that a server holds for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    pub in_flight: usize,
    pub received: usize,
    /// Unsent replies and events.
    pub unsent: usize,
}

impl MemoryBudget {
    /// Splits a budget: half for replies, a quarter each for requests being received and in flight.
    pub fn new(bytes: usize) -> Self {
        let quarter = (bytes / 4).max(1);
        Self { in_flight: quarter.min(IN_FLIGHT_BYTES_MAX), received: quarter, unsent: 2 * quarter }
    }

    pub fn bytes(&self) -> usize {
        self.in_flight + self.received + self.unsent
    }

    /// How much of the share of replies and events is used.
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

/// Use of the share of replies and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Less than half: only the limits per connection apply.
    #[default]
    Low,
    /// Connections with unsent replies get no further ones; connections that hold much and make no progress are closed.
    High,
    /// Used up: only small replies are created.
    Full,
}

/// Which requests may enter the replica now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Admission {
    /// Only the limits per connection apply.
    #[default]
    Open,
    /// A request is admitted only if its connection has none in flight.
    OnePerConnection,
    /// In addition, it must be small ([`SMALL_BYTES`]).
    SmallOnly,
    /// No request is admitted. Reads that need no memory share are still served.
    Closed,
}

impl Admission {
    /// Which share a write of this size has to wait for; none if it is admitted.
    pub fn shortage(self, bytes: usize) -> Option<Shortage> {
        let is_small = bytes <= SMALL_BYTES;
        match self {
            Self::Open | Self::OnePerConnection => None,
            Self::SmallOnly => (!is_small).then_some(Shortage::LargeWrites),
            Self::Closed => Some(if is_small { Shortage::SmallWrites } else { Shortage::LargeWrites }),
        }
    }

    /// The same for a large write that has waited long: it is admitted like a small one. Otherwise small writes that
    /// keep the share used up would starve it.
    pub fn for_overdue(self) -> Self {
        if self == Self::SmallOnly { Self::OnePerConnection } else { self }
    }
}

/// The share that a connection waits for. Connections that wait for one share must not delay those that wait for
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The share of received bytes, for a large request.
    Frames,
    /// The share of requests in flight, for a write up to [`SMALL_BYTES`].
    SmallWrites,
    /// The share of requests in flight, for a larger write.
    LargeWrites,
    /// The share of replies, for a reply above [`SMALL_BYTES`].
    Replies,
}

/// The limits that decide which requests are admitted.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionLimits {
    pub budget: MemoryBudget,
    /// Requests in flight above which each connection may have only one.
    pub requests_max: usize,
    /// Requests in flight from which on none is admitted.
    pub throttle_max: Option<usize>,
}

impl AdmissionLimits {
    /// What may be admitted with this load in flight and this many unsent bytes.
    pub fn admission(&self, in_flight: Load, unsent: usize) -> Admission {
        let MemoryBudget { in_flight: share, .. } = self.budget;
        if self.throttle_max.is_some_and(|max| max <= in_flight.requests)
            || share + share / SMALL_PART < in_flight.bytes
        {
            Admission::Closed
        } else if share <= in_flight.bytes {
            Admission::SmallOnly
        } else if self.requests_max < in_flight.requests || self.budget.pressure(unsent) != Pressure::Low {
            Admission::OnePerConnection
        } else {
            Admission::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(bytes: usize) -> AdmissionLimits {
        AdmissionLimits { budget: MemoryBudget::new(bytes), requests_max: 1000, throttle_max: None }
    }

    fn load(requests: usize, bytes: usize) -> Load {
        Load { requests, bytes }
    }

    #[test]
    fn admission_near_limits_narrows_in_steps() {
        let limits = limits(8 << 20);
        let share = limits.budget.in_flight;
        assert_eq!(limits.admission(load(1000, share - 1), 0), Admission::Open);
        assert_eq!(limits.admission(load(1001, share - 1), 0), Admission::OnePerConnection);
        assert_eq!(limits.admission(load(0, 0), limits.budget.unsent / 2), Admission::OnePerConnection);
        assert_eq!(limits.admission(load(0, share), 0), Admission::SmallOnly);
        assert_eq!(limits.admission(load(0, share + share / SMALL_PART), 0), Admission::SmallOnly);
        assert_eq!(limits.admission(load(0, share + share / SMALL_PART + 1), 0), Admission::Closed);
        let throttled = AdmissionLimits { throttle_max: Some(2), ..limits };
        assert_eq!(
            (throttled.admission(load(1, 0), 0), throttled.admission(load(2, 0), 0)),
            (Admission::Open, Admission::Closed)
        );
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
        /// For any sizes in any order, requests in flight exceed their share by one request at most, and an idle server
        /// admits any request.
        #[test]
        fn in_flight_bytes_of_any_requests_stay_bounded(
            sizes in proptest::collection::vec((1_usize..4 << 20, any::<bool>(), any::<bool>()), 1..200),
            budget in 1_usize..64 << 20,
        ) {
            let limits = limits(budget);
            let (share, mut in_flight) = (limits.budget.in_flight, std::collections::VecDeque::new());
            let mut now = Load::default();
            for (bytes, completes, is_overdue) in sizes {
                if completes && let Some(done) = in_flight.pop_front() {
                    now -= load(1, done);
                }
                let admission = limits.admission(now, 0);
                let admission = if is_overdue { admission.for_overdue() } else { admission };
                let enters = admission.shortage(bytes).is_none();
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
