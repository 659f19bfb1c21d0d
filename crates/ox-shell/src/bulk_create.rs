//! Nodes written into the tree, in order and many at a time: what `cp`, `mv` and `import` do.
//!
//! Each node goes through two pipelines. The first asks whether it is there; the second writes. So it is known of every node what
//! becomes of it before anything behind it is written, and a conflict that must not be stops everything behind it.

use crate::command_error::{self, Failure};
use crate::options::{Args, Opt};
use crate::output::Output;
use crate::pipeline::Pipeline;
use crate::subtree_output::{self, Troubles};
use crate::walk::IN_FLIGHT;
use ox_client::acl::Acl;
use ox_client::{Client, CreateMode, CreateOptions, Error, ErrorCode, ErrorKind, NodeData, Stat, Version};
use serde::Serialize;

/// What becomes of a node that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Nothing behind it is written.
    Fail,
    /// It stays as it is.
    Skip,
    /// It gets the new data and access control list.
    Overwrite,
}

/// The option for it.
pub(crate) const CONFLICT: Opt =
    Opt::with("--conflict", "what", "What to do where a node is there already: fail (unless told), skip, overwrite");

/// Shows what would be done.
pub(crate) const DRY_RUN: Opt = Opt::switch("--dry-run", "Only list what would be done");

impl Conflict {
    pub(crate) fn asked(args: &Args) -> Result<Self, Failure> {
        match args.value("--conflict") {
            None | Some("fail") => Ok(Self::Fail),
            Some("skip") => Ok(Self::Skip),
            Some("overwrite") => Ok(Self::Overwrite),
            Some(other) => Err(Failure::told(format!("--conflict must be fail, skip or overwrite, not `{other}`"))),
        }
    }
}

/// A node to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) path: String,
    pub(crate) data: Payload,
    pub(crate) acl: Vec<Acl>,
    pub(crate) is_ephemeral: bool,
}

/// Data, or none at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Option<Vec<u8>>);

impl NodeData for Payload {
    fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) created: usize,
    pub(crate) overwritten: usize,
    pub(crate) skipped: usize,
    /// Nodes that could not be written, and were told.
    pub(crate) failed: usize,
}

impl Tally {
    pub(crate) fn describe(&self) -> String {
        let mut parts = vec![format!("{} created", subtree_output::count(self.created, "node"))];
        for (number, what) in [(self.overwritten, "overwritten"), (self.skipped, "skipped"), (self.failed, "failed")] {
            if 0 < number {
                parts.push(format!("{number} {what}"));
            }
        }
        parts.join(", ")
    }
}

/// How it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) conflict: Conflict,
    pub(crate) dry_run: bool,
    /// What a dry run prints.
    pub(crate) json: bool,
}

/// A writer of nodes.
pub(crate) struct Graft {
    client: Client,
    out: Output,
    manner: Manner,
    checks: Pipeline<(Planned, Result<Option<Stat>, Error>)>,
    writes: Pipeline<Written>,
    tally: Tally,
    troubles: Troubles,
}

struct Written {
    action: Action,
    result: Result<(), Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Create,
    Overwrite,
    Skip,
    Conflict,
}

#[derive(Serialize)]
struct Line<'a> {
    action: Action,
    path: &'a str,
}

impl Graft {
    pub(crate) fn new(client: &Client, out: &Output, manner: Manner) -> Self {
        Self {
            client: client.clone(),
            out: out.clone(),
            manner,
            checks: Pipeline::new(IN_FLIGHT),
            writes: Pipeline::new(IN_FLIGHT),
            tally: Tally::default(),
            troubles: Troubles::new(out),
        }
    }

    /// Writes a node, sooner or later. Parents come before their children.
    pub(crate) async fn put(&mut self, planned: Planned) -> Result<(), Failure> {
        let client = self.client.clone();
        let check = async move {
            let there = client.exists(&planned.path).await;
            (planned, there)
        };
        match self.checks.push(check).await {
            Some((planned, there)) => self.decide(planned, there).await,
            None => Ok(()),
        }
    }

    /// Waits until everything is written.
    pub(crate) async fn end(mut self) -> Result<Tally, Failure> {
        while let Some((planned, there)) = self.checks.next().await {
            self.decide(planned, there).await?;
        }
        self.settle().await?;
        Ok(self.tally)
    }

    async fn settle(&mut self) -> Result<(), Failure> {
        while let Some(written) = self.writes.next().await {
            self.note(written)?;
        }
        Ok(())
    }

    async fn decide(&mut self, planned: Planned, there: Result<Option<Stat>, Error>) -> Result<(), Failure> {
        let action = match (there, self.manner.conflict) {
            (Ok(None), _) => Action::Create,
            (Err(error), _) if error.code() != Some(ErrorCode::NoAuth) => return Err(error.into()),
            (_, Conflict::Skip) => Action::Skip,
            (_, Conflict::Fail) if planned.path == "/" => Action::Skip, // it is always there
            (_, Conflict::Fail) => Action::Conflict,
            (Ok(Some(stat)), Conflict::Overwrite) if (stat.ephemeral_owner != 0) != planned.is_ephemeral => {
                self.fail(&format!("A node of another kind is there, and cannot be turned : {}", planned.path));
                return Ok(());
            }
            (_, Conflict::Overwrite) => Action::Overwrite,
        };
        if self.manner.dry_run {
            return self.list(action, &planned.path);
        }
        match action {
            Action::Skip => self.tally.skipped += 1,
            Action::Conflict => {
                self.settle().await?;
                let done = self.tally.describe();
                return Err(Failure::told(format!(
                    "Node already exists: {} ({done} before it, nothing behind it; see --conflict)",
                    planned.path
                )));
            }
            Action::Create | Action::Overwrite => {
                let client = self.client.clone();
                let write = async move { Written { action, result: write(&client, action, planned).await } };
                if let Some(written) = self.writes.push(write).await {
                    self.note(written)?;
                }
            }
        }
        Ok(())
    }

    /// A line of a dry run.
    fn list(&mut self, action: Action, path: &str) -> Result<(), Failure> {
        let word = match action {
            Action::Create => "create",
            Action::Overwrite => "overwrite",
            Action::Skip => "skip",
            Action::Conflict => "conflict",
        };
        let counter = match action {
            Action::Create => &mut self.tally.created,
            Action::Overwrite => &mut self.tally.overwritten,
            Action::Skip => &mut self.tally.skipped,
            Action::Conflict => &mut self.tally.failed,
        };
        *counter += 1;
        match self.manner.json {
            true => subtree_output::json_line(&self.out, &Line { action, path }),
            false => self.out.line(&format!("{word:9} {path}")),
        }
    }

    fn fail(&mut self, reason: &str) {
        self.troubles.note(reason);
        self.tally.failed += 1;
    }

    fn note(&mut self, written: Written) -> Result<(), Failure> {
        match (written.result, written.action) {
            (Ok(()), Action::Create) => self.tally.created += 1,
            (Ok(()), _) => self.tally.overwritten += 1,
            (Err(error), _) if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::TooLarge) => {
                self.fail(&command_error::text(&error));
            }
            // Without a connection nothing behind it will do better.
            (Err(error), _) => {
                let done = self.tally.describe();
                return Err(Failure::told(format!("{} ({done} until then)", command_error::text(&error))));
            }
        }
        Ok(())
    }
}

/// Sends at once what belongs together.
async fn write(client: &Client, action: Action, planned: Planned) -> Result<(), Error> {
    let Planned { path, data, acl, is_ephemeral } = planned;
    if action == Action::Create {
        let mode = if is_ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
        let options = CreateOptions::new(mode).with_acl(acl);
        return client.create(&path, data, options).await.map(drop);
    }
    let (set, guarded) = tokio::join!(client.set(&path, data, Version::Any), client.set_acl(&path, &acl, Version::Any));
    set.and(guarded).map(drop)
}
