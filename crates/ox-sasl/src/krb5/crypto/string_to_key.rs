//! Keys of passwords: PBKDF2 (RFC 3962, 4; RFC 8009, 4).

use super::{Etype, KerberosError, KerberosKey, sha1_profile, sha2_profile};
use crate::krb5::EtypeName;
use crate::secret::SecretBytes;
use pbkdf2::pbkdf2_hmac;
use sha1::Sha1;
use sha2::{Sha256, Sha384};
use zeroize::Zeroizing;

/// More iterations, which an unauthenticated KDC might demand, would block the caller for seconds.
const ITERATIONS_MAX: u32 = 1_000_000;

pub(super) fn string_to_key(
    etype: Etype,
    password: &[u8],
    salt: &[u8],
    parameters: Option<&[u8]>,
) -> Result<KerberosKey, KerberosError> {
    let default = if etype.is_sha1() { 4096 } else { 32768 };
    let iterations = match parameters {
        None => default,
        Some(bytes) => {
            u32::from_be_bytes(bytes.try_into().map_err(|_| KerberosError::Malformed("string-to-key parameters"))?)
        }
    };
    if !(1..=ITERATIONS_MAX).contains(&iterations) {
        return Err(KerberosError::Unsupported("the number of iterations that the KDC demands for the password"));
    }
    let length = etype.key_bytes();
    let mut base = Zeroizing::new(vec![0; length]);
    let name_and_salt = [EtypeName(etype.number()).to_string().as_bytes(), &[0], salt].concat();
    let bytes = match etype {
        Etype::Aes128Sha1 | Etype::Aes256Sha1 => {
            pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut base);
            sha1_profile::derive(&base, b"kerberos")
        }
        Etype::Aes128Sha256 => {
            pbkdf2_hmac::<Sha256>(password, &name_and_salt, iterations, &mut base);
            sha2_profile::derive(etype, &base, b"kerberos", length)
        }
        Etype::Aes256Sha384 => {
            pbkdf2_hmac::<Sha384>(password, &name_and_salt, iterations, &mut base);
            sha2_profile::derive(etype, &base, b"kerberos", length)
        }
    };
    Ok(KerberosKey { etype, bytes: SecretBytes::new(bytes.as_slice()) })
}
