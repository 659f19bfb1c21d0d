//! The paths that each operation accepts.

use super::{ANYONE, SUPER, fixture};
use crate::harness::plain;
use crate::request::{check, create, delete, set_acl, set_data};
use ox_history::Op;

/// Invalid paths, with the code of a delete, which checks less.
const BAD: [(&str, i32); 15] = [
    ("", -8),
    ("x", -8),
    ("open", -8),
    ("/open/", -101),
    ("//", -101),
    ("//open", -101),
    ("/open//child", -101),
    ("/.", -101),
    ("/open/.", -101),
    ("/open/..", -101),
    ("/./open", -101),
    ("/open/\0", -8),
    ("/open/\u{7f}", -101),
    ("/open/\u{fffd}", -101),
    ("/open/\u{1f600}", -101),
];

#[test]
fn invalid_paths_are_refused_by_operation() {
    for (path, of_delete) in BAD {
        let acl = super::bobs();
        for (op, expected) in [
            (set_data(path, "x"), -8),
            (set_acl(path, &acl), -8),
            (Op::Multi(vec![check(path, -1)]), -8),
            (delete(path), of_delete),
        ] {
            assert_eq!(fixture(plain()).code(SUPER, &op), expected, "{op:?}");
        }
        let mut harness = fixture(plain());
        let found = if path.is_empty() { 0 } else { -101 };
        let of_exists = if path.contains('\0') { -8 } else { found };
        let some = || path.to_owned();
        assert_eq!(harness.read_code(SUPER, &Op::Exists { path: some(), watch: false }), of_exists, "{path:?}");
        assert_eq!(harness.read_code(SUPER, &Op::GetData { path: some(), watch: false }), found, "{path:?}");
        assert_eq!(harness.read_code(SUPER, &Op::GetAcl { path: some() }), found, "{path:?}");
        let children = Op::GetChildren2 { path: some(), watch: false };
        assert_eq!(harness.read_code(SUPER, &children), found, "{path:?}");
        assert_eq!(harness.read_code(SUPER, &Op::GetAllChildrenNumber { path: some() }), found, "{path:?}");
        assert_eq!(harness.read_code(SUPER, &Op::Sync { path: some() }), 0);
        assert_eq!(harness.read_code(SUPER, &Op::AddWatch { path: some(), mode: 1 }), 0);
    }
}

#[test]
fn unusual_valid_names_are_accepted() {
    let mut harness = fixture(plain());
    for name in ["...", "b..", ".b", " ", "\u{a0}", "\u{d7ff}", "\u{f900}", "\u{ffef}", "é", "a b", "zookeeper"] {
        let path = format!("/open/{name}");
        harness.ok(ANYONE, &create(&path, 0));
        harness.ok(ANYONE, &set_data(&path, "x"));
        harness.ok(ANYONE, &delete(&path));
    }
    let long = format!("/{}", "n".repeat(100_000));
    harness.ok(ANYONE, &create(&long, 0));
    assert_eq!(harness.read_code(ANYONE, &Op::GetData { path: long, watch: false }), 0);
    harness.compare_all();
}

#[test]
fn root_has_two_names_in_reads() {
    let mut harness = fixture(plain());
    let count = |harness: &mut crate::harness::Harness, path: &str| {
        assert_eq!(harness.read_code(ANYONE, &Op::GetAllChildrenNumber { path: path.into() }), 0);
        i32::from_be_bytes(harness.reply[20..24].try_into().unwrap())
    };
    assert_eq!(count(&mut harness, "") - count(&mut harness, "/"), 1);
    assert_eq!(usize::try_from(count(&mut harness, "/")).unwrap(), harness.model.nodes().len() - 1);
    assert_eq!(harness.read_code(ANYONE, &Op::GetData { path: String::new(), watch: true }), 0);
    harness.ok(ANYONE, &set_data("/", "x"));
    assert_eq!(harness.events(ANYONE), [], "the alias is watched but never fires");
}

/// A path that fills a frame: the deepest tree is walked without recursion.
#[test]
fn deep_trees_are_walked_without_recursion() {
    let mut harness = crate::harness::Harness::new(plain());
    let mut loader = ox_tree::Loader::new(plain().options());
    let stat = ox_proto::stat::StatPersisted::default();
    loader.node("", Some(b""), -1, stat).unwrap();
    let deep = "/d".repeat(3000);
    for depth in 1..=3000 {
        loader.node(&deep[..2 * depth], None, -1, stat).unwrap();
    }
    harness.state = loader.finish(ox_proto::Zxid(0)).unwrap();
    assert_eq!(harness.state.node_count(), 3002);
    assert!(harness.state.stat(&deep).is_some());
    let mut visited = 0;
    let count = |_: ox_tree::FrozenNode<'_>| {
        visited += 1;
        Ok::<(), ()>(())
    };
    harness.state.freeze().for_each_node(count).unwrap();
    assert_eq!(visited, 3001);
    // A delete that overrides the tree removes all descendants.
    let header = ox_proto::txn::TxnHeader {
        session: ox_proto::SessionId(0),
        cxid: 0,
        zxid: ox_proto::Zxid(1),
        time_ms: 0,
        kind: 2,
    };
    let txn = ox_proto::txn::Txn::Delete { path: "/d".into() };
    harness.state.replay(&ox_proto::txn::Record { header, txn, digest: None });
    assert_eq!(harness.state.node_count(), 2);
}
