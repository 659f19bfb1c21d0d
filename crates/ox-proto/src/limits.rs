//! Bounds of the wire that other modules share.

/// Apache's default `jute.maxbuffer`: the largest frame a server accepts, inclusive.
pub const FRAME_BYTES_MAX_DEFAULT: usize = 0xf_ffff;

/// The longest path that a transaction may name. No frame comes near it; it keeps lengths of names in 28 bits.
pub const PATH_BYTES_MAX: usize = 1 << 28;

/// The session password is always this long on the wire.
pub const PASSWORD_BYTES: usize = 16;
