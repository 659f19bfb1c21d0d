//! Validates node paths and resolves relative ones.

use crate::command_error::CommandError;

/// Validates a path with the error texts of `zkCli`.
pub fn validate(path: &str) -> Result<(), CommandError> {
    let Some(first) = path.chars().next() else { return Err(CommandError::message("Path length must be > 0")) };
    if first != '/' {
        return Err(CommandError::message("Path must start with / character"));
    }
    if path == "/" {
        return Ok(());
    }
    if path.ends_with('/') {
        return Err(CommandError::message("Path must not end with / character"));
    }
    // Compat: positions count UTF-16 units.
    let units: Vec<u16> = path.encode_utf16().collect();
    let is = |at: usize, wanted: char| units.get(at).is_some_and(|unit| u32::from(*unit) == u32::from(wanted));
    let ends = |at: usize| at == units.len() || is(at, '/');
    for (at, unit) in units.iter().enumerate().skip(1) {
        let name_begins = is(at - 1, '/');
        let reason = match *unit {
            0 => "null character not allowed",
            _ if is(at, '/') && name_begins => "empty node name specified",
            _ if is(at, '.') && name_begins && ends(at + 1) => "relative paths not allowed",
            _ if is(at, '.') && name_begins && is(at + 1, '.') && ends(at + 2) => {
                // Compat: the position of the second dot.
                return Err(invalid(path, "relative paths not allowed", at + 1));
            }
            0x0001..=0x001f | 0x007f..=0x009f | 0xd800..=0xf8ff | 0xfff0..=0xffff => "invalid character",
            _ => continue,
        };
        return Err(invalid(path, reason, at));
    }
    Ok(())
}

fn invalid(path: &str, reason: &str, at: usize) -> CommandError {
    CommandError::message(format!("Invalid path string \"{path}\" caused by {reason} @{at}"))
}

/// Resolves a typed path against a directory: `..` goes up, `.` stays, a trailing slash is ignored.
pub fn resolve(directory: &str, typed: &str) -> String {
    let whole = if typed.starts_with('/') { typed.to_owned() } else { format!("{directory}/{typed}") };
    let mut names: Vec<&str> = Vec::new();
    for name in whole.split('/') {
        match name {
            "" | "." => (),
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_paths_are_rejected_with_the_texts_of_zkcli() {
        for (path, text) in [
            ("", "Path length must be > 0"),
            ("a", "Path must start with / character"),
            ("//", "Path must not end with / character"),
            ("/a/", "Path must not end with / character"),
            ("/a//b", "Invalid path string \"/a//b\" caused by empty node name specified @3"),
            ("/a/./b", "Invalid path string \"/a/./b\" caused by relative paths not allowed @3"),
            ("/a/..", "Invalid path string \"/a/..\" caused by relative paths not allowed @4"),
            ("/a\0", "Invalid path string \"/a\0\" caused by null character not allowed @2"),
            ("/a\x01", "Invalid path string \"/a\x01\" caused by invalid character @2"),
        ] {
            assert_eq!(validate(path), Err(CommandError::message(text)), "{path}");
        }
        for path in ["/", "/a", "/a/b.c", "/.a/..b/c..", "/ä"] {
            assert_eq!(validate(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn relative_paths_are_resolved() {
        for (directory, typed, path) in [
            ("/", "a", "/a"),
            ("/a/b", "..", "/a"),
            ("/a/b", "../../../c/", "/c"),
            ("/a", ".", "/a"),
            ("/a", "/b/", "/b"),
            ("/a", "b/./c", "/a/b/c"),
        ] {
            assert_eq!(resolve(directory, typed), path, "{typed} in {directory}");
        }
    }
}
