//! What the server holds for all its clients together, and how much of that is enough.
//!
//! Connections are bounded one by one; these figures bound the sum of them. I/O threads add to them and judge by
//! them once per turn, so a bound may be passed by what the threads take in at one turn, but not by more.

use crate::limits::{BUFFERED_BYTES_MAX, BYTES_IN_FLIGHT_MAX, GLOBAL_OUTSTANDING_DEFAULT, REQUESTS_IN_FLIGHT_MAX};
use ox_config::Config;
use ox_replica::{Load, Room};
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
    /// `globalOutstandingLimit`, or what it stands for.
    requests_max: usize,
    /// `request_throttle_max_requests`.
    throttle_max: Option<usize>,
    large_threshold: Option<usize>,
    large_bytes_max: usize,
    /// Submitted, and not taken in by the replica.
    queued: Gauge,
    /// Taken in by the replica, and not applied.
    held: Gauge,
    /// Bytes in the buffers of connections. Threads tell of growth late, so the sum may be negative for a moment.
    buffered: AtomicIsize,
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
        Self {
            requests_max,
            throttle_max: (throttle_max != 0).then_some(throttle_max),
            large_threshold: limits.large_request_threshold_bytes.map(|bytes| bytes as usize),
            large_bytes_max: limits.large_request_max_bytes as usize,
            queued: Gauge::default(),
            held: Gauge::default(),
            buffered: AtomicIsize::new(0),
            large: AtomicUsize::new(0),
        }
    }

    /// What may still come in, given `more` requests that are not counted yet.
    pub(crate) fn room(&self, more: usize) -> Room {
        let (queued, held) = (self.queued.load(), self.held.load());
        let requests = queued.requests + held.requests + more;
        if self.throttle_max.is_some_and(|max| max <= requests) {
            Room::None
        } else if self.requests_max < requests || BYTES_IN_FLIGHT_MAX < queued.bytes + held.bytes {
            Room::OneEach
        } else {
            Room::Plenty
        }
    }

    /// The same where every single request counts; `judged` is what the turn began with.
    pub(crate) fn exact_room(&self, judged: Room, more: usize) -> Room {
        if self.throttle_max.is_some() { self.room(more) } else { judged }
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

    /// Buffers have grown or shrunk.
    pub(crate) fn buffer(&self, more: isize) {
        self.buffered.fetch_add(more, Ordering::Relaxed);
    }

    /// Whether connections have more in their buffers than they should.
    pub(crate) fn buffers_are_full(&self) -> bool {
        self.would_be_full(0)
    }

    /// The same with so many bytes more.
    pub(crate) fn would_be_full(&self, more: usize) -> bool {
        BUFFERED_BYTES_MAX.cast_signed() < self.buffered.load(Ordering::Relaxed).saturating_add_unsigned(more)
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
    fn k146_what_is_on_its_way_is_bounded() {
        let totals = totals(|_| ());
        totals.queue(load(REQUESTS_IN_FLIGHT_MAX, 0));
        assert_eq!(totals.room(0), Room::Plenty);
        totals.queue(load(1, 0));
        assert_eq!(totals.room(0), Room::OneEach);
        totals.took(load(REQUESTS_IN_FLIGHT_MAX + 1, 0), load(1, BYTES_IN_FLIGHT_MAX));
        assert_eq!(totals.room(0), Room::Plenty);
        totals.queue(load(1, 1));
        assert_eq!(totals.room(0), Room::OneEach);
        totals.hold(load(0, 0));
        assert_eq!(totals.room(0), Room::Plenty);
    }

    #[test]
    fn limits_of_the_configuration_are_obeyed() {
        let outstanding = totals(|config| config.limits.global_outstanding = 10);
        outstanding.queue(load(10, 0));
        assert_eq!(outstanding.room(0), Room::Plenty);
        assert_eq!(outstanding.room(1), Room::OneEach);
        let throttle = totals(|config| config.request_throttle.max_requests = 2);
        assert_eq!((throttle.room(1), throttle.room(2)), (Room::Plenty, Room::None));
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

    #[test]
    fn buffers_are_counted_up_and_down() {
        let totals = totals(|_| ());
        totals.buffer(BUFFERED_BYTES_MAX.cast_signed() + 1);
        assert!(totals.buffers_are_full());
        totals.buffer(-1);
        assert!(!totals.buffers_are_full() && totals.would_be_full(1));
        totals.buffer(-BUFFERED_BYTES_MAX.cast_signed() - 5);
        assert!(!totals.buffers_are_full(), "a moment in which a thread has not told everything yet");
    }
}
