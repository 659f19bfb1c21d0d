//! `grep`: lines of data in a subtree.

use super::{Command, JSON, OURS};
use crate::command_error::{FAILED, Failure};
use crate::options::{Args, Opt};
use crate::output::{Output, Paint};
use crate::pattern::{self, Case};
use crate::shell::Shell;
use crate::subtree_output::{self, DEPTH, NOT_READ, Troubles};
use crate::walk::{Look, Seen, Walk};
use regex::bytes::Regex;
use serde::Serialize;

pub(super) const COMMAND: Command = Command {
    name: "grep",
    syntax: "[-i] [-v] [-F] [-l] [-n] [-A lines] [-B lines] [-C lines] [-d depth] [--json] pattern [path]",
    help: "Print the lines of data that hold a pattern, in a node and everything below it",
    options: &[
        Opt::switch("-i", "Upper and lower case are the same"),
        Opt::switch("-v", "Lines that do not hold it"),
        Opt::switch("-F", "The pattern is plain text, not a regular expression"),
        Opt::switch("-l", "Only the paths"),
        Opt::switch("-n", "With numbers of lines"),
        Opt::with("-A", "lines", "Lines behind each one, too"),
        Opt::with("-B", "lines", "Lines before each one, too"),
        Opt::with("-C", "lines", "Lines around each one, too"),
        DEPTH,
        JSON,
    ],
    takes: 1..=2,
    paths: &[1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
};

#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Text { path: &'a str, line: usize, text: &'a str },
    Binary { path: &'a str, binary: bool },
    Path { path: &'a str },
}

struct Search {
    out: Output,
    pattern: Regex,
    is_inverted: bool,
    only_paths: bool,
    numbered: bool,
    before: usize,
    behind: usize,
    json: bool,
    /// Whether a line was printed, after which the next group is set apart.
    has_printed: bool,
}

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let case = if args.has("-i") { Case::Ignored } else { Case::Matters };
    let text = args.required(0)?;
    let around = subtree_output::number(args, "-C")?.unwrap_or(0);
    let mut search = Search {
        out: shell.out.clone(),
        pattern: if args.has("-F") { pattern::literal(text, case)? } else { pattern::regex(text, case)? },
        is_inverted: args.has("-v"),
        only_paths: args.has("-l"),
        numbered: args.has("-n"),
        before: subtree_output::number(args, "-B")?.unwrap_or(around),
        behind: subtree_output::number(args, "-A")?.unwrap_or(around),
        json: shell.is_json(args),
        has_printed: false,
    };
    let root = subtree_output::start(shell, args, 1)?;
    let depth_max = subtree_output::depth(args)?.unwrap_or(usize::MAX);
    let client = shell.server().await?;
    let mut walk = Walk::new(&client, &root, Look::Data).with_depth(depth_max);
    let mut troubles = Troubles::new(&shell.out);
    let mut has_found = false;
    while let Some(seen) = walk.next().await? {
        match &seen.denied {
            Some(reason) => troubles.note(reason),
            None => has_found |= search.look_at(&seen)?,
        }
    }
    troubles.end(NOT_READ)?;
    // As everybody knows it from files.
    if has_found { Ok(()) } else { Err(Failure::Silent(FAILED)) }
}

impl Search {
    fn fits(&self, bytes: &[u8]) -> bool {
        self.pattern.is_match(bytes) != self.is_inverted
    }

    /// Prints what a node has; whether it has something.
    fn look_at(&mut self, seen: &Seen) -> Result<bool, Failure> {
        let data = &seen.node.data;
        let text = std::str::from_utf8(data).ok().filter(|text| !text.contains('\0'));
        let Some(text) = text else {
            let fits = self.fits(data);
            if fits {
                self.print_binary(&seen.path)?;
            }
            return Ok(fits);
        };
        let lines: Vec<&str> = text.lines().collect();
        let found: Vec<usize> = (0..lines.len()).filter(|at| self.fits(lines[*at].as_bytes())).collect();
        if found.is_empty() {
            return Ok(false);
        }
        match (self.only_paths, self.json) {
            (true, true) => subtree_output::json_line(&self.out, &Line::Path { path: &seen.path })?,
            (true, false) => self.out.line(&self.out.paint(Paint::Name, &seen.path))?,
            (false, true) => {
                for at in found {
                    let line = Line::Text { path: &seen.path, line: at + 1, text: lines[at] };
                    subtree_output::json_line(&self.out, &line)?;
                }
            }
            (false, false) => self.print(&seen.path, &lines, &found)?,
        }
        Ok(true)
    }

    fn print_binary(&self, path: &str) -> Result<(), Failure> {
        match (self.only_paths, self.json) {
            (true, true) => subtree_output::json_line(&self.out, &Line::Path { path }),
            (true, false) => self.out.line(&self.out.paint(Paint::Name, path)),
            (false, true) => subtree_output::json_line(&self.out, &Line::Binary { path, binary: true }),
            (false, false) => self.out.line(&format!("{}: binary data", self.out.paint(Paint::Name, path))),
        }
    }

    fn print(&mut self, path: &str, lines: &[&str], found: &[usize]) -> Result<(), Failure> {
        let mut next = 0; // the first line that is not printed yet
        for at in found {
            let from = at.saturating_sub(self.before).max(next);
            let to = at.saturating_add(self.behind).saturating_add(1).min(lines.len());
            let is_apart = next < from || next == 0;
            if is_apart && self.has_printed && (0 < self.before || 0 < self.behind) {
                self.out.line("--")?;
            }
            for (line, text) in lines.iter().enumerate().take(to).skip(from) {
                let sign = if found.binary_search(&line).is_ok() { ':' } else { '-' };
                let number = if self.numbered { format!("{}{sign}", line + 1) } else { String::new() };
                let text = self.out.foreign(text);
                self.out.line(&format!("{}{sign}{number}{text}", self.out.paint(Paint::Name, path)))?;
                self.has_printed = true;
            }
            next = to.max(next);
        }
        Ok(())
    }
}
