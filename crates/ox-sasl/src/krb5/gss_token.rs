//! Framing of GSS-API tokens that establish a context (RFC 2743, 3.1; RFC 4121, 4.1), and the checksum in their authenticator.
//!
//! ```text
//! 60 length  06 09 2A 86 48 86 F7 12 01 02 02   mechanism Kerberos 5
//! 01 00 AP-REQ | 02 00 AP-REP | 03 00 KRB-ERROR
//! ```

use super::KerberosError;
use super::der::{Reader, tagged};

pub(super) const AP_REQ: [u8; 2] = [1, 0];
pub(super) const AP_REP: [u8; 2] = [2, 0];
pub(super) const KRB_ERROR: [u8; 2] = [3, 0];

const KERBEROS_OID: [u8; 11] = [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02];
const SPNEGO_OID: [u8; 8] = [0x06, 0x06, 0x2B, 0x06, 0x01, 0x05, 0x05, 0x02];
const FRAME: u8 = 0x60;

/// Number of the checksum type that carries the flags of a GSS context.
pub(super) const GSS_CHECKSUM: i32 = 0x8003;
pub(super) const MUTUAL: u32 = 2;
const REPLAY: u32 = 4;
const SEQUENCE: u32 = 8;
const CONFIDENTIALITY: u32 = 16;
const INTEGRITY: u32 = 32;

pub(super) fn frame(kind: [u8; 2], message: &[u8]) -> Vec<u8> {
    tagged(FRAME, &[KERBEROS_OID.as_slice(), &kind, message].concat())
}

/// Kind and message of a token.
pub(super) fn unframe(token: &[u8]) -> Result<([u8; 2], &[u8]), KerberosError> {
    let content = Reader::new(token, "GSS token").expect(FRAME)?;
    if content.starts_with(&SPNEGO_OID) {
        return Err(KerberosError::Unsupported("SPNEGO"));
    }
    let inner = content.strip_prefix(&KERBEROS_OID).ok_or(KerberosError::Unsupported("the GSS mechanism"))?;
    let (&kind, message) = inner.split_first_chunk().ok_or(KerberosError::Malformed("GSS token"))?;
    Ok((kind, message))
}

/// The checksum that an initiator sends: no channel bindings, and its flags.
pub(super) fn checksum(is_mutual: bool) -> Vec<u8> {
    let flags = REPLAY | SEQUENCE | CONFIDENTIALITY | INTEGRITY | if is_mutual { MUTUAL } else { 0 };
    [16_u32.to_le_bytes().as_slice(), &[0; 16], &flags.to_le_bytes()].concat()
}

/// The flags of an initiator. Channel bindings and delegated credentials are ignored.
pub(super) fn flags(checksum: Option<&(i32, Vec<u8>)>) -> Result<u32, KerberosError> {
    let error = KerberosError::Malformed("GSS checksum");
    let Some((GSS_CHECKSUM, bytes)) = checksum else { return Err(error) };
    match bytes.as_slice() {
        [16, 0, 0, 0, rest @ ..] => match rest.get(16..20) {
            Some(&[a, b, c, d]) => Ok(u32::from_le_bytes([a, b, c, d])),
            _ => Err(error),
        },
        _ => Err(error),
    }
}
