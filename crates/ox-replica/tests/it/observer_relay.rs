//! A follower between its leader and an observer.

use crate::ensemble::{LINK, OBSERVER, observe, observed_follower, ordered};
use crate::harness::Harness;
use bytes::Bytes;
use ox_proto::quorum::identities::RawIds;
use ox_proto::txn::Txn as Body;
use ox_proto::{Jute, OpCode, SessionId, Zxid};
use ox_replica::limits::RELAYED_MAX;
use ox_replica::{ReplicaEffect, ReplicaInput};
use ox_zab::{LinkId, Message, Request, ServerId};

const SESSION: SessionId = SessionId(0x0300_0000_0000_0001);

fn request(op: OpCode, cxid: i32) -> Message {
    let ids = Bytes::from_static(RawIds::EMPTY.bytes());
    Message::Request(Request { session: SESSION, cxid, op: op.code(), body: Bytes::from_static(b"body"), ids })
}

fn receives(world: &mut Harness, link: LinkId, message: Message) {
    world.pass(ReplicaInput::Packet(link, message));
    world.settle();
}

/// Whether an observer's write is forwarded; otherwise a request is forwarded that every leader refuses.
fn may_write(world: &mut Harness, link: LinkId, op: OpCode) -> bool {
    receives(world, link, request(op, 2));
    let Some((LINK, Message::Request(sent))) = world.sent.pop() else { panic!("nothing is sent") };
    let refused = [&[0, 0, 0, 1, b'/'][..], &[0xff; 4]].concat();
    let is_refused = (sent.op, sent.cxid, &sent.body[..]) == (OpCode::Delete.code(), 2, &refused[..]);
    assert!(is_refused || Message::Request(sent) == request(op, 2));
    !is_refused
}

/// A client reconnects to this server with the session, which the leader knows.
fn comes_here(world: &mut Harness) -> usize {
    let side = world.connect(SESSION, 10_000);
    world.settle();
    receives(world, LINK, Message::Revalidated(SESSION, true));
    assert_eq!(world.hello(side).session, SESSION);
    side
}

/// A client reconnects to an observer.
fn comes_to(world: &mut Harness, link: LinkId) {
    receives(world, link, Message::Revalidate(SESSION, 9_000));
    receives(world, LINK, Message::Revalidated(SESSION, true));
    assert_eq!(world.sent.pop(), Some((link, Message::Revalidated(SESSION, true))));
}

#[test]
fn observer_requests_are_forwarded_unchanged() {
    let mut world = observed_follower(|_| ());
    let asked = request(OpCode::CreateSession, 0);
    world.pass(ReplicaInput::Packet(OBSERVER, asked.clone()));
    world.settle();
    assert_eq!(world.sent, [(LINK, asked)]);
    world.sent.clear();
    ordered(&mut world, Zxid::new(1, 1), SESSION, 0, &Body::CreateSession { timeout_ms: 9_000 });
    let informed: Vec<_> = world.sent.iter().filter(|(link, _)| *link == OBSERVER).collect();
    assert!(matches!(informed[..], [(_, Message::Inform(txn))] if txn.zxid == Zxid::new(1, 1)), "{informed:?}");
}

/// Replies to syncs carry no id: they are assigned in the order of the requests, each after the commits before it.
#[test]
fn sync_replies_reach_their_observer() {
    let mut world = observed_follower(|_| ());
    world.pass(ReplicaInput::Packet(OBSERVER, request(OpCode::Sync, 1)));
    world.settle();
    ordered(&mut world, Zxid::new(1, 1), SESSION, 0, &Body::CreateSession { timeout_ms: 9_000 });
    world.pass(ReplicaInput::Packet(LINK, Message::Sync));
    world.settle();
    let told: Vec<_> = world.sent.iter().filter(|(link, _)| *link == OBSERVER).map(|(_, message)| message).collect();
    assert!(matches!(told[..], [Message::Inform(_), Message::Sync]), "{told:?}");
}

#[test]
fn observer_revalidations_and_touches_reach_leader() {
    let mut world = observed_follower(|_| ());
    let other = SessionId(SESSION.0 + 1);
    for (session, valid) in [(SESSION, true), (other, false)] {
        world.pass(ReplicaInput::Packet(OBSERVER, Message::Revalidate(session, 9_000)));
        world.settle();
        assert_eq!(world.sent.pop(), Some((LINK, Message::Revalidate(session, 9_000))));
        world.pass(ReplicaInput::Packet(LINK, Message::Revalidated(session, valid)));
        world.settle();
        assert_eq!(world.sent.pop(), Some((OBSERVER, Message::Revalidated(session, valid))));
    }
    let mut touched = Vec::new();
    SessionId(5).put(&mut touched);
    7_000_i32.put(&mut touched);
    world.pass(ReplicaInput::Packet(OBSERVER, Message::Pong(Zxid::ZERO, touched.clone().into())));
    world.pass(ReplicaInput::Packet(LINK, Message::Ping(Zxid::ZERO)));
    world.settle();
    SESSION.put(&mut touched);
    9_000_i32.put(&mut touched);
    assert_eq!(world.sent.pop(), Some((LINK, Message::Pong(Zxid::ZERO, touched.into()))));
    world.pass(ReplicaInput::Packet(LINK, Message::Ping(Zxid::ZERO)));
    world.settle();
    assert_eq!(world.sent.pop(), Some((LINK, Message::Pong(Zxid::ZERO, Bytes::new()))), "each sign of life once");
}

/// What an observer reports after the session has left it would give the session its old timeout again, and the leader
/// would expire it too early (P38).
#[test]
fn touches_of_previous_observer_do_not_change_timeout() {
    let mut world = observed_follower(|_| ());
    let mut touched = Vec::new();
    SESSION.put(&mut touched);
    9_000_i32.put(&mut touched);
    let pong = Message::Pong(Zxid::ZERO, touched.into());
    comes_to(&mut world, OBSERVER);
    receives(&mut world, OBSERVER, pong.clone());
    let side = comes_here(&mut world);
    world.now.mono_ms += 1;
    receives(&mut world, LINK, Message::Ping(Zxid::ZERO));
    let mut own = Vec::new();
    SESSION.put(&mut own);
    10_000_i32.put(&mut own);
    assert_eq!(world.sent.pop(), Some((LINK, Message::Pong(Zxid::ZERO, own.into()))));
    receives(&mut world, OBSERVER, pong);
    receives(&mut world, LINK, Message::Ping(Zxid::ZERO));
    assert_eq!(world.sent.pop(), Some((LINK, Message::Pong(Zxid::ZERO, Bytes::new()))));
    assert!(!world.sides[side].is_closed);
}

/// A revalidation takes the session from a client of this server too. That client may have lost it elsewhere before,
/// but with the revalidation the leader considers this server the owner again (P42).
#[test]
fn session_moved_to_observer_leaves_connection_before_revalidation() {
    let mut world = observed_follower(|_| ());
    let side = comes_here(&mut world);
    world.sent.clear();
    world.set(side, 1, "/", b"");
    world.serve(side);
    world.step();
    receives(&mut world, OBSERVER, Message::Revalidate(SESSION, 9_000));
    world.set(side, 2, "/", b"");
    world.settle();
    let told: Vec<_> = world.sent.iter().map(|(_, message)| message).collect();
    assert!(matches!(told[..], [Message::Request(_), Message::Revalidate(..)]), "{told:?}");
    assert!(world.sides[side].is_closed);
}

/// For the leader the session is owned by this server, whether an observer or a client of this server writes for it
/// (P42).
#[test]
fn session_moved_from_observer_is_written_by_new_connection_only() {
    let mut world = observed_follower(|_| ());
    comes_to(&mut world, OBSERVER);
    assert!(may_write(&mut world, OBSERVER, OpCode::SetData));
    let side = world.connect(SESSION, 10_000);
    world.settle();
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "the leader is asked");
    receives(&mut world, LINK, Message::Revalidated(SESSION, true));
    assert_eq!(world.hello(side).session, SESSION);
    for op in [OpCode::SetData, OpCode::CloseSession, OpCode::Multi] {
        assert!(!may_write(&mut world, OBSERVER, op));
    }
    world.cut(side);
    world.settle();
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "who has lost it has lost it");
}

/// The same between two observers, and when the owner is closed (P42).
#[test]
fn session_moved_between_observers_is_written_by_new_one_only() {
    let mut world = observed_follower(|_| ());
    let other = LinkId(3);
    observe(&mut world, other, ServerId(4));
    comes_to(&mut world, OBSERVER);
    receives(&mut world, other, Message::Revalidate(SESSION, 9_000));
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "the leader is asked");
    receives(&mut world, LINK, Message::Revalidated(SESSION, true));
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData));
    assert!(may_write(&mut world, other, OpCode::SetData));
    world.pass(ReplicaInput::LinkClosed(other));
    world.settle();
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "who has lost it has lost it");
    comes_to(&mut world, OBSERVER);
    assert!(may_write(&mut world, OBSERVER, OpCode::SetData));
}

#[test]
fn forwarded_requests_survive_closed_observer_link() {
    let mut world = observed_follower(|_| ());
    comes_to(&mut world, OBSERVER);
    world.pass(ReplicaInput::Packet(OBSERVER, request(OpCode::SetData, 2)));
    world.pass(ReplicaInput::LinkClosed(OBSERVER));
    world.settle();
    assert_eq!(world.sent.pop(), Some((LINK, request(OpCode::SetData, 2))));
}

/// Two clients that revalidate at the same time own the session one after the other (P42).
#[test]
fn last_revalidation_keeps_session() {
    let mut world = observed_follower(|_| ());
    let sides = [world.connect(SESSION, 10_000), world.connect(SESSION, 10_000)];
    world.settle();
    receives(&mut world, OBSERVER, Message::Revalidate(SESSION, 9_000));
    for side in sides {
        receives(&mut world, LINK, Message::Revalidated(SESSION, true));
        assert_eq!(world.hello(side).session, SESSION);
    }
    assert_eq!(sides.map(|side| world.sides[side].is_closed), [true, false]);
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "it has not got it");
    receives(&mut world, LINK, Message::Revalidated(SESSION, true));
    assert!(world.sides[sides[1]].is_closed);
    assert!(may_write(&mut world, OBSERVER, OpCode::SetData));
}

#[test]
fn k151_relayed_requests_are_limited() {
    for message in [Message::Revalidate(SESSION, 9_000), request(OpCode::Sync, 1)] {
        let mut world = observed_follower(|_| ());
        for _ in 0..RELAYED_MAX {
            world.pass(ReplicaInput::Packet(OBSERVER, message.clone()));
        }
        let is_closed = |effect: &ReplicaEffect| matches!(effect, ReplicaEffect::Close(OBSERVER));
        assert!(!world.effects.take().iter().any(is_closed));
        world.pass(ReplicaInput::Packet(OBSERVER, message.clone()));
        assert!(world.effects.take().iter().any(is_closed));
    }
}
