//! `mv`: moves a subtree: copies it, compares, then deletes the original.
//!
//! A move is not atomic: other clients may see both places, or change the original. Every node is deleted only in the
//! version that was copied; a node that changed meanwhile stays and is reported.

use super::YES;
use super::cp::{self, PARENTS, Route};
use super::{CommandSpec, EXTENSION};
use crate::bulk_create::{BulkOptions, Conflict};
use crate::command_error::{self, CommandError};
use crate::options::CommandArgs;
use crate::output::Output;
use crate::pipeline::Pipeline;
use crate::shell::Shell;
use crate::subtree_diff::{Difference, SubtreeDiff};
use crate::subtree_output::{self, NodeErrors};
use crate::walk::{IN_FLIGHT, NodeFields};
use ox_client::{Client, Error, ErrorCode, ErrorKind, Version};

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "mv",
    syntax: "[-p] [--yes] path path",
    help: "Move a node and its whole subtree",
    options: &[PARENTS, YES],
    operands: 2..=2,
    paths: &[0, 1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

/// Reports where the nodes are if the command ends early, by an error or by Ctrl-C.
struct PartialMoveNotice {
    out: Output,
    text: Option<String>,
}

impl Drop for PartialMoveNotice {
    fn drop(&mut self) {
        if let Some(text) = &self.text {
            self.out.error(text);
        }
    }
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let route = Route::new(shell, args)?;
    let client = shell.connected_client().await?;
    let mut node_errors = NodeErrors::new(&shell.out);
    let survey = cp::survey(shell, &client, &route, usize::MAX, NodeFields::All, &mut node_errors).await?;
    node_errors.end("could not be read; nothing was moved")?;
    survey.check("it would be lost; nothing was moved")?;
    if client.exists(&route.to).await?.is_some() {
        return Err(CommandError::message(format!("Node already exists: {}", route.to)));
    }
    shell.confirm(args, &format!("Move {} to {}?", subtree_output::subtree(&route.from, survey.nodes), route.to))?;
    cp::prepare(&client, args, &route).await?;
    let text = format!("Nothing was deleted; the copied nodes are at {}", route.to);
    let mut notice = PartialMoveNotice { out: shell.out.clone(), text: Some(text) };
    let mut copied: Vec<(String, i32)> = Vec::with_capacity(survey.nodes);
    let options = BulkOptions { conflict: Conflict::Fail, dry_run: false, json: false };
    let (counts, node_errors) = cp::copy(shell, &client, &route, usize::MAX, options, |visited| {
        copied.push((visited.path.clone(), visited.stat().version))
    })
    .await?;
    if 0 < counts.failed + node_errors.count() {
        return Err(CommandError::message("Not everything could be copied"));
    }
    verify(&client, &route).await?;
    notice.text =
        Some(format!("All nodes are at {}; those that were not deleted yet are also at {}", route.to, route.from));
    let moved = copied.len();
    let left = delete(shell, &client, copied).await?;
    notice.text = None;
    if 0 < left {
        let left = subtree_output::count(left, "node");
        return Err(CommandError::message(format!(
            "{} is copied to {}, but {left} of it could not be deleted",
            route.from, route.to
        )));
    }
    shell.info(&format!("Moved {} to {}: {}", route.from, route.to, subtree_output::count(moved, "node")));
    Ok(())
}

/// Checks that both subtrees are equal before one is deleted.
async fn verify(client: &Client, route: &Route) -> Result<(), CommandError> {
    let mut compare = SubtreeDiff::new(client, (&route.from, &route.to), NodeFields::All, (None, None));
    let reason = match compare.next().await? {
        None => return Ok(()),
        Some(Difference::OnlyFirst(visited)) => format!("{} was not copied", visited.path),
        Some(Difference::OnlySecond(visited)) => format!("{} is not in the original", visited.path),
        Some(Difference::Changed(change)) => {
            format!("{} and its copy differ: {}", change.first.path, change.what.join(", "))
        }
        Some(Difference::Denied(reason)) => reason,
    };
    Err(CommandError::Message(reason))
}

/// Deletes leaves first, each in the version that was copied. Returns how many remain.
async fn delete(shell: &Shell, client: &Client, copied: Vec<(String, i32)>) -> Result<usize, CommandError> {
    let mut deletes: Pipeline<Result<(), Error>> = Pipeline::new(IN_FLIGHT);
    let mut node_errors = NodeErrors::new(&shell.out);
    for (path, version) in copied.into_iter().rev() {
        let client = client.clone();
        if let Some(deleted) = deletes.push(async move { client.delete(&path, Version::Is(version)).await }).await {
            note(deleted, &mut node_errors)?;
        }
    }
    while let Some(deleted) = deletes.next().await {
        note(deleted, &mut node_errors)?;
    }
    Ok(node_errors.count())
}

fn note(deleted: Result<(), Error>, node_errors: &mut NodeErrors) -> Result<(), CommandError> {
    let Err(error) = deleted else { return Ok(()) };
    let path = error.path().unwrap_or_default();
    match (error.code(), error.kind()) {
        (Some(ErrorCode::NoNode), _) => (), // another client deleted it
        (Some(ErrorCode::BadVersion), _) => {
            node_errors.note(&format!("Changed by another client, not deleted: {path}"))
        }
        (_, ErrorKind::Server(_)) => node_errors.note(&command_error::native_text(&error)),
        _ => return Err(error.into()),
    }
    Ok(())
}
