//! Splits command lines into words.

/// Splits a line at blanks. A word that begins with a quote ends at the next quote of its kind and may contain blanks;
/// there are no escapes. Compat: a quote inside a word is an ordinary character, and so is a quote that is never
/// closed.
pub fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted = match first {
            '"' | '\'' => rest[1..].split_once(first),
            _ => None,
        };
        let (word, behind) = match quoted {
            Some(found) => found,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        words.push(word.to_owned());
        rest = behind.trim_start();
    }
    words
}

/// A word that begins with a quote which is never closed. [`split`] takes such a quote for an ordinary character, so that
/// the words are seldom what the user meant.
fn unclosed(line: &str) -> Option<&str> {
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let behind = match first {
            '"' | '\'' => match rest[1..].split_once(first) {
                Some((_, behind)) => behind,
                None => return Some(rest),
            },
            _ => &rest[rest.find(char::is_whitespace).unwrap_or(rest.len())..],
        };
        rest = behind.trim_start();
    }
    None
}

/// Why a line does not have the words that the user meant: a quote is never closed, or one inside a word, which
/// [`split`] takes for an ordinary character, seems to begin a part with blanks, as in `/"two words"`, or text follows a
/// closing quote, as after `\"` in quotes. Apostrophes in text, and pairs of quotes in a word without blanks, as in
/// `{"a":1}`, are taken as they are.
pub fn refusal(line: &str) -> Option<String> {
    if let Some(text) = continued(line) {
        return Some(format!(
            "Text follows a closing quote: {text}\nhint: there are no escapes; text with \" can be quoted with '"
        ));
    }
    if let Some(open) = unclosed(line) {
        return Some(format!("Unclosed quote: {open}"));
    }
    let word = misplaced(line)?;
    Some(format!("A quote inside a word does not quote: {word}\nhint: quote the whole word, as in '/two words'"))
}

/// A quoted word, and what follows it without a blank.
fn continued(line: &str) -> Option<&str> {
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let behind = match first {
            '"' | '\'' => {
                let behind = rest[1..].split_once(first)?.1;
                if behind.starts_with(|letter: char| !letter.is_whitespace()) {
                    return Some(rest);
                }
                behind
            }
            _ => &rest[rest.find(char::is_whitespace).unwrap_or(rest.len())..],
        };
        rest = behind.trim_start();
    }
    None
}

/// An unquoted word with a quote whose partner is missing, or in a later word.
fn misplaced(line: &str) -> Option<&str> {
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        if matches!(first, '"' | '\'') {
            rest = rest[1..].split_once(first)?.1.trim_start();
            continue;
        }
        let (word, behind) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        let is_odd = |quote: char| word.matches(quote).count() % 2 == 1;
        if is_odd('"') || (is_odd('\'') && behind.contains('\'')) {
            return Some(word);
        }
        rest = behind.trim_start();
    }
    None
}

/// The start of the last, possibly incomplete word of a line: after the last blank, or at an open quote.
pub fn last(line: &str) -> usize {
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let behind = match first {
            '"' | '\'' => rest[1..].split_once(first).map(|(_, behind)| behind),
            _ => rest.find(char::is_whitespace).map(|at| &rest[at..]),
        };
        match behind {
            Some(behind) if behind.starts_with(char::is_whitespace) => rest = behind.trim_start(),
            Some(_) | None => break,
        }
    }
    line.len() - rest.len()
}

/// Quotes a word so that [`split`] returns it as one word. A word with blanks and both kinds of quotes cannot be
/// quoted.
pub fn quote(word: &str) -> Option<String> {
    let ignores_options = !word.is_empty() && !word.starts_with(['"', '\'']) && !word.contains(char::is_whitespace);
    if ignores_options {
        return Some(word.to_owned());
    }
    let quote = ['"', '\''].into_iter().find(|quote| !word.contains(*quote))?;
    Some(format!("{quote}{word}{quote}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_split_at_blanks_and_quotes() {
        let cases: [(&str, &[&str]); 9] = [
            ("", &[]),
            ("   ", &[]),
            ("ls /", &["ls", "/"]),
            (" create\t/a  \"two words\" ", &["create", "/a", "two words"]),
            ("create /a 'it \"is\"'", &["create", "/a", "it \"is\""]),
            ("create /a \"\"", &["create", "/a", ""]),
            ("create /a x\"y z\"", &["create", "/a", "x\"y", "z\""]),
            ("create /a \"open end", &["create", "/a", "\"open", "end"]),
            ("create /a \"x\"y", &["create", "/a", "x", "y"]),
        ];
        for (line, words) in cases {
            assert_eq!(split(line), words, "{line}");
        }
    }

    #[test]
    fn unclosed_quote_is_found() {
        for (line, expected) in [
            ("set /q \"abc", Some("\"abc")),
            ("set /q 'it is \"x\" ", Some("'it is \"x\"")),
            ("set /q 'a' \"b c", Some("\"b c")),
            ("set /q it's", None),
            ("set /q \"it's\"", None),
            ("set /q ''", None),
            ("", None),
        ] {
            assert_eq!(unclosed(line), expected, "{line}");
        }
    }

    #[test]
    fn quote_inside_a_word_is_refused_unless_it_is_text() {
        for (line, expected) in [
            ("create /\"q uote", Some("/\"q")),
            ("create /\"c d\" v", Some("/\"c")),
            ("create /'c d' v", Some("/'c")),
            ("set /q x\"y", Some("x\"y")),
            ("set /q it's", None),
            ("set /q {\"a\":1}", None),
            ("set '/two words' \"it's\"", None),
        ] {
            assert_eq!(misplaced(line), expected, "{line}");
            assert_eq!(refusal(line).is_some(), expected.is_some(), "{line}");
        }
    }

    #[test]
    fn text_after_a_closing_quote_is_refused() {
        for (line, expected) in [
            ("set /q \"say \\\"hi\\\"\"", Some("\"say \\\"hi\\\"\"")),
            ("set /q \"x\"y", Some("\"x\"y")),
            ("set /q 'C:\\dir\\' -s", None),
            ("set \"/two words\" 'x'", None),
        ] {
            assert_eq!(continued(line), expected, "{line}");
            assert_eq!(refusal(line).is_some(), expected.is_some(), "{line}");
        }
    }

    #[test]
    fn last_word_may_be_incomplete() {
        for (line, word) in [
            ("", ""),
            ("ls", "ls"),
            ("ls ", ""),
            ("ls /a", "/a"),
            ("get \"/two wo", "\"/two wo"),
            ("get 'it is' x", "x"),
            ("get x\"y z", "z"),
            ("get 'open \"quote", "'open \"quote"),
            ("get 'done'", "'done'"),
        ] {
            assert_eq!(&line[last(line)..], word, "{line}");
        }
    }

    #[test]
    fn quoted_words_round_trip() {
        for word in ["a", "/a/b", "two words", "it's", "say \"hi\" to all", "", "'"] {
            assert_eq!(split(&quote(word).unwrap()), [word]);
        }
        assert_eq!(quote("a ' \" b"), None);
    }
}
