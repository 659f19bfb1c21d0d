//! The session password: 16 bytes that every server derives from the session id alone.
//!
//! It is a checksum rather than a secret, and must equal Apache's so that a client can move between servers.

use crate::SessionId;
use crate::limits::PASSWORD_BYTES;
use subtle::ConstantTimeEq;

pub fn session_password(session: SessionId) -> [u8; PASSWORD_BYTES] {
    const MASK: u64 = (1 << 48) - 1;
    let mut seed = (session.0.cast_unsigned() ^ 0xB341_5C00 ^ 0x5_DEEC_E66D) & MASK;
    let mut password = [0; PASSWORD_BYTES];
    for word in password.chunks_exact_mut(4) {
        seed = seed.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & MASK;
        word.copy_from_slice(&(seed >> 16).to_le_bytes()[..4]);
    }
    password
}

/// Compares in constant time.
pub fn password_matches(session: SessionId, given: &[u8]) -> bool {
    session != SessionId::NONE && bool::from(session_password(session).as_slice().ct_eq(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(session: i64) -> String {
        session_password(SessionId(session)).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn password_equals_apaches() {
        assert_eq!(hex(0x0100_000d_7c70_0000), "6233b0a7471e1ddb107a0e9868a136bc");
        assert_eq!(hex(0x0100_000d_7c70_0001), "7554aaa7e769fc1f05bd75c33c2a4b89");
        assert_eq!(hex(0x0100_0016_567a_0000), "d4ae9f32d11915d5d28fda610231804e");
        assert_eq!(hex(1), "054cc74a37327db215e702e20c73f005");
    }

    #[test]
    fn only_the_exact_password_matches() {
        let session = SessionId(0x0100_000d_7c70_0000);
        let mut password = session_password(session).to_vec();
        assert!(password_matches(session, &password));
        assert!(!password_matches(session, &password[..15]));
        password[3] ^= 1;
        assert!(!password_matches(session, &password));
        assert!(!password_matches(SessionId::NONE, &session_password(SessionId::NONE)));
    }
}
