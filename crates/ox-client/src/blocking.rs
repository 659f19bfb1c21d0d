//! The same client for programs without an async runtime. A thread of its own moves the bytes.
//!
//! ```
//! # let server = ox_server::Server::ephemeral()?;
//! # let servers = server.address().to_string();
//! use ox_client::blocking::Client;
//! use ox_client::{CreateMode, EventKind, Version};
//! let client = Client::connect(&servers)?;
//! client.create("/a", b"1", CreateMode::Persistent)?;
//! let (node, watch) = client.get_and_watch("/a")?;
//! assert_eq!(node.data, b"1");
//! client.set("/a", b"2", Version::Any)?;
//! assert_eq!(watch.wait().kind, EventKind::NodeDataChanged);
//! client.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::acl::Acl;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::state::{SessionTicket, State};
use crate::types::{CreateOptions, Created, Data, Identity, Node, Reconfig, Version};
use crate::watch::{WatchMode, WatcherType};
use crate::{Builder, Multi, MultiRead, MultiResults, ReadResults};
use ox_proto::{Stat, Zxid};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;

/// A session with an ensemble, as [`crate::Client`] has it. Every method waits for its answer; clones can be used in many threads
/// at once.
///
/// Methods panic inside of an async runtime: they would stop it.
///
/// ```
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::blocking::Client::connect(&server.address().to_string())?;
/// use ox_client::CreateMode;
/// client.create("/n", b"", CreateMode::Persistent)?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| client.set("/n", b"x", ox_client::Version::Any).unwrap());
///     }
/// });
/// assert_eq!(client.get("/n")?.stat.version, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

/// The thread behind all clones.
#[derive(Debug)]
struct Runtime {
    handle: Handle,
    /// Dropped with the last clone: then the thread ends behind the session.
    _alive: oneshot::Sender<()>,
}

/// Where a client hands its states over, to whoever keeps the runtime running.
type Begun = oneshot::Sender<crate::States>;

impl Runtime {
    fn start() -> std::io::Result<(Self, Begun)> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (alive, gone) = oneshot::channel();
        let (begun, states) = oneshot::channel::<crate::States>();
        std::thread::Builder::new().name("ox-client".to_owned()).spawn(move || {
            runtime.block_on(async {
                let _ = gone.await; // an error says the same
                if let Ok(mut states) = states.await {
                    while states.next().await.is_some() {}
                }
            });
        })?;
        Ok((Self { handle, _alive: alive }, begun))
    }
}

impl Builder {
    /// Connects, and waits for the session, without an async runtime.
    ///
    /// ```
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let servers = server.address().to_string();
    /// let client = ox_client::Client::builder().servers(&servers)?.connect_blocking()?;
    /// assert!(client.exists("/")?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect_blocking(self) -> Result<Client, Error> {
        let no_thread = |_| Error::connect(ErrorKind::InvalidArgument("no thread can be started"));
        let (runtime, begun) = Runtime::start().map_err(no_thread)?;
        let client = runtime.handle.block_on(self.connect())?;
        drop(begun.send(client.states())); // the thread lives as long as the runtime
        Ok(Client { client, runtime: Arc::new(runtime) })
    }
}

impl Client {
    /// See [`crate::Client::connect`].
    ///
    /// ```
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let servers = server.address().to_string();
    /// let client = ox_client::blocking::Client::connect(&servers)?; // for example "zk1:2181,zk2:2181/app"
    /// client.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect(servers: &str) -> Result<Self, Error> {
        crate::Client::builder().servers(servers)?.connect_blocking()
    }

    /// The async client of the same session.
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.inner().update_servers("zk1:2181,zk2:2181")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.handle.block_on(work)
    }

    /// See [`crate::Client::create`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.create("/a", b"1", ox_client::CreateMode::Persistent)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, path: &str, data: impl Data, options: impl Into<CreateOptions>) -> Result<Created, Error> {
        self.wait(self.client.create(path, data, options))
    }

    /// See [`crate::Client::create_protected`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let created = client.create_protected("/line/n-", b"", ox_client::CreateMode::EphemeralSequential)?;
    /// println!("{}", created.path);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_protected(
        &self,
        path: &str,
        data: impl Data,
        options: impl Into<CreateOptions>,
    ) -> Result<Created, Error> {
        self.wait(self.client.create_protected(path, data, options))
    }

    /// See [`crate::Client::create_all`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.create_all("/a/b/c", b"1", ox_client::CreateMode::Persistent)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_all(&self, path: &str, data: impl Data, options: impl Into<CreateOptions>) -> Result<Created, Error> {
        self.wait(self.client.create_all(path, data, options))
    }

    /// See [`crate::Client::ensure_path`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.ensure_path("/a/b")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_path(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.ensure_path(path))
    }

    /// See [`crate::Client::get`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// println!("{:?}", client.get("/a")?.data);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self, path: &str) -> Result<Node, Error> {
        self.wait(self.client.get(path))
    }

    /// See [`crate::Client::set`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let node = client.get("/a")?;
    /// client.set("/a", b"2", node.stat.version)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set(&self, path: &str, data: impl Data, version: impl Into<Version>) -> Result<Stat, Error> {
        self.wait(self.client.set(path, data, version))
    }

    /// See [`crate::Client::delete`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.delete("/a", ox_client::Version::Any)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete(&self, path: &str, version: impl Into<Version>) -> Result<(), Error> {
        self.wait(self.client.delete(path, version))
    }

    /// See [`crate::Client::delete_recursive`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.delete_recursive("/a")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_recursive(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.delete_recursive(path))
    }

    /// See [`crate::Client::exists`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// if client.exists("/a")?.is_none() {
    ///     println!("there is no /a");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.wait(self.client.exists(path))
    }

    /// See [`crate::Client::children`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// for name in client.children("/")? {
    ///     println!("{name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.wait(self.client.children(path))
    }

    /// See [`crate::Client::children_with_stat`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let (names, stat) = client.children_with_stat("/")?;
    /// println!("{} children in version {}", names.len(), stat.cversion);
    /// # Ok(())
    /// # }
    /// ```
    pub fn children_with_stat(&self, path: &str) -> Result<(Vec<String>, Stat), Error> {
        self.wait(self.client.children_with_stat(path))
    }

    /// See [`crate::Client::all_children_number`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// println!("{} nodes", client.all_children_number("/")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn all_children_number(&self, path: &str) -> Result<usize, Error> {
        self.wait(self.client.all_children_number(path))
    }

    /// See [`crate::Client::get_acl`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let (list, stat) = client.get_acl("/a")?;
    /// println!("{list:?} in version {}", stat.aversion);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_acl(&self, path: &str) -> Result<(Vec<Acl>, Stat), Error> {
        self.wait(self.client.get_acl(path))
    }

    /// See [`crate::Client::set_acl`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.set_acl("/a", &ox_client::acl::read_only(), ox_client::Version::Any)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_acl(&self, path: &str, acl: &[Acl], version: impl Into<Version>) -> Result<Stat, Error> {
        self.wait(self.client.set_acl(path, acl, version))
    }

    /// See [`crate::Client::sync`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.sync("/")?; // what is read now is not older than this moment
    /// # Ok(())
    /// # }
    /// ```
    pub fn sync(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.sync(path))
    }

    /// See [`crate::Client::ephemerals`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// println!("{:?} go with this session", client.ephemerals("/")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ephemerals(&self, prefix: &str) -> Result<Vec<String>, Error> {
        self.wait(self.client.ephemerals(prefix))
    }

    /// See [`crate::Client::who_am_i`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// for who in client.who_am_i()? {
    ///     println!("{}:{}", who.scheme, who.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn who_am_i(&self) -> Result<Vec<Identity>, Error> {
        self.wait(self.client.who_am_i())
    }

    /// See [`crate::Client::add_auth`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.add_auth("digest", "bob:secret")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_auth(&self, scheme: &str, auth: impl Data) -> Result<(), Error> {
        self.wait(self.client.add_auth(scheme, auth))
    }

    /// See [`crate::Client::config`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// println!("{}", String::from_utf8_lossy(&client.config()?.data));
    /// # Ok(())
    /// # }
    /// ```
    pub fn config(&self) -> Result<Node, Error> {
        self.wait(self.client.config())
    }

    /// See [`crate::Client::reconfig`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// use ox_client::Reconfig;
    /// client.reconfig(&Reconfig::Change { joining: Vec::new(), leaving: vec!["4".to_owned()] }, None)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reconfig(&self, change: &Reconfig, version: Option<Zxid>) -> Result<Node, Error> {
        self.wait(self.client.reconfig(change, version))
    }

    /// See [`crate::Client::settle`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.settle()?; // what is read now is final
    /// # Ok(())
    /// # }
    /// ```
    pub fn settle(&self) -> Result<(), Error> {
        self.wait(self.client.settle())
    }

    /// Does all writes of a list, or nothing; see [`crate::Client::multi`].
    ///
    /// ```
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::blocking::Client::connect(&server.address().to_string())?;
    /// use ox_client::CreateMode;
    /// let mut multi = client.inner().multi();
    /// let slot = multi.create("/a", b"", CreateMode::Persistent);
    /// assert_eq!(client.commit(multi)?.get(slot).path, "/a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit(&self, multi: Multi) -> Result<MultiResults, Error> {
        self.wait(multi.commit())
    }

    /// Does all reads of a list; see [`crate::Client::multi_read`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let mut reads = client.inner().multi_read();
    /// let (node, names) = (reads.get("/a"), reads.children("/a"));
    /// let results = client.read_all(reads)?;
    /// println!("{:?} {:?}", results.get(node)?, results.get(names)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_all(&self, reads: MultiRead) -> Result<ReadResults, Error> {
        self.wait(reads.send())
    }

    /// See [`crate::Client::get_and_watch`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let (node, watch) = client.get_and_watch("/a")?;
    /// println!("{:?}, then {:?}", node.data, watch.wait().kind);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_and_watch(&self, path: &str) -> Result<(Node, Watch), Error> {
        let (node, watch) = self.wait(self.client.get_and_watch(path))?;
        Ok((node, self.watching(watch)))
    }

    /// See [`crate::Client::exists_and_watch`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let (stat, watch) = client.exists_and_watch("/a")?;
    /// if stat.is_none() {
    ///     watch.wait(); // somebody creates it
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn exists_and_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        let (stat, watch) = self.wait(self.client.exists_and_watch(path))?;
        Ok((stat, self.watching(watch)))
    }

    /// See [`crate::Client::children_and_watch`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let (names, watch) = client.children_and_watch("/workers")?;
    /// println!("{names:?}, then {:?}", watch.wait().kind);
    /// # Ok(())
    /// # }
    /// ```
    pub fn children_and_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        let (names, watch) = self.wait(self.client.children_and_watch(path))?;
        Ok((names, self.watching(watch)))
    }

    fn watching(&self, watch: crate::Watch) -> Watch {
        Watch { watch, runtime: Arc::clone(&self.runtime) }
    }

    /// See [`crate::Client::watch`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// for event in client.watch("/app", ox_client::WatchMode::PersistentRecursive)? {
    ///     println!("{:?} {}", event.kind, event.path);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self, path: &str, mode: WatchMode) -> Result<WatchStream, Error> {
        let stream = self.wait(self.client.watch(path, mode))?;
        Ok(WatchStream { stream, runtime: Arc::clone(&self.runtime) })
    }

    /// See [`crate::Client::check_watches`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let is_watched = client.check_watches("/a", ox_client::WatcherType::Any)?;
    /// println!("{is_watched}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_watches(&self, path: &str, kind: WatcherType) -> Result<bool, Error> {
        self.wait(self.client.check_watches(path, kind))
    }

    /// See [`crate::Client::remove_watches`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.remove_watches("/a", ox_client::WatcherType::Any)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_watches(&self, path: &str, kind: WatcherType) -> Result<(), Error> {
        self.wait(self.client.remove_watches(path, kind))
    }

    /// See [`crate::Client::state`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// println!("{:?}", client.state());
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> State {
        self.client.state()
    }

    /// See [`crate::Client::states`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// for state in client.states() {
    ///     println!("{state:?}"); // until the session is over
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn states(&self) -> States {
        States { states: self.client.states(), runtime: Arc::clone(&self.runtime) }
    }

    /// See [`crate::Client::session`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// println!("{:?}", client.session());
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(&self) -> Option<SessionTicket> {
        self.client.session()
    }

    /// See [`crate::Client::close`].
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// client.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) -> Result<(), Error> {
        self.wait(self.client.close())
    }
}

/// A one-shot watch; see [`crate::Watch`].
///
/// ```no_run
/// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
/// let (_, watch) = client.get_and_watch("/a")?;
/// println!("{:?}", watch.wait().kind);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is taken back"]
pub struct Watch {
    watch: crate::Watch,
    runtime: Arc<Runtime>,
}

impl Watch {
    /// Waits for the event.
    ///
    /// ```no_run
    /// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
    /// let (_, watch) = client.exists_and_watch("/go")?;
    /// watch.wait();
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(self) -> Event {
        self.runtime.handle.block_on(self.watch)
    }

    /// Waits for the event, but not longer than `limit`: then the watch comes back.
    ///
    /// ```
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::blocking::Client::connect(&server.address().to_string())?;
    /// use std::time::Duration;
    /// let (_, watch) = client.exists_and_watch("/go")?;
    /// let watch = watch.wait_for(Duration::from_millis(1)).unwrap_err(); // nothing yet
    /// client.create("/go", b"", ox_client::CreateMode::Persistent)?;
    /// assert_eq!(watch.wait().path, "/go");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_for(mut self, limit: Duration) -> Result<Event, Self> {
        let waited = self.runtime.handle.block_on(async { tokio::time::timeout(limit, &mut self.watch).await });
        waited.map_err(|_| self)
    }
}

/// The events of a persistent watch, one after the other; see [`crate::WatchStream`].
///
/// ```no_run
/// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
/// let mut events = client.watch("/a", ox_client::WatchMode::Persistent)?;
/// println!("{:?}", events.next());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is taken back"]
pub struct WatchStream {
    stream: crate::WatchStream,
    runtime: Arc<Runtime>,
}

impl Iterator for WatchStream {
    type Item = Event;
    fn next(&mut self) -> Option<Event> {
        self.runtime.handle.block_on(self.stream.next())
    }
}

/// The states of a client, one after the other; see [`crate::States`].
///
/// ```no_run
/// # fn example(client: &ox_client::blocking::Client) -> Result<(), ox_client::Error> {
/// let mut states = client.states();
/// println!("{:?}", states.next());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct States {
    states: crate::States,
    runtime: Arc<Runtime>,
}

impl Iterator for States {
    type Item = State;
    fn next(&mut self) -> Option<State> {
        self.runtime.handle.block_on(self.states.next())
    }
}
