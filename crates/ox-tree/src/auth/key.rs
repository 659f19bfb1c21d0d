//! The key scheme, Apache's example of a provider that reads the tree: a client proves the identity `key:` by sending a
//! multiple of the number in the node `/key`.

use super::{AuthOutcome, Identity};
use crate::State;

const NODE: &str = "/key";

/// If the node is missing or its data is null, every client is accepted, so that the key can be set.
pub(super) fn authenticate(state: &State, auth: Option<&[u8]>) -> AuthOutcome {
    let key = state.tree.find(NODE).and_then(|id| state.tree.get(id).data());
    let is_accepted = auth.is_some_and(|auth| key.is_none_or(|key| is_multiple(key, auth)));
    if !is_accepted {
        return AuthOutcome::Failed;
    }
    // Compat: the id is empty, whatever the number.
    AuthOutcome::Proven(vec![Identity { scheme: "key".into(), id: String::new() }])
}

fn is_multiple(key: &[u8], auth: &[u8]) -> bool {
    let (Some(key), Some(auth)) = (number(key), number(auth)) else { return false };
    key == 0 || auth.wrapping_rem(key) == 0
}

fn number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_of_the_key_are_accepted() {
        for (key, auth) in [("25", "100"), ("25", "+0"), ("25", "-50"), ("0", "7"), ("-1", "-2147483648")] {
            assert!(is_multiple(key.as_bytes(), auth.as_bytes()), "{key} {auth}");
        }
        for (key, auth) in [("25", "101"), ("25", ""), ("25", "x"), ("25", " 25"), ("25", "2147483648"), ("", "25")] {
            assert!(!is_multiple(key.as_bytes(), auth.as_bytes()), "{key} {auth}");
        }
    }
}
