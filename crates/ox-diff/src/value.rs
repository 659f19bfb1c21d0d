//! Field values of the script language: bytes or null.
//!
//! There are two textual forms. `Display` is exact: parsing it yields the same bytes. [`canonical`] is for comparing
//! what two servers sent, where one character may have two encodings.

use std::fmt::{self, Write as _};

/// Bytes of a string or buffer field, or null.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldValue(pub Option<Vec<u8>>);

/// Longer data is printed as `*N` if it is [`fill`], and as length and hash in replies.
const PRINT_BYTES_MAX: usize = 64;

impl FieldValue {
    pub const NULL: Self = Self(None);

    pub fn text(text: impl AsRef<str>) -> Self {
        Self(Some(text.as_ref().as_bytes().to_vec()))
    }

    /// `length` bytes of the filler pattern.
    pub fn fill(length: usize) -> Self {
        Self(Some(fill(length)))
    }

    pub fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    /// The value as text, if it is not null and valid UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bytes) = self.bytes() else { return f.write_str("null") };
        if PRINT_BYTES_MAX < bytes.len() && bytes == fill(bytes.len()) {
            return write!(f, "*{}", bytes.len());
        }
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let bare = !bytes.is_empty() && bytes.iter().all(|&byte| is_bare(byte)) && bytes[0] != b'*' && text != "null";
        if bare { f.write_str(text) } else { write!(f, "\"{}\"", escape(bytes, Surrogates::Apart)) }
    }
}

/// Whether a word may contain the byte without quotes.
pub(crate) fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/_.+-*".contains(&byte)
}

/// The text by which bytes are compared: an encoded surrogate pair equals the character it encodes, and long data is
/// represented by length and hash.
pub fn canonical(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(bytes) if 4 * PRINT_BYTES_MAX < bytes.len() => {
            format!("({} bytes, hash {:016x})", bytes.len(), hash(bytes))
        }
        Some(bytes) => format!("\"{}\"", escape(bytes, Surrogates::Joined)),
    }
}

/// Lower-case hex digits of the bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a string cannot fail
        text
    })
}

/// Parses hex digits, upper or lower case.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn fill(length: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(length).collect()
}

/// FNV-1a: equal data must look equal; accidental collisions do not matter here.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Surrogates {
    Apart,
    Joined,
}

fn escape(bytes: &[u8], surrogates: Surrogates) -> String {
    let mut text = String::new();
    let mut rest = bytes;
    while let Some(&first) = rest.first() {
        if let (Surrogates::Joined, Some(joined)) = (surrogates, surrogate_pair(rest)) {
            escape_char(&mut text, joined);
            rest = &rest[6..];
        } else if let Some(next) = first_char(rest) {
            escape_char(&mut text, next);
            rest = &rest[next.len_utf8()..];
        } else {
            let _ = write!(text, "\\x{first:02x}");
            rest = &rest[1..];
        }
    }
    text
}

fn escape_char(text: &mut String, char: char) {
    match char {
        '"' | '\\' => text.extend(['\\', char]),
        ' '..='~' => text.push(char),
        '\0'..='\x7f' => {
            let _ = write!(text, "\\x{:02x}", u32::from(char));
        }
        _ => {
            let _ = write!(text, "\\u{{{:x}}}", u32::from(char));
        }
    }
}

fn first_char(bytes: &[u8]) -> Option<char> {
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    valid.chars().next()
}

fn surrogate_pair(bytes: &[u8]) -> Option<char> {
    let &[0xed, h1 @ 0xa0..=0xaf, h2 @ 0x80..=0xbf, 0xed, l1 @ 0xb0..=0xbf, l2 @ 0x80..=0xbf, ..] = bytes else {
        return None;
    };
    let unit = |high: u8, low: u8| u16::from(high) << 6 & 0xfc0 | u16::from(low & 0x3f) | 0xd000;
    char::decode_utf16([unit(h1, h2), unit(l1, l2)]).next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_value_parses_back() {
        assert_eq!(FieldValue::NULL.to_string(), "null");
        assert_eq!(FieldValue::text("null").to_string(), "\"null\"");
        assert_eq!(FieldValue::text("/a/b-1").to_string(), "/a/b-1");
        assert_eq!(FieldValue::text("").to_string(), "\"\"");
        assert_eq!(FieldValue::text("a b\0é").to_string(), "\"a b\\x00\\u{e9}\"");
        assert_eq!(FieldValue(Some(vec![0xff, b'x'])).to_string(), "\"\\xffx\"");
        assert_eq!(FieldValue::fill(70).to_string(), "*70");
    }

    #[test]
    fn both_encodings_of_a_character_compare_equal() {
        let pair = [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80];
        assert_eq!(canonical(Some(&pair)), "\"\\u{1f600}\"");
        assert_eq!(canonical(Some("\u{1f600}".as_bytes())), "\"\\u{1f600}\"");
        assert_ne!(canonical(None), canonical(Some(b"")));
    }

    #[test]
    fn hex_round_trips() {
        assert_eq!(unhex(&hex(&[0, 0xff, 0x1a])), Some(vec![0, 0xff, 0x1a]));
        assert_eq!((unhex("abc"), unhex("zz")), (None, None));
    }
}
