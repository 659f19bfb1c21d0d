//! Number of nodes and bytes by subtree.

use ox_tree::{FrozenView, SortedWalk};

/// The size of a subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// The path of its root.
    pub path: String,
    /// The number of levels below the start.
    pub depth: usize,
    /// The number of nodes, without the root of the subtree.
    pub descendants: u64,
    /// The bytes of data, including those of the root of the subtree.
    pub bytes: u64,
}

/// All nodes with children at or below `start`, ordered by path, at most `depth` levels down, or at any depth if it is
/// `None`. The start is included even without children. Returns `None` if the start does not exist.
pub fn summarize(frozen: &FrozenView, start: &str, depth: Option<usize>) -> Option<Vec<Subtree>> {
    let start = start.strip_suffix('/').unwrap_or(start);
    let mut sums = Sums { depth, found: Vec::new(), open: Vec::new() };
    let mut walk = SortedWalk::default();
    while let Some(node) = walk.step(frozen) {
        let below = node.path.strip_prefix(start).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        if below.is_some() {
            sums.node(node.path, node.data.map_or(0, <[u8]>::len) as u64);
        } else if !sums.open.is_empty() {
            break; // after the subtree
        }
    }
    sums.close(0);
    (!sums.found.is_empty()).then_some(sums.found)
}

struct Sums {
    depth: Option<usize>,
    found: Vec<Subtree>,
    /// The current node and its ancestors, outermost first.
    open: Vec<Open>,
}

struct Open {
    path: String,
    /// The index in `found`, once the node has a child.
    index: Option<usize>,
    descendants: u64,
    bytes: u64,
}

impl Sums {
    fn node(&mut self, path: &str, bytes: u64) {
        let parent = path.rfind('/').map_or("", |cut| &path[..cut]);
        let level = self.open.iter().rposition(|open| open.path == parent && open.path != path).map_or(0, |at| at + 1);
        self.close(level);
        let parent_depth = self.open.len();
        if let Some(parent) = self.open.last_mut()
            && parent.index.is_none()
            && self.depth.is_none_or(|depth| parent_depth <= depth + 1)
        {
            parent.index = Some(self.found.len());
            self.found.push(Subtree { path: String::new(), depth: parent_depth - 1, descendants: 0, bytes: 0 });
        }
        self.open.push(Open { path: path.to_owned(), index: None, descendants: 0, bytes });
    }

    /// Completes the subtrees from `level` down.
    fn close(&mut self, level: usize) {
        while level < self.open.len() {
            let Some(done) = self.open.pop() else { break };
            if let Some(parent) = self.open.last_mut() {
                parent.descendants += done.descendants + 1;
                parent.bytes += done.bytes;
            }
            let Open { path, descendants, bytes, index } = done;
            let path = if path.is_empty() { "/".to_owned() } else { path };
            match index {
                Some(index) => self.found[index] = Subtree { path, descendants, bytes, ..self.found[index].clone() },
                None if self.open.is_empty() => self.found.push(Subtree { path, depth: 0, descendants, bytes }),
                None => (),
            }
        }
    }
}
