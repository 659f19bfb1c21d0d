//! What lies below each top-level node, and the largest nodes and parents: metrics for operators.
//!
//! The numbers are computed by walking a frozen view, which needs no lock and costs requests nothing.

use crate::frozen_view::FrozenView;
use crate::node::NodeId;
use crate::slab::FrozenSlab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nodes between two calls of the pause.
const NODES_PER_PAUSE: usize = 4096;
/// Bytes of a reply besides data or names: header, length or count, and Stat.
const REPLY_BYTES: u64 = 16 + 4 + 68;
/// Bytes of a name besides its text.
const NAME_BYTES: u64 = 4;

/// How many entries a [`TreeUsage`] has.
#[derive(Clone, Copy, Debug)]
pub struct UsageLimits {
    pub top_level: usize,
    pub parents: usize,
}

/// The size of a tree, by top-level node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeUsage {
    /// Those with the most nodes, largest first.
    pub top_level: Vec<TopLevelUsage>,
    /// The nodes with the most children and their number, largest first.
    pub parents: Vec<(String, u64)>,
    /// The node with the largest reply to getData, and the bytes of that reply.
    pub largest_data: (String, u64),
    /// The node with the largest reply to getChildren2, and the bytes of that reply.
    pub largest_list: (String, u64),
}

/// A top-level node and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopLevelUsage {
    pub path: String,
    pub nodes: u64,
    /// Bytes of paths and data, as in `approximate_data_size`.
    pub bytes: u64,
}

/// The children of one parent, while they are visited.
struct Level {
    parent: NodeId,
    next: NodeId,
    /// Length of the parent's path.
    path_bytes: u64,
    children: u64,
    name_bytes: u64,
}

/// The largest of many, by size.
struct Largest<T> {
    max: usize,
    heap: BinaryHeap<Reverse<(u64, T)>>,
}

impl<T: Ord> Largest<T> {
    fn new(max: usize) -> Self {
        Self { max, heap: BinaryHeap::new() }
    }

    fn note(&mut self, size: u64, item: T) {
        if self.heap.len() < self.max {
            self.heap.push(Reverse((size, item)));
        } else if let Some(mut smallest) = self.heap.peek_mut().filter(|smallest| smallest.0.0 < size) {
            *smallest = Reverse((size, item));
        }
    }

    fn finish(self) -> impl Iterator<Item = (u64, T)> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(entry)| entry)
    }
}

impl FrozenView {
    /// Measures the tree. Calls `pause` after every few thousand nodes, to limit the load; it returns false to stop.
    pub fn usage(&self, limits: UsageLimits, mut pause: impl FnMut() -> bool) -> Option<TreeUsage> {
        let slab = self.slab();
        let mut top_level = Largest::new(limits.top_level);
        let mut parents = Largest::new(limits.parents);
        let (mut largest_data, mut largest_list) = ((0, NodeId::ROOT), (0, NodeId::ROOT));
        let (mut nodes, mut bytes, mut visited) = (0, 0, 0);
        let mut open = vec![Level::below(slab, NodeId::ROOT, 0)];
        while let Some(level) = open.last_mut() {
            let id = level.next;
            if id == NodeId::NONE {
                let done = open.pop().expect("just seen");
                if 0 < done.children {
                    parents.note(done.children, done.parent);
                    largest_list = largest_list.max((done.name_bytes, done.parent));
                }
                if open.len() == 1 {
                    top_level.note(std::mem::take(&mut nodes), (std::mem::take(&mut bytes), done.parent));
                }
                continue;
            }
            let node = slab.get(id);
            let name_bytes = node.name().len() as u64;
            let (path_bytes, data_bytes) = (level.path_bytes + 1 + name_bytes, node.data_length() as u64);
            level.next = node.next;
            level.children += 1;
            level.name_bytes += NAME_BYTES + name_bytes;
            nodes += 1;
            bytes += path_bytes + data_bytes;
            largest_data = largest_data.max((data_bytes, id));
            // A leaf at the top level is closed as an empty level.
            if node.first_child != NodeId::NONE || open.len() == 1 {
                open.push(Level::below(slab, id, path_bytes));
            }
            visited += 1;
            if visited % NODES_PER_PAUSE == 0 && !pause() {
                return None;
            }
        }
        let of = |(bytes, id): (u64, NodeId)| (path_of(slab, id), bytes + REPLY_BYTES);
        Some(TreeUsage {
            top_level: top_level
                .finish()
                .map(|(nodes, (bytes, id))| TopLevelUsage { path: path_of(slab, id), nodes, bytes })
                .collect(),
            parents: parents.finish().map(|(children, id)| (path_of(slab, id), children)).collect(),
            largest_data: of(largest_data),
            largest_list: of(largest_list),
        })
    }
}

impl Level {
    fn below(slab: &FrozenSlab, parent: NodeId, path_bytes: u64) -> Self {
        Self { parent, next: slab.get(parent).first_child, path_bytes, children: 0, name_bytes: 0 }
    }
}

fn path_of(slab: &FrozenSlab, id: NodeId) -> String {
    let (mut names, mut at) = (Vec::new(), id);
    while at != NodeId::ROOT {
        let node = slab.get(at);
        names.push(node.name_text());
        at = node.parent;
    }
    let path: String = names.iter().rev().flat_map(|name| ["/", name]).collect();
    if path.is_empty() { "/".to_owned() } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Loader, TreeOptions};
    use ox_proto::Zxid;
    use ox_proto::stat::StatPersisted;

    const LIMITS: UsageLimits = UsageLimits { top_level: 2, parents: 2 };

    fn frozen(nodes: &[(&str, usize)]) -> FrozenView {
        let mut loader = Loader::new(TreeOptions::default());
        let stat = StatPersisted::default();
        for (path, bytes) in [("", 0)].iter().chain(nodes) {
            loader.node(path, Some(&vec![1; *bytes]), -1, stat).unwrap();
        }
        loader.finish(Zxid(1)).unwrap().freeze()
    }

    #[test]
    fn usage_counts_nodes_and_bytes_below_each_top_level_node() {
        let frozen = frozen(&[
            ("/app", 0),
            ("/app/a", 10),
            ("/app/a/x", 1),
            ("/app/a/y", 0),
            ("/app/a/zz", 0),
            ("/app/b", 0),
            ("/leaf", 3),
            ("/z", 0),
            ("/z/0", 100),
        ]);
        let usage = frozen.usage(LIMITS, || true).unwrap();
        let of = |path: &str, nodes, bytes| TopLevelUsage { path: path.to_owned(), nodes, bytes };
        assert_eq!(usage.top_level[0], of("/app", 6, 4 + 6 + 10 + 8 + 1 + 8 + 9 + 6));
        let mut parents = usage.parents.clone();
        parents.sort();
        assert_eq!(parents, [("/".to_owned(), 3), ("/app/a".to_owned(), 3)]);
        assert_eq!(usage.largest_data, ("/z/0".to_owned(), 100 + REPLY_BYTES));
        let all = frozen.usage(UsageLimits { top_level: 1024, parents: 0 }, || true).unwrap();
        assert!(all.parents.is_empty());
        assert!(all.top_level.contains(&of("/leaf", 1, 5 + 3)) && all.top_level.contains(&of("/z", 2, 2 + 4 + 100)));
        let nodes: u64 = all.top_level.iter().map(|top| top.nodes).sum();
        assert_eq!(nodes + 1, frozen.node_count() as u64, "all but the root");
    }

    #[test]
    fn only_the_largest_are_kept() {
        let paths: Vec<String> = (0..40)
            .flat_map(|at| {
                let children = (0..at).map(move |child| format!("/t{at:02}/{child}"));
                std::iter::once(format!("/t{at:02}")).chain(children)
            })
            .collect();
        let nodes: Vec<(&str, usize)> = paths.iter().map(|path| (path.as_str(), 0)).collect();
        let usage = frozen(&nodes).usage(LIMITS, || true).unwrap();
        let names: Vec<&str> = usage.top_level.iter().map(|top| top.path.as_str()).collect();
        assert_eq!(names, ["/t39", "/t38"]);
    }

    #[test]
    fn walk_ends_when_the_pause_says_so() {
        let paths: Vec<String> = (0..10_000).map(|at| format!("/{at}")).collect();
        let nodes: Vec<(&str, usize)> = paths.iter().map(|path| (path.as_str(), 0)).collect();
        let frozen = frozen(&nodes);
        let mut pauses = 0;
        assert!(
            frozen
                .usage(LIMITS, || {
                    pauses += 1;
                    pauses < 2
                })
                .is_none()
        );
        assert_eq!(pauses, 2);
    }
}
