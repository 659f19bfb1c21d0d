//! What reads show to whom.

use super::{ANYONE, BOB, BOB_ID, SUPER, bobs, ground};
use crate::model::reads::Ask;
use crate::request::{create, entry, open, set_acl};
use crate::harness::plain;

fn get_acl(path: &str) -> Ask {
    Ask::GetAcl { path: Some(path.into()) }
}

fn shows(answer: &[u8], text: &str) -> bool {
    answer.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn k157_hashes_are_shown_to_those_who_may_change_them() {
    let mut world = ground(plain());
    let hash = &BOB_ID["bob:".len()..];
    assert_eq!(world.asked(ANYONE, &get_acl("/bobs")), 0);
    assert!(!shows(&world.answer, hash) && shows(&world.answer, "bob:x"));
    for conn in [BOB, SUPER] {
        assert_eq!(world.asked(conn, &get_acl("/bobs")), 0);
        assert!(shows(&world.answer, hash));
    }
    assert_eq!(world.asked(ANYONE, &get_acl("/secret")), -102);
    // ADMIN alone is enough, and other schemes are not cut.
    world.ok(BOB, &set_acl("/bobs", &[entry(16, "ip", "10.0.0.1"), entry(1, "digest", BOB_ID)]));
    assert_eq!(world.asked(ANYONE, &get_acl("/bobs")), 0);
    assert!(shows(&world.answer, hash) && shows(&world.answer, "10.0.0.1"));
    assert_eq!(world.asked(ANYONE, &Ask::GetData { path: Some("/bobs".into()), watch: false }), -102);
}

/// exists: NUL, then permission, then existence; the others: existence, then permission.
#[test]
fn reads_need_permission_on_the_node_alone() {
    let mut world = ground(plain());
    world.ok(BOB, &create("/secret/open", 0).with_acl(open()));
    let some = |path: &str| Some(path.to_owned());
    for (path, expected) in [("/secret", -102), ("/missing", -101), ("/bobs", 0), ("/secret/open", 0)] {
        for ask in [
            Ask::Exists { path: some(path), watch: true },
            Ask::GetData { path: some(path), watch: true },
            Ask::GetChildren { path: some(path), watch: true, with_stat: false },
            Ask::GetChildren { path: some(path), watch: true, with_stat: true },
            Ask::AllChildrenNumber { path: some(path) },
            get_acl(path),
        ] {
            assert_eq!(world.asked(ANYONE, &ask), expected, "{ask:?}");
        }
    }
    // Only the missing node of exists is watched without having been read.
    let watched: Vec<_> = world.model.watches.data.keys().map(|(path, _)| path.as_str()).collect();
    assert_eq!(watched, ["/bobs", "/missing", "/secret/open"]);
    assert_eq!(world.state.watches().lock().total(), world.model.watches.total());
}

#[test]
fn multi_reads_answer_element_by_element() {
    let mut world = ground(plain());
    let some = |path: &str| Some(path.to_owned());
    let ask = Ask::MultiRead(vec![(true, some("/open")), (false, some("/secret")), (false, some("/missing"))]);
    assert_eq!(world.asked(ANYONE, &ask), 0);
    assert_eq!(world.asked(ANYONE, &Ask::MultiRead(vec![(true, some("/open")), (true, None)])), -5);
    assert!(20 < world.answer.len(), "with what was gathered so far");
    assert_eq!(world.asked(ANYONE, &Ask::MultiRead(vec![])), 0);
    assert_eq!(world.state.watches().lock().total(), 0, "flags of elements are ignored");
    let write = crate::request::Op::Multi(vec![create("/x", 0)]);
    let answer = world.answer_raw(ANYONE, 22, &write.body());
    assert_eq!((&answer[16..20], answer.len()), (&(-5_i32).to_be_bytes()[..], 20 + 9));
    let mixed = [&write.body()[..write.body().len() - 9], &ask.body()[..]].concat();
    assert_eq!(world.answer_raw(ANYONE, 22, &mixed).len(), 20);
}

#[test]
fn a_listing_is_forgotten_when_it_changes() {
    let mut world = ground(plain());
    for at in 0..50 {
        world.ok(ANYONE, &create(&format!("/open/{at}"), 0));
    }
    let ask = Ask::GetChildren { path: Some("/open".into()), watch: false, with_stat: false };
    // The model compares each listing; long ones come from a cache.
    for at in 0..50 {
        world.read(ANYONE, &ask);
        world.read(BOB, &ask);
        world.ok(ANYONE, &crate::request::delete(&format!("/open/{at}")));
        world.read(ANYONE, &ask);
        world.ok(ANYONE, &create(&format!("/open/again-{at}"), 0).with_acl(Some(bobs())));
    }
    world.compare_all();
}
