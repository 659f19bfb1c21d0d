//! Known cases of sessions and ephemeral nodes (K111).

use crate::harness::{Harness, Setup, plain};
use crate::ops::{ANYONE, BOB};
use crate::request::{body, create, create2, delete};
use ox_history::Op;
use ox_proto::SessionId;

/// A create prepared before the close is deleted by it; one prepared after the close is refused.
#[test]
fn k111_no_node_outlives_its_session() {
    for depth in [0, 1, 2, 50] {
        let mut harness = Harness::new(Setup { depth, ..plain() });
        let session = harness.conns[ANYONE].session;
        harness.write(ANYONE, &create("/early", 1));
        harness.write(ANYONE, &Op::Multi(vec![create2("/in-multi", 1), create("/gone", 1), delete("/gone")]));
        harness.close(ANYONE);
        harness.write(ANYONE, &create("/late", 1));
        harness.write(ANYONE, &Op::Multi(vec![create("/late-multi", 3)]));
        harness.drain();
        assert_eq!(harness.state.ephemerals_of(session).count(), 0, "depth {depth}");
        for path in ["/early", "/in-multi", "/gone", "/late", "/late-multi"] {
            assert_eq!(harness.state.stat(path), None, "{path} at depth {depth}");
        }
        harness.compare_all();
    }
}

/// A node that another session recreates while the first session closes.
#[test]
fn k111_node_recreated_by_another_session_stays() {
    let mut harness = Harness::new(Setup { depth: 50, ..plain() });
    harness.write(ANYONE, &create("/e", 1));
    harness.write(BOB, &delete("/e"));
    harness.write(BOB, &create("/e", 1));
    harness.close(ANYONE);
    harness.drain();
    assert_eq!(harness.state.stat("/e").unwrap().ephemeral_owner, harness.conns[BOB].session.0);
}

/// A session that the state does not contain cannot own nodes.
#[test]
fn k111_unknown_sessions_own_nothing() {
    let mut tree = crate::bare_tree::BareTree::with_node("/p", 0);
    for session in [SessionId(0), SessionId(77), SessionId(i64::MIN)] {
        let record = tree.write(session, &create("/p/e", 1)).unwrap();
        assert_eq!(record[32..36], (-112_i32).to_be_bytes(), "{session}");
        tree.write(session, &create("/p/plain", 0)).unwrap();
        tree.write(session, &delete("/p/plain")).unwrap();
    }
    // A createSession that is still in flight suffices.
    tree.depth = 50;
    tree.open(SessionId(77));
    let record = tree.write(SessionId(77), &create("/p/e", 1)).unwrap();
    assert_eq!(record[28..32], 1_i32.to_be_bytes());
    tree.close(SessionId(77));
    let record = tree.write(SessionId(77), &create("/p/f", 1)).unwrap();
    assert_eq!(record[32..36], (-112_i32).to_be_bytes());
    tree.drain();
    assert_eq!(tree.state.ephemeral_count(), 0);
}

/// A request of a moved session fails at the place of the session check in the order of checks.
#[test]
fn moved_session_fails_at_the_session_check() {
    use ox_proto::{ErrorCode, OpCode};
    use ox_tree::{PendingChanges, PendingView, ops};
    let harness = Harness::new(plain());
    for (op, expected) in [(create("/a", 7), -8), (create("x", 0), -118), (delete("x"), -118)] {
        let (mut pending, mut out) = (PendingChanges::default(), Vec::new());
        let stamp = ox_tree::WriteStamp { zxid: ox_proto::Zxid(99), time_ms: 0, session: SessionId(1) };
        let mut view = PendingView::new(&harness.state, &mut pending, &harness.conns[ANYONE].ids, stamp);
        view.fail_session(ErrorCode::SessionMoved);
        ops::prepare(&mut view, OpCode::try_from(op.code()).unwrap(), &body(&op), &mut out);
        assert_eq!(out, i32::to_be_bytes(expected), "{op:?}");
    }
}

#[test]
fn ephemerals_of_dead_sessions_are_removed_at_standalone_start() {
    let mut harness = Harness::new(plain());
    harness.ok(ANYONE, &create("/e", 1));
    harness.ok(BOB, &create("/b", 1));
    let frozen = harness.state.freeze();
    let mut loader = ox_tree::Loader::new(plain().options());
    loader.session(harness.conns[BOB].session, 1);
    frozen.for_each_node(|node| loader.node(node.path, node.data, -1, node.stat)).unwrap();
    let mut state = loader.finish(frozen.last_zxid()).unwrap();
    assert_eq!(state.remove_dead_sessions_nodes(), 1);
    assert_eq!((state.stat("/e"), state.ephemeral_count()), (None, 1));
    assert_eq!(state.stat("/").unwrap().pzxid, frozen.last_zxid(), "raised to the last zxid at most");
}
