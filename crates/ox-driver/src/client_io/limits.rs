//! Bounds of queues and buffers for clients.

/// Bytes read from one connection in one iteration.
pub(super) const READ_BYTES: usize = 64 << 10;
/// Bytes read from all connections before they are served.
pub(super) const ARENA_BYTES: usize = 1 << 20;
/// Requests served under one read lock of the state.
pub(super) const REQUESTS_PER_LOCK_MAX: usize = 128;
/// Bytes of replies created under one read lock of the state.
pub(super) const REPLY_BYTES_PER_LOCK: usize = 64 << 10;

/// Bytes of the first frame. A handshake has about fifty, and the sender is not authenticated yet.
pub(super) const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// Time in which a frame has to become complete while the server is ready to read it.
pub(super) const FRAME_DEADLINE_MS: i64 = 30_000;
/// A large frame has more time, as long as this many bytes arrive per second.
pub(super) const FRAME_BYTES_PER_SECOND_MIN: usize = 64 << 10;

/// Unsent bytes at which the server stops reading from a connection.
pub(super) const UNSENT_BYTES_PAUSE: usize = 1 << 20;
/// Unsent bytes at which a connection is closed instead of given more replies. One reply may be larger.
pub(super) const UNSENT_BYTES_MAX: usize = 64 << 20;
/// Bytes of unsent events at which a client is disconnected: events are never dropped in part. One transaction can fire
/// very many, such as the end of a session with all its nodes. While clients together have many unread replies,
/// [`UNSENT_BYTES_PAUSE`] is the limit, and less while their share of the budget is used up.
pub(super) const UNSENT_EVENT_BYTES_MAX: usize = 64 << 20;

/// A connection that holds less is not closed to free memory, unless no memory is left.
pub(super) const BUFFERED_BYTES_SMALL: usize = READ_BYTES;
/// How long a connection that holds more must be slow before it is closed to free memory.
pub(super) const SLOW_MS: i64 = 1000;
/// A client that reads fewer bytes per second is slow. A socket with a large window takes up to 64 KiB at a time.
pub(super) const REPLY_BYTES_PER_SECOND_MIN: i64 = 32 << 10;
/// A client with many unsent bytes must read at a rate that would drain them within this time.
pub(super) const DRAIN_SECONDS_MAX: usize = 16;
/// Growth of a connection's buffers that is counted immediately.
pub(super) const GROWTH_REPORT_BYTES: usize = 16 << 10;
/// Bytes of an unfinished submission above which each further request is checked against what all threads hold.
pub(super) const ADMISSION_RECHECK_BYTES: usize = 64 << 10;
/// Bytes of a submission that is handed over before the iteration ends.
pub(super) const SUBMISSION_BYTES_MAX: usize = 1 << 20;
/// Stalled connections that are retried in one iteration.
pub(super) const RETRIES_PER_ITERATION_MAX: usize = 64;
/// How long large writes wait while only small ones are admitted, before one of them is admitted too.
pub(super) const LARGE_WRITE_WAIT_MS: i64 = 1000;
/// How often the sessions of stalled connections are touched.
pub(super) const STALLED_TOUCH_MS: i64 = 100;

/// Bytes of free buffers that a thread keeps for its connections. Those that stay unused are freed after a second or two.
pub(super) const POOLED_BYTES_MAX: usize = 16 << 20;
/// Larger buffers are returned to the allocator. A pipeline of ten listings with a thousand names each fits.
pub(super) const POOLED_BUFFER_BYTES_MAX: usize = 256 << 10;
/// How long a client may take to close its side after the last reply.
pub(super) const LINGER_MS: i64 = 2000;
/// Bytes that the client may still send meanwhile, which are discarded.
pub(super) const LINGER_BYTES_MAX: usize = 4 << 20;
/// Lingering sockets per thread; further ones are closed immediately.
pub(super) const LINGERING_MAX: usize = 256;
