//! The complete contents of a state, in a form that can be compared and printed.

use ox_history::model::{Model, Owner};
use ox_proto::acl::put_acls;
use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, RawAcls, SessionId, Zxid};
use ox_tree::{FrozenView, Loader, State, TreeOptions};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImageNode {
    pub(crate) data: Option<Vec<u8>>,
    /// `None` is the null list of the built-in nodes.
    pub(crate) acl: Option<Vec<Acl>>,
    pub(crate) stat: StatPersisted,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Image {
    /// By path in the tree's form; the root is `""`.
    pub(crate) nodes: BTreeMap<String, ImageNode>,
    pub(crate) sessions: Vec<(SessionId, i32)>,
    pub(crate) ephemerals: BTreeMap<i64, Vec<String>>,
    pub(crate) zxid: Zxid,
}

impl Image {
    pub(crate) fn of(state: &State) -> Self {
        let mut image = Self::of_frozen(&state.freeze());
        for (session, mut paths) in state.ephemerals() {
            assert!(!paths.is_empty(), "sessions without nodes are not listed");
            paths.sort();
            image.ephemerals.insert(session.0, paths);
        }
        assert_eq!(state.ephemeral_count(), image.ephemerals.values().map(Vec::len).sum::<usize>());
        image
    }

    /// Everything except the lists of ephemeral nodes, which a snapshot does not contain.
    pub(crate) fn of_frozen(frozen: &FrozenView) -> Self {
        let lists: BTreeMap<i64, Vec<Acl>> = frozen.acls().map(|(id, list)| (id, list.to_vec())).collect();
        assert_eq!(lists.len(), frozen.acl_count());
        let mut nodes: BTreeMap<String, ImageNode> = BTreeMap::new();
        let visited = frozen.for_each_node(|node| {
            if let Some((parent, _)) = node.path.rsplit_once('/') {
                assert!(nodes.contains_key(parent), "{} before its parent", node.path);
            }
            let acl = (node.acl != -1).then(|| lists[&node.acl].clone());
            let seen = ImageNode { data: node.data.map(<[u8]>::to_vec), acl, stat: node.stat };
            assert!(nodes.insert(node.path.to_owned(), seen).is_none(), "{} twice", node.path);
            Ok::<(), ()>(())
        });
        visited.unwrap();
        assert_eq!(nodes.len(), frozen.node_count());
        Self { nodes, sessions: frozen.sessions().to_vec(), ephemerals: BTreeMap::new(), zxid: frozen.last_zxid() }
    }

    /// Without the usage in quota nodes, which may drift and is recounted whenever a snapshot is loaded.
    pub(crate) fn without_usage(mut self) -> Self {
        let usage = self.nodes.iter_mut().filter(|(path, _)| ox_history::model::is_kept_by_server(path));
        usage.for_each(|(_, node)| node.data = None);
        self
    }

    pub(crate) fn of_model(model: &Model, zxid: Zxid) -> Self {
        let mut nodes = BTreeMap::new();
        let mut ephemerals: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for (path, node) in model.nodes() {
            let acl = node.acl.as_ref().map(|acl| acl.to_vec());
            nodes.insert(internal(path), ImageNode { data: node.data.clone(), acl, stat: node.persisted() });
            if let Owner::Session(session) = node.owner {
                ephemerals.entry(session.0).or_default().push(path.clone());
            }
        }
        let sessions = model.sessions().iter().map(|(id, timeout_ms)| (*id, *timeout_ms)).collect();
        Self { nodes, sessions, ephemerals, zxid }
    }
}

fn internal(path: &str) -> String {
    if path == "/" { String::new() } else { path.to_owned() }
}

/// The digest of a whole tree, computed from scratch.
pub(crate) fn digest(model: &Model) -> i64 {
    let counted = model.nodes().iter().filter(|(path, _)| !path.starts_with("/zookeeper/"));
    let digests = counted.map(|(path, node)| {
        let stat = node.persisted();
        let numbers = crate::request::Bytes::default()
            .long(stat.czxid.0)
            .long(stat.mzxid.0)
            .long(stat.pzxid.0)
            .long(stat.ctime)
            .long(stat.mtime)
            .int(stat.version)
            .int(stat.cversion)
            .int(stat.aversion)
            .long(stat.ephemeral_owner);
        let data = node.data.as_deref().unwrap_or_default();
        i64::from(crc32fast::hash(&[internal(path).as_bytes(), data, &numbers.0].concat()))
    });
    digests.sum()
}

/// Loads nodes one after another, as from a snapshot of a server that has given an id to each list it has seen.
pub(crate) struct ImageLoader {
    loader: Loader,
    lists: BTreeMap<Vec<u8>, i64>,
}

impl ImageLoader {
    pub(crate) fn new(options: TreeOptions, sessions: &[(SessionId, i32)]) -> Self {
        let mut loader = Loader::new(options);
        sessions.iter().for_each(|(session, timeout_ms)| loader.session(*session, *timeout_ms));
        Self { loader, lists: BTreeMap::new() }
    }

    fn list_id(&mut self, list: &[Acl]) -> (Vec<u8>, i64) {
        let mut bytes = Vec::new();
        put_acls(&mut bytes, list);
        let next = i64::try_from(self.lists.len()).unwrap() + 1;
        let id = *self.lists.entry(bytes.clone()).or_insert(next);
        (bytes, id)
    }

    /// Loads the lists of these nodes.
    pub(crate) fn lists<'a>(&mut self, nodes: impl Iterator<Item = &'a ImageNode>) {
        for list in nodes.filter_map(|node| node.acl.as_ref()) {
            let (bytes, id) = self.list_id(list);
            self.loader.acl(id, RawAcls::from_encoded(&bytes).unwrap()).unwrap();
        }
    }

    pub(crate) fn node(&mut self, path: &str, node: &ImageNode) {
        let acl = node.acl.as_ref().map_or(-1, |list| self.list_id(list).1);
        self.loader.node(path, node.data.as_deref(), acl, node.stat).unwrap();
    }

    pub(crate) fn finish(self, zxid: Zxid) -> (State, Vec<String>) {
        let Self { mut loader, .. } = self;
        let unresolved = loader.take_unresolved();
        (loader.finish(zxid).unwrap(), unresolved)
    }
}
