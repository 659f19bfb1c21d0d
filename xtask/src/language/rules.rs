//! The language rules: banned words, doc comments that carry nothing, numbers of known cases without a statement, and
//! public types that share a name.

use std::collections::BTreeMap;

use super::prose::{Block, Kind};

/// Pronouns without a referent, the first of [`BANNED`].
pub(crate) const PRONOUNS: &[&str] = BANNED.split_at(4).0;

/// Words and phrases that no comment, page or literal may contain. `GLOSSARY.md` has the words to use instead.
pub(crate) const BANNED: [&str; 22] = [
    "somebody",
    "nobody",
    "whoever",
    "whom",
    "anew",
    "for ever",
    "newcomer",
    "newcomers",
    "stranger",
    "strangers",
    "agreed on",
    "in force",
    "on its way",
    "on their way",
    "in the making",
    "the own",
    "gives up its office",
    "stands back",
    "another mind",
    "of no use",
    "hang up",
    "says nothing",
];

/// A doc comment with fewer words can hardly add anything to the name.
const DOC_WORDS_MIN: usize = 4;

/// Byte offsets of a phrase in lower-case text, whole words only.
pub(crate) fn places<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(phrase).map(|(at, _)| at).filter(move |at| {
        !is_part(text[..*at].chars().next_back()) && !is_part(text[at + phrase.len()..].chars().next())
    })
}

/// Line number and phrase of each banned word in a block.
pub(crate) fn banned(block: &Block) -> Vec<(usize, &'static str)> {
    let text = block.text().to_lowercase();
    let mut found = Vec::new();
    for phrase in &BANNED {
        found.extend(places(&text, phrase).map(|at| (block.line_at(at), *phrase)));
    }
    found
}

/// Whether a block is a doc comment of fewer than [`DOC_WORDS_MIN`] words.
pub(crate) fn is_filler(block: &Block) -> bool {
    block.kind == Kind::Doc && words(&block.text()) < DOC_WORDS_MIN && !block.text().contains("```")
}

/// Whether a comment consists of case numbers without a statement.
pub(crate) fn is_bare_number(block: &Block) -> bool {
    let text = block.text();
    let numbers = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| is_case_number(word)).count();
    let is_comment = matches!(block.kind, Kind::Doc | Kind::Comment);
    is_comment && 0 < numbers && words(&text) < numbers + DOC_WORDS_MIN - 1
}

/// `P12`, `K057`: the letter of a table in `docs/reference/requirements.md`, and up to three digits.
fn is_case_number(word: &str) -> bool {
    let Some((letter, digits)) = word.split_at_checked(1) else { return false };
    "PRKSFO".contains(letter) && (1..=3).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Names of public types, with path and line of each declaration.
#[derive(Default)]
pub(crate) struct PublicTypes(BTreeMap<String, Vec<(String, usize)>>);

impl PublicTypes {
    /// Adds the declarations of a Rust file of a crate; ignores tests and other files.
    pub(crate) fn add(&mut self, path: &str, source: &str) {
        if !path.starts_with("crates/") || !path.contains("/src/") || !path.ends_with(".rs") {
            return;
        }
        for (number, line) in (1..).zip(source.lines()) {
            let Some(rest) = line.trim_start().strip_prefix("pub ") else { continue };
            let keywords = ["struct ", "enum ", "trait ", "union ", "type "];
            let Some(rest) = keywords.iter().find_map(|keyword| rest.strip_prefix(keyword)) else { continue };
            let is_associated = line.starts_with(' ') && rest.contains(" = ");
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
            if !is_associated && end != 0 {
                self.0.entry(rest[..end].to_owned()).or_default().push((path.to_owned(), number));
            }
        }
    }

    /// Names that are declared more than once.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = (&str, &[(String, usize)])> {
        self.0.iter().filter(|(_, at)| 1 < at.len()).map(|(name, at)| (&**name, &**at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::prose::of_file;

    fn block(source: &str) -> Block {
        of_file("a.rs", source).unwrap().remove(0)
    }

    #[test]
    fn banned_phrases_are_found_across_lines_and_as_whole_words() {
        assert_eq!(banned(&block("// what was agreed\n// on, and what Nobody saw")), [(2, "nobody"), (1, "agreed on")]);
        assert_eq!(banned(&block("// the owner of newanewnew is unforced")), []);
    }

    #[test]
    fn doc_comments_need_four_words_and_comments_need_no_minimum() {
        assert!(is_filler(&block("/// The session id.")));
        assert!(!is_filler(&block("/// The session id, never 0.")));
        assert!(!is_filler(&block("// short")));
    }

    #[test]
    fn case_numbers_need_a_sentence() {
        assert!(is_bare_number(&block("// K72")));
        assert!(is_bare_number(&block("/// K72, P3 again.")));
        assert!(!is_bare_number(&block("/// An empty directory gives no vote (K57).")));
    }

    #[test]
    fn public_types_of_one_name_are_found_in_any_two_files() {
        let mut types = PublicTypes::default();
        types.add("crates/a/src/a.rs", "pub struct Link<T>;\npub(crate) struct Own;\n    pub type Item = u8;\n");
        types.add("crates/b/src/b.rs", "pub enum Link {}\npub struct Own;\n");
        types.add("crates/c/tests/it/c.rs", "pub struct Own;\n");
        let repeated: Vec<_> = types.repeated().map(|(name, at)| (name, at.len())).collect();
        assert_eq!(repeated, [("Link", 2)]);
    }
}
