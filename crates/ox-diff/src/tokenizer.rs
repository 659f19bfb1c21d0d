//! Splits a script line into words and marks.

use crate::value::{FieldValue, is_bare, unhex};
use anyhow::{Context as _, Result, bail, ensure};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Quoted(Vec<u8>),
    Mark(char),
}

/// Reads the tokens of a line one by one.
#[derive(Clone, Debug)]
pub struct Cursor {
    tokens: Vec<Token>,
    next: usize,
}

const MARKS: &str = "[];,=:";

impl Cursor {
    /// Splits a line; `#` outside quotes starts a comment.
    pub fn new(line: &str) -> Result<Self> {
        let mut tokens = Vec::new();
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            if first == '#' {
                break;
            }
            if first == '"' {
                let (bytes, length) = quoted(&rest[1..])?;
                tokens.push(Token::Quoted(bytes));
                rest = &rest[1 + length..];
            } else if MARKS.contains(first) {
                tokens.push(Token::Mark(first));
                rest = &rest[1..];
            } else {
                let length = rest.bytes().take_while(|&byte| is_bare(byte)).count();
                ensure!(length != 0, "unexpected {first:?}; put it in quotes");
                tokens.push(Token::Word(rest[..length].to_owned()));
                rest = &rest[length..];
            }
            rest = rest.trim_start();
        }
        Ok(Self { tokens, next: 0 })
    }

    pub fn at_end(&self) -> bool {
        self.next == self.tokens.len()
    }

    /// Consumes `mark` if it is next.
    pub fn eat(&mut self, mark: char) -> bool {
        let found = self.tokens.get(self.next) == Some(&Token::Mark(mark));
        self.next += usize::from(found);
        found
    }

    /// Consumes `mark`, which must be next.
    pub fn mark(&mut self, mark: char) -> Result<()> {
        ensure!(self.eat(mark), "expected {mark:?} at token {}", self.next + 1);
        Ok(())
    }

    /// The next token if it is a bare word.
    pub fn peek_word(&self) -> Option<&str> {
        match self.tokens.get(self.next) {
            Some(Token::Word(word)) => Some(word),
            Some(Token::Quoted(_) | Token::Mark(_)) | None => None,
        }
    }

    /// Consumes a bare word.
    pub fn word(&mut self) -> Result<String> {
        let word = self.peek_word().with_context(|| format!("expected a word at token {}", self.next + 1))?.to_owned();
        self.next += 1;
        Ok(word)
    }

    /// Consumes a value: a word, quoted text, `null`, or `*N` for N filler bytes.
    pub fn value(&mut self) -> Result<FieldValue> {
        let token = self.tokens.get(self.next).context("expected a value at the end")?;
        let value = match token {
            Token::Quoted(bytes) => FieldValue(Some(bytes.clone())),
            Token::Word(word) if word == "null" => FieldValue::NULL,
            Token::Word(word) => match word.strip_prefix('*') {
                Some(length) => FieldValue::fill(length.parse().context("length after *")?),
                None => FieldValue::text(word),
            },
            Token::Mark(mark) => bail!("expected a value, found {mark:?}"),
        };
        self.next += 1;
        Ok(value)
    }

    pub fn number<T: std::str::FromStr>(&mut self) -> Result<T> {
        let word = self.word()?;
        word.parse().ok().with_context(|| format!("{word:?} is not a number of the right size"))
    }

    /// Consumes hex digits; `empty` stands for none.
    pub fn hex(&mut self) -> Result<Vec<u8>> {
        let word = self.word()?;
        if word == "empty" { Ok(Vec::new()) } else { unhex(&word).with_context(|| format!("{word:?} is not hex")) }
    }
}

/// Decodes quoted text after its opening quote; returns the bytes and the length including the closing quote.
fn quoted(text: &str) -> Result<(Vec<u8>, usize)> {
    let mut bytes = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        let escaped = match char {
            '"' => return Ok((bytes, at + 1)),
            '\\' => chars.next().context("escape at the end")?.1,
            other => {
                push(&mut bytes, other);
                continue;
            }
        };
        match escaped {
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'x' => {
                let digits: String = chars.by_ref().take(2).map(|(_, digit)| digit).collect();
                bytes.extend(unhex(&digits).filter(|byte| byte.len() == 1).context("\\x needs two hex digits")?);
            }
            'u' => {
                let digits: String =
                    chars.by_ref().skip(1).map(|(_, digit)| digit).take_while(|&digit| digit != '}').collect();
                let code = u32::from_str_radix(&digits, 16).context("\\u{..} needs hex digits")?;
                push(&mut bytes, char::from_u32(code).context("not a character")?);
            }
            other => push(&mut bytes, other),
        }
    }
    bail!("quoted text without closing quote")
}

fn push(bytes: &mut Vec<u8>, char: char) {
    bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        for value in [
            FieldValue::NULL,
            FieldValue::text("null"),
            FieldValue::text("/a"),
            FieldValue::text("\0 \"\\\u{1f600}é"),
            FieldValue(Some(vec![0xff, 0xed, 0xa0])),
            FieldValue::fill(100),
            FieldValue::text("*7"),
        ] {
            assert_eq!(Cursor::new(&value.to_string()).unwrap().value().unwrap(), value);
        }
    }

    #[test]
    fn line_splits_into_words_and_marks() {
        let mut line = Cursor::new("create /a \"x y\" flags=-1 # rest").unwrap();
        assert_eq!(line.word().unwrap(), "create");
        assert_eq!(line.value().unwrap(), FieldValue::text("/a"));
        assert_eq!(line.value().unwrap(), FieldValue::text("x y"));
        assert_eq!(line.word().unwrap(), "flags");
        assert!(line.eat('=') && !line.eat('='));
        assert_eq!(line.number::<i32>().unwrap(), -1);
        assert!(line.at_end() && line.value().is_err());
        assert!(Cursor::new("\"open").is_err() && Cursor::new("a{").is_err());
    }
}
