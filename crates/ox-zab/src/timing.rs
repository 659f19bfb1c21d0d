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

    /// The process did not run for a while. Returns the start of a silence of `patience_ms` at most that began at `since_ms`,
    /// moved so that half a tick is left to read what came meanwhile.
    pub(crate) fn read_first(&self, now_ms: i64, since_ms: i64, patience_ms: i64) -> i64 {
        since_ms.max(now_ms + self.ping_ms() - patience_ms)
    }
}
