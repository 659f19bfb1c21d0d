//! Sessions and ephemeral nodes (K111, K118).

use crate::ops::{ANYONE, BOB};
use crate::request::{Op, create, create2, delete};
use crate::harness::{Setup, World, plain};
use ox_proto::SessionId;

/// Prepared before the close: goes with it. Prepared after: refused. Nothing outlives its session.
#[test]
fn k111_no_node_outlives_its_session() {
    for depth in [0, 1, 2, 50] {
        let mut world = World::new(Setup { depth, ..plain() });
        let session = world.conns[ANYONE].who.session;
        world.write(ANYONE, &create("/early", 1));
        world.write(ANYONE, &Op::Multi(vec![create2("/in-multi", 1), create("/gone", 1), delete("/gone")]));
        world.close(ANYONE);
        world.write(ANYONE, &create("/late", 1));
        world.write(ANYONE, &Op::Multi(vec![create("/late-multi", 3)]));
        world.drain();
        assert_eq!(world.state.ephemerals_of(SessionId(session)).count(), 0, "depth {depth}");
        for path in ["/early", "/in-multi", "/gone", "/late", "/late-multi"] {
            assert_eq!(world.state.stat(path), None, "{path} at depth {depth}");
        }
        world.compare_all();
    }
}

/// A node that was taken over: deleted, and made again by another session, while the first one closes.
#[test]
fn k111_a_node_of_another_session_stays() {
    let mut world = World::new(Setup { depth: 50, ..plain() });
    world.write(ANYONE, &create("/e", 1));
    world.write(BOB, &delete("/e"));
    world.write(BOB, &create("/e", 1));
    world.close(ANYONE);
    world.drain();
    assert_eq!(world.state.stat("/e").unwrap().ephemeral_owner, world.conns[BOB].who.session);
}

/// A session that the state does not know cannot own a node, however it came to ask.
#[test]
fn k111_unknown_sessions_own_nothing() {
    let mut direct = crate::bare_tree::Direct::with_node("/p", 0);
    for session in [SessionId(0), SessionId(77), SessionId(i64::MIN)] {
        let record = direct.write(session, &create("/p/e", 1)).unwrap();
        assert_eq!(record[32..36], (-112_i32).to_be_bytes(), "{session}");
        direct.write(session, &create("/p/plain", 0)).unwrap();
        direct.write(session, &delete("/p/plain")).unwrap();
    }
    // An upgrade that is still on its way is enough.
    direct.depth = 50;
    direct.open(SessionId(77));
    let record = direct.write(SessionId(77), &create("/p/e", 1)).unwrap();
    assert_eq!(record[28..32], 1_i32.to_be_bytes());
    direct.close(SessionId(77));
    let record = direct.write(SessionId(77), &create("/p/f", 1)).unwrap();
    assert_eq!(record[32..36], (-112_i32).to_be_bytes());
    direct.drain();
    assert_eq!(direct.state.ephemeral_count(), 0);
}

/// A moved session fails where the order of checks has its place.
#[test]
fn sessions_that_moved_fail_in_their_place() {
    use ox_proto::{ErrorCode, OpCode};
    use ox_tree::{Pending, View, ops};
    let world = World::new(plain());
    for (op, expected) in [(create("/a", 7), -8), (create("x", 0), -118), (delete("x"), -118)] {
        let (mut pending, mut out) = (Pending::default(), Vec::new());
        let stamp = ox_tree::Stamp { zxid: ox_proto::Zxid(99), time_ms: 0, session: SessionId(1) };
        let mut view = View::new(&world.state, &mut pending, &world.conns[ANYONE].ids, stamp);
        view.fail_session(ErrorCode::SessionMoved);
        ops::prepare(&mut view, OpCode::try_from(op.code()).unwrap(), &op.body(), &mut out);
        assert_eq!(out, i32::to_be_bytes(expected), "{op:?}");
    }
}

#[test]
fn dead_sessions_nodes_are_removed_at_a_standalone_start() {
    let mut world = World::new(plain());
    world.ok(ANYONE, &create("/e", 1));
    world.ok(BOB, &create("/b", 1));
    let frozen = world.state.freeze();
    let mut loader = ox_tree::Loader::new(plain().options());
    loader.session(SessionId(world.conns[BOB].who.session), 1);
    frozen.for_each_node(|node| loader.node(node.path, node.data, -1, node.stat)).unwrap();
    let mut state = loader.finish(frozen.last_zxid()).unwrap();
    assert_eq!(state.remove_dead_sessions_nodes(), 1);
    assert_eq!((state.stat("/e"), state.ephemeral_count()), (None, 1));
    assert_eq!(state.stat("/").unwrap().pzxid, frozen.last_zxid(), "raised to the last zxid at most");
}
