//! Operations on nodes: create, read, write, delete, ACLs, sync.

use super::call::{Kind, decode};
use super::{Call, Client};
use crate::acl::explain_acl;
use crate::error::{Error, ErrorKind};
use crate::limits::DELETES_IN_FLIGHT_MAX;
use crate::path;
use crate::types::{CreateOptions, Created, Node, NodeData, Version};
use ox_proto::acl::{Acl, put_acls};
use ox_proto::jute::{Jute, put_buffer, put_text};
use ox_proto::reply::{AclReply, ChildrenReply, CreatedReply, DataReply};
use ox_proto::request::{PathRequest, PathVersion, PathWatch, SetDataRequest, Text};
use ox_proto::{ErrorCode, OpCode, RawAcls, Stat};
use std::borrow::Cow;
use tokio::task::JoinSet;

/// Appends the body of a create request of any mode. The default ACL is pre-encoded; other ACLs are encoded here.
pub(crate) fn put_create(out: &mut Vec<u8>, path: &str, data: Option<&[u8]>, options: &CreateOptions) {
    let (_, flags, ttl_ms) = options.mode.wire();
    put_text(out, path);
    put_buffer(out, data);
    match &options.acl {
        None => RawAcls::OPEN.put(out),
        Some(acls) => put_acls(out, acls),
    }
    flags.put(out);
    if let Some(ttl_ms) = ttl_ms {
        ttl_ms.put(out);
    }
}

pub(crate) fn node(reply: &DataReply<'_>) -> Node {
    Node { data: reply.data.unwrap_or_default().to_vec(), is_null: reply.data.is_none(), stat: reply.stat }
}

/// Adds to the error of a delete what the code does not say.
fn explain_delete(error: Error) -> Error {
    if *error.kind() == ErrorKind::Server(ErrorCode::BadArguments) {
        return error.with_detail("the servers need this node");
    }
    error
}

pub(crate) fn names(children: Option<Vec<Text<'_>>>) -> Vec<String> {
    children.unwrap_or_default().into_iter().map(|name| name.unwrap_or_default().into_owned()).collect()
}

impl Client {
    /// Creates a node. Its parent must exist.
    ///
    /// A create whose reply is lost may have been executed. For sequential nodes, [`Client::create_protected`] resolves
    /// that.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::CreateMode;
    /// client.create("/queue", b"", CreateMode::Persistent).await?;
    /// let created = client.create("/queue/item-", b"data", CreateMode::EphemeralSequential).await?;
    /// assert_eq!(created.path, "/queue/item-0000000000");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(
        &self,
        path: &str,
        data: impl NodeData,
        options: impl Into<CreateOptions>,
    ) -> Result<Created, Error> {
        self.create_bytes(path, data.bytes(), &options.into()).await
    }

    pub(crate) async fn create_bytes(
        &self,
        path: &str,
        data: Option<&[u8]>,
        options: &CreateOptions,
    ) -> Result<Created, Error> {
        let inner = self.new_node_path(path, options)?;
        let reply = self
            .call(Call {
                name: "create",
                op: options.mode.wire().0,
                path: Some(path),
                kind: Kind::Write,
                encode: &|out| put_create(out, &inner, data, options),
                watch: None,
            })
            .await
            .map_err(|error| options.explain(error))?;
        let CreatedReply { path: created, stat } = decode("create", Some(path), &reply)?;
        Ok(Created { path: self.shared().client_path(created.unwrap_or_default().into_owned()), stat })
    }

    /// Reads data and metadata of a node.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let root = client.get("/").await?;
    /// assert_eq!((root.data.len(), root.stat.num_children), (0, 1));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, path: &str) -> Result<Node, Error> {
        let reply = self.read("get", OpCode::GetData, path).await?;
        Ok(node(&decode("get", Some(path), &reply)?))
    }

    /// Replaces the data of a node and returns its new metadata.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, ErrorCode};
    /// client.create("/a", b"1", CreateMode::Persistent).await?;
    /// let stat = client.set("/a", b"2", None).await?;
    /// client.set("/a", b"3", stat.version).await?;
    /// let error = client.set("/a", b"4", stat.version).await.unwrap_err();
    /// assert_eq!(error.code(), Some(ErrorCode::BadVersion));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set(&self, path: &str, data: impl NodeData, version: impl Into<Version>) -> Result<Stat, Error> {
        let version = version.into().code();
        let inner = self.server_path("set", path)?;
        let reply = self
            .call(Call {
                name: "set",
                op: OpCode::SetData,
                path: Some(path),
                kind: Kind::Write,
                encode: &|out| {
                    SetDataRequest { path: Some(Cow::Borrowed(&inner)), data: data.bytes(), version }.put(out);
                },
                watch: None,
            })
            .await?;
        decode("set", Some(path), &reply)
    }

    /// Deletes a node without children.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::CreateMode;
    /// client.create("/a", b"", CreateMode::Persistent).await?;
    /// client.delete("/a", None).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete(&self, path: &str, version: impl Into<Version>) -> Result<(), Error> {
        let version = version.into().code();
        let inner = self.server_path("delete", path)?;
        let encode = |out: &mut Vec<u8>| PathVersion { path: Some(Cow::Borrowed(&inner)), version }.put(out);
        self.call(Call {
            name: "delete",
            op: OpCode::Delete,
            path: Some(path),
            kind: Kind::Write,
            encode: &encode,
            watch: None,
        })
        .await
        .map_err(explain_delete)?;
        Ok(())
    }

    /// Returns the metadata of a node, `None` if it does not exist.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// assert!(client.exists("/").await?.is_some());
    /// assert!(client.exists("/nothing").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        match self.read("exists", OpCode::Exists, path).await {
            Ok(reply) => decode("exists", Some(path), &reply).map(Some),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of the children, in no particular order.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// assert_eq!(client.children("/").await?, ["zookeeper"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        let reply = self.read("children", OpCode::GetChildren, path).await?;
        decode("children", Some(path), &reply).map(names)
    }

    /// Returns the names of the children and the metadata of the node.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let (names, stat) = client.children_with_stat("/").await?;
    /// assert_eq!(names.len(), usize::try_from(stat.num_children)?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn children_with_stat(&self, path: &str) -> Result<(Vec<String>, Stat), Error> {
        let reply = self.read("children", OpCode::GetChildren2, path).await?;
        let ChildrenReply { children, stat } = decode("children", Some(path), &reply)?;
        Ok((names(children), stat))
    }

    /// Returns the number of all descendants of a node.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// // /zookeeper and its two children
    /// assert_eq!(client.all_children_number("/").await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn all_children_number(&self, path: &str) -> Result<usize, Error> {
        let reply = self.path_request("all children number", OpCode::GetAllChildrenNumber, path).await?;
        let count: i32 = decode("all children number", Some(path), &reply)?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Returns the ACL and the metadata of a node. Without the ADMIN permission, digests of passwords are masked.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let (list, _) = client.get_acl("/").await?;
    /// assert_eq!(list, ox_client::acl::open());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_acl(&self, path: &str) -> Result<(Vec<Acl>, Stat), Error> {
        let reply = self.path_request("get acl", OpCode::GetAcl, path).await?;
        let AclReply { acl, stat } = decode("get acl", Some(path), &reply)?;
        Ok((acl.to_stored(), stat))
    }

    /// Replaces the ACL of a node. `version` is compared with the version of the ACL (`aversion`).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_client::{CreateMode, ErrorCode, acl};
    /// client.create("/a", b"", CreateMode::Persistent).await?;
    /// client.set_acl("/a", &acl::read_only(), None).await?;
    /// let error = client.set("/a", b"x", None).await.unwrap_err();
    /// assert_eq!(error.code(), Some(ErrorCode::NoAuth));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_acl(&self, path: &str, acl: &[Acl], version: impl Into<Version>) -> Result<Stat, Error> {
        let version = version.into().code();
        let inner = self.server_path("set acl", path)?;
        let encode = |out: &mut Vec<u8>| {
            put_text(out, &inner);
            put_acls(out, acl);
            version.put(out);
        };
        let call = Call {
            name: "set acl",
            op: OpCode::SetAcl,
            path: Some(path),
            kind: Kind::Write,
            encode: &encode,
            watch: None,
        };
        let reply = self.call(call).await.map_err(|error| explain_acl(error, acl))?;
        decode("set acl", Some(path), &reply)
    }

    /// Makes the server catch up with the leader: reads sent after this return everything that was committed before it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.sync("/").await?;
    /// let newest = client.get("/").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn sync(&self, path: &str) -> Result<(), Error> {
        self.path_request("sync", OpCode::Sync, path).await.map(drop)
    }

    async fn read(&self, name: &'static str, op: OpCode, path: &str) -> Result<crate::core::Reply, Error> {
        let inner = self.server_path(name, path)?;
        let encode = |out: &mut Vec<u8>| PathWatch { path: Some(Cow::Borrowed(&inner)), watch: false }.put(out);
        self.call(Call { name, op, path: Some(path), kind: Kind::Read, encode: &encode, watch: None }).await
    }

    pub(crate) async fn path_request(
        &self,
        name: &'static str,
        op: OpCode,
        path: &str,
    ) -> Result<crate::core::Reply, Error> {
        let inner = self.server_path(name, path)?;
        let encode = |out: &mut Vec<u8>| PathRequest { path: Some(Cow::Borrowed(&inner)) }.put(out);
        self.call(Call { name, op, path: Some(path), kind: Kind::Read, encode: &encode, watch: None }).await
    }

    /// Creates a node and its missing ancestors. The ancestors become persistent and empty, with the open ACL.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.create_all("/a/b/c", b"data", ox_client::CreateMode::Ephemeral).await?;
    /// assert_eq!(client.children("/a/b").await?, ["c"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_all(
        &self,
        path: &str,
        data: impl NodeData,
        options: impl Into<CreateOptions>,
    ) -> Result<Created, Error> {
        let options = options.into();
        loop {
            let error = match self.create_bytes(path, data.bytes(), &options).await {
                Err(error) if error.code() == Some(ErrorCode::NoNode) => error,
                done => return done,
            };
            match path::parent(path) {
                Some(parent) if parent != "/" => self.ensure_path(parent).await?,
                _ => return Err(error),
            }
        }
    }

    /// Ensures that a node and all its ancestors exist. Missing ones become persistent and empty, with the open ACL. A
    /// chroot that does not exist is an error; [`Client::create_chroot`] creates it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.ensure_path("/a/b/c").await?;
    /// client.ensure_path("/a/b").await?;
    /// assert!(client.exists("/a/b/c").await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ensure_path(&self, path: &str) -> Result<(), Error> {
        let mut ends: Vec<usize> = path.char_indices().skip(1).filter(|(_, c)| *c == '/').map(|(at, _)| at).collect();
        ends.push(path.len());
        // Usually the whole path exists: search for the deepest existing node first, then create downwards from there.
        let mut missing = ends.len();
        while 0 < missing && self.exists(&path[..ends[missing - 1]]).await?.is_none() {
            missing -= 1;
        }
        if missing == 0 && path == "/" {
            let error = Error::refused("create", Some(path), ErrorCode::NoNode.code());
            return Err(self.name_missing_chroot(error).await);
        }
        for end in &ends[missing..] {
            self.create_if_missing(&path[..*end]).await?;
        }
        Ok(())
    }

    async fn create_if_missing(&self, path: &str) -> Result<(), Error> {
        let inner = self.server_path("create", path)?;
        let options = CreateOptions::default();
        let encode = |out: &mut Vec<u8>| put_create(out, &inner, Some(b""), &options);
        // Idempotent: it does not matter which attempt creates the node.
        let call = Call {
            name: "create",
            op: OpCode::Create2,
            path: Some(path),
            kind: Kind::Idempotent,
            encode: &encode,
            watch: None,
        };
        match self.call(call).await {
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Deletes a node and all its descendants, including nodes created meanwhile. A missing node is not an error. Not
    /// atomic: other clients see the nodes disappear one by one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.ensure_path("/a/b/c").await?;
    /// client.delete_recursive("/a").await?;
    /// assert!(client.exists("/a").await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_recursive(&self, path: &str) -> Result<(), Error> {
        let mut stack = vec![path.to_owned()];
        while let Some(node) = stack.pop() {
            if self.delete_if_exists(&node).await? {
                continue;
            }
            let names = match self.children(&node).await {
                Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
                names => names?,
            };
            stack.push(node.clone());
            for names in names.chunks(DELETES_IN_FLIGHT_MAX) {
                let mut deletes = JoinSet::new(); // aborted when this future is dropped
                for name in names {
                    let (client, path) = (self.clone(), path::child(&node, name));
                    deletes.spawn(async move {
                        client.delete_if_exists(&path).await.map(|is_cancelled| (is_cancelled, path))
                    });
                }
                while let Some(Ok(deleted)) = deletes.join_next().await {
                    let (is_cancelled, path) = deleted?;
                    stack.extend((!is_cancelled).then_some(path));
                }
            }
        }
        Ok(())
    }

    /// Returns false if the node has children.
    async fn delete_if_exists(&self, path: &str) -> Result<bool, Error> {
        let inner = self.server_path("delete", path)?;
        let encode = |out: &mut Vec<u8>| PathVersion { path: Some(Cow::Borrowed(&inner)), version: -1 }.put(out);
        let call = Call {
            name: "delete",
            op: OpCode::Delete,
            path: Some(path),
            kind: Kind::Idempotent,
            encode: &encode,
            watch: None,
        };
        match self.call(call).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(true),
            Err(error) if error.code() == Some(ErrorCode::NotEmpty) => Ok(false),
            done => done.map(|_| true).map_err(explain_delete),
        }
    }
}
