//! Tokens of a JAAS file: words, quoted strings and punctuation, with line numbers.

use super::JaasError;
use std::iter::Peekable;
use std::str::Chars;
use zeroize::Zeroizing;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word or a quoted string; wiped when dropped, because it may be a password.
    Text(Zeroizing<String>),
    Punctuation(char),
    End,
}

pub(super) struct Tokens<'a> {
    file: &'a str,
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, chars: text.chars().peekable(), line: 1 }
    }

    pub(super) fn error(&self, line: usize, message: impl Into<String>) -> JaasError {
        JaasError { file: self.file.to_owned(), line, message: message.into() }
    }

    /// The next token and the line on which it begins.
    pub(super) fn next(&mut self) -> Result<(Token, usize), JaasError> {
        loop {
            let Some(&first) = self.chars.peek() else { return Ok((Token::End, self.line)) };
            let line = self.line;
            match first {
                '/' => self.comment(line)?,
                '"' => return Ok((self.quoted(line)?, line)),
                '{' | '}' | ';' | '=' => {
                    self.advance();
                    return Ok((Token::Punctuation(first), line));
                }
                _ if first <= ' ' => {
                    self.advance();
                }
                _ if is_word(first) => return Ok((self.word(), line)),
                _ => {
                    let message = format!("unexpected character {first:?}; values that contain it need double quotes");
                    return Err(self.error(line, message));
                }
            }
        }
    }

    fn advance(&mut self) -> Option<char> {
        let char = self.chars.next()?;
        if char == '\n' {
            self.line += 1;
        }
        Some(char)
    }

    fn word(&mut self) -> Token {
        let mut word = Zeroizing::new(String::new());
        while let Some(char) = self.chars.next_if(|char| is_word(*char)) {
            word.push(char);
        }
        Token::Text(word)
    }

    /// Skips `// ..` and `/* .. */`. Java takes any other `/` for the start of a comment too, which hides the rest of
    /// the line, and usually ends in an error about a missing value; here the message says what to do.
    fn comment(&mut self, line: usize) -> Result<(), JaasError> {
        self.advance();
        match self.chars.peek() {
            Some('/') => {
                while self.chars.next_if(|char| *char != '\n').is_some() {}
                Ok(())
            }
            Some('*') => {
                self.advance();
                let mut last = ' ';
                while let Some(char) = self.advance() {
                    if last == '*' && char == '/' {
                        return Ok(());
                    }
                    last = char;
                }
                Err(self.error(line, "the comment that begins here is not closed"))
            }
            _ => Err(self.error(line, "unexpected character '/'; values that contain it need double quotes")),
        }
    }

    fn quoted(&mut self, line: usize) -> Result<Token, JaasError> {
        self.advance();
        let mut text = Zeroizing::new(String::new());
        loop {
            match self.advance() {
                Some('"') => return Ok(Token::Text(text)),
                Some('\\') => match self.escape() {
                    Some(char) => text.push(char),
                    None => return Err(self.error(line, "the string that begins here is not closed")),
                },
                None | Some('\n' | '\r') => return Err(self.error(line, "the string that begins here is not closed")),
                Some(char) => text.push(char),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        Some(match self.advance()? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{C}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{B}',
            first @ '0'..='7' => self.octal(first),
            char => char,
        })
    }

    /// Up to three octal digits; three only if the first is at most 3, so that the value fits a byte.
    fn octal(&mut self, first: char) -> char {
        let digits_max = if first <= '3' { 3 } else { 2 };
        let mut value = first as u32 - '0' as u32;
        for _ in 1..digits_max {
            let Some(digit) = self.chars.next_if(|char| ('0'..='7').contains(char)) else { break };
            value = value * 8 + (digit as u32 - '0' as u32);
        }
        char::from_u32(value).unwrap_or_default()
    }
}

/// Java reads words that begin with a digit as numbers, and refuses them; they are harmless.
fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '$' | '_' | '-' | '*' | '.') || '\u{A0}' <= char
}
