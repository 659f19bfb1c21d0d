//! Two trees beside each other: [`differences`] node by node, [`Layers`] by level and size as Apache's comparer does.

use ox_proto::stat::StatPersisted;
use ox_proto::{Acl, SessionId, Zxid};
use ox_tree::{FrozenNode, FrozenView, SortedWalk};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Which of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    Left,
    /// The second.
    Right,
}

/// A node that is not the same on both sides.
#[derive(Clone, Debug)]
pub enum Difference<'a> {
    /// It is on one side only.
    Only(Side, &'a FrozenNode<'a>),
    /// It is on both.
    Changed(Change<'a>),
}

/// What a node holds; null and nothing are two things.
pub type Data<'a> = Option<&'a [u8]>;

/// What differs about a node.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// Its path, that of the root empty.
    pub path: &'a str,
    /// Data, if it differs.
    pub data: Option<(Data<'a>, Data<'a>)>,
    /// Access control lists, if they differ.
    pub acl: Option<(&'a [Acl], &'a [Acl])>,
    /// Fields of the metadata that differ, with both values.
    pub stat: Vec<Field>,
    /// It was deleted and created again in between.
    pub is_another: bool,
}

/// A field of the metadata that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// As Java names it.
    pub name: &'static str,
    /// Left and right.
    pub values: (i64, i64),
    /// It is a zxid or a session.
    pub is_hex: bool,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Nodes on both sides without a difference.
    pub same: u64,
    /// Nodes on both sides with one.
    pub changed: u64,
    /// Nodes on the left only.
    pub only_left: u64,
    /// Nodes on the right only.
    pub only_right: u64,
    /// Sessions on one side only.
    pub sessions: u64,
}

impl Tally {
    /// No difference at all.
    pub fn is_same(&self) -> bool {
        (self.changed, self.only_left, self.only_right, self.sessions) == (0, 0, 0, 0)
    }
}

/// Hands every difference to `tell`, in the order of the paths. With `with_stat` false only data and lists count.
pub fn differences<E>(
    left: &FrozenView,
    right: &FrozenView,
    with_stat: bool,
    mut tell: impl FnMut(&Difference<'_>) -> Result<(), E>,
) -> Result<Tally, E> {
    let lists = [lists(left), lists(right)];
    let (mut left_walk, mut right_walk) = (SortedWalk::default(), SortedWalk::default());
    let (mut a, mut b) = (left_walk.step(left), right_walk.step(right));
    let mut tally = Tally::default();
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
                    tally.changed += 1;
                    tell(&Difference::Changed(change))?;
                }
                None => tally.same += 1,
            },
            (Ordering::Less, Some(node), _) => {
                tally.only_left += 1;
                tell(&Difference::Only(Side::Left, node))?;
            }
            (_, _, Some(node)) => {
                tally.only_right += 1;
                tell(&Difference::Only(Side::Right, node))?;
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
    tally.sessions = other_sessions(left, right).chain(other_sessions(right, left)).count() as u64;
    Ok(tally)
}

/// Sessions of the one tree that the other has not.
pub fn other_sessions<'a>(of: &'a FrozenView, not_of: &FrozenView) -> impl Iterator<Item = SessionId> + 'a {
    let known: std::collections::BTreeSet<SessionId> = not_of.sessions().iter().map(|(id, _)| *id).collect();
    of.sessions().iter().map(|(id, _)| *id).filter(move |id| !known.contains(id))
}

/// The order of a walk: names are compared one by one, so that a subtree stays together.
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
) -> Option<Change<'a>> {
    let data = (left.data != right.data).then_some((left.data, right.data));
    let list = |side: usize, id: i64| lists[side].get(&id).copied().unwrap_or(&[]);
    let (left_list, right_list) = (list(0, left.acl), list(1, right.acl));
    let acl = (left_list != right_list).then_some((left_list, right_list));
    let stat = if with_stat { fields(&left.stat, &right.stat) } else { Vec::new() };
    let is_another = left.stat.czxid != right.stat.czxid;
    let differs = data.is_some() || acl.is_some() || !stat.is_empty();
    differs.then_some(Change { path: left.path, data, acl, stat, is_another })
}

fn fields(left: &StatPersisted, right: &StatPersisted) -> Vec<Field> {
    let hex = |name, a: Zxid, b: Zxid| Field { name, values: (a.0, b.0), is_hex: true };
    let number = |name, a: i64, b: i64| Field { name, values: (a, b), is_hex: false };
    let all = [
        hex("czxid", left.czxid, right.czxid),
        hex("mzxid", left.mzxid, right.mzxid),
        hex("pzxid", left.pzxid, right.pzxid),
        number("ctime", left.ctime, right.ctime),
        number("mtime", left.mtime, right.mtime),
        number("version", left.version.into(), right.version.into()),
        number("cversion", left.cversion.into(), right.cversion.into()),
        number("aversion", left.aversion.into(), right.aversion.into()),
        Field { name: "ephemeralOwner", values: (left.ephemeral_owner, right.ephemeral_owner), is_hex: true },
    ];
    all.into_iter().filter(|field| field.values.0 != field.values.1).collect()
}

/// A node with the size of what is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sized {
    /// Its path, that of the root empty.
    pub path: String,
    /// Bytes of data in its subtree, its own included.
    pub bytes: i64,
    /// Nodes in its subtree, itself not counted.
    pub descendants: i64,
}

/// A tree by levels, each in the order of the paths.
#[derive(Clone, Debug, Default)]
pub struct Layers(pub Vec<Vec<Sized>>);

impl Layers {
    /// Of a tree.
    pub fn new(frozen: &FrozenView) -> Self {
        let mut layers = Self::default();
        let mut walk = SortedWalk::default();
        // Each level's newest node is the one above what comes.
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
            layers.0[depth].push(Sized { path: node.path.to_owned(), bytes, descendants: 0 });
        }
        layers.0.iter_mut().for_each(|layer| layer.sort_unstable_by(|a, b| a.path.cmp(&b.path)));
        layers
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Bytes of data.
    pub fn bytes(&self) -> i64 {
        self.0.first().and_then(|layer| layer.first()).map_or(0, |root| root.bytes)
    }
}
