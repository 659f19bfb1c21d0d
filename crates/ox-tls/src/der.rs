//! A reader of DER, the encoding of certificates, keys and PKCS12 stores.
//!
//! An element is tag, length, content. Only tags of one byte and definite lengths are read; more does not occur in the
//! files of the usual tools. Every length is checked against the bytes that are there.

use crate::error::StoreProblem;
use std::fmt::Write;

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// The tag of a context-specific element that contains other elements, `[number]`.
pub(crate) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of a context-specific element that contains bytes, `[number] IMPLICIT`.
pub(crate) const fn context_bytes(number: u8) -> u8 {
    0x80 | number
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
    /// Tag, length and content.
    pub(crate) encoded: &'a [u8],
}

/// Reads one element after the other.
#[derive(Clone, Debug)]
pub(crate) struct DerReader<'a> {
    rest: &'a [u8],
}

type DerResult<T> = Result<T, StoreProblem>;

const TRUNCATED: StoreProblem = StoreProblem::Damaged("a DER element ends too early");

impl<'a> DerReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn next_tag(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub(crate) fn any(&mut self) -> DerResult<Element<'a>> {
        let (&tag, after_tag) = self.rest.split_first().ok_or(TRUNCATED)?;
        if tag & 0x1f == 0x1f {
            return Err(StoreProblem::Damaged("a DER tag has more than one byte"));
        }
        let (&first, after_first) = after_tag.split_first().ok_or(TRUNCATED)?;
        let (length, body) = match first {
            0..0x80 => (usize::from(first), after_first),
            0x80 => return Err(StoreProblem::Damaged("an element has the indefinite length of BER")),
            _ => {
                let digits = usize::from(first & 0x7f);
                if 4 < digits {
                    return Err(StoreProblem::Damaged("a DER length is too large"));
                }
                let (length, body) = after_first.split_at_checked(digits).ok_or(TRUNCATED)?;
                (length.iter().fold(0, |value, byte| value << 8 | usize::from(*byte)), body)
            }
        };
        let (content, rest) = body.split_at_checked(length).ok_or(TRUNCATED)?;
        let encoded = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        Ok(Element { tag, content, encoded })
    }

    pub(crate) fn expect(&mut self, tag: u8) -> DerResult<Element<'a>> {
        match self.any()? {
            element if element.tag == tag => Ok(element),
            _ => Err(StoreProblem::Damaged("a DER element has an unexpected tag")),
        }
    }

    /// The next element if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> DerResult<Option<Element<'a>>> {
        if self.next_tag() == Some(tag) { self.any().map(Some) } else { Ok(None) }
    }

    /// The elements inside the next element, which must have this tag.
    pub(crate) fn nested(&mut self, tag: u8) -> DerResult<DerReader<'a>> {
        self.expect(tag).map(|element| DerReader::new(element.content))
    }

    pub(crate) fn oid(&mut self) -> DerResult<&'a [u8]> {
        self.expect(OID).map(|element| element.content)
    }

    /// A number from 0 to 2^32 - 1.
    pub(crate) fn number(&mut self) -> DerResult<u32> {
        let content = self.expect(INTEGER)?.content;
        let digits = content.strip_prefix(&[0]).unwrap_or(content);
        let is_negative = content.first().is_none_or(|first| 0x80 <= *first);
        if is_negative || 4 < digits.len() {
            return Err(StoreProblem::Damaged("a number is out of range"));
        }
        Ok(digits.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
}

/// The dotted form of an object identifier. Arcs beyond 64 bits are cut.
pub(crate) fn oid_text(oid: &[u8]) -> String {
    let mut text = String::new();
    let mut arc: u64 = 0;
    for byte in oid {
        arc = arc << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if text.is_empty() {
            let first = (arc / 40).min(2);
            let _ = write!(text, "{first}.{}", arc - 40 * first);
        } else {
            let _ = write!(text, ".{arc}");
        }
        arc = 0;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_in_order() {
        let bytes = [0x30, 0x05, 0x02, 0x01, 0x07, 0x05, 0x00, 0x04, 0x81, 0x01, 0xff];
        let mut reader = DerReader::new(&bytes);
        let mut inner = reader.nested(SEQUENCE).unwrap();
        assert_eq!(inner.number().unwrap(), 7);
        assert_eq!(inner.optional(OID).unwrap(), None);
        assert_eq!(inner.any().unwrap().encoded, [0x05, 0x00]);
        assert!(inner.is_empty());
        assert_eq!(reader.expect(OCTET_STRING).unwrap().content, [0xff]);
        assert!(reader.is_empty());
    }

    #[test]
    fn malformed_lengths_are_errors() {
        for bytes in [&[0x30][..], &[0x30, 0x02, 0x00], &[0x30, 0x80], &[0x30, 0x85, 1, 1, 1, 1, 1], &[0x3f, 0], &[]] {
            assert!(DerReader::new(bytes).any().is_err(), "{bytes:?}");
        }
        for number in [&[2, 0][..], &[2, 1, 0x80], &[2, 5, 1, 0, 0, 0, 0]] {
            assert!(DerReader::new(number).number().is_err(), "{number:?}");
        }
        assert_eq!(DerReader::new(&[2, 5, 0, 0xff, 0xff, 0xff, 0xff]).number(), Ok(u32::MAX));
    }

    #[test]
    fn oid_has_dotted_form() {
        assert_eq!(oid_text(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1]), "1.2.840.113549.1.9.1");
        let trusted = [0x60, 0x86, 0x48, 1, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 1, 1];
        assert_eq!(oid_text(&trusted), "2.16.840.1.113894.746875.1.1");
        assert_eq!(oid_text(&[0x88, 0x37]), "2.999");
        assert_eq!(oid_text(&[]), "");
    }
}
