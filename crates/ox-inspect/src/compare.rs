//! Comparing two trees: [`differences`] node by node, [`TreeLevels`] by level and size as Apache's comparer does.

use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, SessionId, Zxid};
use ox_tree::{FrozenNode, FrozenView, SortedWalk};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// One of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeSide {
    Left,
    Right,
}

/// A node that differs between the trees.
#[derive(Clone, Debug)]
pub enum Difference<'a> {
    /// The node exists in one tree only.
    Only(TreeSide, &'a FrozenNode<'a>),
    /// The node exists in both trees.
    Changed(NodeDifference<'a>),
}

/// The data of a node; null and empty are different.
pub type Data<'a> = Option<&'a [u8]>;

/// The differences of a node that exists in both trees.
#[derive(Clone, Debug)]
pub struct NodeDifference<'a> {
    /// The root has the empty path.
    pub path: &'a str,
    /// Left and right, if they differ.
    pub data: Option<(Data<'a>, Data<'a>)>,
    /// Left and right, if they differ.
    pub acl: Option<(&'a [Acl], &'a [Acl])>,
    /// The fields of the Stat that differ.
    pub stat: Vec<StatDifference>,
    /// The node was deleted and created again between the two trees.
    pub was_recreated: bool,
}

/// A field of the Stat that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatDifference {
    /// The name in Java's `Stat`.
    pub name: &'static str,
    pub values: (i64, i64),
    /// The field is a zxid or a session id.
    pub is_hex: bool,
}

/// The numbers of equal and different nodes and sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffCounts {
    /// Nodes that are equal in both trees.
    pub same: u64,
    /// Nodes that exist in both trees and differ.
    pub changed: u64,
    pub only_left: u64,
    pub only_right: u64,
    /// Sessions that exist in one tree only.
    pub sessions: u64,
}

impl DiffCounts {
    /// Whether there is no difference.
    pub fn is_same(&self) -> bool {
        (self.changed, self.only_left, self.only_right, self.sessions) == (0, 0, 0, 0)
    }
}

/// Passes every difference to `report`, ordered by path. Without `with_stat`, only data and ACLs are compared.
pub fn differences<E>(
    left: &FrozenView,
    right: &FrozenView,
    with_stat: bool,
    mut report: impl FnMut(&Difference<'_>) -> Result<(), E>,
) -> Result<DiffCounts, E> {
    let lists = [lists(left), lists(right)];
    let (mut left_walk, mut right_walk) = (SortedWalk::default(), SortedWalk::default());
    let (mut a, mut b) = (left_walk.step(left), right_walk.step(right));
    let mut counts = DiffCounts::default();
    loop {
        let order = match (&a, &b) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => by_names(a.path, b.path),
        };
        match (order, &a, &b) {
            (Ordering::Equal, Some(a), Some(b)) => match change((a, b), &lists, with_stat) {
                Some(change) => {
                    counts.changed += 1;
                    report(&Difference::Changed(change))?;
                }
                None => counts.same += 1,
            },
            (Ordering::Less, Some(node), _) => {
                counts.only_left += 1;
                report(&Difference::Only(TreeSide::Left, node))?;
            }
            (_, _, Some(node)) => {
                counts.only_right += 1;
                report(&Difference::Only(TreeSide::Right, node))?;
            }
            (_, _, None) => break,
        }
        if order != Ordering::Greater {
            a = left_walk.step(left);
        }
        if order != Ordering::Less {
            b = right_walk.step(right);
        }
    }
    counts.sessions = other_sessions(left, right).chain(other_sessions(right, left)).count() as u64;
    Ok(counts)
}

/// The sessions of the first tree that the second does not have.
pub fn other_sessions<'a>(of: &'a FrozenView, not_of: &FrozenView) -> impl Iterator<Item = SessionId> + 'a {
    let known: std::collections::BTreeSet<SessionId> = not_of.sessions().iter().map(|(id, _)| *id).collect();
    of.sessions().iter().map(|(id, _)| *id).filter(move |id| !known.contains(id))
}

/// The node with the members of the ensemble.
const CONFIG_NODE: &str = "/zookeeper/config";

/// The order of a sorted walk, which compares element by element, so that a subtree stays together.
fn by_names(a: &str, b: &str) -> Ordering {
    a.split('/').cmp(b.split('/'))
}

fn lists(frozen: &FrozenView) -> BTreeMap<i64, &[Acl]> {
    frozen.acls().collect()
}

fn change<'a>(
    (left, right): (&FrozenNode<'a>, &FrozenNode<'a>),
    lists: &'a [BTreeMap<i64, &[Acl]>; 2],
    with_stat: bool,
) -> Option<NodeDifference<'a>> {
    let data = (left.data != right.data).then_some((left.data, right.data));
    let list = |side: usize, id: i64| lists[side].get(&id).copied().unwrap_or(&[]);
    let (left_list, right_list) = (list(0, left.acl), list(1, right.acl));
    let acl = (left_list != right_list).then_some((left_list, right_list));
    let stat = if with_stat { fields(left.path, &left.stat, &right.stat) } else { Vec::new() };
    let was_recreated = left.stat.czxid != right.stat.czxid;
    let differs = data.is_some() || acl.is_some() || !stat.is_empty();
    differs.then_some(NodeDifference { path: left.path, data, acl, stat, was_recreated })
}

fn fields(path: &str, left: &StatPersisted, right: &StatPersisted) -> Vec<StatDifference> {
    let hex = |name, a: Zxid, b: Zxid| StatDifference { name, values: (a.0, b.0), is_hex: true };
    let number = |name, a: i64, b: i64| StatDifference { name, values: (a, b), is_hex: false };
    let all = [
        hex("czxid", left.czxid, right.czxid),
        hex("mzxid", left.mzxid, right.mzxid),
        hex("pzxid", left.pzxid, right.pzxid),
        number("ctime", left.ctime, right.ctime),
        number("mtime", left.mtime, right.mtime),
        number("version", left.version.into(), right.version.into()),
        number("cversion", left.cversion.into(), right.cversion.into()),
        number("aversion", left.aversion.into(), right.aversion.into()),
        StatDifference { name: "ephemeralOwner", values: (left.ephemeral_owner, right.ephemeral_owner), is_hex: true },
    ];
    // Each member writes the configuration by its own clock when it loads it.
    let is_meant = |field: &StatDifference| path != CONFIG_NODE || field.name != "mtime";
    all.into_iter().filter(|field| field.values.0 != field.values.1 && is_meant(field)).collect()
}

/// A node with the size of its subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtreeSize {
    /// The root has the empty path.
    pub path: String,
    /// The bytes of data in the subtree, including the node's own.
    pub bytes: i64,
    /// The number of nodes in the subtree, without the node itself.
    pub descendants: i64,
}

/// A tree by levels, each ordered by path.
#[derive(Clone, Debug, Default)]
pub struct TreeLevels(pub Vec<Vec<SubtreeSize>>);

impl TreeLevels {
    pub fn new(frozen: &FrozenView) -> Self {
        let mut layers = Self::default();
        let mut walk = SortedWalk::default();
        // The newest node of each level is the ancestor of the following nodes.
        while let Some(node) = walk.step(frozen) {
            let depth = node.path.matches('/').count();
            if layers.0.len() <= depth {
                layers.0.push(Vec::new());
            }
            let bytes = i64::try_from(node.data.map_or(0, <[u8]>::len)).unwrap_or(i64::MAX);
            for above in layers.0[..depth].iter_mut().filter_map(|layer| layer.last_mut()) {
                above.bytes += bytes;
                above.descendants += 1;
            }
            layers.0[depth].push(SubtreeSize { path: node.path.to_owned(), bytes, descendants: 0 });
        }
        layers.0.iter_mut().for_each(|layer| layer.sort_unstable_by(|a, b| a.path.cmp(&b.path)));
        layers
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    pub fn bytes(&self) -> i64 {
        self.0.first().and_then(|layer| layer.first()).map_or(0, |root| root.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_the_configuration_node_is_each_members_own() {
        let at = |mtime, version| StatPersisted { mtime, version, ..StatPersisted::default() };
        let names = |path| -> Vec<&str> { fields(path, &at(1, 1), &at(2, 2)).iter().map(|field| field.name).collect() };
        assert_eq!(names("/app"), ["mtime", "version"]);
        assert_eq!(names(CONFIG_NODE), ["version"]);
    }
}
