//! Comparison of two subtrees.
//!
//! Both subtrees are walked in the same order at the same time, like merging two sorted lists, so that only the two
//! current nodes are held in memory.

use crate::walk::{NodeFields, VisitedNode, Walk};
use ox_client::{Client, Error};
use std::cmp::Ordering;

/// A difference between two subtrees.
#[derive(Debug)]
pub(crate) enum Difference {
    OnlyFirst(VisitedNode),
    OnlySecond(VisitedNode),
    Changed(Box<NodeChange>),
    /// Not comparable, for this reason.
    Denied(String),
}

/// A node that exists in both subtrees and differs.
#[derive(Debug)]
pub(crate) struct NodeChange {
    pub(crate) first: VisitedNode,
    pub(crate) second: VisitedNode,
    /// The parts that differ: `data`, `acl`, `kind`.
    pub(crate) what: Vec<&'static str>,
}

/// A comparison in progress.
pub(crate) struct SubtreeDiff {
    first: Side,
    second: Side,
    /// The subtree at this path is unreadable on one side and is not compared.
    hidden: Option<String>,
}

struct Side {
    root: String,
    walk: Walk,
    /// The next node that is not compared yet.
    next: Option<VisitedNode>,
}

impl Side {
    fn new(client: &Client, root: &str, fields: NodeFields, excluded: Option<&str>) -> Self {
        Self { root: root.to_owned(), walk: Walk::new(client, root, fields).without(excluded), next: None }
    }

    async fn fill(&mut self) -> Result<(), Error> {
        if self.next.is_none() {
            self.next = self.walk.next().await?;
        }
        Ok(())
    }

    fn relative_path(&self) -> Option<&str> {
        self.next.as_ref().map(|visited| below(&self.root, &visited.path))
    }
}

/// The path of a node relative to an ancestor: empty for the ancestor itself, otherwise with a leading slash.
pub(crate) fn below<'a>(root: &str, path: &'a str) -> &'a str {
    match root {
        "/" if path == "/" => "",
        "/" => path,
        root => path.strip_prefix(root).unwrap_or(path),
    }
}

/// The inverse of [`below`]: the absolute path.
pub(crate) fn at(root: &str, below: &str) -> String {
    match (root, below) {
        (root, "") => root.to_owned(),
        ("/", below) => below.to_owned(),
        (root, below) => format!("{root}{below}"),
    }
}

/// Whether `path` is `root` or a descendant of it.
pub(crate) fn is_within(path: &str, root: &str) -> bool {
    root == "/" || path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl SubtreeDiff {
    /// Starts to compare a pair of nodes; `fields` selects whether ACLs are compared. `excluded` is skipped on either
    /// side.
    pub(crate) fn new(
        client: &Client,
        pair: (&str, &str),
        fields: NodeFields,
        excluded: (Option<&str>, Option<&str>),
    ) -> Self {
        let first = Side::new(client, pair.0, fields, excluded.0);
        Self { first, second: Side::new(client, pair.1, fields, excluded.1), hidden: None }
    }

    /// Returns the next difference, `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Difference>, Error> {
        loop {
            self.first.fill().await?;
            self.second.fill().await?;
            let order = match (self.first.relative_path(), self.second.relative_path()) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(first), Some(second)) => first.split('/').cmp(second.split('/')),
            };
            let first = if order.is_le() { self.first.next.take() } else { None };
            let second = if order.is_ge() { self.second.next.take() } else { None };
            if let Some(difference) = self.classify(first, second) {
                return Ok(Some(difference));
            }
        }
    }

    fn classify(&mut self, first: Option<VisitedNode>, second: Option<VisitedNode>) -> Option<Difference> {
        let relative_path = match (&first, &second) {
            (Some(visited), _) => below(&self.first.root, &visited.path),
            (None, Some(visited)) => below(&self.second.root, &visited.path),
            (None, None) => return None,
        };
        let is_hidden =
            self.hidden.as_ref().is_some_and(|hidden| is_within(relative_path, hidden) || hidden.is_empty());
        let denied = [&first, &second].into_iter().flatten().find_map(VisitedNode::denial);
        if let Some(reason) = denied {
            self.hidden = Some(relative_path.to_owned());
            return Some(Difference::Denied(reason));
        }
        match (first, second) {
            (Some(first), Some(second)) => changed(first, second),
            _ if is_hidden => None,
            (Some(first), None) => Some(Difference::OnlyFirst(first)),
            (None, Some(second)) => Some(Difference::OnlySecond(second)),
            (None, None) => None,
        }
    }
}

fn changed(first: VisitedNode, second: VisitedNode) -> Option<Difference> {
    let mut what = Vec::new();
    if (first.node.is_null, &first.node.data) != (second.node.is_null, &second.node.data) {
        what.push("data");
    }
    if first.acl != second.acl {
        what.push("acl");
    }
    // Two ephemeral nodes are of the same kind, whichever sessions own them.
    if first.owner().is_some() != second.owner().is_some() {
        what.push("kind");
    }
    (!what.is_empty()).then(|| Difference::Changed(Box::new(NodeChange { first, second, what })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_round_trip() {
        for (root, path, relative_path) in [("/", "/", ""), ("/", "/a", "/a"), ("/a", "/a", ""), ("/a", "/a/b", "/b")] {
            assert_eq!(below(root, path), relative_path);
            assert_eq!(at(root, relative_path), path);
        }
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", "/"));
        assert!(!is_within("/ab", "/a") && !is_within("/", "/a"));
    }
}
