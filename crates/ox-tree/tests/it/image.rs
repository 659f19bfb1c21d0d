//! The complete contents of a state, in a form that can be compared and printed.

use crate::model::{Model, Node, Stored};
use ox_tree::{FrozenView, State};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Image {
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) sessions: Vec<(i64, i32)>,
    pub(crate) ephemerals: BTreeMap<i64, Vec<String>>,
    pub(crate) zxid: i64,
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
        let lists: BTreeMap<i64, Stored> = frozen
            .acls()
            .map(|(id, list)| {
                let stored = list.iter().map(|acl| (acl.perms, acl.scheme.to_string(), acl.id.to_string()));
                (id, stored.collect())
            })
            .collect();
        assert_eq!(lists.len(), frozen.acl_count());
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        let visited = frozen.for_each_node(|node| {
            if let Some((parent, _)) = node.path.rsplit_once('/') {
                assert!(nodes.contains_key(parent), "{} before its parent", node.path);
            }
            let stat = node.stat;
            let seen = Node {
                data: node.data.map(<[u8]>::to_vec),
                acl: (node.acl != -1).then(|| lists[&node.acl].clone()),
                czxid: stat.czxid.0,
                mzxid: stat.mzxid.0,
                pzxid: stat.pzxid.0,
                ctime: stat.ctime,
                mtime: stat.mtime,
                version: stat.version,
                cversion: stat.cversion,
                aversion: stat.aversion,
                owner: stat.ephemeral_owner,
            };
            assert!(nodes.insert(node.path.to_owned(), seen).is_none(), "{} twice", node.path);
            Ok::<(), ()>(())
        });
        visited.unwrap();
        assert_eq!(nodes.len(), frozen.node_count());
        Self {
            nodes,
            sessions: frozen.sessions().iter().map(|(id, timeout)| (id.0, *timeout)).collect(),
            ephemerals: BTreeMap::new(),
            zxid: frozen.last_zxid().0,
        }
    }

    /// Without the usage in quota nodes, which may drift and is recounted whenever a snapshot is loaded.
    pub(crate) fn without_usage(mut self) -> Self {
        let is_usage = |path: &str| path.starts_with("/zookeeper/quota") && path.ends_with("/zookeeper_stats");
        self.nodes.iter_mut().filter(|(path, _)| is_usage(path)).for_each(|(_, node)| node.data = None);
        self
    }

    pub(crate) fn of_model(model: &Model) -> Self {
        let mut ephemerals: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for (path, node) in model.nodes.iter().filter(|(_, node)| Model::is_ephemeral(node.owner)) {
            ephemerals.entry(node.owner).or_default().push(path.clone());
        }
        Self {
            nodes: model.nodes.clone(),
            sessions: model.sessions.iter().map(|(id, timeout)| (*id, *timeout)).collect(),
            ephemerals,
            zxid: model.zxid,
        }
    }
}
