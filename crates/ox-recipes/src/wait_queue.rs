//! Waiting in line: ephemeral nodes with numbers, each watching one node before it.
//!
//! ```text
//! /lock                                                   a container
//!  ├─ _c_1a4ad27c-8f18-4e3b-9d84-4ee3a3bd94d0-lock-0000000007   has its turn
//!  ├─ _c_f2d1b6a0-53c9-4b0e-a6f4-0c5f8f0d7c11-lock-0000000008   watches 7
//!  └─ _c_90b7d8de-0d6e-4a4f-8a37-b3f6f4f5c5d2-lock-0000000010   watches 8 (9 gave up)
//! ```
//!
//! Why nobody is overtaken: a server that answers a session has seen that session's own create, and with it all smaller numbers. A
//! list that is behind shows nodes that are gone, never misses one that is there. So a stale answer makes wait, not enter.
//!
//! Why nobody waits for ever: a node goes with its session, by its owner, or in the background when its owner was dropped; and the
//! client re-arms watches over lost connections.

use crate::error::{Error, says};
use crate::nodes::{Owned, below, child, name_of, patient};
use ox_client::{Client, CreateMode, ErrorCode, EventKind, Zxid};

/// Which of those ahead a node has to wait for. They come in order.
pub(crate) type Rule = fn(ahead: &[String]) -> Option<&String>;

/// Everybody waits for the one before.
pub(crate) fn one_by_one(ahead: &[String]) -> Option<&String> {
    ahead.last()
}

/// Nodes under one parent that are served in the order of their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) path: String,
    /// What stands before the numbers, all of the same length.
    names: &'static [&'static str],
    /// What the parent is when it has to be made.
    parent: CreateMode,
}

impl Line {
    pub(crate) fn new(client: &Client, path: &str, names: &'static [&'static str]) -> Self {
        Self { client: patient(client), path: path.to_owned(), names, parent: CreateMode::Container }
    }

    /// One whose numbers never begin again, because servers do not remove its parent when it is empty.
    pub(crate) fn lasting(client: &Client, path: &str, names: &'static [&'static str]) -> Self {
        Self { parent: CreateMode::Persistent, ..Self::new(client, path, names) }
    }

    /// Takes the next number.
    pub(crate) async fn join(&self, name: &str, data: &[u8]) -> Result<Seat, Error> {
        self.join_as(name, data, CreateMode::EphemeralSequential).await
    }

    /// Takes the number that the name ends with, if the mode is not sequential.
    pub(crate) async fn join_as(&self, name: &str, data: &[u8], mode: CreateMode) -> Result<Seat, Error> {
        let path = child(&self.path, name);
        let create = || self.client.create_protected(&path, data, mode);
        let created = below(&self.client, &self.path, self.parent, create).await?;
        let node = Owned::new(self.client.clone(), created.path);
        Ok(Seat { line: self.clone(), node, token: created.stat.czxid })
    }

    /// Everybody in line, in order. What is no such node is left out.
    pub(crate) async fn members(&self) -> Result<Vec<String>, Error> {
        let names = self.client.children(&self.path).await;
        if says(&names, ErrorCode::NoNode) {
            return Ok(Vec::new());
        }
        Ok(in_order(names?, |name| self.place(name)))
    }

    /// The number of a node, as it stands in the name.
    pub(crate) fn number<'a>(&self, name: &'a str) -> Option<&'a str> {
        let number = |prefix: &&str| name.rfind(*prefix).map(|at| &name[at + prefix.len()..]);
        let number = self.names.iter().find_map(number)?;
        (10 <= number.len() && number.parse::<i32>().is_ok()).then_some(number)
    }

    fn place(&self, name: &str) -> Option<i32> {
        self.number(name)?.parse().ok()
    }
}

/// Those with a number, in its order. Servers count to 2147483647 and go on with -2147483648: what is less than half of all numbers
/// away comes later.
fn in_order(mut names: Vec<String>, place: impl Fn(&str) -> Option<i32>) -> Vec<String> {
    let Some(middle) = names.iter().find_map(|name| place(name)) else { return Vec::new() };
    names.retain(|name| place(name).is_some());
    names.sort_by_cached_key(|name| (place(name).map(|place| place.wrapping_sub(middle)), name.clone()));
    names
}

/// A node of this session in a [`Line`]. Dropping it leaves the line in the background.
#[derive(Debug)]
pub(crate) struct Seat {
    line: Line,
    node: Owned,
    /// Grows from one node in the line to the next.
    pub(crate) token: Zxid,
}

impl Seat {
    pub(crate) fn path(&self) -> &str {
        self.node.path()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.line.client
    }

    /// Whom to wait for now.
    pub(crate) async fn obstacle(&self, rule: Rule) -> Result<Option<String>, Error> {
        let mut members = self.line.members().await?;
        let own = name_of(self.path());
        let Some(at) = members.iter().position(|name| name == own) else { return Err(self.lost()) };
        members.truncate(at);
        Ok(rule(&members).cloned())
    }

    /// Waits until the rule lets this node go first.
    pub(crate) async fn await_turn(&self, rule: Rule) -> Result<(), Error> {
        while let Some(name) = self.obstacle(rule).await? {
            await_end(&self.line.client, &child(&self.line.path, &name)).await?;
        }
        Ok(())
    }

    /// Leaves the line, and returns when that is certain.
    pub(crate) async fn leave(self) -> Result<(), Error> {
        Ok(self.node.delete().await?)
    }

    pub(crate) fn lost(&self) -> Error {
        Error::Lost { path: self.path().to_owned() }
    }
}

/// Waits until a node is gone, or at least changed.
pub(crate) async fn await_end(client: &Client, path: &str) -> Result<(), Error> {
    let found = client.get_and_watch(path).await;
    if says(&found, ErrorCode::NoNode) {
        return Ok(());
    }
    let (_, watch) = found?;
    if watch.await.kind == EventKind::SessionEnded {
        client.exists(path).await?; // fails with the reason
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_behind_the_last_one() {
        let names = ["lock--2147483648", "lock-2147483647", "lock--000000005", "lock-0000000007", "other", "lock-7"];
        let place = |name: &str| name.strip_prefix("lock-").filter(|number| 10 <= number.len())?.parse().ok();
        let order = |at: &[usize]| in_order(at.iter().map(|at| names[*at].to_owned()).collect(), place);
        assert_eq!(order(&[0, 1, 4]), ["lock-2147483647", "lock--2147483648"]);
        assert_eq!(order(&[1, 0, 5]), ["lock-2147483647", "lock--2147483648"]);
        assert_eq!(order(&[3, 2]), ["lock--000000005", "lock-0000000007"]);
        assert_eq!(order(&[4]), [] as [&str; 0]);
    }
}
