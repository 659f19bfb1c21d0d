//! Which paths each operation takes.

use super::{ANYONE, SUPER, ground};
use crate::model::reads::Ask;
use crate::request::{Op, check, create, delete, set_acl, set_data};
use crate::harness::plain;

/// Paths that are invalid for writes, with what a delete says to them: it looks less closely.
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
fn bad_paths_by_operation() {
    for (path, of_delete) in BAD {
        let acl = super::bobs();
        for (op, expected) in [
            (set_data(path, "x"), -8),
            (set_acl(path, &acl), -8),
            (Op::Multi(vec![check(path, -1)]), -8),
            (delete(path), of_delete),
        ] {
            assert_eq!(ground(plain()).code(SUPER, &op), expected, "{op:?}");
        }
        let mut world = ground(plain());
        let found = if path.is_empty() { 0 } else { -101 };
        let of_exists = if path.contains('\0') { -8 } else { found };
        let some = || Some(path.to_owned());
        assert_eq!(world.asked(SUPER, &Ask::Exists { path: some(), watch: false }), of_exists, "{path:?}");
        assert_eq!(world.asked(SUPER, &Ask::GetData { path: some(), watch: false }), found, "{path:?}");
        assert_eq!(world.asked(SUPER, &Ask::GetAcl { path: some() }), found, "{path:?}");
        let children = Ask::GetChildren { path: some(), watch: false, with_stat: true };
        assert_eq!(world.asked(SUPER, &children), found, "{path:?}");
        assert_eq!(world.asked(SUPER, &Ask::AllChildrenNumber { path: some() }), found, "{path:?}");
        assert_eq!(world.asked(SUPER, &Ask::Sync { path: some() }), 0);
        assert_eq!(world.asked(SUPER, &Ask::AddWatch { path: some(), mode: 1 }), 0);
    }
}

#[test]
fn odd_but_good_names() {
    let mut world = ground(plain());
    for name in ["...", "b..", ".b", " ", "\u{a0}", "\u{d7ff}", "\u{f900}", "\u{ffef}", "é", "a b", "zookeeper"] {
        let path = format!("/open/{name}");
        world.ok(ANYONE, &create(&path, 0));
        world.ok(ANYONE, &set_data(&path, "x"));
        world.ok(ANYONE, &delete(&path));
    }
    let long = format!("/{}", "n".repeat(100_000));
    world.ok(ANYONE, &create(&long, 0));
    assert_eq!(world.asked(ANYONE, &Ask::GetData { path: Some(long), watch: false }), 0);
    world.compare_all();
}

#[test]
fn the_root_has_two_names_for_reads() {
    let mut world = ground(plain());
    let count = |world: &mut crate::harness::World, path: &str| {
        assert_eq!(world.asked(ANYONE, &Ask::AllChildrenNumber { path: Some(path.into()) }), 0);
        i32::from_be_bytes(world.answer[20..24].try_into().unwrap())
    };
    assert_eq!(count(&mut world, "") - count(&mut world, "/"), 1);
    assert_eq!(usize::try_from(count(&mut world, "/")).unwrap(), world.model.nodes.len() - 1);
    assert_eq!(world.asked(ANYONE, &Ask::GetData { path: Some(String::new()), watch: true }), 0);
    world.ok(ANYONE, &set_data("/", "x"));
    assert_eq!(world.events(ANYONE), [], "the alias is watched but never fires");
}

/// A million levels would need a path of two million bytes; what fits a frame is walked without recursion.
#[test]
fn deep_trees_are_walked_without_recursion() {
    let mut world = crate::harness::World::new(plain());
    let mut loader = ox_tree::Loader::new(plain().options());
    let stat = ox_proto::stat::StatPersisted::default();
    loader.node("", Some(b""), -1, stat).unwrap();
    let deep = "/d".repeat(3000);
    for depth in 1..=3000 {
        loader.node(&deep[..2 * depth], None, -1, stat).unwrap();
    }
    world.state = loader.finish(ox_proto::Zxid(0)).unwrap();
    assert_eq!(world.state.node_count(), 3002);
    assert!(world.state.stat(&deep).is_some());
    let mut visited = 0;
    let count = |_: ox_tree::FrozenNode<'_>| {
        visited += 1;
        Ok::<(), ()>(())
    };
    world.state.freeze().for_each_node(count).unwrap();
    assert_eq!(visited, 3001);
    // A delete that overrules the tree takes everything below with it.
    let header = ox_proto::txn::TxnHeader {
        session: ox_proto::SessionId(0),
        cxid: 0,
        zxid: ox_proto::Zxid(1),
        time_ms: 0,
        kind: 2,
    };
    let txn = ox_proto::txn::Txn::Delete { path: "/d".into() };
    world.state.replay(&ox_proto::txn::Record { header, txn, digest: None });
    assert_eq!(world.state.node_count(), 2);
}
