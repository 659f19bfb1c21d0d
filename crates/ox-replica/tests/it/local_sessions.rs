//! Local sessions, at their server and at the leader.

use crate::ensemble::{LINK, follow, following, is, leading, observed, ordered, requests};
use crate::harness::Harness;
use bytes::Bytes;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::quorum::identities::RawIds;
use ox_proto::request::{CreateRequest, RequestHeader};
use ox_proto::txn::{CreateKind, CreateTxn, Txn as Body};
use ox_proto::{Jute, OpCode, RawAcls, SessionId, Zxid};
use ox_replica::ReplicaInput;
use ox_replica::{LocalSessions, ReplicaSettings};
use ox_zab::{Input, Message, Reason, Request, Traffic};

const EPHEMERAL: i32 = 1;

fn stay(settings: &mut ReplicaSettings) {
    settings.local_sessions = LocalSessions::Stay;
}

fn upgrade(settings: &mut ReplicaSettings) {
    settings.local_sessions = LocalSessions::Upgrade;
}

/// Xids and errors of the replies.
fn results(world: &mut Harness, side: usize) -> Vec<(i32, i32)> {
    world.replies(side).iter().map(|(xid, _, err, _)| (*xid, *err)).collect()
}

fn counts(world: &Harness) -> (usize, usize) {
    (world.replica.status().local_session_count(), world.state.session_count())
}

fn created<'a>(path: &'a str, ephemeral: bool) -> Body<'a> {
    let kind = CreateKind::Create { ephemeral };
    Body::Create(CreateTxn { kind, path: path.into(), data: Some(b""), acl: RawAcls::OPEN, parent_cversion: 1 })
}

fn create_body(path: &str, flags: i32) -> Bytes {
    let mut body = Vec::new();
    CreateRequest { path: Some(path.into()), data: Some(b""), acl: RawAcls::OPEN, flags }.put(&mut body);
    body.into()
}

/// A multi with one create.
fn multi(world: &mut Harness, side: usize, xid: i32, path: &str, flags: i32) {
    let request = CreateRequest { path: Some(path.into()), data: Some(b""), acl: RawAcls::OPEN, flags };
    let out = &mut world.sides[side].input;
    let mark = begin_frame(out);
    RequestHeader { xid, op: OpCode::Multi.code() }.put(out);
    MultiOp::Create(OpCode::Create, request).put(out);
    MultiHeader::END.put(out);
    end_frame(out, mark);
}

#[test]
fn local_session_opens_and_closes_without_transaction() {
    let mut world = leading(stay);
    let last = world.replica.status().last_proposed();
    let (side, session) = world.client();
    assert_eq!((session.server(), counts(&world)), (1, (1, 0)));
    world.create(side, 1, "/n", 0);
    world.bare(side, 2, OpCode::CloseSession);
    world.settle();
    let zxid = last.0 + 1;
    let replies: Vec<_> = world.replies(side).iter().map(|reply| (reply.0, reply.1, reply.2)).collect();
    assert_eq!(replies, [(1, zxid, 0), (2, zxid, 0)], "the end takes no zxid");
    assert_eq!((counts(&world), world.replica.status().last_proposed().0), ((0, 0), zxid));
    assert!(world.sides[side].is_closed);
    let again = world.connect(session, 10_000);
    world.settle();
    assert_eq!(world.hello(again).session, SessionId::NONE);
}

#[test]
fn ephemeral_nodes_are_refused_where_sessions_stay_local() {
    let mut world = leading(stay);
    let last = world.replica.status().last_proposed().0;
    let (side, _) = world.client();
    world.create(side, 1, "/e", EPHEMERAL);
    multi(&mut world, side, 2, "/e", EPHEMERAL);
    multi(&mut world, side, 3, "/n", 0);
    world.settle();
    let replies = world.replies(side);
    assert_eq!((replies[0].1, replies[0].2), (last + 1, -120), "and a zxid is taken");
    assert_eq!((replies[1].2, &replies[1].3[9..13]), (0, &(-120_i32).to_be_bytes()[..]));
    assert_eq!(replies[2].2, 0);
    assert_eq!((counts(&world), world.state.stat("/e")), ((1, 0), None));
    assert!(world.state.stat("/n").is_some());
}

#[test]
fn k113_first_ephemeral_node_upgrades_session() {
    for in_multi in [false, true] {
        let mut world = leading(upgrade);
        let last = world.replica.status().last_proposed().0;
        let (side, session) = world.client();
        if in_multi {
            multi(&mut world, side, 1, "/e", EPHEMERAL);
        } else {
            world.create(side, 1, "/e", EPHEMERAL);
        }
        world.get(side, 2, "/e", false);
        world.settle();
        let replies: Vec<_> = world.replies(side).iter().map(|reply| (reply.0, reply.1, reply.2)).collect();
        assert_eq!(replies, [(1, last + 2, 0), (2, last + 2, 0)], "the session and the node, in this order");
        assert_eq!((counts(&world), world.state.ephemerals_of(session).count()), ((0, 1), 1));
        world.bare(side, 3, OpCode::CloseSession);
        world.settle();
        assert_eq!((counts(&world), world.state.stat("/e")), ((0, 0), None), "it ends as any other");
    }
}

#[test]
fn k113_closed_session_is_not_upgraded() {
    let mut world = leading(upgrade);
    let (side, session) = world.client();
    world.create(side, 1, "/n", 0); // the close waits for it
    world.bare(side, 2, OpCode::CloseSession);
    world.create(side, 3, "/e", EPHEMERAL);
    world.create(side, 4, "/late", 0);
    world.settle();
    assert_eq!(results(&mut world, side), [(1, 0), (2, 0)]);
    assert_eq!((counts(&world), world.state.stat("/e"), world.state.stat("/late")), ((0, 0), None, None));
    let (side, _) = world.client();
    world.create(side, 1, "/e", EPHEMERAL);
    world.bare(side, 2, OpCode::CloseSession);
    world.settle();
    assert_eq!((results(&mut world, side), world.state.stat("/e")), (vec![(1, 0), (2, 0)], None));
    assert!(!world.state.has_session(session));
}

#[test]
fn local_session_expires_at_its_server() {
    for mut world in [leading(stay), following(stay)] {
        let (side, session) = world.client();
        world.now.mono_ms += 9_000;
        world.pass(ReplicaInput::Peer(Input::Traffic(LINK, Traffic::Received))); // the leader is alive
        world.on_time();
        world.settle();
        assert!(!world.sides[side].is_closed);
        world.now.mono_ms += 3_000;
        world.pass(ReplicaInput::Peer(Input::Traffic(LINK, Traffic::Received)));
        let deadline = world.replica.deadline().unwrap();
        assert!(deadline <= world.now.mono_ms, "{deadline}");
        world.on_time();
        world.settle();
        world.serve(side);
        assert_eq!((world.sides[side].is_closed, counts(&world)), (true, (0, 0)));
        let again = world.connect(session, 10_000);
        world.settle();
        let asked = world.sent.contains(&(LINK, Message::Revalidate(session, 10_000)));
        if asked {
            world.pass(ReplicaInput::Packet(LINK, Message::Revalidated(session, false)));
            world.settle();
        }
        assert_eq!(world.hello(again).session, SessionId::NONE);
    }
}

#[test]
fn learner_does_not_report_local_sessions() {
    let mut world = following(upgrade);
    let (side, session) = world.client();
    assert_eq!((requests(&mut world), counts(&world)), (vec![], (1, 0)));
    world.pass(ReplicaInput::Packet(LINK, Message::Ping(Zxid::ZERO)));
    world.settle();
    assert_eq!(world.sent.pop(), Some((LINK, Message::Pong(Zxid::ZERO, Bytes::new()))));
    world.create(side, 1, "/e", EPHEMERAL);
    world.settle();
    let sent = requests(&mut world);
    assert!(is(&sent[0], OpCode::CreateSession, 0) && is(&sent[1], OpCode::Create, 1) && sent.len() == 2);
    assert_eq!((&sent[0].ids[..], &sent[0].body[..]), (RawIds::NULL.bytes(), &10_000_i32.to_be_bytes()[..]));
    ordered(&mut world, Zxid::new(1, 1), session, 0, &Body::CreateSession { timeout_ms: 10_000 });
    assert_eq!((world.replies(side), counts(&world)), (vec![], (0, 1)));
    ordered(&mut world, Zxid::new(1, 2), session, 1, &created("/e", true));
    assert_eq!(results(&mut world, side), [(1, 0)]);
    world.pass(ReplicaInput::Packet(LINK, Message::Ping(Zxid::ZERO)));
    world.settle();
    let Some((_, Message::Pong(_, touched))) = world.sent.pop() else { panic!("no answer") };
    assert_eq!(touched[..8], session.0.to_be_bytes(), "now the leader must know that it lives");
}

/// The leader does not know the session and refuses with SessionExpired; its server reports the right error.
#[test]
fn learner_resumes_its_local_sessions() {
    let mut world = following(stay);
    let (side, session) = world.client();
    world.create(side, 1, "/e", EPHEMERAL);
    world.create(side, 2, "/n", 0);
    world.settle();
    assert_eq!(requests(&mut world).len(), 2);
    ordered(&mut world, Zxid::new(1, 1), session, 1, &Body::Error { err: -112 });
    ordered(&mut world, Zxid::new(1, 2), session, 2, &created("/n", false));
    assert_eq!(results(&mut world, side), [(1, -120), (2, 0)]);
    world.bare(side, 3, OpCode::CloseSession);
    world.settle();
    assert_eq!((results(&mut world, side), requests(&mut world)), (vec![(3, 0)], vec![]));
}

#[test]
fn leader_accepts_writes_of_unknown_local_sessions() {
    let mut world = leading(stay);
    observed(&mut world);
    let theirs = SessionId::first(2, 77);
    let mine = SessionId::first(1, 77);
    for (session, path, flags, expected) in
        [(theirs, "/a", 0, true), (theirs, "/b", EPHEMERAL, false), (mine, "/c", 0, false)]
    {
        let ids = Bytes::from_static(RawIds::EMPTY.bytes());
        let request = Request { session, cxid: 3, op: OpCode::Create.code(), body: create_body(path, flags), ids };
        world.pass(ReplicaInput::Packet(LINK, Message::Request(request)));
        world.settle();
        assert_eq!(world.state.stat(path).is_some(), expected, "{path}");
    }
    world.pass(ReplicaInput::Packet(LINK, Message::Revalidate(theirs, 10_000)));
    world.settle();
    assert_eq!(world.sent.pop(), Some((LINK, Message::Revalidated(theirs, false))), "no other server knows it");
}

/// An unknown session may be local elsewhere, unless it was closed recently: its learner may not know that yet (P40).
#[test]
fn closed_global_session_is_not_taken_for_local() {
    let mut world = leading(upgrade);
    observed(&mut world);
    let theirs = SessionId::first(2, 77);
    let input = |world: &mut Harness, op: OpCode, cxid, body: Bytes| {
        let ids = Bytes::from_static(RawIds::EMPTY.bytes());
        let request = Request { session: theirs, cxid, op: op.code(), body, ids };
        world.pass(ReplicaInput::Packet(LINK, Message::Request(request)));
        world.settle();
    };
    input(&mut world, OpCode::CreateSession, 0, Bytes::copy_from_slice(&10_000_i32.to_be_bytes()));
    input(&mut world, OpCode::Create, 1, create_body("/e", EPHEMERAL));
    assert!(world.state.stat("/e").is_some());
    input(&mut world, OpCode::CloseSession, 2, Bytes::new());
    assert!(world.state.stat("/e").is_none() && !world.state.has_session(theirs));
    input(&mut world, OpCode::Create, 3, create_body("/late", 0));
    assert!(world.state.stat("/late").is_none());
}

#[test]
fn local_session_survives_leader_and_is_unknown_elsewhere() {
    let mut world = following(stay);
    let (side, session) = world.client();
    world.pass(ReplicaInput::Peer(Input::StepDown(Reason::LinkLost)));
    world.settle();
    world.serve(side);
    world.settle();
    assert!(world.sides[side].is_closed);
    world.now.mono_ms += 60_000; // clients were not served
    follow(&mut world, 2);
    let again = world.connect(session, 10_000);
    world.settle();
    assert_eq!((world.hello(again).session, requests(&mut world)), (session, vec![]));
    let foreign = world.connect(SessionId::first(2, 77), 10_000);
    world.settle();
    assert!(world.sent.contains(&(LINK, Message::Revalidate(SessionId::first(2, 77), 10_000))));
    world.pass(ReplicaInput::Packet(LINK, Message::Revalidated(SessionId::first(2, 77), false)));
    world.settle();
    assert_eq!(world.hello(foreign).session, SessionId::NONE);
}
