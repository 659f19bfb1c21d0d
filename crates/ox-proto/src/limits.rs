//! Bounds of the wire that other modules share.

/// Apache's default `jute.maxbuffer`: the largest frame a server accepts, inclusive.
pub const FRAME_BYTES_MAX_DEFAULT: usize = 0xf_ffff;

/// The session password is always this long on the wire.
pub const PASSWORD_BYTES: usize = 16;
