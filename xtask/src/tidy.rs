//! `cargo xtask tidy`: rules about the text of the sources that neither rustc nor clippy checks.
//!
//! A rule is a function that adds the violations of one file to a list. All rules run over the files that git tracks.

use crate::interop::workspace::Workspace;
use crate::language::log_values;
use crate::language::prose;
use crate::language::rules::{self, PublicTypes};
use anyhow::{Result, ensure};
use std::path::Path;

/// Maximum length of a Rust file. A longer file has more than one subject.
const LINES_MAX: usize = 800;

/// Macros that must not remain in committed code.
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Extensions of files without tabs and trailing blanks. Go files are missing because gofmt indents with tabs.
const TEXT: [&str; 9] = ["rs", "md", "toml", "py", "java", "js", "c", "h", "sh"];

/// Paths that are not rewritten yet, and the list of banned words itself.
const UNWRITTEN: &[&str] = &["fuzz/", "testdata/"];

/// The file that lists the banned words. Its tests quote them, too.
const BANNED_WORDS: &str = "xtask/src/language/rules.rs";

/// Names that several public types still share. A new collision must not be added here: rename the less central type.
const SHARED_TYPE_NAMES: &[&str] = &[];

/// Sources whose log lines operators read.
const LOGGING_SOURCES: [&str; 3] = ["crates/ox-driver/src/", "crates/ox-server/src/", "crates/oxkeeper/src/"];

struct File<'a> {
    /// Relative to the root of the workspace.
    path: &'a str,
    text: &'a str,
}

/// A line number, counted from 1, and the reason.
type Violation = (usize, String);

impl File<'_> {
    fn is(&self, extension: &str) -> bool {
        Path::new(self.path).extension().is_some_and(|found| found == extension)
    }

    /// Lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Prints the violations of all rules. An error if there are any.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::find();
    let root = workspace.root();
    let (mut files, mut violations, mut types) = (0, Vec::new(), PublicTypes::default());
    for path in &workspace.files()? {
        let Ok(text) = std::fs::read_to_string(root.join(path)) else { continue }; // binary, or deleted
        files += 1;
        let found = check(&File { path, text: &text }, &|target| read(&root.join(target)));
        violations.extend(found.into_iter().map(|(line, reason)| format!("{path}:{line}: {reason}")));
        types.add(path, &text);
    }
    violations.extend(shared_type_names(&types, SHARED_TYPE_NAMES));
    violations.iter().for_each(|violation| println!("{violation}"));
    println!("{files} files, {} violations", violations.len());
    ensure!(violations.is_empty(), "{} violations", violations.len());
    Ok(())
}

/// The text of a link's target: empty for a directory, `None` if it does not exist.
fn read(target: &Path) -> Option<String> {
    if target.is_dir() {
        return Some(String::new());
    }
    std::fs::read(target).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Public types whose name another one has, except for `accepted` names; and accepted names that are unique by now.
fn shared_type_names(types: &PublicTypes, accepted: &[&str]) -> Vec<String> {
    let mut violations = Vec::new();
    for (name, places) in types.repeated().filter(|(name, _)| !accepted.contains(name)) {
        let places: Vec<String> = places.iter().map(|(path, line)| format!("{path}:{line}")).collect();
        violations.push(format!("{}: public types share the name `{name}`", places.join(", ")));
    }
    for name in accepted {
        if types.repeated().all(|(repeated, _)| repeated != *name) {
            violations.push(format!("xtask/src/tidy.rs: `{name}` is unique: remove it from SHARED_TYPE_NAMES"));
        }
    }
    violations
}

/// All violations of a file, sorted by line. `read` returns the text behind a path of the workspace.
fn check(file: &File<'_>, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Violation> {
    let mut violations = Vec::new();
    if TEXT.iter().any(|extension| file.is(extension)) {
        blanks(file, &mut violations);
    }
    if file.is("rs") {
        length(file, &mut violations);
        module_docs(file, &mut violations);
        unfinished(file, &mut violations);
        lints(file, &mut violations);
        unsafe_code(file, &mut violations);
        references(file, &mut violations);
        values_in_logs(file, &mut violations);
    }
    if file.path != BANNED_WORDS && !is_unwritten(file.path) {
        language(file, &mut violations);
    }
    if file.is("md") {
        links(file, read, &mut violations);
    }
    violations.sort();
    violations
}

/// Whether the language rules do not apply to a path yet.
fn is_unwritten(path: &str) -> bool {
    UNWRITTEN.iter().any(|prefix| path.starts_with(prefix))
}

/// The language rules that a program can check: banned words, filler and bare case numbers.
fn language(file: &File<'_>, violations: &mut Vec<Violation>) {
    for block in prose::of_file(file.path, file.text).unwrap_or_default() {
        violations.extend(rules::banned(&block).into_iter().map(|(line, word)| (line, format!("`{word}` is banned"))));
        if rules::is_bare_number(&block) {
            violations.push((block.first, "a case number without a statement".to_owned()));
        } else if rules::is_filler(&block) {
            violations.push((block.first, "a doc comment of fewer than four words".to_owned()));
        }
    }
}

fn blanks(file: &File<'_>, violations: &mut Vec<Violation>) {
    for (number, line) in file.lines() {
        if line.contains('\t') {
            violations.push((number, "tab character".to_owned()));
        }
        if line.ends_with([' ', '\t']) {
            violations.push((number, "blanks at the end of the line".to_owned()));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        violations.push((file.text.lines().count(), "no newline at the end of the file".to_owned()));
    }
}

fn length(file: &File<'_>, violations: &mut Vec<Violation>) {
    let lines = file.text.lines().count();
    if LINES_MAX < lines {
        violations.push((LINES_MAX + 1, format!("{lines} lines, more than {LINES_MAX}: split the file by subject")));
    }
}

/// Every source file except tests starts with a module page.
fn module_docs(file: &File<'_>, violations: &mut Vec<Violation>) {
    let is_documented = file.text.starts_with("//!");
    if file.path.contains("/src/") && !file.path.ends_with("/tests.rs") && !is_documented {
        violations.push((1, "the file does not start with a `//!` comment".to_owned()));
    }
}

fn unfinished(file: &File<'_>, violations: &mut Vec<Violation>) {
    for (number, line) in file.lines() {
        if let Some(name) = UNFINISHED.iter().find(|name| line.contains(&format!("{name}!("))) {
            violations.push((number, format!("{name}! must not be committed")));
        }
    }
}

/// Every `allow` and `expect` of a lint has a reason.
fn lints(file: &File<'_>, violations: &mut Vec<Violation>) {
    for start in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
        for (at, _) in file.text.match_indices(start) {
            let line_start = file.text[..at].rfind('\n').map_or(0, |end| end + 1);
            let is_attribute = file.text[line_start..at].trim().is_empty();
            let attribute = file.text[at..].split_once(")]").map_or("", |(attribute, _)| attribute);
            if is_attribute && !attribute.contains("reason = ") {
                let number = file.text[..at].matches('\n').count() + 1;
                violations.push((number, "a lint is disabled without a reason".to_owned()));
            }
        }
    }
}

fn unsafe_code(file: &File<'_>, violations: &mut Vec<Violation>) {
    let mut is_explained = false;
    for (number, line) in file.lines() {
        let line = line.trim();
        if line.starts_with("//") {
            is_explained |= line.contains("SAFETY:");
            continue;
        }
        let is_unsafe = ["{", "fn ", "impl ", "extern "].iter().any(|what| line.contains(&format!("unsafe {what}")));
        if is_unsafe && !is_explained && !line.contains('"') {
            violations.push((number, "unsafe code without a SAFETY comment before it".to_owned()));
        }
        is_explained = false;
    }
}

/// A comment must state a fact instead of citing a section of a specification that is not in the repository.
fn references(file: &File<'_>, violations: &mut Vec<Violation>) {
    for (number, line) in file.lines() {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        let mut citations = comment.split("spec ").skip(1);
        if citations.any(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit())) {
            violations.push((number, "a reference to a document that is not in the repository".to_owned()));
        }
    }
}

/// The messages of log lines contain no values, except for Apache's sentences.
fn values_in_logs(file: &File<'_>, violations: &mut Vec<Violation>) {
    if LOGGING_SOURCES.iter().any(|prefix| file.path.starts_with(prefix)) {
        let found = log_values::messages_with_values(file.text).into_iter();
        violations
            .extend(found.map(|(line, message)| (line, format!("a value in a log message: {message:?}; use a field"))));
    }
}

/// Every relative link names an existing file and, after `#`, one of its headings.
fn links(file: &File<'_>, read: &dyn Fn(&Path) -> Option<String>, violations: &mut Vec<Violation>) {
    let directory = Path::new(file.path).parent().unwrap_or(Path::new(""));
    for (number, line) in file.lines() {
        for rest in line.split("](").skip(1) {
            let Some((target, _)) = rest.split_once(')') else { continue };
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let text = if path.is_empty() { Some(file.text.to_owned()) } else { read(&directory.join(path)) };
            match text {
                None => violations.push((number, format!("broken link to {target}"))),
                Some(text) if !anchor.is_empty() && !has_heading(&text, anchor) => {
                    violations.push((number, format!("link to {target}: no such heading")));
                }
                Some(_) => {}
            }
        }
    }
}

/// Whether a page has a heading with this anchor: lower case, blanks as hyphens, without punctuation.
fn has_heading(page: &str, anchor: &str) -> bool {
    let mut is_code = false;
    page.lines().any(|line| {
        is_code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { return false };
        let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
        let slug = heading.trim_start_matches('#').trim().to_lowercase();
        slug.chars().filter(kept).map(|letter| if letter == ' ' { '-' } else { letter }).eq(anchor.chars())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations_of(path: &str, text: &str) -> Vec<usize> {
        let read = |path: &Path| {
            (path == Path::new("docs/there.md"))
                .then(|| "# The title\n```sh\n# code\n```\n### Is it `a-b`?\n".to_owned())
        };
        check(&File { path, text }, &read).into_iter().map(|(line, _)| line).collect()
    }

    fn check_rust(text: &str, expected: &[usize]) {
        assert_eq!(violations_of("x/src/a.rs", &format!("//! A page of four words.\n{text}\n")), expected, "{text}");
    }

    #[test]
    fn unfinished_macros_blanks_and_citations_are_found() {
        check_rust("fn f() { 1 }", &[]);
        for name in UNFINISHED {
            check_rust(&format!("fn f() {{ {name}!() }}"), &[2]);
        }
        check_rust("let a = 1; \n\tlet b = 2;", &[2, 3]);
        check_rust(&format!("// as {} 4.5 says", "spec"), &[2]);
        check_rust("// a spec without a number", &[]);
    }

    #[test]
    fn disabled_lint_needs_a_reason() {
        check_rust("#[expect(dead_code)]\nfn f() {}", &[2]);
        check_rust("#[expect(\n    dead_code,\n    reason = \"x\"\n)]\nfn f() {}", &[]);
        check_rust("fn f() {}\n    #[allow(a, b)]\n#[expect(c, reason = \"d\")]", &[3]);
        check_rust("let text = \"#[allow(a)]\";", &[]);
    }

    #[test]
    fn unsafe_code_needs_a_safety_comment() {
        let with_unsafe = |before: &str| format!("{before}    {} {{ f() }}", "unsafe");
        check_rust(&with_unsafe(""), &[2]);
        check_rust(&with_unsafe("    // SAFETY: f has no\n    // preconditions\n"), &[]);
        check_rust(&with_unsafe("    // SAFETY: of other code\n    let a = 1;\n"), &[4]);
    }

    #[test]
    fn file_without_page_or_newline_or_too_long_is_found() {
        assert_eq!(violations_of("x/src/a.rs", "use std;\n"), [1]);
        assert_eq!(violations_of("x/src/a/tests.rs", "use std;\n"), [] as [usize; 0]);
        assert_eq!(violations_of("x/src/a.rs", "//! A page of four words.\nuse std;"), [2]);
        assert_eq!(violations_of("x/src/a.rs", &"//! A page of four words.\n".repeat(LINES_MAX + 1)), [LINES_MAX + 1]);
        assert_eq!(violations_of("x/a.bin", "\t \n"), [] as [usize; 0]);
    }

    #[test]
    fn broken_links_are_found() {
        let check = |link: &str, expected: &[usize]| {
            assert_eq!(violations_of("docs/page.md", &format!("# Page\n\n[x]({link})\n")), expected, "{link}");
        };
        for link in ["there.md", "https://x.y/z", "#page", "there.md#the-title", "there.md#is-it-a-b"] {
            check(link, &[]);
        }
        for link in ["gone.md", "#other", "there.md#code", "there.md#title"] {
            check(link, &[3]);
        }
    }

    #[test]
    fn language_rules_apply_to_all_languages_except_unwritten_paths() {
        let banned = format!("for {}", "ever");
        for path in ["a.java", "a.go", "a.js", "a.c"] {
            assert_eq!(violations_of(path, &format!("// waits\n// {banned}\n")), [2], "{path}");
        }
        assert_eq!(violations_of("a.py", &format!("# waits {banned}\n")), [1]);
        for prefix in UNWRITTEN {
            assert_eq!(violations_of(&format!("{prefix}a.md"), &format!("waits {banned}\n")), [] as [usize; 0]);
        }
    }

    #[test]
    fn values_in_log_messages_are_found_in_the_server() {
        let text = "//! A page of four words.\nfn f() { info!(\"{a} of {b}\") }\n";
        assert_eq!(violations_of("crates/ox-server/src/a.rs", text), [2]);
        assert_eq!(violations_of("crates/ox-bench/src/a.rs", text), [] as [usize; 0]);
    }

    #[test]
    fn shared_type_name_is_found_unless_accepted() {
        let mut types = PublicTypes::default();
        for path in ["crates/a/src/a.rs", "crates/b/src/b.rs"] {
            types.add(path, "pub struct Link;\npub struct Vote;\n");
        }
        let found = shared_type_names(&types, &["Vote", "Epoch"]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("crates/a/src/a.rs:1, crates/b/src/b.rs:1:"), "{found:?}");
        assert!(found[1].contains("`Epoch` is unique"), "{found:?}");
    }
}
