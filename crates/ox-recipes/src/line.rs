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
use crate::nodes::{Owned, child, in_container, name_of, patient};
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
}

impl Line {
    pub(crate) fn new(client: &Client, path: &str, names: &'static [&'static str]) -> Self {
        Self { client: patient(client), path: path.to_owned(), names }
    }

    /// Takes the next number.
    pub(crate) async fn join(&self, name: &str, data: &[u8]) -> Result<Seat, Error> {
        self.join_as(name, data, CreateMode::EphemeralSequential).await
    }

    /// Takes the number that the name ends with, if the mode is not sequential.
    pub(crate) async fn join_as(&self, name: &str, data: &[u8], mode: CreateMode) -> Result<Seat, Error> {
        let path = child(&self.path, name);
        let create = || self.client.create_protected(&path, data, mode);
        let created = in_container(&self.client, &self.path, create).await?;
        let node = Owned::new(self.client.clone(), created.path);
        Ok(Seat { line: self.clone(), node, token: created.stat.czxid })
    }

    /// Everybody in line, in order. What is no such node is left out.
    pub(crate) async fn members(&self) -> Result<Vec<String>, Error> {
        let names = self.client.children(&self.path).await;
        if says(&names, ErrorCode::NoNode) {
            return Ok(Vec::new());
        }
        let mut names = names?;
        names.retain(|name| self.number(name).is_some());
        names.sort_by(|a, b| self.number(a).cmp(&self.number(b)).then_with(|| a.cmp(b)));
        Ok(names)
    }

    /// The number of a node, as text: all are equally long.
    pub(crate) fn number<'a>(&self, name: &'a str) -> Option<&'a str> {
        let number = |prefix: &&str| name.rfind(*prefix).map(|at| &name[at + prefix.len()..]);
        let number = self.names.iter().find_map(number)?;
        let is_number = 10 <= number.len() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(number)
    }
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
