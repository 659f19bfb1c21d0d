//! Helpers for node paths.

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
