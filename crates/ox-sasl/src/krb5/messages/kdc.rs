//! Messages between client and KDC.

use super::PVNO;
use super::basic::{EncryptedData, Ticket, encode_name, read_key, read_name};
use crate::krb5::crypto::{Etype, KerberosKey};
use crate::krb5::der::{self, Reader};
use crate::krb5::principal::Principal;
use crate::krb5::{KerberosError, WallTime};

/// Pre-authentication data has few entries; more are refused.
const PA_DATA_MAX: usize = 64;

/// Options of a request, counted from the highest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KdcOptions(u32);

impl KdcOptions {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const RENEWABLE: Self = Self(1 << (31 - 8));
    pub(crate) const RENEW: Self = Self(1 << (31 - 30));
}

#[derive(Clone, Debug)]
pub(crate) struct PaData {
    pub(crate) kind: i32,
    pub(crate) value: Vec<u8>,
}

impl PaData {
    pub(crate) const TGS_REQ: i32 = 1;
    pub(crate) const ENC_TIMESTAMP: i32 = 2;
    pub(crate) const ETYPE_INFO2: i32 = 19;
    pub(crate) const FX_COOKIE: i32 = 133;

    fn read_list(mut reader: Reader<'_>) -> Result<Vec<Self>, KerberosError> {
        let mut list = reader.sequence()?;
        let mut entries = Vec::new();
        while !list.is_empty() {
            if entries.len() == PA_DATA_MAX {
                return Err(list.error());
            }
            let mut entry = list.sequence()?;
            let kind = entry.field(1)?.int32()?;
            entries.push(Self { kind, value: entry.field(2)?.octets()?.to_vec() });
        }
        Ok(entries)
    }

    /// The list in the e-data of an error.
    pub(crate) fn decode_list(bytes: &[u8]) -> Result<Vec<Self>, KerberosError> {
        Self::read_list(Reader::new(bytes, "pre-authentication data"))
    }

    fn encode(&self) -> Vec<u8> {
        der::fields(&[(1, der::integer(self.kind.into())), (2, der::octets(&self.value))])
    }
}

/// Body of AS-REQ and TGS-REQ.
#[derive(Debug)]
pub(crate) struct KdcReqBody<'a> {
    pub(crate) options: KdcOptions,
    /// The client, in AS-REQ only.
    pub(crate) client: Option<&'a Principal>,
    pub(crate) service: &'a Principal,
    /// End of the ticket, and of its renewals, in seconds.
    pub(crate) till: i64,
    pub(crate) renew_till: Option<i64>,
    pub(crate) nonce: u32,
    pub(crate) etypes: &'a [Etype],
}

impl KdcReqBody<'_> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut parts = vec![(0, der::flags(self.options.0))];
        parts.extend(self.client.map(|client| (1, encode_name(client))));
        parts.push((2, der::string(&self.service.realm)));
        parts.push((3, encode_name(self.service)));
        parts.push((5, der::time(self.till)));
        parts.extend(self.renew_till.map(|till| (6, der::time(till))));
        parts.push((7, der::integer(self.nonce.into())));
        let etypes: Vec<_> = self.etypes.iter().map(|etype| der::integer(etype.number().into())).collect();
        parts.push((8, der::sequence(&etypes)));
        der::fields(&parts)
    }
}

/// AS-REQ (10) or TGS-REQ (12).
pub(crate) fn encode_kdc_req(number: u8, pa_data: &[PaData], body: Vec<u8>) -> Vec<u8> {
    let mut parts = vec![(1, der::integer(PVNO)), (2, der::integer(number.into()))];
    if !pa_data.is_empty() {
        parts.push((3, der::sequence(&pa_data.iter().map(PaData::encode).collect::<Vec<_>>())));
    }
    parts.push((4, body));
    der::application(number, &der::fields(&parts))
}

pub(crate) fn encode_pa_timestamp(now: WallTime) -> Vec<u8> {
    der::fields(&[(0, der::time(now.seconds())), (1, der::integer(now.microseconds()))])
}

/// AS-REP (11) or TGS-REP (13).
#[derive(Debug)]
pub(crate) struct KdcRep {
    pub(crate) pa_data: Vec<PaData>,
    pub(crate) client: Principal,
    /// The ticket as it was sent, and its service.
    pub(crate) ticket: Vec<u8>,
    pub(crate) service: Principal,
    pub(crate) enc_part: EncryptedData,
}

impl KdcRep {
    pub(crate) fn decode(bytes: &[u8], number: u8) -> Result<Self, KerberosError> {
        let mut message = Reader::new(bytes, "reply of the KDC").message(number)?;
        message.field(0)?.integer()?;
        let pa_data = message.optional(2)?.map(PaData::read_list).transpose()?.unwrap_or_default();
        let realm = message.field(3)?.string()?;
        let client = read_name(message.field(4)?, realm)?;
        let mut ticket_field = message.field(5)?;
        let service = Ticket::read(ticket_field)?.service;
        let (tag, content) = ticket_field.value()?;
        let ticket = der::tagged(tag, content);
        Ok(Self { pa_data, client, ticket, service, enc_part: EncryptedData::read(message.field(6)?)? })
    }
}

/// What the KDC tells the client about a ticket. Times are in seconds.
#[derive(Debug)]
pub(crate) struct EncKdcRepPart {
    pub(crate) key: KerberosKey,
    pub(crate) nonce: u32,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) renew_till: Option<i64>,
    pub(crate) service: Principal,
}

impl EncKdcRepPart {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, KerberosError> {
        let (number, mut part) = Reader::new(bytes, "reply of the KDC").application()?;
        if number != 25 && number != 26 {
            return Err(part.error());
        }
        let key = read_key(part.field(0)?)?;
        let nonce = part.field(2)?.uint32()?;
        let authtime = part.field(5)?.time()?;
        let start = part.optional(6)?.map(Reader::time).transpose()?.unwrap_or(authtime);
        let end = part.field(7)?.time()?;
        let renew_till = part.optional(8)?.map(Reader::time).transpose()?;
        let realm = part.field(9)?.string()?;
        Ok(Self { key, nonce, start, end, renew_till, service: read_name(part.field(10)?, realm)? })
    }
}

/// One entry of PA-ETYPE-INFO2: how the client's key is made.
#[derive(Debug)]
pub(crate) struct EtypeInfo2 {
    pub(crate) etype: i32,
    pub(crate) salt: Option<String>,
    pub(crate) parameters: Option<Vec<u8>>,
}

impl EtypeInfo2 {
    pub(crate) fn decode_list(bytes: &[u8]) -> Result<Vec<Self>, KerberosError> {
        let mut list = Reader::new(bytes, "ETYPE-INFO2").sequence()?;
        let mut entries = Vec::new();
        while !list.is_empty() {
            if entries.len() == PA_DATA_MAX {
                return Err(list.error());
            }
            let mut entry = list.sequence()?;
            let etype = entry.field(0)?.int32()?;
            let salt = entry.optional(1)?.map(Reader::string).transpose()?;
            let parameters = entry.optional(2)?.map(Reader::octets).transpose()?.map(<[u8]>::to_vec);
            entries.push(Self { etype, salt, parameters });
        }
        Ok(entries)
    }
}

/// KRB-ERROR: why a KDC or acceptor refuses.
#[derive(Debug)]
pub(crate) struct KrbErrorMessage {
    pub(crate) code: i32,
    pub(crate) text: Option<String>,
    pub(crate) data: Option<Vec<u8>>,
}

impl KrbErrorMessage {
    pub(crate) const PREAUTH_REQUIRED: i32 = 25;
    pub(crate) const RESPONSE_TOO_BIG: i32 = 52;

    /// `None` if the bytes are another message.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, KerberosError> {
        let (number, mut message) = Reader::new(bytes, "KRB-ERROR").application()?;
        if number != 30 {
            return Ok(None);
        }
        let code = message.field(6)?.int32()?;
        let text = message.optional(11)?.map(Reader::string).transpose()?;
        let data = message.optional(12)?.map(Reader::octets).transpose()?.map(<[u8]>::to_vec);
        Ok(Some(Self { code, text, data }))
    }

    pub(crate) fn error(&self) -> KerberosError {
        let known = match self.code {
            6 => "client not found in Kerberos database",
            7 => "server not found in Kerberos database",
            14 => "KDC has no support for encryption type",
            18 => "client's credentials have been revoked",
            23 => "password has expired",
            24 => "preauthentication failed: wrong key or password",
            32 => "ticket expired",
            34 => "request is a replay",
            37 => "clock skew too great",
            41 => "message stream modified",
            44 => "specified version of key is not available",
            68 => "wrong realm",
            _ => self.text.as_deref().unwrap_or("no reason given"),
        };
        KerberosError::Kdc { code: self.code, message: crate::krb5::escaped(known) }
    }
}
