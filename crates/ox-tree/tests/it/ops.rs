//! Tests by operation: the order of checks, unusual inputs, and effects.
//!
//! All run against tree and model, so a table states what both must do.

mod create;
mod delete;
mod multi;
mod nulls;
mod paths;
mod quota;
mod reads;
mod sequence;
mod set;

use crate::harness::{Harness, Setup, plain};
use crate::request::{Entry, create, entry, set_data};
use ox_history::Op;

/// Indexes of connections, named after their identities.
pub(crate) const ANYONE: usize = 0;
pub(crate) const BOB: usize = 1;
pub(crate) const SUPER: usize = 3;

pub(crate) const BOB_ID: &str = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";

/// An ACL that everyone may read and bob may do everything with.
pub(crate) fn bobs() -> Vec<Entry> {
    vec![entry(1, "world", "anyone"), entry(31, "digest", BOB_ID)]
}

/// An ACL for bob only.
pub(crate) fn secret() -> Vec<Entry> {
    vec![entry(31, "digest", BOB_ID)]
}

/// A tree with an open node, nodes of bob, an ephemeral node and a node at its quota.
pub(crate) fn fixture(setup: Setup) -> Harness {
    let mut harness = Harness::new(Setup { enforce_quota: true, ..setup });
    for path in ["/open", "/open/child", "/q", "/zookeeper/quota/q"] {
        harness.ok(ANYONE, &create(path, 0));
    }
    harness.ok(BOB, &create("/bobs", 0).with_acl(Some(bobs())));
    harness.ok(BOB, &create("/bobs/child", 0));
    harness.ok(BOB, &create("/secret", 0).with_acl(Some(secret())));
    harness.ok(BOB, &create("/ephemeral", 1));
    harness.ok(BOB, &create("/bobs-ephemeral", 1).with_acl(Some(bobs())));
    for path in ["/q/child", "/q/bobs"] {
        harness.ok(BOB, &create(path, 0).with_acl(Some(bobs())));
    }
    harness.ok(BOB, &create("/q/ephemeral", 1));
    for path in ["/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"] {
        harness.ok(ANYONE, &create(path, 0));
    }
    harness.ok(ANYONE, &set_data("/zookeeper/quota/q/zookeeper_limits", "countHardLimit=4,byteHardLimit=16"));
    harness
}

/// Executes each request on a fresh fixture.
pub(crate) fn check_codes(cases: &[(Op, i32)]) {
    for (op, expected) in cases {
        let mut harness = fixture(plain());
        assert_eq!(harness.code(ANYONE, op), *expected, "{op:?}");
        harness.compare_all();
    }
}

/// Executes each request while the close of its session is in flight.
pub(crate) fn check_codes_while_closing(cases: &[(Op, i32)]) {
    for (op, expected) in cases {
        let mut harness = fixture(Setup { depth: 50, ..plain() });
        harness.close(ANYONE);
        assert_eq!(harness.code(ANYONE, op), *expected, "{op:?}");
        harness.compare_all();
    }
}
