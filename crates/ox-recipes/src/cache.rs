//! Local copies of nodes that follow their changes: of one node, of a node's children, of a whole tree.
//!
//! A copy is brought up to date by one task, which reads what a watch says has changed, and reads everything again when events
//! may be missing. A copy is always one that the ensemble had, node by node, and only moves on; it may be behind. Copies of
//! different nodes may be from different moments.
//!
//! A cache ends with its client's session; [`Cache::changed`] says so.

use crate::error::{Error, says};
use crate::nodes::{child, patient};
use ox_client::{AddWatchMode, Client, ErrorCode, Event, EventKind, Node, WatchStream};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a [`Cache`] covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Node,
    Children,
    Tree,
}

impl Scope {
    /// Whether a path belongs to the copy of what is at `root`.
    fn covers(self, root: &str, path: &str) -> bool {
        let below = if root == "/" {
            path.strip_prefix('/')
        } else {
            path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'))
        };
        match self {
            Self::Node => path == root,
            Self::Children => below.is_some_and(|name| !name.is_empty() && !name.contains('/')),
            Self::Tree => path == root || below.is_some(),
        }
    }
}

/// The nodes by path.
type Copy = BTreeMap<String, Arc<Node>>;

/// A local copy of nodes that follows their changes.
///
/// **Limits.** The copy is held in memory. It uses one persistent recursive watch, which servers have since 3.6.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::CreateMode;
/// use ox_recipes::cache::Cache;
/// client.ensure_path("/app").await?;
/// let mut cache = Cache::children(&client, "/app").await?;
/// assert!(cache.nodes().is_empty());
/// client.create("/app/a", b"1", CreateMode::Persistent).await?;
/// while cache.get("/app/a").is_none() {
///     cache.changed().await?;
/// }
/// assert_eq!(cache.get("/app/a").unwrap().data, b"1");
/// # Ok(())
/// # }
/// ```
pub struct Cache {
    root: String,
    copy: Arc<Mutex<Copy>>,
    changes: watch::Receiver<u64>,
    task: JoinHandle<Error>,
    ended: Option<Error>,
}

impl Cache {
    /// A copy of one node, which need not exist.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// let cache = Cache::node(&client, "/app/flag").await?;
    /// println!("{:?}", cache.get("/app/flag"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn node(client: &Client, path: &str) -> Result<Self, Error> {
        Self::start(client, path, Scope::Node).await
    }

    /// A copy of a node's children, without those below them. The node need not exist.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// let cache = Cache::children(&client, "/workers").await?;
    /// println!("{} workers", cache.nodes().len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn children(client: &Client, path: &str) -> Result<Self, Error> {
        Self::start(client, path, Scope::Children).await
    }

    /// A copy of a node and everything below it. The node need not exist.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// let cache = Cache::tree(&client, "/app").await?;
    /// println!("{} nodes", cache.nodes().len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn tree(client: &Client, path: &str) -> Result<Self, Error> {
        Self::start(client, path, Scope::Tree).await
    }

    /// Returns with the first full copy.
    async fn start(client: &Client, path: &str, scope: Scope) -> Result<Self, Error> {
        let client = patient(client);
        let mode = if scope == Scope::Node { AddWatchMode::Persistent } else { AddWatchMode::PersistentRecursive };
        let events = client.watch(path, mode).await?;
        let tell = watch::Sender::new(0);
        let copy = Arc::<Mutex<Copy>>::default();
        let mut follower = Follower { client, root: path.to_owned(), scope, copy: Arc::clone(&copy), tell };
        follower.read_all().await?;
        let changes = follower.tell.subscribe();
        let task = tokio::spawn(async move { follower.follow(events).await });
        Ok(Self { root: path.to_owned(), copy, changes, task, ended: None })
    }

    /// Where it begins.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// assert_eq!(Cache::tree(&client, "/app").await?.path(), "/app");
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &str {
        &self.root
    }

    /// The copy of a node; `None` when it is not there or not covered.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// let cache = Cache::tree(&client, "/app").await?;
    /// if let Some(node) = cache.get("/app/a") {
    ///     println!("{:?} in version {}", node.data, node.stat.version);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self, path: &str) -> Option<Arc<Node>> {
        self.copy.lock().get(path).cloned()
    }

    /// All copies, by path.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// for (path, node) in Cache::tree(&client, "/app").await?.nodes() {
    ///     println!("{path}: {} bytes", node.data.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn nodes(&self) -> BTreeMap<String, Arc<Node>> {
        self.copy.lock().clone()
    }

    /// Waits for changes since the last call. The error is why nothing follows, mostly the end of the session.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// let mut cache = Cache::tree(&client, "/app").await?;
    /// while cache.get("/app/go").is_none() {
    ///     cache.changed().await?; // the error says that the session is over
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), Error> {
        if self.changes.changed().await.is_ok() {
            return Ok(());
        }
        let error = match &self.ended {
            Some(error) => error.clone(),
            None => (&mut self.task).await.unwrap_or_else(|_| Error::Lost { path: self.root.clone() }),
        };
        self.ended = Some(error.clone());
        Err(error)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Keeps a copy up to date.
struct Follower {
    client: Client,
    root: String,
    scope: Scope,
    copy: Arc<Mutex<Copy>>,
    tell: watch::Sender<u64>,
}

impl Follower {
    async fn follow(&mut self, mut events: WatchStream) -> Error {
        while let Some(event) = events.next().await {
            if let Err(error) = self.on_event(&event).await {
                return error;
            }
        }
        match self.client.exists(&self.root).await {
            Err(error) => error.into(),
            Ok(_) => Error::Lost { path: self.root.clone() }, // somebody took the watch away
        }
    }

    async fn on_event(&mut self, event: &Event) -> Result<(), Error> {
        let kinds = [EventKind::NodeCreated, EventKind::NodeDataChanged, EventKind::NodeDeleted];
        if event.kind == EventKind::Missed {
            self.read_all().await?;
        } else if kinds.contains(&event.kind) && self.scope.covers(&self.root, &event.path) {
            self.read(&event.path).await?;
        } else {
            return Ok(());
        }
        // Also when the copy is as before: a node that came and went between two looks may be what somebody waits for.
        self.tell.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Reads one node. What is read is never older than the event that asked for it.
    async fn read(&mut self, path: &str) -> Result<bool, Error> {
        let node = self.client.get(path).await;
        let is_hidden = says(&node, ErrorCode::NoAuth) && path != self.root;
        if is_hidden || says(&node, ErrorCode::NoNode) {
            self.copy.lock().remove(path);
            return Ok(false);
        }
        self.copy.lock().insert(path.to_owned(), Arc::new(node?));
        Ok(true)
    }

    /// Reads everything that is covered, and forgets what is gone.
    async fn read_all(&mut self) -> Result<(), Error> {
        let known: Vec<String> = self.copy.lock().keys().cloned().collect();
        for path in known {
            self.read(&path).await?;
        }
        let mut todo = vec![self.root.clone()];
        while let Some(path) = todo.pop() {
            if self.scope.covers(&self.root, &path) && !self.read(&path).await? {
                continue;
            }
            let goes_down = match self.scope {
                Scope::Node => false,
                Scope::Children => path == self.root,
                Scope::Tree => true,
            };
            if !goes_down {
                continue;
            }
            let names = self.client.children(&path).await;
            if !says(&names, ErrorCode::NoNode) {
                todo.extend(names?.iter().map(|name| child(&path, name)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_covers_what_it_says() {
        for (root, path, covered) in [
            ("/a", "/a", [true, false, true]),
            ("/a", "/a/b", [false, true, true]),
            ("/a", "/a/b/c", [false, false, true]),
            ("/a", "/ab", [false, false, false]),
            ("/", "/", [true, false, true]),
            ("/", "/a", [false, true, true]),
        ] {
            let found = [Scope::Node, Scope::Children, Scope::Tree].map(|scope| scope.covers(root, path));
            assert_eq!(found, covered, "{root} {path}");
        }
    }
}
