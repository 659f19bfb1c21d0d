//! `cp`: a subtree, copied with its data and access control lists.

use super::{Command, JSON, OURS};
use crate::bulk_create::{CONFLICT, Conflict, DRY_RUN, Graft, Manner, Payload, Planned, Tally};
use crate::command_error::Failure;
use crate::options::{Args, Opt};
use crate::progress::Progress;
use crate::shell::Shell;
use crate::subtree_diff::{at, below, is_within};
use crate::subtree_output::{self, DEPTH, Troubles};
use crate::walk::{Look, Seen, Walk};
use ox_client::{Client, path};

/// Create what is missing above the new place.
pub(super) const PARENTS: Opt = Opt::switch("-p", "Create missing parents of the new place");

pub(super) const COMMAND: Command = Command {
    name: "cp",
    syntax: "[--conflict fail|skip|overwrite] [--skip-ephemerals] [-p] [-d depth] [--dry-run] [--yes] path path",
    help: "Copy a node and everything below it to another place",
    options: &[
        CONFLICT,
        Opt::switch("--skip-ephemerals", "Leave out ephemeral nodes of other sessions, which cannot be copied"),
        PARENTS,
        DEPTH,
        DRY_RUN,
        super::YES,
        JSON,
    ],
    takes: 2..=2,
    paths: &[0, 1],
    run: |shell, args| Box::pin(run(shell, args)),
    ..OURS
};

/// From one place to another.
pub(super) struct Route {
    pub(super) from: String,
    pub(super) to: String,
}

impl Route {
    pub(super) fn new(shell: &Shell, args: &Args) -> Result<Self, Failure> {
        let (from, to) = (shell.path(args.required(0)?)?, shell.path(args.required(1)?)?);
        if is_within(&to, &from) {
            return Err(Failure::told(format!("{to} is {from} itself or below it")));
        }
        Ok(Self { from, to })
    }

    /// The place of the copy of a node.
    fn target(&self, path: &str) -> String {
        at(&self.to, below(&self.from, path))
    }
}

/// What a subtree holds.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) nodes: usize,
    /// Ephemeral nodes of other sessions: how many, and one of them.
    foreign: usize,
    example: Option<(String, i64)>,
}

impl Survey {
    /// Whether there is something that a copy cannot be.
    pub(super) fn check(&self, hint: &str) -> Result<(), Failure> {
        let Some((path, owner)) = &self.example else { return Ok(()) };
        let others = match self.foreign {
            1 => String::new(),
            number => format!(" (and {} more)", number - 1),
        };
        Err(Failure::told(format!("{path} is an ephemeral node of session {owner:#x}{others}: {hint}")))
    }
}

/// Looks at everything that is to be copied.
pub(super) async fn survey(
    shell: &Shell,
    client: &Client,
    route: &Route,
    depth_max: usize,
    look: Look,
    troubles: &mut Troubles,
) -> Result<Survey, Failure> {
    let own = own_session(client);
    let left_out = subtree_output::left_out(shell, &route.from);
    let mut walk = Walk::new(client, &route.from, look).with_depth(depth_max).without(left_out);
    let mut survey = Survey::default();
    while let Some(seen) = walk.next().await? {
        survey.nodes += 1;
        if let Some(reason) = seen.obstacle() {
            troubles.note(&reason);
        }
        if let Some(owner) = foreign_owner(&seen, own) {
            survey.foreign += 1;
            survey.example.get_or_insert((seen.path, owner));
        }
    }
    Ok(survey)
}

fn own_session(client: &Client) -> i64 {
    client.session().map_or(0, |ticket| ticket.id.0)
}

fn foreign_owner(seen: &Seen, own: i64) -> Option<i64> {
    seen.owner().filter(|owner| *owner != own)
}

async fn run(shell: &mut Shell, args: &Args) -> Result<(), Failure> {
    let route = Route::new(shell, args)?;
    let conflict = Conflict::asked(args)?;
    let dry_run = args.has("--dry-run");
    let depth_max = subtree_output::depth(args)?.unwrap_or(usize::MAX);
    let client = shell.server().await?;
    // What is denied is told when its turn to be copied comes.
    let mut quiet = Troubles::silent(&shell.out);
    let survey = survey(shell, &client, &route, depth_max, Look::Stat, &mut quiet).await?;
    if !args.has("--skip-ephemerals") {
        survey.check("a copy would not go with it; --skip-ephemerals leaves such nodes out")?;
    }
    if conflict == Conflict::Overwrite && !dry_run {
        let what = subtree_output::subtree(&route.from, survey.nodes);
        shell.confirm(args, &format!("Copy {what} over what is at {}?", route.to))?;
    }
    if !dry_run {
        prepare(&client, args, &route).await?;
    }
    let manner = Manner { conflict, dry_run, json: shell.is_json(args) };
    let (tally, troubles) = copy(shell, &client, &route, depth_max, manner, |_| ()).await?;
    let verb = if dry_run { "Would copy" } else { "Copied" };
    shell.say(&format!("{verb} {} to {}: {}", route.from, route.to, tally.describe()));
    finish(&tally, &troubles)
}

/// Creates what is missing above the new place, or says that it is.
pub(super) async fn prepare(client: &Client, args: &Args, route: &Route) -> Result<(), Failure> {
    let Some(parent) = path::parent(&route.to).filter(|parent| *parent != "/") else { return Ok(()) };
    if args.has("-p") {
        client.ensure_path(parent).await?;
    } else if client.exists(parent).await?.is_none() {
        return Err(Failure::told(format!("Node does not exist: {parent} (-p creates it)")));
    }
    Ok(())
}

/// Copies, and shows every node that is copied to `each`.
pub(super) async fn copy(
    shell: &Shell,
    client: &Client,
    route: &Route,
    depth_max: usize,
    manner: Manner,
    mut each: impl FnMut(&Seen),
) -> Result<(Tally, Troubles), Failure> {
    let own = own_session(client);
    let left_out = subtree_output::left_out(shell, &route.from);
    let mut walk = Walk::new(client, &route.from, Look::Whole).with_depth(depth_max).without(left_out);
    let mut graft = Graft::new(client, &shell.out, manner);
    let mut troubles = Troubles::new(&shell.out);
    let mut progress = Progress::new(&shell.out, "copied");
    while let Some(seen) = walk.next().await? {
        if let Some(reason) = seen.obstacle() {
            troubles.note(&reason);
            walk.prune(); // there would be nothing to hang it on
            continue;
        }
        if foreign_owner(&seen, own).is_some() {
            continue; // left out, or came meanwhile
        }
        progress.step(seen.node.data.len());
        each(&seen);
        let is_ephemeral = seen.owner().is_some();
        let Seen { path, node, acl, .. } = seen;
        let data = Payload((!node.is_null).then_some(node.data));
        graft.put(Planned { path: route.target(&path), data, acl, is_ephemeral }).await?;
    }
    Ok((graft.end().await?, troubles))
}

/// Whether everything was copied.
fn finish(tally: &Tally, troubles: &Troubles) -> Result<(), Failure> {
    troubles.end("could not be copied")?;
    match tally.failed {
        0 => Ok(()),
        failed => Err(Failure::told(format!("{} could not be written", subtree_output::count(failed, "node")))),
    }
}
