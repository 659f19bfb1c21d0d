//! Path rules, identical to Apache's.
//!
//! In the tree's form of a path the root is `""`, so that `parent + "/" + name` holds for every node; in the client's
//! form it is `"/"`.

use ox_proto::ErrorCode;
use ox_proto::limits::PATH_BYTES_MAX;

/// The root in the client's form.
pub const ROOT: &str = "/";
/// The reserved subtree. Nodes below it are not part of the digest.
pub const SYSTEM: &str = "/zookeeper";
/// The node with the ensemble's configuration.
pub const CONFIG: &str = "/zookeeper/config";
/// The subtree with the limits and usage of quotas.
pub const QUOTA: &str = "/zookeeper/quota";

/// Converts from the client's form to the tree's form.
pub fn internal(path: &str) -> &str {
    if path == ROOT { "" } else { path }
}

/// Converts from the tree's form to the client's form.
pub fn external(path: &str) -> &str {
    if path.is_empty() { ROOT } else { path }
}

/// Splits at the last slash into parent (`""` for the root) and name; `None` without a slash.
pub fn split(path: &str) -> Option<(&str, &str)> {
    let slash = path.bytes().rposition(|byte| byte == b'/')?; // names are short, so a byte loop beats memrchr
    Some((&path[..slash], &path[slash + 1..]))
}

/// Splits a path as create and delete do, before any other check: it must contain a slash and no NUL.
pub fn check_splittable(path: &str) -> Result<(&str, &str), ErrorCode> {
    match split(path) {
        Some(parts) if !path.contains('\0') => Ok(parts),
        _ => Err(ErrorCode::BadArguments),
    }
}

/// Whether the tree can store a node of this name. Names that clients may use are restricted further by [`validate`].
pub(crate) fn is_name(name: &str) -> bool {
    (1..=PATH_BYTES_MAX).contains(&name.len())
}

/// The complete validation, for writes.
pub fn validate(path: &str) -> Result<(), ErrorCode> {
    let Some(elements) = path.strip_prefix('/').filter(|rest| rest.len() < PATH_BYTES_MAX) else {
        return Err(ErrorCode::BadArguments);
    };
    let good = elements.is_empty()
        || is_plain(path)
        || elements.split('/').all(|element| !matches!(element, "" | "." | ".."))
            && !elements.chars().any(is_forbidden);
    if good { Ok(()) } else { Err(ErrorCode::BadArguments) }
}

/// A fast check that accepts most valid paths and no invalid one: printable ASCII, no element empty or with a leading
/// dot. Free of branches, so that the compiler vectorises it.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_printable = bytes.iter().fold(true, |all, byte| all & (b' '..=b'~').contains(byte));
    let starts_badly = |(a, b): (&u8, &u8)| (*a == b'/') & ((*b == b'/') | (*b == b'.'));
    let has_bad_start = bytes.iter().zip(&bytes[1..]).fold(false, |any, pair| any | starts_badly(pair));
    is_printable && !has_bad_start && bytes.last() != Some(&b'/')
}

// Compat: Java checks UTF-16 units, so every character above U+FFFF is two forbidden surrogates.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// Whether the tree's digest covers the node: all nodes except those below the reserved node.
pub fn in_digest(path: &str) -> bool {
    !path.strip_prefix(SYSTEM).is_some_and(|rest| rest.starts_with('/'))
}

/// The ancestors of `path` in the tree's form, nearest first, the root last.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(split(path).map(|(parent, _)| parent), |path| split(path).map(|(parent, _)| parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, valid: bool) {
        assert_eq!(validate(path).is_ok(), valid, "{path:?}");
    }

    #[test]
    fn validation_matches_apache_character_by_character() {
        for path in ["/", "/a", "/a/b", "/...", "/b..", "/.b", "/a b", "/\u{a0}", "/\u{d7ff}", "/\u{f900}", "/\u{ffef}"]
        {
            check(path, true);
        }
        for path in ["", "a", "/a/", "//", "/a//b", "/.", "/..", "/a/./b", "/a/../b", "/a/..", "a/b"] {
            check(path, false);
        }
        for c in
            ['\0', '\u{1}', '\u{1f}', '\u{7f}', '\u{9f}', '\u{e000}', '\u{f8ff}', '\u{fff0}', '\u{fffd}', '\u{1f600}']
        {
            check(&format!("/a{c}"), false);
        }
    }

    #[test]
    fn ancestors_end_at_the_root() {
        assert_eq!(ancestors("/a/b/c").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
        assert_eq!(ancestors("").count(), 0);
    }

    #[test]
    fn digest_excludes_nodes_below_the_reserved_node() {
        assert!(in_digest("") && in_digest("/zookeeper") && in_digest("/zookeeperX/a"));
        assert!(!in_digest("/zookeeper/quota"));
    }
}
