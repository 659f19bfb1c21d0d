//! Writes on the old connection of a session that has moved to another server (ZOOKEEPER-710).

use crate::ensemble::{LINK, following, leading, observed, ordered, requests};
use crate::harness::Harness;
use ox_proto::txn::Txn as Body;
use ox_proto::{ErrorCode, OpCode, SessionId, Zxid};
use ox_replica::ReplicaInput;
use ox_zab::{Message, Request};

fn moved() -> Body<'static> {
    Body::Error { err: ErrorCode::SessionMoved.code() }
}

/// A follower's client with a session.
fn client() -> (Harness, usize, SessionId) {
    let mut world = following(|_| ());
    let side = world.connect(SessionId::NONE, 10_000);
    world.settle();
    let session = requests(&mut world)[0].session;
    ordered(&mut world, Zxid::new(1, 1), session, 0, &Body::CreateSession { timeout_ms: 10_000 });
    world.hello(side);
    (world, side, session)
}

fn xids(world: &mut Harness, side: usize) -> Vec<i32> {
    world.replies(side).iter().map(|reply| reply.0).collect()
}

#[test]
fn write_of_moved_session_closes_connection_without_reply() {
    let runtime_inconsistency = Body::Error { err: ErrorCode::RuntimeInconsistency.code() };
    for refused in [moved(), Body::Multi(vec![Body::Error { err: 0 }, moved(), runtime_inconsistency])] {
        let (mut world, side, session) = client();
        world.get(side, 1, "/", false);
        world.create(side, 2, "/a", 0);
        world.get(side, 3, "/", false);
        world.create(side, 4, "/b", 0);
        world.settle();
        ordered(&mut world, Zxid::new(1, 2), session, 2, &refused);
        assert!(world.sides[side].is_closed, "{refused:?}");
        assert_eq!(xids(&mut world, side), [1], "replies before the write are sent, later requests get none");
        assert!(world.state.has_session(session));
    }
}

/// The leader has not confirmed the session yet, but the client uses its new connection only.
#[test]
fn resuming_a_session_closes_its_old_connection_immediately() {
    let (mut world, old, session) = client();
    let new = world.connect(session, 10_000);
    world.settle();
    assert!(world.sides[old].is_closed);
    assert!(!world.sides[new].is_closed && world.sides[new].output.is_empty(), "it waits for the leader");
    world.pass(ReplicaInput::Packet(LINK, Message::Revalidated(session, true)));
    world.settle();
    assert_eq!(world.hello(new).session, session);
}

#[test]
fn reads_and_syncs_of_moved_session_are_served() {
    let (mut world, side, _) = client();
    world.get(side, 1, "/", false);
    world.bare(side, -2, OpCode::Ping);
    world.sync_path(side, 2, "/");
    world.settle();
    world.pass(ReplicaInput::Packet(LINK, Message::Sync));
    world.settle();
    assert_eq!(xids(&mut world, side), [1, -2, 2]);
    assert!(!world.sides[side].is_closed);
}

/// The leader takes the session from its own connection as soon as a learner revalidates it, so no request of that
/// connection can be refused. Requests of a learner that lost the session become error transactions.
#[test]
fn leader_refuses_writes_of_the_previous_owner() {
    let mut world = leading(|_| ());
    observed(&mut world);
    let (side, session) = world.client();
    world.pass(ReplicaInput::Packet(LINK, Message::Revalidate(session, 10_000)));
    world.settle();
    assert!(world.sides[side].is_closed, "a learner has the session");
    let back = world.connect(session, 10_000);
    world.settle();
    assert_eq!(world.hello(back).session, session);
    world.sent.clear();
    let ids = ox_proto::quorum::identities::RawIds::NULL.bytes().into();
    let body = [&0_i32.to_be_bytes()[..], &[0; 8]].concat();
    let request = Request { session, cxid: 7, op: OpCode::Delete.code(), body: body.into(), ids };
    world.pass(ReplicaInput::Packet(LINK, Message::Request(request)));
    world.settle();
    let informed = world.sent.iter().find_map(|(_, message)| match message {
        Message::Inform(txn) => Some(ox_proto::txn::Record::decode(&txn.record).unwrap().txn == moved()),
        _ => None,
    });
    assert_eq!(informed, Some(true), "{:?}", world.sent);
    assert!(!world.sides[back].is_closed);
}
