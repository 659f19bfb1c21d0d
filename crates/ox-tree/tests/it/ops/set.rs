//! setData, setACL and check (versions and ACLs).

use super::{ANYONE, BOB, SUPER, bobs, check_codes, check_codes_while_closing, fixture};
use crate::harness::{Harness, plain};
use crate::request::{check, delete, entry, open, set_acl, set_data};
use ox_history::Op;

fn alone(op: Op) -> Op {
    Op::Multi(vec![op])
}

#[test]
fn set_data_checks_run_in_order() {
    check_codes_while_closing(&[(set_data("x", ""), -112), (set_data("/open", ""), -112)]);
    let long = "longer than the quota allows";
    check_codes(&[
        (set_data("x", ""), -8),
        (set_data("/missing", "").at_version(7), -101),
        (set_data("/q/child", long), -102),          // permission before quota
        (set_data("/bobs", "").at_version(7), -102), // permission before version
        (set_data("/q", long).at_version(7), -125),  // quota before version
        (set_data("/open", "").at_version(7), -103),
        (set_data("/open", "").at_version(0), 0),
        (set_data("/", "root"), 0),
        (set_data("/zookeeper", "x"), 0),
        (set_data("/zookeeper/config", "x"), -102),
    ]);
}

#[test]
fn set_acl_checks_run_in_order() {
    let none = |op: Op| op.with_acl(Some(vec![]));
    check_codes_while_closing(&[(set_acl("x", &bobs()), -112), (none(set_acl("/open", &[])), -112)]);
    check_codes(&[
        (none(set_acl("x", &[])), -8),          // path before list
        (none(set_acl("/missing", &[])), -114), // list before existence
        (none(set_acl("/bobs", &[])), -114),    // list before permission
        (set_acl("/missing", &bobs()).at_version(7), -101),
        (set_acl("/bobs", &bobs()).at_version(7), -102), // permission before version
        (set_acl("/open", &bobs()).at_version(7), -103),
        (set_acl("/open", &bobs()).at_version(0), 0),
        (set_acl("/", &open().unwrap()), 0),
        (set_acl("/zookeeper/config", &bobs()), -102),
    ]);
}

#[test]
fn check_checks_run_in_order() {
    check_codes_while_closing(&[(alone(check("x", 0)), -112)]);
    check_codes(&[
        (alone(check("x", 0)), -8),
        (alone(check("/missing", 0)), -101),
        (alone(check("/secret", 7)), -102), // permission before version
        (alone(check("/open", 7)), -103),
        (alone(check("/open", 0)), 0),
        (alone(check("/", -1)), 0),
    ]);
}

#[test]
fn k73_versions_skip_minus_one() {
    let mut harness = Harness::new(plain());
    harness.ok(ANYONE, &crate::request::create("/v", 0));
    for (from, to) in [(-2, 0), (i32::MAX, i32::MIN), (i32::MIN, i32::MIN + 1), (-3, -2), (0, 1)] {
        let node = harness.model.node_mut("/v").unwrap();
        (node.version, node.aversion) = (from, from);
        harness.reload();
        harness.ok(ANYONE, &set_data("/v", "x").at_version(from));
        harness.ok(ANYONE, &set_acl("/v", &open().unwrap()).at_version(from));
        let stat = harness.state.stat("/v").unwrap();
        assert_eq!((stat.version, stat.aversion), (to, to));
    }
    assert_eq!(harness.code(ANYONE, &delete("/v").at_version(-2)), -103);
}

#[test]
fn k163_acls_are_stored_unchanged() {
    let odd = vec![
        entry(0, "world", "anyone"),
        entry(-1, "world", "anyone"),
        entry(1 << 20, "digest", "a:b"),
        entry(1, "ip", "10.0.0.0/24"),
        entry(1, "world", "anyone"),
    ];
    let mut harness = Harness::new(plain());
    harness.ok(BOB, &crate::request::create("/n", 0).with_acl(Some(odd.clone())));
    let stored = |harness: &Harness| harness.model.nodes()["/n"].acl.clone().unwrap();
    assert_eq!(stored(&harness).len(), odd.len());
    harness.compare_all();
    harness.reload();
    harness.compare_all();
    harness.ok(BOB, &set_acl("/n", &odd[..1]));
    assert_eq!(harness.code(BOB, &set_data("/n", "x")), -102, "a world entry without bits grants nothing");
    harness.ok(SUPER, &set_acl("/n", &odd));
    harness.compare_all();
}

#[test]
fn set_acl_fires_no_watches_and_changes_only_aversion() {
    let mut harness = fixture(plain());
    let read = Op::AddWatch { path: "/".into(), mode: 1 };
    assert_eq!(harness.read_code(BOB, &read), 0);
    let before = harness.state.stat("/open").unwrap();
    harness.ok(ANYONE, &set_acl("/open", &bobs()));
    let after = harness.state.stat("/open").unwrap();
    assert_eq!(after, ox_proto::Stat { aversion: 1, ..before });
    assert_eq!(harness.events(BOB), []);
}
