//! The whole replicated state: tree, sessions, lists, quotas, and the watches that hang on it.
//!
//! It changes only through [`State::apply`]: in service, in recovery and on every server alike. Tree, sessions and
//! the last zxid advance together, so that any moment between two calls is a consistent one.

use crate::Options;
use crate::acl_table::{AclList, AclTable};
use crate::frozen_view::Frozen;
use crate::node::{AclId, Kind, Node, NodeId};
use crate::outbox::Fired;
use crate::path;
use crate::quota::{self, QuotaUse, Quotas};
use crate::tree::{NewNode, Tree};
use crate::watch::WatchTable;
use ox_proto::acl::perms;
use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, RawAcls, SessionId, Stat, Zxid};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Every so many transactions the digest is noted for the `hash` command.
const DIGEST_LOG_EVERY: i64 = 128;
/// Notes kept.
const DIGEST_LOG_MAX: usize = 1024;

/// Everything a server answers from.
#[derive(Debug)]
pub struct State {
    pub(crate) options: Options,
    pub(crate) tree: Tree,
    pub(crate) acls: AclTable,
    pub(crate) sessions: BTreeMap<SessionId, i32>,
    pub(crate) ephemerals: BTreeMap<SessionId, BTreeSet<NodeId>>,
    /// Nodes in `ephemerals`.
    ephemeral_count: usize,
    pub(crate) containers: BTreeSet<NodeId>,
    pub(crate) ttls: BTreeSet<NodeId>,
    pub(crate) quotas: Quotas,
    pub(crate) last_zxid: Zxid,
    digest_log: VecDeque<(Zxid, i64)>,
    watches: Mutex<WatchTable>,
    pub(crate) fired: Fired,
}

/// Where a listing of ephemeral nodes stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EphemeralPlace {
    /// The owner.
    pub session: SessionId,
    node: NodeId,
}

impl State {
    /// The state of an empty server: the built-in nodes, no transaction.
    pub fn new(options: Options) -> Self {
        let mut state = Self::with_root(options);
        let stat = StatPersisted::default();
        for node_path in [path::SYSTEM, path::QUOTA] {
            state.link_built_in(node_path, AclTable::NULL, stat);
        }
        let mut config_acl = Vec::new();
        ox_proto::acl::put_acls(&mut config_acl, &[Acl::new(perms::READ, "world", "anyone")]);
        let acl = state.acls.take(RawAcls::from_encoded(&config_acl).expect("just encoded"));
        state.link_built_in(path::CONFIG, acl, StatPersisted { aversion: -1, ..stat });
        state
    }

    /// Nothing but a root, to load a snapshot into.
    pub(crate) fn with_root(options: Options) -> Self {
        let root = Node::new("", Some(b""), AclTable::NULL, &StatPersisted::default());
        Self {
            tree: Tree::new(options.hash_seed, options.digest_enabled, root),
            acls: AclTable::new(options.hash_seed),
            sessions: BTreeMap::new(),
            ephemerals: BTreeMap::new(),
            ephemeral_count: 0,
            containers: BTreeSet::new(),
            ttls: BTreeSet::new(),
            quotas: Quotas::default(),
            last_zxid: Zxid::ZERO,
            digest_log: VecDeque::new(),
            watches: Mutex::new(WatchTable::new(options.hash_seed, options.watches_per_address_max)),
            fired: Fired::default(),
            options,
        }
    }

    fn link_built_in(&mut self, node_path: &str, acl: AclId, stat: StatPersisted) {
        let (parent, name) = path::split(node_path).expect("built-in paths have a parent");
        let parent = self.tree.find(parent).expect("built-in parents come first");
        let (hash, node) = (self.tree.hash(node_path), Node::new(name, Some(b""), acl, &stat));
        self.tree.link(parent, NewNode { path: node_path, hash, node }, None::<fn(&mut Node)>);
    }

    /// Settings the state was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The last transaction that is part of the state.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// Moves the position without a transaction: recovery knows of later ones that left no record.
    pub fn set_last_zxid(&mut self, zxid: Zxid) {
        self.last_zxid = zxid;
    }

    /// The tree's digest.
    pub fn digest(&self) -> i64 {
        self.tree.digest().cast_signed()
    }

    pub(crate) fn note_digest(&mut self) {
        if self.last_zxid.0 % DIGEST_LOG_EVERY == 0 {
            if DIGEST_LOG_MAX <= self.digest_log.len() {
                self.digest_log.pop_front();
            }
            self.digest_log.push_back((self.last_zxid, self.digest()));
        }
    }

    /// The digests noted on the way, oldest first.
    pub fn digest_log(&self) -> impl Iterator<Item = (Zxid, i64)> {
        self.digest_log.iter().copied()
    }

    /// Nodes there are, counted as Apache does: it keeps the root under two names.
    pub fn node_count(&self) -> usize {
        self.tree.len() + 1
    }

    /// Bytes of all paths and data, counted as Apache does: the second name of the root is `/`.
    pub fn data_bytes(&self) -> u64 {
        self.tree.bytes() + 1
    }

    /// Ephemeral nodes there are.
    pub fn ephemeral_count(&self) -> usize {
        self.ephemeral_count
    }

    /// Distinct lists in use.
    pub fn acl_count(&self) -> usize {
        self.acls.len()
    }

    /// Live sessions with the timeout they were created with, in the order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, i32)> {
        self.sessions.iter().map(|(id, timeout)| (*id, *timeout))
    }

    /// Whether a session is alive in the replicated state.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Sessions that own nodes, with the paths.
    pub fn ephemerals(&self) -> impl Iterator<Item = (SessionId, Vec<String>)> {
        self.ephemerals
            .iter()
            .map(|(session, nodes)| (*session, nodes.iter().map(|id| self.tree.path_of(*id)).collect()))
    }

    /// Sessions that own nodes and do not exist.
    pub fn dead_owners(&self) -> impl Iterator<Item = SessionId> {
        self.ephemerals.keys().filter(|session| !self.sessions.contains_key(session)).copied()
    }

    /// Live sessions there are.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions that own nodes.
    pub fn ephemeral_owner_count(&self) -> usize {
        self.ephemerals.len()
    }

    /// The ephemeral nodes behind `after` with their sessions, session by session, at most `max` of them: in
    /// pieces, because there may be a million. Nodes that come or go between two pieces may be missed.
    pub fn ephemerals_after(&self, after: Option<EphemeralPlace>, max: usize) -> Vec<(EphemeralPlace, String)> {
        let first_session = after.map_or(SessionId(i64::MIN), |place| place.session);
        let nodes = self.ephemerals.range(first_session..).flat_map(|(session, nodes)| {
            let behind = after.filter(|place| place.session == *session).map(|place| place.node);
            let nodes = nodes.range((behind.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
            nodes.map(|node| EphemeralPlace { session: *session, node: *node })
        });
        nodes.take(max).map(|place| (place, self.tree.path_of(place.node))).collect()
    }

    /// The ephemeral nodes of one session.
    pub fn ephemerals_of(&self, session: SessionId) -> impl Iterator<Item = String> {
        self.ephemerals.get(&session).into_iter().flatten().map(|id| self.tree.path_of(*id))
    }

    /// The watch table. Taken after the state itself, never the other way round.
    pub fn watches(&self) -> &Mutex<WatchTable> {
        &self.watches
    }

    /// How many watches each event fired since the last call.
    pub fn take_fired(&mut self) -> Fired {
        std::mem::take(&mut self.fired)
    }

    /// The quotas there are, with their usage.
    pub fn quotas(&self) -> impl Iterator<Item = QuotaUse> {
        self.quotas.paths().map(|path| {
            let figures = |name| self.quota_figures(path, name).and_then(Result::ok).unwrap_or_default();
            QuotaUse::new(path, &figures(quota::LIMITS), &figures(quota::STATS))
        })
    }

    pub(crate) fn watches_mut(&mut self) -> &mut WatchTable {
        self.watches.get_mut()
    }

    /// What a client sees of a node.
    pub fn stat(&self, client_path: &str) -> Option<Stat> {
        let id = self.tree.find(path::internal(client_path))?;
        Some(self.stat_of(id))
    }

    pub(crate) fn stat_of(&self, id: NodeId) -> Stat {
        let node = self.tree.get(id);
        node.stat(self.kind(node.owner))
    }

    /// What an owner makes of a node. Server id 255 hands out session ids that look like TTL owners (and with
    /// the emulation of 3.5.3 so do all above 127); a live session decides.
    pub(crate) fn kind(&self, owner: i64) -> Kind {
        let (kind, session) = (Kind::of(owner, self.options.reads_353_ttl()), SessionId(owner));
        let is_session = matches!(kind, Kind::Ttl(_)) && self.has_session(session);
        if is_session { Kind::Ephemeral(session) } else { kind }
    }

    /// Enters a session. Nodes that it owns, and that were taken for TTL nodes without it, are its own again.
    pub(crate) fn open_session(&mut self, session: SessionId, timeout_ms: i32) {
        let is_new = self.sessions.insert(session, timeout_ms).is_none();
        if is_new && matches!(Kind::of(session.0, self.options.reads_353_ttl()), Kind::Ttl(_)) {
            let is_its_own = |id: &NodeId| self.tree.get(*id).owner == session.0;
            let reclaimed: BTreeSet<NodeId> = self.ttls.iter().copied().filter(is_its_own).collect();
            if !reclaimed.is_empty() {
                self.ttls.retain(|id| !reclaimed.contains(id));
                self.ephemeral_count += reclaimed.len();
                self.ephemerals.entry(session).or_default().extend(reclaimed);
            }
        }
    }

    pub(crate) fn is_ephemeral(&self, owner: i64) -> bool {
        matches!(self.kind(owner), Kind::Ephemeral(_))
    }

    /// The list that decides who sees an event, `None` when everybody may.
    pub(crate) fn readers(&self, acl: AclId) -> Option<Arc<AclList>> {
        let list = self.acls.get(acl);
        (!self.options.skip_acl && list.world & perms::READ == 0).then(|| Arc::clone(list))
    }

    /// Whether a node is there that nobody but the super user may do anything with.
    pub fn is_closed(&self, path: &str) -> bool {
        let Some(node) = self.tree.find(path) else { return false };
        let list = self.acls.get(self.tree.get(node).acl);
        !list.entries.is_empty() && list.entries.iter().all(|entry| entry.perms == 0)
    }

    /// A consistent view that stays as it is while the state goes on.
    pub fn freeze(&self) -> Frozen {
        Frozen::new(self)
    }

    /// Puts the configuration of an ensemble into its node, which every server does for itself.
    pub fn set_config(&mut self, text: &str, version: i64, now_ms: i64) {
        let Some(config) = self.tree.find(path::CONFIG) else { return };
        self.tree.set_data(config, path::CONFIG, Some(text.as_bytes()), |node| {
            (node.version, node.mzxid, node.mtime) = (-1, Zxid(version), now_ms);
        });
    }

    /// The text in the node of the configuration.
    pub fn config(&self) -> Option<&[u8]> {
        self.tree.get(self.tree.find(path::CONFIG)?).data()
    }

    /// The highest zxid that any node shows; the configuration node does not count, its stat is local.
    pub fn max_node_zxid(&self) -> Zxid {
        let config = self.tree.find(path::CONFIG);
        let others = self.tree.iter().filter(|(id, _)| Some(*id) != config);
        others.map(|(_, node)| node.czxid.max(node.mzxid).max(node.pzxid)).max().unwrap_or_default()
    }

    /// Nodes that may go by themselves: containers and TTL nodes without children, as of wall clock `now_ms`.
    /// `never_used_ms` is how long a container that never had a child is kept, 0 for ever.
    pub fn expired_nodes(&self, now_ms: i64, never_used_ms: i64) -> Vec<String> {
        let idle_for = |node: &Node| now_ms.saturating_sub(node.mtime);
        let containers = self.containers.iter().filter(|id| {
            let node = self.tree.get(**id);
            let unused = never_used_ms != 0 && never_used_ms < idle_for(node);
            node.children == 0 && (0 < node.cversion || unused)
        });
        let ttls = self.ttls.iter().filter(|id| {
            let node = self.tree.get(**id);
            node.children == 0 && matches!(self.kind(node.owner), Kind::Ttl(ttl) if ttl < idle_for(node))
        });
        containers.chain(ttls).map(|id| self.tree.path_of(*id)).collect()
    }

    /// Enters a node into the sets that its kind asks for.
    pub(crate) fn register(&mut self, id: NodeId, owner: i64) {
        match self.kind(owner) {
            Kind::Persistent => (),
            Kind::Container => _ = self.containers.insert(id),
            Kind::Ttl(_) => _ = self.ttls.insert(id),
            Kind::Ephemeral(session) => {
                let is_new = self.ephemerals.entry(session).or_default().insert(id);
                self.ephemeral_count += usize::from(is_new);
            }
        }
    }

    /// Takes a node out of those sets.
    pub(crate) fn unregister(&mut self, id: NodeId, owner: i64) {
        match self.kind(owner) {
            Kind::Persistent => (),
            Kind::Container => _ = self.containers.remove(&id),
            Kind::Ttl(_) => _ = self.ttls.remove(&id),
            Kind::Ephemeral(session) => {
                if let Some(nodes) = self.ephemerals.get_mut(&session) {
                    self.ephemeral_count -= usize::from(nodes.remove(&id));
                    if nodes.is_empty() {
                        self.ephemerals.remove(&session);
                    }
                }
            }
        }
    }
}
