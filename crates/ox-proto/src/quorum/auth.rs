//! Packets of SASL between servers (Apache: `QuorumAuthPacket`).
//!
//! ```text
//! magic i64 | status i32 | length i32 | token        status 0 in progress, 1 success, -1 error; length -1: no token
//! ```
//! The dialer sends a token, the acceptor replies with challenges until it reports success or an error. Packets have no
//! outer length. On the election port they follow the hello, on the ports for learners they are first.

const MAGIC: i64 = 0x5F24_3501_3501_EDCC;
const HEAD_BYTES: usize = 16;
/// Largest token. Kerberos tickets with much authorisation data have tens of kilobytes.
pub const AUTH_TOKEN_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthStatus {
    InProgress,
    Success,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthPacket {
    pub status: AuthStatus,
    pub token: Option<Vec<u8>>,
}

/// Why a packet cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthPacketError {
    #[error("not a SASL packet")]
    Magic,
    #[error("unknown SASL status {0}")]
    Status(i32),
    #[error("unreasonable length of a SASL token: {0}")]
    Length(i32),
}

/// Whether input starts with a packet; `None` while that is undecided.
pub fn is_auth_packet(bytes: &[u8]) -> Option<bool> {
    let magic = MAGIC.to_be_bytes();
    let known = bytes.len().min(magic.len());
    if bytes[..known] != magic[..known] {
        return Some(false);
    }
    (known == magic.len()).then_some(true)
}

impl AuthPacket {
    /// Decodes the packet at the start of `bytes`; returns it with its length, or `None` while it is incomplete.
    pub fn next(bytes: &[u8]) -> Result<Option<(Self, usize)>, AuthPacketError> {
        match is_auth_packet(bytes) {
            Some(false) => return Err(AuthPacketError::Magic),
            None => return Ok(None),
            Some(true) => (),
        }
        let Some(status) = int_at(bytes, 8) else { return Ok(None) };
        let status = match status {
            0 => AuthStatus::InProgress,
            1 => AuthStatus::Success,
            -1 => AuthStatus::Error,
            other => return Err(AuthPacketError::Status(other)),
        };
        let Some(length) = int_at(bytes, 12) else { return Ok(None) };
        if length == -1 {
            return Ok(Some((Self { status, token: None }, HEAD_BYTES)));
        }
        let valid = usize::try_from(length).ok().filter(|length| *length <= AUTH_TOKEN_BYTES_MAX);
        let end = HEAD_BYTES + valid.ok_or(AuthPacketError::Length(length))?;
        let token = bytes.get(HEAD_BYTES..end).map(<[u8]>::to_vec);
        Ok(token.map(|token| (Self { status, token: Some(token) }, end)))
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        let status: i32 = match self.status {
            AuthStatus::InProgress => 0,
            AuthStatus::Success => 1,
            AuthStatus::Error => -1,
        };
        let length = self.token.as_ref().map_or(-1, |token| i32::try_from(token.len()).unwrap_or(i32::MAX));
        out.extend_from_slice(&MAGIC.to_be_bytes());
        out.extend_from_slice(&status.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(self.token.as_deref().unwrap_or_default());
    }
}

fn int_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().copied().map(i32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_at_every_length() {
        for (status, token) in [
            (AuthStatus::InProgress, Some(b"response".to_vec())),
            (AuthStatus::Success, None),
            (AuthStatus::Error, Some(Vec::new())),
        ] {
            let packet = AuthPacket { status, token };
            let mut bytes = Vec::new();
            packet.put(&mut bytes);
            assert_eq!(bytes[..8], [0x5F, 0x24, 0x35, 0x01, 0x35, 0x01, 0xED, 0xCC]);
            for end in 0..bytes.len() {
                assert_eq!(AuthPacket::next(&bytes[..end]), Ok(None), "{end}");
            }
            let length = bytes.len();
            bytes.push(7);
            assert_eq!(AuthPacket::next(&bytes), Ok(Some((packet, length))));
        }
    }

    #[test]
    fn malformed_packets_are_refused() {
        let head = |status: i32, length: i32| {
            [&MAGIC.to_be_bytes()[..], &status.to_be_bytes(), &length.to_be_bytes()].concat()
        };
        assert_eq!(AuthPacket::next(&[0x5F, 0x25]), Err(AuthPacketError::Magic));
        assert_eq!(AuthPacket::next(&head(2, 0)), Err(AuthPacketError::Status(2)));
        for length in [-2, i32::MAX, 0x1_0001] {
            assert_eq!(AuthPacket::next(&head(0, length)), Err(AuthPacketError::Length(length)));
        }
        assert_eq!((is_auth_packet(b""), is_auth_packet(b"\0"), is_auth_packet(b"\x5F")), (None, Some(false), None));
    }
}
