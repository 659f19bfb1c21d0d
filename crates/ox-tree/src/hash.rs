//! A seeded hash for paths, so that clients cannot construct collisions.
//!
//! The constants of the hash function are derived from the seed as well. With its published constants, a path that
//! contains them would cancel whole blocks of text out of the hash, for any seed.

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use std::fmt;
use std::hash::Hasher as _;

pub(crate) struct PathHasher {
    seed: u64,
    constants: SharedSeed,
}

impl PathHasher {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, constants: SharedSeed::from_u64(seed) }
    }

    pub(crate) fn hash(&self, text: impl AsRef<[u8]>) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.constants);
        hasher.write(text.as_ref());
        hasher.finish()
    }
}

impl fmt::Debug for PathHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PathHasher(..)") // the seed is secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_seeds_give_different_hashes() {
        let (a, b) = (PathHasher::new(1), PathHasher::new(2));
        for path in ["", "/a", "/a/path/of/more/than/sixteen/bytes"] {
            assert_ne!(a.hash(path), b.hash(path), "{path}");
            assert_eq!(a.hash(path), PathHasher::new(1).hash(path), "{path}");
        }
    }
}
