//! `tree`: draws a subtree.

use super::{CommandSpec, EXTENSION, JSON};
use crate::command_error::CommandError;
use crate::options::{CommandArgs, Opt};
use crate::output::Paint;
use crate::shell::Shell;
use crate::subtree_output::{self, DEPTH, NOT_READ, NodeErrors};
use crate::walk::{NodeFields, VisitedNode, Walk};
use serde::Serialize;

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "tree",
    syntax: "[-d depth] [-s] [--json] [path]",
    help: "Draw a subtree",
    options: &[DEPTH, Opt::switch("-s", "Show sizes and owners of ephemeral nodes"), JSON],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
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
    fn new(visited: &'a VisitedNode) -> Self {
        let known = |number: i32| visited.denied.is_none().then_some(number);
        Self {
            path: &visited.path,
            depth: visited.depth,
            data_length: known(visited.stat().data_length),
            num_children: known(visited.stat().num_children),
            ephemeral_owner: visited.owner().map(|owner| format!("{owner:#x}")),
        }
    }
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let root = subtree_output::start(shell, args, 0)?;
    let depth_max = subtree_output::depth(args)?.unwrap_or(usize::MAX);
    let client = shell.connected_client().await?;
    let mut walk = Walk::new(&client, &root, NodeFields::Stat).with_depth(depth_max);
    let mut node_errors = NodeErrors::new(&shell.out);
    // For each ancestor, whether it is the last of its siblings.
    let mut ends: Vec<bool> = Vec::new();
    while let Some(visited) = walk.next().await? {
        if let Some(reason) = visited.denial() {
            node_errors.note(&reason);
        }
        if shell.is_json(args) {
            subtree_output::json_line(&shell.out, &Line::new(&visited))?;
            continue;
        }
        ends.truncate(visited.depth.saturating_sub(1));
        let name = if visited.depth == 0 { root.as_str() } else { visited.name() };
        let details = if args.has("-s") { details(&visited) } else { String::new() };
        let branches = branches(&ends, &visited);
        let line =
            format!("{branches}{}{}", shell.out.paint(Paint::Name, name), shell.out.paint(Paint::Faint, &details));
        shell.out.line(&line)?;
        if 0 < visited.depth {
            ends.push(visited.is_last);
        }
    }
    node_errors.end(NOT_READ)
}

fn branches(ends: &[bool], visited: &VisitedNode) -> String {
    if visited.depth == 0 {
        return String::new();
    }
    let above: String = ends.iter().map(|is_last| if *is_last { "    " } else { "│   " }).collect();
    above + if visited.is_last { "└── " } else { "├── " }
}

fn details(visited: &VisitedNode) -> String {
    let bytes = subtree_output::count(usize::try_from(visited.stat().data_length).unwrap_or(0), "byte");
    match visited.owner() {
        _ if visited.denied.is_some() => " (not readable)".to_owned(),
        None => format!(" ({bytes})"),
        Some(owner) => format!(" ({bytes}, ephemeral of {owner:#x})"),
    }
}
