//! Credential caches in files, as `kinit` writes them (versions 3 and 4).
//!
//! ```text
//! 05 04, header u16 length + tags      05 03 has no header
//! principal                            name type u32, count u32, realm, components; each with a length u32
//! credential*:  client, server         principals
//!               key                    type u16 (version 3: twice), length u32, bytes
//!               authtime, starttime, endtime, renew till u32
//!               is session key u8, flags u32
//!               addresses, authorisation data   count u32, each: type u16, length u32, bytes
//!               ticket, second ticket  length u32, bytes
//! ```

use super::KerberosError;
use super::crypto::{Etype, KerberosKey};
use super::file_reader::{FileReader, text};
use super::initiator::Credential;
use super::principal::Principal;

/// More credentials are refused.
const CREDENTIALS_MAX: usize = 10_000;
const COMPONENTS_MAX: u32 = 16;
/// Realm of entries that are settings, not tickets.
const SETTINGS_REALM: &str = "X-CACHECONF:";

#[derive(Clone, Debug)]
pub struct CredentialCache {
    pub client: Principal,
    /// Credentials with supported encryption types.
    pub credentials: Vec<Credential>,
}

impl CredentialCache {
    pub fn parse(bytes: &[u8]) -> Result<Self, KerberosError> {
        let malformed = |reason: &str| KerberosError::File { file: "credential cache", reason: reason.to_owned() };
        let mut reader = FileReader(bytes);
        let version = match reader.u16() {
            Some(0x0504) => 4,
            Some(0x0503) => 3,
            _ => return Err(malformed("this is not a credential cache of version 3 or 4")),
        };
        if version == 4 {
            reader.short().ok_or_else(|| malformed("the header is cut off"))?;
        }
        let client = principal(&mut reader).ok_or_else(|| malformed("the principal is malformed"))?;
        let mut credentials = Vec::new();
        let mut count = 0;
        while !reader.0.is_empty() {
            count += 1;
            if CREDENTIALS_MAX < count {
                return Err(malformed("too many credentials"));
            }
            let credential = credential(&mut reader, version).ok_or_else(|| malformed("a credential is malformed"))?;
            credentials.extend(credential);
        }
        Ok(Self { client, credentials })
    }

    /// The ticket of a service with the latest end.
    pub fn find(&self, service: &Principal) -> Option<&Credential> {
        let of_service = |credential: &&Credential| credential.service == *service && credential.client == self.client;
        self.credentials.iter().filter(of_service).max_by_key(|credential| credential.end)
    }

    /// The ticket-granting ticket of the client's realm.
    pub fn ticket_granting_ticket(&self) -> Option<&Credential> {
        self.find(&Principal::ticket_granting(&self.client.realm, &self.client.realm))
    }
}

fn principal(reader: &mut FileReader<'_>) -> Option<Principal> {
    let name_type = reader.u32()?.cast_signed();
    let count = reader.u32().filter(|count| *count <= COMPONENTS_MAX)?;
    let realm = text(reader.long()?)?;
    let components = (0..count).map(|_| text(reader.long()?)).collect::<Option<_>>()?;
    Some(Principal { name_type, components, realm })
}

/// The outer `None` is a malformed entry, the inner one an entry that cannot be used.
fn credential(reader: &mut FileReader<'_>, version: u8) -> Option<Option<Credential>> {
    let client = principal(reader)?;
    let service = principal(reader)?;
    let etype = reader.u16()?;
    if version == 3 {
        reader.u16()?;
    }
    let key = reader.long()?;
    let [authtime, start, end, renew_till] =
        [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?].map(i64::from);
    reader.bytes(5)?;
    for _ in 0..2 {
        let count = reader.u32()?;
        for _ in 0..count {
            reader.u16()?;
            reader.long()?;
        }
    }
    let ticket = reader.long()?.to_vec();
    reader.long()?;
    let key = Etype::from_number(etype.into()).and_then(|etype| KerberosKey::new(etype, key));
    let Some(key) = key.ok().filter(|_| service.realm != SETTINGS_REALM) else { return Some(None) };
    let start = if start == 0 { authtime } else { start };
    let renew_till = (renew_till != 0).then_some(renew_till);
    Some(Some(Credential { client, service, ticket, key, start, end, renew_till }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn put(out: &mut Vec<u8>, bytes: &[u8]) {
        out.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
        out.extend(bytes);
    }

    fn put_principal(out: &mut Vec<u8>, text: &str) {
        let principal = Principal::parse(text, None).unwrap();
        out.extend(1_u32.to_be_bytes());
        out.extend(u32::try_from(principal.components.len()).unwrap().to_be_bytes());
        put(out, principal.realm.as_bytes());
        principal.components.iter().for_each(|component| put(out, component.as_bytes()));
    }

    fn put_credential(out: &mut Vec<u8>, service: &str, etype: u16, end: u32) {
        put_principal(out, "bob@R");
        put_principal(out, service);
        out.extend(etype.to_be_bytes());
        put(out, &[7; 32]);
        [100, 0, end, 0].into_iter().for_each(|time: u32| out.extend(time.to_be_bytes()));
        out.extend([0; 5]);
        out.extend([0, 0, 0, 1, 0, 2, 0, 0, 0, 1, 9]);
        out.extend([0; 4]);
        put(out, b"ticket");
        put(out, b"");
    }

    pub(crate) fn file() -> Vec<u8> {
        let mut out = vec![5, 4, 0, 3, 1, 2, 3];
        put_principal(&mut out, "bob@R");
        put_credential(&mut out, "krbtgt/R@R", 18, 200);
        put_credential(&mut out, "krbtgt/R@R", 18, 300);
        put_credential(&mut out, "zk/h@R", 23, 300);
        put_credential(&mut out, "krb5_ccache_conf_data/x@X-CACHECONF:", 18, 300);
        out
    }

    #[test]
    fn newest_ticket_is_found() {
        let cache = CredentialCache::parse(&file()).unwrap();
        assert_eq!(cache.credentials.len(), 2);
        let ticket = cache.ticket_granting_ticket().unwrap();
        assert_eq!(
            (ticket.start, ticket.end, ticket.renew_till, ticket.ticket.as_slice()),
            (100, 300, None, b"ticket".as_slice())
        );
        assert!(cache.find(&Principal::parse("zk/h@R", None).unwrap()).is_none());
    }

    #[test]
    fn truncated_files_are_refused() {
        let file = file();
        let mut complete = 0;
        for length in 0..file.len() {
            complete += usize::from(CredentialCache::parse(&file[..length]).is_ok());
        }
        assert_eq!(complete, 4, "a cache may end between credentials");
        assert!(CredentialCache::parse(&[5, 2]).is_err());
    }
}
