//! The digest scheme: an id is `user:BASE64(SHA1(user:password))`.

use super::Identity;
use crate::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use subtle::ConstantTimeEq as _;

/// The id that `user:password` proves. Any bytes are accepted; without a colon all of them are the user.
pub fn digest_id(credentials: &[u8]) -> String {
    let text = ox_proto::jute::decode_text(credentials);
    let user = text.split(':').next().unwrap_or_default();
    format!("{user}:{}", STANDARD.encode(Sha1::digest(text.as_bytes())))
}

pub(super) fn authenticate(state: &State, auth: Option<&[u8]>) -> Option<Vec<Identity>> {
    let id = digest_id(auth?);
    let is_super =
        state.options().super_digest.as_ref().is_some_and(|digest| bool::from(digest.as_bytes().ct_eq(id.as_bytes())));
    let mut proven = Vec::new();
    if is_super {
        proven.push(Identity { scheme: "super".into(), id: String::new() });
    }
    proven.push(Identity { scheme: "digest".into(), id });
    Some(proven)
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
        assert_eq!(digest_id(b"bob:pw"), "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=");
        assert_eq!(digest_id(b"super:secret"), "super:lK75jTNcA+U9vtVEw5vB51mj/w4=");
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
