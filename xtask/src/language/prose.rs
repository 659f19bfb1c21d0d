//! Splits a source file into the prose that the language rules read: comments and string literals.

/// What a piece of prose is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `///` or `//!`.
    Doc,
    /// `//` or `/* */`.
    Comment,
    /// The content of a string literal.
    Literal,
    /// A line of a Markdown file outside of code blocks.
    Markdown,
}

/// One comment line or one line of a literal, without its markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Counted from 1.
    pub(crate) number: usize,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// Consecutive lines of one kind: a whole comment, literal or paragraph.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) kind: Kind,
    /// Line number of the first line.
    pub(crate) first: usize,
    pub(crate) lines: Vec<String>,
}

impl Block {
    /// The text with line ends as spaces.
    pub(crate) fn text(&self) -> String {
        self.lines.join(" ")
    }

    /// The line number of a byte offset in [`text`](Self::text).
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        let mut end = 0;
        for (number, line) in (self.first..).zip(&self.lines) {
            end += line.len() + 1;
            if offset < end {
                return number;
            }
        }
        self.first
    }
}

/// The prose of a Rust file.
pub(crate) fn of_rust(source: &str) -> Vec<Block> {
    blocks(Scanner { rest: source, number: 1, lines: Vec::new() }.scan())
}

/// The prose of a Markdown file: everything but fenced code and what stands in backquotes. Blank lines, headings, list
/// entries and table rows begin a new block.
pub(crate) fn of_markdown(source: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_code, mut is_open) = (false, false);
    for (number, line) in (1..).zip(source.lines()) {
        let text = line.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence || text.is_empty() {
            is_open = false;
            continue;
        }
        let begins = text.starts_with(['#', '|', '-', '*']);
        match blocks.last_mut().filter(|_| is_open && !begins) {
            Some(block) => block.lines.push(text.to_owned()),
            None => blocks.push(Block { kind: Kind::Markdown, first: number, lines: vec![text.to_owned()] }),
        }
        is_open = true;
    }
    blocks
}

/// Joins lines that follow each other; an empty comment line ends a paragraph.
fn blocks(lines: Vec<Line>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in lines {
        let follows = |block: &&mut Block| {
            block.kind == line.kind && line.kind != Kind::Literal && block.first + block.lines.len() == line.number
        };
        match blocks.last_mut().filter(follows) {
            Some(block) => block.lines.push(line.text),
            None => blocks.push(Block { kind: line.kind, first: line.number, lines: vec![line.text] }),
        }
    }
    blocks
}

struct Scanner<'a> {
    rest: &'a str,
    number: usize,
    lines: Vec<Line>,
}

impl Scanner<'_> {
    fn scan(mut self) -> Vec<Line> {
        while let Some(next) = self.rest.chars().next() {
            let is_line_start = self.lines.last().is_none_or(|line| line.number != self.number);
            if self.rest.starts_with("//") {
                self.line_comment(is_line_start);
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/").map_or(self.rest.len(), |at| at + 2);
                self.push(Kind::Comment, end, 2, 2);
            } else if next == '"' {
                let end = closing_quote(self.rest);
                self.push(Kind::Literal, end, 1, 1);
            } else if let Some(hashes) = raw_string(self.rest) {
                let mark = format!("\"{}", "#".repeat(hashes));
                let start = hashes + 2;
                let end = self.rest[start..].find(&mark).map_or(self.rest.len(), |at| start + at + mark.len());
                self.push(Kind::Literal, end, start, mark.len());
            } else {
                let skipped = match next {
                    '\'' => char_literal(self.rest),
                    _ if next.is_alphanumeric() || next == '_' => word(self.rest),
                    _ => next.len_utf8(),
                };
                self.advance(skipped);
            }
        }
        self.lines
    }

    fn line_comment(&mut self, is_line_start: bool) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let text = &self.rest[..end];
        let is_doc = is_line_start && (text.starts_with("///") || text.starts_with("//!")) && !text.starts_with("////");
        let kind = if is_doc { Kind::Doc } else { Kind::Comment };
        self.push(kind, end, if is_doc { 3 } else { 2 }, 0);
    }

    /// Takes the next `end` bytes as prose, without `before` and `after` bytes of markers.
    fn push(&mut self, kind: Kind, end: usize, before: usize, after: usize) {
        let inner = self.rest.get(before..end.saturating_sub(after)).unwrap_or_default();
        for (number, line) in (self.number..).zip(inner.split('\n')) {
            let text = line.trim().trim_end_matches('\\').trim_end().to_owned();
            self.lines.push(Line { number, kind, text });
        }
        self.advance(end);
    }

    fn advance(&mut self, bytes: usize) {
        self.number += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }
}

/// Bytes up to and with the quote that ends a string literal.
fn closing_quote(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The number of `#` of a raw string literal that begins here.
fn raw_string(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// Bytes of a character literal, or of the quote of a lifetime.
fn char_literal(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => {
            text[2..].char_indices().skip(1).find(|(_, letter)| *letter == '\'').map_or(2, |(at, _)| at + 3)
        }
        Some((at, letter)) if text[at + letter.len_utf8()..].starts_with('\'') => at + letter.len_utf8() + 1,
        _ => 1,
    }
}

/// Bytes of an identifier, so that a letter `r` at its end is not taken for a raw string.
fn word(text: &str) -> usize {
    text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(source: &str) -> Vec<(usize, Kind, String)> {
        of_rust(source).into_iter().map(|block| (block.first, block.kind, block.text())).collect()
    }

    #[test]
    fn comments_and_literals_are_separated_from_code() {
        let source = "//! Page\n//! two.\nfn f<'a>(c: &'a str) { g('\"', '\\'', \"a \\\" b\"); } // end\n/// Doc.\nlet r = r#\"raw \"x\" y\"#;";
        assert_eq!(
            rust(source),
            [
                (1, Kind::Doc, "Page two.".to_owned()),
                (3, Kind::Literal, "a \\\" b".to_owned()),
                (3, Kind::Comment, "end".to_owned()),
                (4, Kind::Doc, "Doc.".to_owned()),
                (5, Kind::Literal, "raw \"x\" y".to_owned()),
            ]
        );
    }

    #[test]
    fn lines_of_a_block_keep_their_numbers() {
        let block = &of_rust("\n// one\n// two three\n")[0];
        let text = block.text();
        assert_eq!(block.line_at(text.find("one").unwrap()), 2);
        assert_eq!(block.line_at(text.find("three").unwrap()), 3);
    }

    #[test]
    fn code_of_markdown_is_left_out() {
        let blocks = of_markdown("# Title\ntext\nmore\n```\ncode\n```\n- a\n- b\n");
        let found: Vec<_> = blocks.iter().map(|block| (block.first, block.text())).collect();
        assert_eq!(found, [(1, "# Title text more".into()), (7, "- a".into()), (8, "- b".into())]);
    }
}
