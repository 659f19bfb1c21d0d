//! `tree`: a subtree as a picture.

use super::{Command, JSON, OURS};
use crate::command_error::Failure;
use crate::options::{Args, Opt};
use crate::output::Paint;
use crate::shell::Shell;
use crate::subtree_output::{self, DEPTH, NOT_READ, Troubles};
use crate::walk::{Look, Seen, Walk};
use serde::Serialize;

pub(super) const COMMAND: Command = Command {
    name: "tree",
    syntax: "[-d depth] [-s] [--json] [path]",
    help: "Draw a node and everything below it",
    options: &[DEPTH, Opt::switch("-s", "With sizes, and whose ephemeral nodes are"), JSON],
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    path: &'a str,
    depth: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_length: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_children: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ephemeral_owner: Option<String>,
}

impl<'a> Line<'a> {
    fn new(seen: &'a Seen) -> Self {
        let known = |number: i32| seen.denied.is_none().then_some(number);
        Self {
            path: &seen.path,
            depth: seen.depth,
            data_length: known(seen.stat().data_length),
            num_children: known(seen.stat().num_children),
            ephemeral_owner: seen.owner().map(|owner| format!("{owner:#x}")),
        }
    }
}

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let root = subtree_output::start(shell, args, 0)?;
    let depth_max = subtree_output::depth(args)?.unwrap_or(usize::MAX);
    let client = shell.server().await?;
    let mut walk = Walk::new(&client, &root, Look::Stat).with_depth(depth_max);
    let mut troubles = Troubles::new(&shell.out);
    // Which of the nodes above are the last of their siblings.
    let mut ends: Vec<bool> = Vec::new();
    while let Some(seen) = walk.next().await? {
        if let Some(reason) = &seen.denied {
            troubles.note(reason);
        }
        if shell.is_json(args) {
            subtree_output::json_line(&shell.out, &Line::new(&seen))?;
            continue;
        }
        ends.truncate(seen.depth.saturating_sub(1));
        let name = if seen.depth == 0 { root.as_str() } else { seen.name() };
        let details = if args.has("-s") { details(&seen) } else { String::new() };
        let branches = branches(&ends, &seen);
        let line =
            format!("{branches}{}{}", shell.out.paint(Paint::Name, name), shell.out.paint(Paint::Faint, &details));
        shell.out.line(&line)?;
        if 0 < seen.depth {
            ends.push(seen.is_last);
        }
    }
    troubles.end(NOT_READ)
}

fn branches(ends: &[bool], seen: &Seen) -> String {
    if seen.depth == 0 {
        return String::new();
    }
    let above: String = ends.iter().map(|is_last| if *is_last { "    " } else { "│   " }).collect();
    above + if seen.is_last { "└── " } else { "├── " }
}

fn details(seen: &Seen) -> String {
    let bytes = subtree_output::count(usize::try_from(seen.stat().data_length).unwrap_or(0), "byte");
    match seen.owner() {
        _ if seen.denied.is_some() => " (may not be read)".to_owned(),
        None => format!(" ({bytes})"),
        Some(owner) => format!(" ({bytes}, ephemeral of {owner:#x})"),
    }
}
