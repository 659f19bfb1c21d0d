//! Replies to reads, and their permissions.

use super::{ANYONE, BOB, BOB_ID, SUPER, bobs, fixture};
use crate::harness::plain;
use crate::request::{body, create, entry, open, set_acl};
use ox_history::Op;

fn get_acl(path: &str) -> Op {
    Op::GetAcl { path: path.into() }
}

fn shows(reply: &[u8], text: &str) -> bool {
    reply.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn k157_password_hashes_need_admin_permission() {
    let mut harness = fixture(plain());
    let hash = &BOB_ID["bob:".len()..];
    assert_eq!(harness.read_code(ANYONE, &get_acl("/bobs")), 0);
    assert!(!shows(&harness.reply, hash) && shows(&harness.reply, "bob:x"));
    for conn in [BOB, SUPER] {
        assert_eq!(harness.read_code(conn, &get_acl("/bobs")), 0);
        assert!(shows(&harness.reply, hash));
    }
    assert_eq!(harness.read_code(ANYONE, &get_acl("/secret")), -102);
    // ADMIN alone suffices, and ids of other schemes are not masked.
    harness.ok(BOB, &set_acl("/bobs", &[entry(16, "ip", "10.0.0.1"), entry(1, "digest", BOB_ID)]));
    assert_eq!(harness.read_code(ANYONE, &get_acl("/bobs")), 0);
    assert!(shows(&harness.reply, hash) && shows(&harness.reply, "10.0.0.1"));
    assert_eq!(harness.read_code(ANYONE, &Op::GetData { path: "/bobs".into(), watch: false }), -102);
}

/// exists checks NUL, permission, existence; the others check existence before permission.
#[test]
fn reads_need_permission_on_the_node_only() {
    let mut harness = fixture(plain());
    harness.ok(BOB, &create("/secret/open", 0).with_acl(open()));
    let some = str::to_owned;
    for (path, expected) in [("/secret", -102), ("/missing", -101), ("/bobs", 0), ("/secret/open", 0)] {
        for read in [
            Op::Exists { path: some(path), watch: true },
            Op::GetData { path: some(path), watch: true },
            Op::GetChildren { path: some(path), watch: true },
            Op::GetChildren2 { path: some(path), watch: true },
            Op::GetAllChildrenNumber { path: some(path) },
            get_acl(path),
        ] {
            assert_eq!(harness.read_code(ANYONE, &read), expected, "{read:?}");
        }
    }
    // A watch on an unreadable node is registered only by an exists of a missing node.
    let watched: Vec<_> = harness.watches.data_paths().collect();
    assert_eq!(watched, ["/bobs", "/missing", "/secret/open"]);
    assert_eq!(harness.state.watches().lock().total(), harness.watches.total());
}

#[test]
fn multi_read_has_one_result_per_element() {
    let mut harness = fixture(plain());
    let children = |path: &str| Op::GetChildren { path: path.into(), watch: true };
    let data = || Op::GetData { path: "/open".into(), watch: true };
    let read = Op::MultiRead(vec![data(), children("/secret"), children("/missing")]);
    assert_eq!(harness.read_code(ANYONE, &read), 0);
    assert_eq!(harness.read_code(ANYONE, &Op::MultiRead(vec![data(), data().with_path(None)])), -5);
    assert!(20 < harness.reply.len(), "with what was gathered so far");
    assert_eq!(harness.read_code(ANYONE, &Op::MultiRead(vec![])), 0);
    assert_eq!(harness.state.watches().lock().total(), 0, "flags of elements are ignored");
    let write = Op::Multi(vec![create("/x", 0)]);
    let reply = harness.reply_raw(ANYONE, 22, &body(&write));
    assert_eq!((&reply[16..20], reply.len()), (&(-5_i32).to_be_bytes()[..], 20 + 9));
    let mixed = [&body(&write)[..body(&write).len() - 9], &body(&read)[..]].concat();
    assert_eq!(harness.reply_raw(ANYONE, 22, &mixed).len(), 20);
}

#[test]
fn cached_children_are_invalidated_by_changes() {
    let mut harness = fixture(plain());
    for at in 0..50 {
        harness.ok(ANYONE, &create(&format!("/open/{at}"), 0));
    }
    let read = Op::GetChildren { path: "/open".into(), watch: false };
    // The harness compares each list; long ones are cached.
    for at in 0..50 {
        harness.read(ANYONE, &read);
        harness.read(BOB, &read);
        harness.ok(ANYONE, &crate::request::delete(&format!("/open/{at}")));
        harness.read(ANYONE, &read);
        harness.ok(ANYONE, &create(&format!("/open/again-{at}"), 0).with_acl(Some(bobs())));
    }
    harness.compare_all();
}
