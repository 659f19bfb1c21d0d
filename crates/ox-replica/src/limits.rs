//! Bounds of what one connection or one step may hold.

/// Requests of one connection that may wait for the replica. Beyond that its socket is not read.
pub const REQUESTS_IN_FLIGHT_MAX: u32 = 2_000;

/// Bytes of those requests. One request is always let in, whatever its size.
pub const BYTES_IN_FLIGHT_MAX: usize = 2 << 20;

/// Bytes that a submission is given room for because the one before had them.
pub const LIKELY_BYTES_MAX: usize = 64 << 10;

/// The same in items.
pub const LIKELY_ITEMS_MAX: usize = 1024;

/// What a request costs on its way beside its bytes.
pub const ITEM_BYTES: usize = 128;

/// Memory that is set aside at once for requests on their way to a leader.
pub const BODIES_BYTES: usize = 64 << 10;

/// Bytes that the answers to one connection's requests on their way are expected to have. Two thousand reads behind
/// a write may ask for a megabyte each; their answers cannot wait, because the state they show goes on.
pub const EXPECTED_ANSWER_BYTES_MAX: usize = 4 << 20;

/// What an answer is expected to have before a connection got any: few reads follow its first write.
pub const FIRST_ANSWER_BYTES: usize = 128 << 10;

/// Bytes of replies that one step, or one call of apply, makes of reads. A connection whose large read comes after that is
/// closed. The driver lowers this while the server's clients leave much unread.
pub const REPLIES_BYTES_MAX: usize = 64 << 20;

/// Transactions applied under one hold of the state, so that readers are never kept out for long.
pub const APPLIED_AT_ONCE_MAX: usize = 512;

/// Bytes of those transactions, and of the answers they have led to.
pub const APPLIED_AT_ONCE_BYTES: usize = 4 << 20;

/// Bytes of one log batch; a batch is closed when it has grown beyond.
pub const LOG_BATCH_BYTES: usize = 1 << 20;

/// First names of paths that traffic is counted for; whoever creates more top-level nodes than that does without.
pub const NAMESPACES_MAX: usize = 1024;

/// Bytes of a name that traffic is counted for. They are kept for good, and shown in every report.
pub const NAMESPACE_BYTES_MAX: usize = 256;

/// Single figures kept for whoever empties the tallies; if nobody does, the rest is not kept.
pub const TALLIED_MAX: usize = 64 << 10;

/// Bytes of a disk that is nearly full which are left for the end of sessions.
pub const ENDS_BYTES: i64 = 4 << 20;

/// How long a learner does not ask a leader whose disk is nearly full for writes that were just refused: the refusal of
/// each would take a little of the space that is left.
pub const REFUSED_MS: i64 = 1_000;

/// Sessions that are given up in one step, so that a flood of them delays nobody's requests (K117).
pub const EXPIRED_AT_ONCE_MAX: usize = 256;

/// Ended sessions that a leader of local sessions remembers. Whatever was on its way for an older one has come.
pub const ENDED_SESSIONS_MAX: usize = 1 << 16;

/// Nodes that are removed by themselves in one step, for the same reason.
pub const SWEPT_AT_ONCE_MAX: usize = 256;

/// Sessions that a learner asks its leader for at a time. The replies are far less than a leader lets a learner leave unread
/// (1 MiB at least).
pub const REVALIDATIONS_IN_FLIGHT_MAX: usize = 1 << 10;

/// Questions of observers that may wait for the leader's answer. There are as many as clients that come at once.
pub const RELAYED_MAX: usize = 256 << 10;

/// Identities one connection may collect; each costs memory, and time at every check.
pub const IDENTITIES_MAX: usize = 256;
