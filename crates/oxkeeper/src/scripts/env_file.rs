//! `zookeeper-env.sh` and `java.env`: assignments in the syntax of a shell, without a shell.
//!
//! Understood are assignments with or without `export`, quotes, `+=`, and the values of variables: `$NAME`, `${NAME}` and
//! `${NAME:-default}`. Anything else is an error, because a setting that is silently left out may be one that protects.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// A line that needs a shell.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NeedsShell {
    line: usize,
    what: String,
}

impl fmt::Display for NeedsShell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} needs a shell", self.line, self.what)
    }
}

/// Adds the variables that a text sets. `outer` looks up variables that it does not set.
pub(super) fn read(
    text: &str,
    variables: &mut BTreeMap<String, String>,
    outer: &dyn Fn(&str) -> Option<String>,
) -> Result<(), NeedsShell> {
    let mut reader = EnvReader { text: text.chars().peekable(), line: 1, variables, outer };
    reader.read()
}

struct EnvReader<'a> {
    text: Peekable<Chars<'a>>,
    line: usize,
    variables: &'a mut BTreeMap<String, String>,
    outer: &'a dyn Fn(&str) -> Option<String>,
}

impl EnvReader<'_> {
    fn read(&mut self) -> Result<(), NeedsShell> {
        let mut is_export = false;
        while let Some(&letter) = self.text.peek() {
            match letter {
                '\n' | ';' => {
                    is_export = false;
                    self.next();
                }
                ' ' | '\t' | '\r' => drop(self.next()),
                '#' => while self.text.next_if(|letter| *letter != '\n').is_some() {},
                _ => {
                    let name = self.name();
                    match self.text.peek() {
                        Some('=' | '+') if !name.is_empty() => self.assignment(name)?,
                        None | Some(' ' | '\t' | '\r' | '\n' | ';') if name == "export" || is_export => {
                            is_export = true;
                        }
                        _ => return Err(self.needs_shell(format!("`{name}..`"))),
                    }
                }
            }
        }
        Ok(())
    }

    fn assignment(&mut self, name: String) -> Result<(), NeedsShell> {
        let is_appended = self.text.next_if_eq(&'+').is_some();
        if self.next() != Some('=') {
            return Err(self.needs_shell(format!("`{name}+`")));
        }
        let mut value = if is_appended { self.value_of(&name) } else { String::new() };
        value.push_str(&self.word()?);
        self.variables.insert(name, value);
        Ok(())
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(letter) = self.text.next_if(|letter| letter.is_ascii_alphanumeric() || *letter == '_') {
            name.push(letter);
        }
        name
    }

    /// The value of an assignment, up to a blank outside of quotes.
    fn word(&mut self) -> Result<String, NeedsShell> {
        let mut word = String::new();
        while let Some(letter) = self.text.next_if(|letter| !matches!(letter, ' ' | '\t' | '\r' | '\n' | ';')) {
            match letter {
                '\'' => loop {
                    match self.next() {
                        Some('\'') => break,
                        Some(letter) => word.push(letter),
                        None => return Err(self.needs_shell("an open quote".to_owned())),
                    }
                },
                '"' => self.quoted(&mut word)?,
                '\\' => word.extend(self.next().filter(|letter| *letter != '\n')),
                '$' => self.expansion(&mut word)?,
                '`' | '(' | '&' | '|' | '<' | '>' => return Err(self.needs_shell(format!("`{letter}`"))),
                letter => word.push(letter),
            }
        }
        Ok(word)
    }

    /// The rest of text in double quotes.
    fn quoted(&mut self, word: &mut String) -> Result<(), NeedsShell> {
        loop {
            match self.next() {
                Some('"') => return Ok(()),
                Some('$') => self.expansion(word)?,
                Some('`') => return Err(self.needs_shell("a command".to_owned())),
                Some('\\') => match self.next() {
                    Some('\n') | None => (),
                    Some(letter @ ('"' | '\\' | '$' | '`')) => word.push(letter),
                    Some(letter) => word.extend(['\\', letter]),
                },
                Some(letter) => word.push(letter),
                None => return Err(self.needs_shell("an open quote".to_owned())),
            }
        }
    }

    /// The value of a variable, after the `$`.
    fn expansion(&mut self, word: &mut String) -> Result<(), NeedsShell> {
        match self.text.peek() {
            Some('{') => {
                self.next();
                let name = self.name();
                let mut default = None;
                if self.text.next_if_eq(&':').is_some() && self.text.next_if_eq(&'-').is_some() {
                    let mut text = String::new();
                    while let Some(letter) = self.text.next_if(|letter| !matches!(letter, '}' | '$' | '"' | '\n')) {
                        text.push(letter);
                    }
                    default = Some(text);
                }
                if name.is_empty() || self.next() != Some('}') {
                    return Err(self.needs_shell(format!("`${{{name}..`")));
                }
                let value = self.value_of(&name);
                word.push_str(if value.is_empty() { default.as_deref().unwrap_or_default() } else { &value });
            }
            Some(letter) if letter.is_ascii_alphabetic() || *letter == '_' => {
                let name = self.name();
                word.push_str(&self.value_of(&name));
            }
            _ => return Err(self.needs_shell("`$`".to_owned())),
        }
        Ok(())
    }

    fn value_of(&self, name: &str) -> String {
        self.variables.get(name).cloned().or_else(|| (self.outer)(name)).unwrap_or_default()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.text.next();
        self.line += usize::from(letter == Some('\n'));
        letter
    }

    fn needs_shell(&self, what: String) -> NeedsShell {
        NeedsShell { line: self.line, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let mut variables = BTreeMap::new();
        read(text, &mut variables, &|name| (name == "OUTER").then(|| "out".to_owned())).unwrap();
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(variables.into_iter().collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn assignments_are_read_as_by_a_shell() {
        check("", &[]);
        check("#!/bin/sh\n# JVMFLAGS=-Dx\n\nexport JVMFLAGS=\"-Da=b -Dc=d\"\n", &[("JVMFLAGS", "-Da=b -Dc=d")]);
        check("A=1;B='two $A \"x\"'  C=3 # D=4", &[("A", "1"), ("B", "two $A \"x\""), ("C", "3")]);
        check("A=a\nA=\"$A ${A}b ${OUTER} ${NO:-default -x} $NO.\"\n", &[("A", "a ab out default -x .")]);
        check("A=x\r\nexport A\r\nA+=\" y\"\nOUTER+=z", &[("A", "x y"), ("OUTER", "outz")]);
        check("A=\"one \\\ntwo \\\" \\$A \\n\"", &[("A", "one two \" $A \\n")]);
        check("A=a\\ b\"c d\"'e f'", &[("A", "a bc de f")]);
        check("export A", &[]);
    }

    #[test]
    fn line_that_needs_a_shell_is_named() {
        for (text, line) in [
            ("A=1\nif true; then B=2; fi", 2),
            ("A=$(hostname)", 1),
            ("A=`hostname`", 1),
            ("\n\nulimit -n 100", 3),
            ("A=\"\nx", 2),
            ("A=${A%x}", 1),
            ("A=1 java", 1),
            (". other", 1),
        ] {
            let error = read(text, &mut BTreeMap::new(), &|_| None).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
        }
    }
}
