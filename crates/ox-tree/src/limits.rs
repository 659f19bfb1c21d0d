//! Limits of this crate, each with its reason.

/// The maximum size of a reply frame, whose length is a signed 32-bit number. A larger reply is refused with an error.
pub(crate) const REPLY_BYTES_MAX: usize = i32::MAX as usize - 1024;

/// The maximum size of the reply to a multiRead. A request of 1 MB can name fifty thousand nodes with many children.
pub(crate) const MULTI_READ_BYTES_MAX: usize = 64 << 20;

/// Up to this size of a multiRead or setWatches request, the size of its reply is computed before the reply is built.
/// Clients send their watches in requests of half this size.
pub(crate) const MEASURED_BODY_BYTES_MAX: usize = 256 << 10;

/// The maximum size of all identities of a connection, including [`IDENTITY_OVERHEAD_BYTES`] for each. Auth packets are
/// accepted before a client is authenticated, in any number.
pub(crate) const IDENTITIES_BYTES_MAX: usize = 1 << 20;
/// Memory per identity in addition to its text.
pub(crate) const IDENTITY_OVERHEAD_BYTES: usize = 64;

/// The size of a record's header and digest.
pub(crate) const RECORD_OVERHEAD_BYTES: usize = 32 + 12;

/// Top-level nodes with metrics. Clients choose their names, and each is a line of a report.
pub const TOP_LEVEL_NODES_MAX: usize = 1024;
/// Longest name of a top-level node with metrics. Names are kept forever and appear in every report.
pub const TOP_LEVEL_NAME_BYTES_MAX: usize = 256;
