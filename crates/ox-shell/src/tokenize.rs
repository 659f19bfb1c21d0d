//! A line into words.

/// Splits a line at blanks. A word that begins with a quote goes to the next quote of its kind, which may hold blanks; there are
/// no escapes. Compat: a quote inside a word is a letter like others, and one that never ends does not begin anything.
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

/// Where the word begins that stands at the end of a line and may go on: behind the last blank, or at a quote that is open.
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

/// Writes a word so that [`split`] reads it back as one. A word with blanks and both kinds of quotes cannot be written.
pub fn quote(word: &str) -> Option<String> {
    let is_plain = !word.is_empty() && !word.starts_with(['"', '\'']) && !word.contains(char::is_whitespace);
    if is_plain {
        return Some(word.to_owned());
    }
    let quote = ['"', '\''].into_iter().find(|quote| !word.contains(*quote))?;
    Some(format!("{quote}{word}{quote}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes() {
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
    fn the_word_that_is_being_typed() {
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
    fn what_is_quoted_is_read_back() {
        for word in ["a", "/a/b", "two words", "it's", "say \"hi\" to all", "", "'"] {
            assert_eq!(split(&quote(word).unwrap()), [word]);
        }
        assert_eq!(quote("a ' \" b"), None);
    }
}
