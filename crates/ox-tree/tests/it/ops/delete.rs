use super::{ANYONE, SUPER, check_codes, check_codes_while_closing, fixture};
use crate::harness::{Harness, NEVER_USED_MS, Setup, plain};
use crate::request::{container, create, create_ttl, delete, set_data};

#[test]
fn delete_checks_run_in_order() {
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
fn built_in_nodes_cannot_be_deleted() {
    for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        assert_eq!(fixture(plain()).code(SUPER, &delete(path)), -8, "{path}");
    }
    assert_eq!(fixture(plain()).code(SUPER, &delete("")), -8);
}

/// deleteContainer checks path, existence, children and kind, but neither session nor permission.
#[test]
fn delete_container_is_checked_again_when_prepared() {
    let mut harness = fixture(plain());
    harness.ok(ANYONE, &container("/c", 4));
    harness.ok(ANYONE, &create("/c/x", 0));
    harness.ok(ANYONE, &create_ttl("/t", 5, 10));
    // The harness compares the codes.
    for path in ["/", "/zookeeper/quota", "/missing", "/c", "/open/child", "/ephemeral", "/t"] {
        let before = harness.state.last_zxid();
        harness.delete_container(path);
        harness.drain();
        assert_eq!(harness.state.last_zxid(), before, "{path} must stay");
    }
    harness.ok(ANYONE, &delete("/c/x"));
    harness.time += 10;
    harness.delete_container("/t");
    harness.drain();
    assert!(harness.state.stat("/t").is_some(), "its time is not over before the next millisecond");
    harness.time += 1;
    for path in ["/c", "/t"] {
        harness.delete_container(path);
        harness.drain();
        assert_eq!(harness.state.stat(path), None, "{path} must go");
    }
}

/// A TTL node that is changed after it was found expired has its full time again.
#[test]
fn changed_ttl_node_is_not_deleted() {
    let mut harness = Harness::new(Setup { depth: 50, ..plain() });
    harness.write(ANYONE, &create_ttl("/t", 5, 10));
    harness.drain();
    harness.time += 11;
    assert_eq!(harness.state.expired_nodes(harness.time, 0), ["/t"]);
    harness.write(ANYONE, &set_data("/t", "alive"));
    harness.delete_container("/t");
    harness.drain();
    assert!(harness.state.stat("/t").is_some());
}

/// A container that was deleted and created again is not deleted for its predecessor's expiry.
#[test]
fn recreated_container_is_not_deleted() {
    let mut harness = Harness::new(Setup { depth: 50, ..plain() });
    harness.write(ANYONE, &container("/c", 4));
    harness.write(ANYONE, &create("/c/x", 0));
    harness.write(ANYONE, &delete("/c/x"));
    harness.drain();
    assert_eq!(harness.state.expired_nodes(harness.time, 0), ["/c"]);
    harness.write(ANYONE, &delete("/c"));
    harness.write(ANYONE, &container("/c", 4));
    harness.delete_container("/c");
    harness.drain();
    assert!(harness.state.stat("/c").is_some());
    harness.time += NEVER_USED_MS;
    harness.delete_container("/c");
    harness.drain();
    assert!(harness.state.stat("/c").is_some());
    harness.time += 1;
    harness.delete_container("/c");
    harness.drain();
    assert!(harness.state.stat("/c").is_none());
}

#[test]
fn k126_unused_container_is_deleted_after_its_time() {
    let mut harness = Harness::new(plain());
    harness.ok(ANYONE, &container("/never", 4));
    harness.ok(ANYONE, &container("/used", 4));
    harness.ok(ANYONE, &create("/used/x", 0));
    assert_eq!(harness.state.expired_nodes(harness.time, 0), [""; 0], "one is in use, the other was not used yet");
    harness.ok(ANYONE, &delete("/used/x"));
    assert_eq!(harness.state.expired_nodes(harness.time, 0), ["/used"]);
    assert_eq!(harness.state.expired_nodes(harness.time + 1_000_000, 0), ["/used"], "0 keeps them forever");
    assert_eq!(harness.state.expired_nodes(harness.time + 50, 50), ["/used"]);
    let mut both = harness.state.expired_nodes(harness.time + 51, 50);
    both.sort();
    assert_eq!(both, ["/never", "/used"]);
}
