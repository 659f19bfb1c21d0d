//! Indented JSON: only blanks outside of strings change. Order of keys, numbers and escapes stay as they are stored.

use serde::de::IgnoredAny;

/// Number of blanks for each nesting level.
const INDENT: usize = 2;

/// The indented text; `None` if the data is not JSON.
pub(crate) fn indent(data: &[u8]) -> Option<String> {
    serde_json::from_slice::<IgnoredAny>(data).ok()?;
    let text = std::str::from_utf8(data).ok()?;
    let mut out = String::new();
    let (mut level, mut is_escaped, mut in_string) = (0_usize, false, false);
    let mut letters = text.chars().filter(|letter| !letter.is_ascii_control()).peekable();
    while let Some(letter) = letters.next() {
        if in_string {
            out.push(letter);
            in_string = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
            continue;
        }
        match letter {
            ' ' => (),
            '{' | '[' => {
                out.push(letter);
                while letters.next_if_eq(&' ').is_some() {}
                if let Some(end) = letters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    level += 1;
                    new_line(&mut out, level);
                }
            }
            '}' | ']' => {
                level = level.saturating_sub(1);
                new_line(&mut out, level);
                out.push(letter);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, level);
            }
            ':' => out.push_str(": "),
            letter => {
                in_string = letter == '"';
                out.push(letter);
            }
        }
    }
    Some(out)
}

fn new_line(out: &mut String, level: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', level * INDENT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blanks_outside_of_strings_change() {
        let check = |data: &str, expected: &str| assert_eq!(indent(data.as_bytes()).as_deref(), Some(expected));
        check("{\"b\":[1,2.50],\"a\":{}}", "{\n  \"b\": [\n    1,\n    2.50\n  ],\n  \"a\": {}\n}");
        check("\t[ ] \n", "[]");
        check("{ \"k\" :\r\n\"a, {\\\"b\\\": [\\\\\" }", "{\n  \"k\": \"a, {\\\"b\\\": [\\\\\"\n}");
        check("12345678901234567890123", "12345678901234567890123");
        for data in [&b"{"[..], b"", b"text", b"[1] 2", b"\"\xff\""] {
            assert_eq!(indent(data), None);
        }
    }
}
