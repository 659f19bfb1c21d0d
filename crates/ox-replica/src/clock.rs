//! Time as an argument of the core.

/// A reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of a monotonic clock, for timeouts.
    pub mono_ms: i64,
    /// Milliseconds since 1970, for timestamps only.
    pub wall_ms: i64,
}
