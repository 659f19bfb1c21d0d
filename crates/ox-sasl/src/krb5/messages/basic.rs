//! Types that several messages contain.

use crate::krb5::KerberosError;
use crate::krb5::crypto::{Etype, KerberosKey};
use crate::krb5::der::{self, Reader};
use crate::krb5::principal::Principal;

/// Names have few components; more are refused before they take memory.
const COMPONENTS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct EncryptedData {
    pub(crate) etype: i32,
    pub(crate) kvno: Option<u32>,
    pub(crate) cipher: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) service: Principal,
    pub(crate) enc_part: EncryptedData,
}

impl EncryptedData {
    pub(crate) fn new(etype: Etype, cipher: Vec<u8>) -> Self {
        Self { etype: etype.number(), kvno: None, cipher }
    }

    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, KerberosError> {
        let mut data = reader.sequence()?;
        let etype = data.field(0)?.int32()?;
        let kvno = data.optional(1)?.map(Reader::uint32).transpose()?;
        Ok(Self { etype, kvno, cipher: data.field(2)?.octets()?.to_vec() })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut parts = vec![(0, der::integer(self.etype.into()))];
        parts.extend(self.kvno.map(|kvno| (1, der::integer(kvno.into()))));
        parts.push((2, der::octets(&self.cipher)));
        der::fields(&parts)
    }
}

impl Ticket {
    pub(crate) fn read(mut reader: Reader<'_>) -> Result<Self, KerberosError> {
        let mut ticket = reader.message(1)?;
        ticket.field(0)?.integer()?;
        let realm = ticket.field(1)?.string()?;
        let service = read_name(ticket.field(2)?, realm)?;
        Ok(Self { service, enc_part: EncryptedData::read(ticket.field(3)?)? })
    }

    #[cfg(test)]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let parts = [
            (0, der::integer(super::PVNO)),
            (1, der::string(&self.service.realm)),
            (2, encode_name(&self.service)),
            (3, self.enc_part.encode()),
        ];
        der::application(1, &der::fields(&parts))
    }
}

pub(crate) fn read_name(mut reader: Reader<'_>, realm: String) -> Result<Principal, KerberosError> {
    let mut name = reader.sequence()?;
    let name_type = name.field(0)?.int32()?;
    let mut strings = name.field(1)?.sequence()?;
    let mut components = Vec::new();
    while !strings.is_empty() {
        if components.len() == COMPONENTS_MAX {
            return Err(strings.error());
        }
        let (tag, content) = strings.value()?;
        let text = std::str::from_utf8(content).ok().filter(|_| tag == der::GENERAL_STRING);
        components.push(text.ok_or_else(|| strings.error())?.to_owned());
    }
    Ok(Principal { name_type, components, realm })
}

pub(crate) fn encode_name(name: &Principal) -> Vec<u8> {
    let strings: Vec<_> = name.components.iter().map(|component| der::string(component)).collect();
    der::fields(&[(0, der::integer(name.name_type.into())), (1, der::sequence(&strings))])
}

pub(crate) fn read_key(mut reader: Reader<'_>) -> Result<KerberosKey, KerberosError> {
    let mut key = reader.sequence()?;
    let etype = Etype::from_number(key.field(0)?.int32()?)?;
    KerberosKey::new(etype, key.field(1)?.octets()?)
}

pub(crate) fn encode_key(key: &KerberosKey) -> Vec<u8> {
    der::fields(&[(0, der::integer(key.etype.number().into())), (1, der::octets(key.bytes()))])
}

pub(crate) fn encode_checksum(number: i32, checksum: &[u8]) -> Vec<u8> {
    der::fields(&[(0, der::integer(number.into())), (1, der::octets(checksum))])
}
