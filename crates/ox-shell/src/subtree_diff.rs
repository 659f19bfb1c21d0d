//! Two subtrees side by side.
//!
//! Both are walked in the same order at the same time, as one merges two sorted lists, so nothing is held but the two nodes that
//! are compared.

use crate::walk::{Look, Seen, Walk};
use ox_client::{Client, Error};
use std::cmp::Ordering;

/// How two subtrees differ in one place.
#[derive(Debug)]
pub(crate) enum Difference {
    OnlyFirst(Seen),
    OnlySecond(Seen),
    Changed(Box<Change>),
    /// Nobody knows, for this reason.
    Denied(String),
}

/// A node that is otherwise in the second subtree.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) first: Seen,
    pub(crate) second: Seen,
    /// `data`, `acl`, `kind`.
    pub(crate) what: Vec<&'static str>,
}

/// A comparison on its way.
pub(crate) struct Compare {
    first: Side,
    second: Side,
    /// What is below this place cannot be seen on one side, so it is not compared.
    hidden: Option<String>,
}

struct Side {
    root: String,
    walk: Walk,
    /// The next node.
    next: Option<Seen>,
}

impl Side {
    fn new(client: &Client, root: &str, look: Look, left_out: Option<&str>) -> Self {
        Self { root: root.to_owned(), walk: Walk::new(client, root, look).without(left_out), next: None }
    }

    async fn fill(&mut self) -> Result<(), Error> {
        if self.next.is_none() {
            self.next = self.walk.next().await?;
        }
        Ok(())
    }

    fn place(&self) -> Option<&str> {
        self.next.as_ref().map(|seen| below(&self.root, &seen.path))
    }
}

/// Where a node is, seen from a node above it: empty for that node itself, else with a slash before each name.
pub(crate) fn below<'a>(root: &str, path: &'a str) -> &'a str {
    match root {
        "/" if path == "/" => "",
        "/" => path,
        root => path.strip_prefix(root).unwrap_or(path),
    }
}

/// The path of a place below a node.
pub(crate) fn at(root: &str, below: &str) -> String {
    match (root, below) {
        (root, "") => root.to_owned(),
        ("/", below) => below.to_owned(),
        (root, below) => format!("{root}{below}"),
    }
}

/// Whether a node is another one or below it.
pub(crate) fn is_within(path: &str, root: &str) -> bool {
    root == "/" || path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Compare {
    /// Of a pair of nodes; `look` says whether access control lists are compared. `left_out` is not looked at on either side.
    pub(crate) fn new(client: &Client, pair: (&str, &str), look: Look, left_out: (Option<&str>, Option<&str>)) -> Self {
        let first = Side::new(client, pair.0, look, left_out.0);
        Self { first, second: Side::new(client, pair.1, look, left_out.1), hidden: None }
    }

    /// The next difference.
    pub(crate) async fn next(&mut self) -> Result<Option<Difference>, Error> {
        loop {
            self.first.fill().await?;
            self.second.fill().await?;
            let order = match (self.first.place(), self.second.place()) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(first), Some(second)) => first.split('/').cmp(second.split('/')),
            };
            let first = if order.is_le() { self.first.next.take() } else { None };
            let second = if order.is_ge() { self.second.next.take() } else { None };
            if let Some(difference) = self.judge(first, second) {
                return Ok(Some(difference));
            }
        }
    }

    fn judge(&mut self, first: Option<Seen>, second: Option<Seen>) -> Option<Difference> {
        let place = match (&first, &second) {
            (Some(seen), _) => below(&self.first.root, &seen.path),
            (None, Some(seen)) => below(&self.second.root, &seen.path),
            (None, None) => return None,
        };
        let is_hidden = self.hidden.as_ref().is_some_and(|hidden| is_within(place, hidden) || hidden.is_empty());
        let denied = [&first, &second].into_iter().flatten().find_map(|seen| seen.denied.clone());
        if let Some(reason) = denied {
            self.hidden = Some(place.to_owned());
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

fn changed(first: Seen, second: Seen) -> Option<Difference> {
    let mut what = Vec::new();
    if (first.node.is_null, &first.node.data) != (second.node.is_null, &second.node.data) {
        what.push("data");
    }
    if first.acl != second.acl {
        what.push("acl");
    }
    // Two ephemeral nodes are of one kind, whosever they are.
    if first.owner().is_some() != second.owner().is_some() {
        what.push("kind");
    }
    (!what.is_empty()).then(|| Difference::Changed(Box::new(Change { first, second, what })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (root, path, place) in [("/", "/", ""), ("/", "/a", "/a"), ("/a", "/a", ""), ("/a", "/a/b", "/b")] {
            assert_eq!(below(root, path), place);
            assert_eq!(at(root, place), path);
        }
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", "/"));
        assert!(!is_within("/ab", "/a") && !is_within("/", "/a"));
    }
}
