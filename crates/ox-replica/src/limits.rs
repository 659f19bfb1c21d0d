//! Bounds of what one connection or one step may hold.

/// Requests of one connection that may wait for the replica. Beyond that its socket is not read.
pub const REQUESTS_IN_FLIGHT_MAX: u32 = 2_000;

/// Bytes of those requests. One request is always let in, whatever its size.
pub const BYTES_IN_FLIGHT_MAX: usize = 2 << 20;

/// Transactions applied under one hold of the state, so that readers are never kept out for long.
pub const APPLIED_AT_ONCE_MAX: usize = 512;

/// Bytes of one log batch; a batch is closed when it has grown beyond.
pub const LOG_BATCH_BYTES: usize = 1 << 20;

/// First names of paths that traffic is counted for; whoever creates more top-level nodes than that does without.
pub const NAMESPACES_MAX: usize = 1024;

/// Single figures kept for whoever empties the tallies; if nobody does, the rest is not kept.
pub const TALLIED_MAX: usize = 64 << 10;
