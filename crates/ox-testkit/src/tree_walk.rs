//! Reads the whole tree through a client, to compare two servers or the states before and after a test.

use crate::packet::RawPacket;
use crate::raw_client::RawReply;
use ox_proto::acl::RawAcls;
use ox_proto::{OpCode, Stat};
use std::collections::BTreeMap;

/// The node of the ensemble's configuration. Its Stat differs between servers.
pub const CONFIG: &str = "/zookeeper/config";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkedNode {
    /// `None` is null data, which differs from empty data.
    pub data: Option<Vec<u8>>,
    /// The encoded list, in the order of the server.
    pub acl: Vec<u8>,
    /// Compared completely, because the files contain times and zxids, too.
    pub stat: Stat,
}

/// All nodes, sorted by path.
pub type Tree = BTreeMap<String, WalkedNode>;

/// Reads all nodes by `ask`, which needs permission to read each of them.
pub(crate) fn walk(mut ask: impl FnMut(&dyn Fn(RawPacket, i32) -> RawPacket) -> RawReply) -> Tree {
    let mut tree = Tree::new();
    let mut unvisited = vec!["/".to_owned()];
    while let Some(path) = unvisited.pop() {
        let names = ask(&|packet, xid| packet.read(xid, OpCode::GetChildren, &path, false)).names();
        let prefix = if path == "/" { "" } else { path.as_str() };
        unvisited.extend(names.iter().map(|name| format!("{prefix}/{name}")));
        let reply = ask(&|packet, xid| packet.get(xid, &path));
        let acl = ask(&|packet, xid| packet.of_path(xid, OpCode::GetAcl, &path));
        let acl = acl.ok().unwrap().get::<RawAcls<'_>>().unwrap().bytes().to_vec();
        tree.insert(path, WalkedNode { data: reply.data(), acl, stat: reply.stat() });
    }
    tree
}

/// Describes each difference in one line.
pub fn differences(left: &Tree, right: &Tree) -> Vec<String> {
    let missing = left.keys().filter(|path| !right.contains_key(*path)).map(|path| format!("{path} is missing"));
    let changed = right.iter().filter_map(|(path, now)| match left.get(path) {
        None => Some(format!("{path} is new")),
        Some(before) if before != now => Some(format!("{path} was {before:?}, is {now:?}")),
        Some(_) => None,
    });
    missing.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(nodes: &[(&str, &str)]) -> Tree {
        let node = |data: &str| WalkedNode { data: Some(data.into()), acl: Vec::new(), stat: Stat::default() };
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
