//! Sequence numbers of sequential nodes.

use super::ANYONE;
use crate::bare_tree::BareTree;
use crate::harness::{Harness, plain};
use crate::request::{create, delete};
use ox_history::Op;

#[test]
fn only_creates_advance_the_sequence() {
    let mut harness = Harness::new(plain());
    harness.ok(ANYONE, &create("/p", 0));
    let mut next = |op: &Op| {
        harness.ok(ANYONE, op);
        harness.created()
    };
    assert_eq!(next(&create("/p/a-", 2)), "/p/a-0000000000");
    assert_eq!(next(&create("/p/plain", 0)), "/p/plain");
    assert_eq!(next(&create("/p/", 2)), "/p/0000000002");
    assert_eq!(next(&create("/p/.", 3)), "/p/.0000000003");
    harness.ok(ANYONE, &delete("/p/.0000000003"));
    assert_eq!(harness.code(ANYONE, &create("/p/plain", 0)), -110);
    harness.code(ANYONE, &Op::Multi(vec![create("/p/x", 2), delete("/missing")]));
    harness.ok(ANYONE, &create("/p/b-", 2));
    assert_eq!(harness.created(), "/p/b-0000000004");
    harness.ok(ANYONE, &create("/", 2));
    assert_eq!(harness.created(), "/0000000001");
}

/// A parent whose cversion is close to its maximum.
fn worn_out(cversion: i32) -> BareTree {
    let mut tree = BareTree::with_node("/p", cversion);
    tree.depth = 0;
    tree
}

/// cversion stays at its maximum, and pzxid no longer advances.
#[test]
fn cversion_stays_at_its_maximum() {
    let mut tree = worn_out(i32::MAX - 1);
    assert_eq!(tree.create("/p/a-", 2), Ok("/p/a-2147483646".into()));
    assert_eq!(tree.create("/p/a-", 2), Ok("/p/a-2147483647".into()));
    let stuck = tree.state.stat("/p").unwrap().pzxid;
    assert_eq!(tree.create("/p/a-", 2), Err(-110));
    assert_eq!(tree.create("/p/b-", 2), Ok("/p/b-2147483647".into()));
    assert_eq!(tree.create("/p/b-", 2), Err(-110));
    assert_eq!(tree.create("/p/plain", 0), Ok("/p/plain".into()));
    let stat = tree.state.stat("/p").unwrap();
    assert!(stat.pzxid <= stuck, "creates no longer advance pzxid");
    assert_eq!(stat.num_children, 4);
    assert_eq!(stat.cversion, i32::MAX.wrapping_mul(2).wrapping_sub(4));
}

/// Negative sequence numbers occur among creates that are prepared before the first of them is applied.
#[test]
fn sequence_wraps_while_creates_are_in_flight() {
    let mut tree = worn_out(i32::MAX);
    tree.depth = 50;
    for expected in ["2147483647", "-2147483648", "-2147483647"] {
        assert_eq!(tree.create("/p/a-", 2), Ok(format!("/p/a-{expected}")));
    }
    tree.drain();
    assert_eq!(tree.create("/p/a-", 2), Err(-110), "back at the maximum");
    let element = |path: &str| create(path, 2);
    let names = tree.multi(&[element("/p/m-"), element("/p/m-"), element("/p/m-")]);
    assert_eq!(names, ["/p/m-2147483647", "/p/m--2147483648", "/p/m--2147483647"]);
    tree.drain();
    assert_eq!(tree.state.stat("/p").unwrap().num_children, 6);
}

#[test]
fn negative_numbers_have_ten_characters() {
    let mut tree = worn_out(-5);
    assert_eq!(tree.create("/p/a", 2), Ok("/p/a-000000005".into()));
    assert_eq!(tree.create("/p/a", 2), Ok("/p/a-000000004".into()));
}

/// A recreated parent starts from zero; deleting a child does not free its number (P33).
#[test]
fn sequence_belongs_to_one_life_of_the_parent() {
    let mut harness = Harness::new(plain());
    for _ in 0..2 {
        harness.ok(ANYONE, &create("/p", 0));
        for number in ["0000000000", "0000000001"] {
            harness.ok(ANYONE, &create("/p/n", 2));
            assert_eq!(harness.created(), format!("/p/n{number}"));
            harness.ok(ANYONE, &delete(&format!("/p/n{number}")));
        }
        harness.ok(ANYONE, &delete("/p"));
    }
}
