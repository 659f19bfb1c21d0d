//! Bounds of the generator.

use std::time::Duration;

/// A server that is silent for so long is given up; restarts with millions of nodes are waited for elsewhere.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// One read call takes at most so much: enough for a pipeline of small replies, small enough for the cache.
pub const READ_BYTES: usize = 128 * 1024;

/// Handshakes under way at a time while connections are opened; Apache's listen backlog is 50.
pub const HANDSHAKES_MAX: usize = 32;

/// Requests under way while nodes are created or deleted in bulk; Apache throttles above 1000 on the whole server.
pub const BULK_WINDOW: usize = 800;

/// The largest reply that is read whole: the names of ten million children fit.
pub const REPLY_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Load threads; more would measure the generator against the server for the same cores.
pub const THREADS_MAX: usize = 2;
