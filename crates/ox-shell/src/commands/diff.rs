//! `diff`: compares two subtrees.

use super::{CommandSpec, EXTENSION, JSON};
use crate::command_error::{CommandError, FAILED, OK};
use crate::options::{CommandArgs, Opt};
use crate::output::Paint;
use crate::shell::Shell;
use crate::subtree_diff::{Difference, NodeChange, SubtreeDiff};
use crate::subtree_output::{self, NodeErrors};
use crate::walk::NodeFields;
use serde::Serialize;

/// Exit code if not everything could be compared, like that of diff(1).
const INCOMPLETE: u8 = 2;

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "diff",
    syntax: "[--acl] [-q] [--json] path path",
    help: "Compare two subtrees",
    options: &[
        Opt::switch("--acl", "Compare ACLs as well"),
        Opt::switch("-q", "Print nothing; exit code 0: same, 1: different, 2: not everything could be read"),
        JSON,
    ],
    operands: 2..=2,
    paths: &[0, 1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

#[derive(Serialize)]
struct Line<'a> {
    change: &'static str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<&'a [&'static str]>,
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let (first, second) = (shell.path(args.required(0)?)?, shell.path(args.required(1)?)?);
    let client = shell.connected_client().await?;
    let fields = if args.has("--acl") { NodeFields::All } else { NodeFields::Data };
    let excluded = (subtree_output::excluded(shell, &first), subtree_output::excluded(shell, &second));
    let mut compare = SubtreeDiff::new(&client, (&first, &second), fields, excluded);
    let mut node_errors = NodeErrors::new(&shell.out);
    let mut status = OK;
    let unread = |failure: CommandError| {
        shell.out.error(&format!("{}{}", shell.place(), failure.native_text()));
        CommandError::Silent(INCOMPLETE)
    };
    while let Some(difference) = compare.next().await.map_err(|error| unread(error.into()))? {
        if let Difference::Denied(reason) = difference {
            node_errors.note(&reason);
            continue;
        }
        if !args.has("-q") {
            print(shell, args, &difference)?;
        }
        status = FAILED;
    }
    if 0 < node_errors.count() {
        shell.out.error(&format!("{} could not be compared", subtree_output::count(node_errors.count(), "node")));
        status = INCOMPLETE;
    }
    if status == OK { Ok(()) } else { Err(CommandError::Silent(status)) }
}

fn print(shell: &Shell, args: &CommandArgs, difference: &Difference) -> Result<(), CommandError> {
    let (line, text) = match difference {
        Difference::OnlyFirst(visited) => {
            let text = shell.out.paint(Paint::Error, &format!("- {}", visited.path));
            (Line { change: "removed", path: &visited.path, other: None, what: None }, text)
        }
        Difference::OnlySecond(visited) => {
            let text = shell.out.paint(Paint::Name, &format!("+ {}", visited.path));
            (Line { change: "added", path: &visited.path, other: None, what: None }, text)
        }
        Difference::Changed(change) => {
            let NodeChange { first, second, what } = &**change;
            let text = shell.out.paint(Paint::Event, &format!("~ {} {}", first.path, describe(change)));
            (Line { change: "changed", path: &first.path, other: Some(&second.path), what: Some(what) }, text)
        }
        Difference::Denied(_) => return Ok(()),
    };
    if shell.is_json(args) { subtree_output::json_line(&shell.out, &line) } else { shell.out.line(&text) }
}

fn describe(change: &NodeChange) -> String {
    let NodeChange { first, second, what } = change;
    let size = |visited: &crate::walk::VisitedNode| match visited.node.is_null {
        true => "null".to_owned(),
        false => subtree_output::count(visited.node.data.len(), "byte"),
    };
    let parts: Vec<_> = what
        .iter()
        .map(|what| match *what {
            "data" => format!("data ({} and {})", size(first), size(second)),
            other => other.to_owned(),
        })
        .collect();
    parts.join(", ")
}
