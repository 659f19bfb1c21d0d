//! Reads that leave a watch, and watches that stay.

use super::call::{Kind, decode};
use super::node_ops::{names, node};
use super::{Call, Client};
use crate::core::{Class, Reply};
use crate::error::Error;
use crate::types::Node;
use crate::watch::{Watch, WatchMode, WatchStream, Watcher, WatcherType};
use ox_proto::jute::Jute;
use ox_proto::request::{PathKind, PathWatch};
use ox_proto::{ErrorCode, OpCode, Stat};
use std::borrow::Cow;
use std::sync::Arc;

impl Client {
    /// Reads a node, and watches for its next change or its end.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, EventKind, Version};
    /// client.create("/a", b"1", CreateMode::Persistent).await?;
    /// let (node, watch) = client.get_and_watch("/a").await?;
    /// client.set("/a", b"2", node.stat.version).await?;
    /// assert_eq!(watch.await.kind, EventKind::NodeDataChanged);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_and_watch(&self, path: &str) -> Result<(Node, Watch), Error> {
        let (watcher, reply) = self.read_and_watch("get", OpCode::GetData, Class::Data, path).await;
        Ok((node(&decode("get", Some(path), &reply?)?), Watch(watcher?)))
    }

    /// The metadata of a node, `None` when it does not exist, and a watch for its creation, change or end.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let (stat, _created) = client.exists_and_watch("/not-yet").await?;
    /// assert!(stat.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exists_and_watch(&self, path: &str) -> Result<(Option<Stat>, Watch), Error> {
        let (watcher, reply) = self.read_and_watch("exists", OpCode::Exists, Class::Data, path).await;
        let stat = match reply {
            Ok(reply) => Some(decode("exists", Some(path), &reply)?),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => None,
            Err(error) => return Err(error),
        };
        Ok((stat, Watch(watcher?)))
    }

    /// The names of a node's children, and a watch for the next one that comes or goes, or for the end of the node.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, EventKind};
    /// let (names, watch) = client.children_and_watch("/").await?;
    /// client.create("/new", b"", CreateMode::Persistent).await?;
    /// assert_eq!(watch.await.kind, EventKind::NodeChildrenChanged);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn children_and_watch(&self, path: &str) -> Result<(Vec<String>, Watch), Error> {
        let (watcher, reply) = self.read_and_watch("children", OpCode::GetChildren, Class::Child, path).await;
        Ok((names(decode("children", Some(path), &reply?)?), Watch(watcher?)))
    }

    async fn read_and_watch(
        &self,
        name: &'static str,
        op: OpCode,
        class: Class,
        path: &str,
    ) -> (Result<Watcher, Error>, Result<Reply, Error>) {
        match self.inner(name, path) {
            Ok(inner) => {
                let (watcher, reply) = self.read_inner_and_watch(name, op, class, path, &inner).await;
                (Ok(watcher), reply)
            }
            Err(error) => (Err(error.clone()), Err(error)),
        }
    }

    /// The same for a path of the server.
    pub(super) async fn read_inner_and_watch(
        &self,
        name: &'static str,
        op: OpCode,
        class: Class,
        path: &str,
        inner: &str,
    ) -> (Watcher, Result<Reply, Error>) {
        // Dropped behind the request, should this future be dropped.
        let watcher = Watcher::new(Arc::clone(self.shared()), class, inner);
        let encode = |out: &mut Vec<u8>| PathWatch { path: Some(Cow::Borrowed(inner)), watch: true }.put(out);
        let call = Call { name, op, path: Some(path), kind: Kind::Read, encode: &encode, watch: Some(&watcher) };
        let reply = self.call(call).await;
        (watcher, reply)
    }

    /// Watches a node, or a node and everything below it, until the stream is dropped. The node need not exist. Needs a
    /// server since 3.6.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, WatchMode};
    /// let mut events = client.watch("/jobs", WatchMode::PersistentRecursive).await?;
    /// client.create("/jobs", b"", CreateMode::Persistent).await?;
    /// assert_eq!(events.next().await.unwrap().path, "/jobs");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn watch(&self, path: &str, mode: WatchMode) -> Result<WatchStream, Error> {
        let inner = self.inner("watch", path)?;
        let watcher = Watcher::new(Arc::clone(self.shared()), mode.class(), &inner);
        let encode = |out: &mut Vec<u8>| PathKind { path: Some(Cow::Borrowed(&inner)), kind: mode.code() }.put(out);
        let call = Call {
            name: "watch",
            op: OpCode::AddWatch,
            path: Some(path),
            kind: Kind::Read,
            encode: &encode,
            watch: Some(&watcher),
        };
        self.call(call).await?;
        Ok(WatchStream(watcher))
    }

    /// Whether the server has such a watch of this client.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::WatcherType;
    /// let (_, watch) = client.children_and_watch("/").await?;
    /// assert!(client.check_watches("/", WatcherType::Children).await?);
    /// drop(watch);
    /// assert!(!client.check_watches("/", WatcherType::Children).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_watches(&self, path: &str, kind: WatcherType) -> Result<bool, Error> {
        match self.of_watches("check watches", OpCode::CheckWatches, path, kind).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(ErrorCode::NoWatcher) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes all such watches of this client away, whoever in the application uses them: they get
    /// [`EventKind::WatchRemoved`](crate::EventKind::WatchRemoved). Whoever holds a watch just drops it instead.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{EventKind, WatcherType};
    /// let (_, watch) = client.get_and_watch("/").await?;
    /// client.remove_watches("/", WatcherType::Data).await?;
    /// assert_eq!(watch.await.kind, EventKind::WatchRemoved);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove_watches(&self, path: &str, kind: WatcherType) -> Result<(), Error> {
        let inner = self.inner("remove watches", path)?;
        self.of_watches("remove watches", OpCode::RemoveWatches, path, kind).await?;
        self.shared().end_watches(kind.classes(), &inner);
        Ok(())
    }

    async fn of_watches(&self, name: &'static str, op: OpCode, path: &str, kind: WatcherType) -> Result<Reply, Error> {
        let inner = self.inner(name, path)?;
        let encode = |out: &mut Vec<u8>| PathKind { path: Some(Cow::Borrowed(&inner)), kind: kind.code() }.put(out);
        self.call(Call { name, op, path: Some(path), kind: Kind::Read, encode: &encode, watch: None }).await
    }
}
