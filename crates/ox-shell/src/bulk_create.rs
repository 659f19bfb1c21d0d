//! Creates many nodes in order with many requests in flight, for `cp`, `mv` and `import`.
//!
//! Each node passes two pipelines. The first checks whether it exists; the second writes. The action for every node is
//! thus decided before any later node is written, and a forbidden conflict stops everything after it.

use crate::command_error::{self, CommandError};
use crate::options::{CommandArgs, Opt};
use crate::output::Output;
use crate::pipeline::Pipeline;
use crate::subtree_output::{self, NodeErrors};
use crate::walk::IN_FLIGHT;
use ox_client::acl::Acl;
use ox_client::{Client, CreateMode, CreateOptions, Error, ErrorCode, ErrorKind, NodeData, Stat, Version};
use serde::Serialize;

/// What to do with a node that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Stop: no later node is written.
    Fail,
    /// Keep the existing node.
    Skip,
    /// Replace data and ACL.
    Overwrite,
}

/// The option that selects a [`Conflict`].
pub(crate) const CONFLICT: Opt =
    Opt::with("--conflict", "what", "What to do if a node exists: fail (default), skip, overwrite");

/// The option that lists the actions without executing them.
pub(crate) const DRY_RUN: Opt = Opt::switch("--dry-run", "Only list what would be done");

impl Conflict {
    pub(crate) fn from_args(args: &CommandArgs) -> Result<Self, CommandError> {
        match args.value("--conflict") {
            None | Some("fail") => Ok(Self::Fail),
            Some("skip") => Ok(Self::Skip),
            Some("overwrite") => Ok(Self::Overwrite),
            Some(other) => {
                Err(CommandError::message(format!("--conflict must be fail, skip or overwrite, not `{other}`")))
            }
        }
    }
}

/// A node to create or overwrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewNode {
    pub(crate) path: String,
    pub(crate) data: Payload,
    pub(crate) acl: Vec<Acl>,
    pub(crate) is_ephemeral: bool,
}

/// Data of a node; `None` is null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Option<Vec<u8>>);

impl NodeData for Payload {
    fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// Numbers of nodes by action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeCounts {
    pub(crate) created: usize,
    pub(crate) overwritten: usize,
    pub(crate) skipped: usize,
    /// Nodes that could not be written; each was reported.
    pub(crate) failed: usize,
}

impl NodeCounts {
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

/// Options of a bulk create.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkOptions {
    pub(crate) conflict: Conflict,
    pub(crate) dry_run: bool,
    /// Whether a dry run prints JSON.
    pub(crate) json: bool,
}

/// A bulk create in progress.
pub(crate) struct BulkCreate {
    client: Client,
    out: Output,
    options: BulkOptions,
    checks: Pipeline<(NewNode, Result<Option<Stat>, Error>)>,
    writes: Pipeline<Written>,
    counts: NodeCounts,
    node_errors: NodeErrors,
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

impl BulkCreate {
    pub(crate) fn new(client: &Client, out: &Output, options: BulkOptions) -> Self {
        Self {
            client: client.clone(),
            out: out.clone(),
            options,
            checks: Pipeline::new(IN_FLIGHT),
            writes: Pipeline::new(IN_FLIGHT),
            counts: NodeCounts::default(),
            node_errors: NodeErrors::new(out),
        }
    }

    /// Queues a node. Parents must precede their children.
    pub(crate) async fn put(&mut self, new_node: NewNode) -> Result<(), CommandError> {
        let client = self.client.clone();
        let check = async move {
            let there = client.exists(&new_node.path).await;
            (new_node, there)
        };
        match self.checks.push(check).await {
            Some((new_node, there)) => self.decide(new_node, there).await,
            None => Ok(()),
        }
    }

    /// Waits until all queued nodes are written.
    pub(crate) async fn end(mut self) -> Result<NodeCounts, CommandError> {
        while let Some((new_node, there)) = self.checks.next().await {
            self.decide(new_node, there).await?;
        }
        self.decide_pending().await?;
        Ok(self.counts)
    }

    async fn decide_pending(&mut self) -> Result<(), CommandError> {
        while let Some(written) = self.writes.next().await {
            self.note(written)?;
        }
        Ok(())
    }

    async fn decide(&mut self, new_node: NewNode, there: Result<Option<Stat>, Error>) -> Result<(), CommandError> {
        let action = match (there, self.options.conflict) {
            (Ok(None), _) => Action::Create,
            (Err(error), _) if error.code() != Some(ErrorCode::NoAuth) => return Err(error.into()),
            (_, Conflict::Skip) => Action::Skip,
            (_, Conflict::Fail) if new_node.path == "/" => Action::Skip, // the root always exists
            (_, Conflict::Fail) => Action::Conflict,
            (Ok(Some(stat)), Conflict::Overwrite) if (stat.ephemeral_owner != 0) != new_node.is_ephemeral => {
                self.fail(&format!("A node of another kind exists, and cannot be converted : {}", new_node.path));
                return Ok(());
            }
            (_, Conflict::Overwrite) => Action::Overwrite,
        };
        if self.options.dry_run {
            return self.list(action, &new_node.path);
        }
        match action {
            Action::Skip => self.counts.skipped += 1,
            Action::Conflict => {
                self.decide_pending().await?;
                let done = self.counts.describe();
                return Err(CommandError::message(format!(
                    "Node already exists: {} ({done} before it, nothing after it; see --conflict)",
                    new_node.path
                )));
            }
            Action::Create | Action::Overwrite => {
                let client = self.client.clone();
                let write = async move { Written { action, result: write(&client, action, new_node).await } };
                if let Some(written) = self.writes.push(write).await {
                    self.note(written)?;
                }
            }
        }
        Ok(())
    }

    /// Prints one action of a dry run.
    fn list(&mut self, action: Action, path: &str) -> Result<(), CommandError> {
        let word = match action {
            Action::Create => "create",
            Action::Overwrite => "overwrite",
            Action::Skip => "skip",
            Action::Conflict => "conflict",
        };
        let counter = match action {
            Action::Create => &mut self.counts.created,
            Action::Overwrite => &mut self.counts.overwritten,
            Action::Skip => &mut self.counts.skipped,
            Action::Conflict => &mut self.counts.failed,
        };
        *counter += 1;
        match self.options.json {
            true => subtree_output::json_line(&self.out, &Line { action, path }),
            false => self.out.line(&format!("{word:9} {path}")),
        }
    }

    fn fail(&mut self, reason: &str) {
        self.node_errors.note(reason);
        self.counts.failed += 1;
    }

    fn note(&mut self, written: Written) -> Result<(), CommandError> {
        match (written.result, written.action) {
            (Ok(()), Action::Create) => self.counts.created += 1,
            (Ok(()), _) => self.counts.overwritten += 1,
            (Err(error), _) if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::TooLarge) => {
                self.fail(&command_error::native_text(&error));
            }
            // Without a connection, later nodes fail as well.
            (Err(error), _) => {
                let done = self.counts.describe();
                return Err(CommandError::message(format!(
                    "{} ({done} before that)",
                    command_error::native_text(&error)
                )));
            }
        }
        Ok(())
    }
}

/// Writes a node. An overwrite sends data and ACL without waiting in between.
async fn write(client: &Client, action: Action, new_node: NewNode) -> Result<(), Error> {
    let NewNode { path, data, acl, is_ephemeral } = new_node;
    if action == Action::Create {
        let mode = if is_ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
        let options = CreateOptions::new(mode).with_acl(acl);
        return client.create(&path, data, options).await.map(drop);
    }
    let (set, guarded) = tokio::join!(client.set(&path, data, Version::Any), client.set_acl(&path, &acl, Version::Any));
    set.and(guarded).map(drop)
}
