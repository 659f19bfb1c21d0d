//! Shared by commands on subtrees: start node, depth, JSON lines, error reports.

use crate::command_error::CommandError;
use crate::options::{CommandArgs, Opt};
use crate::output::Output;
use crate::shell::Shell;
use serde::Serialize;

/// Upper bound of reported nodes per command.
const REPORTED_MAX: usize = 20;

pub(crate) const DEPTH: Opt = Opt::with("-d", "depth", "Maximum depth; 0 is the node itself");

/// The node that an operand names, or the current node.
pub(crate) fn start(shell: &Shell, args: &CommandArgs, at: usize) -> Result<String, CommandError> {
    match args.operand(at) {
        Some(typed) => shell.path(typed),
        None => Ok(shell.directory().to_owned()),
    }
}

/// The maximum depth from `-d`.
pub(crate) fn depth(args: &CommandArgs) -> Result<Option<usize>, CommandError> {
    number(args, "-d")
}

/// The value of a numeric option.
pub(crate) fn number(args: &CommandArgs, name: &str) -> Result<Option<usize>, CommandError> {
    let wrong = |text: &str| CommandError::message(format!("{name} must be a number, not `{text}`"));
    args.value(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// The subtree `/zookeeper`, which is excluded when the whole tree is copied.
pub(crate) fn excluded(shell: &Shell, root: &str) -> Option<&'static str> {
    let has_chroot = shell.invocation.server.split_once('/').is_some_and(|(_, path)| !path.is_empty());
    (root == "/" && !has_chroot).then_some("/zookeeper")
}

/// Prints a value as one line of JSON, so that readers can process a listing while it is written.
pub(crate) fn json_line(out: &Output, value: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string(value);
    out.line(&text.map_err(|error| CommandError::message(format!("cannot be written as JSON: {error}")))?)
}

/// A count with its noun, in singular or plural.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Describes a subtree for a confirmation.
pub(crate) fn subtree(root: &str, nodes: usize) -> String {
    match nodes.saturating_sub(1) {
        0 => root.to_owned(),
        1 => format!("{root} and the node below it"),
        below => format!("{root} and the {below} nodes below it"),
    }
}

/// Counts and reports nodes with errors, while the command continues.
#[derive(Debug)]
pub(crate) struct NodeErrors {
    out: Output,
    reported_max: usize,
    count: usize,
}

impl NodeErrors {
    pub(crate) fn new(out: &Output) -> Self {
        Self { out: out.clone(), reported_max: REPORTED_MAX, count: 0 }
    }

    /// Counts without reporting the nodes.
    pub(crate) fn silent(out: &Output) -> Self {
        Self { reported_max: 0, ..Self::new(out) }
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.count += 1;
        if self.count <= self.reported_max {
            self.out.error(text);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Fails if any node had an error.
    pub(crate) fn end(&self, what: &str) -> Result<(), CommandError> {
        match self.count {
            0 => Ok(()),
            number => Err(CommandError::message(format!("{} {what}", count(number, "node")))),
        }
    }
}

/// Summary of nodes that were denied.
pub(crate) const NOT_READ: &str = "could not be read";
