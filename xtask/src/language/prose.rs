//! Splits a source file into the prose that the language rules check: comments and string literals.

/// Where a piece of prose occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A doc comment: `///` or `//!` in Rust, `/**` in Java and JavaScript, a docstring in Python.
    Doc,
    /// A comment of any other form.
    Comment,
    /// The content of a string literal.
    Literal,
    /// A line of a Markdown file outside of code blocks.
    Markdown,
}

/// One line of a comment or literal, without its markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
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

/// The comment and string syntax of a programming language.
#[derive(Clone, Copy, Debug)]
struct Syntax {
    line_comment: &'static str,
    has_block_comments: bool,
    /// Delimiters of string literals, the longest first.
    quotes: &'static [&'static str],
    is_rust: bool,
}

const RUST: Syntax = Syntax { line_comment: "//", has_block_comments: true, quotes: &["\""], is_rust: true };
const C: Syntax = Syntax { is_rust: false, ..RUST };
const GO: Syntax = Syntax { quotes: &["\"", "`"], ..C };
const JAVASCRIPT: Syntax = Syntax { quotes: &["\"", "'", "`"], ..C };
const SHELL: Syntax = Syntax { line_comment: "#", has_block_comments: false, quotes: &["\"", "'"], is_rust: false };
const PYTHON: Syntax = Syntax { quotes: &[DOCSTRING, "\"", "'"], ..SHELL };
const DOCSTRING: &str = "\"\"\"";

/// The prose of a file. `None` if the language of its file name extension is unknown.
pub(crate) fn of_file(path: &str, text: &str) -> Option<Vec<Block>> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let syntax = match name.rsplit_once('.').map_or(name, |(_, extension)| extension) {
        "md" => return Some(of_markdown(text)),
        "rs" => RUST,
        "java" | "c" | "h" => C,
        "go" => GO,
        "js" => JAVASCRIPT,
        "py" => PYTHON,
        "sh" | "toml" | "run" => SHELL,
        _ => return None,
    };
    Some(of_source(text, syntax))
}

fn of_source(text: &str, syntax: Syntax) -> Vec<Block> {
    blocks(Scanner { rest: text, last: '\n', number: 1, lines: Vec::new(), syntax }.scan())
}

/// The prose of a Markdown file: everything but fenced code. Blank lines, headings, list entries and table rows begin a
/// new block.
fn of_markdown(source: &str) -> Vec<Block> {
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

/// Joins consecutive comment lines of one kind.
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
    /// The character before `rest`.
    last: char,
    number: usize,
    lines: Vec<Line>,
    syntax: Syntax,
}

impl Scanner<'_> {
    fn scan(mut self) -> Vec<Line> {
        while let Some(next) = self.rest.chars().next() {
            // `$#` and `${name#prefix}` of shell scripts are no comments.
            let may_comment = self.syntax.line_comment != "#" || self.last.is_whitespace();
            if may_comment && self.rest.starts_with(self.syntax.line_comment) {
                self.line_comment();
            } else if self.syntax.has_block_comments && self.rest.starts_with("/*") {
                let end = self.rest.find("*/").map_or(self.rest.len(), |at| at + 2);
                let is_doc = !self.syntax.is_rust && self.rest.starts_with("/**");
                let (kind, before) = if is_doc { (Kind::Doc, 3) } else { (Kind::Comment, 2) };
                self.push(kind, end, before, 2);
            } else if let Some(quote) = self.syntax.quotes.iter().find(|quote| self.rest.starts_with(**quote)) {
                let end = closing_quote(self.rest, quote, self.syntax.is_rust);
                let kind = if *quote == DOCSTRING { Kind::Doc } else { Kind::Literal };
                self.push(kind, end, quote.len(), quote.len());
            } else if let Some(hashes) = raw_string(self.rest).filter(|_| self.syntax.is_rust) {
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

    fn line_comment(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let text = &self.rest[..end];
        let is_line_start = self.lines.last().is_none_or(|line| line.number != self.number);
        let is_doc = (text.starts_with("///") || text.starts_with("//!")) && !text.starts_with("////");
        if self.syntax.is_rust && is_line_start && is_doc {
            self.push(Kind::Doc, end, 3, 0);
        } else {
            self.push(Kind::Comment, end, self.syntax.line_comment.len(), 0);
        }
    }

    /// Takes the next `end` bytes as prose, without `before` and `after` bytes of markers.
    fn push(&mut self, kind: Kind, end: usize, before: usize, after: usize) {
        let inner = self.rest.get(before..end.saturating_sub(after)).unwrap_or_default();
        for (number, line) in (self.number..).zip(inner.split('\n')) {
            let mut text = line.trim().trim_end_matches('\\').trim_end();
            if self.rest.starts_with("/*") {
                text = text.strip_prefix("* ").unwrap_or(text);
            }
            self.lines.push(Line { number, kind, text: text.to_owned() });
        }
        self.advance(end);
    }

    fn advance(&mut self, bytes: usize) {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.number += skipped.matches('\n').count();
        self.last = skipped.chars().next_back().unwrap_or(self.last);
        self.rest = rest;
    }
}

/// Bytes up to and including the quote that ends a string literal. Outside of Rust, `"` and `'` do not span lines, so
/// that a quote in a regular expression does not swallow the rest of the file.
fn closing_quote(text: &str, quote: &str, is_rust: bool) -> usize {
    let spans_lines = is_rust || !["\"", "'"].contains(&quote);
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip_while(|(at, _)| *at < quote.len()) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = quote != "`", // Go's raw strings have no escapes
            '\n' if !spans_lines => return at,
            _ if text[at..].starts_with(quote) => return at + quote.len(),
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

/// Bytes of an identifier, so that a letter `r` at its end does not begin a raw string.
fn word(text: &str) -> usize {
    text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(path: &str, source: &str) -> Vec<(usize, Kind, String)> {
        let blocks = of_file(path, source).unwrap();
        blocks.into_iter().map(|block| (block.first, block.kind, block.text())).collect()
    }

    #[test]
    fn rust_comments_and_literals_are_separated_from_code() {
        let source = "//! Page\n//! two.\nfn f<'a>(c: &'a str) { g('\"', '\\'', \"a \\\" b\"); } // end\n/// Doc.\nlet r = r#\"raw \"x\" y\"#;";
        assert_eq!(
            prose("a.rs", source),
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
    fn java_and_go_comments_and_literals_are_separated_from_code() {
        let java = "/**\n * Doc\n * two.\n */\nint f() { return '\"'; } // \"end\"\n\n/* plain */ String s = \"text\";";
        assert_eq!(
            prose("a.java", java),
            [
                (1, Kind::Doc, " Doc two. ".to_owned()),
                (5, Kind::Comment, "\"end\"".to_owned()),
                (7, Kind::Comment, "plain".to_owned()),
                (7, Kind::Literal, "text".to_owned()),
            ]
        );
        assert_eq!(prose("a.go", "s := `raw \\`\n// after")[1], (2, Kind::Comment, "after".to_owned()));
    }

    #[test]
    fn python_docstrings_are_docs_and_hashes_are_comments() {
        let python = "\"\"\"Doc\ntwo.\"\"\"\nx = 'a # b' # end\ny = \"c\"\n";
        assert_eq!(
            prose("a.py", python),
            [
                (1, Kind::Doc, "Doc two.".to_owned()),
                (3, Kind::Literal, "a # b".to_owned()),
                (3, Kind::Comment, "end".to_owned()),
                (4, Kind::Literal, "c".to_owned()),
            ]
        );
    }

    #[test]
    fn unclosed_quote_outside_of_rust_ends_with_its_line() {
        let script = "echo ${x#y} don't\n# comment\n";
        assert_eq!(prose("ci/run", script).last().unwrap(), &(2, Kind::Comment, "comment".to_owned()));
        let javascript = "const quote = /'/;\n// comment\n";
        assert_eq!(prose("a.js", javascript).last().unwrap(), &(2, Kind::Comment, "comment".to_owned()));
    }

    #[test]
    fn lines_of_a_block_keep_their_numbers() {
        let block = &of_source("\n// one\n// two three\n", RUST)[0];
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
