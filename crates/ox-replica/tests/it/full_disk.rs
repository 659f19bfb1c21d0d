//! Members of an ensemble with a low disk (P63).

use crate::ensemble::{LINK, following, is, leading, observed, ordered, requests};
use crate::harness::Harness;
use crate::leading::Leading;
use bytes::Bytes;
use ox_proto::jute::Jute;
use ox_proto::request::{CreateRequest, PathVersion};
use ox_proto::txn::{Record, Txn as Body};
use ox_proto::{OpCode, RawAcls, SessionId, Zxid};
use ox_replica::ReplicaInput;
use ox_replica::WriteAdmission;
use ox_zab::{Message, Request};

const RESERVE: u64 = 100_000;
const THEIRS: SessionId = SessionId(0x0200_0000_0000_0001);

fn encoded<'a>(body: &impl Jute<'a>) -> Bytes {
    let mut bytes = Vec::new();
    body.put(&mut bytes);
    bytes.into()
}

fn create(path: &'static str) -> Bytes {
    encoded(&CreateRequest { path: Some(path.into()), data: Some(b""), acl: RawAcls::OPEN, flags: 0 })
}

fn delete(path: &'static str) -> Bytes {
    encoded(&PathVersion { path: Some(path.into()), version: -1 })
}

/// A learner's client sends a request; its transaction is sent to the learner.
fn input(world: &mut Harness, cxid: i32, op: OpCode, body: Bytes) -> Vec<(Zxid, i32, i32)> {
    let ids = Bytes::from_static(&[0xff; 4]);
    let request = Request { session: THEIRS, cxid, op: op.code(), body, ids };
    world.pass(ReplicaInput::Packet(LINK, Message::Request(request)));
    world.settle();
    let told = std::mem::take(&mut world.sent).into_iter().filter_map(|(_, message)| match message {
        Message::Inform(txn) | Message::Proposal(txn) => {
            let record = Record::decode(&txn.record).unwrap();
            let err = if let Body::Error { err } = record.txn { err } else { 0 };
            Some((txn.zxid, record.header.cxid, err))
        }
        _ => None,
    });
    told.collect()
}

/// Clients of a learner get the same error as the leader's own, by a transaction.
#[test]
fn p63_leader_with_low_disk_refuses_forwarded_writes() {
    let mut world = leading(|_| ());
    observed(&mut world);
    input(&mut world, 0, OpCode::CreateSession, encoded(&10_000));
    let errors = |told: Vec<(Zxid, i32, i32)>| told.into_iter().map(|(_, cxid, err)| (cxid, err)).collect::<Vec<_>>();
    assert_eq!(errors(input(&mut world, 1, OpCode::Create, create("/a"))), [(1, 0)]);
    world.pass(ReplicaInput::DiskSpace { free_bytes: RESERVE - 1, reserve_bytes: RESERVE });
    assert_eq!(world.replica.status().writes(), WriteAdmission::Freeing);
    let refused = input(&mut world, 2, OpCode::Create, create("/b"));
    assert_eq!(refused, [(world.state.last_zxid(), 2, -127)], "it takes a number, as every refusal does");
    assert!(world.state.stat("/b").is_none());
    assert_eq!(errors(input(&mut world, 3, OpCode::Delete, delete("/a"))), [(3, 0)]);
    world.pass(ReplicaInput::DiskSpace { free_bytes: RESERVE / 5, reserve_bytes: RESERVE });
    assert_eq!(errors(input(&mut world, 4, OpCode::CloseSession, Bytes::new())), [(4, 0)], "sessions end to the last");
    assert!(!world.state.has_session(THEIRS));
}

/// Refusals use space, so a learner does not cause more of them than necessary.
#[test]
fn p63_learner_forwards_rarely_to_leader_with_low_disk() {
    let mut world = following(|_| ());
    let side = world.connect(SessionId::NONE, 10_000);
    world.settle();
    let session = requests(&mut world)[0].session;
    ordered(&mut world, Zxid::new(1, 1), session, 0, &Body::CreateSession { timeout_ms: 10_000 });
    world.create(side, 1, "/a", 0);
    world.settle();
    assert!(is(&requests(&mut world)[0], OpCode::Create, 1));
    ordered(&mut world, Zxid::new(1, 2), session, 1, &Body::Error { err: -127 });
    world.create(side, 2, "/a", 0);
    world.bare(side, 3, OpCode::CloseSession);
    world.settle();
    let asked = requests(&mut world);
    assert!(asked.len() == 1 && is(&asked[0], OpCode::CloseSession, 3), "{asked:?}");
    world.hello(side);
    let heard: Vec<_> = world.replies(side).iter().map(|reply| (reply.0, reply.2)).collect();
    assert_eq!(heard, [(1, -127), (2, -127)]);
    ordered(&mut world, Zxid::new(1, 3), session, 3, &Body::CloseSession { paths: None });
    world.now.mono_ms += 1_000;
    let side = world.connect(SessionId::NONE, 10_000);
    world.settle();
    let session = requests(&mut world)[0].session;
    ordered(&mut world, Zxid::new(1, 4), session, 0, &Body::CreateSession { timeout_ms: 10_000 });
    world.create(side, 1, "/a", 0);
    world.settle();
    assert!(is(&requests(&mut world)[0], OpCode::Create, 1), "it may have space by now");
}

/// Without a second follower no quorum would remain; with it, the leader steps down.
#[test]
fn p63_leader_with_low_disk_steps_down_if_replaceable() {
    let mut leading = Leading::new();
    let (side, _) = leading.client(10_000);
    leading.world.pass(ReplicaInput::DiskSpace { free_bytes: RESERVE - 1, reserve_bytes: RESERVE });
    leading.pass(1_000);
    assert!(leading.world.replica.status().is_serving(), "it is needed");
    leading.world.create(side, 1, "/a", 0);
    leading.settle();
    assert_eq!(leading.world.replies(side)[0].2, -127);
    leading.second_follower_comes();
    leading.pass(1_000);
    assert!(!leading.world.replica.status().is_serving());
    assert!(leading.world.sides[side].is_closed, "its clients go elsewhere");
}
