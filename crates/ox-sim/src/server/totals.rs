//! What a server holds for all its clients together, as `ox-server/src/totals.rs` counts it.

use ox_replica::{Load, Room};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// `globalOutstandingLimit`.
    pub(crate) requests_max: usize,
    /// `request_throttle_max_requests`.
    pub(crate) throttle_max: Option<usize>,
    /// Submitted, and not taken in by the replica.
    queued: Load,
    /// Taken in by the replica, and not applied.
    held: Load,
}

impl Totals {
    pub(crate) fn new(requests_max: usize, throttle_max: Option<usize>) -> Self {
        Self { requests_max, throttle_max, ..Self::default() }
    }

    /// What may still come in, given `more` requests that are not counted yet.
    pub(crate) fn room(&self, more: usize) -> Room {
        let requests = self.queued.requests + self.held.requests + more;
        if self.throttle_max.is_some_and(|max| max <= requests) {
            Room::None
        } else if self.requests_max < requests {
            Room::OneEach
        } else {
            Room::Plenty
        }
    }

    /// The same where every single request counts; `judged` is what the turn began with.
    pub(crate) fn exact_room(&self, judged: Room, more: usize) -> Room {
        if self.throttle_max.is_some() { self.room(more) } else { judged }
    }

    pub(crate) fn queue(&mut self, load: Load) {
        self.queued += load;
    }

    pub(crate) fn took(&mut self, taken: Load, held: Load) {
        self.queued -= taken;
        self.held = held;
    }

    pub(crate) fn hold(&mut self, held: Load) {
        self.held = held;
    }
}
