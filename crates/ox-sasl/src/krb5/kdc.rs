//! Exchanges with a KDC: requests out, replies in. The caller moves the bytes.
//!
//! ```text
//! AsExchange:   AS-REQ ─► PREAUTH_REQUIRED ─► AS-REQ with timestamp ─► AS-REP: ticket-granting ticket
//! TgsExchange:  TGS-REQ ─► TGS-REP: service ticket, renewed ticket, or a ticket of the next realm
//! ```
//!
//! Over UDP a request is one datagram; over TCP it follows its length ([`tcp_frame`]). A KDC whose reply is too long for
//! UDP says so, and the caller repeats the request over TCP.

mod as_exchange;
mod tgs_exchange;

pub use as_exchange::{AsExchange, InitialSecret};
pub use tgs_exchange::TgsExchange;

use super::KerberosError;
use super::initiator::Credential;
use super::messages::KrbErrorMessage;
use crate::mechanism::Random;

/// A longer reply is refused; tickets with much authorisation data have tens of kilobytes.
pub const KDC_REPLY_BYTES_MAX: usize = 1 << 20;
/// Lifetime that an initiator asks for by default, in seconds.
const LIFETIME: i64 = 86400;

/// What an exchange wants after a reply.
#[derive(Debug)]
pub enum KdcStep {
    /// Send this request to a KDC of the same realm.
    Send(Vec<u8>),
    /// Send the previous request over TCP.
    RepeatOverTcp,
    Granted(Box<Credential>),
}

/// A request as TCP carries it.
pub fn tcp_frame(request: &[u8]) -> Vec<u8> {
    let length = u32::try_from(request.len()).expect("requests are short");
    [length.to_be_bytes().as_slice(), request].concat()
}

/// Length of the reply whose first four bytes over TCP are given.
pub fn tcp_reply_length(prefix: [u8; 4]) -> Result<usize, KerberosError> {
    let length = usize::try_from(u32::from_be_bytes(prefix)).ok();
    length.filter(|length| *length <= KDC_REPLY_BYTES_MAX).ok_or(KerberosError::Malformed("reply of the KDC"))
}

/// A nonce, positive as a signed number, because some KDCs read it so.
fn random_nonce(random: Random<'_>) -> u32 {
    let mut bytes = [0; 4];
    random(&mut bytes);
    u32::from_be_bytes(bytes) & 0x7FFF_FFFF
}

/// `Some` if the reply is an error.
fn error_of(reply: &[u8]) -> Result<Option<KrbErrorMessage>, KerberosError> {
    if KDC_REPLY_BYTES_MAX < reply.len() {
        return Err(KerberosError::Malformed("reply of the KDC"));
    }
    KrbErrorMessage::decode(reply)
}
