//! Limits of the load generator.

use std::time::Duration;

/// Time after which a silent server counts as failed; restarts with millions of nodes have their own limit.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit of the reply to a handshake, after which the port probably belongs to another service.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum bytes per read call: enough for a pipeline of small replies, small enough for the cache.
pub const READ_BYTES: usize = 128 * 1024;

/// Concurrent handshakes while connections are opened; Apache's listen backlog is 50.
pub const HANDSHAKES_MAX: usize = 32;

/// Requests in flight while nodes are created or deleted in bulk; Apache throttles above 1000 on the whole server.
pub const BULK_WINDOW: usize = 800;

/// Attempts to open the session of the clean-up, and the pause between two of them, while the server refuses it because
/// it still counts the connections of the run: 5 s in total.
pub const CLEAN_ATTEMPTS: usize = 50;
pub const CLEAN_PAUSE: Duration = Duration::from_millis(100);

/// Maximum size of a reply that is read completely: the names of ten million children fit.
pub const REPLY_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Maximum load threads; more would compete with the server for the same cores.
pub const THREADS_MAX: usize = 2;
