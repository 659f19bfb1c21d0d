//! Sessions that an operator closes, and limits that change at run time.

use crate::ensemble::{following, is, ordered, requests};
use crate::harness::Harness;
use ox_proto::txn::Txn as Body;
use ox_proto::{OpCode, SessionId, Zxid};
use ox_replica::{ReplicaInput, ReplicaLimits};

#[test]
fn closed_session_loses_its_nodes_and_its_connection() {
    let mut world = Harness::new();
    let (victim, session) = world.client();
    let (other, _) = world.client();
    world.create(victim, 1, "/ephemeral", 1);
    world.settle();
    world.pass(ReplicaInput::CloseSession(session));
    world.settle();
    assert!(world.sides[victim].is_closed && !world.sides[other].is_closed);
    assert!(!world.state.has_session(session) && world.state.stat("/ephemeral").is_none());
    assert!(!world.replica.status().knows_session(session));
    let before = world.state.last_zxid();
    world.pass(ReplicaInput::CloseSession(session));
    world.settle();
    assert_eq!(world.state.last_zxid(), before, "a session that is not known needs no transaction");
}

#[test]
fn learner_asks_its_leader_to_close_a_session() {
    let mut world = following(|_| ());
    let side = world.connect(SessionId::NONE, 10_000);
    world.settle();
    let session = requests(&mut world)[0].session;
    ordered(&mut world, Zxid::new(1, 1), session, 0, &Body::CreateSession { timeout_ms: 10_000 });
    world.pass(ReplicaInput::CloseSession(session));
    world.settle();
    let asked = requests(&mut world);
    assert!(asked.len() == 1 && is(&asked[0], OpCode::CloseSession, 0) && asked[0].session == session, "{asked:?}");
    assert!(!world.sides[side].is_closed, "the leader decides");
    ordered(&mut world, Zxid::new(1, 2), session, 0, &Body::CloseSession { paths: None });
    assert!(world.sides[side].is_closed);
}

#[test]
fn slow_writes_are_reported_with_path_and_times() {
    let mut world = Harness::new();
    let (side, session) = world.client();
    let create = |world: &mut Harness, xid, path| {
        world.create(side, xid, path, 0);
        world.serve(side);
        world.step();
        world.now.mono_ms += 100;
        world.settle();
        world.replica.counters_mut().slow_writes.take()
    };
    assert!(create(&mut world, 1, "/fast").0.is_empty(), "without a limit");
    world.pass(ReplicaInput::Limits(ReplicaLimits { sessions_per_address: 0, slow_write_ms: 100 }));
    let (slow, more) = create(&mut world, 2, "/slow");
    assert_eq!((slow.len(), more), (1, 0));
    let write = &slow[0];
    assert_eq!((write.session, write.cxid, write.op), (session, 2, Some(OpCode::Create)));
    assert_eq!((write.path.as_deref(), write.zxid), (Some("/slow"), world.state.last_zxid()));
    assert!(100 <= write.applied_ms - write.prepared_ms, "{write:?}");
    world.pass(ReplicaInput::Limits(ReplicaLimits { sessions_per_address: 0, slow_write_ms: 1_000_000 }));
    assert!(create(&mut world, 3, "/fast-enough").0.is_empty());
}
