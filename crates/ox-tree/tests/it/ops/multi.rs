use super::{ANYONE, BOB, SUPER, fixture, secret};
use crate::harness::{Harness, Setup, plain};
use crate::request::{body, check, container, create, create_ttl, create2, delete, open, set_acl, set_data};
use ox_history::Op;
use ox_history::model::Owner;
use ox_proto::OpCode;
use ox_proto::txn::{Record, Txn};

/// The types of the results of a multi, -1 for errors.
fn result_types(harness: &Harness) -> Vec<i32> {
    let reply = harness.replies.last().unwrap();
    let int = |at: usize| i32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
    let (mut at, mut types) = (20, Vec::new());
    while reply[at + 4] == 0 {
        let kind = int(at);
        types.push(kind);
        let path_bytes = || 4 + usize::try_from(int(at + 9)).unwrap();
        at += 9 + match kind {
            1 => path_bytes(),
            15 => path_bytes() + 68,
            5 => 68,
            2 | 13 => 0,
            -1 => 4,
            other => panic!("type {other}"),
        };
    }
    assert_eq!(reply[at..], [0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff]);
    types
}

fn children<'a>(harness: &'a Harness, path: &str) -> Vec<&'a str> {
    harness.model.nodes()[path].children().collect()
}

/// Inside a multi the flags determine the kind of node, unlike in single requests.
#[test]
fn flags_determine_the_kind_of_elements() {
    type Make = fn(i32) -> Op;
    let makes: [(Make, i32); 3] =
        [(|flags| create("/n", flags), 1), (|flags| create2("/n", flags), 15), (|flags| container("/n", flags), 15)];
    for (make, result) in makes {
        for flags in -1..9 {
            let mut harness = Harness::new(plain());
            let op = Op::Multi(vec![make(flags)]);
            let expected = if (0..=4).contains(&flags) { 0 } else { -5 };
            assert_eq!(harness.code(ANYONE, &op), expected, "{op:?}");
            if expected == 0 {
                assert_eq!(result_types(&harness), [if flags == 4 { 15 } else { result }], "{op:?}");
            } else {
                assert_eq!(harness.replies.last().unwrap().len(), 20, "no body");
            }
            assert_eq!(harness.state.last_zxid().0, harness.zxid, "a zxid is taken either way");
        }
    }
    for (flags, ttl, expected) in
        [(0, -1, Ok(1)), (1, 0, Ok(1)), (2, 5, Ok(1)), (3, 5, Ok(1)), (4, 5, Ok(15)), (5, 5, Ok(15)), (6, 5, Ok(15))]
            .into_iter()
            .chain([(5, 0, Err(-8)), (6, 1 << 40, Err(-8)), (7, 5, Err(-8)), (-1, 5, Err(-8))])
    {
        let mut harness = Harness::new(plain());
        let code = harness.code(ANYONE, &Op::Multi(vec![create_ttl("/n", flags, ttl)]));
        let actual = if code == 0 { Ok(result_types(&harness)[0]) } else { Err(code) };
        assert_eq!(actual, expected, "flags {flags} ttl {ttl}");
        let is_container = harness.model.nodes().get("/n").is_some_and(|node| node.owner == Owner::Container);
        assert_eq!(is_container, flags == 4);
    }
}

#[test]
fn k70_results_have_the_order_of_elements() {
    let mut harness = fixture(plain());
    harness.ok(
        ANYONE,
        &Op::Multi(vec![
            create("/a", 0),
            create2("/b", 2),
            container("/c", 4),
            create_ttl("/t", 5, 9),
            delete("/open/child"),
            set_data("/open", "x"),
            check("/open", 1),
        ]),
    );
    assert_eq!(result_types(&harness), [1, 15, 15, 15, 2, 5, 13]);
    assert_eq!(harness.code(ANYONE, &Op::Multi(vec![create("/d", 0), delete("/missing"), create("/e", 0)])), -101);
    assert_eq!(result_types(&harness), [-1, -1, -1]);
    harness.ok(ANYONE, &Op::Multi(vec![]));
    assert_eq!(result_types(&harness), []);
}

/// Elements that are not allowed in a multi, or cannot be decoded.
#[test]
fn invalid_elements_fail_the_whole_multi() {
    let read = Op::Broken(OpCode::GetData);
    let good = create("/a", 0);
    for (elements, takes_zxid) in [
        (vec![good.clone(), set_acl("/open", &open().unwrap())], true),
        (vec![good.clone(), read], true),
        (vec![Op::Broken(OpCode::DeleteContainer)], true),
        (vec![Op::Broken(OpCode::Error)], true),
        (vec![Op::Multi(vec![])], true),
        (vec![good.clone(), create("/b", 7)], true),
        (vec![good.clone(), create("/b", 5)], true),
        (vec![good.clone(), delete("/b").with_path(None)], true),
        (vec![good.clone(), create("/b", 0).with_acl(None)], false),
        (vec![good.clone(), container("/b", 0).with_acl(None)], false),
    ] {
        let mut harness = Harness::new(plain());
        let before = harness.state.last_zxid().0;
        let op = Op::Multi(elements);
        assert_eq!(harness.code(ANYONE, &op), -5, "{op:?}");
        assert_eq!(harness.replies.last().unwrap().len(), 20, "no body");
        assert_eq!(harness.state.last_zxid().0 - before, i64::from(takes_zxid), "{op:?}");
        assert!(harness.state.stat("/a").is_none());
    }
    // A list without an end cannot be decoded; bytes after the end are ignored.
    let mut harness = Harness::new(plain());
    let body = body(&Op::Multi(vec![good]));
    assert_eq!(harness.prepared_raw(ANYONE, 14, &body[..body.len() - 9]), Some((-1, -5)));
    assert_eq!(harness.prepared_raw(ANYONE, 14, &[&body[..], b"more"].concat()), Some((14, 0)));
}

/// A failed multi is logged with the elements before the failure, and has no effect.
#[test]
fn failed_multi_is_logged_without_effect() {
    let mut harness = Harness::new(plain());
    let before = harness.state.digest();
    harness.code(ANYONE, &Op::Multi(vec![create("/a", 0), create("/missing/b", 0), create("/c", 0)]));
    let record = Record::decode(harness.history.last().unwrap()).unwrap();
    let Txn::Multi(elements) = &record.txn else { panic!("a multi") };
    assert!(matches!(elements[..], [Txn::Create(_), Txn::Error { err: -101 }, Txn::Error { err: -2 }]));
    assert_eq!(record.digest.unwrap().tree_digest, before);
    assert_eq!(harness.state.digest(), before);
}

#[test]
fn elements_see_earlier_elements() {
    let mut harness = Harness::new(plain());
    harness.ok(
        ANYONE,
        &Op::Multi(vec![
            create("/a", 0),
            create("/a/q-", 2),
            create("/a/q-", 2),
            set_data("/a", "1").at_version(0),
            check("/a", 1),
            delete("/a/q-0000000000"),
            create("/a/q-", 2),
        ]),
    );
    assert_eq!(children(&harness, "/a"), ["q-0000000001", "q-0000000002"]);
    assert_eq!(harness.code(ANYONE, &Op::Multi(vec![delete("/a/q-0000000001"), delete("/a")])), -111);
    harness.ok(ANYONE, &Op::Multi(vec![delete("/a/q-0000000001"), delete("/a/q-0000000002"), delete("/a")]));
    harness.compare_all();
}

#[test]
fn k71_failed_multi_leaves_earlier_changes_in_flight_intact() {
    let mut harness = Harness::new(Setup { depth: 50, ..plain() });
    harness.write(ANYONE, &create("/p", 0));
    harness.write(ANYONE, &set_data("/p", "1"));
    harness.write(ANYONE, &create("/p/q-", 3));
    // Changes every node with a pending change, and fails at the end.
    harness.write(
        ANYONE,
        &Op::Multi(vec![
            set_data("/p", "2"),
            create("/p/q-", 3),
            delete("/p/q-0000000000"),
            create("/p/other", 1),
            delete("/missing"),
        ]),
    );
    harness.write(ANYONE, &set_data("/p", "3").at_version(1));
    harness.write(ANYONE, &create("/p/q-", 2));
    harness.close(ANYONE);
    harness.drain();
    assert_eq!(children(&harness, "/p"), ["q-0000000001"], "no ephemeral of the failed one, numbers go on");
    assert_eq!(harness.state.stat("/p").unwrap().version, 2);
    harness.compare_all();
}

#[test]
fn k75_k158_multi_checks_permissions_and_refusals_have_no_effect() {
    let elements = || {
        [
            create("/secret/x", 0),
            create2("/secret/x", 1),
            container("/secret/x", 4),
            create_ttl("/secret/x", 5, 9),
            delete("/secret/child"),
            set_data("/secret", "x"),
            check("/secret", -1),
        ]
    };
    for element in elements() {
        let mut harness = fixture(plain());
        harness.ok(BOB, &create("/secret/child", 0).with_acl(Some(secret())));
        let (digest, sequence) = (harness.state.digest(), harness.model.nodes()["/secret"].created);
        let op = Op::Multi(vec![create("/before", 1), element.clone(), create("/after", 0)]);
        assert_eq!(harness.code(ANYONE, &op), -102, "{element:?}");
        assert_eq!((harness.state.digest(), harness.model.nodes()["/secret"].created), (digest, sequence));
        assert_eq!(harness.state.ephemerals_of(harness.conns[ANYONE].session).count(), 0);
        harness.compare_all();
        harness.ok(BOB, &op);
        harness.compare_all();
    }
    let mut harness = fixture(plain());
    harness.ok(SUPER, &Op::Multi(vec![set_data("/secret", "x"), check("/secret", 1)]));
}
