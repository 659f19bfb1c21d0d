use super::{ANYONE, check_codes, check_codes_while_closing, ground};
use crate::request::{Op, container, create, create_ttl, create2, set_data};
use crate::harness::{Setup, World, plain};

/// Adjacent checks, both violated: the first one wins.
#[test]
fn checks_have_an_order() {
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
fn ttl_modes_while_disabled() {
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
        let mut world = World::new(Setup { extended_types: false, ..plain() });
        assert_eq!(world.code(ANYONE, &op), expected, "{op:?}");
        assert_eq!(
            world.code(ANYONE, &Op::Multi(vec![op.clone()])),
            match expected {
                -6 if op.code() != 21 => -5, // a TTL mode in another element spoils the whole multi
                -8 if matches!(op, Op::Create { flags: 0..=4, .. }) => 0, // the ttl is dropped
                other => other,
            },
            "{op:?}"
        );
    }
}

/// What Apache logs and then cannot apply, and dies of, is refused.
#[test]
fn k162_ttls_that_are_none_are_refused() {
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

/// What each opcode makes of each flag.
#[test]
fn flags_by_opcode() {
    const EPHEMERAL: &str = "ephemeral";
    // For each flag: kind of node, whether a number is appended; or the code.
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
            let (op, mut world) = (make(flags), World::new(plain()));
            let code = world.code(ANYONE, &op);
            let actual = if code == 0 { Ok(kind_of(&world)) } else { Err(code) };
            assert_eq!(actual, expected, "{op:?}");
        }
    }
}

fn kind_of(world: &World) -> (&'static str, bool) {
    let path = world.created();
    let owner = world.model.nodes[&path].owner;
    let kind = match owner {
        0 => "persistent",
        i64::MIN => "container",
        _ if owner == world.conns[ANYONE].who.session => "ephemeral",
        _ => "ttl",
    };
    let seen = world.state.stat(&path).unwrap().ephemeral_owner;
    assert_eq!(seen, if kind == "ephemeral" { owner } else { 0 }, "clients see owners of ephemerals only");
    (kind, path == "/n0000000000")
}

#[test]
fn containers_and_ttl_nodes_may_have_children_and_ephemerals_not() {
    let mut world = ground(plain());
    world.ok(ANYONE, &container("/c", 4));
    world.ok(ANYONE, &create_ttl("/t", 5, 10));
    for parent in ["/c", "/t"] {
        world.ok(ANYONE, &create(&format!("{parent}/x"), 1));
        world.ok(ANYONE, &create(&format!("{parent}/y"), 0));
    }
    assert_eq!(world.code(ANYONE, &create("/ephemeral/x", 0)), -108);
    world.compare_all();
}

#[test]
fn new_and_changed_stats() {
    let mut world = World::new(plain());
    world.ok(ANYONE, &create2("/p", 0));
    world.ok(ANYONE, &create("/p/a", 0));
    world.time += 5;
    world.ok(ANYONE, &set_data("/p", "longer"));
    world.ok(ANYONE, &crate::request::delete("/p/a"));
    let stat = world.state.stat("/p").unwrap();
    let zxid = world.state.last_zxid().0;
    assert_eq!((stat.czxid.0, stat.mzxid.0, stat.pzxid.0), (zxid - 3, zxid - 1, zxid));
    assert_eq!((stat.ctime, stat.mtime), (1000, 1005));
    assert_eq!((stat.version, stat.cversion, stat.aversion), (1, 2, 0));
    assert_eq!((stat.data_length, stat.num_children), (6, 0));
}
