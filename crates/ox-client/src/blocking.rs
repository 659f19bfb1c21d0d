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
use crate::types::{CreateOptions, Created, Data, Identity, Node, Version};
use crate::watch::{WatchMode, WatcherType};
use crate::{Builder, Multi, MultiRead, MultiResults, ReadResults};
use ox_proto::Stat;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;

/// A session with an ensemble, as [`crate::Client`] has it. Every method waits for its answer; clones can be used in many threads
/// at once.
///
/// Methods panic inside of an async runtime: they would stop it.
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
    pub fn connect(servers: &str) -> Result<Self, Error> {
        crate::Client::builder().servers(servers)?.connect_blocking()
    }

    /// The async client of the same session.
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.handle.block_on(work)
    }

    /// See [`crate::Client::create`].
    pub fn create(&self, path: &str, data: impl Data, options: impl Into<CreateOptions>) -> Result<Created, Error> {
        self.wait(self.client.create(path, data, options))
    }

    /// See [`crate::Client::create_protected`].
    pub fn create_protected(
        &self,
        path: &str,
        data: impl Data,
        options: impl Into<CreateOptions>,
    ) -> Result<Created, Error> {
        self.wait(self.client.create_protected(path, data, options))
    }

    /// See [`crate::Client::create_all`].
    pub fn create_all(&self, path: &str, data: impl Data, options: impl Into<CreateOptions>) -> Result<Created, Error> {
        self.wait(self.client.create_all(path, data, options))
    }

    /// See [`crate::Client::ensure_path`].
    pub fn ensure_path(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.ensure_path(path))
    }

    /// See [`crate::Client::get`].
    pub fn get(&self, path: &str) -> Result<Node, Error> {
        self.wait(self.client.get(path))
    }

    /// See [`crate::Client::set`].
    pub fn set(&self, path: &str, data: impl Data, version: impl Into<Version>) -> Result<Stat, Error> {
        self.wait(self.client.set(path, data, version))
    }

    /// See [`crate::Client::delete`].
    pub fn delete(&self, path: &str, version: impl Into<Version>) -> Result<(), Error> {
        self.wait(self.client.delete(path, version))
    }

    /// See [`crate::Client::delete_recursive`].
    pub fn delete_recursive(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.delete_recursive(path))
    }

    /// See [`crate::Client::exists`].
    pub fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.wait(self.client.exists(path))
    }

    /// See [`crate::Client::children`].
    pub fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.wait(self.client.children(path))
    }

    /// See [`crate::Client::children_with_stat`].
    pub fn children_with_stat(&self, path: &str) -> Result<(Vec<String>, Stat), Error> {
        self.wait(self.client.children_with_stat(path))
    }

    /// See [`crate::Client::all_children_number`].
    pub fn all_children_number(&self, path: &str) -> Result<usize, Error> {
        self.wait(self.client.all_children_number(path))
    }

    /// See [`crate::Client::get_acl`].
    pub fn get_acl(&self, path: &str) -> Result<(Vec<Acl>, Stat), Error> {
        self.wait(self.client.get_acl(path))
    }

    /// See [`crate::Client::set_acl`].
    pub fn set_acl(&self, path: &str, acl: &[Acl], version: impl Into<Version>) -> Result<Stat, Error> {
        self.wait(self.client.set_acl(path, acl, version))
    }

    /// See [`crate::Client::sync`].
    pub fn sync(&self, path: &str) -> Result<(), Error> {
        self.wait(self.client.sync(path))
    }

    /// See [`crate::Client::ephemerals`].
    pub fn ephemerals(&self, prefix: &str) -> Result<Vec<String>, Error> {
        self.wait(self.client.ephemerals(prefix))
    }

    /// See [`crate::Client::who_am_i`].
    pub fn who_am_i(&self) -> Result<Vec<Identity>, Error> {
        self.wait(self.client.who_am_i())
    }

    /// See [`crate::Client::add_auth`].
    pub fn add_auth(&self, scheme: &str, auth: impl Data) -> Result<(), Error> {
        self.wait(self.client.add_auth(scheme, auth))
    }

    /// See [`crate::Client::config`].
    pub fn config(&self) -> Result<Node, Error> {
        self.wait(self.client.config())
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
    pub fn read_all(&self, reads: MultiRead) -> Result<ReadResults, Error> {
        self.wait(reads.send())
    }

    /// See [`crate::Client::get_and_watch`].
    pub fn get_and_watch(&self, path: &str) -> Result<(Node, Watch), Error> {
        let (node, watch) = self.wait(self.client.get_and_watch(path))?;
        Ok((node, self.watching(watch)))
    }

    /// See [`crate::Client::exists_and_watch`].
    pub fn exists_and_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        let (stat, watch) = self.wait(self.client.exists_and_watch(path))?;
        Ok((stat, self.watching(watch)))
    }

    /// See [`crate::Client::children_and_watch`].
    pub fn children_and_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        let (names, watch) = self.wait(self.client.children_and_watch(path))?;
        Ok((names, self.watching(watch)))
    }

    fn watching(&self, watch: crate::Watch) -> Watch {
        Watch { watch, runtime: Arc::clone(&self.runtime) }
    }

    /// See [`crate::Client::watch`].
    pub fn watch(&self, path: &str, mode: WatchMode) -> Result<WatchStream, Error> {
        let stream = self.wait(self.client.watch(path, mode))?;
        Ok(WatchStream { stream, runtime: Arc::clone(&self.runtime) })
    }

    /// See [`crate::Client::check_watches`].
    pub fn check_watches(&self, path: &str, kind: WatcherType) -> Result<bool, Error> {
        self.wait(self.client.check_watches(path, kind))
    }

    /// See [`crate::Client::remove_watches`].
    pub fn remove_watches(&self, path: &str, kind: WatcherType) -> Result<(), Error> {
        self.wait(self.client.remove_watches(path, kind))
    }

    /// See [`crate::Client::state`].
    pub fn state(&self) -> State {
        self.client.state()
    }

    /// See [`crate::Client::states`].
    pub fn states(&self) -> States {
        States { states: self.client.states(), runtime: Arc::clone(&self.runtime) }
    }

    /// See [`crate::Client::session`].
    pub fn session(&self) -> Option<SessionTicket> {
        self.client.session()
    }

    /// See [`crate::Client::close`].
    pub fn close(&self) -> Result<(), Error> {
        self.wait(self.client.close())
    }
}

/// A one-shot watch; see [`crate::Watch`].
#[derive(Debug)]
#[must_use = "a watch that is dropped is taken back"]
pub struct Watch {
    watch: crate::Watch,
    runtime: Arc<Runtime>,
}

impl Watch {
    /// Waits for the event.
    pub fn wait(self) -> Event {
        self.runtime.handle.block_on(self.watch)
    }

    /// Waits for the event, but not longer than `limit`: then the watch comes back.
    pub fn wait_for(mut self, limit: Duration) -> Result<Event, Self> {
        let waited = self.runtime.handle.block_on(async { tokio::time::timeout(limit, &mut self.watch).await });
        waited.map_err(|_| self)
    }
}

/// The events of a persistent watch, one after the other; see [`crate::WatchStream`].
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
