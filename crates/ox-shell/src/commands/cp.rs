//! `cp`: copies a subtree with its data and ACLs.

use super::{CommandSpec, EXTENSION, JSON};
use crate::bulk_create::{BulkCreate, BulkOptions, CONFLICT, Conflict, DRY_RUN, NewNode, NodeCounts, Payload};
use crate::command_error::CommandError;
use crate::options::{CommandArgs, Opt};
use crate::progress::Progress;
use crate::shell::Shell;
use crate::subtree_diff::{at, below, is_within};
use crate::subtree_output::{self, DEPTH, NodeErrors};
use crate::walk::{NodeFields, VisitedNode, Walk};
use ox_client::{Client, path};

/// Option of `cp` and `mv` to create missing ancestors of the target.
pub(super) const PARENTS: Opt = Opt::switch("-p", "Create missing parents of the target");

pub(super) const COMMAND: CommandSpec = CommandSpec {
    name: "cp",
    syntax: "[--conflict fail|skip|overwrite] [--skip-ephemerals] [-p] [-d depth] [--dry-run] [--yes] path path",
    help: "Copy a node and its whole subtree",
    options: &[
        CONFLICT,
        Opt::switch("--skip-ephemerals", "Skip ephemeral nodes of other sessions, which cannot be copied"),
        PARENTS,
        DEPTH,
        DRY_RUN,
        super::YES,
        JSON,
    ],
    operands: 2..=2,
    paths: &[0, 1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..EXTENSION
};

/// Source and target of a copy or move.
pub(super) struct Route {
    pub(super) from: String,
    pub(super) to: String,
}

impl Route {
    pub(super) fn new(shell: &Shell, args: &CommandArgs) -> Result<Self, CommandError> {
        let (from, to) = (shell.path(args.required(0)?)?, shell.path(args.required(1)?)?);
        if is_within(&to, &from) {
            return Err(CommandError::message(format!("{to} is {from} itself or below it")));
        }
        Ok(Self { from, to })
    }

    /// The target path of a source node.
    fn target(&self, path: &str) -> String {
        at(&self.to, below(&self.from, path))
    }
}

/// Contents of a subtree that matter before copying it.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) nodes: usize,
    /// Number of ephemeral nodes of other sessions, and one example.
    other_sessions: usize,
    example: Option<(String, i64)>,
}

impl Survey {
    /// Fails if the subtree contains ephemeral nodes of other sessions, which a copy cannot preserve.
    pub(super) fn check(&self, hint: &str) -> Result<(), CommandError> {
        let Some((path, owner)) = &self.example else { return Ok(()) };
        let others = match self.other_sessions {
            1 => String::new(),
            number => format!(" (and {} more)", number - 1),
        };
        Err(CommandError::message(format!("{path} is an ephemeral node of session {owner:#x}{others}: {hint}")))
    }
}

/// Walks the source before anything is written.
pub(super) async fn survey(
    shell: &Shell,
    client: &Client,
    route: &Route,
    depth_max: usize,
    fields: NodeFields,
    node_errors: &mut NodeErrors,
) -> Result<Survey, CommandError> {
    let own = own_session(client);
    let excluded = subtree_output::excluded(shell, &route.from);
    let mut walk = Walk::new(client, &route.from, fields).with_depth(depth_max).without(excluded);
    let mut survey = Survey::default();
    while let Some(visited) = walk.next().await? {
        survey.nodes += 1;
        if let Some(reason) = visited.copy_blocker() {
            node_errors.note(&reason);
        }
        if let Some(owner) = other_owner(&visited, own) {
            survey.other_sessions += 1;
            survey.example.get_or_insert((visited.path, owner));
        }
    }
    Ok(survey)
}

fn own_session(client: &Client) -> i64 {
    client.session().map_or(0, |ticket| ticket.id.0)
}

fn other_owner(visited: &VisitedNode, own: i64) -> Option<i64> {
    visited.owner().filter(|owner| *owner != own)
}

async fn run(shell: &mut Shell, args: &CommandArgs) -> Result<(), CommandError> {
    let route = Route::new(shell, args)?;
    let conflict = Conflict::from_args(args)?;
    let dry_run = args.has("--dry-run");
    let depth_max = subtree_output::depth(args)?.unwrap_or(usize::MAX);
    let client = shell.connected_client().await?;
    // Denied nodes are reported when they are copied, not here.
    let mut quiet = NodeErrors::silent(&shell.out);
    let survey = survey(shell, &client, &route, depth_max, NodeFields::Stat, &mut quiet).await?;
    if !args.has("--skip-ephemerals") {
        survey.check("a copy would not be deleted with it; --skip-ephemerals skips these nodes")?;
    }
    if conflict == Conflict::Overwrite && !dry_run {
        let what = subtree_output::subtree(&route.from, survey.nodes);
        shell.confirm(args, &format!("Copy {what} over the nodes at {}?", route.to))?;
    }
    if !dry_run {
        prepare(&client, args, &route).await?;
    }
    let options = BulkOptions { conflict, dry_run, json: shell.is_json(args) };
    let (counts, node_errors) = copy(shell, &client, &route, depth_max, options, |_| ()).await?;
    let verb = if dry_run { "Would copy" } else { "Copied" };
    shell.info(&format!("{verb} {} to {}: {}", route.from, route.to, counts.describe()));
    finish(&counts, &node_errors)
}

/// Creates missing ancestors of the target with `-p`, or fails if they are missing.
pub(super) async fn prepare(client: &Client, args: &CommandArgs, route: &Route) -> Result<(), CommandError> {
    let Some(parent) = path::parent(&route.to).filter(|parent| *parent != "/") else { return Ok(()) };
    if args.has("-p") {
        client.ensure_path(parent).await?;
    } else if client.exists(parent).await?.is_none() {
        return Err(CommandError::message(format!("Node does not exist: {parent} (-p creates it)")));
    }
    Ok(())
}

/// Copies the subtree and passes every copied node to `each`.
pub(super) async fn copy(
    shell: &Shell,
    client: &Client,
    route: &Route,
    depth_max: usize,
    options: BulkOptions,
    mut each: impl FnMut(&VisitedNode),
) -> Result<(NodeCounts, NodeErrors), CommandError> {
    let own = own_session(client);
    let excluded = subtree_output::excluded(shell, &route.from);
    let mut walk = Walk::new(client, &route.from, NodeFields::All).with_depth(depth_max).without(excluded);
    let mut graft = BulkCreate::new(client, &shell.out, options);
    let mut node_errors = NodeErrors::new(&shell.out);
    let mut progress = Progress::new(&shell.out, "copied");
    while let Some(visited) = walk.next().await? {
        if let Some(reason) = visited.copy_blocker() {
            node_errors.note(&reason);
            walk.prune(); // its children would have no parent
            continue;
        }
        if other_owner(&visited, own).is_some() {
            continue; // skipped, or created after the survey
        }
        progress.step(visited.node.data.len());
        each(&visited);
        let is_ephemeral = visited.owner().is_some();
        let VisitedNode { path, node, acl, .. } = visited;
        let data = Payload((!node.is_null).then_some(node.data));
        graft.put(NewNode { path: route.target(&path), data, acl, is_ephemeral }).await?;
    }
    Ok((graft.end().await?, node_errors))
}

/// Fails if a node was not copied.
fn finish(counts: &NodeCounts, node_errors: &NodeErrors) -> Result<(), CommandError> {
    node_errors.end("could not be copied")?;
    match counts.failed {
        0 => Ok(()),
        failed => Err(CommandError::message(format!("{} could not be written", subtree_output::count(failed, "node")))),
    }
}
