//! `key=value` and `key="quoted value"`, separated by commas or white space.

use crate::mechanism::SaslError;

/// Directives of a message, in order. Keys are in lower case.
#[derive(Debug)]
pub(super) struct Directives(Vec<(String, Vec<u8>)>);

impl Directives {
    /// Parses a message, whose length the caller has checked.
    pub(super) fn parse(message: &[u8]) -> Result<Self, SaslError> {
        let mut rest = message;
        let mut directives = Vec::new();
        loop {
            let separators = rest.iter().take_while(|byte| is_blank(**byte) || **byte == b',').count();
            rest = &rest[separators..];
            if rest.is_empty() {
                return Ok(Self(directives));
            }
            let equals = rest.iter().position(|byte| *byte == b'=').ok_or_else(|| malformed("a key without '='"))?;
            let key = rest[..equals].trim_ascii_end();
            if key.is_empty() || key.iter().any(|byte| !byte.is_ascii_graphic() || *byte == b',') {
                return Err(malformed("a key is not a token"));
            }
            let after = rest[equals + 1..].trim_ascii_start();
            let (value, after) =
                if let Some(quoted) = after.strip_prefix(b"\"") { unquote(quoted)? } else { token(after)? };
            if after.first().is_some_and(|byte| !is_blank(*byte) && *byte != b',') {
                return Err(malformed("no comma after a quoted value"));
            }
            directives.push((String::from_utf8_lossy(key).to_ascii_lowercase(), value));
            rest = after;
        }
    }

    /// All values of a key.
    pub(super) fn all<'a, 'k>(&'a self, key: &'k str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'k> {
        self.0.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.as_slice())
    }

    pub(super) fn at_most_one(&self, key: &str) -> Result<Option<&[u8]>, SaslError> {
        let mut values = self.all(key);
        let first = values.next();
        if values.next().is_some() { Err(malformed(&format!("more than one {key}"))) } else { Ok(first) }
    }

    pub(super) fn one(&self, key: &str) -> Result<&[u8], SaslError> {
        self.at_most_one(key)?.ok_or_else(|| malformed(&format!("no {key}")))
    }
}

pub(super) fn malformed(reason: &str) -> SaslError {
    SaslError::MalformedDigest(reason.to_owned())
}

/// Appends `key="value"` with the escapes that Java writes.
pub(super) fn push_quoted(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"=\"");
    for &byte in value {
        if matches!(byte, b'"' | b'\\' | 127) || byte < 32 && !matches!(byte, b'\r' | b'\n' | b'\t') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// An unquoted value may be empty, but not missing at the end.
fn token(text: &[u8]) -> Result<(Vec<u8>, &[u8]), SaslError> {
    if text.is_empty() {
        return Err(malformed("a key without a value"));
    }
    let end = text.iter().position(|byte| is_blank(*byte) || *byte == b',').unwrap_or(text.len());
    Ok((text[..end].to_vec(), &text[end..]))
}

/// The value up to the closing quote, and what follows the quote.
fn unquote(text: &[u8]) -> Result<(Vec<u8>, &[u8]), SaslError> {
    let mut value = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return Ok((value, &text[at + 1..])),
            b'\\' => match bytes.next() {
                Some((_, &escaped)) => value.push(escaped),
                None => break,
            },
            byte => value.push(byte),
        }
    }
    Err(malformed("a quoted value is not closed"))
}
