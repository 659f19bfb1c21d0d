//! Paths for random requests: mostly existing or possible ones, sometimes odd ones.

use super::Generator;
use crate::value::FieldValue;

/// Last elements that make a path odd: the character classes of path validation, on both targets of each bound.
const ODD_ENDS: &[&str] = &[
    "/",
    "//x",
    "/.",
    "/..",
    "/...",
    "/./x",
    "/../x",
    "/.x",
    "/x.",
    "/..x",
    "/x..",
    "/\0",
    "/x\0y",
    "/\u{1}",
    "/\u{1f}",
    "/\u{20}",
    "/\u{7e}",
    "/\u{7f}",
    "/\u{9f}",
    "/\u{a0}",
    "/\u{d7ff}",
    "/\u{e000}",
    "/\u{f8ff}",
    "/\u{f900}",
    "/\u{ffef}",
    "/\u{fff0}",
    "/\u{fffd}",
    "/\u{ffff}",
    "/\u{1f600}",
    "/\u{e9}",
    "/ x",
    "/x/",
    "/x//",
];

/// Complete paths that are odd.
const ODD_PATHS: &[&str] = &[
    "",
    "/",
    "//",
    ".",
    "a",
    "a/b",
    "/.",
    "/..",
    "/zookeeper",
    "/zookeeper/quota",
    "/zookeeper/config",
    "/zookeeper/",
];

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e-", "long.name_1"];

/// Number of watched paths to remember.
const WATCHED_MAX: usize = 12;

/// The part of the tree that a request may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// One subtree, by index.
    Tree(usize),
}

impl Generator {
    /// A path for an operation on a node.
    pub(super) fn path(&mut self, scope: Scope) -> FieldValue {
        let roll = self.rng.index(100);
        if roll < 4 && scope == Scope::All {
            return self.odd_path();
        }
        let base = self.existing(scope);
        match roll {
            0..=8 => FieldValue::text(format!("{base}{}", self.rng.pick(ODD_ENDS))),
            9..=10 => FieldValue(Some([base.as_bytes(), b"/\xff"].concat())),
            11..=30 => FieldValue::text(format!("{base}/{}", self.rng.pick(&NAMES))),
            _ => FieldValue::text(base),
        }
    }

    /// A path that probably exists.
    pub(super) fn probable_path(&mut self, scope: Scope) -> FieldValue {
        FieldValue::text(self.existing(scope))
    }

    /// A path that can probably be created.
    pub(super) fn probable_new_path(&mut self, scope: Scope) -> FieldValue {
        let base = self.existing(scope);
        FieldValue::text(format!("{base}/{}{}", self.rng.pick(&NAMES), self.rng.index(100)))
    }

    /// A path for a node to create.
    pub(super) fn new_path(&mut self, scope: Scope) -> FieldValue {
        let roll = self.rng.index(100);
        if roll < 2 && scope == Scope::All {
            return self.odd_path();
        }
        let base = self.existing(scope);
        match roll {
            0..=7 => FieldValue::text(format!("{base}{}", self.rng.pick(ODD_ENDS))),
            8..=12 => FieldValue::text(base),
            13..=17 => FieldValue::text(format!("{base}/{}/{}", self.rng.pick(&NAMES), self.rng.pick(&NAMES))),
            _ => FieldValue::text(format!("{base}/{}", self.rng.pick(&NAMES))),
        }
    }

    /// A valid path, for watches.
    pub(super) fn plain_path(&mut self, scope: Scope) -> FieldValue {
        let base = self.existing(scope);
        if self.rng.chance(300) {
            FieldValue::text(format!("{base}/{}", self.rng.pick(&NAMES)))
        } else {
            FieldValue::text(base)
        }
    }

    /// A path that a session may be watching, for requests about watches.
    pub(super) fn watched_path(&mut self, scope: Scope) -> FieldValue {
        if scope == Scope::All && !self.watched.is_empty() && self.rng.chance(700) {
            return self.watched[self.rng.index(self.watched.len())].clone();
        }
        self.plain_path(scope)
    }

    /// Remembers a path that gets a watch.
    pub(super) fn note_watch(&mut self, path: &FieldValue) {
        if self.watched.len() == WATCHED_MAX {
            self.watched.pop_front();
        }
        self.watched.push_back(path.clone());
    }

    fn odd_path(&mut self) -> FieldValue {
        FieldValue::text(self.rng.pick(ODD_PATHS))
    }

    /// An assumed path, or the root of a subtree.
    pub(super) fn existing(&mut self, scope: Scope) -> String {
        let tree = match scope {
            Scope::All => self.rng.index(self.trees.len()),
            Scope::Tree(tree) => tree,
        };
        let root = &self.trees[tree];
        let paths = self.known.below(root);
        // Limits the depth of the tree.
        let paths: Vec<_> = paths.into_iter().filter(|path| path.matches('/').count() < 5).collect();
        if paths.is_empty() { root.clone() } else { (*self.rng.pick(&paths)).to_owned() }
    }
}
