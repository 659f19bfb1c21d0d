//! Validation of paths (client protocol, 5.1), by UTF-16 units.

/// Parent and name, split at the last slash, if the first check of a write accepts the path.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    if path.contains('\0') {
        return None;
    }
    let slash = path.rfind('/')?;
    Some((&path[..slash], &path[slash + 1..]))
}

pub(crate) fn is_valid(path: &str) -> bool {
    let units: Vec<u16> = path.encode_utf16().collect();
    let slash = u16::from(b'/');
    match units[..] {
        [] => return false,
        [first, ..] if first != slash => return false,
        [_] => return true,
        [.., last] if last == slash => return false,
        _ => (),
    }
    let mut element = Vec::new();
    for &unit in units[1..].iter().chain([&slash]) {
        if unit == slash {
            let dots = element.iter().all(|unit| *unit == u16::from(b'.')) && element.len() <= 2;
            if dots {
                return false; // empty, "." or ".."
            }
            element.clear();
        } else if is_forbidden(unit) {
            return false;
        } else {
            element.push(unit);
        }
    }
    true
}

fn is_forbidden(unit: u16) -> bool {
    unit <= 0x1f || (0x7f..=0x9f).contains(&unit) || (0xd800..=0xf8ff).contains(&unit) || 0xfff0 <= unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_elements_and_characters_are_refused() {
        for path in ["/", "/a", "/a/b", "/...", "/b..", "/.b", "/\u{a0}", "/\u{d7ff}", "/\u{f900}", "/\u{ffef}"] {
            assert!(is_valid(path), "{path:?}");
        }
        for path in ["", "a", "/a/", "//", "/a//b", "/.", "/..", "/a/./b", "/a\0", "/\u{7f}", "/\u{fff0}", "/\u{1f600}"]
        {
            assert!(!is_valid(path), "{path:?}");
        }
    }
}
