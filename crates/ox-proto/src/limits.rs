//! Limits of the wire formats that several modules share.

/// Apache's default `jute.maxbuffer`: the largest frame a server accepts, inclusive.
pub const FRAME_BYTES_MAX_DEFAULT: usize = 0xf_ffff;

/// The longest path in a transaction. No frame comes near it; it lets the tree store name lengths in 28 bits.
pub const PATH_BYTES_MAX: usize = 1 << 28;

/// Length of a session password on the wire.
pub const PASSWORD_BYTES: usize = 16;

/// Largest packet data that a learner with Apache's defaults accepts (twice `jute.maxbuffer`). A larger proposal
/// disconnects every learner.
pub const PACKET_DATA_BYTES_MAX_DEFAULT: usize = 2 * FRAME_BYTES_MAX_DEFAULT;

/// The largest message on an election connection, inclusive; as in Apache.
pub const ELECTION_FRAME_BYTES_MAX: usize = 512 * 1024;

/// The longest address list in a hello, inclusive; as in Apache.
pub const HELLO_ADDRESS_BYTES_MAX: usize = 2048;
