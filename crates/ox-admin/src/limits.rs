//! Bounds of the HTTP side, with their reasons.

use std::time::Duration;

/// Open connections of all listeners together. Each has a descriptor and about 10 KB of buffers.
pub(crate) const CONNECTIONS_MAX: usize = 1024;
/// The share of the process's descriptors that HTTP may use: the rest is for clients, logs and peers.
pub(crate) const DESCRIPTORS_DIVISOR: u64 = 8;
/// Connections that wait in the kernel to be accepted.
pub(crate) const BACKLOG: i32 = 128;
/// Bytes of a request's line and headers.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers of a request.
pub(crate) const HEADERS_MAX: usize = 64;
/// Time for a request's line and headers, and for a TLS handshake.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Threads that execute commands.
pub(crate) const COMMAND_THREADS: usize = 4;
/// Bytes of a reply. The listing of a million watches has about this size.
pub(crate) const REPLY_BYTES_MAX: usize = 64 << 20;
/// Listings that are created or being sent at a time, so that slow readers hold a bounded number of replies.
pub(crate) const LISTINGS_MAX: usize = 2;
/// How long a listing waits for its turn.
pub(crate) const LISTING_WAIT: Duration = Duration::from_secs(5);
/// Bytes of a snapshot that are read before the connection has sent them, per chunk; two chunks are in flight.
pub(crate) const SNAPSHOT_CHUNK_BYTES: usize = 256 << 10;
/// Chunks of a request's body that were received and not read yet; a chunk has at most the size of the read buffer.
pub(crate) const BODY_CHUNKS: usize = 4;
/// How long a client may be silent while it sends a body.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the body of `shed_connections`: one field.
pub(crate) const SHED_BODY_BYTES_MAX: u64 = 4096;
/// Pause after a failed accept, usually because descriptors are exhausted.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long connections may take to end when the server stops.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval of the check whether key stores have changed.
pub(crate) const STORE_CHECK_INTERVAL: Duration = Duration::from_secs(10);
