//! The grammar of JAAS files, and the expansion of `${property}`.

use super::tokens::{Token, Tokens};
use super::{ControlFlag, JAAS_FILE_BYTES_MAX, JaasError, JaasFile, JaasModule, JaasSection};
use crate::secret::SecretBytes;
use zeroize::Zeroizing;

type Properties<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) fn parse(name: &str, text: &str, property: Properties<'_>) -> Result<JaasFile, JaasError> {
    let mut tokens = Tokens::new(name, text);
    if JAAS_FILE_BYTES_MAX < text.len() {
        return Err(tokens.error(1, format!("the file is larger than {JAAS_FILE_BYTES_MAX} bytes")));
    }
    let mut parser = Parser { lookahead: tokens.next()?, tokens, property };
    let mut sections: Vec<JaasSection> = Vec::new();
    while parser.lookahead.0 != Token::End {
        let section = parser.section(name)?;
        if let Some(first) = sections.iter().find(|known| known.name == section.name) {
            let message = format!("section '{}' is already defined in line {}", section.name, first.line);
            return Err(parser.tokens.error(section.line, message));
        }
        sections.push(section);
    }
    Ok(JaasFile { name: name.to_owned(), sections })
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    lookahead: (Token, usize),
    property: Properties<'a>,
}

impl Parser<'_> {
    fn section(&mut self, file: &str) -> Result<JaasSection, JaasError> {
        let line = self.lookahead.1;
        let name = self.text("a section name")?.to_string();
        self.punctuation('{')?;
        let mut modules = Vec::new();
        while !self.is_next('}') {
            modules.push(self.module()?);
        }
        self.punctuation('}')?;
        self.punctuation(';')?;
        Ok(JaasSection { name, file: file.to_owned(), line, modules })
    }

    fn module(&mut self) -> Result<JaasModule, JaasError> {
        let line = self.lookahead.1;
        let class = self.text("a login module's class name")?.to_string();
        let flag = self.flag()?;
        let mut options: Vec<(String, SecretBytes)> = Vec::new();
        while !self.is_next(';') {
            let key = self.text("an option or ';'")?.to_string();
            self.punctuation('=')?;
            let value_line = self.lookahead.1;
            let value = self.text("the value of the option")?;
            let value = SecretBytes::new(self.expand(&key, &value, value_line)?.as_bytes());
            match options.iter_mut().find(|(known, _)| *known == key) {
                Some(option) => option.1 = value,
                None => options.push((key, value)),
            }
        }
        self.punctuation(';')?;
        Ok(JaasModule { class, flag, line, options })
    }

    fn flag(&mut self) -> Result<ControlFlag, JaasError> {
        let line = self.lookahead.1;
        let flag = self.text("a flag: required, requisite, sufficient or optional")?;
        match flag.to_ascii_lowercase().as_str() {
            "required" => Ok(ControlFlag::Required),
            "requisite" => Ok(ControlFlag::Requisite),
            "sufficient" => Ok(ControlFlag::Sufficient),
            "optional" => Ok(ControlFlag::Optional),
            _ => Err(self.tokens.error(line, "the flag must be required, requisite, sufficient or optional")),
        }
    }

    fn advance(&mut self) -> Result<Token, JaasError> {
        let next = self.tokens.next()?;
        Ok(std::mem::replace(&mut self.lookahead, next).0)
    }

    fn is_next(&self, expected: char) -> bool {
        self.lookahead.0 == Token::Punctuation(expected)
    }

    fn text(&mut self, expected: &str) -> Result<Zeroizing<String>, JaasError> {
        let line = self.lookahead.1;
        match self.advance()? {
            Token::Text(text) => Ok(text),
            Token::Punctuation(found) => Err(self.tokens.error(line, format!("expected {expected}, found '{found}'"))),
            Token::End => Err(self.tokens.error(line, format!("expected {expected}, found the end of the file"))),
        }
    }

    /// The text of an unexpected token is left out of the message: it may be a password.
    fn punctuation(&mut self, expected: char) -> Result<(), JaasError> {
        let line = self.lookahead.1;
        match self.advance()? {
            Token::Punctuation(found) if found == expected => Ok(()),
            Token::Punctuation(found) => {
                Err(self.tokens.error(line, format!("expected '{expected}', found '{found}'")))
            }
            Token::Text(_) => Err(self.tokens.error(line, format!("expected '{expected}', found a word or string"))),
            Token::End => Err(self.tokens.error(line, format!("expected '{expected}', found the end of the file"))),
        }
    }

    /// Replaces `${name}` by a system property and `${/}` by `/`. Text in `${{..}}` stays, as in Java.
    fn expand(&self, key: &str, value: &str, line: usize) -> Result<Zeroizing<String>, JaasError> {
        let mut expanded = Zeroizing::new(String::new());
        let mut rest = value;
        while let Some(start) = rest.find("${") {
            let (before, reference) = rest.split_at(start);
            expanded.push_str(before);
            let closing = if reference.starts_with("${{") { "}}" } else { "}" };
            let Some(end) = reference.find(closing) else {
                expanded.push_str(reference);
                return Ok(expanded);
            };
            let (reference, after) = reference.split_at(end + closing.len());
            if closing == "}}" {
                expanded.push_str(reference);
            } else {
                expanded.push_str(&self.property(key, &reference[2..reference.len() - 1], line)?);
            }
            rest = after;
        }
        expanded.push_str(rest);
        if expanded.is_empty() && !value.is_empty() {
            return Err(self.tokens.error(line, format!("the value of option '{key}' expands to nothing")));
        }
        Ok(expanded)
    }

    fn property(&self, key: &str, name: &str, line: usize) -> Result<Zeroizing<String>, JaasError> {
        if name == "/" {
            return Ok(Zeroizing::new("/".to_owned()));
        }
        (self.property)(name).map(Zeroizing::new).ok_or_else(|| {
            self.tokens.error(line, format!("option '{key}' refers to the system property '{name}', which is not set"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<JaasFile, JaasError> {
        parse("jaas.conf", text, &|name| match name {
            "user.home" => Some("/home/zk".to_owned()),
            "empty" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn sections_modules_and_options_are_read() {
        let file = parse_text(
            "// accounts\nServer {\n  a.b.Digest$Module Required /* all\n of them */ user_super=\"ad min\\\"\\101\"\n\
             user_bob=bob-secret.1 user_bob=\"\";\n\n c.D optional;\n};\nClient{e.F SUFFICIENT a=\"${user.home}${/}k${{x}}\" b=\"${open\";};",
        )
        .unwrap();
        let server = file.section("Server").unwrap();
        assert_eq!((server.line, server.modules.len()), (2, 2));
        let digest = &server.modules[0];
        assert_eq!((digest.class.as_str(), digest.flag, digest.line), ("a.b.Digest$Module", ControlFlag::Required, 3));
        let options: Vec<_> = digest.options().map(|(key, value)| (key, value.text())).collect();
        assert_eq!(options, [("user_super", "ad min\"A"), ("user_bob", "")]);
        assert_eq!((server.modules[1].flag, server.modules[1].line), (ControlFlag::Optional, 7));
        let client = &file.section("Client").unwrap().modules[0];
        assert_eq!(client.text("a"), Some("/home/zk/k${{x}}"));
        assert_eq!(client.text("b"), Some("${open"));
        assert!(file.section("client").is_none());
        assert!(!format!("{file:?}").contains("min"));
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, expected) in [
            ("Server {\n a.B required\n keyTab=/etc/zk.keytab;\n};", "3: unexpected character '/'; values"),
            ("Server {\n a.B needed;\n};", "2: the flag must be required"),
            ("Server {\n a.B required x=\"1\"\n", "3: expected an option or ';', found the end of the file"),
            ("Server {\n a.B required x=;\n};", "2: expected the value of the option, found ';'"),
            ("Server {\n a.B required\n p=\"sesame\n\";\n};", "3: the string that begins here is not closed"),
            ("Server { a.B required x y=1; };", "1: expected '=', found a word or string"),
            ("Server { a.B required; }", "1: expected ';', found the end of the file"),
            ("Server { a.B required; };\nServer { };", "2: section 'Server' is already defined in line 1"),
            ("Server { a.B required\nx=\"${no.such}\"; };", "2: option 'x' refers to the system property 'no.such'"),
            ("Server { a.B required\nx=\"${empty}\"; };", "2: the value of option 'x' expands to nothing"),
            ("/* open", "1: the comment that begins here is not closed"),
            ("Server { a.B required x='y'; };", "1: unexpected character '\\''"),
            ("{};", "1: expected a section name, found '{'"),
        ] {
            let error = parse_text(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("jaas.conf:{expected}")), "{text}: {error}");
            assert!(!error.contains("sesame"));
        }
        let large = format!("//{}", "x".repeat(JAAS_FILE_BYTES_MAX));
        assert!(parse_text(&large).is_err() && parse_text(&large[2..]).is_err());
    }
}
