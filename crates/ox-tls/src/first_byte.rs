//! Port unification: which protocol a new connection speaks, by its first byte.

/// The content type of a TLS handshake record, the first byte of every ClientHello since SSL 3.
const HANDSHAKE_RECORD: u8 = 0x16;

/// What the first byte of a connection announces.
///
/// A plain client sends the length of its connect request, whose first byte is 0x00; four-letter commands and the
/// hellos of other servers do not start with 0x16 either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstByte {
    Tls,
    Plain,
}

impl FirstByte {
    pub fn classify(first: u8) -> Self {
        if first == HANDSHAKE_RECORD { Self::Tls } else { Self::Plain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_handshake_record_is_tls() {
        for first in 0..=u8::MAX {
            let expected = if first == 22 { FirstByte::Tls } else { FirstByte::Plain };
            assert_eq!(FirstByte::classify(first), expected, "{first}");
        }
    }
}
