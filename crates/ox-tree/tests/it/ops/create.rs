use super::{ANYONE, check_codes, check_codes_while_closing, fixture};
use crate::harness::{Harness, Setup, plain};
use crate::request::{container, create, create_ttl, create2, set_data};
use ox_history::model::Owner;
use ox_history::{Create, Op};

/// Requests that fail two adjacent checks: the first check determines the code.
#[test]
fn create_checks_run_in_order() {
    let no_acl = |op: Op| op.with_acl(Some(vec![]));
    check_codes_while_closing(&[
        (create("/open/x", 7), -8),        // flags before session
        (create("/open/x", 5), -8),        // TTL mode without a ttl before session
        (create_ttl("/open/x", 5, 0), -8), // ttl before session
        (create_ttl("/open/x", 0, 1), -8), // ttl without a TTL mode before session
        (create("x", 0), -112),            // session before path
        (create("/open/x", 1), -112),      // an ephemeral of a closing session
        (create("/open/x", 0), -112),
    ]);
    check_codes(&[
        (no_acl(create("x", 0)), -8), // path before list
        (no_acl(create("/x\0", 0)), -8),
        (no_acl(create("/missing/x", 0)), -114), // list before parent
        (no_acl(create("/bobs/x", 0)), -114),    // list before permission
        (create("/missing/\u{1}", 0), -101),     // parent before the whole path
        (create("/missing/./x", 0), -101),
        (create("/missing/", 0), -101),
        (create("/bobs/\u{1}", 0), -102),    // permission before the whole path
        (create("/bobs/child", 0), -102),    // permission before existence
        (create("/ephemeral/\u{1}", 0), -8), // the whole path before the kind of the parent
        (create("/open/", 0), -8),
        (create("/q/\u{1}", 0), -8),            // the whole path before the quota
        (create("/q/child", 0), -110),          // existence before the quota
        (create("/bobs-ephemeral/x", 0), -102), // permission before the kind of the parent
        (create("/q/ephemeral/x", 0), -108),    // the kind of the parent before the quota
        (create("/q/x", 0), -125),
        (create("/", 0), -110),
        (create("//x", 0), -8), // its parent is the root
        (create("/open//x", 0), -101),
        (create("/open/./x", 0), -101),
        (create("/open/x", 0), 0),
    ]);
}

#[test]
fn ttl_modes_are_refused_while_disabled() {
    for (op, expected) in [
        (create_ttl("/t", 5, 1), -6),
        (create_ttl("x", 6, 0), -6),
        (create_ttl("/t", 5, -1), -6),
        (create_ttl("/t", 0, 0), -8),
        (create_ttl("/t", 4, 7), -8),
        (create_ttl("/t", 7, 1), -8),
        (create_ttl("/t", -1, 1), -8),
        (create("/t", 5), -6),
        (container("/t", 6), -6),
    ] {
        let mut harness = Harness::new(Setup { extended_types: false, ..plain() });
        assert_eq!(harness.code(ANYONE, &op), expected, "{op:?}");
        assert_eq!(
            harness.code(ANYONE, &Op::Multi(vec![op.clone()])),
            match expected {
                -6 if op.code() != 21 => -5, // a TTL mode in another element spoils the whole multi
                -8 if matches!(op, Op::Create(Create { flags: 0..=4, .. })) => 0, // the ttl is dropped
                other => other,
            },
            "{op:?}"
        );
    }
}

/// Apache logs a negative TTL, cannot apply it, and crashes.
#[test]
fn k162_invalid_ttls_are_refused() {
    check_codes(&[
        (create_ttl("/t", 0, -1), -8),
        (create_ttl("/t", 3, i64::MIN), -8),
        (create_ttl("/t", 4, -1), -8),
        (create_ttl("/t", 5, 0), -8),
        (create_ttl("/t", 5, -1), -8),
        (create_ttl("/t", 6, 1 << 40), -8),
        (create_ttl("/t", 5, (1 << 40) - 1), 0),
        (create_ttl("/t", 5, 1), 0),
    ]);
}

/// The kind of node that each opcode creates for each flag.
#[test]
fn flags_determine_the_kind_by_opcode() {
    const EPHEMERAL: &str = "ephemeral";
    // For each flag: the kind of node and whether it is sequential; or the error code.
    type Expected = Result<(&'static str, bool), i32>;
    let plain_create: [Expected; 8] = [
        Ok(("persistent", false)),
        Ok((EPHEMERAL, false)),
        Ok(("persistent", true)),
        Ok((EPHEMERAL, true)),
        Ok(("persistent", false)), // Java would send another opcode
        Err(-8),
        Err(-8),
        Err(-8),
    ];
    let container_create: [Expected; 8] = [
        Ok(("container", false)),
        Ok(("container", false)),
        Ok(("container", true)),
        Ok(("container", true)),
        Ok(("container", false)),
        Err(-8),
        Err(-8),
        Err(-8),
    ];
    let ttl_create: [Expected; 8] =
        [Err(-8), Err(-8), Err(-8), Err(-8), Err(-8), Ok(("ttl", false)), Ok(("ttl", true)), Err(-8)];
    type Make = fn(i32) -> Op;
    let table: [(Make, [Expected; 8]); 4] = [
        (|flags| create("/n", flags), plain_create),
        (|flags| create2("/n", flags), plain_create),
        (|flags| container("/n", flags), container_create),
        (|flags| create_ttl("/n", flags, 9), ttl_create),
    ];
    for (make, expected) in table {
        for (flags, expected) in (0..8).zip(expected) {
            let (op, mut harness) = (make(flags), Harness::new(plain()));
            let code = harness.code(ANYONE, &op);
            let actual = if code == 0 { Ok(kind_of(&harness)) } else { Err(code) };
            assert_eq!(actual, expected, "{op:?}");
        }
    }
}

fn kind_of(harness: &Harness) -> (&'static str, bool) {
    let path = harness.created();
    let owner = harness.model.nodes()[&path].owner;
    let (kind, shown) = match owner {
        Owner::None => ("persistent", 0),
        Owner::Container => ("container", 0),
        Owner::Session(session) => ("ephemeral", session.0),
        Owner::Ttl(_) => ("ttl", 0),
    };
    let seen = harness.state.stat(&path).unwrap().ephemeral_owner;
    assert_eq!(seen, shown, "clients see owners of ephemerals only");
    (kind, path == "/n0000000000")
}

#[test]
fn containers_and_ttl_nodes_may_have_children_but_ephemerals_may_not() {
    let mut harness = fixture(plain());
    harness.ok(ANYONE, &container("/c", 4));
    harness.ok(ANYONE, &create_ttl("/t", 5, 10));
    for parent in ["/c", "/t"] {
        harness.ok(ANYONE, &create(&format!("{parent}/x"), 1));
        harness.ok(ANYONE, &create(&format!("{parent}/y"), 0));
    }
    assert_eq!(harness.code(ANYONE, &create("/ephemeral/x", 0)), -108);
    harness.compare_all();
}

#[test]
fn create_sets_the_stats_of_node_and_parent() {
    let mut harness = Harness::new(plain());
    harness.ok(ANYONE, &create2("/p", 0));
    harness.ok(ANYONE, &create("/p/a", 0));
    harness.time += 5;
    harness.ok(ANYONE, &set_data("/p", "longer"));
    harness.ok(ANYONE, &crate::request::delete("/p/a"));
    let stat = harness.state.stat("/p").unwrap();
    let zxid = harness.state.last_zxid().0;
    assert_eq!((stat.czxid.0, stat.mzxid.0, stat.pzxid.0), (zxid - 3, zxid - 1, zxid));
    assert_eq!((stat.ctime, stat.mtime), (1000, 1005));
    assert_eq!((stat.version, stat.cversion, stat.aversion), (1, 2, 0));
    assert_eq!((stat.data_length, stat.num_children), (6, 0));
}
