//! A small tree that does what ZooKeeper's documentation and tests say, one request after the other.
//!
//! Written from the specification of the client protocol, not from the server: no overlay of pending writes, no
//! table of lists, no index. A path is a key of one ordered map, and a refused multi is undone step by step. Where
//! both agree on thousands of random requests, both are probably right.

mod apache_fatal;
mod identity;
mod node;
mod path;
mod read;
mod write;

pub use identity::{Authenticated, Identities, authenticate};
pub use write::{Done, Stamp};

use crate::history::{Dump, DumpNode, Settings};
use node::{Node, Owner, key};
use ox_proto::event::EventType;
use ox_proto::{Acl, SessionId, Zxid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The node that shows the ensemble.
pub const CONFIG: &str = "/zookeeper/config";

/// A change that watches may be waiting for, in the order in which they hear of it.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// What happened.
    pub kind: EventType,
    /// To which node.
    pub path: String,
    /// Who may hear of it: the node's list at that moment.
    pub readers: Arc<[Acl]>,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The session.
    pub session: SessionId,
    /// What its connection has proven.
    pub ids: &'a Identities,
}

/// The state after some zxid.
#[derive(Debug)]
pub struct Model {
    settings: Settings,
    nodes: BTreeMap<String, Node>,
    sessions: BTreeMap<SessionId, i32>,
    /// Sessions that have ended.
    ended: BTreeSet<SessionId>,
    ephemerals: BTreeMap<SessionId, BTreeSet<String>>,
    triggers: Vec<Trigger>,
    undo: Vec<write::Undo>,
    /// Whether the session of the request at hand belongs to another connection.
    has_moved: bool,
}

impl Model {
    /// An empty server.
    pub fn new(settings: Settings) -> Self {
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
        let built_in = |acl: &Arc<[Acl]>| Node::new(Some(Vec::new()), Arc::clone(acl), Zxid::ZERO, 0, Owner::Nobody);
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

    /// Whether servers keep the node of the configuration by themselves.
    pub fn is_dynamic(&self) -> bool {
        self.settings.is_dynamic
    }

    /// The ensemble has changed: those who watch the node that shows it hear of it.
    pub fn reconfigure(&mut self) -> Vec<Trigger> {
        let readers = self.nodes.get(CONFIG).map(|node| Arc::clone(&node.acl));
        let changed = |readers| Trigger { kind: EventType::NodeDataChanged, path: CONFIG.to_owned(), readers };
        readers.map(changed).into_iter().collect()
    }

    /// Whether a session is alive.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// The ephemeral nodes of a session.
    pub fn ephemerals_of(&self, session: SessionId) -> BTreeSet<String> {
        self.ephemerals.get(&session).cloned().unwrap_or_default()
    }

    /// A session begins. False when it was there already.
    pub fn open_session(&mut self, session: SessionId, timeout_ms: i32) -> bool {
        self.sessions.insert(session, timeout_ms).is_none()
    }

    /// A session ends, and its nodes go in the order of `listed`, or in their own.
    pub fn close_session(&mut self, at: Stamp, listed: Option<&[String]>) -> Vec<Trigger> {
        let own: Vec<String> = self.ephemerals_of(at.session).into_iter().collect();
        for path in listed.unwrap_or(&own) {
            self.remove(at, path);
        }
        self.sessions.remove(&at.session);
        self.ended.insert(at.session);
        self.undo.clear();
        std::mem::take(&mut self.triggers)
    }

    /// The server removes a node that nobody needs. `Err` says why it must not.
    pub fn remove_expired(&mut self, at: Stamp, path: &str) -> Result<Vec<Trigger>, &'static str> {
        let node = self.nodes.get(path).ok_or("there is no such node")?;
        if !node.children.is_empty() {
            return Err("it has children");
        }
        match node.owner {
            Owner::Nobody | Owner::Session(_) => return Err("it is no container and has no time to live"),
            Owner::Container if node.created == 0 => {
                let (limit_ms, idle_ms) = (self.settings.never_used_ms, at.time_ms.saturating_sub(node.mtime));
                if limit_ms == 0 || idle_ms <= limit_ms {
                    return Err("it never had a child and may still get one");
                }
            }
            Owner::Container => (),
            Owner::Ttl(ttl_ms) if at.time_ms.saturating_sub(node.mtime) <= ttl_ms => {
                return Err("its time has not come");
            }
            Owner::Ttl(_) => (),
        }
        self.remove(at, path);
        self.undo.clear();
        Ok(std::mem::take(&mut self.triggers))
    }

    /// The version, the zxids of the last change and of the last change of children, and who may read: what
    /// re-arming a watch looks at.
    pub fn watched(&self, path: &str) -> Option<Watched<'_>> {
        let node = self.nodes.get(key(path))?;
        Some(Watched { mzxid: node.mzxid, pzxid: node.pzxid, acl: &node.acl })
    }

    /// The list of a node's readers, for tests of permission.
    pub fn acl(&self, path: &str) -> Option<&Arc<[Acl]>> {
        self.nodes.get(key(path)).map(|node| &node.acl)
    }

    /// Everything, to be compared with a server's state.
    pub fn dump(&self, zxid: Zxid) -> Dump {
        let nodes = self.nodes.iter().map(|(path, node)| {
            let dumped = DumpNode { data: node.data.clone(), acl: node.acl.to_vec(), stat: node.stat() };
            (path.clone(), dumped)
        });
        Dump { name: "model".to_owned(), zxid, nodes: nodes.collect(), sessions: self.sessions.clone() }
    }
}

/// What re-arming a watch looks at.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    /// Last change of the data.
    pub mzxid: Zxid,
    /// Last change of the children.
    pub pzxid: Zxid,
    /// Who may read.
    pub acl: &'a Arc<[Acl]>,
}

/// True for nodes whose data the server keeps up to date by itself: usage of quotas is not modelled.
pub fn is_kept_by_server(path: &str) -> bool {
    path.starts_with("/zookeeper/quota") && path.ends_with("/zookeeper_stats")
}
