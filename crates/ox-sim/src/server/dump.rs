//! Dumps a server's state in the form that `ox-history` checks.

use ox_history::{Dump, DumpNode};
use ox_proto::Acl;
use ox_tree::State;
use std::collections::BTreeMap;
use std::convert::Infallible;

pub(crate) fn dump(state: &State, name: String) -> Dump {
    let frozen = state.freeze();
    let lists: BTreeMap<i64, Vec<Acl>> = frozen.acls().map(|(id, list)| (id, list.to_vec())).collect();
    let open = vec![Acl::new(31, "world", "anyone")];
    let mut nodes = BTreeMap::new();
    let walked = frozen.for_each_node(|node| {
        let path = if node.path.is_empty() { "/" } else { node.path };
        let data = node.data.map(<[u8]>::to_vec);
        let acl = lists.get(&node.acl).unwrap_or(&open).clone();
        let stat = state.stat(path).expect("a listed node exists");
        nodes.insert(path.to_owned(), DumpNode { data, acl, stat });
        Ok::<(), Infallible>(())
    });
    match walked {
        Ok(()) => (),
        Err(never) => match never {},
    }
    Dump { name, zxid: frozen.last_zxid(), nodes, sessions: frozen.sessions().iter().copied().collect() }
}
