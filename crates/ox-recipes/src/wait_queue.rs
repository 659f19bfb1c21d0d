//! A wait queue of ephemeral sequential nodes, each of which watches one node before it.
//!
//! ```text
//! /lock                                                   a container
//!  ├─ _c_1a4ad27c-8f18-4e3b-9d84-4ee3a3bd94d0-lock-0000000007   is first
//!  ├─ _c_f2d1b6a0-53c9-4b0e-a6f4-0c5f8f0d7c11-lock-0000000008   watches 7
//!  └─ _c_90b7d8de-0d6e-4a4f-8a37-b3f6f4f5c5d2-lock-0000000010   watches 8 (9 left the queue)
//! ```
//!
//! Why no node is overtaken: a server that replies to a session has applied that session's own create, and therefore
//! all smaller numbers. A stale list may show deleted nodes but never misses an existing one before ours. A stale reply
//! thus causes waiting, never a premature turn.
//!
//! Why no node waits forever: a node is deleted with its session, by its owner, or in the background when its owner is
//! dropped; and the client re-arms watches after connection losses.

use crate::error::{RecipeError, has_code};
use crate::nodes::{OwnedNode, child, name_of, with_parent, with_session_retries};
use ox_client::{Client, CreateMode, ErrorCode, EventKind, Zxid};

/// Selects the node to wait for among the nodes ahead, which are in order.
pub(crate) type WaitRule = fn(ahead: &[String]) -> Option<&String>;

/// Every node waits for its predecessor.
pub(crate) fn predecessor(ahead: &[String]) -> Option<&String> {
    ahead.last()
}

/// Nodes under one parent, served in the order of their sequence numbers.
#[derive(Clone, Debug)]
pub(crate) struct WaitQueue {
    pub(crate) client: Client,
    pub(crate) path: String,
    /// Name prefixes before the sequence number, all of the same length.
    names: &'static [&'static str],
    /// Mode of the parent if it has to be created.
    parent: CreateMode,
}

impl WaitQueue {
    pub(crate) fn new(client: &Client, path: &str, names: &'static [&'static str]) -> Self {
        Self { client: with_session_retries(client), path: path.to_owned(), names, parent: CreateMode::Container }
    }

    /// A queue whose numbers never restart, because servers do not delete its empty parent.
    pub(crate) fn persistent(client: &Client, path: &str, names: &'static [&'static str]) -> Self {
        Self { parent: CreateMode::Persistent, ..Self::new(client, path, names) }
    }

    /// Appends a node with the next sequence number.
    pub(crate) async fn join(&self, name: &str, data: &[u8]) -> Result<WaitNode, RecipeError> {
        self.join_as(name, data, CreateMode::EphemeralSequential).await
    }

    /// Appends a node; if the mode is not sequential, the name already ends with its number.
    pub(crate) async fn join_as(&self, name: &str, data: &[u8], mode: CreateMode) -> Result<WaitNode, RecipeError> {
        let path = child(&self.path, name);
        let create = || self.client.create_protected(&path, data, mode);
        let created = with_parent(&self.client, &self.path, self.parent, create).await?;
        let node = OwnedNode::new(self.client.clone(), created.path);
        Ok(WaitNode { queue: self.clone(), node, token: created.stat.czxid })
    }

    /// All nodes of the queue in order. Other children are ignored.
    pub(crate) async fn members(&self) -> Result<Vec<String>, RecipeError> {
        let names = self.client.children(&self.path).await;
        if has_code(&names, ErrorCode::NoNode) {
            return Ok(Vec::new());
        }
        Ok(in_order(names?, |name| self.sequence(name)))
    }

    /// The sequence number of a node as text.
    pub(crate) fn number<'a>(&self, name: &'a str) -> Option<&'a str> {
        let number = |prefix: &&str| name.rfind(*prefix).map(|at| &name[at + prefix.len()..]);
        let number = self.names.iter().find_map(number)?;
        (10 <= number.len() && number.parse::<i32>().is_ok()).then_some(number)
    }

    fn sequence(&self, name: &str) -> Option<i32> {
        self.number(name)?.parse().ok()
    }
}

/// Sorts by sequence number and drops names without. Servers count up to 2147483647 and continue at -2147483648, so a
/// number less than half of the range away counts as later.
fn in_order(mut names: Vec<String>, sequence: impl Fn(&str) -> Option<i32>) -> Vec<String> {
    let Some(middle) = names.iter().find_map(|name| sequence(name)) else { return Vec::new() };
    names.retain(|name| sequence(name).is_some());
    names.sort_by_cached_key(|name| (sequence(name).map(|sequence| sequence.wrapping_sub(middle)), name.clone()));
    names
}

/// A node of this session in a [`WaitQueue`]. Dropping it deletes the node in the background.
#[derive(Debug)]
pub(crate) struct WaitNode {
    queue: WaitQueue,
    node: OwnedNode,
    /// The `czxid` of the node, which grows along the queue.
    pub(crate) token: Zxid,
}

impl WaitNode {
    pub(crate) fn path(&self) -> &str {
        self.node.path()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.queue.client
    }

    /// The node to wait for now, if any.
    pub(crate) async fn blocker(&self, rule: WaitRule) -> Result<Option<String>, RecipeError> {
        let mut members = self.queue.members().await?;
        let own = name_of(self.path());
        let Some(at) = members.iter().position(|name| name == own) else { return Err(self.deleted()) };
        members.truncate(at);
        Ok(rule(&members).cloned())
    }

    /// Waits until the rule selects no node to wait for.
    pub(crate) async fn await_turn(&self, rule: WaitRule) -> Result<(), RecipeError> {
        while let Some(name) = self.blocker(rule).await? {
            await_change(&self.queue.client, &child(&self.queue.path, &name)).await?;
        }
        Ok(())
    }

    /// Deletes the node and returns when that is confirmed.
    pub(crate) async fn leave(self) -> Result<(), RecipeError> {
        Ok(self.node.delete().await?)
    }

    /// The error if the node no longer exists.
    pub(crate) fn deleted(&self) -> RecipeError {
        RecipeError::node_deleted(self.path())
    }
}

/// Waits until a node is deleted, or at least changed.
pub(crate) async fn await_change(client: &Client, path: &str) -> Result<(), RecipeError> {
    let found = client.get_and_watch(path).await;
    if has_code(&found, ErrorCode::NoNode) {
        return Ok(());
    }
    let (_, watch) = found?;
    if watch.await.kind == EventKind::SessionEnded {
        client.exists(path).await?; // fails with the cause
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_continues_after_counter_overflow() {
        let names = ["lock--2147483648", "lock-2147483647", "lock--000000005", "lock-0000000007", "other", "lock-7"];
        let sequence = |name: &str| name.strip_prefix("lock-").filter(|number| 10 <= number.len())?.parse().ok();
        let order = |at: &[usize]| in_order(at.iter().map(|at| names[*at].to_owned()).collect(), sequence);
        assert_eq!(order(&[0, 1, 4]), ["lock-2147483647", "lock--2147483648"]);
        assert_eq!(order(&[1, 0, 5]), ["lock-2147483647", "lock--2147483648"]);
        assert_eq!(order(&[3, 2]), ["lock--000000005", "lock-0000000007"]);
        assert_eq!(order(&[4]), [] as [&str; 0]);
    }
}
