//! The critical section that a lock protects, as nodes that our clients and Curator's write in the same way.
//!
//! ```text
//! /case
//!  ├─ inside
//!  │   └─ w-ours-7       ephemeral: a client in the section
//!  └─ count              "17 w-ours-7": the number of entries so far, and the last client
//! ```
//!
//! A client that enters creates its node and then lists all of them: of two clients inside, the second sees the first.
//! Then it increments the count with the version that it has read, which fails only if another client is inside.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use ox_client::{Client, CreateMode, ErrorCode, Version, Zxid};

use super::case::Case;

pub(super) struct CriticalSection {
    root: String,
    client: Client,
    next_id: AtomicUsize,
    /// Count and fencing token of each exclusive entry of our clients.
    tokens: Mutex<Vec<(usize, Zxid)>>,
}

impl CriticalSection {
    pub(super) async fn open(case: &Case<'_>) -> Result<Self> {
        case.node("inside", "").await?;
        case.node("count", "0 none").await?;
        let client = case.client.clone();
        Ok(Self { root: case.root.clone(), client, next_id: AtomicUsize::new(0), tokens: Mutex::default() })
    }

    /// Enters, checks that no other client is inside, increments the count and leaves.
    pub(super) async fn enter_exclusively(&self, client: &Client, token: Zxid) -> Result<()> {
        let name = self.enter(client, "w", |names| names.len() == 1).await?;
        let count = self.count(client, &name).await?;
        self.tokens.lock().expect("no panic under the lock").push((count, token));
        self.leave(client, &name).await
    }

    /// Enters together with others and leaves. `is_allowed` checks the names of all clients inside.
    pub(super) async fn enter_shared(&self, client: &Client, is_allowed: impl Fn(&[String]) -> bool) -> Result<()> {
        let name = self.enter(client, "r", is_allowed).await?;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        self.leave(client, &name).await
    }

    async fn enter(&self, client: &Client, kind: &str, is_allowed: impl Fn(&[String]) -> bool) -> Result<String> {
        let name = format!("{kind}-ours-{}", self.next_id.fetch_add(1, Ordering::Relaxed));
        let path = format!("{}/inside/{name}", self.root);
        retry(async || client.create(&path, b"", CreateMode::Ephemeral).await.map(drop), ErrorCode::NodeExists).await?;
        let names = client.children(&format!("{}/inside", self.root)).await?;
        ensure!(names.contains(&name) && is_allowed(&names), "{names:?} are in the critical section");
        Ok(name)
    }

    async fn leave(&self, client: &Client, name: &str) -> Result<()> {
        let path = format!("{}/inside/{name}", self.root);
        retry(async || client.delete(&path, Version::Any).await, ErrorCode::NoNode).await
    }

    async fn count(&self, client: &Client, name: &str) -> Result<usize> {
        let path = format!("{}/count", self.root);
        let before = client.get(&path).await?;
        let count = number(&before.data)? + 1;
        let after = format!("{count} {name}");
        loop {
            match client.set(&path, &after, before.stat.version).await {
                Ok(_) => return Ok(count),
                Err(error) if error.is_retriable() => (),
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => {
                    let found = client.get(&path).await?.data;
                    if found == after.as_bytes() {
                        return Ok(count);
                    }
                    bail!("the count is {} instead of {after}", String::from_utf8_lossy(&found));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Checks the number of exclusive entries, and that later entries have larger tokens.
    pub(super) async fn check(&self, expected: usize) -> Result<()> {
        let count = number(&self.client.get(&format!("{}/count", self.root)).await?.data)?;
        ensure!(count == expected, "the count is {count} instead of {expected}");
        let mut tokens = self.tokens.lock().expect("no panic under the lock").clone();
        tokens.sort_by_key(|(count, _)| *count);
        ensure!(tokens.is_sorted_by_key(|(_, token)| *token), "tokens do not increase: {tokens:?}");
        Ok(())
    }
}

fn number(data: &[u8]) -> Result<usize> {
    let text = std::str::from_utf8(data)?;
    Ok(text.split(' ').next().context("the count is empty")?.parse()?)
}

/// Repeats an operation after lost connections. The error `done` means that an earlier attempt has succeeded.
async fn retry(operation: impl AsyncFn() -> Result<(), ox_client::Error>, done: ErrorCode) -> Result<()> {
    loop {
        match operation().await {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(done) => return Ok(()),
            Err(error) if error.is_retriable() => (),
            Err(error) => return Err(error.into()),
        }
    }
}
