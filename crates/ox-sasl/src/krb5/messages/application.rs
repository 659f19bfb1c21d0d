//! Messages between initiator and acceptor: AP-REQ, AP-REP and what they encrypt.

use super::PVNO;
use super::basic::{EncryptedData, Ticket, encode_key, encode_name, read_key, read_name};
use crate::krb5::crypto::KerberosKey;
use crate::krb5::der::{self, Reader};
use crate::krb5::principal::Principal;
use crate::krb5::{KerberosError, WallTime};

/// Options of AP-REQ, counted from the highest bit.
const USE_SESSION_KEY: u32 = 1 << 30;
pub(crate) const MUTUAL_REQUIRED: u32 = 1 << 29;
/// Flags of a ticket.
const INVALID: u32 = 1 << (31 - 7);
const TRANSITED_POLICY_CHECKED: u32 = 1 << (31 - 12);

#[derive(Debug)]
pub(crate) struct ApReq {
    pub(crate) options: u32,
    pub(crate) ticket: Ticket,
    pub(crate) authenticator: EncryptedData,
}

impl ApReq {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, KerberosError> {
        let mut message = Reader::new(bytes, "AP-REQ").message(14)?;
        if message.field(0)?.integer()? != PVNO || message.field(1)?.integer()? != 14 {
            return Err(message.error());
        }
        let options = message.field(2)?.flags()?;
        let ticket = Ticket::read(message.field(3)?)?;
        Ok(Self { options, ticket, authenticator: EncryptedData::read(message.field(4)?)? })
    }

    pub(crate) fn uses_session_key(&self) -> bool {
        self.options & USE_SESSION_KEY != 0
    }

    pub(crate) fn encode(is_mutual: bool, ticket: &[u8], authenticator: &EncryptedData) -> Vec<u8> {
        let parts = [
            (0, der::integer(PVNO)),
            (1, der::integer(14)),
            (2, der::flags(if is_mutual { MUTUAL_REQUIRED } else { 0 })),
            (3, ticket.to_vec()),
            (4, authenticator.encode()),
        ];
        der::application(14, &der::fields(&parts))
    }
}

/// What the KDC tells the service about the client.
#[derive(Debug)]
pub(crate) struct EncTicketPart {
    pub(crate) flags: u32,
    pub(crate) key: KerberosKey,
    pub(crate) client: Principal,
    pub(crate) has_transited: bool,
    /// When the ticket becomes valid and ends, in seconds.
    pub(crate) start: i64,
    pub(crate) end: i64,
}

impl EncTicketPart {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, KerberosError> {
        let mut part = Reader::new(bytes, "ticket").message(3)?;
        let flags = part.field(0)?.flags()?;
        let key = read_key(part.field(1)?)?;
        let realm = part.field(2)?.string()?;
        let client = read_name(part.field(3)?, realm)?;
        let mut transited = part.field(4)?.sequence()?;
        let has_transited = !transited.field(1)?.octets()?.is_empty();
        let authtime = part.field(5)?.time()?;
        let start = part.optional(6)?.map(Reader::time).transpose()?.unwrap_or(authtime);
        Ok(Self { flags, key, client, has_transited, start, end: part.field(7)?.time()? })
    }

    pub(crate) fn is_invalid(&self) -> bool {
        self.flags & INVALID != 0
    }

    /// Whether the KDC has checked the realms between the client's and its own.
    pub(crate) fn is_path_trusted(&self) -> bool {
        !self.has_transited || self.flags & TRANSITED_POLICY_CHECKED != 0
    }

    #[cfg(test)]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let transited = if self.has_transited { b"X".as_slice() } else { b"" };
        let parts = [
            (0, der::flags(self.flags)),
            (1, encode_key(&self.key)),
            (2, der::string(&self.client.realm)),
            (3, encode_name(&self.client)),
            (4, der::fields(&[(0, der::integer(1)), (1, der::octets(transited))])),
            (5, der::time(self.start)),
            (7, der::time(self.end)),
        ];
        der::application(3, &der::fields(&parts))
    }
}

#[derive(Debug)]
pub(crate) struct Authenticator {
    pub(crate) client: Principal,
    pub(crate) checksum: Option<(i32, Vec<u8>)>,
    pub(crate) time: WallTime,
    pub(crate) subkey: Option<KerberosKey>,
    pub(crate) sequence: Option<u32>,
}

impl Authenticator {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, KerberosError> {
        let mut part = Reader::new(bytes, "authenticator").message(2)?;
        part.field(0)?.integer()?;
        let realm = part.field(1)?.string()?;
        let client = read_name(part.field(2)?, realm)?;
        let checksum = match part.optional(3)? {
            None => None,
            Some(mut checksum) => {
                let mut checksum = checksum.sequence()?;
                Some((checksum.field(0)?.int32()?, checksum.field(1)?.octets()?.to_vec()))
            }
        };
        let micros = read_micros(part.field(4)?)?;
        let time = WallTime(part.field(5)?.time()? * 1_000_000 + micros);
        let subkey = part.optional(6)?.map(read_key).transpose()?;
        let sequence = part.optional(7)?.map(Reader::uint32).transpose()?;
        Ok(Self { client, checksum, time, subkey, sequence })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut parts =
            vec![(0, der::integer(PVNO)), (1, der::string(&self.client.realm)), (2, encode_name(&self.client))];
        parts.extend(self.checksum.as_ref().map(|(number, sum)| (3, super::encode_checksum(*number, sum))));
        parts.push((4, der::integer(self.time.microseconds())));
        parts.push((5, der::time(self.time.seconds())));
        parts.extend(self.subkey.as_ref().map(|key| (6, encode_key(key))));
        parts.extend(self.sequence.map(|sequence| (7, der::integer(sequence.into()))));
        der::application(2, &der::fields(&parts))
    }
}

pub(crate) struct ApRep;

impl ApRep {
    pub(crate) fn decode(bytes: &[u8]) -> Result<EncryptedData, KerberosError> {
        let mut message = Reader::new(bytes, "AP-REP").message(15)?;
        message.field(0)?.integer()?;
        EncryptedData::read(message.field(2)?)
    }

    pub(crate) fn encode(part: &EncryptedData) -> Vec<u8> {
        let parts = [(0, der::integer(PVNO)), (1, der::integer(15)), (2, part.encode())];
        der::application(15, &der::fields(&parts))
    }
}

/// What the acceptor proves: the time of the authenticator.
#[derive(Debug)]
pub(crate) struct EncApRepPart {
    pub(crate) time: WallTime,
    pub(crate) subkey: Option<KerberosKey>,
    pub(crate) sequence: Option<u32>,
}

impl EncApRepPart {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, KerberosError> {
        let mut part = Reader::new(bytes, "AP-REP").message(27)?;
        let seconds = part.field(0)?.time()?;
        let time = WallTime(seconds * 1_000_000 + read_micros(part.field(1)?)?);
        let subkey = part.optional(2)?.map(read_key).transpose()?;
        Ok(Self { time, subkey, sequence: part.optional(3)?.map(Reader::uint32).transpose()? })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut parts = vec![(0, der::time(self.time.seconds())), (1, der::integer(self.time.microseconds()))];
        parts.extend(self.subkey.as_ref().map(|key| (2, encode_key(key))));
        parts.extend(self.sequence.map(|sequence| (3, der::integer(sequence.into()))));
        der::application(27, &der::fields(&parts))
    }
}

fn read_micros(reader: Reader<'_>) -> Result<i64, KerberosError> {
    let error = reader.error();
    reader.integer().ok().filter(|micros| (0..1_000_000).contains(micros)).ok_or(error)
}
