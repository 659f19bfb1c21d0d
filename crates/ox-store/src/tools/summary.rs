//! Nodes and bytes by subtree.

use ox_tree::{FrozenView, SortedWalk};

/// What a subtree holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// Path of its top.
    pub path: String,
    /// Levels below the start.
    pub depth: usize,
    /// Nodes in it, the top not counted.
    pub descendants: u64,
    /// Bytes of data in it, those of the top included.
    pub bytes: u64,
}

/// Every node below `start` (and itself) that has children, in the order of the paths; at most `depth` levels down, all
/// where there is none. `None` if there is no such node. The start is there also if it has no children.
pub fn summarize(frozen: &FrozenView, start: &str, depth: Option<usize>) -> Option<Vec<Subtree>> {
    let start = start.strip_suffix('/').unwrap_or(start);
    let mut sums = Sums { depth, found: Vec::new(), open: Vec::new() };
    let mut walk = SortedWalk::default();
    while let Some(node) = walk.step(frozen) {
        let below = node.path.strip_prefix(start).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        if below.is_some() {
            sums.node(node.path, node.data.map_or(0, <[u8]>::len) as u64);
        } else if !sums.open.is_empty() {
            break; // behind the subtree
        }
    }
    sums.close(0);
    (!sums.found.is_empty()).then_some(sums.found)
}

struct Sums {
    depth: Option<usize>,
    found: Vec<Subtree>,
    /// The node being summed up, below all its ancestors.
    open: Vec<Open>,
}

struct Open {
    path: String,
    /// Its place in what was found, once it has a child.
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

    /// Finishes everything from `level` down.
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
