//! The first message of the dialer on an election connection (Apache: `InitialMessage`).
//!
//! ```text
//! version i64 | server i64 | length i32 | host:port[|host:port...]     version -65536 (V1), -65535 (V2)
//! server i64                                                           before 3.5: any number that is not negative
//! ```
//! There is no reply. It must be sent in one write: Apache takes the result of a single read for the whole message.

use crate::ServerId;
use crate::ensemble::{Address, EnsembleError};
use crate::jute::{Jute, decode_text, put_text};
use crate::limits::HELLO_ADDRESS_BYTES_MAX;
use crate::text;

/// The format of a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloVersion {
    /// Before 3.5: the server id alone.
    Bare,
    /// One address; understood by all servers since 3.5.
    V1,
    /// Any number of addresses, for ensembles in which all servers have `multiAddress.enabled`.
    V2,
}

/// The dialer's id and its own election addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub version: HelloVersion,
    pub server: ServerId,
    /// Where to dial back; if empty, the addresses of the configuration. Decoding drops wildcard addresses.
    pub addresses: Vec<Address>,
}

/// Why a connection is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// Not a hello, or a newer version.
    #[error("Got unrecognized protocol version {0}")]
    Version(i64),
    /// The dialer begins a TLS handshake.
    #[error("the peer speaks TLS and this port does not: set sslQuorum alike on all servers")]
    Tls,
    /// The first packet of a learner, which belongs on the quorum port.
    #[error("this is a connection to the quorum port: are the two ports of a server.N line swapped?")]
    Learner,
    /// An invalid server id. Apache accepts observers with such ids and then cannot send to them.
    #[error("{0} is not a valid server id")]
    NotAServer(i64),
    /// No addresses, or a list that is too long.
    #[error("Unreasonable buffer length: {0}")]
    Length(i32),
    /// V1 carries exactly one address.
    #[error("a V1 message carries one address, not {0}")]
    Addresses(usize),
    #[error(transparent)]
    Address(#[from] EnsembleError),
}

const V1: i64 = -65536;
const V2: i64 = -65535;
/// The first bytes of a TLS record with a handshake; the next one is the minor version.
pub const TLS_HANDSHAKE: [u8; 2] = [0x16, 3];
/// FOLLOWERINFO and OBSERVERINFO, in the first four bytes of a learner's first packet.
const LEARNER_PACKETS: [i64; 2] = [11, 16];
/// Offset of the address list.
const HEAD_BYTES: usize = 20;

/// Whether `bytes` begin like the hello of an election connection since 3.4.
pub fn is_versioned(bytes: &[u8]) -> bool {
    matches!(long_at(bytes, 0), Some(V1 | V2))
}

/// Decodes the hello at the start of `bytes`; returns it with its length, or `None` while it is incomplete.
pub fn next(bytes: &[u8]) -> Result<Option<(Hello, usize)>, HelloError> {
    let Some(first) = long_at(bytes, 0) else { return Ok(None) };
    let version = match first {
        V1 => HelloVersion::V1,
        V2 => HelloVersion::V2,
        0.. if bytes.starts_with(&TLS_HANDSHAKE) => return Err(HelloError::Tls),
        0.. if LEARNER_PACKETS.contains(&(first >> 32)) => return Err(HelloError::Learner),
        0.. => {
            return Ok(Some((
                Hello { version: HelloVersion::Bare, server: valid_server(first)?, addresses: Vec::new() },
                8,
            )));
        }
        other => return Err(HelloError::Version(other)),
    };
    let Some(server) = long_at(bytes, 8).map(valid_server).transpose()? else { return Ok(None) };
    let Some(announced) = bytes.get(16..).and_then(|rest| rest.first_chunk().copied()) else { return Ok(None) };
    let announced = i32::from_be_bytes(announced);
    let length = usize::try_from(announced).ok().filter(|length| (1..=HELLO_ADDRESS_BYTES_MAX).contains(length));
    let end = HEAD_BYTES + length.ok_or(HelloError::Length(announced))?;
    let Some(list) = bytes.get(HEAD_BYTES..end) else { return Ok(None) };
    let addresses = read_addresses(&decode_text(list))?;
    Ok(Some((Hello { version, server, addresses }, end)))
}

impl Hello {
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), HelloError> {
        let version = match self.version {
            HelloVersion::Bare => {
                self.server.put(out);
                return Ok(());
            }
            HelloVersion::V1 if self.addresses.len() != 1 => return Err(HelloError::Addresses(self.addresses.len())),
            HelloVersion::V1 => V1,
            HelloVersion::V2 => V2,
        };
        let list = self.addresses.iter().map(Address::to_string).collect::<Vec<_>>().join("|");
        if list.is_empty() || HELLO_ADDRESS_BYTES_MAX < list.len() {
            return Err(HelloError::Length(i32::try_from(list.len()).unwrap_or(i32::MAX)));
        }
        version.put(out);
        self.server.put(out);
        put_text(out, &list);
        Ok(())
    }
}

fn read_addresses(list: &str) -> Result<Vec<Address>, HelloError> {
    let mut addresses = Vec::new();
    for text in text::split(list, '|') {
        let address = Address::parse(text)?;
        if !address.is_plain() {
            return Err(EnsembleError::NotAnAddress(text.to_owned()).into());
        }
        if !address.is_wildcard() {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

fn long_at(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..)?.first_chunk().copied().map(i64::from_be_bytes)
}

fn valid_server(server: i64) -> Result<ServerId, HelloError> {
    let id = ServerId(server);
    if id.is_valid() { Ok(id) } else { Err(HelloError::NotAServer(server)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(version: i64, server: i64, length: i32, list: &[u8]) -> Vec<u8> {
        [&version.to_be_bytes()[..], &server.to_be_bytes(), &length.to_be_bytes(), list].concat()
    }

    fn check(bytes: &[u8], expected: &str) {
        let shown = match next(bytes) {
            Ok(None) => "incomplete".to_owned(),
            Ok(Some((Hello { version, server, addresses }, used))) => {
                let list: Vec<_> = addresses.iter().map(Address::to_string).collect();
                format!("{version:?} {server} [{}] {used}", list.join(" "))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }

    fn check_list(list: &str, expected: &str) {
        check(&message(V2, 3, list.len().try_into().unwrap(), list.as_bytes()), expected);
    }

    #[test]
    fn all_versions_are_decoded() {
        check(&3_i64.to_be_bytes(), "Bare 3 [] 8");
        check(&[0, 0, 0, 0, 0, 0, 0, 3, 9, 9], "Bare 3 [] 8");
        check(&message(V1, 3, 3, b"a:1"), "V1 3 [a:1] 23");
        check(&message(V2, 3, 7, b"a:1|b:2trailing"), "V2 3 [a:1 b:2] 27");
        check(&message(V1, 3, 7, b"a:1|b:2"), "V1 3 [a:1 b:2] 27");
    }

    #[test]
    fn addresses_are_validated() {
        check_list("[::1]:5", "V2 3 [[0:0:0:0:0:0:0:1]:5] 27");
        check_list("0.0.0.0:5|b:1|[::]:7", "V2 3 [b:1] 40");
        check_list("0.0.0.0:5", "V2 3 [] 29");
        check_list("|", "V2 3 [] 21");
        check_list("a", "Badly formed address: a; expected host:port");
        check_list("a:1:2", "Badly formed address: a:1:2; expected host:port");
        check_list("a:1||b:2", "Badly formed address: ; expected host:port");
        check_list("a\n:1", "Badly formed address: a\n:1; expected host:port");
        check_list("a:x", "Address unresolved: a:x; expected a port number");
        check_list("a:65536", "port out of range:65536; expected 0 to 65535");
        check_list("[::1", "[::1 starts with '[' but has no matching ']:'");
    }

    #[test]
    fn invalid_hello_is_refused() {
        check(
            b"\x16\x03\x01\x02\x00\x01\x00\x00",
            "the peer speaks TLS and this port does not: set sslQuorum alike on all servers",
        );
        for kind in [11_i64, 16] {
            let swapped = "this is a connection to the quorum port: are the two ports of a server.N line swapped?";
            check(&(kind << 32 | 3).to_be_bytes(), swapped);
        }
        check(&(-1_i64).to_be_bytes(), "Got unrecognized protocol version -1");
        check(&i64::MAX.to_be_bytes(), "9223372036854775807 is not a valid server id");
        check(&message(V1, -1, 1, b"")[..16], "-1 is not a valid server id");
        check(&message(V1, 1, 0, b""), "Unreasonable buffer length: 0");
        check(&message(V1, 1, -1, b""), "Unreasonable buffer length: -1");
        check(&message(V1, 1, 2048, b""), "incomplete");
        check(&message(V1, 1, 2049, b""), "Unreasonable buffer length: 2049");
        let hello = |version, addresses: &[Address]| {
            Hello { version, server: ServerId(1), addresses: addresses.to_vec() }.put(&mut Vec::new())
        };
        let address = Address::new("a", 1);
        assert_eq!(hello(HelloVersion::V1, &[]), Err(HelloError::Addresses(0)));
        assert_eq!(hello(HelloVersion::V1, &[address.clone(), address.clone()]), Err(HelloError::Addresses(2)));
        assert_eq!(hello(HelloVersion::V2, &[]), Err(HelloError::Length(0)));
        assert_eq!(hello(HelloVersion::V2, &vec![address.clone(); 512]), Ok(()));
        assert_eq!(hello(HelloVersion::V2, &vec![address; 513]), Err(HelloError::Length(2051)));
    }

    proptest! {
        #[test]
        fn every_prefix_is_incomplete(port in 0_u16..9, more in 0_usize..3, bare in any::<bool>()) {
            let addresses = vec![Address::new("host", port); more + 1];
            let version = if bare { HelloVersion::Bare } else { HelloVersion::V2 };
            let hello = Hello { version, server: ServerId(2), addresses: if bare { Vec::new() } else { addresses } };
            let mut bytes = Vec::new();
            hello.put(&mut bytes).unwrap();
            for end in 0..bytes.len() {
                prop_assert_eq!(next(&bytes[..end]), Ok(None));
            }
            prop_assert_eq!(next(&bytes), Ok(Some((hello, bytes.len()))));
        }

        #[test]
        fn any_bytes_are_read_or_refused(list in proptest::collection::vec(any::<u8>(), 0..60), length in 0..60_i32) {
            let _ = next(&list);
            let _ = next(&message(V2, 1, length, &list));
        }
    }
}
