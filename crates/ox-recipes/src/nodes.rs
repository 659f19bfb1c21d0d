//! Creates and deletes that are retried until their outcome is certain.

use crate::error::has_code;
pub(crate) use ox_client::path::child;
use ox_client::path::{parent, validate};
use ox_client::{Client, CreateMode, Error, ErrorCode, RetryPolicy, Version};
use std::time::Duration;
use tokio::runtime::Handle;

/// Initial pause between retries; the client doubles it, up to a second.
const PAUSE: Duration = Duration::from_millis(20);

/// A client of the same session that retries as long as the session lasts. Callers that want to wait less drop the
/// future.
pub(crate) fn with_session_retries(client: &Client) -> Client {
    client.with_retry(RetryPolicy::Times { retries: u32::MAX, pause: PAUSE })
}

/// The last component of a path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The path without its last component.
pub(crate) fn parent_of(path: &str) -> &str {
    parent(path).unwrap_or("/")
}

/// A random UUID in the format that Curator uses.
pub(crate) fn uuid() -> String {
    // A version 4 UUID has fixed version and variant bits.
    let bits = rand::random::<u128>() & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let text = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// Whether a write must be retried: its reply was lost, or it was not sent.
fn needs_retry<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(error) if error.is_retriable())
}

/// Ensures that a container and all its ancestors exist.
pub(crate) async fn ensure_containers(client: &Client, path: &str) -> Result<(), Error> {
    ensure(client, path, CreateMode::Container).await
}

/// Ensures that a node and all its ancestors exist. Missing ancestors become containers, as in Curator: servers delete
/// them some time after their last child. Servers without container support get persistent nodes.
pub(crate) async fn ensure(client: &Client, path: &str, last: CreateMode) -> Result<(), Error> {
    if client.exists(path).await?.is_some() {
        return Ok(());
    }
    if path == "/" {
        return client.get(path).await.map(drop); // a chroot that does not exist: the error names it
    }
    let mut above = CreateMode::Container;
    let mut ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).skip(1).collect();
    ends.push(path.len());
    let mut at = 0;
    while let Some(end) = ends.get(at) {
        let mode = if *end == path.len() && last == CreateMode::Persistent { last } else { above };
        let made = client.create(&path[..*end], b"", mode).await;
        if has_code(&made, ErrorCode::Unimplemented) && mode == CreateMode::Container {
            above = CreateMode::Persistent;
        } else if has_code(&made, ErrorCode::NoNode) && 0 < at {
            at = 0; // an empty ancestor was deleted in the meantime
        } else if has_code(&made, ErrorCode::NodeExists) {
            at += 1;
        } else if !needs_retry(&made) {
            made?;
            at += 1;
        }
    }
    Ok(())
}

/// Deletes a node, retrying until that is confirmed. A missing node is not an error.
pub(crate) async fn delete(client: &Client, path: &str) -> Result<(), Error> {
    loop {
        let deleted = client.delete(path, Version::Any).await;
        if has_code(&deleted, ErrorCode::NoNode) {
            return Ok(());
        }
        if !needs_retry(&deleted) {
            return deleted;
        }
    }
}

/// Whether the data of a node is this tag.
async fn has_tag(client: &Client, path: &str, tag: &str) -> Result<bool, Error> {
    let node = client.get(path).await;
    if has_code(&node, ErrorCode::NoNode) {
        return Ok(false);
    }
    Ok(node?.data == tag.as_bytes())
}

/// An ephemeral node of this session. Dropping it deletes the node in the background.
#[derive(Debug)]
pub(crate) struct OwnedNode {
    client: Client,
    path: String,
    /// The unique data of a node whose name is not unique: distinguishes it from nodes of other owners, also within
    /// this session.
    tag: Option<String>,
    runtime: Handle,
    is_deleted: bool,
}

impl OwnedNode {
    /// Wraps an existing node with a unique name.
    pub(crate) fn new(client: Client, path: String) -> Self {
        Self { client, path, tag: None, runtime: Handle::current(), is_deleted: false }
    }

    /// Creates a node and its missing ancestors. Returns `None` if another owner has it.
    pub(crate) async fn claim(client: &Client, path: String) -> Result<Option<Self>, Error> {
        let tag = uuid();
        let mut node = Self::new(client.clone(), path.clone());
        node.tag = Some(tag.clone());
        loop {
            let create = || client.create(&path, &tag, CreateMode::Ephemeral);
            let made = with_container(client, parent_of(&path), create).await;
            if needs_retry(&made) {
                continue;
            }
            if has_code(&made, ErrorCode::NodeExists) && !has_tag(client, &path, &tag).await? {
                node.is_deleted = true;
                return Ok(None);
            }
            if !has_code(&made, ErrorCode::NodeExists) {
                made?;
            }
            return Ok(Some(node));
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether the node still exists.
    pub(crate) async fn exists(&self) -> Result<bool, Error> {
        match &self.tag {
            Some(tag) => has_tag(&self.client, &self.path, tag).await,
            None => Ok(self.client.exists(&self.path).await?.is_some()),
        }
    }

    /// Deletes the node and returns when that is confirmed.
    pub(crate) async fn delete(mut self) -> Result<(), Error> {
        // If this future is dropped, the node is deleted in the background.
        remove(&self.client, &self.path, self.tag.as_deref()).await?;
        self.is_deleted = true;
        Ok(())
    }
}

impl Drop for OwnedNode {
    fn drop(&mut self) {
        if self.is_deleted || self.client.state().is_final() {
            return;
        }
        let (client, path, tag) = (self.client.clone(), std::mem::take(&mut self.path), self.tag.take());
        drop(self.runtime.spawn(async move {
            let removed = async {
                client.write_barrier().await?; // the create may still be in flight
                remove(&client, &path, tag.as_deref()).await
            };
            if let Err(error) = removed.await {
                tracing::debug!(%error, path, "cannot delete the node; it is deleted when its session ends");
            }
        }));
    }
}

/// Deletes a node if it has the tag, retrying until that is confirmed.
async fn remove(client: &Client, path: &str, tag: Option<&str>) -> Result<(), Error> {
    let Some(tag) = tag else { return delete(client, path).await };
    while has_tag(client, path, tag).await? {
        let deleted = client.delete(path, Version::Any).await;
        if !needs_retry(&deleted) {
            return if has_code(&deleted, ErrorCode::NoNode) { Ok(()) } else { deleted };
        }
        client.write_barrier().await?; // it may be deleted, and another owner may have created it again
    }
    Ok(())
}

/// Runs `work` below a container, which is created if it is missing: servers may delete an empty container at any time.
pub(crate) async fn with_container<T, F: Future<Output = Result<T, Error>>>(
    client: &Client,
    container: &str,
    work: impl Fn() -> F,
) -> Result<T, Error> {
    with_parent(client, container, CreateMode::Container, work).await
}

/// Runs `work` below a node, which is created if it is missing.
pub(crate) async fn with_parent<T, F: Future<Output = Result<T, Error>>>(
    client: &Client,
    parent: &str,
    mode: CreateMode,
    work: impl Fn() -> F,
) -> Result<T, Error> {
    if validate(parent).is_err() {
        client.create(parent, b"", mode).await?; // fails without a request, and names the path of the application
    }
    loop {
        let done = work().await;
        // The root exists, or it is a chroot that does not exist and that a recipe does not create.
        if !has_code(&done, ErrorCode::NoNode) || parent == "/" {
            return done;
        }
        ensure(client, parent, mode).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_splits_into_parent_and_name() {
        for (parent, name, path) in [("/", "a", "/a"), ("/a", "b", "/a/b"), ("/a/b", "c", "/a/b/c")] {
            assert_eq!(child(parent, name), path);
            assert_eq!((parent_of(path), name_of(path)), (parent, name));
        }
    }

    #[test]
    fn uuid_has_version_and_variant() {
        let uuid = uuid();
        let dashes: Vec<_> = uuid.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!((uuid.len(), dashes), (36, vec![8, 13, 18, 23]));
        assert_eq!(&uuid[14..15], "4");
    }
}
