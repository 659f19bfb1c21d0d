//! The digest scheme: an id is `user:BASE64(HASH(user:password))`.

use super::{AuthOutcome, Identity};
use crate::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use sha2::{Sha256, Sha384, Sha512};
use sha3::{Sha3_256, Sha3_512};
use subtle::ConstantTimeEq as _;

/// The hash of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestHash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
    Sha3_256,
    Sha3_512,
}

impl DigestHash {
    /// The names of Java, which are compared without regard to case.
    pub const NAMES: &[(&'static str, Self)] = &[
        ("SHA1", Self::Sha1),
        ("SHA-1", Self::Sha1),
        ("SHA", Self::Sha1),
        ("SHA-256", Self::Sha256),
        ("SHA-384", Self::Sha384),
        ("SHA-512", Self::Sha512),
        ("SHA3-256", Self::Sha3_256),
        ("SHA3-512", Self::Sha3_512),
    ];

    fn base64(self, text: &[u8]) -> String {
        match self {
            Self::Sha1 => STANDARD.encode(Sha1::digest(text)),
            Self::Sha256 => STANDARD.encode(Sha256::digest(text)),
            Self::Sha384 => STANDARD.encode(Sha384::digest(text)),
            Self::Sha512 => STANDARD.encode(Sha512::digest(text)),
            Self::Sha3_256 => STANDARD.encode(Sha3_256::digest(text)),
            Self::Sha3_512 => STANDARD.encode(Sha3_512::digest(text)),
        }
    }
}

/// The id that `user:password` proves. Any bytes are accepted; without a colon all of them are the user.
pub fn digest_id(hash: DigestHash, credentials: &[u8]) -> String {
    let text = ox_proto::jute::decode_text(credentials);
    let user = text.split(':').next().unwrap_or_default();
    format!("{user}:{}", hash.base64(text.as_bytes()))
}

pub(super) fn authenticate(state: &State, auth: Option<&[u8]>) -> AuthOutcome {
    let (Some(auth), settings) = (auth, &state.options().schemes) else { return AuthOutcome::Failed };
    let id = digest_id(settings.digest_hash, auth);
    let is_super = settings.super_digest.as_ref().is_some_and(|digest| digest.matches(&id));
    let mut proven = Vec::new();
    if is_super {
        proven.push(Identity { scheme: "super".into(), id: String::new() });
    }
    proven.push(Identity { scheme: "digest".into(), id });
    AuthOutcome::Proven(proven)
}

/// Compares in constant time.
pub(super) fn matches(proven: &str, entry: &str) -> bool {
    proven.as_bytes().ct_eq(entry.as_bytes()).into()
}

// Two parts; like Java's split, trailing empty parts do not count.
pub(super) fn is_valid(id: &str) -> bool {
    let parts: Vec<&str> = id.split(':').collect();
    let trailing = parts.iter().rev().take_while(|part| part.is_empty()).count();
    parts.len() - trailing == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_ids_match_apache() {
        assert_eq!(digest_id(DigestHash::Sha1, b"bob:pw"), "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=");
        assert_eq!(digest_id(DigestHash::Sha1, b"super:secret"), "super:lK75jTNcA+U9vtVEw5vB51mj/w4=");
    }

    #[test]
    fn hashes_match_other_implementations() {
        assert_eq!(digest_id(DigestHash::Sha256, b"bob:pw"), "bob:lXdkgIa9O1CDDWAryQ0pe9wUYi2LkG6M7Uocn/Vyn2g=");
        assert_eq!(
            digest_id(DigestHash::Sha384, b"bob:pw"),
            "bob:Pd/l06QeLk9MqD36VccOX0Fw1tgKhSdAl0mKINCHnwpI9R17BoWbdxukNC3K47Q1"
        );
        assert_eq!(
            digest_id(DigestHash::Sha512, b"bob:pw"),
            "bob:jQFpfQMlS0Fkelz3cdxBlcfmOOApGvKAjybCSpc/oHQD7ouOUKaAFXPlHr/2XpjmwJ0yssqB0Mh7gRRVqmyALQ=="
        );
        assert_eq!(digest_id(DigestHash::Sha3_256, b"bob:pw"), "bob:W/mjsw4pvF0wVTGZI9EiUQDRnUt7BAezTWEy2LgNGUU=");
        assert_eq!(
            digest_id(DigestHash::Sha3_512, b"bob:pw"),
            "bob:9JiU1QoRHYjkQxinb/Pky+SyJQD3SLv3LWNYy7TX/W5j+QuI+VpFa9SjJxvJcHoP9V3Nqf0j+v3SigN2Lchj6Q=="
        );
    }

    #[test]
    fn valid_ids_have_two_parts() {
        for id in ["a:b", ":b", "a:b:"] {
            assert!(is_valid(id), "{id}");
        }
        for id in ["a", "a:", "a:b:c", "", ":"] {
            assert!(!is_valid(id), "{id}");
        }
    }
}
