//! Messages of an established context (RFC 4121, 4.2.6.2): wrap tokens.
//!
//! ```text
//! 05 04 flags FF  EC u16  RRC u16  sequence u64   data
//! ```
//!
//! Without confidentiality, data is text and checksum, and EC the length of the checksum. With it, data encrypts the text,
//! EC bytes of filler, and the header. RRC tells how far the sender has rotated data to the right.

use super::KerberosError;
use super::crypto::{KerberosKey, KeyUsage};
use subtle::ConstantTimeEq;

const HEADER: usize = 16;
const SENT_BY_ACCEPTOR: u8 = 1;
const SEALED: u8 = 2;
const ACCEPTOR_SUBKEY: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Initiator,
    Acceptor,
}

/// Keys and sequence numbers of a context, for one of its sides.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) side: Side,
    pub(super) key: KerberosKey,
    pub(super) has_acceptor_subkey: bool,
    pub(super) send_sequence: u64,
    pub(super) receive_sequence: u64,
}

impl Side {
    fn peer(self) -> Self {
        match self {
            Self::Initiator => Self::Acceptor,
            Self::Acceptor => Self::Initiator,
        }
    }

    fn flag(self) -> u8 {
        match self {
            Self::Initiator => 0,
            Self::Acceptor => SENT_BY_ACCEPTOR,
        }
    }

    fn usage(self) -> KeyUsage {
        match self {
            Self::Initiator => KeyUsage::InitiatorSeal,
            Self::Acceptor => KeyUsage::AcceptorSeal,
        }
    }
}

impl Context {
    /// Wraps text without confidentiality.
    pub(super) fn wrap(&mut self, text: &[u8]) -> Vec<u8> {
        let flags = self.side.flag() | if self.has_acceptor_subkey { ACCEPTOR_SUBKEY } else { 0 };
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&[5, 4, flags, 0xFF]);
        header[8..].copy_from_slice(&self.send_sequence.to_be_bytes());
        self.send_sequence = self.send_sequence.wrapping_add(1);
        let checksum = self.key.checksum(self.side.usage(), &[text, &header]);
        header[4..6].copy_from_slice(&u16::try_from(checksum.len()).unwrap_or(0).to_be_bytes());
        [header.as_slice(), text, &checksum].concat()
    }

    /// Verifies a token of the peer and returns its text.
    pub(super) fn unwrap(&mut self, token: &[u8]) -> Result<Vec<u8>, KerberosError> {
        let malformed = KerberosError::Malformed("wrap token");
        let Some((header, data)) = token.split_first_chunk::<HEADER>() else { return Err(malformed) };
        let [5, 4, flags, 0xFF, ec_high, ec_low, rrc_high, rrc_low, ..] = *header else { return Err(malformed) };
        let peer = self.side.peer();
        let subkey_flag = if self.has_acceptor_subkey { ACCEPTOR_SUBKEY } else { 0 };
        if flags & SENT_BY_ACCEPTOR != peer.flag() || flags & ACCEPTOR_SUBKEY != subkey_flag {
            return Err(malformed);
        }
        if header[8..] != self.receive_sequence.to_be_bytes() {
            return Err(KerberosError::Mismatch("sequence number of a wrap token"));
        }
        let extra = usize::from(u16::from_be_bytes([ec_high, ec_low]));
        let mut data = data.to_vec();
        if !data.is_empty() {
            let rotation = usize::from(u16::from_be_bytes([rrc_high, rrc_low])) % data.len();
            data.rotate_left(rotation);
        }
        let mut plain_header = *header;
        plain_header[6..8].fill(0);
        let text = if flags & SEALED == 0 {
            plain_header[4..6].fill(0);
            let split = data.len().checked_sub(extra).ok_or(malformed)?;
            let (text, checksum) = data.split_at(split);
            let expected = self.key.checksum(peer.usage(), &[text, &plain_header]);
            if !bool::from(expected.ct_eq(checksum)) {
                return Err(KerberosError::Integrity("wrap token"));
            }
            text.to_vec()
        } else {
            let decrypted = self.key.decrypt(peer.usage(), &data, "wrap token")?;
            let split = decrypted.len().checked_sub(extra + HEADER).ok_or(malformed)?;
            if decrypted[split + extra..] != plain_header {
                return Err(KerberosError::Integrity("wrap token"));
            }
            decrypted[..split].to_vec()
        };
        self.receive_sequence = self.receive_sequence.wrapping_add(1);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krb5::crypto::Etype;

    fn context(side: Side, etype: Etype, has_acceptor_subkey: bool) -> Context {
        let key = KerberosKey::random(etype, &mut |bytes| bytes.fill(5));
        Context { side, key, has_acceptor_subkey, send_sequence: 7, receive_sequence: 7 }
    }

    #[test]
    fn wrapped_text_is_unwrapped_once_in_order() {
        for etype in Etype::ALL {
            for subkey in [false, true] {
                let mut initiator = context(Side::Initiator, etype, subkey);
                let mut acceptor = context(Side::Acceptor, etype, subkey);
                let tokens = [initiator.wrap(b"one"), initiator.wrap(b"")];
                assert!(acceptor.unwrap(&tokens[1]).is_err(), "order");
                assert_eq!(acceptor.unwrap(&tokens[0]).as_deref(), Ok(b"one".as_slice()));
                assert!(acceptor.unwrap(&tokens[0]).is_err(), "replay");
                assert_eq!(acceptor.unwrap(&tokens[1]).as_deref(), Ok(b"".as_slice()));
                let token = acceptor.wrap(b"two");
                assert!(context(Side::Acceptor, etype, subkey).unwrap(&token).is_err(), "reflection");
                assert!(context(Side::Initiator, etype, !subkey).unwrap(&token).is_err(), "other key");
                for at in 0..token.len() {
                    let mut altered = token.clone();
                    altered[at] ^= 0x10;
                    let is_rotation = altered[6..8] != token[6..8];
                    assert!(is_rotation || context(Side::Initiator, etype, subkey).unwrap(&altered).is_err(), "{at}");
                    assert!(context(Side::Initiator, etype, subkey).unwrap(&token[..at]).is_err());
                }
            }
        }
    }

    #[test]
    fn rotated_and_sealed_tokens_are_unwrapped() {
        let etype = Etype::Aes256Sha1;
        let mut token = context(Side::Acceptor, etype, false).wrap(b"text");
        token[7] = 5;
        token[HEADER..].rotate_right(5);
        assert_eq!(context(Side::Initiator, etype, false).unwrap(&token).as_deref(), Ok(b"text".as_slice()));

        let sender = context(Side::Acceptor, etype, false);
        let mut header = [5, 4, SENT_BY_ACCEPTOR | SEALED, 0xFF, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        let plain = [b"text".as_slice(), b"fil", &header].concat();
        let mut data = sender.key.encrypt(KeyUsage::AcceptorSeal, &plain, &mut |bytes| bytes.fill(1));
        header[7] = 28;
        data.rotate_right(28);
        let token = [header.as_slice(), &data].concat();
        assert_eq!(context(Side::Initiator, etype, false).unwrap(&token).as_deref(), Ok(b"text".as_slice()));
    }
}
