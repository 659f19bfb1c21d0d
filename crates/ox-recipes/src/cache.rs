//! Local copies of a node, of its children, or of a whole subtree, kept up to date by a watch.
//!
//! One task per cache reads each node for which an event is received, and reads everything again when events may be
//! missing. Each node of the copy is a state that the ensemble had, and only moves forward; it may lag behind.
//! Different nodes may be from different moments.
//!
//! A cache ends with the session of its client; [`Cache::changed`] then returns an error.

use crate::error::{LossCause, RecipeError, has_code};
use crate::nodes::{child, with_session_retries};
use ox_client::{AddWatchMode, Client, ErrorCode, Event, EventKind, Node, WatchStream};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Which nodes a [`Cache`] covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Node,
    Children,
    Tree,
}

impl Scope {
    /// Whether the scope of `root` includes `path`.
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

/// The cached nodes by path.
type Nodes = BTreeMap<String, Arc<Node>>;

/// A local copy of nodes that follows their changes, like Curator's `CuratorCache`.
///
/// **Limits.** The copy is held in memory. It uses a persistent recursive watch, which requires servers of version 3.6
/// or later.
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
    copy: Arc<Mutex<Nodes>>,
    changes: watch::Receiver<u64>,
    task: JoinHandle<RecipeError>,
    ended: Option<RecipeError>,
}

impl Cache {
    /// Caches one node, which need not exist.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// let cache = Cache::node(&client, "/app/flag").await?;
    /// println!("{:?}", cache.get("/app/flag"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn node(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::start(client, path, Scope::Node).await
    }

    /// Caches the children of a node without their descendants. The node need not exist.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// let cache = Cache::children(&client, "/workers").await?;
    /// println!("{} workers", cache.nodes().len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn children(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::start(client, path, Scope::Children).await
    }

    /// Caches a node and all its descendants. The node need not exist.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// let cache = Cache::tree(&client, "/app").await?;
    /// println!("{} nodes", cache.nodes().len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn tree(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::start(client, path, Scope::Tree).await
    }

    /// Starts the update task and returns when the first full copy is read.
    async fn start(client: &Client, path: &str, scope: Scope) -> Result<Self, RecipeError> {
        let client = with_session_retries(client);
        let mode = if scope == Scope::Node { AddWatchMode::Persistent } else { AddWatchMode::PersistentRecursive };
        let events = client.watch(path, mode).await?;
        let version = watch::Sender::new(0);
        let copy = Arc::<Mutex<Nodes>>::default();
        let mut follower = Updater { client, root: path.to_owned(), scope, copy: Arc::clone(&copy), version };
        follower.read_all().await?;
        let changes = follower.version.subscribe();
        let task = tokio::spawn(async move { follower.follow(events).await });
        Ok(Self { root: path.to_owned(), copy, changes, task, ended: None })
    }

    /// The root of the cached subtree.
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

    /// Returns the cached node; `None` if it does not exist or is outside of the scope.
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

    /// Returns all cached nodes by path.
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

    /// Waits for changes since the last call. An error means that no further changes follow, usually because the
    /// session has ended.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::cache::Cache;
    /// let mut cache = Cache::tree(&client, "/app").await?;
    /// while cache.get("/app/go").is_none() {
    ///     cache.changed().await?; // an error means that the session has ended
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), RecipeError> {
        if self.changes.changed().await.is_ok() {
            return Ok(());
        }
        let error = match &self.ended {
            Some(error) => error.clone(),
            None => (&mut self.task).await.unwrap_or_else(|_| RecipeError::lost(&self.root, LossCause::SessionEnded)),
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

/// The task that keeps the copy up to date.
struct Updater {
    client: Client,
    root: String,
    scope: Scope,
    copy: Arc<Mutex<Nodes>>,
    version: watch::Sender<u64>,
}

impl Updater {
    async fn follow(&mut self, mut events: WatchStream) -> RecipeError {
        while let Some(event) = events.next().await {
            if let Err(error) = self.on_event(&event).await {
                return error;
            }
        }
        match self.client.exists(&self.root).await {
            Err(error) => error.into(),
            Ok(_) => RecipeError::lost(&self.root, LossCause::WatchRemoved),
        }
    }

    async fn on_event(&mut self, event: &Event) -> Result<(), RecipeError> {
        let kinds = [EventKind::NodeCreated, EventKind::NodeDataChanged, EventKind::NodeDeleted];
        if event.kind == EventKind::Missed {
            self.read_all().await?;
        } else if kinds.contains(&event.kind) && self.scope.covers(&self.root, &event.path) {
            self.read(&event.path).await?;
        } else {
            return Ok(());
        }
        // Notifies even if the copy did not change: a node that was created and deleted between two reads may be what a
        // caller waits for.
        self.version.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Reads one node. The result is never older than the event that triggered the read.
    async fn read(&mut self, path: &str) -> Result<bool, RecipeError> {
        let node = self.client.get(path).await;
        let is_hidden = has_code(&node, ErrorCode::NoAuth) && path != self.root;
        if is_hidden || has_code(&node, ErrorCode::NoNode) {
            self.copy.lock().remove(path);
            return Ok(false);
        }
        self.copy.lock().insert(path.to_owned(), Arc::new(node?));
        Ok(true)
    }

    /// Reads everything in scope and drops deleted nodes.
    async fn read_all(&mut self) -> Result<(), RecipeError> {
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
            if !has_code(&names, ErrorCode::NoNode) {
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
    fn scope_covers_its_nodes_only() {
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
