//! `cargo xtask words`: counts of what the language rules are about. `cargo xtask tidy` enforces the rules.

pub(crate) mod log_values;
pub(crate) mod prose;
pub(crate) mod rules;

use std::fmt::Write as _;

use anyhow::Result;

use crate::interop::workspace::Workspace;
use prose::{Block, Kind};

/// Technical terms that the comments of a coordination service are expected to contain.
const FIELD_WORDS: [&str; 3] = ["commit", "fsync", "back-pressure"];

#[derive(Default)]
struct Counts {
    comment_lines: usize,
    pronoun_lines: usize,
    who_clauses: usize,
    field_words: [usize; FIELD_WORDS.len()],
    fillers: usize,
    bare_numbers: usize,
    banned: usize,
}

impl Counts {
    fn add(&mut self, block: &Block) {
        self.banned += rules::banned(block).len();
        if block.kind == Kind::Literal {
            return;
        }
        self.comment_lines += block.lines.len();
        for line in &block.lines {
            let line = line.to_lowercase();
            self.pronoun_lines +=
                usize::from(rules::PRONOUNS.iter().any(|word| rules::places(&line, word).next().is_some()));
        }
        let text = block.text();
        let text = text.to_lowercase();
        self.who_clauses += rules::places(&text, "who").filter(|at| is_clause_start(&text[..*at])).count();
        for (count, word) in self.field_words.iter_mut().zip(FIELD_WORDS) {
            *count += text.matches(word).count();
        }
        self.fillers += usize::from(rules::is_filler(block));
        self.bare_numbers += usize::from(rules::is_bare_number(block));
    }

    fn report(&self, repeated: usize) -> String {
        #[expect(clippy::cast_precision_loss, reason = "counts of lines")]
        let per_1000 = |count: usize| format!("{:.1}", count as f64 * 1000.0 / self.comment_lines.max(1) as f64);
        let mut rows = vec![
            ("comment lines".to_owned(), self.comment_lines.to_string()),
            (format!("comment lines with {}, per 1000", rules::PRONOUNS.join("/")), per_1000(self.pronoun_lines)),
            ("clauses that start with \"Who\", per 1000 comment lines".to_owned(), per_1000(self.who_clauses)),
        ];
        for (word, count) in FIELD_WORDS.iter().zip(self.field_words) {
            rows.push((format!("\"{word}\" in comments, per 1000"), per_1000(count)));
        }
        rows.extend([
            ("doc comments of three words or fewer".to_owned(), self.fillers.to_string()),
            ("comments that are a case number only".to_owned(), self.bare_numbers.to_string()),
            ("banned words in comments and literals".to_owned(), self.banned.to_string()),
            ("names of public types that occur twice".to_owned(), repeated.to_string()),
        ]);
        rows.iter().fold(String::new(), |mut text, (what, count)| {
            let _ = writeln!(text, "| {what} | {count} |");
            text
        })
    }
}

/// Whether a clause begins after this text.
fn is_clause_start(before: &str) -> bool {
    let before = before.trim_end();
    before.is_empty() || before.ends_with(['.', ':', ';', ','])
}

/// Prints the counts of all source files that git tracks.
pub(crate) fn run() -> Result<()> {
    let (mut counts, mut types) = (Counts::default(), rules::PublicTypes::default());
    let workspace = Workspace::find();
    for path in workspace.files()?.iter().filter(|path| !path.ends_with(".md")) {
        let Ok(source) = std::fs::read_to_string(workspace.root().join(path)) else { continue }; // binary, or deleted
        let Some(blocks) = prose::of_file(path, &source) else { continue };
        blocks.iter().for_each(|block| counts.add(block));
        types.add(path, &source);
    }
    print!("{}", counts.report(types.repeated().count()));
    Ok(())
}
