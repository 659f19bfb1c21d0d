//! Who is inside, as the server sees it, kept by both programs in the same way.
//!
//! ```text
//! /case
//!  ├─ inside
//!  │   └─ w-ours-7       ephemeral: one who is inside, or has just left
//!  └─ count              "17 w-ours-7": how many have been inside, and the last one
//! ```
//!
//! Whoever is inside makes a node and then lists all: of two at the same time, the second sees the first. The count is read, and written
//! with the version that was read; nobody else can have written between, unless the lock has failed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use ox_client::{Client, CreateMode, ErrorCode, Version, Zxid};

use super::case::Case;

/// The book of one case.
pub(super) struct Book {
    root: String,
    client: Client,
    next: AtomicUsize,
    /// The count when one of ours was inside, and the token it had.
    tokens: Mutex<Vec<(usize, Zxid)>>,
}

impl Book {
    pub(super) async fn open(case: &Case<'_>) -> Result<Self> {
        case.node("inside", "").await?;
        case.node("count", "0 nobody").await?;
        let client = case.client.clone();
        Ok(Self { root: case.root.clone(), client, next: AtomicUsize::new(0), tokens: Mutex::default() })
    }

    /// Goes in alone, adds one to the count, and goes out.
    pub(super) async fn alone(&self, client: &Client, token: Zxid) -> Result<()> {
        let name = self.enter(client, "w", |names| names.len() == 1).await?;
        let count = self.count(client, &name).await?;
        self.tokens.lock().expect("nobody panics with it").push((count, token));
        self.leave(client, &name).await
    }

    /// Goes in with others of whom all must be as told, and out.
    pub(super) async fn among(&self, client: &Client, may: impl Fn(&[String]) -> bool) -> Result<()> {
        let name = self.enter(client, "r", may).await?;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        self.leave(client, &name).await
    }

    async fn enter(&self, client: &Client, kind: &str, may: impl Fn(&[String]) -> bool) -> Result<String> {
        let name = format!("{kind}-ours-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let path = format!("{}/inside/{name}", self.root);
        until_certain(async || client.create(&path, b"", CreateMode::Ephemeral).await.map(drop), ErrorCode::NodeExists)
            .await?;
        let names = client.children(&format!("{}/inside", self.root)).await?;
        ensure!(names.contains(&name) && may(&names), "{names:?} at the same time");
        Ok(name)
    }

    async fn leave(&self, client: &Client, name: &str) -> Result<()> {
        let path = format!("{}/inside/{name}", self.root);
        until_certain(async || client.delete(&path, Version::Any).await, ErrorCode::NoNode).await
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
                    bail!("{} instead of {after}", String::from_utf8_lossy(&found));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Checks that so many have been inside, and that tokens grow with the count.
    pub(super) async fn check(&self, expected: usize) -> Result<()> {
        let count = number(&self.client.get(&format!("{}/count", self.root)).await?.data)?;
        ensure!(count == expected, "{count} were counted, not {expected}");
        let mut tokens = self.tokens.lock().expect("nobody panics with it").clone();
        tokens.sort_by_key(|(count, _)| *count);
        ensure!(tokens.is_sorted_by_key(|(_, token)| *token), "tokens do not grow: {tokens:?}");
        Ok(())
    }
}

fn number(data: &[u8]) -> Result<usize> {
    let text = std::str::from_utf8(data)?;
    Ok(text.split(' ').next().context("a number")?.parse()?)
}

/// Does something until it has certainly happened; `done` says that it had before.
async fn until_certain(work: impl AsyncFn() -> Result<(), ox_client::Error>, done: ErrorCode) -> Result<()> {
    loop {
        match work().await {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(done) => return Ok(()),
            Err(error) if error.is_retriable() => (),
            Err(error) => return Err(error.into()),
        }
    }
}
