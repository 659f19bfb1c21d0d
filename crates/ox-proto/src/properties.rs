//! Parser for Java properties files: the format of `zoo.cfg`, of dynamic configuration files, and of the ensemble text
//! that servers exchange.
//!
//! File bytes are ISO-8859-1: each byte is one character, all others are escaped as `\uXXXX`. Natural lines (ended by
//! LF, CR or CRLF) join into logical lines where they end in an odd number of backslashes; a logical line splits at the
//! first unescaped `=`, `:` or blank. Trailing blanks of a value are kept, because `server.N` lines are used with them.
//! `testdata/properties-java.txt` records how Java parses odd input.

/// One `key=value` pair with escapes resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The natural line on which the pair begins, from 1.
    pub line: u32,
    pub key: String,
    /// Without leading blanks; trailing blanks are kept.
    pub value: String,
}

/// A `\u` without four hexadecimal digits; Java refuses the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedEscape {
    /// The natural line on which the pair begins, from 1.
    pub line: u32,
}

/// All pairs in file order, duplicates included. Of equal keys the last one takes effect.
pub fn parse(bytes: &[u8]) -> Result<Vec<Pair>, MalformedEscape> {
    parse_text(&bytes.iter().copied().map(char::from).collect::<String>())
}

/// Formats a pair so that [`parse`] returns it unchanged.
pub fn line(key: &str, value: &str) -> String {
    format!("{}={}\n", escape(key, true), escape(value, false))
}

fn escape(text: &str, is_key: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, character) in text.chars().enumerate() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' ' | '#' | '!' | ':' | '=' if is_key || at == 0 => out.extend(['\\', character]),
            ' '..='~' => out.push(character),
            _ => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out
}

/// Parses text that was not read from a file, and so may contain any character unescaped.
pub fn parse_text(text: &str) -> Result<Vec<Pair>, MalformedEscape> {
    let parsed = logical_lines(text).into_iter().map(|logical| {
        let (key, value) = split(&logical.text);
        match (unescape(key), unescape(value)) {
            (Some(key), Some(value)) => Ok(Pair { line: logical.line, key, value }),
            _ => Err(MalformedEscape { line: logical.line }),
        }
    });
    parsed.collect()
}

/// A logical line: continuations joined, comments and blank lines removed, escapes unresolved.
struct Logical {
    line: u32,
    text: String,
}

/// Position of the parser within the current logical line.
enum At {
    /// Before its first character: blanks, blank lines and comments are skipped.
    Start,
    /// At the beginning of a continuation line: blanks are skipped, but a blank line ends the logical line.
    Continued,
    /// Within a comment, up to the end of the natural line.
    Comment,
    Text,
}

fn logical_lines(text: &str) -> Vec<Logical> {
    let mut lines = Vec::new();
    let mut current = Logical { line: 1, text: String::new() };
    let (mut at, mut escaped, mut number) = (At::Start, false, 1);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\n' || c == '\r' {
            if c == '\r' {
                rest.next_if_eq(&'\n');
            }
            number += 1;
            if escaped {
                current.text.pop();
                (at, escaped) = (At::Continued, false);
            } else {
                finish(&mut current, &mut lines);
                at = At::Start;
            }
            continue;
        }
        let skipped = match at {
            At::Start | At::Continued => is_blank(c),
            At::Comment => true,
            At::Text => false,
        };
        if skipped {
            continue;
        }
        // Compat: a line with nothing but a continuation backslash has not begun yet, so the next line may be a comment
        // (`continuation_of_empty_line_may_be_comment`).
        if current.text.is_empty() {
            if c == '#' || c == '!' {
                at = At::Comment;
                continue;
            }
            current.line = number;
        }
        at = At::Text;
        current.text.push(c);
        escaped = c == '\\' && !escaped;
    }
    if escaped {
        current.text.pop();
    }
    finish(&mut current, &mut lines);
    lines
}

fn finish(current: &mut Logical, lines: &mut Vec<Logical>) {
    if !current.text.is_empty() {
        lines.push(Logical { line: current.line, text: std::mem::take(&mut current.text) });
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

fn is_separator(c: char) -> bool {
    matches!(c, '=' | ':')
}

/// Key and value, still escaped, around at most one separator with blanks on both sides.
fn split(text: &str) -> (&str, &str) {
    let mut escaped = false;
    let key_len = text.find(|c| {
        let ends = !escaped && (is_separator(c) || is_blank(c));
        escaped = c == '\\' && !escaped;
        ends
    });
    let Some(key_len) = key_len else {
        return (text, "");
    };
    let (key, rest) = text.split_at(key_len);
    let rest = rest.trim_start_matches(is_blank);
    match rest.strip_prefix(is_separator) {
        Some(value) => (key, value.trim_start_matches(is_blank)),
        None => (key, rest),
    }
}

/// `None` for a malformed `\u`. Java strings are UTF-16: two escapes may form one character, and a lone surrogate
/// becomes the replacement character here.
fn unescape(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let literal = if c == '\\' {
            let Some(escape) = rest.next() else { break };
            match escape {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                'f' => '\x0c',
                'u' => {
                    units.push(hex(&mut rest)?);
                    continue;
                }
                other => other,
            }
        } else {
            c
        };
        units.extend_from_slice(literal.encode_utf16(&mut [0; 2]));
    }
    Some(String::from_utf16_lossy(&units))
}

/// Parses four hexadecimal digits as a UTF-16 unit.
fn hex(digits: &mut std::str::Chars<'_>) -> Option<u16> {
    let mut digit = || digits.next()?.to_digit(16);
    let value = (0..4).try_fold(0, |value, _| Some(value << 4 | digit()?))?;
    u16::try_from(value).ok()
}

#[cfg(test)]
mod tests;
