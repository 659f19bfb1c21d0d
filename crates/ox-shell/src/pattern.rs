//! Patterns that users type: names with `*` and `?`, regular expressions, size_suffixes_are_parsed and times.

use crate::command_error::CommandError;
use jiff::Timestamp;
use regex::bytes::{Regex, RegexBuilder};

/// Whether patterns distinguish upper and lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Matters,
    Ignored,
}

/// A regular expression over bytes, because data need not be text.
pub(crate) fn regex(text: &str, case: Case) -> Result<Regex, CommandError> {
    let mut builder = RegexBuilder::new(text);
    builder.case_insensitive(case == Case::Ignored);
    builder.build().map_err(|error| CommandError::message(format!("`{text}` is not a regular expression: {error}")))
}

/// A pattern that matches literal text.
pub(crate) fn literal(text: &str, case: Case) -> Result<Regex, CommandError> {
    regex(&regex::escape(text), case)
}

/// A glob for a whole name: `*` matches anything, `?` one character, `[a-z]` a set, `[!a-z]` its complement.
pub(crate) fn glob(text: &str, case: Case) -> Result<Regex, CommandError> {
    let mut pattern = String::from("(?s)^");
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => pattern.push_str(".*"),
            '?' => pattern.push('.'),
            '[' if letters.clone().skip(1).any(|letter| letter == ']') => {
                pattern.push('[');
                if letters.next_if(|letter| matches!(letter, '!' | '^')).is_some() {
                    pattern.push('^');
                }
                let mut is_first = true;
                for letter in letters.by_ref() {
                    match letter {
                        ']' if !is_first => break,
                        '-' => pattern.push('-'),
                        letter => pattern.push_str(&regex::escape(&letter.to_string())),
                    }
                    is_first = false;
                }
                pattern.push(']');
            }
            letter => pattern.push_str(&regex::escape(&letter.to_string())),
        }
    }
    pattern.push('$');
    regex(&pattern, case)
}

/// Parses a number of bytes: `300`, `4k`, `1m`.
pub(crate) fn size(text: &str) -> Result<u64, CommandError> {
    let wrong = || CommandError::message(format!("`{text}` is not a size; try 300, 4k or 1m"));
    let lower = text.to_lowercase();
    let (digits, unit) = match lower.strip_suffix(['k', 'm', 'g']) {
        Some(digits) if lower.ends_with('k') => (digits, 1 << 10),
        Some(digits) if lower.ends_with('m') => (digits, 1 << 20),
        Some(digits) => (digits, 1 << 30),
        None => (lower.as_str(), 1),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(wrong)
}

/// Parses a time in milliseconds since 1970: an age (`90s`, `15m`, `2h`, `7d`), or a date with time and zone.
pub(crate) fn moment(text: &str, now_ms: i64) -> Result<i64, CommandError> {
    let wrong =
        || CommandError::message(format!("`{text}` is not a time; try 90s, 15m, 2h, 7d or 2026-01-31T12:00:00Z"));
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment.as_millisecond());
    }
    let at = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
    let unit_ms = match &text[at..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let ago = text[..at].parse::<i64>().ok().and_then(|number| number.checked_mul(unit_ms)).ok_or_else(wrong)?;
    Ok(now_ms.saturating_sub(ago))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_matches_whole_names() {
        let is = |pattern: &str, name: &str| glob(pattern, Case::Matters).unwrap().is_match(name.as_bytes());
        assert!(is("*", "") && is("a*", "abc") && is("*.json", "x.json") && is("a?c", "aäc") && is("[a-c]x", "bx"));
        assert!(is("[!a]", "b") && is("[]]", "]") && is("[", "[") && is("a.b", "a.b") && is("[a^]", "^"));
        assert!(!is("a*", "ba") && !is("a?", "a") && !is("[!a]", "a") && !is("a.b", "axb") && !is("[a-c]x", "dx"));
        assert!(glob("A*", Case::Ignored).unwrap().is_match(b"abc"));
        assert!(glob("[z-a]", Case::Matters).is_err());
    }

    #[test]
    fn size_suffixes_are_parsed() {
        assert_eq!([size("300").unwrap(), size("4k").unwrap(), size("1M").unwrap()], [300, 4096, 1 << 20]);
        for text in ["", "k", "-1", "1x", "99999999999999999999", "99999999999g"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_and_dates_are_parsed() {
        let now_ms = 1_000_000_000;
        assert_eq!(moment("90s", now_ms).unwrap(), now_ms - 90_000);
        assert_eq!(moment("2h", now_ms).unwrap(), now_ms - 7_200_000);
        assert_eq!(moment("1970-01-01T00:00:01Z", now_ms).unwrap(), 1000);
        for text in ["", "5", "d", "5y", "yesterday", "99999999999999999999d"] {
            assert!(moment(text, now_ms).is_err(), "{text}");
        }
    }
}
