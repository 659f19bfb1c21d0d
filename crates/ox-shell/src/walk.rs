//! A walk over a subtree: parents before children, siblings by name.
//!
//! Nodes are read ahead, [`IN_FLIGHT`] at a time, and returned in order. The walk holds the lists of names between the
//! root and the current node, and the replies received ahead: memory depends on the shape of the subtree, not on its
//! size.
//!
//! A node that is deleted meanwhile is skipped. A node that may not be read is returned with the reason, without its
//! subtree.
//!
//! A long walk survives connection losses: once the root was read, it waits for a new connection as long as the session
//! may last, and continues.

use crate::command_error::{self, CommandError};
use ox_client::acl::Acl;
use ox_client::{Client, Error, ErrorCode, Node, RetryPolicy, Stat, Watch, path};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Reads in flight at the same time.
pub(crate) const IN_FLIGHT: usize = 64;

/// What is read of each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeFields {
    Stat,
    /// Metadata and data of the node.
    Data,
    /// Metadata, data and ACL.
    All,
    /// Children only, leaving a child watch.
    Watch,
}

/// A node that the walk returns.
#[derive(Clone, Debug)]
pub(crate) struct VisitedNode {
    pub(crate) path: String,
    /// The depth below the root of the walk, which has 0.
    pub(crate) depth: usize,
    /// Whether the node is the last of its siblings.
    pub(crate) is_last: bool,
    /// Without data unless requested; empty if reading is denied.
    pub(crate) node: Node,
    pub(crate) acl: Vec<Acl>,
    /// Whether the server masks a part of the ACL.
    pub(crate) acl_is_masked: bool,
    /// Why the node and its subtree cannot be read.
    pub(crate) denied: Option<Error>,
}

impl VisitedNode {
    pub(crate) fn stat(&self) -> &Stat {
        &self.node.stat
    }

    /// The owner session of an ephemeral node. Containers and TTL nodes look like persistent nodes to clients.
    pub(crate) fn owner(&self) -> Option<i64> {
        Some(self.node.stat.ephemeral_owner).filter(|owner| *owner != 0)
    }

    /// Why the node cannot be copied completely.
    pub(crate) fn copy_blocker(&self) -> Option<String> {
        let masked = || format!("The server shows only a part of its ACL: {}", self.path);
        self.denial().or_else(|| self.acl_is_masked.then(masked))
    }

    /// Why the node cannot be read, as a message for the user.
    pub(crate) fn denial(&self) -> Option<String> {
        self.denied.as_ref().map(command_error::native_text)
    }

    /// The last component of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(_, name)| name)
    }
}

/// A walk in progress.
pub(crate) struct Walk {
    client: Client,
    /// A client with retries, for nodes below the root.
    retrying: Client,
    fields: NodeFields,
    depth_max: usize,
    excluded: Option<String>,
    /// Siblings still to visit, from the root down to the current level.
    levels: Vec<Level>,
    permits: Arc<Semaphore>,
    /// Watches left at visited nodes.
    watches: Vec<(String, Watch)>,
}

/// Siblings that are not visited yet.
struct Level {
    /// Their parent; `None` for the root of the walk.
    parent: Option<String>,
    ahead: VecDeque<PendingNode>,
    names: std::vec::IntoIter<String>,
}

/// A node whose read is in flight.
struct PendingNode {
    path: String,
    reply: Task,
}

/// A task that is aborted when dropped.
struct Task(JoinHandle<Result<NodeReply, Error>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Default)]
struct NodeReply {
    node: Node,
    acl: Vec<Acl>,
    children: Vec<String>,
    watch: Option<Watch>,
    denied: Option<Error>,
}

impl Walk {
    pub(crate) fn new(client: &Client, root: &str, fields: NodeFields) -> Self {
        let names = vec![root.to_owned()].into_iter();
        let top = Level { parent: None, ahead: VecDeque::new(), names };
        let lasts = client.session().map_or(Duration::ZERO, |session| session.timeout);
        Self {
            client: client.clone(),
            retrying: client.with_retry(RetryPolicy::until_elapsed(lasts)),
            fields,
            depth_max: usize::MAX,
            excluded: None,
            levels: vec![top],
            permits: Arc::new(Semaphore::new(IN_FLIGHT)),
            watches: Vec::new(),
        }
    }

    /// Lists a subtree, parents before children. Fails if any node is denied.
    pub(crate) async fn paths(client: &Client, root: &str) -> Result<Vec<String>, CommandError> {
        let mut walk = Self::new(client, root, NodeFields::Stat);
        let mut paths = Vec::new();
        while let Some(visited) = walk.next().await? {
            if let Some(error) = visited.denied {
                return Err(error.into());
            }
            paths.push(visited.path);
        }
        Ok(paths)
    }

    /// Limits the depth of the walk.
    pub(crate) fn with_depth(mut self, depth_max: usize) -> Self {
        self.depth_max = depth_max;
        self
    }

    /// Excludes `path` and its subtree.
    pub(crate) fn without(mut self, path: Option<&str>) -> Self {
        self.excluded = path.map(str::to_owned);
        self
    }

    /// Returns the next node. The root must exist.
    pub(crate) async fn next(&mut self) -> Result<Option<VisitedNode>, Error> {
        loop {
            self.prefetch();
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let Some(mut pending) = level.ahead.pop_front() else {
                self.levels.pop();
                continue;
            };
            let is_last = level.ahead.is_empty() && level.names.as_slice().is_empty();
            let reply = match (&mut pending.reply.0).await {
                Ok(reply) => reply,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => return Ok(None), // the runtime is shutting down
            };
            let depth = self.levels.len() - 1;
            match reply {
                Ok(reply) => return Ok(Some(self.visit(pending.path, is_last, reply))),
                Err(error) if error.code() == Some(ErrorCode::NoNode) && 0 < depth => (), // deleted meanwhile
                Err(error) => return Err(error),
            }
        }
    }

    /// Skips the subtree of the node returned last.
    pub(crate) fn prune(&mut self) {
        self.levels.pop();
    }

    /// The names of the children of the node returned last.
    pub(crate) fn names_below(&self) -> &[String] {
        self.levels.last().map_or(&[], |level| level.names.as_slice())
    }

    /// Returns the watches left since the last call.
    pub(crate) fn take_watches(&mut self) -> Vec<(String, Watch)> {
        std::mem::take(&mut self.watches)
    }

    fn visit(&mut self, path: String, is_last: bool, reply: NodeReply) -> VisitedNode {
        let NodeReply { node, acl, children: mut names, watch, denied } = reply;
        let depth = self.levels.len() - 1;
        self.watches.extend(watch.map(|watch| (path.clone(), watch)));
        if let Some(excluded) = &self.excluded {
            names.retain(|name| path::child(&path, name) != *excluded);
        }
        names.sort_unstable();
        self.levels.push(Level { parent: Some(path.clone()), ahead: VecDeque::new(), names: names.into_iter() });
        let acl_is_masked = acl.iter().any(is_masked);
        VisitedNode { path, depth, is_last, node, acl, acl_is_masked, denied }
    }

    /// Starts reads of the next nodes.
    fn prefetch(&mut self) {
        let mut budget = IN_FLIGHT;
        for (depth, level) in self.levels.iter_mut().enumerate().rev() {
            while level.ahead.len() < budget
                && let Some(name) = level.names.next()
            {
                let path = match &level.parent {
                    Some(parent) => path::child(parent, &name),
                    None => name,
                };
                let client = if depth == 0 { &self.client } else { &self.retrying }.clone();
                let (permits, fields) = (Arc::clone(&self.permits), self.fields);
                let (pending, goes_on) = (path.clone(), depth < self.depth_max);
                let reply = Task(tokio::spawn(async move {
                    let _permit = permits.acquire().await;
                    fetch(&client, &pending, fields, goes_on).await
                }));
                level.ahead.push_back(PendingNode { path, reply });
            }
            budget = budget.saturating_sub(level.ahead.len());
            if budget == 0 {
                return;
            }
        }
    }
}

async fn fetch(client: &Client, path: &str, fields: NodeFields, goes_on: bool) -> Result<NodeReply, Error> {
    let mut reply = NodeReply::default();
    match fetch_fields(client, path, fields, goes_on, &mut reply).await {
        Ok(()) => (),
        Err(error) if error.code() == Some(ErrorCode::NoAuth) => {
            reply = NodeReply { denied: Some(error), ..NodeReply::default() };
        }
        Err(error) => return Err(error),
    }
    Ok(reply)
}

async fn fetch_fields(
    client: &Client,
    path: &str,
    fields: NodeFields,
    goes_on: bool,
    reply: &mut NodeReply,
) -> Result<(), Error> {
    if fields == NodeFields::Watch {
        let (names, watch) = client.children_and_watch(path).await?;
        (reply.children, reply.watch) = (names, Some(watch));
        return Ok(());
    }
    if fields == NodeFields::Stat {
        if !goes_on && let Some(stat) = client.exists(path).await? {
            reply.node.stat = stat;
            return Ok(());
        }
        (reply.children, reply.node.stat) = client.children_with_stat(path).await?;
        return Ok(());
    }
    reply.node = client.get(path).await?;
    if fields == NodeFields::All {
        reply.acl = client.get_acl(path).await?.0;
    }
    if goes_on && 0 < reply.node.stat.num_children {
        reply.children = client.children(path).await?;
    }
    Ok(())
}

/// Servers mask password hashes for clients without the ADMIN permission.
fn is_masked(acl: &Acl) -> bool {
    &*acl.scheme == "digest" && acl.id.split_once(':').is_some_and(|(_, hash)| hash == "x")
}
