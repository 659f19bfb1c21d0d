//! `diff`: how two subtrees differ.

use super::{Command, JSON, OURS};
use crate::command_error::{FAILED, Failure, OK};
use crate::options::{Args, Opt};
use crate::output::Paint;
use crate::shell::Shell;
use crate::subtree_diff::{Change, Compare, Difference};
use crate::subtree_output::{self, Troubles};
use crate::walk::Look;
use serde::Serialize;

/// What the program exits with when not everything could be compared, as that of files does.
const TROUBLE: u8 = 2;

pub(super) const COMMAND: Command = Command {
    name: "diff",
    syntax: "[--acl] [-q] [--json] path path",
    help: "Tell how two subtrees differ",
    options: &[
        Opt::switch("--acl", "Compare access control lists, too"),
        Opt::switch("-q", "Only by the exit code: 0 same, 1 different, 2 not everything could be read"),
        JSON,
    ],
    takes: 2..=2,
    paths: &[0, 1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
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

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let (first, second) = (shell.path(args.required(0)?)?, shell.path(args.required(1)?)?);
    let client = shell.server().await?;
    let look = if args.has("--acl") { Look::Whole } else { Look::Data };
    let left_out = (subtree_output::left_out(shell, &first), subtree_output::left_out(shell, &second));
    let mut compare = Compare::new(&client, (&first, &second), look, left_out);
    let mut troubles = Troubles::new(&shell.out);
    let mut status = OK;
    while let Some(difference) = compare.next().await? {
        if let Difference::Denied(reason) = difference {
            troubles.note(&reason);
            continue;
        }
        if !args.has("-q") {
            print(shell, args, &difference)?;
        }
        status = FAILED;
    }
    if 0 < troubles.count() {
        shell.out.complain(&format!("{} could not be compared", subtree_output::count(troubles.count(), "node")));
        status = TROUBLE;
    }
    if status == OK { Ok(()) } else { Err(Failure::Silent(status)) }
}

fn print(shell: &Shell, args: &Args, difference: &Difference) -> Result<(), Failure> {
    let (line, text) = match difference {
        Difference::OnlyFirst(seen) => {
            let text = shell.out.paint(Paint::Error, &format!("- {}", seen.path));
            (Line { change: "removed", path: &seen.path, other: None, what: None }, text)
        }
        Difference::OnlySecond(seen) => {
            let text = shell.out.paint(Paint::Name, &format!("+ {}", seen.path));
            (Line { change: "added", path: &seen.path, other: None, what: None }, text)
        }
        Difference::Changed(change) => {
            let Change { first, second, what } = &**change;
            let text = shell.out.paint(Paint::Event, &format!("~ {} {}", first.path, describe(change)));
            (Line { change: "changed", path: &first.path, other: Some(&second.path), what: Some(what) }, text)
        }
        Difference::Denied(_) => return Ok(()),
    };
    if shell.is_json(args) { subtree_output::json_line(&shell.out, &line) } else { shell.out.line(&text) }
}

fn describe(change: &Change) -> String {
    let Change { first, second, what } = change;
    let size = |seen: &crate::walk::Seen| match seen.node.is_null {
        true => "null".to_owned(),
        false => subtree_output::count(seen.node.data.len(), "byte"),
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
