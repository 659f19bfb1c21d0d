//! Paths for random requests: mostly such that exist or could, now and then odd ones.

use super::Generator;
use crate::value::Value;

/// What replaces or follows the last element of a path to make it odd: the character classes of path validation, on both
/// sides of each bound.
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

/// Whole paths that are odd by themselves.
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

/// Watched paths that are remembered.
const WATCHED_MAX: usize = 12;

/// Where a request may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Anywhere.
    All,
    /// In one subtree, by its index.
    Tree(usize),
}

impl Generator {
    /// A path for an operation on a node.
    pub(super) fn path(&mut self, reach: Reach) -> Value {
        let roll = self.dice.below(100);
        if roll < 4 && reach == Reach::All {
            return self.odd_path();
        }
        let base = self.existing(reach);
        match roll {
            0..=8 => Value::text(format!("{base}{}", self.dice.pick(ODD_ENDS))),
            9..=10 => Value(Some([base.as_bytes(), b"/\xff"].concat())),
            11..=30 => Value::text(format!("{base}/{}", self.dice.pick(&NAMES))),
            _ => Value::text(base),
        }
    }

    /// A path that is believed to exist.
    pub(super) fn tame_path(&mut self, reach: Reach) -> Value {
        Value::text(self.existing(reach))
    }

    /// A path for a node that can probably be created.
    pub(super) fn tame_new_path(&mut self, reach: Reach) -> Value {
        let base = self.existing(reach);
        Value::text(format!("{base}/{}{}", self.dice.pick(&NAMES), self.dice.below(100)))
    }

    /// A path for a node to create.
    pub(super) fn new_path(&mut self, reach: Reach) -> Value {
        let roll = self.dice.below(100);
        if roll < 2 && reach == Reach::All {
            return self.odd_path();
        }
        let base = self.existing(reach);
        match roll {
            0..=7 => Value::text(format!("{base}{}", self.dice.pick(ODD_ENDS))),
            8..=12 => Value::text(base),
            13..=17 => Value::text(format!("{base}/{}/{}", self.dice.pick(&NAMES), self.dice.pick(&NAMES))),
            _ => Value::text(format!("{base}/{}", self.dice.pick(&NAMES))),
        }
    }

    /// A path without surprises, for watches.
    pub(super) fn plain_path(&mut self, reach: Reach) -> Value {
        let base = self.existing(reach);
        if self.dice.chance(30) { Value::text(format!("{base}/{}", self.dice.pick(&NAMES))) } else { Value::text(base) }
    }

    /// A path that somebody may watch, for questions about watches.
    pub(super) fn watched_path(&mut self, reach: Reach) -> Value {
        if reach == Reach::All && !self.watched.is_empty() && self.dice.chance(70) {
            return self.watched[self.dice.below(self.watched.len())].clone();
        }
        self.plain_path(reach)
    }

    /// Remembers a path that gets a watch.
    pub(super) fn note_watch(&mut self, path: &Value) {
        if self.watched.len() == WATCHED_MAX {
            self.watched.pop_front();
        }
        self.watched.push_back(path.clone());
    }

    fn odd_path(&mut self) -> Value {
        Value::text(self.dice.pick(ODD_PATHS))
    }

    /// A believed path, or the root of a subtree.
    pub(super) fn existing(&mut self, reach: Reach) -> String {
        let tree = match reach {
            Reach::All => self.dice.below(self.trees.len()),
            Reach::Tree(tree) => tree,
        };
        let root = &self.trees[tree];
        let paths = self.known.below(root);
        // Deep chains would grow without end otherwise.
        let paths: Vec<_> = paths.into_iter().filter(|path| path.matches('/').count() < 5).collect();
        if paths.is_empty() { root.clone() } else { (*self.dice.pick(&paths)).to_owned() }
    }
}
