//! The limits on all clients together, and the counters behind them.
//!
//! Each connection has its own limits; these bound the sum, by the shares of one memory budget
//! (`ox-replica/src/admission.rs`). I/O threads count large changes immediately and the rest once per iteration, so a
//! share may be exceeded by what the threads receive during one iteration, but not by more.

use super::limits::ADMISSION_RECHECK_BYTES;
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

/// Sums over all client connections.
#[derive(Debug)]
pub struct GlobalLimits {
    limits: AdmissionLimits,
    large_threshold: Option<usize>,
    large_bytes_max: usize,
    /// Submitted to the replica, which has not taken them yet.
    queued: Gauge,
    /// Taken by the replica and not applied yet.
    held: Gauge,
    /// Bytes of requests being received, or the announced length where it is reserved. Threads count growth late, so
    /// this and `unsent` may be negative for a moment.
    received: AtomicIsize,
    /// Replies and events, from the replica to the buffers of connections. An I/O thread counts what it delivers and
    /// sends in one step, so that delivered replies are always counted.
    unsent: AtomicIsize,
    /// Connections that wait for memory to receive a large request.
    waiting_frames: AtomicUsize,
    /// Bytes that these connections have received, which are part of `received`.
    waiting_bytes: AtomicIsize,
    /// Bytes of large requests in flight.
    large: AtomicUsize,
}

impl GlobalLimits {
    /// Requests above `large_threshold` bytes count as large: together they have `large_bytes_max` bytes at most.
    pub fn new(limits: AdmissionLimits, large_threshold: Option<usize>, large_bytes_max: usize) -> Self {
        Self {
            limits,
            large_threshold,
            large_bytes_max,
            queued: Gauge::default(),
            held: Gauge::default(),
            received: AtomicIsize::new(0),
            unsent: AtomicIsize::new(0),
            waiting_frames: AtomicUsize::new(0),
            waiting_bytes: AtomicIsize::new(0),
            large: AtomicUsize::new(0),
        }
    }

    /// The memory budget with its shares.
    pub fn budget(&self) -> MemoryBudget {
        self.limits.budget
    }

    /// Bytes held now, over all shares.
    pub fn used(&self) -> usize {
        self.queued.load().bytes + self.held.load().bytes + self.received() + self.unsent()
    }

    fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed).max(0).unsigned_abs()
    }

    fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed).max(0).unsigned_abs()
    }

    /// The admission, given `more` requests that are not counted yet.
    pub fn admission(&self, more: Load) -> Admission {
        let mut in_flight = self.queued.load();
        in_flight += self.held.load();
        in_flight += more;
        self.limits.admission(in_flight, self.unsent())
    }

    /// As `admission`, for a single request. Returns `last`, the admission at the start of the iteration, unless the
    /// difference may matter.
    pub fn recheck_admission(&self, last: Admission, more: Load) -> Admission {
        if self.limits.throttle_max.is_some() || ADMISSION_RECHECK_BYTES < more.bytes {
            self.admission(more)
        } else {
            last
        }
    }

    /// Counts requests that are submitted to the replica.
    pub fn on_submitted(&self, load: Load) {
        self.queued.requests.fetch_add(load.requests, Ordering::Relaxed);
        self.queued.bytes.fetch_add(load.bytes, Ordering::Relaxed);
    }

    /// Moves `taken` from the queue to the replica, which holds `held` now.
    pub fn on_taken(&self, taken: Load, held: Load) {
        self.set_held(held);
        self.queued.requests.fetch_sub(taken.requests, Ordering::Relaxed);
        self.queued.bytes.fetch_sub(taken.bytes, Ordering::Relaxed);
    }

    /// Sets what the replica holds now.
    pub fn set_held(&self, held: Load) {
        self.held.requests.store(held.requests, Ordering::Relaxed);
        self.held.bytes.store(held.bytes, Ordering::Relaxed);
    }

    /// Counts growth, or shrinking, of connection buffers.
    pub fn on_buffers_grown(&self, more: BufferGrowth) {
        if more.received != 0 {
            self.received.fetch_add(more.received, Ordering::Relaxed);
        }
        if more.unsent != 0 {
            self.unsent.fetch_add(more.unsent, Ordering::Relaxed);
        }
    }

    /// Reserves memory for a request that is being received; false when the share is used up. What waiting connections
    /// have received does not count: otherwise they would wait for each other, or for themselves.
    pub fn reserve(&self, bytes: usize) -> bool {
        let share = self.limits.budget.received.cast_signed();
        let received = self.received.fetch_add(bytes.cast_signed(), Ordering::Relaxed);
        let fits = received - self.waiting_bytes.load(Ordering::Relaxed) < share;
        if !fits {
            self.received.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
        }
        fits
    }

    /// Whether requests being received use up their share.
    pub fn is_receiving_full(&self) -> bool {
        self.limits.budget.received <= self.received()
    }

    /// A connection that has received `bytes` waits for [`Self::reserve`].
    pub fn start_waiting_for_frame(&self, bytes: usize) {
        self.waiting_frames.fetch_add(1, Ordering::Relaxed);
        self.waiting_bytes.fetch_add(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// It has its reservation, or is closed.
    pub fn stop_waiting_for_frame(&self, bytes: usize) {
        self.waiting_frames.fetch_sub(1, Ordering::Relaxed);
        self.waiting_bytes.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// Whether a connection waits to receive a large request.
    pub fn do_frames_wait(&self) -> bool {
        self.waiting_frames.load(Ordering::Relaxed) != 0
    }

    /// Counts replies and events that are handed to an I/O thread.
    pub fn on_posted(&self, bytes: usize) {
        self.unsent.fetch_add(bytes.cast_signed(), Ordering::Relaxed);
    }

    /// How much of the share of replies and events is used, if `more` is added that is not counted yet.
    pub fn pressure(&self, more: usize) -> Pressure {
        self.limits.budget.pressure(self.unsent() + more)
    }

    /// Bytes of replies that may be created before they are counted.
    pub fn replies_max(&self) -> usize {
        let share = self.limits.budget.unsent;
        share.saturating_sub(self.unsent()).min(ox_replica::limits::REPLIES_BYTES_MAX)
    }

    /// Whether nothing is counted but `incomplete` bytes of requests that are being received.
    pub fn is_at_rest(&self, incomplete: usize) -> bool {
        let in_flight = self.queued.load().bytes + self.held.load().bytes + self.large.load(Ordering::Relaxed);
        let counts = (self.received.load(Ordering::Relaxed), self.unsent.load(Ordering::Relaxed));
        in_flight == 0 && counts == (incomplete.cast_signed(), 0)
    }

    /// Whether a request of `bytes` exceeds the threshold for large requests.
    pub fn is_large(&self, bytes: usize) -> bool {
        self.large_threshold.is_some_and(|threshold| threshold < bytes)
    }

    /// Whether a large request is within the limit for large requests.
    pub fn fits_large(&self, bytes: usize) -> bool {
        self.large.load(Ordering::Relaxed).saturating_add(bytes) <= self.large_bytes_max
    }

    /// Counts a large request; false when the limit is reached.
    pub fn reserve_large(&self, bytes: usize) -> bool {
        let taken = self.large.fetch_add(bytes, Ordering::Relaxed);
        let fits = taken.saturating_add(bytes) <= self.large_bytes_max;
        if !fits {
            self.release_large(bytes);
        }
        fits
    }

    /// Uncounts large requests that have their reply.
    pub fn release_large(&self, bytes: usize) {
        self.large.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Change of the bytes in connection buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferGrowth {
    pub received: isize,
    pub unsent: isize,
}

impl std::ops::AddAssign for BufferGrowth {
    fn add_assign(&mut self, more: Self) {
        self.received += more.received;
        self.unsent += more.unsent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global_limits(budget_bytes: usize) -> GlobalLimits {
        let budget = MemoryBudget::new(budget_bytes);
        GlobalLimits::new(AdmissionLimits { budget, requests_max: 10, throttle_max: None }, None, 0)
    }

    fn load(requests: usize, bytes: usize) -> Load {
        Load { requests, bytes }
    }

    #[test]
    fn k146_requests_in_flight_are_bounded() {
        let global_limits = global_limits(64 << 20);
        let share = global_limits.budget().in_flight;
        global_limits.on_submitted(load(10, 0));
        assert_eq!(global_limits.admission(Load::default()), Admission::Open);
        global_limits.on_submitted(load(1, 0));
        assert_eq!(global_limits.admission(Load::default()), Admission::OnePerConnection);
        global_limits.on_taken(load(10 + 1, 0), load(1, share - 1));
        assert_eq!(global_limits.admission(Load::default()), Admission::Open);
        assert_eq!(global_limits.admission(load(1, 1)), Admission::SmallOnly, "what a thread has gathered counts too");
        assert_eq!(global_limits.used(), share - 1);
        global_limits.set_held(load(0, 0));
        assert_eq!((global_limits.admission(Load::default()), global_limits.used()), (Admission::Open, 0));
    }

    #[test]
    fn first_frame_is_received_beyond_the_share_and_further_ones_wait() {
        let global_limits = global_limits(8 << 20);
        let share = global_limits.budget().received;
        assert!(global_limits.reserve(10 * share), "a request larger than the share, alone");
        assert!(global_limits.is_receiving_full() && !global_limits.reserve(1));
        assert_eq!(global_limits.used(), 10 * share);
        global_limits.on_buffers_grown(BufferGrowth { received: -(10 * share).cast_signed(), unsent: 0 });
        assert!(
            !global_limits.is_receiving_full()
                && global_limits.reserve(share - 1)
                && global_limits.reserve(1)
                && !global_limits.reserve(1)
        );
    }

    #[test]
    fn waiting_connections_do_not_wait_for_each_other() {
        let global_limits = global_limits(8 << 20);
        let share = global_limits.budget().received;
        global_limits.on_buffers_grown(BufferGrowth { received: 2 * share.cast_signed(), unsent: 0 });
        assert!(!global_limits.reserve(1), "two connections have received the beginning of a request");
        (0..2).for_each(|_| global_limits.start_waiting_for_frame(share));
        assert!(global_limits.do_frames_wait() && global_limits.reserve(share), "one of them is served first");
        global_limits.stop_waiting_for_frame(share);
        assert!(!global_limits.reserve(1), "the other one waits until then");
        global_limits.on_buffers_grown(BufferGrowth { received: -2 * share.cast_signed(), unsent: 0 });
        assert!(global_limits.reserve(1));
        global_limits.stop_waiting_for_frame(share);
        assert!(!global_limits.do_frames_wait());
    }

    #[test]
    fn replies_count_from_the_replica_until_they_are_sent() {
        let global_limits = global_limits(8 << 20);
        let share = global_limits.budget().unsent;
        global_limits.on_posted(share / 2);
        assert_eq!(
            (global_limits.pressure(0), global_limits.admission(Load::default())),
            (Pressure::High, Admission::OnePerConnection)
        );
        global_limits.on_buffers_grown(BufferGrowth { received: 0, unsent: (share / 2).cast_signed() });
        assert_eq!((global_limits.pressure(0), global_limits.replies_max()), (Pressure::Full, 0));
        global_limits.on_buffers_grown(BufferGrowth { received: 0, unsent: -(share / 2).cast_signed() });
        assert_eq!((global_limits.pressure(0), global_limits.replies_max()), (Pressure::High, share / 2));
        global_limits.on_buffers_grown(BufferGrowth { received: 0, unsent: -(share / 2).cast_signed() - 1 });
        assert_eq!(
            (global_limits.pressure(0), global_limits.used()),
            (Pressure::Low, 0),
            "a thread has not counted everything yet"
        );
    }

    #[test]
    fn throttle_closes_admission() {
        let budget = MemoryBudget::new(8 << 20);
        let throttle = AdmissionLimits { budget, requests_max: 10, throttle_max: Some(2) };
        let throttle = GlobalLimits::new(throttle, None, 0);
        let last = Admission::Open;
        assert_eq!(
            (throttle.recheck_admission(last, load(1, 0)), throttle.recheck_admission(last, load(2, 0))),
            (Admission::Open, Admission::Closed)
        );
    }

    #[test]
    fn large_requests_are_limited_together() {
        assert!(!global_limits(8 << 20).is_large(usize::MAX));
        let limits = AdmissionLimits { budget: MemoryBudget::new(8 << 20), requests_max: 10, throttle_max: None };
        let global_limits = GlobalLimits::new(limits, Some(100), 1000);
        assert!(!global_limits.is_large(100) && global_limits.is_large(101));
        assert!(
            global_limits.reserve_large(600) && !global_limits.fits_large(401) && !global_limits.reserve_large(401)
        );
        assert!(global_limits.reserve_large(400));
        global_limits.release_large(600);
        assert!(global_limits.reserve_large(600));
    }
}
