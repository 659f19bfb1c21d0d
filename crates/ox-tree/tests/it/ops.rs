//! One file per operation: the order of its checks, its odd inputs, and what it leaves behind.
//!
//! Everything runs beside the model, so a table here is about what both of them must do.

mod create;
mod delete;
mod multi;
mod nulls;
mod paths;
mod quota;
mod reads;
mod sequence;
mod set;

use crate::request::{Entry, Op, create, entry, set_data};
use crate::harness::{Setup, World, plain};

/// Connections by what they have proven.
pub(crate) const ANYONE: usize = 0;
pub(crate) const BOB: usize = 1;
pub(crate) const SUPER: usize = 3;

pub(crate) const BOB_ID: &str = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";

/// Readable by everybody, everything else for bob.
pub(crate) fn bobs() -> Vec<Entry> {
    vec![entry(1, "world", "anyone"), entry(31, "digest", BOB_ID)]
}

/// For bob only.
pub(crate) fn secret() -> Vec<Entry> {
    vec![entry(31, "digest", BOB_ID)]
}

/// A tree with one of each: open, bob's, ephemeral, full.
pub(crate) fn ground(setup: Setup) -> World {
    let mut world = World::new(Setup { enforce_quota: true, ..setup });
    for path in ["/open", "/open/child", "/q", "/zookeeper/quota/q"] {
        world.ok(ANYONE, &create(path, 0));
    }
    world.ok(BOB, &create("/bobs", 0).with_acl(Some(bobs())));
    world.ok(BOB, &create("/bobs/child", 0));
    world.ok(BOB, &create("/secret", 0).with_acl(Some(secret())));
    world.ok(BOB, &create("/ephemeral", 1));
    world.ok(BOB, &create("/bobs-ephemeral", 1).with_acl(Some(bobs())));
    for path in ["/q/child", "/q/bobs"] {
        world.ok(BOB, &create(path, 0).with_acl(Some(bobs())));
    }
    world.ok(BOB, &create("/q/ephemeral", 1));
    for path in ["/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"] {
        world.ok(ANYONE, &create(path, 0));
    }
    world.ok(ANYONE, &set_data("/zookeeper/quota/q/zookeeper_limits", "countHardLimit=4,byteHardLimit=16"));
    world
}

/// Each request against the same ground.
pub(crate) fn check_codes(cases: &[(Op, i32)]) {
    for (op, expected) in cases {
        let mut world = ground(plain());
        assert_eq!(world.code(ANYONE, op), *expected, "{op:?}");
        world.compare_all();
    }
}

/// Each request while the close of its session is on its way.
pub(crate) fn check_codes_while_closing(cases: &[(Op, i32)]) {
    for (op, expected) in cases {
        let mut world = ground(Setup { depth: 50, ..plain() });
        world.close(ANYONE);
        assert_eq!(world.code(ANYONE, op), *expected, "{op:?}");
        world.compare_all();
    }
}
