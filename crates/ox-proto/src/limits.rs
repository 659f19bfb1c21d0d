//! Bounds of the wire that other modules share.

/// Apache's default `jute.maxbuffer`: the largest frame a server accepts, inclusive.
pub const FRAME_BYTES_MAX_DEFAULT: usize = 0xf_ffff;

/// The longest path that a transaction may name. No frame comes near it; it keeps lengths of names in 28 bits.
pub const PATH_BYTES_MAX: usize = 1 << 28;

/// The session password is always this long on the wire.
pub const PASSWORD_BYTES: usize = 16;

/// What Apache's defaults let a learner accept as the data of one packet (`jute.maxbuffer` and as much again): a larger
/// proposal drops every learner.
pub const PACKET_DATA_BYTES_MAX_DEFAULT: usize = 2 * FRAME_BYTES_MAX_DEFAULT;

/// The largest message on an election connection, inclusive; as Apache.
pub const ELECTION_FRAME_BYTES_MAX: usize = 512 * 1024;

/// The longest list of addresses in a hello, inclusive; as Apache.
pub const HELLO_ADDRESS_BYTES_MAX: usize = 2048;
