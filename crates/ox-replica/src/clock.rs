//! Time as the core gets it.

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of a clock that never jumps: timeouts are judged by it.
    pub mono_ms: i64,
    /// Milliseconds since 1970: only for timestamps.
    pub wall_ms: i64,
}
