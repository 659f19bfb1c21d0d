//! Bounds of this crate, each with its reason.

/// Bytes of a reply frame. Its length is a signed 32-bit number; what does not fit is refused, because a server
/// must not die of a listing.
pub(crate) const REPLY_BYTES_MAX: usize = i32::MAX as usize - 1024;

/// Bytes that one multiRead may answer with: a request of a megabyte can name fifty thousand large listings.
pub(crate) const MULTI_READ_BYTES_MAX: usize = 64 << 20;

/// Bytes of a multiRead or setWatches up to which its reply is measured before it is made. Clients send their watches in pieces of
/// half this size.
pub(crate) const MEASURED_BODY_BYTES_MAX: usize = 256 << 10;

/// Bytes of all identities of a connection, [`IDENTITY_OVERHEAD_BYTES`] for each included. Auth packets add to
/// them without end, before anybody is known to be anybody.
pub(crate) const IDENTITIES_BYTES_MAX: usize = 1 << 20;
/// What an identity costs beside its text.
pub(crate) const IDENTITY_OVERHEAD_BYTES: usize = 64;

/// Bytes of a record beside its body: header and digest.
pub(crate) const RECORD_OVERHEAD_BYTES: usize = 32 + 12;

/// Bytes that an outbox is given room for because the one before had them.
pub(crate) const LIKELY_BYTES_MAX: usize = 64 << 10;

/// The same in parts.
pub(crate) const LIKELY_PARTS_MAX: usize = 1024;
