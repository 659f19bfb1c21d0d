//! A small tree that implements ZooKeeper's documented behaviour, one request at a time.
//!
//! Written from the specification of the client protocol, independently of the server: no overlay of pending writes, no
//! ACL table, no index. A path is a key of one ordered map, and a failed multi is undone step by step. If both agree on
//! thousands of random requests, both are probably right.

mod apache_fatal;
mod identity;
mod node;
mod path;
mod read;
mod write;

pub use identity::{AuthIds, Authenticated, authenticate};
pub use write::{AppliedWrite, TxnStamp};

use crate::history::{Dump, DumpNode, HistorySettings};
use node::{Node, Owner, key};
use ox_proto::event::EventType;
use ox_proto::{Acl, SessionId, Zxid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The node that shows the ensemble's configuration.
pub const CONFIG: &str = "/zookeeper/config";

/// A change that fires watches, in the order in which they fire.
#[derive(Clone, Debug)]
pub struct WatchTrigger {
    pub kind: EventType,
    pub path: String,
    /// The node's ACL at that moment, which decides who may receive the event.
    pub readers: Arc<[Acl]>,
}

/// The session and identities of a request.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub session: SessionId,
    pub ids: &'a AuthIds,
}

/// The state after some zxid.
#[derive(Debug)]
pub struct Model {
    settings: HistorySettings,
    nodes: BTreeMap<String, Node>,
    sessions: BTreeMap<SessionId, i32>,
    ended: BTreeSet<SessionId>,
    ephemerals: BTreeMap<SessionId, BTreeSet<String>>,
    triggers: Vec<WatchTrigger>,
    undo: Vec<write::Undo>,
    /// Whether the session of the current request belongs to another connection.
    has_moved: bool,
}

impl Model {
    /// The state of an empty server.
    pub fn new(settings: HistorySettings) -> Self {
        let open: Arc<[Acl]> = [Acl::new(31, "world", "anyone")].into();
        let read_only: Arc<[Acl]> = [Acl::new(1, "world", "anyone")].into();
        let mut model = Self {
            settings,
            nodes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ended: BTreeSet::new(),
            ephemerals: BTreeMap::new(),
            triggers: Vec::new(),
            undo: Vec::new(),
            has_moved: false,
        };
        let built_in = |acl: &Arc<[Acl]>| Node::new(Some(Vec::new()), Arc::clone(acl), Zxid::ZERO, 0, Owner::None);
        let (mut root, mut system) = (built_in(&open), built_in(&open));
        root.children.insert("zookeeper".to_owned());
        system.children.extend(["quota".to_owned(), "config".to_owned()]);
        let mut config = built_in(&read_only);
        config.aversion = -1;
        model.nodes.insert("/".to_owned(), root);
        model.nodes.insert("/zookeeper".to_owned(), system);
        model.nodes.insert("/zookeeper/quota".to_owned(), built_in(&open));
        model.nodes.insert(CONFIG.to_owned(), config);
        model
    }

    /// Whether each server maintains the configuration node by itself.
    pub fn is_dynamic(&self) -> bool {
        self.settings.is_dynamic
    }

    /// The ensemble has changed: fires the watches of the configuration node.
    pub fn reconfigure(&mut self) -> Vec<WatchTrigger> {
        let readers = self.nodes.get(CONFIG).map(|node| Arc::clone(&node.acl));
        let changed = |readers| WatchTrigger { kind: EventType::NodeDataChanged, path: CONFIG.to_owned(), readers };
        readers.map(changed).into_iter().collect()
    }

    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    pub fn ephemerals_of(&self, session: SessionId) -> BTreeSet<String> {
        self.ephemerals.get(&session).cloned().unwrap_or_default()
    }

    /// False if the session exists already.
    pub fn open_session(&mut self, session: SessionId, timeout_ms: i32) -> bool {
        self.sessions.insert(session, timeout_ms).is_none()
    }

    /// Deletes the session's ephemeral nodes in the order of `listed`, or sorted by path.
    pub fn close_session(&mut self, at: TxnStamp, listed: Option<&[String]>) -> Vec<WatchTrigger> {
        let own: Vec<String> = self.ephemerals_of(at.session).into_iter().collect();
        for path in listed.unwrap_or(&own) {
            self.remove(at, path);
        }
        self.sessions.remove(&at.session);
        self.ended.insert(at.session);
        self.undo.clear();
        std::mem::take(&mut self.triggers)
    }

    /// Deletes a container or TTL node. `Err` explains why the server must not.
    pub fn remove_expired(&mut self, at: TxnStamp, path: &str) -> Result<Vec<WatchTrigger>, &'static str> {
        let node = self.nodes.get(path).ok_or("the node does not exist")?;
        if !node.children.is_empty() {
            return Err("it has children");
        }
        match node.owner {
            Owner::None | Owner::Session(_) => return Err("it is neither a container nor a TTL node"),
            Owner::Container if node.created == 0 => {
                let (limit_ms, idle_ms) = (self.settings.never_used_ms, at.time_ms.saturating_sub(node.mtime));
                if limit_ms == 0 || idle_ms <= limit_ms {
                    return Err("it never had a child and may still get one");
                }
            }
            Owner::Container => (),
            Owner::Ttl(ttl_ms) if at.time_ms.saturating_sub(node.mtime) <= ttl_ms => {
                return Err("its TTL has not expired");
            }
            Owner::Ttl(_) => (),
        }
        self.remove(at, path);
        self.undo.clear();
        Ok(std::mem::take(&mut self.triggers))
    }

    /// The zxids of the last change of data and of children, and the ACL: what setWatches compares.
    pub fn watched(&self, path: &str) -> Option<WatchedState<'_>> {
        let node = self.nodes.get(key(path))?;
        Some(WatchedState { mzxid: node.mzxid, pzxid: node.pzxid, acl: &node.acl })
    }

    /// The ACL of a node, for permission checks.
    pub fn acl(&self, path: &str) -> Option<&Arc<[Acl]>> {
        self.nodes.get(key(path)).map(|node| &node.acl)
    }

    /// The complete state, for comparison with a server's.
    pub fn dump(&self, zxid: Zxid) -> Dump {
        let nodes = self.nodes.iter().map(|(path, node)| {
            let dumped = DumpNode { data: node.data.clone(), acl: node.acl.to_vec(), stat: node.stat() };
            (path.clone(), dumped)
        });
        Dump { name: "model".to_owned(), zxid, nodes: nodes.collect(), sessions: self.sessions.clone() }
    }
}

/// The parts of a node that setWatches compares.
#[derive(Clone, Copy, Debug)]
pub struct WatchedState<'a> {
    /// Last change of the data.
    pub mzxid: Zxid,
    /// Last change of the children.
    pub pzxid: Zxid,
    pub acl: &'a Arc<[Acl]>,
}

/// Whether the server maintains the node's data: quota usage is not modelled.
pub fn is_kept_by_server(path: &str) -> bool {
    path.starts_with("/zookeeper/quota") && path.ends_with("/zookeeper_stats")
}
