//! The nodes that a run works on.
//!
//! ```text
//! ROOT                      marked with MARK as its data
//! ROOT/p00007/k00001234     keys, key K below parent K mod PARENTS, never added or removed by a load
//! ROOT/c00007/n0000...      nodes that create and delete work on
//! ```
//! All numbers have a fixed width, so that a request frame is a template with digits to fill in.

/// The data of a root created by this tool; roots without it are never deleted.
pub const MARK: &[u8] = b"made by oxkeeper bench";

/// Digits of a parent's number.
pub const PARENT_DIGITS: usize = 5;
/// Digits of a key's number.
pub const KEY_DIGITS: usize = 8;
/// Digits of the number of a created node.
pub const NODE_DIGITS: usize = 16;

/// Number and location of the nodes.
#[derive(Clone, Debug)]
pub struct TreeLayout {
    pub root: String,
    /// Number of parents, at least 1.
    pub parents: u32,
    /// Number of keys, at least 1.
    pub keys: u32,
    /// Size of every node's data.
    pub data_bytes: usize,
}

impl TreeLayout {
    pub fn parent_of(&self, key: u32) -> u32 {
        key % self.parents
    }

    pub fn parent_path(&self, parent: u32) -> String {
        format!("{}/p{parent:0PARENT_DIGITS$}", self.root)
    }

    pub fn key_path(&self, key: u32) -> String {
        format!("{}/k{key:0KEY_DIGITS$}", self.parent_path(self.parent_of(key)))
    }

    /// Path of a parent of created nodes.
    pub fn create_parent_path(&self, parent: u32) -> String {
        format!("{}/c{parent:0PARENT_DIGITS$}", self.root)
    }

    /// Path of a created node.
    pub fn node_path(&self, parent: u32, number: u64) -> String {
        format!("{}/n{number:0NODE_DIGITS$}", self.create_parent_path(parent))
    }

    pub fn data(&self) -> Vec<u8> {
        vec![b'x'; self.data_bytes]
    }
}

/// Writes `number` in decimal over all of `place`.
pub fn put_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit is below ten");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_fixed_width_numbers() {
        let layout = TreeLayout { root: "/b".into(), parents: 10, keys: 100, data_bytes: 0 };
        assert_eq!(layout.key_path(42), "/b/p00002/k00000042");
        assert_eq!(layout.node_path(3, 7), "/b/c00003/n0000000000000007");
        let mut place = *b"k????????";
        put_digits(&mut place[1..], 1234);
        assert_eq!(&place, b"k00001234");
    }
}
