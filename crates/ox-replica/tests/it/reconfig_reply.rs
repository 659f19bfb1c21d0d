//! When clients learn of a reconfiguration: the watch event when it is active, the reply when it is stored.

use crate::ensemble::{LINK, following_with_reconfig};
use crate::harness::Harness;
use ox_proto::ensemble::Ensemble;
use ox_proto::txn::{Txn as Body, TxnHeader};
use ox_proto::{Jute, SessionId, Zxid};
use ox_replica::ReplicaInput;
use ox_zab::{EncodedTxn, Message, ServerId};
use std::borrow::Cow;

const CONFIG: &str = "/zookeeper/config";
const EVENT: i32 = -1;
const ZXID: Zxid = Zxid((1 << 32) + 2);

/// A follower whose client watches the configuration, has requested a change with xid 5, and reads with xid 6.
fn asked() -> (Harness, usize, SessionId) {
    let mut world = following_with_reconfig();
    let (side, session) = client(&mut world);
    world.get(side, 1, CONFIG, true);
    world.settle();
    world.replies(side);
    world.reconfig(side, 5, "server.9=server9:2888:3888:observer");
    world.get(side, 6, "/", false);
    world.settle();
    assert_eq!(xids(&mut world, side), []);
    (world, side, session)
}

fn client(world: &mut Harness) -> (usize, SessionId) {
    let side = world.connect(SessionId::NONE, 10_000);
    world.settle();
    let Message::Request(request) = world.sent.pop().expect("a request").1 else { panic!("a session is asked for") };
    order(world, Zxid(ZXID.0 - 1), request.session, 0, &Body::CreateSession { timeout_ms: 10_000 });
    world.pass(ReplicaInput::Packet(LINK, Message::Commit(Zxid(ZXID.0 - 1))));
    world.settle();
    (side, world.hello(side).session)
}

fn order(world: &mut Harness, zxid: Zxid, session: SessionId, cxid: i32, body: &Body<'_>) {
    let mut record = Vec::new();
    TxnHeader { session, cxid, zxid, time_ms: 7, kind: body.kind().code() }.put(&mut record);
    body.put(&mut record);
    world.pass(ReplicaInput::Packet(LINK, Message::Proposal(EncodedTxn { zxid, record: record.into() })));
}

/// The leader commits the reconfiguration.
fn activate(world: &mut Harness, session: SessionId) {
    let config = Ensemble::of_numbers(ZXID.0, [1, 2].map(ServerId), [ServerId(9)]).unwrap().to_string();
    let body = Body::Reconfig { path: Cow::Borrowed(CONFIG), data: Some(config.as_bytes()), version: -1 };
    order(world, ZXID, session, 5, &body);
    world.pass(ReplicaInput::Packet(LINK, Message::CommitAndActivate(ZXID, ServerId(2))));
    world.settle();
}

fn xids(world: &mut Harness, side: usize) -> Vec<i32> {
    world.replies(side).into_iter().map(|(xid, ..)| xid).collect()
}

#[test]
fn reply_to_reconfig_waits_until_the_configuration_is_stored_but_its_event_does_not() {
    let (mut world, side, session) = asked();
    activate(&mut world, session);
    assert_eq!(xids(&mut world, side), [EVENT]);
    world.get(side, 7, "/", false);
    world.settle();
    assert_eq!(xids(&mut world, side), [], "replies stay in the order of the requests");
    world.pass(ReplicaInput::ConfigStored(ZXID.0 - 1));
    world.settle();
    assert_eq!(xids(&mut world, side), [], "that was an earlier configuration");
    world.pass(ReplicaInput::ConfigStored(ZXID.0));
    world.settle();
    assert_eq!(xids(&mut world, side), [5, 6, 7]);
}

#[test]
fn transactions_after_a_reconfig_are_applied_when_it_is_stored() {
    let (mut world, side, session) = asked();
    activate(&mut world, session);
    let later = Zxid(ZXID.0 + 1);
    order(&mut world, later, SessionId(77), 0, &Body::CreateSession { timeout_ms: 10_000 });
    world.pass(ReplicaInput::Packet(LINK, Message::Commit(later)));
    world.settle();
    assert_eq!(world.state.last_zxid(), ZXID);
    world.pass(ReplicaInput::ConfigStored(ZXID.0));
    world.settle();
    assert_eq!(world.state.last_zxid(), later);
    assert_eq!(xids(&mut world, side), [EVENT, 5, 6]);
}

#[test]
fn reply_to_reconfig_is_sent_before_a_lost_leader_closes_the_connection() {
    let (mut world, side, session) = asked();
    activate(&mut world, session);
    world.pass(ReplicaInput::LinkClosed(LINK));
    world.settle();
    assert_eq!(xids(&mut world, side), [EVENT, 5]);
    assert!(world.sides[side].is_closed);
}
