//! Bounds of the server's own queues and buffers.

/// Bytes read from one connection in one turn.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Bytes read from all connections before they are served.
pub(crate) const ARENA_BYTES: usize = 1 << 20;
/// Requests served under one hold of the state.
pub(crate) const SERVED_AT_ONCE_MAX: usize = 128;
/// Bytes of answers written under one hold of the state.
pub(crate) const ANSWERED_AT_ONCE_BYTES: usize = 64 << 10;
/// Unsent bytes at which a connection's further requests wait.
pub(crate) const UNSENT_BYTES_PAUSE: usize = 1 << 20;
/// Unsent bytes at which a connection that does not read is given up.
pub(crate) const UNSENT_BYTES_MAX: usize = 64 << 20;
/// Buffers a thread keeps for the next connection that needs one.
pub(crate) const POOLED_BUFFERS_MAX: usize = 256;
/// Larger buffers go back to the allocator.
pub(crate) const POOLED_BUFFER_BYTES: usize = 256 << 10;
/// Connections accepted in one turn.
pub(crate) const ACCEPTED_AT_ONCE_MAX: usize = 256;
/// Status commands that may wait for the thread that answers them.
pub(crate) const WORDS_WAITING_MAX: usize = 256;
/// Bytes of an answer made before the connection must have sent them.
pub(crate) const WORD_PIECE_BYTES: usize = 256 << 10;
/// Connections, sessions, nodes or watches a status command looks at while it holds a lock.
pub(crate) const LISTED_AT_ONCE_MAX: usize = 1000;
/// Submissions that may wait for the replica before I/O threads hold back.
pub(crate) const INBOX_BYTES_MAX: usize = 64 << 20;
