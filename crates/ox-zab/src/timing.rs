//! Timeouts of waits between servers.

/// The limits of the configuration (`tickTime`, `initLimit`, `syncLimit`).
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub tick_ms: i64,
    /// Ticks for discovery and synchronisation.
    pub init_ticks: i64,
    /// Ticks that an active peer may be silent.
    pub sync_ticks: i64,
}

impl Timing {
    pub(crate) fn init_ms(&self) -> i64 {
        self.init_ticks * self.tick_ms
    }

    pub(crate) fn sync_ms(&self) -> i64 {
        self.sync_ticks * self.tick_ms
    }

    /// The interval of pings: half a tick.
    pub(crate) fn ping_ms(&self) -> i64 {
        (self.tick_ms / 2).max(1)
    }
}

/// A wait for progress. Each sign of progress replaces it with a new one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    since_ms: i64,
    /// A pause of the process has extended the wait.
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

    /// The process did not run for a while: extends the wait to at least half a tick from now, to read what arrived
    /// meanwhile. Only once per wait, so that a process that is paused again and again does not wait forever.
    pub(crate) fn on_pause(&mut self, now_ms: i64, patience_ms: i64, timing: &Timing) {
        let extended_ms = now_ms + timing.ping_ms() - patience_ms;
        if !self.is_extended && self.since_ms < extended_ms {
            *self = Self { since_ms: extended_ms, is_extended: true };
        }
    }
}
