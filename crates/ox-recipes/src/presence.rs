//! An ephemeral node that is kept: Curator's `PersistentNode`, and its `GroupMember` on top of it.
//!
//! ```text
//! /group                 a container
//!  ├─ alice  "…"         ephemeral, made again when somebody deletes it
//!  └─ bob    "…"
//! ```
//!
//! The heartbeat is the session's: when a member's session ends, its node goes.

use crate::cache::Cache;
use crate::error::{Error, says};
use crate::nodes::{child, in_container, name_of, parent_of, patient};
use ox_client::{Client, CreateMode, ErrorCode, EventKind, Stat, Version};
use std::collections::BTreeMap;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// An ephemeral node that is there as long as this value and the session: when somebody deletes it, it is made again, and a node that
/// an earlier session of this program left behind is taken over.
///
/// **Limits.** Names are for one program each. Who starts takes the node from whoever has it, and that one's
/// [`Presence::ended`] says that it is lost.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{EventKind, Version};
/// use ox_recipes::presence::Presence;
/// let here = Presence::start(&client, "/hosts/alpha", "10.0.0.1").await?;
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
#[must_use = "the node goes when this is dropped"]
pub struct Presence {
    client: Client,
    path: String,
    data: watch::Sender<Vec<u8>>,
    task: Option<JoinHandle<Error>>,
    ended: Option<Error>,
    runtime: Handle,
    is_gone: bool,
}

impl Presence {
    /// Makes the node, and keeps it.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Presence;
    /// let here = Presence::start(&client, "/hosts/alpha", "up").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(client: &Client, path: &str, data: impl AsRef<[u8]>) -> Result<Self, Error> {
        let client = patient(client);
        let (data, wanted) = watch::channel(data.as_ref().to_vec());
        let (task, ended) = (None, None);
        let (path_text, runtime) = (path.to_owned(), Handle::current());
        // Should this future be dropped on the way, the node is deleted in the background.
        let mut presence = Self { client, path: path_text, data, task, ended, runtime, is_gone: false };
        let first = presence.data.borrow().clone();
        make(&presence.client, path, &first, Foreign::IsReplaced).await?;
        presence.task = Some(tokio::spawn(keep(presence.client.clone(), path.to_owned(), wanted)));
        Ok(presence)
    }

    /// The node.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Presence;
    /// let here = Presence::start(&client, "/hosts/alpha", "up").await?;
    /// assert_eq!(here.path(), "/hosts/alpha");
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Changes its data, soon.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Presence;
    /// let here = Presence::start(&client, "/hosts/alpha", "up").await?;
    /// here.set("busy");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(&self, data: impl AsRef<[u8]>) {
        self.data.send_replace(data.as_ref().to_vec());
    }

    /// Waits until the node cannot be kept any more; the error is why, mostly the end of the session.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Presence;
    /// let mut here = Presence::start(&client, "/hosts/alpha", "up").await?;
    /// println!("gone: {}", here.ended().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ended(&mut self) -> Error {
        if let Some(task) = &mut self.task {
            self.ended = task.await.ok();
            self.task = None;
        }
        self.ended.clone().unwrap_or_else(|| Error::Lost { path: self.path.clone() })
    }

    /// Removes the node, and returns when that is certain.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Presence;
    /// let here = Presence::start(&client, "/hosts/alpha", "up").await?;
    /// here.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn stop(mut self) -> Result<(), Error> {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await; // nothing is made behind this
        }
        unmake(&self.client, &self.path).await?;
        self.is_gone = true;
        Ok(())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let task = self.task.take();
        if let Some(task) = &task {
            task.abort();
        }
        if self.is_gone || self.client.state().is_final() {
            return;
        }
        let (client, path) = (self.client.clone(), self.path.clone());
        drop(self.runtime.spawn(async move {
            if let Some(task) = task {
                let _ = task.await; // nothing is made behind this
            }
            if let Err(error) = unmake(&client, &path).await {
                tracing::debug!(%error, path, "a node is left to the end of its session");
            }
        }));
    }
}

fn is_own(client: &Client, stat: &Stat) -> bool {
    client.session().is_some_and(|own| own.id.0 == stat.ephemeral_owner)
}

/// Deletes the node for certain, if it belongs to this session.
async fn unmake(client: &Client, path: &str) -> Result<(), ox_client::Error> {
    loop {
        client.write_barrier().await?; // it may be about to be made, or gone and another's already
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

/// What to do about a node of another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreign {
    IsReplaced,
    /// Two who replace each other's nodes would never end.
    IsLeft,
}

/// Makes the node until it belongs to this session and has the data.
async fn make(client: &Client, path: &str, data: &[u8], foreign: Foreign) -> Result<(), Error> {
    let create = || client.create(path, data, CreateMode::Ephemeral);
    loop {
        match in_container(client, parent_of(path), create).await {
            Err(error) if error.is_retriable() => continue,
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => (),
            made => return Ok(made.map(drop)?),
        }
        let Some(stat) = client.exists(path).await? else { continue };
        let written = if is_own(client, &stat) {
            client.set(path, data, Version::Any).await.map(drop)
        } else if foreign == Foreign::IsReplaced {
            // At once, so that its owner has no time to make it again.
            let mut multi = client.multi();
            multi.delete(path, Version::Any);
            multi.create(path, data, CreateMode::Ephemeral);
            multi.commit().await.map(drop)
        } else {
            return Err(Error::Lost { path: path.to_owned() });
        };
        match written {
            Err(error) if error.is_retriable() || error.code() == Some(ErrorCode::NoNode) => (),
            written => return Ok(written?),
        }
    }
}

/// Makes the node again whenever it is gone, and changes its data when that is wanted.
async fn keep(client: Client, path: String, mut wanted: watch::Receiver<Vec<u8>>) -> Error {
    loop {
        let (stat, changed) = match client.exists_and_watch(&path).await {
            Ok(found) => found,
            Err(error) => return error.into(),
        };
        if stat.is_some_and(|stat| is_own(&client, &stat)) {
            let is_wanted = tokio::select! {
                event = changed => event.kind == EventKind::NodeDeleted,
                news = wanted.changed() => news.is_ok(),
            };
            if !is_wanted {
                if wanted.has_changed().is_err() {
                    return Error::Lost { path }; // nobody wants it any more
                }
                continue;
            }
        }
        let data = wanted.borrow_and_update().clone();
        if let Err(error) = make(&client, &path, &data, Foreign::IsLeft).await {
            return error;
        }
    }
}

/// A member of a group, and a look at the others.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::presence::Member;
/// let mut alice = Member::join(&client, "/group", "alice", "10.0.0.1").await?;
/// let bob = Member::join(&client, "/group", "bob", "10.0.0.2").await?;
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
#[must_use = "who drops it leaves the group"]
pub struct Member {
    presence: Presence,
    group: Cache,
}

impl Member {
    /// Joins a group under a name.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Member;
    /// let member = Member::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn join(client: &Client, path: &str, name: &str, data: impl AsRef<[u8]>) -> Result<Self, Error> {
        let presence = Presence::start(client, &child(path, name), data).await?;
        Ok(Self { presence, group: Cache::children(client, path).await? })
    }

    /// The members that this client knows of, by name.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Member;
    /// let member = Member::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// println!("{:?}", member.members().keys());
    /// # Ok(())
    /// # }
    /// ```
    pub fn members(&self) -> BTreeMap<String, Vec<u8>> {
        self.group.nodes().iter().map(|(path, node)| (name_of(path).to_owned(), node.data.clone())).collect()
    }

    /// Waits for members that come, go or change. The error is why nothing follows, mostly the end of the session.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Member;
    /// let mut member = Member::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// while member.members().len() < 3 {
    ///     member.changed().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), Error> {
        self.group.changed().await
    }

    /// Changes what others see of this member, soon.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Member;
    /// let member = Member::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// member.set("10.0.0.9");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(&self, data: impl AsRef<[u8]>) {
        self.presence.set(data);
    }

    /// Leaves the group, and returns when that is certain.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::presence::Member;
    /// let member = Member::join(&client, "/group", "alice", "10.0.0.1").await?;
    /// member.leave().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(self) -> Result<(), Error> {
        self.presence.stop().await
    }
}

/// The names of those who are in a group now, without joining it.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// println!("{:?}", ox_recipes::presence::members(&client, "/group").await?);
/// # Ok(())
/// # }
/// ```
pub async fn members(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    let names = patient(client).children(path).await;
    if says(&names, ErrorCode::NoNode) {
        return Ok(Vec::new());
    }
    let mut names = names?;
    names.sort();
    Ok(names)
}
