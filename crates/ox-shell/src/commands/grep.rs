//! `grep`: searches the data of a subtree.

use super::{CommandSpec, EXTENSION, JSON};
use crate::command_error::{CommandError, FAILED};
use crate::options::{CommandArgs, Opt};
use crate::output::{Output, Paint};
use crate::pattern::{self, Case};
use crate::shell::Shell;
use crate::subtree_output::{self, DEPTH, NOT_READ, NodeErrors};
use crate::walk::{NodeFields, VisitedNode, Walk};
use regex::bytes::Regex;
use serde::Serialize;

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "grep",
    syntax: "[-i] [-v] [-F] [-l] [-n] [-A lines] [-B lines] [-C lines] [-d depth] [--json] pattern [path]",
    help: "Print the lines of data that match a pattern, in a whole subtree",
    options: &[
        Opt::switch("-i", "Ignore case"),
        Opt::switch("-v", "Lines that do not match"),
        Opt::switch("-F", "The pattern is literal text, not a regular expression"),
        Opt::switch("-l", "Print paths only"),
        Opt::switch("-n", "Print line numbers"),
        Opt::with("-A", "lines", "Print this many lines after each match"),
        Opt::with("-B", "lines", "Print this many lines before each match"),
        Opt::with("-C", "lines", "Print this many lines around each match"),
        DEPTH,
        JSON,
    ],
    operands: 1..=2,
    paths: &[1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
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
    /// Whether a line was printed, so that the next group needs a separator.
    has_printed: bool,
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
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
    let client = shell.connected_client().await?;
    let mut walk = Walk::new(&client, &root, NodeFields::Data).with_depth(depth_max);
    let mut node_errors = NodeErrors::new(&shell.out);
    let mut has_found = false;
    while let Some(visited) = walk.next().await? {
        match visited.denial() {
            Some(reason) => node_errors.note(&reason),
            None => has_found |= search.search_node(&visited)?,
        }
    }
    node_errors.end(NOT_READ)?;
    // The exit code of grep(1): 1 without a match.
    if has_found { Ok(()) } else { Err(CommandError::Silent(FAILED)) }
}

impl Search {
    fn matches(&self, bytes: &[u8]) -> bool {
        self.pattern.is_match(bytes) != self.is_inverted
    }

    /// Prints the matches of a node. Returns whether there are any.
    fn search_node(&mut self, visited: &VisitedNode) -> Result<bool, CommandError> {
        let data = &visited.node.data;
        let text = std::str::from_utf8(data).ok().filter(|text| !text.contains('\0'));
        let Some(text) = text else {
            let matches = self.matches(data);
            if matches {
                self.print_binary(&visited.path)?;
            }
            return Ok(matches);
        };
        let lines: Vec<&str> = text.lines().collect();
        let found: Vec<usize> = (0..lines.len()).filter(|at| self.matches(lines[*at].as_bytes())).collect();
        if found.is_empty() {
            return Ok(false);
        }
        match (self.only_paths, self.json) {
            (true, true) => subtree_output::json_line(&self.out, &Line::Path { path: &visited.path })?,
            (true, false) => self.out.line(&self.out.paint(Paint::Name, &visited.path))?,
            (false, true) => {
                for at in found {
                    let line = Line::Text { path: &visited.path, line: at + 1, text: lines[at] };
                    subtree_output::json_line(&self.out, &line)?;
                }
            }
            (false, false) => self.print(&visited.path, &lines, &found)?,
        }
        Ok(true)
    }

    fn print_binary(&self, path: &str) -> Result<(), CommandError> {
        match (self.only_paths, self.json) {
            (true, true) => subtree_output::json_line(&self.out, &Line::Path { path }),
            (true, false) => self.out.line(&self.out.paint(Paint::Name, path)),
            (false, true) => subtree_output::json_line(&self.out, &Line::Binary { path, binary: true }),
            (false, false) => self.out.line(&format!("{}: binary data", self.out.paint(Paint::Name, path))),
        }
    }

    fn print(&mut self, path: &str, lines: &[&str], found: &[usize]) -> Result<(), CommandError> {
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
                let text = self.out.escape_untrusted(text);
                self.out.line(&format!("{}{sign}{number}{text}", self.out.paint(Paint::Name, path)))?;
                self.has_printed = true;
            }
            next = to.max(next);
        }
        Ok(())
    }
}
