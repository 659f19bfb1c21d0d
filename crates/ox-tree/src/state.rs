//! The replicated state: tree, sessions, ACLs and quotas; and the watches of this server's clients.
//!
//! It changes only through [`State::apply`], in service and in recovery. Tree, sessions and last zxid change together,
//! so that the state is consistent between any two calls.

use crate::TreeOptions;
use crate::acl_table::{AclList, AclTable};
use crate::auth::Identities;
use crate::frozen_view::FrozenView;
use crate::node::{AclId, Kind, Node, NodeId};
use crate::path;
use crate::quota::{self, QuotaStatus, Quotas};
use crate::tree::{NewNode, Tree};
use crate::watch::{FiredCounts, WatchTable};
use ox_proto::acl::perms;
use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, RawAcls, SessionId, Stat, Zxid};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Interval, in transactions, of the digests that the `hash` command reports.
const DIGEST_LOG_EVERY: i64 = 128;
/// The number of digests kept for the `hash` command.
const DIGEST_LOG_MAX: usize = 1024;

/// Everything that a server needs to reply to reads.
#[derive(Debug)]
pub struct State {
    pub(crate) options: TreeOptions,
    pub(crate) tree: Tree,
    pub(crate) acls: AclTable,
    pub(crate) sessions: BTreeMap<SessionId, i32>,
    pub(crate) ephemerals: BTreeMap<SessionId, BTreeSet<NodeId>>,
    /// The number of nodes in `ephemerals`.
    ephemeral_count: usize,
    pub(crate) containers: BTreeSet<NodeId>,
    pub(crate) ttls: BTreeSet<NodeId>,
    pub(crate) quotas: Quotas,
    pub(crate) last_zxid: Zxid,
    digest_log: VecDeque<(Zxid, i64)>,
    watches: Mutex<WatchTable>,
    pub(crate) fired: FiredCounts,
    /// The last zxid of the states that this one has replaced.
    replaced_up_to: Zxid,
}

fn watches(options: &TreeOptions) -> WatchTable {
    let watches = WatchTable::new(options.hash_seed, options.watches_per_address_max);
    if options.counts_watches { watches.counting_by_top_level() } else { watches }
}

/// A position in a paged listing of ephemeral nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EphemeralCursor {
    /// The owner of the last listed node.
    pub session: SessionId,
    node: NodeId,
}

impl State {
    /// The state of a server without data: the built-in nodes, no transaction.
    pub fn new(options: TreeOptions) -> Self {
        let mut state = Self::with_root(options);
        let stat = StatPersisted::default();
        for node_path in [path::SYSTEM, path::QUOTA] {
            state.link_built_in(node_path, AclTable::NULL, stat);
        }
        let mut config_acl = Vec::new();
        ox_proto::acl::put_acls(&mut config_acl, &[Acl::new(perms::READ, "world", "anyone")]);
        let acl = state.acls.intern(RawAcls::from_encoded(&config_acl).expect("just encoded"));
        state.link_built_in(path::CONFIG, acl, StatPersisted { aversion: -1, ..stat });
        state
    }

    /// A tree with only the root, for loading a snapshot.
    pub(crate) fn with_root(options: TreeOptions) -> Self {
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
            watches: Mutex::new(watches(&options)),
            fired: FiredCounts::default(),
            replaced_up_to: Zxid(-1),
            options,
        }
    }

    fn link_built_in(&mut self, node_path: &str, acl: AclId, stat: StatPersisted) {
        let (parent, name) = path::split(node_path).expect("built-in paths have a parent");
        let parent = self.tree.find(parent).expect("built-in parents come first");
        let (hash, node) = (self.tree.hash(node_path), Node::new(name, Some(b""), acl, &stat));
        self.tree.link(parent, NewNode { path: node_path, hash, node }, None::<fn(&mut Node)>);
    }

    pub fn options(&self) -> &TreeOptions {
        &self.options
    }

    /// The last transaction that was applied.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// This state, which was loaded from a snapshot, takes the place of another one.
    pub fn set_replaced(&mut self, old: &Self) {
        self.replaced_up_to = old.newest_seen();
    }

    /// The highest zxid that clients may have seen here, in this state or in one that it has replaced.
    pub fn newest_seen(&self) -> Zxid {
        self.last_zxid.max(self.replaced_up_to)
    }

    /// Since when a client that has last seen `zxid` may have missed changes: always if that may have been in a state
    /// that was replaced.
    pub(crate) fn unchanged_since(&self, zxid: Zxid) -> Zxid {
        if zxid <= self.replaced_up_to { Zxid(-1) } else { zxid }
    }

    /// Sets the last zxid without a transaction. Recovery uses this for transactions that left no record.
    pub fn set_last_zxid(&mut self, zxid: Zxid) {
        self.last_zxid = zxid;
    }

    /// The sum of all node digests.
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

    /// Digests at every [`DIGEST_LOG_EVERY`]th zxid, oldest first.
    pub fn digest_log(&self) -> impl Iterator<Item = (Zxid, i64)> {
        self.digest_log.iter().copied()
    }

    /// The number of nodes as Apache counts them: the root counts twice.
    pub fn node_count(&self) -> usize {
        self.tree.len() + 1
    }

    /// The size of all paths and data as Apache counts it: the root counts a second time as `/`.
    pub fn data_bytes(&self) -> u64 {
        self.tree.bytes() + 1
    }

    pub fn ephemeral_count(&self) -> usize {
        self.ephemeral_count
    }

    /// The number of distinct ACLs.
    pub fn acl_count(&self) -> usize {
        self.acls.len()
    }

    /// Live sessions by id, with the timeouts, in ms, with which they were created.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, i32)> {
        self.sessions.iter().map(|(id, timeout)| (*id, *timeout))
    }

    /// Whether a global session is alive.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Sessions that own ephemeral nodes, with the paths.
    pub fn ephemerals(&self) -> impl Iterator<Item = (SessionId, Vec<String>)> {
        self.ephemerals
            .iter()
            .map(|(session, nodes)| (*session, nodes.iter().map(|id| self.tree.path_of(*id)).collect()))
    }

    /// Sessions that own ephemeral nodes but do not exist.
    pub fn dead_owners(&self) -> impl Iterator<Item = SessionId> {
        self.ephemerals.keys().filter(|session| !self.sessions.contains_key(session)).copied()
    }

    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The number of sessions that own ephemeral nodes.
    pub fn ephemeral_owner_count(&self) -> usize {
        self.ephemerals.len()
    }

    /// At most `max` ephemeral nodes after `after`, ordered by session. A listing is paged because there may be a
    /// million nodes. It may miss nodes that are created or deleted between two pages.
    pub fn ephemerals_after(&self, after: Option<EphemeralCursor>, max: usize) -> Vec<(EphemeralCursor, String)> {
        let first_session = after.map_or(SessionId(i64::MIN), |place| place.session);
        let nodes = self.ephemerals.range(first_session..).flat_map(|(session, nodes)| {
            let behind = after.filter(|place| place.session == *session).map(|place| place.node);
            let nodes = nodes.range((behind.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
            nodes.map(|node| EphemeralCursor { session: *session, node: *node })
        });
        nodes.take(max).map(|place| (place, self.tree.path_of(place.node))).collect()
    }

    pub fn ephemerals_of(&self, session: SessionId) -> impl Iterator<Item = String> {
        self.ephemerals.get(&session).into_iter().flatten().map(|id| self.tree.path_of(*id))
    }

    /// The watch table. Lock order: the state's lock first, then this one.
    pub fn watches(&self) -> &Mutex<WatchTable> {
        &self.watches
    }

    /// Returns and resets the counters of fired watches.
    pub fn take_fired(&mut self) -> FiredCounts {
        std::mem::take(&mut self.fired)
    }

    /// All quotas with limits and usage.
    pub fn quotas(&self) -> impl Iterator<Item = QuotaStatus> {
        self.quotas.paths().map(|path| {
            let track = |name| self.quota_track(path, name).and_then(Result::ok).unwrap_or_default();
            QuotaStatus::new(path, &track(quota::LIMITS), &track(quota::STATS))
        })
    }

    pub(crate) fn watches_mut(&mut self) -> &mut WatchTable {
        self.watches.get_mut()
    }

    /// The Stat as clients see it.
    pub fn stat(&self, client_path: &str) -> Option<Stat> {
        let id = self.tree.find(path::internal(client_path))?;
        Some(self.stat_of(id))
    }

    pub(crate) fn stat_of(&self, id: NodeId) -> Stat {
        let node = self.tree.get(id);
        node.stat(self.kind(node.owner))
    }

    /// The kind that a stored owner denotes. Servers with id 255 assign session ids that look like TTL owners (with the
    /// emulation of 3.5.3, all servers above 127 do). If such a session is alive, the node is ephemeral.
    pub(crate) fn kind(&self, owner: i64) -> Kind {
        let (kind, session) = (Kind::of(owner, self.options.reads_353_ttl()), SessionId(owner));
        let is_session = matches!(kind, Kind::Ttl(_)) && self.has_session(session);
        if is_session { Kind::Ephemeral(session) } else { kind }
    }

    /// Adds a session. Nodes with its id as owner that were taken for TTL nodes become ephemeral nodes.
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

    /// The list that restricts the receivers of an event; `None` if every client may receive it.
    pub(crate) fn readers(&self, acl: AclId) -> Option<Arc<AclList>> {
        let list = self.acls.get(acl);
        (!self.options.skip_acl && list.world_perms & perms::READ == 0).then(|| Arc::clone(list))
    }

    /// Whether the node exists and its ACL grants access to super only.
    pub fn is_closed(&self, path: &str) -> bool {
        let Some(node) = self.tree.find(path) else { return false };
        let list = self.acls.get(self.tree.get(node).acl);
        !list.entries.is_empty() && list.entries.iter().all(|entry| entry.perms == 0)
    }

    /// Whether the node exists and its ACL grants every permission to these identities.
    pub fn grants_all(&self, client_path: &str, identities: &Identities) -> bool {
        let Some(node) = self.tree.find(path::internal(client_path)) else { return false };
        let list = self.acls.get(self.tree.get(node).acl);
        let all = [perms::READ, perms::WRITE, perms::CREATE, perms::DELETE, perms::ADMIN];
        self.options.skip_acl || all.iter().all(|perm| identities.may(&self.options.schemes, list, *perm))
    }

    /// An immutable view of the present state.
    pub fn freeze(&self) -> FrozenView {
        FrozenView::new(self)
    }

    /// Writes the ensemble's configuration into its node. Each server does this by itself, without a transaction.
    pub fn set_config(&mut self, text: &str, version: i64, now_ms: i64) {
        let Some(config) = self.tree.find(path::CONFIG) else { return };
        self.tree.set_data(config, path::CONFIG, Some(text.as_bytes()), |node| {
            (node.version, node.mzxid, node.mtime) = (-1, Zxid(version), now_ms);
        });
    }

    /// The data of the configuration node.
    pub fn config(&self) -> Option<&[u8]> {
        self.tree.get(self.tree.find(path::CONFIG)?).data()
    }

    /// The highest zxid in any node's Stat, except for the configuration node, whose Stat is local.
    pub fn max_node_zxid(&self) -> Zxid {
        let config = self.tree.find(path::CONFIG);
        let others = self.tree.iter().filter(|(id, _)| Some(*id) != config);
        others.map(|(_, node)| node.czxid.max(node.mzxid).max(node.pzxid)).max().unwrap_or_default()
    }

    /// Containers and TTL nodes that the server should delete at wall clock `now_ms`. `never_used_ms` is the time for
    /// which a container that never had a child is kept, 0 for no limit.
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

    /// Adds a node to the set of its kind.
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

    /// Removes a node from the set of its kind.
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
