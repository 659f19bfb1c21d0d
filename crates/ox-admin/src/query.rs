//! Query strings: the first value of each parameter.

/// The first value of a parameter, decoded.
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| decode(key) == name).map(|(_, value)| decode(value))
}

/// All values of a parameter that may be given more than once, decoded.
pub(crate) fn parameters(query: Option<&str>, name: &str) -> Vec<String> {
    let pairs = query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter(|(key, _)| decode(key) == name).map(|(_, value)| decode(value)).collect()
}

/// Resolves `+` and `%XX`. Malformed escapes stay as they are, and bytes that are not UTF-8 become `�`.
pub(crate) fn decode(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = escaped.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match (byte, escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_value_of_a_parameter_counts() {
        let query = Some("a=1&traceMask=3%306&traceMask=7&b");
        assert_eq!(parameter(query, "traceMask").as_deref(), Some("306"));
        assert_eq!(parameter(query, "b").as_deref(), Some(""));
        assert_eq!(parameter(query, "c"), None);
        assert_eq!(parameter(None, "c"), None);
        assert_eq!(parameters(Some("name%5B%5D=a&name[]=b"), "name[]"), ["a", "b"]);
    }

    #[test]
    fn malformed_escapes_stay_as_they_are() {
        assert_eq!(decode("a+b%20c%2"), "a b c%2");
        assert_eq!(decode("%+1%zz%é"), "% 1%zz%é");
        assert_eq!(decode("%ff"), "\u{fffd}");
    }
}
