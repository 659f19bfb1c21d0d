//! The x509 scheme: the id is the subject of a client certificate.
//!
//! Proven ids are written as RFC 2253 demands (`ox-tls/src/subject.rs`), and entries match them literally. Ids in ACLs
//! only have to be distinguished names.

/// Attribute names that Java knows without an object identifier.
const ATTRIBUTES: &str = "CN C L S ST O OU T IP STREET DC DNQUALIFIER DNQ SURNAME GIVENNAME INITIALS GENERATION EMAIL \
                          EMAILADDRESS UID SERIALNUMBER";

/// Whether the id is a distinguished name: `attribute=value` pairs separated by commas, semicolons or plus signs.
pub(super) fn is_valid(id: &str) -> bool {
    id.is_empty() || split_pairs(id).is_some_and(|pairs| pairs.into_iter().all(is_pair))
}

/// The pairs, split where a separator is neither escaped nor quoted; `None` if an escape or a quote does not end.
fn split_pairs(id: &str) -> Option<Vec<&str>> {
    let (mut pairs, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, letter) in id.char_indices() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match letter {
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' | ';' | '+' if !is_quoted => {
                pairs.push(&id[start..at]);
                start = at + 1;
            }
            _ => (),
        }
    }
    pairs.push(&id[start..]);
    (!is_quoted && !is_escaped).then_some(pairs)
}

fn is_pair(pair: &str) -> bool {
    pair.split_once('=').is_some_and(|(attribute, _)| is_attribute(attribute.trim()))
}

fn is_attribute(name: &str) -> bool {
    let number = name.strip_prefix("OID.").or_else(|| name.strip_prefix("oid.")).unwrap_or(name);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    ATTRIBUTES.split(' ').any(|known| known.eq_ignore_ascii_case(name))
        || (number.contains('.') && number.split('.').all(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguished_names_are_valid() {
        for id in [
            "CN=client,O=Example,C=US",
            "cn=a b , ou=\"x, y\"",
            "CN=a\\,b",
            "CN=a+OU=b;O=c",
            "1.2.840.113549.1.9.1=#1603612e62",
            "OID.2.5.4.3=x",
            "CN=",
            "",
        ] {
            assert!(is_valid(id), "{id}");
        }
        for id in ["client", "CN=a,b", "CN=a,,O=b", "NAME=a", "CN=a\\", "CN=\"a", "1=a", "=a", "CN=a,", "TITLE=a", " "]
        {
            assert!(!is_valid(id), "{id}");
        }
    }
}
