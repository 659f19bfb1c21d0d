//! Limits of buffers, queues and pauses of a client.

/// Requests in flight, sent or queued. Further requests wait; deep pipelines stay far below this.
pub(crate) const REQUESTS_MAX: usize = 32_768;

/// Bytes of requests that are not written to the socket. A single larger request is accepted.
pub(crate) const UNSENT_BYTES_MAX: usize = 8 << 20;

/// Bytes of paths in one setWatches request; servers accept eight times as much.
pub(crate) const REARM_BYTES_MAX: usize = 128 << 10;

/// The largest reply. Lists of children can far exceed the limit for requests.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 20;

/// Unread events of one stream; beyond this, a single `Missed` replaces further events.
pub(crate) const EVENTS_MAX: usize = 4096;

/// Unread states of one reader; beyond this, the oldest are dropped.
pub(crate) const STATES_MAX: usize = 256;

/// Bytes that one read of the socket may return.
pub(crate) const READ_BYTES: usize = 64 << 10;

/// Empty buffers larger than this are released.
pub(crate) const RETAINED_BYTES_MAX: usize = 1 << 20;

/// Socket reads before the driver yields to other tasks.
pub(crate) const ITERATIONS_MAX: usize = 16;

/// The longest pause between requests or pings, whatever the session timeout.
pub(crate) const PING_MS_MAX: i64 = 10_000;

/// Pauses between rounds over all servers while none establishes a session.
pub(crate) const ROUND_PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=1000;

/// A connection lost this soon after the handshake, without a reply to a request, counts as short-lived.
pub(crate) const SHORT_CONNECTION_MS: i64 = 1000;

/// Pauses between rounds over servers that accept the session and close the connection immediately.
pub(crate) const SHORT_CONNECTION_PAUSE_MS: std::ops::RangeInclusive<u64> = 10..=100;

/// Pauses between searches for a read-write server.
pub(crate) const SEARCH_PAUSE_MS: std::ops::RangeInclusive<u64> = 100..=60_000;

/// Servers for which a TLS configuration is kept, with its sessions for resumption.
#[cfg(feature = "security")]
pub(crate) const ENDPOINTS_MAX: usize = 64;

/// The longest reply to a four-letter command that is read: some thousand connections.
pub(crate) const FOUR_LETTER_BYTES_MAX: u64 = 8 << 20;

/// Addresses of one host name that are tried in one attempt.
pub(crate) const ADDRESSES_MAX: usize = 16;

/// How long a disconnected client tries to reconnect in order to close its session.
pub(crate) const CLOSE_MS_MAX: i64 = 10_000;

/// Concurrent deletes of children of one parent in a recursive delete.
pub(crate) const DELETES_IN_FLIGHT_MAX: usize = 1024;
