//! How long servers wait for each other.

/// The limits of the configuration, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Length of a tick.
    pub tick_ms: i64,
    /// Ticks that finding a leader's history may take.
    pub init_ticks: i64,
    /// Ticks that a server may be silent.
    pub sync_ticks: i64,
}

impl Timing {
    pub(crate) fn init_ms(&self) -> i64 {
        self.init_ticks * self.tick_ms
    }

    pub(crate) fn sync_ms(&self) -> i64 {
        self.sync_ticks * self.tick_ms
    }

    /// How often a leader speaks to everybody.
    pub(crate) fn ping_ms(&self) -> i64 {
        (self.tick_ms / 2).max(1)
    }
}

/// A wait for a sign of progress, which is replaced by a new one when that comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    since_ms: i64,
    /// A pause has extended it.
    is_extended: bool,
}

impl Wait {
    pub(crate) fn new(now_ms: i64) -> Self {
        Self { since_ms: now_ms, is_extended: false }
    }

    pub(crate) fn lasted_ms(&self, now_ms: i64) -> i64 {
        now_ms - self.since_ms
    }

    pub(crate) fn deadline(&self, patience_ms: i64) -> i64 {
        self.since_ms + patience_ms
    }

    /// The process did not run for a while: half a tick is left to read what came meanwhile. Only once per wait, so that a
    /// process that is paused again and again does not wait without end.
    pub(crate) fn on_pause(&mut self, now_ms: i64, patience_ms: i64, timing: &Timing) {
        let extended_ms = now_ms + timing.ping_ms() - patience_ms;
        if !self.is_extended && self.since_ms < extended_ms {
            *self = Self { since_ms: extended_ms, is_extended: true };
        }
    }
}
