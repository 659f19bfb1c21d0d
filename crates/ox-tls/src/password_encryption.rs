//! Decryption with a password: PBES2 of PKCS#5, and the older schemes and the MAC of PKCS#12.
//!
//! | who writes it | keys and certificates | MAC |
//! |---|---|---|
//! | keytool from JDK 16 on, openssl 3 | PBES2: PBKDF2 with HMAC-SHA256, AES-256-CBC | HMAC-SHA256 |
//! | older ones, `-legacy` | SHA-1 with triple DES; RC2 with 40 bits for certificates | HMAC-SHA1 |
//!
//! AES, digests and PBKDF2 come from aws-lc, which has neither RC2 nor, by default, DES.

use crate::der::{self, DerReader, OCTET_STRING, SEQUENCE, oid_text};
use crate::error::StoreProblem;
use aws_lc_rs::{cipher, digest, hmac, pbkdf2};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, InnerIvInit, KeyIvInit};
use std::num::NonZeroU32;
use zeroize::Zeroizing;

/// Java's own limit. The usual tools use 1 000 to 600 000.
const ITERATIONS_MAX: u32 = 5_000_000;

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];

/// Pseudo-random functions of PBKDF2.
const PBKDF2_FUNCTIONS: [(&[u8], pbkdf2::Algorithm); 4] = [
    (HMAC_SHA1, pbkdf2::PBKDF2_HMAC_SHA1),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 9], pbkdf2::PBKDF2_HMAC_SHA256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 10], pbkdf2::PBKDF2_HMAC_SHA384),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 11], pbkdf2::PBKDF2_HMAC_SHA512),
];
const HMAC_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 7];

/// Names of schemes that are refused, for the error.
const REFUSED: [(&[u8], &str); 8] = [
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 1], "PBE-MD2-DES"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 3], "PBE-MD5-DES"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 10], "PBE-SHA1-DES"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 14], "PBMAC1"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 1, 1], "PBE-SHA1-RC4-128"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 1, 2], "PBE-SHA1-RC4-40"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 3, 7], "DES-EDE3-CBC"),
    (&[0x2b, 6, 1, 4, 1, 0xda, 0x47, 4, 11], "scrypt"),
];

/// Ciphers of PKCS#12, whose key and IV come from its own derivation function.
#[derive(Clone, Copy)]
enum OldCipher {
    TripleDes,
    TwoKeyTripleDes,
    Rc2 { key_bytes: usize },
}

const OLD_CIPHERS: [(&[u8], OldCipher); 4] = [
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 1, 3], OldCipher::TripleDes),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 1, 4], OldCipher::TwoKeyTripleDes),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 1, 5], OldCipher::Rc2 { key_bytes: 16 }),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 1, 6], OldCipher::Rc2 { key_bytes: 5 }),
];

/// Digests of the MAC, with the block size of the derivation function.
struct MacDigest {
    oid: &'static [u8],
    digest: &'static digest::Algorithm,
    hmac: hmac::Algorithm,
}

static MAC_DIGESTS: [MacDigest; 4] = [
    MacDigest {
        oid: &[0x2b, 14, 3, 2, 26],
        digest: &digest::SHA1_FOR_LEGACY_USE_ONLY,
        hmac: hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
    },
    MacDigest { oid: &[0x60, 0x86, 0x48, 1, 101, 3, 4, 2, 1], digest: &digest::SHA256, hmac: hmac::HMAC_SHA256 },
    MacDigest { oid: &[0x60, 0x86, 0x48, 1, 101, 3, 4, 2, 2], digest: &digest::SHA384, hmac: hmac::HMAC_SHA384 },
    MacDigest { oid: &[0x60, 0x86, 0x48, 1, 101, 3, 4, 2, 3], digest: &digest::SHA512, hmac: hmac::HMAC_SHA512 },
];

/// A password in the two encodings that the schemes use.
pub(crate) struct EncodedPassword<'a> {
    utf8: &'a str,
    /// UTF-16, big endian, with two zero bytes at the end. PKCS#12's own derivation uses it.
    bmp: Zeroizing<Vec<u8>>,
}

impl<'a> EncodedPassword<'a> {
    pub(crate) fn new(password: &'a str) -> Self {
        let units = password.encode_utf16().chain([0]);
        Self { utf8: password, bmp: Zeroizing::new(units.flat_map(u16::to_be_bytes).collect()) }
    }

    /// The other encoding of an empty password, for PKCS#12: no bytes at all. Some tools use it.
    pub(crate) fn none() -> Self {
        Self { utf8: "", bmp: Zeroizing::new(Vec::new()) }
    }
}

/// Decrypts with the scheme that `algorithm`, the content of an AlgorithmIdentifier, names.
pub(crate) fn decrypt(
    mut algorithm: DerReader<'_>,
    password: &EncodedPassword<'_>,
    data: &[u8],
) -> Result<Zeroizing<Vec<u8>>, StoreProblem> {
    let oid = algorithm.oid()?;
    if oid == PBES2 {
        return decrypt_pbes2(algorithm.nested(SEQUENCE)?, password, data);
    }
    let (_, old) = OLD_CIPHERS.iter().find(|(known, _)| *known == oid).ok_or_else(|| unsupported(oid))?;
    let mut parameters = algorithm.nested(SEQUENCE)?;
    let salt = parameters.expect(OCTET_STRING)?.content;
    let iterations = iterations(&mut parameters)?;
    let derive = |purpose, length| {
        pkcs12_derive(&digest::SHA1_FOR_LEGACY_USE_ONLY, purpose, &password.bmp, salt, iterations, length)
    };
    let iv = derive(Purpose::Iv, 8);
    match *old {
        OldCipher::TripleDes => triple_des(&derive(Purpose::Key, 24), &iv, data),
        OldCipher::TwoKeyTripleDes => {
            let mut key = derive(Purpose::Key, 16);
            key.extend_from_within(..8);
            triple_des(&key, &iv, data)
        }
        OldCipher::Rc2 { key_bytes } => rc2(&derive(Purpose::Key, key_bytes), &iv, data),
    }
}

/// Checks the MAC of a PKCS#12 store. `mac` is the content of its MacData.
pub(crate) fn verify_pkcs12_mac(
    mut mac: DerReader<'_>,
    password: &EncodedPassword<'_>,
    data: &[u8],
) -> Result<(), StoreProblem> {
    let mut info = mac.nested(SEQUENCE)?;
    let oid = info.nested(SEQUENCE)?.oid()?;
    let expected = info.expect(OCTET_STRING)?.content;
    let salt = mac.expect(OCTET_STRING)?.content;
    let iterations = if mac.is_empty() { NonZeroU32::MIN } else { iterations(&mut mac)? };
    let known = MAC_DIGESTS.iter().find(|known| known.oid == oid).ok_or_else(|| unsupported(oid))?;
    let length = known.digest.output_len();
    let key = pkcs12_derive(known.digest, Purpose::Mac, &password.bmp, salt, iterations, length);
    hmac::verify(&hmac::Key::new(known.hmac, &key), data, expected).map_err(|_| StoreProblem::WrongPassword)
}

fn decrypt_pbes2(
    mut parameters: DerReader<'_>,
    password: &EncodedPassword<'_>,
    data: &[u8],
) -> Result<Zeroizing<Vec<u8>>, StoreProblem> {
    let mut derivation = parameters.nested(SEQUENCE)?;
    let oid = derivation.oid()?;
    if oid != PBKDF2 {
        return Err(unsupported(oid));
    }
    let mut derivation = derivation.nested(SEQUENCE)?;
    let salt = derivation.expect(OCTET_STRING)?.content;
    let iterations = iterations(&mut derivation)?;
    derivation.optional(der::INTEGER)?; // length of the key, which the cipher determines
    let function = if derivation.is_empty() { HMAC_SHA1 } else { derivation.nested(SEQUENCE)?.oid()? };
    let function =
        PBKDF2_FUNCTIONS.iter().find(|(known, _)| *known == function).ok_or_else(|| unsupported(function))?;
    let mut encryption = parameters.nested(SEQUENCE)?;
    let oid = encryption.oid()?;
    let (algorithm, key_bytes) = match oid {
        [0x60, 0x86, 0x48, 1, 101, 3, 4, 1, 2] => (&cipher::AES_128, 16),
        [0x60, 0x86, 0x48, 1, 101, 3, 4, 1, 22] => (&cipher::AES_192, 24),
        [0x60, 0x86, 0x48, 1, 101, 3, 4, 1, 42] => (&cipher::AES_256, 32),
        _ => return Err(unsupported(oid)),
    };
    let iv = encryption.expect(OCTET_STRING)?.content;
    let iv = <[u8; 16]>::try_from(iv).map_err(|_| StoreProblem::Damaged("an AES IV has not 16 bytes"))?;
    let mut key = Zeroizing::new(vec![0; key_bytes]);
    pbkdf2::derive(function.1, iterations, salt, password.utf8.as_bytes(), &mut key);
    let key = cipher::UnboundCipherKey::new(algorithm, &key).map_err(|_| StoreProblem::Damaged("AES key"))?;
    let key = cipher::PaddedBlockDecryptingKey::cbc_pkcs7(key).map_err(|_| StoreProblem::Damaged("AES key"))?;
    let mut plain = Zeroizing::new(data.to_owned());
    let context = cipher::DecryptionContext::Iv128(iv.into());
    let length = key.decrypt(&mut plain, context).map_err(|_| StoreProblem::WrongPassword)?.len();
    plain.truncate(length);
    Ok(plain)
}

fn iterations(parameters: &mut DerReader<'_>) -> Result<NonZeroU32, StoreProblem> {
    match NonZeroU32::new(parameters.number()?) {
        Some(count) if count.get() <= ITERATIONS_MAX => Ok(count),
        _ => Err(StoreProblem::Damaged("the iteration count of the password is out of range")),
    }
}

fn unsupported(oid: &[u8]) -> StoreProblem {
    let name = REFUSED.iter().find(|(known, _)| *known == oid).map(|(_, name)| (*name).to_owned());
    StoreProblem::UnsupportedEncryption(name.unwrap_or_else(|| format!("algorithm {}", oid_text(oid))))
}

fn triple_des(key: &[u8], iv: &[u8], data: &[u8]) -> Result<Zeroizing<Vec<u8>>, StoreProblem> {
    let cipher = cbc::Decryptor::<des::TdesEde3>::new_from_slices(key, iv);
    unpad(cipher.map_err(|_| StoreProblem::Damaged("triple DES key"))?, data)
}

fn rc2(key: &[u8], iv: &[u8], data: &[u8]) -> Result<Zeroizing<Vec<u8>>, StoreProblem> {
    let iv = iv.try_into().map_err(|_| StoreProblem::Damaged("RC2 IV"))?;
    let cipher = rc2::Rc2::new_with_eff_key_len(key, key.len() * 8);
    unpad(cbc::Decryptor::inner_iv_init(cipher, iv), data)
}

fn unpad(cipher: impl BlockModeDecrypt, data: &[u8]) -> Result<Zeroizing<Vec<u8>>, StoreProblem> {
    let mut plain = Zeroizing::new(data.to_owned());
    let length = cipher.decrypt_padded::<Pkcs7>(&mut plain).map_err(|_| StoreProblem::WrongPassword)?.len();
    plain.truncate(length);
    Ok(plain)
}

/// What a derived key is for: the diversifier of RFC 7292, appendix B.3.
#[derive(Clone, Copy)]
enum Purpose {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// The key derivation of RFC 7292, appendix B.2.
fn pkcs12_derive(
    algorithm: &'static digest::Algorithm,
    purpose: Purpose,
    password: &[u8],
    salt: &[u8],
    iterations: NonZeroU32,
    length: usize,
) -> Zeroizing<Vec<u8>> {
    let block = algorithm.block_len();
    let diversifier = vec![purpose as u8; block];
    let fill = |bytes: &[u8]| bytes.iter().copied().cycle().take(bytes.len().next_multiple_of(block)).collect();
    let mut input: Zeroizing<Vec<u8>> = Zeroizing::new(fill(salt));
    input.append(&mut fill(password));
    let mut derived = Zeroizing::new(Vec::new());
    while derived.len() < length {
        let mut hash = digest::Context::new(algorithm);
        hash.update(&diversifier);
        hash.update(&input);
        let mut hash = hash.finish();
        for _ in 1..iterations.get() {
            hash = digest::digest(algorithm, hash.as_ref());
        }
        derived.extend_from_slice(hash.as_ref());
        for part in input.chunks_mut(block) {
            add_one_and(part, hash.as_ref());
        }
    }
    derived.truncate(length);
    derived
}

/// Adds 1 and the repeated `hash` to a big-endian number, which may overflow.
fn add_one_and(number: &mut [u8], hash: &[u8]) {
    let repeated: Vec<u8> = hash.iter().copied().cycle().take(number.len()).collect();
    let mut carry = 1;
    for (digit, addend) in number.iter_mut().zip(repeated).rev() {
        let sum = u16::from(*digit) + u16::from(addend) + carry;
        let [high, low] = sum.to_be_bytes();
        (carry, *digit) = (u16::from(high), low);
    }
}
