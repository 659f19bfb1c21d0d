//! A blocking client for programs without an async runtime. A background thread drives the session.
//!
//! ```
//! # let server = ox_server::Server::ephemeral()?;
//! # let servers = server.address().to_string();
//! use ox_client::{BlockingClient, CreateMode, EventKind};
//! let client = BlockingClient::connect(&servers)?;
//! client.create("/a", b"1", CreateMode::Persistent)?;
//! let (node, watch) = client.get_and_watch("/a")?;
//! assert_eq!(node.data, b"1");
//! client.set("/a", b"2", None)?;
//! assert_eq!(watch.wait().kind, EventKind::NodeDataChanged);
//! client.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::acl::Acl;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::state::{SessionState, SessionTicket};
use crate::types::{AuthInfo, CreateOptions, Created, MembershipChange, Node, NodeData, Version};
use crate::watch::{AddWatchMode, WatcherType};
use crate::{Builder, Multi, MultiRead, MultiResults, ReadResults};
use ox_proto::{Stat, Zxid};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;

/// A session with an ensemble, like [`crate::Client`]. Every method blocks until the reply is received; clones can be
/// used from several threads concurrently.
///
/// Methods panic when called from within an async runtime, because they would block it.
///
/// ```
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::BlockingClient::connect(&server.address().to_string())?;
/// use ox_client::CreateMode;
/// client.create("/n", b"", CreateMode::Persistent)?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| client.set("/n", b"x", None).unwrap());
///     }
/// });
/// assert_eq!(client.get("/n")?.stat.version, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockingClient {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

/// The background thread that all clones of a client share.
#[derive(Debug)]
struct Runtime {
    handle: Handle,
    /// Dropped with the last clone; the thread then ends as soon as the session has ended.
    _alive: oneshot::Sender<()>,
}

/// Sends the client's states to the thread that drives the runtime.
type StatesSender = oneshot::Sender<crate::SessionStates>;

impl Runtime {
    fn start() -> std::io::Result<(Self, StatesSender)> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (alive, gone) = oneshot::channel();
        let (states_sender, states) = oneshot::channel::<crate::SessionStates>();
        std::thread::Builder::new().name("ox-client".to_owned()).spawn(move || {
            runtime.block_on(async {
                let _ = gone.await; // an error means the same: the last clone is dropped
                if let Ok(mut states) = states.await {
                    while states.next().await.is_some() {}
                }
            });
        })?;
        Ok((Self { handle, _alive: alive }, states_sender))
    }
}

impl Builder {
    /// Connects and blocks until the session is established; for programs without an async runtime.
    ///
    /// ```
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let servers = server.address().to_string();
    /// let client = ox_client::Client::builder().servers(&servers)?.connect_blocking()?;
    /// assert!(client.exists("/")?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect_blocking(self) -> Result<BlockingClient, Error> {
        let no_thread = |_| Error::connect(ErrorKind::InvalidArgument("the background thread cannot be started"));
        let (runtime, states_sender) = Runtime::start().map_err(no_thread)?;
        let client = runtime.handle.block_on(self.connect())?;
        drop(states_sender.send(client.states())); // the thread lives as long as the runtime
        Ok(BlockingClient { client, runtime: Arc::new(runtime) })
    }
}

impl BlockingClient {
    /// Connects with default settings; see [`crate::Client::connect`].
    ///
    /// ```
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let servers = server.address().to_string();
    /// let client = ox_client::BlockingClient::connect(&servers)?; // for example "zk1:2181,zk2:2181/app"
    /// client.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect(servers: &str) -> Result<Self, Error> {
        crate::Client::builder().servers(servers)?.connect_blocking()
    }

    /// The async client of the same session, for everything that this type does not wrap.
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// client.as_async().update_servers("zk1:2181,zk2:2181")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_async(&self) -> &crate::Client {
        &self.client
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.handle.block_on(work)
    }

    /// Commits a transaction; see [`crate::Client::multi`].
    ///
    /// ```
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::BlockingClient::connect(&server.address().to_string())?;
    /// use ox_client::CreateMode;
    /// let mut multi = client.as_async().multi();
    /// let slot = multi.create("/a", b"", CreateMode::Persistent);
    /// assert_eq!(client.commit(multi)?.get(slot).path, "/a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit(&self, multi: Multi) -> Result<MultiResults, Error> {
        self.wait(multi.commit())
    }

    /// Executes a list of reads; see [`crate::Client::multi_read`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// let mut reads = client.as_async().multi_read();
    /// let (node, names) = (reads.get("/a"), reads.children("/a"));
    /// let results = client.read_all(reads)?;
    /// println!("{:?} {:?}", results.get(node)?, results.get(names)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_all(&self, reads: MultiRead) -> Result<ReadResults, Error> {
        self.wait(reads.send())
    }

    /// Reads a node and leaves a watch; see [`crate::Client::get_and_watch`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// let (node, watch) = client.get_and_watch("/a")?;
    /// println!("{:?}, then {:?}", node.data, watch.wait().kind);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_and_watch(&self, path: &str) -> Result<(Node, BlockingWatch), Error> {
        let (node, watch) = self.wait(self.client.get_and_watch(path))?;
        Ok((node, self.wrap_watch(watch)))
    }

    /// Reads the metadata and leaves a watch; see [`crate::Client::exists_and_watch`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// let (stat, watch) = client.exists_and_watch("/a")?;
    /// if stat.is_none() {
    ///     watch.wait(); // until another client creates it
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn exists_and_watch(&self, path: &str) -> Result<(Option<Stat>, BlockingWatch), Error> {
        let (stat, watch) = self.wait(self.client.exists_and_watch(path))?;
        Ok((stat, self.wrap_watch(watch)))
    }

    /// Lists the children and leaves a watch; see [`crate::Client::children_and_watch`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// let (names, watch) = client.children_and_watch("/workers")?;
    /// println!("{names:?}, then {:?}", watch.wait().kind);
    /// # Ok(())
    /// # }
    /// ```
    pub fn children_and_watch(&self, path: &str) -> Result<(Vec<String>, BlockingWatch), Error> {
        let (names, watch) = self.wait(self.client.children_and_watch(path))?;
        Ok((names, self.wrap_watch(watch)))
    }

    fn wrap_watch(&self, watch: crate::Watch) -> BlockingWatch {
        BlockingWatch { watch, runtime: Arc::clone(&self.runtime) }
    }

    /// Adds a persistent watch; see [`crate::Client::watch`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// for event in client.watch("/app", ox_client::AddWatchMode::PersistentRecursive)? {
    ///     println!("{:?} {}", event.kind, event.path);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self, path: &str, mode: AddWatchMode) -> Result<WatchIter, Error> {
        let stream = self.wait(self.client.watch(path, mode))?;
        Ok(WatchIter { stream, runtime: Arc::clone(&self.runtime) })
    }

    /// Returns the current session state; see [`crate::Client::state`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// println!("{:?}", client.state());
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> SessionState {
        self.client.state()
    }

    /// Iterates over the session states; see [`crate::Client::states`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// for state in client.states() {
    ///     println!("{state:?}"); // until the session has ended
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn states(&self) -> StateIter {
        StateIter { states: self.client.states(), runtime: Arc::clone(&self.runtime) }
    }

    /// Returns id, password and timeout of the session; see [`crate::Client::session`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// println!("{:?}", client.session());
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(&self) -> Option<SessionTicket> {
        self.client.session()
    }
}

/// Methods that wait for those of the async client; the body is the example of the documentation.
macro_rules! blocking_methods {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $result:ty { $($example:literal)* })*) => {
        impl BlockingClient {$(
            $(#[$doc])*
            ///
            /// ```no_run
            /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
            $(#[doc = concat!(" ", $example)])*
            /// # Ok(())
            /// # }
            /// ```
            pub fn $name(&self, $($arg: $kind),*) -> Result<$result, Error> {
                self.wait(self.client.$name($($arg),*))
            }
        )*}
    };
}

blocking_methods! {
    /// Creates a node; see [`crate::Client::create`].
    fn create(path: &str, data: impl NodeData, options: impl Into<CreateOptions>) -> Created {
        r#"client.create("/a", b"1", ox_client::CreateMode::Persistent)?;"#
    }

    /// Creates a node exactly once even if a reply is lost; see [`crate::Client::create_protected`].
    fn create_protected(path: &str, data: impl NodeData, options: impl Into<CreateOptions>) -> Created {
        r#"let created = client.create_protected("/queue/n-", b"", ox_client::CreateMode::EphemeralSequential)?;"#
        r#"println!("{}", created.path);"#
    }

    /// Creates a node and its missing ancestors; see [`crate::Client::create_all`].
    fn create_all(path: &str, data: impl NodeData, options: impl Into<CreateOptions>) -> Created {
        r#"client.create_all("/a/b/c", b"1", ox_client::CreateMode::Persistent)?;"#
    }

    /// Creates whatever is missing of a path; see [`crate::Client::ensure_path`].
    fn ensure_path(path: &str) -> () {
        r#"client.ensure_path("/a/b")?;"#
    }

    /// Reads data and metadata of a node; see [`crate::Client::get`].
    fn get(path: &str) -> Node {
        r#"println!("{:?}", client.get("/a")?.data);"#
    }

    /// Replaces the data of a node; see [`crate::Client::set`].
    fn set(path: &str, data: impl NodeData, version: impl Into<Version>) -> Stat {
        r#"let node = client.get("/a")?;"#
        r#"client.set("/a", b"2", node.stat.version)?;"#
    }

    /// Deletes a node without children; see [`crate::Client::delete`].
    fn delete(path: &str, version: impl Into<Version>) -> () {
        r#"client.delete("/a", None)?;"#
    }

    /// Deletes a node and everything below it; see [`crate::Client::delete_recursive`].
    fn delete_recursive(path: &str) -> () {
        r#"client.delete_recursive("/a")?;"#
    }

    /// Reads the metadata of a node; see [`crate::Client::exists`].
    fn exists(path: &str) -> Option<Stat> {
        r#"if client.exists("/a")?.is_none() {"#
        r#"    println!("/a does not exist");"#
        "}"
    }

    /// Lists the children of a node; see [`crate::Client::children`].
    fn children(path: &str) -> Vec<String> {
        r#"for name in client.children("/")? {"#
        r#"    println!("{name}");"#
        "}"
    }

    /// Lists the children together with the metadata; see [`crate::Client::children_with_stat`].
    fn children_with_stat(path: &str) -> (Vec<String>, Stat) {
        r#"let (names, stat) = client.children_with_stat("/")?;"#
        r#"println!("{} children in version {}", names.len(), stat.cversion);"#
    }

    /// Counts all descendants of a node; see [`crate::Client::all_children_number`].
    fn all_children_number(path: &str) -> usize {
        r#"println!("{} nodes", client.all_children_number("/")?);"#
    }

    /// Reads the ACL of a node; see [`crate::Client::get_acl`].
    fn get_acl(path: &str) -> (Vec<Acl>, Stat) {
        r#"let (list, stat) = client.get_acl("/a")?;"#
        r#"println!("{list:?} in version {}", stat.aversion);"#
    }

    /// Replaces the ACL of a node; see [`crate::Client::set_acl`].
    fn set_acl(path: &str, acl: &[Acl], version: impl Into<Version>) -> Stat {
        r#"client.set_acl("/a", &ox_client::acl::read_only(), None)?;"#
    }

    /// Makes the server catch up with the leader; see [`crate::Client::sync`].
    fn sync(path: &str) -> () {
        r#"client.sync("/")?; // later reads return nothing older than this moment"#
    }

    /// Lists the ephemeral nodes of this session; see [`crate::Client::ephemerals`].
    fn ephemerals(prefix: &str) -> Vec<String> {
        r#"println!("{:?} end with this session", client.ephemerals("/")?);"#
    }

    /// Returns the identities of this connection; see [`crate::Client::who_am_i`].
    fn who_am_i() -> Vec<AuthInfo> {
        "for info in client.who_am_i()? {"
        r#"    println!("{}:{}", info.scheme, info.id);"#
        "}"
    }

    /// Authenticates this session; see [`crate::Client::add_auth`].
    fn add_auth(scheme: &str, auth: impl NodeData) -> () {
        r#"client.add_auth("digest", "bob:secret")?;"#
    }

    /// Reads the ensemble configuration; see [`crate::Client::config`].
    fn config() -> Node {
        r#"println!("{}", String::from_utf8_lossy(&client.config()?.data));"#
    }

    /// Changes the ensemble membership; see [`crate::Client::reconfig`].
    fn reconfig(change: &MembershipChange, version: Option<Zxid>) -> Node {
        "use ox_client::MembershipChange;"
        r#"client.reconfig(&MembershipChange::Incremental { joining: Vec::new(), leaving: vec!["4".to_owned()] }, None)?;"#
    }

    /// Waits for all earlier writes of this session; see [`crate::Client::write_barrier`].
    fn write_barrier() -> () {
        "client.write_barrier()?; // later reads show the final outcome of earlier writes"
    }

    /// Checks for a watch on the server; see [`crate::Client::check_watches`].
    fn check_watches(path: &str, kind: WatcherType) -> bool {
        r#"let is_watched = client.check_watches("/a", ox_client::WatcherType::Any)?;"#
        r#"println!("{is_watched}");"#
    }

    /// Removes watches from the server; see [`crate::Client::remove_watches`].
    fn remove_watches(path: &str, kind: WatcherType) -> () {
        r#"client.remove_watches("/a", ox_client::WatcherType::Any)?;"#
    }

    /// Ends the session; see [`crate::Client::close`].
    fn close() -> () {
        "client.close()?;"
    }
}

/// A one-shot watch that is waited for by blocking; see [`crate::Watch`].
///
/// ```no_run
/// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
/// let (_, watch) = client.get_and_watch("/a")?;
/// println!("{:?}", watch.wait().kind);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a watch removes it"]
pub struct BlockingWatch {
    watch: crate::Watch,
    runtime: Arc<Runtime>,
}

impl BlockingWatch {
    /// Blocks until the event is received.
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
    /// let (_, watch) = client.exists_and_watch("/go")?;
    /// watch.wait();
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(self) -> Event {
        self.runtime.handle.block_on(self.watch)
    }

    /// Blocks for at most `limit`; after that the watch is returned as the error, to wait again.
    ///
    /// ```
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::BlockingClient::connect(&server.address().to_string())?;
    /// use std::time::Duration;
    /// let (_, watch) = client.exists_and_watch("/go")?;
    /// let watch = watch.wait_for(Duration::from_millis(1)).unwrap_err(); // no event yet
    /// client.create("/go", b"", ox_client::CreateMode::Persistent)?;
    /// assert_eq!(watch.wait().path, "/go");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_for(mut self, limit: Duration) -> Result<Event, Self> {
        let waited = self.runtime.handle.block_on(async { tokio::time::timeout(limit, &mut self.watch).await });
        waited.map_err(|_| self)
    }
}

/// An iterator over the events of a persistent watch; see [`crate::WatchStream`].
///
/// ```no_run
/// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
/// let mut events = client.watch("/a", ox_client::AddWatchMode::Persistent)?;
/// println!("{:?}", events.next());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a watch removes it"]
pub struct WatchIter {
    stream: crate::WatchStream,
    runtime: Arc<Runtime>,
}

impl Iterator for WatchIter {
    type Item = Event;
    fn next(&mut self) -> Option<Event> {
        self.runtime.handle.block_on(self.stream.next())
    }
}

/// An iterator over the session states; see [`crate::SessionStates`].
///
/// ```no_run
/// # fn example(client: &ox_client::BlockingClient) -> Result<(), ox_client::Error> {
/// let mut states = client.states();
/// println!("{:?}", states.next());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StateIter {
    states: crate::SessionStates,
    runtime: Arc<Runtime>,
}

impl Iterator for StateIter {
    type Item = SessionState;
    fn next(&mut self) -> Option<SessionState> {
        self.runtime.handle.block_on(self.states.next())
    }
}
