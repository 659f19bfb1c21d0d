//! Sequence numbers.

use super::ANYONE;
use crate::bare_tree::Direct;
use crate::request::{Op, create, delete};
use crate::harness::{World, plain};

#[test]
fn every_create_advances_the_number_and_nothing_else_does() {
    let mut world = World::new(plain());
    world.ok(ANYONE, &create("/p", 0));
    let mut next = |op: &Op| {
        world.ok(ANYONE, op);
        world.created()
    };
    assert_eq!(next(&create("/p/a-", 2)), "/p/a-0000000000");
    assert_eq!(next(&create("/p/plain", 0)), "/p/plain");
    assert_eq!(next(&create("/p/", 2)), "/p/0000000002");
    assert_eq!(next(&create("/p/.", 3)), "/p/.0000000003");
    world.ok(ANYONE, &delete("/p/.0000000003"));
    assert_eq!(world.code(ANYONE, &create("/p/plain", 0)), -110);
    world.code(ANYONE, &Op::Multi(vec![create("/p/x", 2), delete("/missing")]));
    world.ok(ANYONE, &create("/p/b-", 2));
    assert_eq!(world.created(), "/p/b-0000000004");
    world.ok(ANYONE, &create("/", 2));
    assert_eq!(world.created(), "/0000000001");
}

/// A parent whose counter is about to run out.
fn worn_out(cversion: i32) -> Direct {
    let mut direct = Direct::with_node("/p", cversion);
    direct.depth = 0;
    direct
}

/// The tree refuses a smaller counter: it sticks at the top, with pzxid.
#[test]
fn the_counter_sticks_at_its_end() {
    let mut direct = worn_out(i32::MAX - 1);
    assert_eq!(direct.create("/p/a-", 2), Ok("/p/a-2147483646".into()));
    assert_eq!(direct.create("/p/a-", 2), Ok("/p/a-2147483647".into()));
    let stuck = direct.state.stat("/p").unwrap().pzxid;
    assert_eq!(direct.create("/p/a-", 2), Err(-110));
    assert_eq!(direct.create("/p/b-", 2), Ok("/p/b-2147483647".into()));
    assert_eq!(direct.create("/p/b-", 2), Err(-110));
    assert_eq!(direct.create("/p/plain", 0), Ok("/p/plain".into()));
    let stat = direct.state.stat("/p").unwrap();
    assert!(stat.pzxid <= stuck, "creates no longer advance pzxid");
    assert_eq!(stat.num_children, 4);
    assert_eq!(stat.cversion, i32::MAX.wrapping_mul(2).wrapping_sub(4));
}

/// Negative numbers appear among creates that are prepared before the first of them is applied.
#[test]
fn numbers_wrap_while_creates_are_on_their_way() {
    let mut direct = worn_out(i32::MAX);
    direct.depth = 50;
    for expected in ["2147483647", "-2147483648", "-2147483647"] {
        assert_eq!(direct.create("/p/a-", 2), Ok(format!("/p/a-{expected}")));
    }
    direct.drain();
    assert_eq!(direct.create("/p/a-", 2), Err(-110), "back at the top");
    let element = |path: &str| create(path, 2);
    let names = direct.multi(&[element("/p/m-"), element("/p/m-"), element("/p/m-")]);
    assert_eq!(names, ["/p/m-2147483647", "/p/m--2147483648", "/p/m--2147483647"]);
    direct.drain();
    assert_eq!(direct.state.stat("/p").unwrap().num_children, 6);
}

#[test]
fn negative_numbers_have_ten_characters() {
    let mut direct = worn_out(-5);
    assert_eq!(direct.create("/p/a", 2), Ok("/p/a-000000005".into()));
    assert_eq!(direct.create("/p/a", 2), Ok("/p/a-000000004".into()));
}

/// P33: a recreated parent starts anew, a deleted child does not give its number back.
#[test]
fn numbers_belong_to_one_life_of_the_parent() {
    let mut world = World::new(plain());
    for _ in 0..2 {
        world.ok(ANYONE, &create("/p", 0));
        for number in ["0000000000", "0000000001"] {
            world.ok(ANYONE, &create("/p/n", 2));
            assert_eq!(world.created(), format!("/p/n{number}"));
            world.ok(ANYONE, &delete(&format!("/p/n{number}")));
        }
        world.ok(ANYONE, &delete("/p"));
    }
}
