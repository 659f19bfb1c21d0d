//! The grammar of Java properties files, which `zoo.cfg` and the dynamic configuration are written in.
//!
//! The bytes are ISO-8859-1: each byte is one character, others are written `\uXXXX`. Natural lines (ended by LF,
//! CR or CRLF) join into logical lines where they end in an odd number of backslashes; a logical line splits at the
//! first unescaped `=`, `:` or blank. Nothing is trimmed here: a value keeps its trailing blanks, because
//! `server.N` lines are used with them. `testdata/properties-java.txt` holds what Java itself makes of odd input.

/// One `key=value` of the file, escapes resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Natural line on which the pair begins, from 1.
    pub line: u32,
    /// Text before the separator.
    pub key: String,
    /// Text after the separator and the blanks around it; trailing blanks are kept.
    pub value: String,
}

/// A `\u` that four hexadecimal digits do not follow; Java gives up on the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedEscape {
    /// Natural line on which the pair begins, from 1.
    pub line: u32,
}

/// All pairs in the order of the file, duplicates included; the last of equal keys is the one that counts.
pub fn parse(bytes: &[u8]) -> Result<Vec<Pair>, MalformedEscape> {
    let parsed = logical_lines(bytes).into_iter().map(|logical| {
        let (key, value) = split(&logical.text);
        match (unescape(key), unescape(value)) {
            (Some(key), Some(value)) => Ok(Pair { line: logical.line, key, value }),
            _ => Err(MalformedEscape { line: logical.line }),
        }
    });
    parsed.collect()
}

/// Continuations joined, comments and blank lines gone, escapes untouched.
struct Logical {
    line: u32,
    text: Vec<u8>,
}

/// Where the reader stands inside the current logical line.
enum At {
    /// Before its first character: blanks, blank lines and comments are skipped.
    Start,
    /// At the beginning of a natural line that continues it: blanks are skipped, but a blank line ends it.
    Continued,
    /// Inside a comment, up to the end of the natural line.
    Comment,
    /// Among its characters.
    Text,
}

fn logical_lines(bytes: &[u8]) -> Vec<Logical> {
    let mut lines = Vec::new();
    let mut current = Logical { line: 1, text: Vec::new() };
    let (mut at, mut escaped, mut number) = (At::Start, false, 1);
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte == b'\n' || byte == b'\r' {
            if byte == b'\r' {
                rest.next_if_eq(&b'\n');
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
            At::Start | At::Continued => is_blank(byte),
            At::Comment => true,
            At::Text => false,
        };
        if skipped {
            continue;
        }
        // Compat: a line that holds nothing but its continuation backslash has not begun yet, so that the next one
        // may be a comment (`continuation_of_nothing`).
        if current.text.is_empty() {
            if byte == b'#' || byte == b'!' {
                at = At::Comment;
                continue;
            }
            current.line = number;
        }
        at = At::Text;
        current.text.push(byte);
        escaped = byte == b'\\' && !escaped;
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

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'=' | b':')
}

/// Key and value, still escaped. At most one separator stands between them, with any blanks around it.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let key_len = text.iter().position(|&byte| {
        let ends = !escaped && (is_separator(byte) || is_blank(byte));
        escaped = byte == b'\\' && !escaped;
        ends
    });
    let Some(key_len) = key_len else {
        return (text, &[]);
    };
    let (key, rest) = text.split_at(key_len);
    let rest = without_leading_blanks(rest);
    match rest.split_first() {
        Some((&first, value)) if is_separator(first) => (key, without_leading_blanks(value)),
        _ => (key, rest),
    }
}

fn without_leading_blanks(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| !is_blank(byte)).unwrap_or(text.len());
    &text[start..]
}

/// `None` for a malformed `\u`. Java strings are UTF-16: two escapes may form one character, and half of one becomes
/// the replacement character here.
fn unescape(text: &[u8]) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            units.push(byte.into());
            continue;
        }
        let Some((&escape, tail)) = rest.split_first() else {
            break;
        };
        rest = tail;
        units.push(match escape {
            b't' => u16::from(b'\t'),
            b'n' => u16::from(b'\n'),
            b'r' => u16::from(b'\r'),
            b'f' => 0x0c,
            b'u' => {
                let (digits, tail) = rest.split_at_checked(4)?;
                rest = tail;
                hex(digits)?
            }
            other => other.into(),
        });
    }
    Some(String::from_utf16_lossy(&units))
}

fn hex(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |value: u16, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(value << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests;
