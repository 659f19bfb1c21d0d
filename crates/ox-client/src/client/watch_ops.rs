//! Reads that leave a one-shot watch, and persistent watches.

use super::call::{Kind, decode};
use super::node_ops::{names, node};
use super::{Call, Client};
use crate::core::{Reply, WatchClass};
use crate::error::Error;
use crate::types::Node;
use crate::watch::{AddWatchMode, Watch, WatchStream, Watcher, WatcherType};
use ox_proto::jute::Jute;
use ox_proto::request::{PathKind, PathWatch};
use ox_proto::{ErrorCode, OpCode, Stat};
use std::borrow::Cow;
use std::sync::Arc;

impl Client {
    /// Reads a node and leaves a watch for its next change or deletion.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, EventKind};
    /// client.create("/a", b"1", CreateMode::Persistent).await?;
    /// let (node, watch) = client.get_and_watch("/a").await?;
    /// client.set("/a", b"2", node.stat.version).await?;
    /// assert_eq!(watch.await.kind, EventKind::NodeDataChanged);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_and_watch(&self, path: &str) -> Result<(Node, Watch), Error> {
        let (watcher, reply) = self.read_and_watch("get", OpCode::GetData, WatchClass::Data, path).await;
        Ok((node(&decode("get", Some(path), &reply?)?), Watch(watcher?)))
    }

    /// Returns the metadata of a node, `None` if it does not exist, and leaves a watch for its creation, change or
    /// deletion.
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
        let (watcher, reply) = self.read_and_watch("exists", OpCode::Exists, WatchClass::Data, path).await;
        let stat = match reply {
            Ok(reply) => Some(decode("exists", Some(path), &reply)?),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => None,
            Err(error) => return Err(error),
        };
        Ok((stat, Watch(watcher?)))
    }

    /// Returns the names of the children and leaves a watch for the next child that is created or deleted, or for the
    /// deletion of the node.
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
        let (watcher, reply) = self.read_and_watch("children", OpCode::GetChildren, WatchClass::Child, path).await;
        Ok((names(decode("children", Some(path), &reply?)?), Watch(watcher?)))
    }

    async fn read_and_watch(
        &self,
        name: &'static str,
        op: OpCode,
        class: WatchClass,
        path: &str,
    ) -> (Result<Watcher, Error>, Result<Reply, Error>) {
        match self.server_path(name, path) {
            Ok(inner) => {
                let (watcher, reply) = self.read_server_path_and_watch(name, op, class, path, &inner).await;
                (Ok(watcher), reply)
            }
            Err(error) => (Err(error.clone()), Err(error)),
        }
    }

    /// Like `read_and_watch`, for a path that includes the chroot.
    pub(super) async fn read_server_path_and_watch(
        &self,
        name: &'static str,
        op: OpCode,
        class: WatchClass,
        path: &str,
        inner: &str,
    ) -> (Watcher, Result<Reply, Error>) {
        // Declared before the request, so that a dropped future cancels the request first.
        let watcher = Watcher::new(Arc::clone(self.shared()), class, inner);
        let encode = |out: &mut Vec<u8>| PathWatch { path: Some(Cow::Borrowed(inner)), watch: true }.put(out);
        let call = Call { name, op, path: Some(path), kind: Kind::Read, encode: &encode, watch: Some(&watcher) };
        let reply = self.call(call).await;
        (watcher, reply)
    }

    /// Watches a node, or a node and all its descendants, until the stream is dropped. The node need not exist.
    /// Requires a server of version 3.6 or later.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, AddWatchMode};
    /// let mut events = client.watch("/jobs", AddWatchMode::PersistentRecursive).await?;
    /// client.create("/jobs", b"", CreateMode::Persistent).await?;
    /// assert_eq!(events.next().await.unwrap().path, "/jobs");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn watch(&self, path: &str, mode: AddWatchMode) -> Result<WatchStream, Error> {
        let inner = self.server_path("watch", path)?;
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

    /// Returns whether the server has a watch of this type for this client.
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
        match self.watches_request("check watches", OpCode::CheckWatches, path, kind).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(ErrorCode::NoWatcher) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes all watches of this type from the server. Every user of the watch in this application receives
    /// [`EventKind::WatchRemoved`](crate::EventKind::WatchRemoved). To remove a single watch, drop it instead.
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
        let inner = self.server_path("remove watches", path)?;
        self.watches_request("remove watches", OpCode::RemoveWatches, path, kind).await?;
        self.shared().end_watches(kind.classes(), &inner);
        Ok(())
    }

    async fn watches_request(
        &self,
        name: &'static str,
        op: OpCode,
        path: &str,
        kind: WatcherType,
    ) -> Result<Reply, Error> {
        let inner = self.server_path(name, path)?;
        let encode = |out: &mut Vec<u8>| PathKind { path: Some(Cow::Borrowed(&inner)), kind: kind.code() }.put(out);
        self.call(Call { name, op, path: Some(path), kind: Kind::Read, encode: &encode, watch: None }).await
    }
}
