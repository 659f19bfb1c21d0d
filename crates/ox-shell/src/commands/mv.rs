//! `mv`: a subtree to another place: copied, compared, then deleted where it was.
//!
//! Nodes cannot be moved in one step, so others may see both places, or change the old one. Every node is deleted only in the
//! version that was copied; one that was changed meanwhile stays, and is told.

use super::YES;
use super::cp::{self, PARENTS, Route};
use super::{Command, OURS};
use crate::bulk_create::{Conflict, Manner};
use crate::command_error::{self, Failure};
use crate::options::Args;
use crate::output::Output;
use crate::pipeline::Pipeline;
use crate::shell::Shell;
use crate::subtree_diff::{Compare, Difference};
use crate::subtree_output::{self, Troubles};
use crate::walk::{IN_FLIGHT, Look};
use ox_client::{Client, Error, ErrorCode, ErrorKind, Version};

pub(super) const COMMAND: Command = Command {
    name: "mv",
    syntax: "[-p] [--yes] path path",
    help: "Move a node and everything below it to another place",
    options: &[PARENTS, YES],
    takes: 2..=2,
    paths: &[0, 1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
};

/// Says where everything is when this command ends before its end: by an error, or by Ctrl-C.
struct Halfway {
    out: Output,
    text: Option<String>,
}

impl Drop for Halfway {
    fn drop(&mut self) {
        if let Some(text) = &self.text {
            self.out.complain(text);
        }
    }
}

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let route = Route::new(shell, args)?;
    let client = shell.server().await?;
    let mut troubles = Troubles::new(&shell.out);
    let survey = cp::survey(shell, &client, &route, usize::MAX, Look::Whole, &mut troubles).await?;
    troubles.end("could not be read; nothing was moved")?;
    survey.check("it would be lost; nothing was moved")?;
    if client.exists(&route.to).await?.is_some() {
        return Err(Failure::told(format!("Node already exists: {}", route.to)));
    }
    shell.confirm(args, &format!("Move {} to {}?", subtree_output::subtree(&route.from, survey.nodes), route.to))?;
    cp::prepare(&client, args, &route).await?;
    let text = format!("Nothing was deleted; what was copied is at {}", route.to);
    let mut halfway = Halfway { out: shell.out.clone(), text: Some(text) };
    let mut copied: Vec<(String, i32)> = Vec::with_capacity(survey.nodes);
    let manner = Manner { conflict: Conflict::Fail, dry_run: false, json: false };
    let (tally, troubles) = cp::copy(shell, &client, &route, usize::MAX, manner, |seen| {
        copied.push((seen.path.clone(), seen.stat().version))
    })
    .await?;
    if 0 < tally.failed + troubles.count() {
        return Err(Failure::told("Not everything could be copied"));
    }
    verify(&client, &route).await?;
    halfway.text = Some(format!("Everything is at {}; what was not deleted yet is at {}, too", route.to, route.from));
    let moved = copied.len();
    let left = delete(shell, &client, copied).await?;
    halfway.text = None;
    if 0 < left {
        let left = subtree_output::count(left, "node");
        return Err(Failure::told(format!(
            "{} is copied to {}, but {left} of it could not be deleted",
            route.from, route.to
        )));
    }
    shell.say(&format!("Moved {} to {}: {}", route.from, route.to, subtree_output::count(moved, "node")));
    Ok(())
}

/// Both places must hold the same before one of them goes.
async fn verify(client: &Client, route: &Route) -> Result<(), Failure> {
    let mut compare = Compare::new(client, (&route.from, &route.to), Look::Whole, (None, None));
    let reason = match compare.next().await? {
        None => return Ok(()),
        Some(Difference::OnlyFirst(seen)) => format!("{} was not copied", seen.path),
        Some(Difference::OnlySecond(seen)) => format!("{} is not in the original", seen.path),
        Some(Difference::Changed(change)) => {
            format!("{} and its copy differ: {}", change.first.path, change.what.join(", "))
        }
        Some(Difference::Denied(reason)) => reason,
    };
    Err(Failure::Told(reason))
}

/// Leaves first, each in the version that was copied. Gives how many are left.
async fn delete(shell: &Shell, client: &Client, copied: Vec<(String, i32)>) -> Result<usize, Failure> {
    let mut deletes: Pipeline<Result<(), Error>> = Pipeline::new(IN_FLIGHT);
    let mut troubles = Troubles::new(&shell.out);
    for (path, version) in copied.into_iter().rev() {
        let client = client.clone();
        if let Some(deleted) = deletes.push(async move { client.delete(&path, Version::Is(version)).await }).await {
            note(deleted, &mut troubles)?;
        }
    }
    while let Some(deleted) = deletes.next().await {
        note(deleted, &mut troubles)?;
    }
    Ok(troubles.count())
}

fn note(deleted: Result<(), Error>, troubles: &mut Troubles) -> Result<(), Failure> {
    let Err(error) = deleted else { return Ok(()) };
    let path = error.path().unwrap_or_default();
    match (error.code(), error.kind()) {
        (Some(ErrorCode::NoNode), _) => (), // somebody else has deleted it
        (Some(ErrorCode::BadVersion), _) => troubles.note(&format!("Changed meanwhile, so it stays : {path}")),
        (_, ErrorKind::Server(_)) => troubles.note(&command_error::text(&error)),
        _ => return Err(error.into()),
    }
    Ok(())
}
