//! Bounds of what a client holds.

/// Requests under way, sent or not. More wait their turn; deep pipelines stay far below.
pub(crate) const REQUESTS_MAX: usize = 32_768;

/// Bytes of requests that the socket has not taken. At least one request always fits.
pub(crate) const UNSENT_BYTES_MAX: usize = 8 << 20;

/// Bytes of paths in one request that re-arms watches; servers take eight times as much.
pub(crate) const REARM_BYTES_MAX: usize = 128 << 10;

/// The largest answer. Lists of children can be far larger than what may be sent.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 20;

/// Events that wait in one stream before it says that some are missing.
pub(crate) const EVENTS_MAX: usize = 4096;

/// States that wait for one reader before the oldest go.
pub(crate) const STATES_MAX: usize = 256;

/// What one look at the socket may bring.
pub(crate) const READ_BYTES: usize = 64 << 10;

/// Buffers above this are given back when they are empty.
pub(crate) const KEPT_BYTES_MAX: usize = 1 << 20;

/// Looks at the socket before other tasks get their turn.
pub(crate) const TURNS_MAX: usize = 16;

/// The longest silence towards a server, whatever the session timeout.
pub(crate) const PING_MS_MAX: i64 = 10_000;

/// Pauses between rounds over servers of which none answers.
pub(crate) const ROUND_PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=1000;

/// A connection that is lost so soon after the session was given, without an answer to any request, was of no use.
pub(crate) const SHORT_LIFE_MS: i64 = 1000;

/// Pauses between rounds over servers that give the session and lose the connection again.
pub(crate) const SHORT_LIFE_PAUSE_MS: std::ops::RangeInclusive<u64> = 10..=100;

/// Pauses between looks for a server that takes writes.
pub(crate) const SEARCH_PAUSE_MS: std::ops::RangeInclusive<u64> = 100..=60_000;

/// Addresses of one name that are tried in one attempt.
pub(crate) const ADDRESSES_MAX: usize = 16;

/// How long a server is looked for that can close the session.
pub(crate) const CLOSE_MS_MAX: i64 = 10_000;

/// Nodes of one parent that are deleted at the same time.
pub(crate) const DELETES_AT_ONCE: usize = 1024;
