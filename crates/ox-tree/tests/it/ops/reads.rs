//! Replies to reads, and their permissions.

use super::{ANYONE, BOB, BOB_ID, SUPER, bobs, fixture};
use crate::harness::plain;
use crate::model::reads::ReadOp;
use crate::request::{create, entry, open, set_acl};

fn get_acl(path: &str) -> ReadOp {
    ReadOp::GetAcl { path: Some(path.into()) }
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
    assert_eq!(harness.read_code(ANYONE, &ReadOp::GetData { path: Some("/bobs".into()), watch: false }), -102);
}

/// exists checks NUL, permission, existence; the others check existence before permission.
#[test]
fn reads_need_permission_on_the_node_only() {
    let mut harness = fixture(plain());
    harness.ok(BOB, &create("/secret/open", 0).with_acl(open()));
    let some = |path: &str| Some(path.to_owned());
    for (path, expected) in [("/secret", -102), ("/missing", -101), ("/bobs", 0), ("/secret/open", 0)] {
        for read in [
            ReadOp::Exists { path: some(path), watch: true },
            ReadOp::GetData { path: some(path), watch: true },
            ReadOp::GetChildren { path: some(path), watch: true, with_stat: false },
            ReadOp::GetChildren { path: some(path), watch: true, with_stat: true },
            ReadOp::AllChildrenNumber { path: some(path) },
            get_acl(path),
        ] {
            assert_eq!(harness.read_code(ANYONE, &read), expected, "{read:?}");
        }
    }
    // A watch on an unreadable node is registered only by an exists of a missing node.
    let watched: Vec<_> = harness.model.watches.data.keys().map(|(path, _)| path.as_str()).collect();
    assert_eq!(watched, ["/bobs", "/missing", "/secret/open"]);
    assert_eq!(harness.state.watches().lock().total(), harness.model.watches.total());
}

#[test]
fn multi_read_has_one_result_per_element() {
    let mut harness = fixture(plain());
    let some = |path: &str| Some(path.to_owned());
    let read = ReadOp::MultiRead(vec![(true, some("/open")), (false, some("/secret")), (false, some("/missing"))]);
    assert_eq!(harness.read_code(ANYONE, &read), 0);
    assert_eq!(harness.read_code(ANYONE, &ReadOp::MultiRead(vec![(true, some("/open")), (true, None)])), -5);
    assert!(20 < harness.reply.len(), "with what was gathered so far");
    assert_eq!(harness.read_code(ANYONE, &ReadOp::MultiRead(vec![])), 0);
    assert_eq!(harness.state.watches().lock().total(), 0, "flags of elements are ignored");
    let write = crate::request::Op::Multi(vec![create("/x", 0)]);
    let reply = harness.reply_raw(ANYONE, 22, &write.body());
    assert_eq!((&reply[16..20], reply.len()), (&(-5_i32).to_be_bytes()[..], 20 + 9));
    let mixed = [&write.body()[..write.body().len() - 9], &read.body()[..]].concat();
    assert_eq!(harness.reply_raw(ANYONE, 22, &mixed).len(), 20);
}

#[test]
fn cached_children_are_invalidated_by_changes() {
    let mut harness = fixture(plain());
    for at in 0..50 {
        harness.ok(ANYONE, &create(&format!("/open/{at}"), 0));
    }
    let read = ReadOp::GetChildren { path: Some("/open".into()), watch: false, with_stat: false };
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
