//! Writes that are repeated until it is certain that they happened.

use crate::error::says;
pub(crate) use ox_client::path::child;
use ox_client::path::parent;
use ox_client::{Client, CreateMode, Error, ErrorCode, RetryPolicy, Version};
use std::time::Duration;
use tokio::runtime::Handle;

/// The first pause between tries; the client doubles it, up to a second.
const PAUSE: Duration = Duration::from_millis(20);

/// The same session, waiting for a connection as long as the session lasts. Whoever wants to wait less drops the future.
pub(crate) fn patient(client: &Client) -> Client {
    client.with_retry(RetryPolicy::Times { retries: u32::MAX, pause: PAUSE })
}

/// The last part of a path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Everything before the last part of a path.
pub(crate) fn parent_of(path: &str) -> &str {
    parent(path).unwrap_or("/")
}

/// A random UUID, as Curator names things.
pub(crate) fn uuid() -> String {
    // The bits that are not random: version and variant.
    let bits = rand::random::<u128>() & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let text = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// Whether a write is to be sent again: its answer was lost, or it was not sent.
fn is_worth_another_try<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(error) if error.is_retriable())
}

/// Makes sure that a container and all above it exist.
pub(crate) async fn ensure_containers(client: &Client, path: &str) -> Result<(), Error> {
    ensure(client, path, CreateMode::Container).await
}

/// Makes sure that a node and all above it exist. Those above it that are missing become containers, as Curator makes them: servers
/// remove them some time after their last child. Servers that do not know containers get persistent nodes.
pub(crate) async fn ensure(client: &Client, path: &str, last: CreateMode) -> Result<(), Error> {
    if path == "/" || client.exists(path).await?.is_some() {
        return Ok(());
    }
    let mut above = CreateMode::Container;
    let mut ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).skip(1).collect();
    ends.push(path.len());
    let mut at = 0;
    while let Some(end) = ends.get(at) {
        let mode = if *end == path.len() && last == CreateMode::Persistent { last } else { above };
        let made = client.create(&path[..*end], b"", mode).await;
        if says(&made, ErrorCode::Unimplemented) && mode == CreateMode::Container {
            above = CreateMode::Persistent;
        } else if says(&made, ErrorCode::NoNode) && 0 < at {
            at = 0; // an empty container above it was removed meanwhile
        } else if says(&made, ErrorCode::NodeExists) {
            at += 1;
        } else if !is_worth_another_try(&made) {
            made?;
            at += 1;
        }
    }
    Ok(())
}

/// Deletes a node for certain. It is no error when it is gone already.
pub(crate) async fn delete(client: &Client, path: &str) -> Result<(), Error> {
    loop {
        let deleted = client.delete(path, Version::Any).await;
        if says(&deleted, ErrorCode::NoNode) {
            return Ok(());
        }
        if !is_worth_another_try(&deleted) {
            return deleted;
        }
    }
}

/// Whether a node has this mark.
async fn is_marked(client: &Client, path: &str, mark: &str) -> Result<bool, Error> {
    let node = client.get(path).await;
    if says(&node, ErrorCode::NoNode) {
        return Ok(false);
    }
    Ok(node?.data == mark.as_bytes())
}

/// An ephemeral node of this session. Dropping it deletes the node in the background.
#[derive(Debug)]
pub(crate) struct Owned {
    client: Client,
    path: String,
    /// Its data, where the name is not unique: tells it from the nodes of others, also of this session.
    mark: Option<String>,
    runtime: Handle,
    is_gone: bool,
}

impl Owned {
    /// A node that is there already, with a name that nobody else uses.
    pub(crate) fn new(client: Client, path: String) -> Self {
        Self { client, path, mark: None, runtime: Handle::current(), is_gone: false }
    }

    /// Makes a node and those above it, unless somebody has it.
    pub(crate) async fn claim(client: &Client, path: String) -> Result<Option<Self>, Error> {
        let mark = uuid();
        let mut node = Self::new(client.clone(), path.clone());
        node.mark = Some(mark.clone());
        loop {
            let create = || client.create(&path, &mark, CreateMode::Ephemeral);
            let made = in_container(client, parent_of(&path), create).await;
            if is_worth_another_try(&made) {
                continue;
            }
            if says(&made, ErrorCode::NodeExists) && !is_marked(client, &path, &mark).await? {
                node.is_gone = true;
                return Ok(None);
            }
            if !says(&made, ErrorCode::NodeExists) {
                made?;
            }
            return Ok(Some(node));
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is still there.
    pub(crate) async fn is_there(&self) -> Result<bool, Error> {
        match &self.mark {
            Some(mark) => is_marked(&self.client, &self.path, mark).await,
            None => Ok(self.client.exists(&self.path).await?.is_some()),
        }
    }

    /// Deletes the node, and returns when that is certain.
    pub(crate) async fn delete(mut self) -> Result<(), Error> {
        // Should this future be dropped, the node is deleted in the background.
        remove(&self.client, &self.path, self.mark.as_deref()).await?;
        self.is_gone = true;
        Ok(())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.is_gone || self.client.state().is_final() {
            return;
        }
        let (client, path, mark) = (self.client.clone(), std::mem::take(&mut self.path), self.mark.take());
        drop(self.runtime.spawn(async move {
            let removed = async {
                client.write_barrier().await?; // the node may be about to be made
                remove(&client, &path, mark.as_deref()).await
            };
            if let Err(error) = removed.await {
                tracing::debug!(%error, path, "a node is left to the end of its session");
            }
        }));
    }
}

/// Deletes a node for certain, if it is the one with the mark.
async fn remove(client: &Client, path: &str, mark: Option<&str>) -> Result<(), Error> {
    let Some(mark) = mark else { return delete(client, path).await };
    while is_marked(client, path, mark).await? {
        let deleted = client.delete(path, Version::Any).await;
        if !is_worth_another_try(&deleted) {
            return if says(&deleted, ErrorCode::NoNode) { Ok(()) } else { deleted };
        }
        client.write_barrier().await?; // it may have happened, and somebody else may have the name now
    }
    Ok(())
}

/// Does something below a container, making the container when it is missing: servers may remove an empty one at any time.
pub(crate) async fn in_container<T, F: Future<Output = Result<T, Error>>>(
    client: &Client,
    container: &str,
    work: impl Fn() -> F,
) -> Result<T, Error> {
    below(client, container, CreateMode::Container, work).await
}

/// Does something below a node, making the node when it is missing.
pub(crate) async fn below<T, F: Future<Output = Result<T, Error>>>(
    client: &Client,
    parent: &str,
    mode: CreateMode,
    work: impl Fn() -> F,
) -> Result<T, Error> {
    loop {
        let done = work().await;
        if !says(&done, ErrorCode::NoNode) {
            return done;
        }
        ensure(client, parent, mode).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_apart_and_together() {
        for (parent, name, path) in [("/", "a", "/a"), ("/a", "b", "/a/b"), ("/a/b", "c", "/a/b/c")] {
            assert_eq!(child(parent, name), path);
            assert_eq!((parent_of(path), name_of(path)), (parent, name));
        }
    }

    #[test]
    fn uuids_look_like_uuids() {
        let uuid = uuid();
        let dashes: Vec<_> = uuid.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!((uuid.len(), dashes), (36, vec![8, 13, 18, 23]));
        assert_eq!(&uuid[14..15], "4");
    }
}
