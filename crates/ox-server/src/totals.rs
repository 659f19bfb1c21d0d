//! What the server holds for all its clients together, and how much of that is enough.
//!
//! Connections are bounded one by one; these figures bound the sum of them, by the shares of one budget
//! (`ox-replica/src/admission.rs`). I/O threads count what changes much immediately and the rest once per iteration,
//! so a share may be exceeded by what the threads take in during one iteration, but not by more.

use crate::limits::{
    EXACT_BYTES, GLOBAL_OUTSTANDING_DEFAULT, MEMORY_BUDGET_LEAST, MEMORY_BUDGET_MOST, MEMORY_BUDGET_PART,
    REQUESTS_IN_FLIGHT_MAX,
};
use crate::system;
use ox_config::Config;
use ox_replica::{Admission, AdmissionLimits, Load, MemoryBudget, Pressure};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

#[derive(Debug, Default)]
struct Gauge {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

impl Gauge {
    fn load(&self) -> Load {
        Load { requests: self.requests.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// Sums over all connections.
#[derive(Debug)]
pub(crate) struct Totals {
    admission: AdmissionLimits,
    large_threshold: Option<usize>,
    large_bytes_max: usize,
    /// Submitted, and not taken in by the replica.
    queued: Gauge,
    /// Taken in by the replica, and not applied.
    held: Gauge,
    /// Requests being received: their bytes, or the whole announced length where that is reserved. Threads count
    /// growth late, so this and the next may be negative for a moment.
    received: AtomicIsize,
    /// Replies and events in the buffers of connections.
    unsent: AtomicIsize,
    /// Replies and events between the replica and the I/O threads.
    mailed: AtomicUsize,
    /// Connections that wait to receive a large request.
    waiting_frames: AtomicUsize,
    /// Bytes of large requests on their way.
    large: AtomicUsize,
}

impl Totals {
    pub(crate) fn new(config: &Config) -> Self {
        let limits = &config.limits;
        let requests_max = match limits.global_outstanding {
            GLOBAL_OUTSTANDING_DEFAULT => REQUESTS_IN_FLIGHT_MAX,
            asked => asked as usize,
        };
        let throttle_max = config.request_throttle.max_requests as usize;
        let budget_bytes = limits.memory_budget_bytes.unwrap_or_else(default_budget);
        let budget = MemoryBudget::new(usize::try_from(budget_bytes).unwrap_or(usize::MAX));
        Self {
            admission: AdmissionLimits {
                budget,
                requests_max,
                throttle_max: (throttle_max != 0).then_some(throttle_max),
            },
            large_threshold: limits.large_request_threshold_bytes.map(|bytes| bytes as usize),
            large_bytes_max: limits.large_request_max_bytes as usize,
            queued: Gauge::default(),
            held: Gauge::default(),
            received: AtomicIsize::new(0),
            unsent: AtomicIsize::new(0),
            mailed: AtomicUsize::new(0),
            waiting_frames: AtomicUsize::new(0),
            large: AtomicUsize::new(0),
        }
    }

    /// The shares.
    pub(crate) fn budget(&self) -> MemoryBudget {
        self.admission.budget
    }

    /// Bytes held now, of all shares.
    pub(crate) fn used(&self) -> usize {
        self.queued.load().bytes + self.held.load().bytes + self.received() + self.unsent()
    }

    fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed).max(0).unsigned_abs()
    }

    fn unsent(&self) -> usize {
        self.mailed.load(Ordering::Relaxed) + self.unsent.load(Ordering::Relaxed).max(0).unsigned_abs()
    }

    /// What may still come in, given `more` that is not counted yet.
    pub(crate) fn room(&self, more: Load) -> Admission {
        let mut in_flight = self.queued.load();
        in_flight += self.held.load();
        in_flight += more;
        self.admission.admission(in_flight, self.unsent())
    }

    /// The same where every single request counts; `judged` is what the turn began with.
    pub(crate) fn exact_room(&self, judged: Admission, more: Load) -> Admission {
        if self.admission.throttle_max.is_some() || EXACT_BYTES < more.bytes { self.room(more) } else { judged }
    }

    /// Requests are being handed to the replica.
    pub(crate) fn queue(&self, load: Load) {
        self.queued.requests.fetch_add(load.requests, Ordering::Relaxed);
        self.queued.bytes.fetch_add(load.bytes, Ordering::Relaxed);
    }

    /// The replica has taken `taken` in, and holds `held` now.
    pub(crate) fn took(&self, taken: Load, held: Load) {
        self.hold(held);
        self.queued.requests.fetch_sub(taken.requests, Ordering::Relaxed);
        self.queued.bytes.fetch_sub(taken.bytes, Ordering::Relaxed);
    }

    /// The replica holds `held` now.
    pub(crate) fn hold(&self, held: Load) {
        self.held.requests.store(held.requests, Ordering::Relaxed);
        self.held.bytes.store(held.bytes, Ordering::Relaxed);
    }

    /// Buffers of connections have grown or shrunk.
    pub(crate) fn buffer(&self, more: Growth) {
        if more.received != 0 {
            self.received.fetch_add(more.received, Ordering::Relaxed);
        }
        if more.unsent != 0 {
            self.unsent.fetch_add(more.unsent, Ordering::Relaxed);
        }
    }

    /// Takes memory for a request that is being received; false when the share is used up.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let share = self.admission.budget.received.cast_signed();
        let fits = self.received.fetch_add(bytes.cast_signed(), Ordering::Relaxed) < share;
        if !fits {
            self.received.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
        }
        fits
    }

    /// Whether requests being received use up their share.
    pub(crate) fn is_receiving_full(&self) -> bool {
        self.admission.budget.received <= self.received()
    }

    /// A connection begins or ends to wait for [`Self::reserve`].
    pub(crate) fn wait_for_frame(&self, waits: bool) {
        if waits {
            self.waiting_frames.fetch_add(1, Ordering::Relaxed);
        } else {
            self.waiting_frames.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether connections wait to receive large requests.
    pub(crate) fn do_frames_wait(&self) -> bool {
        self.waiting_frames.load(Ordering::Relaxed) != 0
    }

    /// Replies and events are handed to an I/O thread.
    pub(crate) fn mail(&self, bytes: usize) {
        self.mailed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The I/O thread has delivered them.
    pub(crate) fn delivered(&self, bytes: usize) {
        self.mailed.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How much of the share of replies and events is used, given `more` that is not counted yet.
    pub(crate) fn pressure(&self, more: usize) -> Pressure {
        self.admission.budget.pressure(self.unsent() + more)
    }

    /// Bytes of replies that may be made before they are counted.
    pub(crate) fn replies_max(&self) -> usize {
        let share = self.admission.budget.unsent;
        share.saturating_sub(self.unsent()).min(ox_replica::limits::REPLIES_BYTES_MAX)
    }

    /// Whether a request of so many bytes is large.
    pub(crate) fn is_large(&self, bytes: usize) -> bool {
        self.large_threshold.is_some_and(|threshold| threshold < bytes)
    }

    /// Whether there would be room for a large request.
    pub(crate) fn has_large_room(&self, bytes: usize) -> bool {
        self.large.load(Ordering::Relaxed).saturating_add(bytes) <= self.large_bytes_max
    }

    /// Takes room for a large request; false when there is none.
    pub(crate) fn take_large_room(&self, bytes: usize) -> bool {
        let taken = self.large.fetch_add(bytes, Ordering::Relaxed);
        let fits = taken.saturating_add(bytes) <= self.large_bytes_max;
        if !fits {
            self.free_large_room(bytes);
        }
        fits
    }

    /// Large requests are done.
    pub(crate) fn free_large_room(&self, bytes: usize) {
        self.large.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How much the buffers of connections have grown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) received: isize,
    pub(crate) unsent: isize,
}

impl std::ops::AddAssign for Growth {
    fn add_assign(&mut self, more: Self) {
        self.received += more.received;
        self.unsent += more.unsent;
    }
}

fn default_budget() -> u64 {
    budget_of(system::memory().map(|memory| memory.limit))
}

fn budget_of(memory_bytes: Option<u64>) -> u64 {
    memory_bytes.map_or(0, |bytes| bytes / MEMORY_BUDGET_PART).clamp(MEMORY_BUDGET_LEAST, MEMORY_BUDGET_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(change: impl FnOnce(&mut Config)) -> Totals {
        let mut config = Config::default_standalone();
        change(&mut config);
        Totals::new(&config)
    }

    fn load(requests: usize, bytes: usize) -> Load {
        Load { requests, bytes }
    }

    #[test]
    fn k146_requests_in_flight_are_bounded() {
        let totals = totals(|config| config.limits.memory_budget_bytes = Some(64 << 20));
        let share = totals.budget().in_flight;
        totals.queue(load(REQUESTS_IN_FLIGHT_MAX, 0));
        assert_eq!(totals.room(Load::default()), Admission::Open);
        totals.queue(load(1, 0));
        assert_eq!(totals.room(Load::default()), Admission::OnePerConnection);
        totals.took(load(REQUESTS_IN_FLIGHT_MAX + 1, 0), load(1, share - 1));
        assert_eq!(totals.room(Load::default()), Admission::Open);
        assert_eq!(totals.room(load(1, 1)), Admission::SmallOnly, "what a thread has gathered counts too");
        assert_eq!(totals.used(), share - 1);
        totals.hold(load(0, 0));
        assert_eq!((totals.room(Load::default()), totals.used()), (Admission::Open, 0));
    }

    #[test]
    fn frames_beyond_their_share_wait_but_for_the_first() {
        let totals = totals(|config| config.limits.memory_budget_bytes = Some(8 << 20));
        let share = totals.budget().received;
        assert!(totals.reserve(10 * share), "a request larger than the share, alone");
        assert!(totals.is_receiving_full() && !totals.reserve(1));
        assert_eq!(totals.used(), 10 * share);
        totals.buffer(Growth { received: -(10 * share).cast_signed(), unsent: 0 });
        assert!(!totals.is_receiving_full() && totals.reserve(share - 1) && totals.reserve(1) && !totals.reserve(1));
    }

    #[test]
    fn replies_count_from_the_replica_to_the_socket() {
        let totals = totals(|config| config.limits.memory_budget_bytes = Some(8 << 20));
        let share = totals.budget().unsent;
        totals.mail(share / 2);
        assert_eq!((totals.pressure(0), totals.room(Load::default())), (Pressure::High, Admission::OnePerConnection));
        totals.buffer(Growth { received: 0, unsent: (share / 2).cast_signed() });
        assert_eq!((totals.pressure(0), totals.replies_max()), (Pressure::Full, 0));
        totals.delivered(share / 2);
        assert_eq!((totals.pressure(0), totals.replies_max()), (Pressure::High, share / 2));
        totals.buffer(Growth { received: 0, unsent: -share.cast_signed() });
        assert_eq!((totals.pressure(0), totals.used()), (Pressure::Low, 0), "a thread has not counted everything yet");
    }

    #[test]
    fn default_budget_follows_memory_within_bounds() {
        let (mib, gib) = (1 << 20, 1 << 30);
        assert_eq!(budget_of(None), 64 * mib);
        assert_eq!([256 * mib, 4 * gib, 64 * gib].map(|memory| budget_of(Some(memory))), [64 * mib, 512 * mib, gib]);
    }

    #[test]
    fn limits_of_the_configuration_are_obeyed() {
        let outstanding = totals(|config| config.limits.global_outstanding = 10);
        outstanding.queue(load(10, 0));
        assert_eq!(outstanding.room(Load::default()), Admission::Open);
        assert_eq!(outstanding.room(load(1, 0)), Admission::OnePerConnection);
        let throttle = totals(|config| config.request_throttle.max_requests = 2);
        assert_eq!((throttle.room(load(1, 0)), throttle.room(load(2, 0))), (Admission::Open, Admission::Closed));
    }

    #[test]
    fn large_requests_share_their_room() {
        let off = totals(|_| ());
        assert!(!off.is_large(usize::MAX));
        let totals = totals(|config| {
            config.limits.large_request_threshold_bytes = Some(100);
            config.limits.large_request_max_bytes = 1000;
        });
        assert!(!totals.is_large(100) && totals.is_large(101));
        assert!(totals.take_large_room(600) && !totals.has_large_room(401) && !totals.take_large_room(401));
        assert!(totals.take_large_room(400));
        totals.free_large_room(600);
        assert!(totals.take_large_room(600));
    }
}
