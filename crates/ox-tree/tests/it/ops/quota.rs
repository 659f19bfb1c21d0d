//! Quotas: enforcement, and the quota nodes on which Apache crashes.

use super::{ANYONE, BOB};
use crate::harness::{Harness, Setup, plain};
use crate::request::{create, delete, set_data};
use ox_history::Op;

const LIMITS: &str = "/zookeeper/quota/q/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/q/zookeeper_stats";

/// `/q` with ten bytes of data, and these limits.
fn limited(limits: &str) -> Harness {
    let mut harness = Harness::new(Setup { enforce_quota: true, ..plain() });
    harness.ok(ANYONE, &create("/q", 0).with_data(Some(b"ten  bytes")));
    for path in ["/zookeeper/quota/q", LIMITS, STATS] {
        harness.ok(ANYONE, &create(path, 0));
    }
    harness.ok(ANYONE, &set_data(LIMITS, limits));
    harness
}

fn text(harness: &Harness, path: &str) -> String {
    String::from_utf8(harness.model.nodes()[path].data.clone().unwrap()).unwrap()
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
fn quota_checks_use_the_committed_usage() {
    // Both elements see one node, so each fits; together they exceed the limit.
    let mut harness = limited("countHardLimit=2");
    harness.ok(ANYONE, &Op::Multi(vec![create("/q/a", 0), create("/q/b", 0)]));
    assert_eq!(text(&harness, STATS), "count=3,bytes=18");
    // A delete in the same multi does not count.
    assert_eq!(harness.code(ANYONE, &Op::Multi(vec![delete("/q/a"), delete("/q/b"), create("/q/c", 0)])), -125);
    harness.ok(ANYONE, &Op::Multi(vec![delete("/q/a"), delete("/q/b")]));
    harness.ok(ANYONE, &create("/q/c", 0));
    assert_eq!(text(&harness, STATS), "count=2,bytes=14");
}

#[test]
fn usage_update_changes_only_the_data() {
    let mut harness = limited("count=9");
    let read = Op::AddWatch { path: STATS.into(), mode: 0 };
    assert_eq!(harness.read_code(BOB, &read), 0);
    let before = harness.state.stat(STATS).unwrap();
    harness.ok(ANYONE, &create("/q/x", 0));
    let after = harness.state.stat(STATS).unwrap();
    assert_eq!(after, ox_proto::Stat { data_length: after.data_length, ..before });
    assert_eq!(usize::try_from(after.data_length).unwrap(), "count=2,bytes=14".len());
    assert_eq!(harness.events(BOB), []);
}

#[test]
fn quota_without_stats_is_not_enforced_and_without_limits_not_counted() {
    let mut harness = limited("countHardLimit=1");
    harness.ok(ANYONE, &delete(STATS));
    harness.ok(ANYONE, &create("/q/x", 0));
    harness.ok(ANYONE, &create(STATS, 0));
    assert_eq!(text(&harness, STATS), "count=2,bytes=14", "counted when the node is made");
    harness.ok(ANYONE, &delete(LIMITS));
    harness.ok(ANYONE, &create("/q/y", 0));
    assert_eq!(text(&harness, STATS), "count=2,bytes=14");
}

/// Apache crashes on each of these, also when it reads them from a log of ours.
#[test]
fn k72_writes_that_crash_apache_are_refused() {
    let mut harness = Harness::new(plain());
    assert_eq!(harness.code(ANYONE, &create("/zookeeper/quota/zookeeper_limits", 0)), -8);
    for parent in ["/zookeeper", "/zookeeper/abc", "/zookeeperX"] {
        if parent != "/zookeeper" {
            harness.ok(ANYONE, &create(parent, 0));
        }
        let path = format!("{parent}/zookeeper_limits");
        assert_eq!(harness.code(ANYONE, &create(&path, 1)), -8, "it would go with its session");
        harness.ok(ANYONE, &create(&path, 0));
        assert_eq!(harness.code(ANYONE, &delete(&path)), -8);
        harness.ok(ANYONE, &create(&path, 2));
        harness.ok(ANYONE, &delete(&format!("{path}0000000001")));
    }
    let mut harness = limited("");
    for nonsense in [None, Some(&b"nonsense"[..]), Some(b"count=x"), Some(b"\xff\xfe")] {
        assert_eq!(harness.code(ANYONE, &set_data(STATS, "").with_data(nonsense)), -8);
    }
    harness.ok(ANYONE, &set_data(STATS, ""));
    harness.ok(ANYONE, &create("/q/y", 0));
    assert_eq!(text(&harness, STATS), "count=0,bytes=3", "empty text is -1 and -1");
    harness.compare_all();
}
