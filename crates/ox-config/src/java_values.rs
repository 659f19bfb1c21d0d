//! Java's number parsing, which decides what the text of a setting means.
//!
//! Strict parsers return `None` for anything but decimal text; [`decode_int`] and [`decode_long`] also accept
//! hexadecimal and octal. `testdata/*-java.txt` records Java's results.

use ox_proto::text::trim;

/// Strict decimal with an optional sign, 32 bits.
pub(crate) fn int(text: &str) -> Option<i32> {
    text.parse().ok()
}

/// Strict decimal with an optional sign, 64 bits.
pub(crate) fn long(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// A decimal number as Java writes it; surrounding blanks and a type suffix are allowed, hexadecimal is not.
pub(crate) fn double(text: &str) -> Option<f64> {
    let text = trim(text);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    let value: f64 = match unsigned {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        _ => {
            let digits = unsigned.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(unsigned);
            if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                return None;
            }
            digits.parse().ok()?
        }
    };
    Some(if negative { -value } else { value })
}

/// Lenient 32-bit number: `0x`, `0X` or `#` marks hexadecimal, a leading `0` octal.
pub(crate) fn decode_int(text: &str) -> Option<i32> {
    let (radix, digits) = radix_and_digits(text)?;
    i32::from_str_radix(&digits, radix).ok()
}

/// Lenient 64-bit number: `0x`, `0X` or `#` marks hexadecimal, a leading `0` octal.
pub(crate) fn decode_long(text: &str) -> Option<i64> {
    let (radix, digits) = radix_and_digits(text)?;
    i64::from_str_radix(&digits, radix).ok()
}

/// Whether the lenient parsers take this text as octal, which is rarely intended.
pub(crate) fn is_octal(text: &str) -> bool {
    radix_and_digits(text).is_some_and(|(radix, _)| radix == 8)
}

/// The base of a lenient number, and its digits with the sign.
fn radix_and_digits(text: &str) -> Option<(u32, String)> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = ["0x", "0X", "#"].into_iter().find_map(|prefix| unsigned.strip_prefix(prefix));
    let (radix, digits) = match (hexadecimal, unsigned.strip_prefix('0')) {
        (Some(digits), _) => (16, digits),
        (None, Some(digits)) if !digits.is_empty() => (8, digits),
        (None, _) => (10, unsigned),
    };
    (!digits.starts_with(['+', '-'])).then(|| (radix, format!("{sign}{digits}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(text: &'static str) -> impl Iterator<Item = (String, Vec<&'static str>)> {
        text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (input, answers) = line[1..].rsplit_once('>').unwrap();
            (input.replace("\\t", "\t"), answers.split_whitespace().collect())
        })
    }

    fn shown<T: ToString>(value: Option<T>) -> String {
        value.map_or("-".to_owned(), |value| value.to_string())
    }

    #[test]
    fn integers_parse_as_in_java() {
        for (text, answers) in recorded(include_str!("../testdata/integers-java.txt")) {
            let ours = [shown(int(&text)), shown(long(&text)), shown(decode_int(&text)), shown(decode_long(&text))];
            assert_eq!(ours.each_ref().map(String::as_str).to_vec(), answers, "{text:?}");
        }
    }

    #[test]
    fn doubles_parse_as_in_java() {
        for (text, answers) in recorded(include_str!("../testdata/doubles-java.txt")) {
            let expected = (answers != ["-"]).then(|| answers[0].replace("Infinity", "inf").parse::<f64>().unwrap());
            assert_eq!(double(&text).map(f64::to_bits), expected.map(f64::to_bits), "{text:?}");
        }
    }

    #[test]
    fn octal_text_is_detected() {
        for (text, octal) in [("010", true), ("-07", true), ("0", false), ("0x10", false), ("10", false), ("", false)] {
            assert_eq!(is_octal(text), octal, "{text}");
        }
    }
}
