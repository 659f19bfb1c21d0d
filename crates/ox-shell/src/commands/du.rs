//! `du`: sums up the sizes of subtrees.

use super::{CommandSpec, EXTENSION, JSON};
use crate::command_error::CommandError;
use crate::options::{CommandArgs, Opt};
use crate::output::Paint;
use crate::shell::Shell;
use crate::subtree_output::{self, NOT_READ, NodeErrors};
use crate::walk::{NodeFields, Walk};
use serde::Serialize;

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "du",
    syntax: "[-d depth] [-s] [--json] [path]",
    help: "Print how many bytes of data and how many nodes each subtree has",
    options: &[
        Opt::with("-d", "depth", "Print subtrees down to this depth, default 1"),
        Opt::switch("-s", "Print the total only, like -d 0"),
        JSON,
    ],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

/// Sum over a subtree, as far as it was readable.
#[derive(Serialize)]
struct Sum {
    path: String,
    bytes: u64,
    nodes: u64,
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let root = subtree_output::start(shell, args, 0)?;
    let depth_max = match args.has("-s") {
        true => 0,
        false => subtree_output::depth(args)?.unwrap_or(1),
    };
    let client = shell.connected_client().await?;
    let mut walk = Walk::new(&client, &root, NodeFields::Stat);
    let mut node_errors = NodeErrors::new(&shell.out);
    // Open sums from the root to the node visited last.
    let mut open: Vec<Sum> = Vec::new();
    while let Some(visited) = walk.next().await? {
        if let Some(reason) = visited.denial() {
            node_errors.note(&reason);
        }
        close(shell, args, &mut open, visited.depth, depth_max)?;
        let bytes = u64::try_from(visited.stat().data_length).unwrap_or(0);
        open.push(Sum { path: visited.path, bytes, nodes: 1 });
    }
    close(shell, args, &mut open, 0, depth_max)?;
    node_errors.end(NOT_READ)
}

/// Prints completed subtrees and adds them to their parents.
fn close(
    shell: &Shell,
    args: &CommandArgs,
    open: &mut Vec<Sum>,
    depth: usize,
    depth_max: usize,
) -> Result<(), CommandError> {
    while depth < open.len() {
        let Some(sum) = open.pop() else { break };
        if let Some(above) = open.last_mut() {
            (above.bytes, above.nodes) = (above.bytes + sum.bytes, above.nodes + sum.nodes);
        }
        if depth_max < open.len() {
            continue;
        }
        match shell.is_json(args) {
            true => subtree_output::json_line(&shell.out, &sum)?,
            false => {
                let path = shell.out.paint(Paint::Name, &sum.path);
                shell.out.line(&format!("{:>12} {:>9}  {path}", sum.bytes, sum.nodes))?;
            }
        }
    }
    Ok(())
}
