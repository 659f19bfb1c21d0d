//! `cargo xtask tidy`: small rules about the text of the sources that no compiler keeps.
//!
//! A rule is a function from a file to what is wrong with it. All of them run over the files that git knows.

use crate::interop::workspace::Workspace;
use crate::language::prose;
use crate::language::rules::{self, PublicTypes};
use anyhow::{Result, bail};
use std::path::Path;

/// Lines of a source file. Long before that a file has a second idea.
const LINES_MAX: usize = 800;

/// Macros that say that something is not done.
const UNDONE: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Kinds of text that people write. Go wants its tabs.
const TEXT: [&str; 9] = ["rs", "md", "toml", "py", "java", "js", "c", "h", "sh"];

/// Paths that are not rewritten yet, and the list of banned words itself.
const UNWRITTEN: [&str; 15] = [
    "xtask/",
    "interop/",
    "crates/ox-replica/",
    "crates/ox-server/",
    "crates/ox-store/",
    "crates/ox-zab/",
    "docs/",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "COMPAT.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "fuzz/",
    "testdata/",
];

/// One file.
struct File<'a> {
    /// From the root of the project.
    path: &'a str,
    text: &'a str,
}

/// Something to mend: a line, counted from 1, and why.
type Fault = (usize, String);

impl File<'_> {
    fn is(&self, extension: &str) -> bool {
        Path::new(self.path).extension().is_some_and(|found| found == extension)
    }

    /// Lines with their numbers.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Checks everything.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::find();
    let root = workspace.root();
    let (mut files, mut faults, mut types) = (0, 0, PublicTypes::default());
    for path in &workspace.files()? {
        let Ok(text) = std::fs::read_to_string(root.join(path)) else { continue }; // golden bytes, or just deleted
        files += 1;
        for (line, reason) in check(&File { path, text: &text }, &|target| root.join(target).exists()) {
            println!("{path}:{line}: {reason}");
            faults += 1;
        }
        if path.starts_with("crates/") && path.contains("/src/") && !is_unwritten(path) {
            types.add(path, &text);
        }
    }
    for (name, places) in types.repeated() {
        let places: Vec<String> = places.iter().map(|(path, line)| format!("{path}:{line}")).collect();
        println!("{}: the public type `{name}` has the name of another one", places.join(", "));
        faults += 1;
    }
    println!("{files} files, {faults} faults");
    if faults == 0 { Ok(()) } else { bail!("{faults} places to tidy up") }
}

/// All faults of a file, by line. `exists` knows the paths of the project.
fn check(file: &File<'_>, exists: &dyn Fn(&Path) -> bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    if TEXT.iter().any(|extension| file.is(extension)) {
        blanks(file, &mut faults);
    }
    if file.is("rs") {
        length(file, &mut faults);
        module_docs(file, &mut faults);
        undone(file, &mut faults);
        lints(file, &mut faults);
        unsafe_code(file, &mut faults);
        references(file, &mut faults);
    }
    if !is_unwritten(file.path) {
        language(file, &mut faults);
    }
    if file.is("md") {
        links(file, exists, &mut faults);
    }
    faults.sort();
    faults
}

/// Whether the language rules do not hold yet for a path.
fn is_unwritten(path: &str) -> bool {
    UNWRITTEN.iter().any(|prefix| path.starts_with(prefix))
}

/// The rules of `GLOSSARY.md` that a program can judge.
fn language(file: &File<'_>, faults: &mut Vec<Fault>) {
    let blocks = match (file.is("rs"), file.is("md")) {
        (true, _) => prose::of_rust(file.text),
        (_, true) => prose::of_markdown(file.text),
        _ => return,
    };
    for block in blocks {
        faults.extend(rules::banned(&block).into_iter().map(|(line, word)| (line, format!("`{word}` is banned"))));
        if rules::is_bare_number(&block) {
            faults.push((block.first, "a case number without a statement".to_owned()));
        } else if rules::is_filler(&block) {
            faults.push((block.first, "a doc comment of fewer than four words".to_owned()));
        }
    }
}

fn blanks(file: &File<'_>, faults: &mut Vec<Fault>) {
    for (number, line) in file.lines() {
        if line.contains('\t') {
            faults.push((number, "a tab".to_owned()));
        }
        if line.ends_with([' ', '\t']) {
            faults.push((number, "blanks at the end".to_owned()));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        faults.push((file.text.lines().count(), "no end of line at the end of the file".to_owned()));
    }
}

fn length(file: &File<'_>, faults: &mut Vec<Fault>) {
    let lines = file.text.lines().count();
    if LINES_MAX < lines {
        faults.push((LINES_MAX + 1, format!("{lines} lines, more than {LINES_MAX}: look for the second idea")));
    }
}

/// Every file but those of tests begins by saying what it is.
fn module_docs(file: &File<'_>, faults: &mut Vec<Fault>) {
    let is_documented = file.text.starts_with("//!");
    if file.path.contains("/src/") && !file.path.ends_with("/tests.rs") && !is_documented {
        faults.push((1, "no `//!` that says what this is".to_owned()));
    }
}

fn undone(file: &File<'_>, faults: &mut Vec<Fault>) {
    for (number, line) in file.lines() {
        if let Some(name) = UNDONE.iter().find(|name| line.contains(&format!("{name}!("))) {
            faults.push((number, format!("{name}! is for a moment, not for good")));
        }
    }
}

/// Whoever silences a lint says why.
fn lints(file: &File<'_>, faults: &mut Vec<Fault>) {
    for start in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
        for (at, _) in file.text.match_indices(start) {
            let line_start = file.text[..at].rfind('\n').map_or(0, |end| end + 1);
            let is_attribute = file.text[line_start..at].trim().is_empty();
            let attribute = file.text[at..].split_once(")]").map_or("", |(attribute, _)| attribute);
            if is_attribute && !attribute.contains("reason = ") {
                let number = file.text[..at].matches('\n').count() + 1;
                faults.push((number, "a lint is silenced without a reason".to_owned()));
            }
        }
    }
}

fn unsafe_code(file: &File<'_>, faults: &mut Vec<Fault>) {
    let mut is_explained = false;
    for (number, line) in file.lines() {
        let line = line.trim();
        if line.starts_with("//") {
            is_explained |= line.contains("SAFETY:");
            continue;
        }
        let is_unsafe = ["{", "fn ", "impl ", "extern "].iter().any(|what| line.contains(&format!("unsafe {what}")));
        if is_unsafe && !is_explained && !line.contains('"') {
            faults.push((number, "unsafe without a SAFETY comment before it".to_owned()));
        }
        is_explained = false;
    }
}

/// A comment says a thing itself: nobody has the book that it would point to.
fn references(file: &File<'_>, faults: &mut Vec<Fault>) {
    for (number, line) in file.lines() {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        let mut behind = comment.split("spec ").skip(1);
        if behind.any(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit())) {
            faults.push((number, "a reference to a text that is not here".to_owned()));
        }
    }
}

/// Links to files lead somewhere.
fn links(file: &File<'_>, exists: &dyn Fn(&Path) -> bool, faults: &mut Vec<Fault>) {
    let folder = Path::new(file.path).parent().unwrap_or(Path::new(""));
    for (number, line) in file.lines() {
        for rest in line.split("](").skip(1) {
            let Some((target, _)) = rest.split_once(')') else { continue };
            let path = target.split('#').next().unwrap_or_default();
            let is_elsewhere = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
            if !is_elsewhere && !exists(&folder.join(path)) {
                faults.push((number, format!("{target} leads nowhere")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<usize> {
        let exists = |path: &Path| path == Path::new("docs/there.md");
        check(&File { path, text }, &exists).into_iter().map(|(line, _)| line).collect()
    }

    fn check_rust(text: &str, expected: &[usize]) {
        assert_eq!(faults_of("x/src/a.rs", &format!("//! A page of four words.\n{text}\n")), expected, "{text}");
    }

    #[test]
    fn what_is_left_over_is_found() {
        check_rust("fn f() { 1 }", &[]);
        for name in UNDONE {
            check_rust(&format!("fn f() {{ {name}!() }}"), &[2]);
        }
        check_rust("let a = 1; \n\tlet b = 2;", &[2, 3]);
        check_rust(&format!("// as {} 4.5 says", "spec"), &[2]);
        check_rust("// a spec of its own", &[]);
    }

    #[test]
    fn silence_needs_a_reason() {
        check_rust("#[expect(dead_code)]\nfn f() {}", &[2]);
        check_rust("#[expect(\n    dead_code,\n    reason = \"x\"\n)]\nfn f() {}", &[]);
        check_rust("fn f() {}\n    #[allow(a, b)]\n#[expect(c, reason = \"d\")]", &[3]);
        check_rust("let text = \"#[allow(a)]\";", &[]);
    }

    #[test]
    fn danger_is_explained() {
        let danger = |before: &str| format!("{before}    {} {{ f() }}", "unsafe");
        check_rust(&danger(""), &[2]);
        check_rust(&danger("    // SAFETY: f is harmless,\n    // as everybody knows\n"), &[]);
        check_rust(&danger("    // SAFETY: for another one\n    let a = 1;\n"), &[4]);
    }

    #[test]
    fn files_have_a_beginning_and_an_end() {
        assert_eq!(faults_of("x/src/a.rs", "use std;\n"), [1]);
        assert_eq!(faults_of("x/src/a/tests.rs", "use std;\n"), [] as [usize; 0]);
        assert_eq!(faults_of("x/src/a.rs", "//! A page of four words.\nuse std;"), [2]);
        assert_eq!(faults_of("x/src/a.rs", &"//! A page of four words.\n".repeat(LINES_MAX + 1)), [LINES_MAX + 1]);
        assert_eq!(faults_of("x/a.bin", "\t \n"), [] as [usize; 0]);
    }

    #[test]
    fn links_lead_somewhere() {
        let text = "[a](there.md) [b](https://x.y/z) [c](#c)\n[d](gone.md) [e](there.md#e)\n";
        assert_eq!(faults_of("docs/page.md", text), [2]);
    }
}
