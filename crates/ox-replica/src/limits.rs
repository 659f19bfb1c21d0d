//! Limits of one connection, of one step, and of internal tables.

/// Requests of one connection that may be in flight. Beyond this, its socket is not read.
pub const REQUESTS_IN_FLIGHT_MAX: u32 = 2_000;

/// Bytes of those requests. One request is always admitted, whatever its size.
pub const BYTES_IN_FLIGHT_MAX: usize = 2 << 20;

/// Bytes that a new submission or outbox reserves at most, because the previous one had them.
pub const LIKELY_BYTES_MAX: usize = 64 << 10;

/// The same limit in entries or parts.
pub const LIKELY_ENTRIES_MAX: usize = 1024;

/// Memory of a request in flight besides its bytes.
pub const ENTRY_BYTES: usize = 128;

/// Memory that is allocated at a time for requests to a leader.
pub const BODIES_BYTES: usize = 64 << 10;

/// Expected bytes of the replies to one connection's requests in flight. Two thousand reads after a write may request a
/// megabyte each, and they have to be executed right after that write is applied.
pub const EXPECTED_REPLY_BYTES_MAX: usize = 4 << 20;

/// Expected size of a reply before a connection has had one, so that only few reads follow its first write.
pub const FIRST_REPLY_BYTES: usize = 128 << 10;

/// Bytes of read replies in one step, or one call of apply. A connection whose large read exceeds this is closed. The
/// driver lowers the limit while clients leave much unread.
pub const REPLIES_BYTES_MAX: usize = 64 << 20;

/// Transactions applied under one write lock of the state, so that readers do not wait long.
pub const APPLIED_AT_ONCE_MAX: usize = 512;

/// Bytes of those transactions and of their replies.
pub const APPLIED_AT_ONCE_BYTES: usize = 4 << 20;

/// Size above which a log batch is handed over.
pub const LOG_BATCH_BYTES: usize = 1 << 20;

/// Namespaces (first path elements) with traffic metrics. Further ones are not counted.
pub const NAMESPACES_MAX: usize = ox_tree::TOP_LEVEL_NODES_MAX;

/// Longest namespace name with metrics. Names are kept forever and appear in every report.
pub const NAMESPACE_BYTES_MAX: usize = ox_tree::TOP_LEVEL_NAME_BYTES_MAX;

/// Samples that are kept between two reads of the counters; the rest is dropped.
pub const SAMPLES_MAX: usize = 64 << 10;

/// Bytes of a nearly full disk that are reserved for closing sessions.
pub const CLOSE_SESSION_BYTES: i64 = 4 << 20;

/// How long a learner does not forward writes after its leader refused one for a low disk: each refusal would use some
/// of the remaining space.
pub const REFUSED_MS: i64 = 1_000;

/// Sessions expired in one step, so that mass expiry does not delay requests (K117).
pub const EXPIRED_AT_ONCE_MAX: usize = 256;

/// Closed sessions that a leader with local sessions remembers. Requests of older ones are no longer in flight.
pub const ENDED_SESSIONS_MAX: usize = 1 << 16;

/// Containers and TTL nodes deleted in one step, for the same reason.
pub const DELETED_AT_ONCE_MAX: usize = 256;

/// Revalidations that a learner has in flight. Their replies are far below what a leader lets a learner leave unread (1
/// MiB at least).
pub const REVALIDATIONS_IN_FLIGHT_MAX: usize = 1 << 10;

/// Revalidations and syncs of observers in flight to the leader; about one per client that connects.
pub const RELAYED_MAX: usize = 256 << 10;

/// Identities of one connection; each costs memory, and time in every ACL check.
pub const IDENTITIES_MAX: usize = 256;
