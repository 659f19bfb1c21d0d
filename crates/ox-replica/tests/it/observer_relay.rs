//! A follower between its leader and an observer.

use crate::ensemble::{LINK, OBSERVER, observe, observed_follower, ordered};
use crate::harness::World;
use bytes::Bytes;
use ox_proto::quorum::identities::RawIds;
use ox_proto::txn::Txn as Body;
use ox_proto::{Jute, OpCode, SessionId, Zxid};
use ox_replica::limits::RELAYED_MAX;
use ox_tree::outbox::Outboxes;
use ox_zab::{Effect, LinkId, Message, Request, ServerId};

const SESSION: SessionId = SessionId(0x0300_0000_0000_0001);

fn request(op: OpCode, cxid: i32) -> Message {
    let ids = Bytes::from_static(RawIds::EMPTY.bytes());
    Message::Request(Request { session: SESSION, cxid, op: op.code(), body: Bytes::from_static(b"body"), ids })
}

fn hears(world: &mut World, link: LinkId, message: Message) {
    world.replica.on_message(world.now, link, message);
    world.settle();
}

/// Whether an observer's write goes to the leader; if it does not, something else does that every leader refuses.
fn may_write(world: &mut World, link: LinkId, op: OpCode) -> bool {
    hears(world, link, request(op, 2));
    let Some((LINK, Message::Request(sent))) = world.sent.pop() else { panic!("nothing is sent") };
    let refused = [&[0, 0, 0, 1, b'/'][..], &[0xff; 4]].concat();
    let is_refused = (sent.op, sent.cxid, &sent.body[..]) == (OpCode::Delete.code(), 2, &refused[..]);
    assert!(is_refused || Message::Request(sent) == request(op, 2));
    !is_refused
}

/// A client that comes to this server with the session, which the leader knows.
fn comes_here(world: &mut World) -> usize {
    let side = world.connect(SESSION, 10_000);
    world.settle();
    hears(world, LINK, Message::Revalidated(SESSION, true));
    assert_eq!(world.hello(side).session, SESSION);
    side
}

/// One that comes to an observer.
fn comes_to(world: &mut World, link: LinkId) {
    hears(world, link, Message::Revalidate(SESSION, 9_000));
    hears(world, LINK, Message::Revalidated(SESSION, true));
    assert_eq!(world.sent.pop(), Some((link, Message::Revalidated(SESSION, true))));
}

#[test]
fn requests_go_to_the_leader_as_they_are_and_come_back_as_transactions() {
    let mut world = observed_follower(|_| ());
    let asked = request(OpCode::CreateSession, 0);
    world.replica.on_message(world.now, OBSERVER, asked.clone());
    world.settle();
    assert_eq!(world.sent, [(LINK, asked)]);
    world.sent.clear();
    ordered(&mut world, Zxid::new(1, 1), SESSION, 0, &Body::CreateSession { timeout_ms: 9_000 });
    let informed: Vec<_> = world.sent.iter().filter(|(link, _)| *link == OBSERVER).collect();
    assert!(matches!(informed[..], [(_, Message::Inform(txn))] if txn.zxid == Zxid::new(1, 1)), "{informed:?}");
}

/// Syncs have no names: the leader's answers go to whoever asked, in this order, each behind what it stands for.
#[test]
fn answers_to_syncs_find_their_way() {
    let mut world = observed_follower(|_| ());
    world.replica.on_message(world.now, OBSERVER, request(OpCode::Sync, 1));
    world.settle();
    ordered(&mut world, Zxid::new(1, 1), SESSION, 0, &Body::CreateSession { timeout_ms: 9_000 });
    world.replica.on_message(world.now, LINK, Message::Sync);
    world.settle();
    let told: Vec<_> = world.sent.iter().filter(|(link, _)| *link == OBSERVER).map(|(_, message)| message).collect();
    assert!(matches!(told[..], [Message::Inform(_), Message::Sync]), "{told:?}");
}

#[test]
fn sessions_are_asked_for_and_heard_of_at_the_leader() {
    let mut world = observed_follower(|_| ());
    let other = SessionId(SESSION.0 + 1);
    for (session, valid) in [(SESSION, true), (other, false)] {
        world.replica.on_message(world.now, OBSERVER, Message::Revalidate(session, 9_000));
        world.settle();
        assert_eq!(world.sent.pop(), Some((LINK, Message::Revalidate(session, 9_000))));
        world.replica.on_message(world.now, LINK, Message::Revalidated(session, valid));
        world.settle();
        assert_eq!(world.sent.pop(), Some((OBSERVER, Message::Revalidated(session, valid))));
    }
    let mut touched = Vec::new();
    SessionId(5).put(&mut touched);
    7_000_i32.put(&mut touched);
    world.replica.on_message(world.now, OBSERVER, Message::Pong(Zxid::ZERO, touched.clone().into()));
    world.replica.on_message(world.now, LINK, Message::Ping(Zxid::ZERO));
    world.settle();
    SESSION.put(&mut touched);
    9_000_i32.put(&mut touched);
    assert_eq!(world.sent.pop(), Some((LINK, Message::Pong(Zxid::ZERO, touched.into()))));
    world.replica.on_message(world.now, LINK, Message::Ping(Zxid::ZERO));
    world.settle();
    assert_eq!(world.sent.pop(), Some((LINK, Message::Pong(Zxid::ZERO, Bytes::new()))), "each sign of life once");
}

/// P42: whoever names a session takes it, also from a client of this server. That one may have lost it elsewhere before;
/// when the leader is asked for it, it is here again for the leader.
#[test]
fn a_session_that_goes_to_an_observer_leaves_its_connection_before_the_leader_is_asked() {
    let mut world = observed_follower(|_| ());
    let side = comes_here(&mut world);
    world.sent.clear();
    world.set(side, 1, "/", b"");
    world.serve(side);
    hears(&mut world, OBSERVER, Message::Revalidate(SESSION, 9_000));
    world.set(side, 2, "/", b"");
    world.settle();
    let told: Vec<_> = world.sent.iter().map(|(_, message)| message).collect();
    assert!(matches!(told[..], [Message::Request(_), Message::Revalidate(..)]), "{told:?}");
    assert!(world.sides[side].is_closed);
}

/// P42: for the leader a session is still at this server, whether the observer writes for it or a client of this server
/// does.
#[test]
fn a_session_that_comes_from_an_observer_is_written_for_by_its_new_connection_only() {
    let mut world = observed_follower(|_| ());
    comes_to(&mut world, OBSERVER);
    assert!(may_write(&mut world, OBSERVER, OpCode::SetData));
    let side = world.connect(SESSION, 10_000);
    world.settle();
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "the leader is asked");
    hears(&mut world, LINK, Message::Revalidated(SESSION, true));
    assert_eq!(world.hello(side).session, SESSION);
    for op in [OpCode::SetData, OpCode::CloseSession, OpCode::Multi] {
        assert!(!may_write(&mut world, OBSERVER, op));
    }
    world.cut(side);
    world.settle();
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "who has lost it has lost it");
}

/// P42: the same between two observers, and when the one that has it is gone.
#[test]
fn a_session_that_goes_to_another_observer_is_written_for_there_only() {
    let mut world = observed_follower(|_| ());
    let other = LinkId(3);
    observe(&mut world, other, ServerId(4));
    comes_to(&mut world, OBSERVER);
    hears(&mut world, other, Message::Revalidate(SESSION, 9_000));
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "the leader is asked");
    hears(&mut world, LINK, Message::Revalidated(SESSION, true));
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData));
    assert!(may_write(&mut world, other, OpCode::SetData));
    world.replica.on_link_gone(world.now, other);
    world.settle();
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "who has lost it has lost it");
    comes_to(&mut world, OBSERVER);
    assert!(may_write(&mut world, OBSERVER, OpCode::SetData));
}

#[test]
fn what_an_observer_has_asked_for_stands_when_it_is_gone() {
    let mut world = observed_follower(|_| ());
    comes_to(&mut world, OBSERVER);
    world.replica.on_message(world.now, OBSERVER, request(OpCode::SetData, 2));
    world.replica.on_link_gone(world.now, OBSERVER);
    world.settle();
    assert_eq!(world.sent.pop(), Some((LINK, request(OpCode::SetData, 2))));
}

/// P42: two that ask at the same time get it one after the other.
#[test]
fn the_last_one_to_ask_for_a_session_keeps_it() {
    let mut world = observed_follower(|_| ());
    let sides = [world.connect(SESSION, 10_000), world.connect(SESSION, 10_000)];
    world.settle();
    hears(&mut world, OBSERVER, Message::Revalidate(SESSION, 9_000));
    for side in sides {
        hears(&mut world, LINK, Message::Revalidated(SESSION, true));
        assert_eq!(world.hello(side).session, SESSION);
    }
    assert_eq!(sides.map(|side| world.sides[side].is_closed), [true, false]);
    assert!(!may_write(&mut world, OBSERVER, OpCode::SetData), "it has not got it");
    hears(&mut world, LINK, Message::Revalidated(SESSION, true));
    assert!(world.sides[sides[1]].is_closed);
    assert!(may_write(&mut world, OBSERVER, OpCode::SetData));
}

#[test]
fn k151_what_waits_for_the_leader_is_bounded() {
    for message in [Message::Revalidate(SESSION, 9_000), request(OpCode::Sync, 1)] {
        let mut world = observed_follower(|_| ());
        for _ in 0..RELAYED_MAX {
            world.replica.on_message(world.now, OBSERVER, message.clone());
        }
        world.replica.settle(world.now, &world.state, &mut Outboxes::new(1));
        assert!(!world.replica.take_effects().contains(&Effect::Close(OBSERVER)));
        world.replica.on_message(world.now, OBSERVER, message.clone());
        world.replica.settle(world.now, &world.state, &mut Outboxes::new(1));
        assert!(world.replica.take_effects().contains(&Effect::Close(OBSERVER)));
    }
}
