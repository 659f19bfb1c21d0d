//! Java's string semantics: decoding, `trim` and `split`.
//!
//! Decoding never fails. On the wire every malformed sequence becomes U+FFFD the way Java's decoder counts
//! them; on disk a CESU-8 surrogate pair (what Apache writes for a character above U+FFFF) is joined first.

use std::borrow::Cow;

/// Java's `trim`: removes characters up to and including the space at both ends.
pub fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// Java's `split` on one character: drops trailing empty parts, but keeps text without the separator whole.
pub fn split(text: &str, separator: char) -> Vec<&str> {
    if !text.contains(separator) {
        return vec![text];
    }
    match text.trim_end_matches(separator) {
        "" => Vec::new(),
        text => text.split(separator).collect(),
    }
}

/// Origin of a string, which decides how an encoded surrogate pair is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A client or peer: surrogates are malformed, as in Apache.
    Wire,
    /// A log or snapshot: a surrogate pair is one character.
    Disk,
}

/// Decodes `bytes`; borrows if they are valid UTF-8.
pub(crate) fn decode(bytes: &[u8], source: Source) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(decode_lossy(bytes, source)),
    }
}

fn decode_lossy(mut bytes: &[u8], source: Source) -> String {
    let mut text = String::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let (valid, rest) = match std::str::from_utf8(bytes) {
            Ok(all) => (all, &[][..]),
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), rest)
            }
        };
        text.push_str(valid);
        bytes = rest;
        if bytes.is_empty() {
            break;
        }
        if let (Source::Disk, Some(joined)) = (source, surrogate_pair(bytes)) {
            text.push(joined);
            bytes = &bytes[6..];
        } else {
            text.push(char::REPLACEMENT_CHARACTER);
            bytes = &bytes[malformed_length(bytes)..];
        }
    }
    text
}

/// Length of the malformed sequence at the start of `bytes`.
// Compat: Java takes ed a0..bf as the start of a three-byte character, so an encoded surrogate, complete or truncated,
// is one replacement character and not three or two (test `surrogate_becomes_one_replacement_character`).
fn malformed_length(bytes: &[u8]) -> usize {
    if let [0xed, 0xa0..=0xbf, rest @ ..] = bytes {
        return match rest.first() {
            Some(0x80..=0xbf) => 3,
            _ => 2,
        };
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) => error.error_len().unwrap_or(bytes.len()).max(1),
    }
}

fn surrogate_pair(bytes: &[u8]) -> Option<char> {
    let &[0xed, h1 @ 0xa0..=0xaf, h2 @ 0x80..=0xbf, 0xed, l1 @ 0xb0..=0xbf, l2 @ 0x80..=0xbf, ..] = bytes else {
        return None;
    };
    let high = u32::from(h1 & 0x0f) << 6 | u32::from(h2 & 0x3f);
    let low = u32::from(l1 & 0x0f) << 6 | u32::from(l2 & 0x3f);
    char::from_u32(0x1_0000 + (high << 10 | low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_matches_java() {
        let cases: [(&str, &[&str]); 7] = [
            ("", &[""]),
            ("a", &["a"]),
            ("a;", &["a"]),
            (";a", &["", "a"]),
            (";;", &[]),
            ("a;;b;;", &["a", "", "b"]),
            (";", &[]),
        ];
        for (text, parts) in cases {
            assert_eq!(split(text, ';'), parts, "{text:?}");
        }
    }

    #[test]
    fn trim_matches_java() {
        assert_eq!(trim("\0\t a\u{a0} \n"), "a\u{a0}");
    }

    fn check(bytes: &[u8], wire: &str, disk: &str) {
        assert_eq!(decode(bytes, Source::Wire), wire);
        assert_eq!(decode(bytes, Source::Disk), disk);
    }

    #[test]
    fn plain_text_borrows() {
        assert!(matches!(decode("/käse".as_bytes(), Source::Wire), Cow::Borrowed("/käse")));
    }

    #[test]
    fn surrogate_becomes_one_replacement_character() {
        check(b"\xed\xa0\xbd", "\u{fffd}", "\u{fffd}");
        check(b"\xed\xa0", "\u{fffd}", "\u{fffd}");
        check(b"a\xed\xa0\xbd\xed\xb8\x80b", "a\u{fffd}\u{fffd}b", "a\u{1f600}b");
    }

    #[test]
    fn other_malformed_sequences_follow_maximal_prefixes() {
        check(b"\xff", "\u{fffd}", "\u{fffd}");
        check(b"\xe2\x82x", "\u{fffd}x", "\u{fffd}x");
        check(b"\xc0\x80", "\u{fffd}\u{fffd}", "\u{fffd}\u{fffd}");
    }
}
