//! Node paths: parents, children, and the rules that a path must follow.

/// Checks a path by the rules of ZooKeeper, which every operation of the client applies before it sends a request. The
/// error is the rule that is broken.
///
/// ```
/// use ox_client::path::validate;
/// assert_eq!(validate("/app/a"), Ok(()));
/// assert_eq!(validate("app"), Err("it must start with /"));
/// assert_eq!(validate("/app/"), Err("it must not end with /"));
/// ```
pub fn validate(path: &str) -> Result<(), &'static str> {
    if path == "/" || is_plain(path) {
        return Ok(());
    }
    let Some(names) = path.strip_prefix('/') else {
        return Err(if path.is_empty() { "it is empty" } else { "it must start with /" });
    };
    if path.ends_with('/') {
        return Err("it must not end with /");
    }
    if names.split('/').any(str::is_empty) {
        return Err("it contains an empty name");
    }
    if names.split('/').any(|name| matches!(name, "." | "..")) {
        return Err("the names . and .. are not allowed");
    }
    if names.chars().any(is_forbidden) {
        return Err("it contains a character that servers do not accept");
    }
    Ok(())
}

/// A fast check that accepts most valid paths and no invalid one: printable ASCII, no name empty or with a leading dot.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_printable = bytes.iter().fold(true, |all, byte| all & (b' '..=b'~').contains(byte));
    let starts_badly = |(a, b): (&u8, &u8)| (*a == b'/') & ((*b == b'/') | (*b == b'.'));
    let has_bad_start = bytes.iter().zip(bytes.iter().skip(1)).fold(false, |any, pair| any | starts_badly(pair));
    bytes.first() == Some(&b'/') && is_printable && !has_bad_start && bytes.last() != Some(&b'/')
}

// Compat: Java checks UTF-16 units, so every character above U+FFFF is two forbidden surrogates.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// The parent of a path; the root has none.
///
/// ```
/// use ox_client::path::parent;
/// assert_eq!([parent("/a/b"), parent("/a"), parent("/")], [Some("/a"), Some("/"), None]);
/// ```
pub fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some(("", "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((above, _)) => Some(above),
    }
}

/// The path of a child of `path`.
///
/// ```
/// use ox_client::path::child;
/// assert_eq!([child("/", "a"), child("/a", "b")], ["/a", "/a/b"]);
/// ```
pub fn child(path: &str, name: &str) -> String {
    if path == "/" { format!("/{name}") } else { format!("{path}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_servers_accept_is_valid() {
        for path in ["/", "/a", "/a/b.c", "/...", "/.a/..b/c..", "/a b", "/ä", "/\u{ffef}"] {
            assert_eq!(validate(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn path_that_breaks_a_rule_is_rejected_with_the_rule() {
        for (path, rule) in [
            ("", "it is empty"),
            ("a", "it must start with /"),
            ("a/b", "it must start with /"),
            ("//", "it must not end with /"),
            ("/a/", "it must not end with /"),
            ("/a//b", "it contains an empty name"),
            ("/.", "the names . and .. are not allowed"),
            ("/a/../b", "the names . and .. are not allowed"),
            ("/a\0", "it contains a character that servers do not accept"),
            ("/a\u{1f600}", "it contains a character that servers do not accept"),
        ] {
            assert_eq!(validate(path), Err(rule), "{path}");
        }
    }
}
