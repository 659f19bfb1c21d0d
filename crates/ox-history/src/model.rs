//! A small tree that implements ZooKeeper's documented behaviour, one request at a time.
//!
//! Written from the specification of the client protocol, independently of the server: no overlay of pending writes, no
//! ACL table, no index. A path is a key of one ordered map, and a failed multi is undone step by step. If both agree on
//! thousands of random requests, both are probably right.
//!
//! The only reference of its kind: histories of whole servers are checked against it, and so is each request and reply
//! in the property tests of `ox-tree`.

mod identity;
mod node;
mod path;
mod quota;
mod read;
mod watches;
mod write;

pub use identity::{AuthIds, Authenticated, authenticate};
pub use node::{Node, Owner};
pub use quota::Quotas;
pub use watches::Watches;
pub(crate) use watches::ancestors;
pub use write::{AppliedWrite, TxnStamp};

use crate::history::{Dump, DumpNode, HistorySettings};
use ox_proto::event::EventType;
use ox_proto::{Acl, ErrorCode, SessionId, Zxid};
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
    /// The quotas when the current write was prepared.
    prepared_with: Quotas,
    /// Whether the session of the current request belongs to another connection.
    has_moved: bool,
}

impl Model {
    /// The state of an empty server.
    pub fn new(settings: HistorySettings) -> Self {
        let mut model = Self {
            settings,
            nodes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ended: BTreeSet::new(),
            ephemerals: BTreeMap::new(),
            triggers: Vec::new(),
            undo: Vec::new(),
            prepared_with: Quotas::default(),
            has_moved: false,
        };
        let built_in = || Node::new(Some(Vec::new()), None, Zxid::ZERO, 0, Owner::None);
        let (mut root, mut system, mut config) = (built_in(), built_in(), built_in());
        root.children.insert("zookeeper".to_owned());
        system.children.extend(["quota".to_owned(), "config".to_owned()]);
        config.acl = Some([Acl::new(1, "world", "anyone")].into());
        config.aversion = -1;
        let nodes = [("/", root), ("/zookeeper", system), ("/zookeeper/quota", built_in()), (CONFIG, config)];
        model.nodes.extend(nodes.map(|(path, node)| (path.to_owned(), node)));
        model
    }

    /// Whether each server maintains the configuration node by itself.
    pub fn is_dynamic(&self) -> bool {
        self.settings.is_dynamic
    }

    /// All nodes by path, the root as `/`.
    pub fn nodes(&self) -> &BTreeMap<String, Node> {
        &self.nodes
    }

    /// For tests that begin with an unusual state.
    pub fn node_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(path)
    }

    /// The live sessions with their timeouts.
    pub fn sessions(&self) -> &BTreeMap<SessionId, i32> {
        &self.sessions
    }

    /// The ensemble has changed: fires the watches of the configuration node, and changes it unless each server
    /// maintains it by itself.
    pub fn reconfigure(&mut self, at: TxnStamp, text: Option<&[u8]>) -> Vec<WatchTrigger> {
        let Some(node) = self.nodes.get_mut(CONFIG) else { return Vec::new() };
        if !self.settings.is_dynamic {
            node.data = text.map(<[u8]>::to_vec);
            (node.version, node.mzxid, node.mtime) = (-1, at.zxid, at.time_ms);
        }
        let (kind, path) = (EventType::NodeDataChanged, CONFIG.to_owned());
        vec![WatchTrigger { kind, path, readers: node.readers() }]
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

    /// Whether the server may delete a container or TTL node. `Err` has the error code and an explanation.
    pub fn check_expired(&self, path: &str, now_ms: i64, never_used_ms: i64) -> Result<(), NotExpired> {
        if !write::is_deletable(path) {
            return Err((ErrorCode::BadArguments, "it is no node that can be deleted"));
        }
        let node = self.nodes.get(path).ok_or((ErrorCode::NoNode, "the node does not exist"))?;
        if !node.children.is_empty() {
            return Err((ErrorCode::NotEmpty, "it has children"));
        }
        let idle_ms = now_ms.saturating_sub(node.mtime);
        let why = match node.owner {
            Owner::None | Owner::Session(_) => "it is neither a container nor a TTL node",
            Owner::Container if node.created == 0 && (never_used_ms == 0 || idle_ms <= never_used_ms) => {
                "it never had a child and may still get one"
            }
            Owner::Ttl(ttl_ms) if idle_ms <= ttl_ms => "its TTL has not expired",
            Owner::Container | Owner::Ttl(_) => return Ok(()),
        };
        Err((ErrorCode::BadVersion, why))
    }

    /// Deletes a container or TTL node.
    pub fn remove_expired(&mut self, at: TxnStamp, path: &str) -> Result<Vec<WatchTrigger>, NotExpired> {
        self.check_expired(path, at.time_ms, self.settings.never_used_ms)?;
        self.remove(at, path);
        self.undo.clear();
        Ok(std::mem::take(&mut self.triggers))
    }

    /// The complete state, for comparison with a server's.
    pub fn dump(&self, zxid: Zxid) -> Dump {
        let nodes = self.nodes.iter().map(|(path, node)| {
            let dumped = DumpNode { data: node.data.clone(), acl: node.shown_acl(), stat: node.stat() };
            (path.clone(), dumped)
        });
        Dump { name: "model".to_owned(), zxid, nodes: nodes.collect(), sessions: self.sessions.clone() }
    }
}

/// Error code of a deletion by the server, and why it must not happen.
pub type NotExpired = (ErrorCode, &'static str);

/// Whether the server maintains the node's data: quota usage, which may be counted again when a state is loaded.
pub fn is_kept_by_server(path: &str) -> bool {
    path.starts_with("/zookeeper/quota") && path.ends_with("/zookeeper_stats")
}
