//! Reads the whole tree through a client, to compare two servers or the states before and after a test.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use ox_proto::acl::RawAcls;
use ox_proto::request::{PathRequest, PathWatch, Text};
use ox_proto::{OpCode, Stat};

use super::wire::WireClient;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// `None` is null data, which differs from empty data.
    pub(crate) data: Option<Vec<u8>>,
    /// The encoded list, in the order of the server.
    pub(crate) acl: Vec<u8>,
    /// Compared completely, because the files contain times and zxids, too.
    pub(crate) stat: Stat,
}

/// All nodes, sorted by path.
pub(crate) type Tree = BTreeMap<String, Node>;

/// Reads all nodes. The client needs permission to read each of them.
pub(crate) fn walk(client: &mut WireClient) -> Result<Tree> {
    let mut tree = Tree::new();
    let mut unvisited = vec!["/".to_owned()];
    while let Some(path) = unvisited.pop() {
        let children = children(client, &path).with_context(|| format!("list {path}"))?;
        let prefix = if path == "/" { "" } else { path.as_str() };
        unvisited.extend(children.iter().map(|name| format!("{prefix}/{name}")));
        let node = node(client, &path).with_context(|| format!("read {path}"))?;
        tree.insert(path, node);
    }
    Ok(tree)
}

/// Describes each difference in one line.
pub(crate) fn differences(left: &Tree, right: &Tree) -> Vec<String> {
    let missing = left.keys().filter(|path| !right.contains_key(*path)).map(|path| format!("{path} is missing"));
    let changed = right.iter().filter_map(|(path, now)| match left.get(path) {
        None => Some(format!("{path} is new")),
        Some(before) if before != now => Some(format!("{path} was {before:?}, is {now:?}")),
        Some(_) => None,
    });
    missing.chain(changed).collect()
}

fn children(client: &mut WireClient, path: &str) -> Result<Vec<String>> {
    let reply = client.call(OpCode::GetChildren2, &PathWatch { path: Some(path.into()), watch: false })?;
    let names: Option<Vec<Text<'_>>> = reply.body()?.get()?;
    Ok(names.unwrap_or_default().into_iter().flatten().map(String::from).collect())
}

fn node(client: &mut WireClient, path: &str) -> Result<Node> {
    let reply = client.call(OpCode::GetData, &PathWatch { path: Some(path.into()), watch: false })?;
    let mut body = reply.body()?;
    let data = body.get::<Option<&[u8]>>()?.map(<[u8]>::to_vec);
    let stat = body.get()?;
    let reply = client.call(OpCode::GetAcl, &PathRequest { path: Some(path.into()) })?;
    let acl = reply.body()?.get::<RawAcls<'_>>()?.bytes().to_vec();
    Ok(Node { data, acl, stat })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(nodes: &[(&str, &str)]) -> Tree {
        let node = |data: &str| Node { data: Some(data.into()), acl: Vec::new(), stat: Stat::default() };
        nodes.iter().map(|(path, data)| ((*path).to_owned(), node(data))).collect()
    }

    #[test]
    fn differences_name_missing_new_and_changed_nodes() {
        let before = tree(&[("/", ""), ("/gone", ""), ("/same", "x"), ("/set", "1")]);
        let after = tree(&[("/", ""), ("/new", ""), ("/same", "x"), ("/set", "2")]);
        let lines = differences(&before, &after);
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].as_str(), lines[1].as_str()), ("/gone is missing", "/new is new"));
        assert!(lines[2].starts_with("/set was"));
        assert_eq!(differences(&before, &before), Vec::<String>::new());
    }
}
