//! Quotas: enforcement, and the quota nodes that kill Apache.

use super::{ANYONE, BOB};
use crate::request::{Op, create, delete, set_data};
use crate::harness::{Setup, World, plain};

const LIMITS: &str = "/zookeeper/quota/q/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/q/zookeeper_stats";

/// `/q` with ten bytes of data, and these limits.
fn limited(limits: &str) -> World {
    let mut world = World::new(Setup { enforce_quota: true, ..plain() });
    world.ok(ANYONE, &create("/q", 0).with_data(Some(b"ten  bytes")));
    for path in ["/zookeeper/quota/q", LIMITS, STATS] {
        world.ok(ANYONE, &create(path, 0));
    }
    world.ok(ANYONE, &set_data(LIMITS, limits));
    world
}

fn text(world: &World, path: &str) -> String {
    String::from_utf8(world.model.nodes[path].data.clone().unwrap()).unwrap()
}

#[test]
fn hard_limits_refuse_and_soft_ones_do_not() {
    for (limits, of_create, of_growth, of_shrinking) in [
        ("countHardLimit=1", -125, 0, 0),
        ("countHardLimit=2", 0, 0, 0),
        ("byteHardLimit=10", -125, -125, 0),
        ("byteHardLimit=5", -125, -125, -125), // also when the result is smaller but still too much
        ("count=1,bytes=1", 0, 0, 0),
        ("count=0,countHardLimit=5", 0, 0, 0), // the hard one decides
        ("countHardLimit=-1,byteHardLimit=-1", 0, 0, 0),
        ("", 0, 0, 0),
        ("nonsense", -5, -5, -5),
        (",count=1", -5, -5, -5),
        ("countHardLimit=", -5, -5, -5),
    ] {
        assert_eq!(limited(limits).code(ANYONE, &create("/q/x", 0)), of_create, "{limits}");
        assert_eq!(limited(limits).code(ANYONE, &set_data("/q", "eleven bytes")), of_growth, "{limits}");
        assert_eq!(limited(limits).code(ANYONE, &set_data("/q", "8  bytes")), of_shrinking, "{limits}");
        let same = if of_shrinking == -5 { -5 } else { 0 };
        assert_eq!(limited(limits).code(ANYONE, &set_data("/q", "same bytes")), same, "{limits}");
        assert_eq!(limited(limits).code(ANYONE, &delete("/q/missing")), -101, "{limits}");
    }
}

#[test]
fn usage_is_what_is_committed() {
    // Both elements see one node, so both fit; together they exceed the limit.
    let mut world = limited("countHardLimit=2");
    world.ok(ANYONE, &Op::Multi(vec![create("/q/a", 0), create("/q/b", 0)]));
    assert_eq!(text(&world, STATS), "count=3,bytes=18");
    // A delete in the same multi makes no room.
    assert_eq!(world.code(ANYONE, &Op::Multi(vec![delete("/q/a"), delete("/q/b"), create("/q/c", 0)])), -125);
    world.ok(ANYONE, &Op::Multi(vec![delete("/q/a"), delete("/q/b")]));
    world.ok(ANYONE, &create("/q/c", 0));
    assert_eq!(text(&world, STATS), "count=2,bytes=14");
}

#[test]
fn usage_changes_nothing_but_the_data_of_its_node() {
    let mut world = limited("count=9");
    let ask = crate::model::reads::Ask::AddWatch { path: Some(STATS.into()), mode: 0 };
    assert_eq!(world.asked(BOB, &ask), 0);
    let before = world.state.stat(STATS).unwrap();
    world.ok(ANYONE, &create("/q/x", 0));
    let after = world.state.stat(STATS).unwrap();
    assert_eq!(after, ox_proto::Stat { data_length: after.data_length, ..before });
    assert_eq!(usize::try_from(after.data_length).unwrap(), "count=2,bytes=14".len());
    assert_eq!(world.events(BOB), []);
}

#[test]
fn without_stats_nothing_is_enforced_and_without_limits_nothing_is_counted() {
    let mut world = limited("countHardLimit=1");
    world.ok(ANYONE, &delete(STATS));
    world.ok(ANYONE, &create("/q/x", 0));
    world.ok(ANYONE, &create(STATS, 0));
    assert_eq!(text(&world, STATS), "count=2,bytes=14", "counted when the node is made");
    world.ok(ANYONE, &delete(LIMITS));
    world.ok(ANYONE, &create("/q/y", 0));
    assert_eq!(text(&world, STATS), "count=2,bytes=14");
}

/// Each of these kills Apache for good, also when it reads them from a log of ours.
#[test]
fn k72_what_kills_apache_is_refused() {
    let mut world = World::new(plain());
    assert_eq!(world.code(ANYONE, &create("/zookeeper/quota/zookeeper_limits", 0)), -8);
    for parent in ["/zookeeper", "/zookeeper/abc", "/zookeeperX"] {
        if parent != "/zookeeper" {
            world.ok(ANYONE, &create(parent, 0));
        }
        let path = format!("{parent}/zookeeper_limits");
        assert_eq!(world.code(ANYONE, &create(&path, 1)), -8, "it would go with its session");
        world.ok(ANYONE, &create(&path, 0));
        assert_eq!(world.code(ANYONE, &delete(&path)), -8);
        world.ok(ANYONE, &create(&path, 2));
        world.ok(ANYONE, &delete(&format!("{path}0000000001")));
    }
    let mut world = limited("");
    for nonsense in [None, Some(&b"nonsense"[..]), Some(b"count=x"), Some(b"\xff\xfe")] {
        assert_eq!(world.code(ANYONE, &set_data(STATS, "").with_data(nonsense)), -8);
    }
    world.ok(ANYONE, &set_data(STATS, ""));
    world.ok(ANYONE, &create("/q/y", 0));
    assert_eq!(text(&world, STATS), "count=0,bytes=3", "empty text is -1 and -1");
    world.compare_all();
}
