//! What commands over subtrees share: where they begin, how they print, and what they say about nodes that cannot be read.

use crate::command_error::Failure;
use crate::options::{Args, Opt};
use crate::output::Output;
use crate::shell::Shell;
use serde::Serialize;

/// Lines about nodes that cannot be read. A thousand of them tell no more.
const TOLD_MAX: usize = 20;

pub(crate) const DEPTH: Opt = Opt::with("-d", "depth", "Go no deeper; 0 is the node itself");

/// The node that an operand names; the one where the shell is, if there is none.
pub(crate) fn start(shell: &Shell, args: &Args, at: usize) -> Result<String, Failure> {
    match args.operand(at) {
        Some(typed) => shell.path(typed),
        None => Ok(shell.directory().to_owned()),
    }
}

/// How deep to go.
pub(crate) fn depth(args: &Args) -> Result<Option<usize>, Failure> {
    number(args, "-d")
}

/// The value of an option that is a number.
pub(crate) fn number(args: &Args, name: &str) -> Result<Option<usize>, Failure> {
    let wrong = |text: &str| Failure::told(format!("{name} must be a number, not `{text}`"));
    args.value(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// The part of the root that belongs to the servers, where a whole tree is copied.
pub(crate) fn left_out(shell: &Shell, root: &str) -> Option<&'static str> {
    let has_chroot = shell.invocation.server.split_once('/').is_some_and(|(_, path)| !path.is_empty());
    (root == "/" && !has_chroot).then_some("/zookeeper")
}

/// A value as JSON on a line of its own. Lines, so that a listing of any length can be read while it is written.
pub(crate) fn json_line(out: &Output, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value);
    out.line(&text.map_err(|error| Failure::told(format!("cannot be written as JSON: {error}")))?)
}

/// A count with its noun.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A subtree of so many nodes in words, for a question.
pub(crate) fn subtree(root: &str, nodes: usize) -> String {
    match nodes.saturating_sub(1) {
        0 => root.to_owned(),
        1 => format!("{root} and the node below it"),
        below => format!("{root} and the {below} nodes below it"),
    }
}

/// Nodes with which something is wrong. They are told, and the rest goes on.
#[derive(Debug)]
pub(crate) struct Troubles {
    out: Output,
    told_max: usize,
    count: usize,
}

impl Troubles {
    pub(crate) fn new(out: &Output) -> Self {
        Self { out: out.clone(), told_max: TOLD_MAX, count: 0 }
    }

    /// Only counts.
    pub(crate) fn silent(out: &Output) -> Self {
        Self { told_max: 0, ..Self::new(out) }
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.count += 1;
        if self.count <= self.told_max {
            self.out.complain(text);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The end of a command that could not do everything.
    pub(crate) fn end(&self, what: &str) -> Result<(), Failure> {
        match self.count {
            0 => Ok(()),
            number => Err(Failure::told(format!("{} {what}", count(number, "node")))),
        }
    }
}

/// What to say of nodes that were denied.
pub(crate) const NOT_READ: &str = "could not be read";
