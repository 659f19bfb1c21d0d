use super::{ANYONE, SUPER, check_codes, check_codes_while_closing, ground};
use crate::model::NEVER_USED_MS;
use crate::request::{container, create, create_ttl, delete, set_data};
use crate::harness::{Setup, World, plain};

#[test]
fn checks_have_an_order() {
    check_codes_while_closing(&[(delete("x"), -112), (delete("/open/child"), -112)]);
    check_codes(&[
        (delete("x"), -8),
        (delete("/x\0"), -8),
        (delete("/missing/x"), -101),
        (delete("/bobs/missing"), -102),               // permission before existence
        (delete("/bobs/child").at_version(7), -102),   // permission before version
        (delete("/open/missing").at_version(7), -101), // existence before version
        (delete("/open").at_version(7), -103),         // version before children
        (delete("/open").at_version(-2), -103),
        (delete("/open"), -111),
        (delete("/open/"), -101),
        (delete("//open"), -101),
        (delete("/secret"), 0), // no permission on the node itself is needed
        (delete("/ephemeral"), 0),
        (delete("/open/child").at_version(0), 0),
    ]);
}

#[test]
fn fixed_nodes_stay() {
    for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        assert_eq!(ground(plain()).code(SUPER, &delete(path)), -8, "{path}");
    }
    assert_eq!(ground(plain()).code(SUPER, &delete("")), -8);
}

/// The server's own removals: path, existence, children, kind; neither session nor permission.
#[test]
fn removals_by_the_server_are_judged_again() {
    let mut world = ground(plain());
    world.ok(ANYONE, &container("/c", 4));
    world.ok(ANYONE, &create("/c/x", 0));
    world.ok(ANYONE, &create_ttl("/t", 5, 10));
    // The model compares the codes.
    for path in ["/", "/zookeeper/quota", "/missing", "/c", "/open/child", "/ephemeral", "/t"] {
        let before = world.state.last_zxid();
        world.delete_container(path);
        world.drain();
        assert_eq!(world.state.last_zxid(), before, "{path} must stay");
    }
    world.ok(ANYONE, &delete("/c/x"));
    world.time += 11;
    for path in ["/c", "/t"] {
        world.delete_container(path);
        world.drain();
        assert_eq!(world.state.stat(path), None, "{path} must go");
    }
}

/// A TTL node that is changed while its removal is considered has its whole time again.
#[test]
fn a_change_in_time_keeps_a_ttl_node() {
    let mut world = World::new(Setup { depth: 50, ..plain() });
    world.write(ANYONE, &create_ttl("/t", 5, 10));
    world.drain();
    world.time += 11;
    assert_eq!(world.state.expired_nodes(world.time, 0), ["/t"]);
    world.write(ANYONE, &set_data("/t", "alive"));
    world.delete_container("/t");
    world.drain();
    assert!(world.state.stat("/t").is_some());
}

/// A container that is removed and made again while the removal of the first one is considered is another one.
#[test]
fn a_new_container_is_not_taken_for_the_old_one() {
    let mut world = World::new(Setup { depth: 50, ..plain() });
    world.write(ANYONE, &container("/c", 4));
    world.write(ANYONE, &create("/c/x", 0));
    world.write(ANYONE, &delete("/c/x"));
    world.drain();
    assert_eq!(world.state.expired_nodes(world.time, 0), ["/c"]);
    world.write(ANYONE, &delete("/c"));
    world.write(ANYONE, &container("/c", 4));
    world.delete_container("/c");
    world.drain();
    assert!(world.state.stat("/c").is_some());
    world.time += NEVER_USED_MS + 1;
    world.delete_container("/c");
    world.drain();
    assert!(world.state.stat("/c").is_none());
}

#[test]
fn k126_containers_that_were_never_used_go_after_a_while() {
    let mut world = World::new(plain());
    world.ok(ANYONE, &container("/never", 4));
    world.ok(ANYONE, &container("/used", 4));
    world.ok(ANYONE, &create("/used/x", 0));
    assert_eq!(world.state.expired_nodes(world.time, 0), [""; 0], "one is in use, the other was not used yet");
    world.ok(ANYONE, &delete("/used/x"));
    assert_eq!(world.state.expired_nodes(world.time, 0), ["/used"]);
    assert_eq!(world.state.expired_nodes(world.time + 1_000_000, 0), ["/used"], "0 keeps them for ever");
    assert_eq!(world.state.expired_nodes(world.time + 50, 50), ["/used"]);
    let mut both = world.state.expired_nodes(world.time + 51, 50);
    both.sort();
    assert_eq!(both, ["/never", "/used"]);
}
