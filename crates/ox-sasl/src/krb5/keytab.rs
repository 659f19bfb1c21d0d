//! Keytab files: the long-term keys of services.
//!
//! ```text
//! 05 02                    version
//! entry*:  length i32      negative: a hole of that size; zero: the end
//!          count u16       components; realm and components follow, each with a length u16
//!          name type u32, timestamp u32, kvno u8
//!          key             type u16, length u16, bytes
//!          kvno u32        optional; zero or absent means the short one
//! ```

use super::crypto::{Etype, KerberosKey};
use super::file_reader::{FileReader, text};
use super::principal::Principal;
use super::{EtypeName, KerberosError};

/// More entries are refused.
const ENTRIES_MAX: usize = 10_000;
const COMPONENTS_MAX: u16 = 16;

#[derive(Clone, Debug, Default)]
pub struct Keytab {
    entries: Vec<KeytabEntry>,
    /// Entries with encryption types that are not supported, for messages.
    unsupported: Vec<(Principal, i32)>,
}

#[derive(Clone, Debug)]
pub struct KeytabEntry {
    pub principal: Principal,
    pub kvno: u32,
    pub key: KerberosKey,
}

impl Keytab {
    pub fn parse(bytes: &[u8]) -> Result<Self, KerberosError> {
        let malformed = |reason: &str| KerberosError::File { file: "keytab", reason: reason.to_owned() };
        let mut reader = FileReader(bytes);
        match reader.u16() {
            Some(0x0502) => (),
            Some(0x0501) => return Err(malformed("version 1 is not supported; write the keytab again with ktutil")),
            _ => return Err(malformed("this is not a keytab")),
        }
        let mut keytab = Self::default();
        while let Some(length) = reader.u32().map(u32::cast_signed).filter(|length| *length != 0) {
            let size = usize::try_from(length.unsigned_abs()).map_err(|_| malformed("an entry is too long"))?;
            let entry = reader.bytes(size).ok_or_else(|| malformed("the last entry is cut off"))?;
            if length < 0 {
                continue;
            }
            if ENTRIES_MAX <= keytab.entries.len() + keytab.unsupported.len() {
                return Err(malformed("too many entries"));
            }
            keytab.add(entry).ok_or_else(|| malformed("an entry is malformed"))?;
        }
        Ok(keytab)
    }

    fn add(&mut self, entry: &[u8]) -> Option<()> {
        let mut entry = FileReader(entry);
        let count = entry.u16().filter(|count| *count <= COMPONENTS_MAX)?;
        let realm = text(entry.short()?)?;
        let components = (0..count).map(|_| text(entry.short()?)).collect::<Option<Vec<_>>>()?;
        let name_type = entry.u32()?.cast_signed();
        let _timestamp = entry.u32()?;
        let short_kvno = entry.u8()?;
        let etype = i32::from(entry.u16()?);
        let key = entry.short()?;
        let kvno = entry.u32().filter(|kvno| *kvno != 0).unwrap_or_else(|| short_kvno.into());
        let principal = Principal { name_type, components, realm };
        match Etype::from_number(etype) {
            Ok(etype) => self.entries.push(KeytabEntry { principal, kvno, key: KerberosKey::new(etype, key).ok()? }),
            Err(_) => self.unsupported.push((principal, etype)),
        }
        Some(())
    }

    pub fn entries(&self) -> &[KeytabEntry] {
        &self.entries
    }

    /// The newest key of a principal with an encryption type, for an initiator.
    pub fn newest_key(&self, principal: &Principal, etype: Etype) -> Option<&KerberosKey> {
        let keys = self.entries.iter().filter(|entry| entry.principal == *principal && entry.key.etype == etype);
        keys.max_by_key(|entry| entry.kvno).map(|entry| &entry.key)
    }

    /// Encryption types for which the keytab has a key of the principal.
    pub fn etypes(&self, principal: &Principal) -> Vec<Etype> {
        Etype::ALL.into_iter().filter(|etype| self.newest_key(principal, *etype).is_some()).collect()
    }

    /// Keys that may have encrypted a ticket. Without a kvno in the ticket, all keys of the type are candidates.
    pub(crate) fn candidates(
        &self,
        principal: &Principal,
        etype: i32,
        kvno: Option<u32>,
    ) -> Result<Vec<&KerberosKey>, KerberosError> {
        let etype = Etype::from_number(etype)?;
        let of_principal = || self.entries.iter().filter(|entry| entry.principal == *principal);
        let keys: Vec<_> = of_principal()
            .filter(|entry| entry.key.etype == etype && kvno.is_none_or(|kvno| kvno == entry.kvno))
            .map(|entry| &entry.key)
            .collect();
        if keys.is_empty() {
            let usable =
                of_principal().map(|entry| format!("kvno {} {}", entry.kvno, EtypeName(entry.key.etype.number())));
            let unusable = self.unsupported.iter().filter(|(known, _)| known == principal);
            let unusable = unusable.map(|(_, etype)| format!("unsupported {}", EtypeName(*etype)));
            let known: Vec<String> = usable.chain(unusable).take(16).collect();
            return Err(KerberosError::NoKey {
                principal: principal.to_string(),
                kvno: kvno.unwrap_or(0),
                etype: EtypeName(etype.number()),
                known: if known.is_empty() { "no key of it".to_owned() } else { known.join(", ") },
            });
        }
        Ok(keys)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn entry(principal: &str, kvno: u32, etype: u16, key: &[u8]) -> Vec<u8> {
        let principal = Principal::parse(principal, None).unwrap();
        let mut out = u16::try_from(principal.components.len()).unwrap().to_be_bytes().to_vec();
        let mut put = |bytes: &[u8]| {
            out.extend(u16::try_from(bytes.len()).unwrap().to_be_bytes());
            out.extend(bytes);
        };
        put(principal.realm.as_bytes());
        principal.components.iter().for_each(|component| put(component.as_bytes()));
        out.extend(1_u32.to_be_bytes());
        out.extend(0_u32.to_be_bytes());
        out.push(kvno.to_be_bytes()[3]);
        out.extend(etype.to_be_bytes());
        out.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
        out.extend(key);
        out.extend(kvno.to_be_bytes());
        [i32::try_from(out.len()).unwrap().to_be_bytes().to_vec(), out].concat()
    }

    pub(crate) fn file(entries: &[Vec<u8>]) -> Vec<u8> {
        [vec![5, 2], entries.concat()].concat()
    }

    #[test]
    fn keys_are_found_by_principal_type_and_kvno() {
        let hole = [(-8_i32).to_be_bytes().to_vec(), vec![9; 8]].concat();
        let keytab = Keytab::parse(&file(&[
            entry("zk/h@R", 1, 18, &[1; 32]),
            hole,
            entry("zk/h@R", 300, 18, &[2; 32]),
            entry("zk/h@R", 2, 23, &[3; 16]),
            entry("zk/h@R", 2, 17, &[4; 16]),
        ]))
        .unwrap();
        let zk = Principal::parse("zk/h@R", None).unwrap();
        assert_eq!(keytab.etypes(&zk), [Etype::Aes256Sha1, Etype::Aes128Sha1]);
        assert_eq!(keytab.newest_key(&zk, Etype::Aes256Sha1).unwrap().bytes(), [2; 32]);
        assert_eq!(keytab.candidates(&zk, 18, Some(1)).unwrap()[0].bytes(), [1; 32]);
        assert_eq!(keytab.candidates(&zk, 18, None).unwrap().len(), 2);
        let error = keytab.candidates(&zk, 18, Some(7)).unwrap_err().to_string();
        assert!(error.ends_with("kvno 2 aes128-cts-hmac-sha1-96, unsupported rc4-hmac"), "{error}");
        let other = Principal::parse("zk/other@R", None).unwrap();
        assert!(keytab.candidates(&other, 18, None).unwrap_err().to_string().ends_with("it has no key of it"));
        assert!(!format!("{keytab:?}").contains("[2, 2"));
    }

    #[test]
    fn malformed_files_are_refused() {
        let good = entry("zk/h@R", 1, 18, &[1; 32]);
        for bytes in [
            vec![],
            vec![5, 1],
            vec![5, 3],
            file(&[good[..good.len() - 1].to_vec()]),
            file(&[entry("zk/h@R", 1, 18, &[1; 31])]),
            file(&[vec![0, 0, 0, 2, 0xFF, 0xFF]]),
            file(&[vec![0x80, 0, 0, 0]]),
            file(&vec![good.clone(); ENTRIES_MAX + 1]),
        ] {
            assert!(Keytab::parse(&bytes).is_err());
        }
        assert_eq!(Keytab::parse(&file(&[good.clone(), vec![0; 4], vec![1]])).unwrap().entries().len(), 1);
    }
}
