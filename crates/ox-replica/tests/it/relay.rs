//! A follower between its leader and an observer.

use crate::ensemble::{LINK, OBSERVER, observed_follower, ordered};
use bytes::Bytes;
use ox_proto::quorum::identities::RawIds;
use ox_proto::txn::Txn as Body;
use ox_proto::{Jute, OpCode, SessionId, Zxid};
use ox_replica::limits::RELAYED_MAX;
use ox_tree::outbox::Outboxes;
use ox_zab::{Effect, Message, Request};

const SESSION: SessionId = SessionId(0x0300_0000_0000_0001);

fn request(op: OpCode, cxid: i32) -> Message {
    let ids = Bytes::from_static(RawIds::EMPTY.bytes());
    Message::Request(Request { session: SESSION, cxid, op: op.code(), body: Bytes::from_static(b"body"), ids })
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

/// Whoever names a session takes it, also from a client of this server.
#[test]
fn a_session_that_goes_to_an_observer_leaves_its_connection() {
    let mut world = observed_follower(|_| ());
    let side = world.connect(SESSION, 10_000);
    world.settle();
    world.replica.on_message(world.now, LINK, Message::Revalidated(SESSION, true));
    world.settle();
    assert_eq!(world.hello(side).session, SESSION);
    world.replica.on_message(world.now, OBSERVER, Message::Revalidate(SESSION, 9_000));
    world.settle();
    world.replica.on_message(world.now, LINK, Message::Revalidated(SESSION, true));
    world.settle();
    world.serve(side);
    assert!(world.sides[side].is_closed);
}

/// P42: for the leader a session is still at this server, whether the observer writes for it or a client of this server
/// does.
#[test]
fn a_session_that_comes_from_an_observer_is_written_for_by_its_new_connection_only() {
    let mut world = observed_follower(|_| ());
    world.replica.on_message(world.now, OBSERVER, Message::Revalidate(SESSION, 9_000));
    world.settle();
    world.replica.on_message(world.now, LINK, Message::Revalidated(SESSION, true));
    world.settle();
    world.sent.clear();
    let asked = request(OpCode::SetData, 1);
    world.replica.on_message(world.now, OBSERVER, asked.clone());
    world.settle();
    assert_eq!(world.sent.pop(), Some((LINK, asked)));
    let side = world.connect(SESSION, 10_000);
    world.settle();
    world.replica.on_message(world.now, LINK, Message::Revalidated(SESSION, true));
    world.settle();
    assert_eq!(world.hello(side).session, SESSION);
    world.sent.clear();
    for op in [OpCode::SetData, OpCode::CloseSession, OpCode::Multi] {
        world.replica.on_message(world.now, OBSERVER, request(op, 2));
        world.settle();
        let Some((LINK, Message::Request(sent))) = world.sent.pop() else { panic!("nothing is sent") };
        let refused = [&[0, 0, 0, 1, b'/'][..], &[0xff; 4]].concat();
        assert_eq!((sent.op, sent.cxid, &sent.body[..]), (OpCode::Delete.code(), 2, &refused[..]));
    }
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
