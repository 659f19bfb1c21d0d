//! An ephemeral node that is maintained (Curator's `PersistentNode`), and group membership on top of it (Curator's
//! `GroupMember`).
//!
//! ```text
//! /group                 a container
//!  ├─ alice  "…"         ephemeral, created again if it is deleted
//!  └─ bob    "…"
//! ```
//!
//! The session is the heartbeat: when the session of a member ends, its node is deleted.

use crate::cache::Cache;
use crate::error::{RecipeError, has_code};
use crate::nodes::{child, name_of, parent_of, with_container, with_session_retries};
use ox_client::{Client, CreateMode, ErrorCode, EventKind, Stat, Version};
use std::collections::BTreeMap;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// An ephemeral node that exists as long as this value and the session: it is created again if it is deleted, and it
/// replaces a node that an earlier session of this program left behind.
///
/// **Limits.** A name belongs to one program. A program that starts replaces the node of any other session, whose
/// [`PersistentNode::ended`] then returns.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{EventKind, Version};
/// use ox_recipes::presence::PersistentNode;
/// let here = PersistentNode::start(&client, "/hosts/alpha", "10.0.0.1").await?;
/// client.delete("/hosts/alpha", Version::Any).await?;
/// let (stat, changed) = client.exists_and_watch("/hosts/alpha").await?;
/// if stat.is_none() {
///     assert_eq!(changed.await.kind, EventKind::NodeCreated);
/// }
/// here.stop().await?;
/// assert!(client.exists("/hosts/alpha").await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it deletes the node"]
pub struct PersistentNode {
    client: Client,
    path: String,
    data: watch::Sender<Vec<u8>>,
    task: Option<JoinHandle<RecipeError>>,
    ended: Option<RecipeError>,
    runtime: Handle,
    is_deleted: bool,
}

impl PersistentNode {
    /// Creates the node and starts maintaining it.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::PersistentNode;
    /// let here = PersistentNode::start(&client, "/hosts/alpha", "up").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(client: &Client, path: &str, data: impl AsRef<[u8]>) -> Result<Self, RecipeError> {
        let client = with_session_retries(client);
        let (data, updates) = watch::channel(data.as_ref().to_vec());
        let (task, ended) = (None, None);
        let (path_text, runtime) = (path.to_owned(), Handle::current());
        // If this future is dropped, the node is deleted in the background.
        let mut node = Self { client, path: path_text, data, task, ended, runtime, is_deleted: false };
        let first = node.data.borrow().clone();
        create_own(&node.client, path, &first, OtherSession::Replace).await?;
        node.task = Some(tokio::spawn(maintain(node.client.clone(), path.to_owned(), updates)));
        Ok(node)
    }

    /// The path of the node.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::PersistentNode;
    /// let here = PersistentNode::start(&client, "/hosts/alpha", "up").await?;
    /// assert_eq!(here.path(), "/hosts/alpha");
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Changes the data of the node asynchronously.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::PersistentNode;
    /// let here = PersistentNode::start(&client, "/hosts/alpha", "up").await?;
    /// here.set("busy");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(&self, data: impl AsRef<[u8]>) {
        self.data.send_replace(data.as_ref().to_vec());
    }

    /// Waits until the node can no longer be maintained, and returns the reason, usually the end of the session.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::PersistentNode;
    /// let mut here = PersistentNode::start(&client, "/hosts/alpha", "up").await?;
    /// println!("ended: {}", here.ended().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ended(&mut self) -> RecipeError {
        if let Some(task) = &mut self.task {
            self.ended = task.await.ok();
            self.task = None;
        }
        self.ended.clone().unwrap_or_else(|| RecipeError::node_deleted(&self.path))
    }

    /// Deletes the node and returns when that is confirmed.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::PersistentNode;
    /// let here = PersistentNode::start(&client, "/hosts/alpha", "up").await?;
    /// here.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn stop(mut self) -> Result<(), RecipeError> {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await; // no create follows
        }
        delete_own(&self.client, &self.path).await?;
        self.is_deleted = true;
        Ok(())
    }
}

impl Drop for PersistentNode {
    fn drop(&mut self) {
        let task = self.task.take();
        if let Some(task) = &task {
            task.abort();
        }
        if self.is_deleted || self.client.state().is_final() {
            return;
        }
        let (client, path) = (self.client.clone(), self.path.clone());
        drop(self.runtime.spawn(async move {
            if let Some(task) = task {
                let _ = task.await; // no create follows
            }
            if let Err(error) = delete_own(&client, &path).await {
                tracing::debug!(%error, path, "a node is left to the end of its session");
            }
        }));
    }
}

fn is_own(client: &Client, stat: &Stat) -> bool {
    client.session().is_some_and(|own| own.id.0 == stat.ephemeral_owner)
}

/// Deletes the node if it belongs to this session, retrying until that is confirmed.
async fn delete_own(client: &Client, path: &str) -> Result<(), ox_client::Error> {
    loop {
        client.write_barrier().await?; // a create may be in flight, or another session may own the node by now
        let stat = client.exists(path).await?;
        if !stat.is_some_and(|stat| is_own(client, &stat)) {
            return Ok(());
        }
        match client.delete(path, Version::Any).await {
            Err(error) if error.is_retriable() => (),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
            deleted => return deleted,
        }
    }
}

/// What to do with a node of another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherSession {
    Replace,
    /// Two programs that replace each other's nodes would never stop.
    Keep,
}

/// Creates or updates the node until it belongs to this session and has the data.
async fn create_own(client: &Client, path: &str, data: &[u8], other_session: OtherSession) -> Result<(), RecipeError> {
    let create = || client.create(path, data, CreateMode::Ephemeral);
    loop {
        match with_container(client, parent_of(path), create).await {
            Err(error) if error.is_retriable() => continue,
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => (),
            made => return Ok(made.map(drop)?),
        }
        let Some(stat) = client.exists(path).await? else { continue };
        let written = if is_own(client, &stat) {
            client.set(path, data, Version::Any).await.map(drop)
        } else if other_session == OtherSession::Replace {
            // In one transaction, so that its owner cannot create it again in between.
            let mut multi = client.multi();
            multi.delete(path, Version::Any);
            multi.create(path, data, CreateMode::Ephemeral);
            multi.commit().await.map(drop)
        } else {
            return Err(RecipeError::node_deleted(path));
        };
        match written {
            Err(error) if error.is_retriable() || error.code() == Some(ErrorCode::NoNode) => (),
            written => return Ok(written?),
        }
    }
}

/// Creates the node again whenever it is deleted, and updates its data on request.
async fn maintain(client: Client, path: String, mut updates: watch::Receiver<Vec<u8>>) -> RecipeError {
    loop {
        let (stat, changed) = match client.exists_and_watch(&path).await {
            Ok(found) => found,
            Err(error) => return error.into(),
        };
        if stat.is_some_and(|stat| is_own(&client, &stat)) {
            let must_write = tokio::select! {
                event = changed => event.kind == EventKind::NodeDeleted,
                news = updates.changed() => news.is_ok(),
            };
            if !must_write {
                if updates.has_changed().is_err() {
                    return RecipeError::node_deleted(&path); // the owner was dropped
                }
                continue;
            }
        }
        let data = updates.borrow_and_update().clone();
        if let Err(error) = create_own(&client, &path, &data, OtherSession::Keep).await {
            return error;
        }
    }
}

/// A member of a group, with a view of the other members.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::presence::GroupMember;
/// let mut alice = GroupMember::join(&client, "/group", "alice", "10.0.0.1").await?;
/// let bob = GroupMember::join(&client, "/group", "bob", "10.0.0.2").await?;
/// while alice.members().len() < 2 {
///     alice.changed().await?;
/// }
/// assert_eq!(alice.members()["bob"], b"10.0.0.2");
/// bob.leave().await?;
/// while alice.members().contains_key("bob") {
///     alice.changed().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it leaves the group"]
pub struct GroupMember {
    node: PersistentNode,
    group: Cache,
}

impl GroupMember {
    /// Joins a group under a unique name.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::GroupMember;
    /// let member = GroupMember::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn join(client: &Client, path: &str, name: &str, data: impl AsRef<[u8]>) -> Result<Self, RecipeError> {
        let node = PersistentNode::start(client, &child(path, name), data).await?;
        Ok(Self { node, group: Cache::children(client, path).await? })
    }

    /// Returns the known members and their data, by name.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::GroupMember;
    /// let member = GroupMember::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// println!("{:?}", member.members().keys());
    /// # Ok(())
    /// # }
    /// ```
    pub fn members(&self) -> BTreeMap<String, Vec<u8>> {
        self.group.nodes().iter().map(|(path, node)| (name_of(path).to_owned(), node.data.clone())).collect()
    }

    /// Waits until members join, leave or change. An error means that no further changes follow, usually because the
    /// session has ended.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::GroupMember;
    /// let mut member = GroupMember::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// while member.members().len() < 3 {
    ///     member.changed().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), RecipeError> {
        self.group.changed().await
    }

    /// Changes the data of this member asynchronously.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::GroupMember;
    /// let member = GroupMember::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// member.set("10.0.0.9");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(&self, data: impl AsRef<[u8]>) {
        self.node.set(data);
    }

    /// Leaves the group and returns when that is confirmed.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::GroupMember;
    /// let member = GroupMember::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// member.leave().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.node.stop().await
    }
}

/// Lists the members of a group without joining it.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// println!("{:?}", ox_recipes::presence::members(&client, "/group").await?);
/// # Ok(())
/// # }
/// ```
pub async fn members(client: &Client, path: &str) -> Result<Vec<String>, RecipeError> {
    let names = with_session_retries(client).children(path).await;
    if has_code(&names, ErrorCode::NoNode) {
        return Ok(Vec::new());
    }
    let mut names = names?;
    names.sort();
    Ok(names)
}
