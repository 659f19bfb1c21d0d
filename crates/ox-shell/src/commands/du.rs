//! `du`: how much is below a node.

use super::{Command, JSON, OURS};
use crate::command_error::Failure;
use crate::options::{Args, Opt};
use crate::output::Paint;
use crate::shell::Shell;
use crate::subtree_output::{self, NOT_READ, Troubles};
use crate::walk::{Look, Walk};
use serde::Serialize;

pub(super) const COMMAND: Command = Command {
    name: "du",
    syntax: "[-d depth] [-s] [--json] [path]",
    help: "Print how many bytes of data and how many nodes each subtree has",
    options: &[
        Opt::with("-d", "depth", "Subtrees down to this depth, 1 unless told"),
        Opt::switch("-s", "Only the sum, as -d 0"),
        JSON,
    ],
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
};

/// A node and everything below it, as far as it was seen.
#[derive(Serialize)]
struct Sum {
    path: String,
    bytes: u64,
    nodes: u64,
}

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let root = subtree_output::start(shell, args, 0)?;
    let depth_max = match args.has("-s") {
        true => 0,
        false => subtree_output::depth(args)?.unwrap_or(1),
    };
    let client = shell.server().await?;
    let mut walk = Walk::new(&client, &root, Look::Stat);
    let mut troubles = Troubles::new(&shell.out);
    // From the root to the node that was seen last.
    let mut open: Vec<Sum> = Vec::new();
    while let Some(seen) = walk.next().await? {
        if let Some(reason) = &seen.denied {
            troubles.note(reason);
        }
        close(shell, args, &mut open, seen.depth, depth_max)?;
        let bytes = u64::try_from(seen.stat().data_length).unwrap_or(0);
        open.push(Sum { path: seen.path, bytes, nodes: 1 });
    }
    close(shell, args, &mut open, 0, depth_max)?;
    troubles.end(NOT_READ)
}

/// Prints subtrees that are over, and adds them to those above.
fn close(shell: &Shell, args: &Args, open: &mut Vec<Sum>, depth: usize, depth_max: usize) -> Result<(), Failure> {
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
