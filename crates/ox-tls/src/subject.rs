//! Distinguished names as text: RFC 2253, exactly as Java's `X500Principal.getName()` prints them.
//!
//! ACLs of the `x509` scheme contain this text, so that every character matters. Java prints the last RDN first, knows
//! nine keywords, prints other attributes as an OID with the hexadecimal DER of their value, and escapes more characters
//! than the RFC asks for.

use crate::der::{DerReader, SEQUENCE, SET, oid_text};
use crate::error::StoreProblem;
use std::fmt::Write;

/// Encoded OIDs and their keywords.
const KEYWORDS: [(&[u8], &str); 9] = [
    (COMMON_NAME, "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

const COMMON_NAME: &[u8] = &[0x55, 4, 3];

/// UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: what Java prints as text.
const TEXT_TAGS: [u8; 6] = [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1e];

/// Characters that get a backslash wherever they are.
const ESCAPED: &str = ",=+<>#;\"\\";

struct Attribute<'a> {
    oid: &'a [u8],
    tag: u8,
    content: &'a [u8],
    encoded: &'a [u8],
}

/// The RFC 2253 form of the content of an encoded name.
pub(crate) fn rfc2253(name: &[u8]) -> Result<String, StoreProblem> {
    let mut rdns = Vec::new();
    for rdn in attributes(name)? {
        let values: Vec<String> = rdn.iter().map(attribute_text).collect();
        rdns.push(values.join("+"));
    }
    rdns.reverse();
    Ok(rdns.join(","))
}

/// The last common name of an encoded name.
pub(crate) fn last_common_name(name: &[u8]) -> Result<Option<String>, StoreProblem> {
    let all = attributes(name)?;
    let last = all.iter().flatten().rfind(|attribute| attribute.oid == COMMON_NAME);
    Ok(last.map(|attribute| text_of(attribute.content)))
}

/// The attributes of each RDN.
fn attributes(name: &[u8]) -> Result<Vec<Vec<Attribute<'_>>>, StoreProblem> {
    let (mut rdns, mut reader) = (Vec::new(), DerReader::new(name));
    while !reader.is_empty() {
        let (mut rdn, mut set) = (Vec::new(), reader.nested(SET)?);
        while !set.is_empty() {
            let mut pair = set.nested(SEQUENCE)?;
            let oid = pair.oid()?;
            let value = pair.any()?;
            rdn.push(Attribute { oid, tag: value.tag, content: value.content, encoded: value.encoded });
        }
        rdns.push(rdn);
    }
    Ok(rdns)
}

fn attribute_text(attribute: &Attribute<'_>) -> String {
    let keyword = KEYWORDS.iter().find(|(oid, _)| *oid == attribute.oid).map(|(_, keyword)| *keyword);
    match keyword {
        Some(keyword) if TEXT_TAGS.contains(&attribute.tag) => {
            format!("{keyword}={}", escape(&text_of(attribute.content)))
        }
        Some(keyword) => format!("{keyword}=#{}", hex(attribute.encoded)),
        None => format!("{}=#{}", oid_text(attribute.oid), hex(attribute.encoded)),
    }
}

// Compat: Java reads the bytes of every string type as UTF-8, BMPString and T61String included.
fn text_of(content: &[u8]) -> String {
    String::from_utf8_lossy(content).into_owned()
}

fn escape(value: &str) -> String {
    let mut escaped = String::new();
    for letter in value.chars() {
        if letter == '\0' {
            escaped.push_str("\\00");
            continue;
        }
        if ESCAPED.contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    let is_blank = |letter: char| letter == ' ' || letter == '\r';
    let text = escaped.trim_start_matches(is_blank);
    let leading = escaped.len() - text.len();
    let trailing = text.len() - text.trim_end_matches(is_blank).len();
    let inner = escaped.len() - trailing;
    let mut quoted = String::new();
    for (at, letter) in escaped.char_indices() {
        if at < leading || inner <= at {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(attributes: &[(&[u8], u8, &[u8])]) -> Vec<u8> {
        let element = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
        let rdn = |(oid, tag, value): &(&[u8], u8, &[u8])| {
            element(SET, &element(SEQUENCE, &[element(6, oid), element(*tag, value)].concat()))
        };
        attributes.iter().flat_map(rdn).collect()
    }

    #[test]
    fn values_are_escaped_as_java_does() {
        let cases = [
            ("plain", "plain"),
            ("a,b+c\"d\\e<f>g;h=i#j", "a\\,b\\+c\\\"d\\\\e\\<f\\>g\\;h\\=i\\#j"),
            ("  two ", "\\ \\ two\\ "),
            ("  ", "\\ \\ "),
            ("in ner", "in ner"),
            ("nul\0", "nul\\00"),
            ("Zoë", "Zoë"),
        ];
        for (value, expected) in cases {
            let name = name_of(&[(COMMON_NAME, 0x0c, value.as_bytes())]);
            assert_eq!(rfc2253(&name).unwrap(), format!("CN={expected}"), "{value:?}");
        }
    }

    #[test]
    fn last_rdn_is_printed_first_and_unknown_types_in_hex() {
        let email = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1];
        let name = name_of(&[(&[0x55, 4, 6], 0x13, b"US"), (COMMON_NAME, 0x0c, b"a"), (&email, 0x16, b"x@y")]);
        assert_eq!(rfc2253(&name).unwrap(), "1.2.840.113549.1.9.1=#1603784079,CN=a,C=US");
        assert_eq!(last_common_name(&name).unwrap().as_deref(), Some("a"));
        let name = name_of(&[(COMMON_NAME, 0x0c, b"a"), (COMMON_NAME, 0x1e, &[0, b'b']), (COMMON_NAME, 2, &[1])]);
        assert_eq!(rfc2253(&name).unwrap(), "CN=#020101,CN=\\00b,CN=a");
    }

    #[test]
    fn malformed_name_is_an_error() {
        for name in [&[0x31][..], &[0x30, 0], &[0x31, 2, 0x30, 0]] {
            assert!(rfc2253(name).is_err(), "{name:?}");
        }
    }
}
