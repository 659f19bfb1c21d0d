//! Settings of an I/O thread.

use super::limits::{
    ARENA_BYTES, READ_BYTES, REPLY_BYTES_PER_LOCK, REQUESTS_PER_LOCK_MAX, UNSENT_BYTES_PAUSE, UNSENT_EVENT_BYTES_MAX,
};
use ox_replica::ConnSettings;

#[derive(Clone, Copy, Debug)]
pub struct ClientIoSettings {
    /// The number of the thread.
    pub thread: u8,
    pub conn: ConnSettings,
    /// `jute.maxbuffer`: bytes of a request.
    pub frame_bytes_max: usize,
    /// How long a connection without a session may be silent. Also the step to which idle deadlines are rounded.
    pub sessionless_timeout_ms: i64,
    /// How long connections that wait for memory wait before they are retried.
    pub stall_time_ms: i64,
    pub tick_ms: i32,
    pub sizes: ClientIoSizes,
}

/// Sizes of buffers and budgets. Simulations use smaller ones.
#[derive(Clone, Copy, Debug)]
pub struct ClientIoSizes {
    /// Bytes read from one connection in one iteration.
    pub read_bytes: usize,
    /// Bytes read from all connections before they are served.
    pub arena_bytes: usize,
    /// Requests served under one read lock of the state.
    pub requests_per_lock: usize,
    /// Bytes of replies created under one read lock of the state.
    pub reply_bytes_per_lock: usize,
    /// Unsent bytes at which the server stops reading from a connection.
    pub unsent_pause_bytes: usize,
    /// Bytes of unsent events at which a client is disconnected.
    pub unsent_event_bytes_max: usize,
}

impl Default for ClientIoSizes {
    fn default() -> Self {
        Self {
            read_bytes: READ_BYTES,
            arena_bytes: ARENA_BYTES,
            requests_per_lock: REQUESTS_PER_LOCK_MAX,
            reply_bytes_per_lock: REPLY_BYTES_PER_LOCK,
            unsent_pause_bytes: UNSENT_BYTES_PAUSE,
            unsent_event_bytes_max: UNSENT_EVENT_BYTES_MAX,
        }
    }
}
