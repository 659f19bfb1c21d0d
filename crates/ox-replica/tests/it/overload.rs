//! Limits, and the behaviour at the limits.

use crate::harness::{Harness, SETTINGS, replica_settings, standalone};
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{CreateTtlRequest, PathVersion, PathWatch, RequestHeader, SetDataRequest, put_request};
use ox_proto::{Jute, OpCode, RawAcls, SessionId, Zxid};
use ox_replica::ReplicaInput;
use ox_replica::limits::{
    BYTES_IN_FLIGHT_MAX, DELETED_AT_ONCE_MAX, EXPECTED_REPLY_BYTES_MAX, FIRST_REPLY_BYTES, REPLIES_BYTES_MAX,
    REQUESTS_IN_FLIGHT_MAX,
};
use ox_replica::{
    Admission, ConnSettings, FrameOutcome, Load, ReplicaSettings, SMALL_BYTES, Service, Submission, WriteAdmission,
};
use std::borrow::Cow;

/// A client whose replies are known to be small.
fn small_client(world: &mut Harness) -> usize {
    let (side, _) = world.client();
    world.create(side, 0, "/a", 0);
    world.settle();
    for _ in 0..100 {
        world.bare(side, 1, OpCode::Ping);
    }
    world.settle();
    world.replies(side);
    side
}

#[test]
fn k146_requests_in_flight_are_limited_by_count_bytes_and_replies() {
    let mut world = Harness::new();
    let side = small_client(&mut world);
    (0..3000).for_each(|xid| world.set(side, xid, "/a", b""));
    world.serve(side);
    assert_eq!(world.sides[side].conn.in_flight(), REQUESTS_IN_FLIGHT_MAX);
    world.settle();
    assert_eq!(world.replies(side).len(), 3000);

    let large = vec![0; 100_000];
    (0..50).for_each(|xid| world.set(side, xid, "/a", &large));
    world.serve(side);
    let in_flight = world.sides[side].conn.in_flight() as usize;
    assert!((in_flight - 1) * large.len() < BYTES_IN_FLIGHT_MAX && BYTES_IN_FLIGHT_MAX < (in_flight + 1) * large.len());
    world.settle();
    assert_eq!(world.replies(side).len(), 50);

    // The reply sizes of a new connection are unknown: only few reads may follow its first write.
    let (fresh, _) = world.client();
    world.set(fresh, 0, "/a", b"");
    (1..100).for_each(|xid| world.get(fresh, xid, "/a", false));
    world.serve(fresh);
    assert_eq!(world.sides[fresh].conn.in_flight() as usize, EXPECTED_REPLY_BYTES_MAX / FIRST_REPLY_BYTES);
    world.settle();
    assert_eq!(world.replies(fresh).len(), 100);
}

#[test]
fn k146_connection_with_too_large_replies_after_write_is_closed() {
    let mut world = Harness::new();
    let side = small_client(&mut world);
    let data = vec![1; 1_000_000];
    world.set(side, 1, "/a", &data);
    world.settle();
    for _ in 0..100 {
        world.bare(side, 1, OpCode::Ping);
    }
    world.settle();
    world.replies(side);
    world.set(side, 1, "/a", &data);
    (2..200).for_each(|xid| world.get(side, xid, "/a", false));
    world.settle();
    assert!(world.sides[side].is_closed);
    let bytes = world.sides[side].output.len();
    assert!(bytes < REPLIES_BYTES_MAX + 2 * data.len(), "{bytes}");
}

#[test]
fn load_counts_requests_until_applied() {
    let mut world = Harness::new();
    let side = small_client(&mut world);
    assert_eq!(world.replica.load(), Load::default());
    world.set(side, 1, "/a", &[0; 1000]);
    (2..12).for_each(|xid| world.get(side, xid, "/a", false));
    world.serve(side);
    world.step();
    let load = world.replica.load();
    assert_eq!(load.requests, 11);
    assert!(2000 < load.bytes, "the record, and the submission that reads wait in: {load:?}");
    world.settle();
    assert_eq!(world.replica.load(), Load::default());
}

#[test]
fn one_per_connection_admits_one_request_each() {
    let mut world = Harness::new();
    let side = small_client(&mut world);
    world.admission = Admission::OnePerConnection;
    (0..10).for_each(|xid| world.set(side, xid, "/a", b""));
    world.serve(side);
    assert_eq!(world.sides[side].conn.in_flight(), 1);
    world.settle();
    assert_eq!(world.replies(side).len(), 10, "all of them, one after the other");
    world.admission = Admission::Closed;
    world.bare(side, 1, OpCode::Ping);
    world.get(side, 2, "/a", false);
    world.set(side, 3, "/a", b"");
    world.settle();
    assert_eq!(world.replies(side).len(), 2, "what can be answered at once is");
    world.admission = Admission::Open;
    world.settle();
    assert_eq!(world.replies(side).len(), 1);
}

#[test]
fn large_requests_wait_while_small_only() {
    let mut world = Harness::new();
    let (large, small) = (small_client(&mut world), small_client(&mut world));
    world.admission = Admission::SmallOnly;
    world.set(large, 1, "/a", &[0; SMALL_BYTES]);
    world.set(small, 1, "/a", b"");
    world.settle();
    assert_eq!((world.replies(large).len(), world.replies(small).len()), (0, 1));
    world.admission = Admission::OnePerConnection;
    world.settle();
    assert_eq!(world.replies(large).len(), 1);
}

/// A client of a server that creates only small replies. A reply with `/a` is large, one with `/small` is not.
fn only_small_replies() -> (Harness, usize) {
    let mut world = Harness::new();
    let side = small_client(&mut world);
    world.set(side, 1, "/a", &[0; SMALL_BYTES + 1]);
    world.create(side, 2, "/small", 0);
    world.settle();
    world.replies(side);
    world.small_replies_only = true;
    (world, side)
}

#[test]
fn large_replies_wait_while_small_replies_only() {
    let (mut world, side) = only_small_replies();
    world.get(side, 3, "/small", false);
    world.bare(side, -2, OpCode::Ping);
    world.get(side, 4, "/a", true);
    world.settle();
    assert_eq!(world.replies(side).len(), 2, "and not the large one");
    assert_eq!(world.state.watches().lock().total(), 0, "what waits has no effect yet");
    world.small_replies_only = false;
    world.settle();
    assert_eq!(world.replies(side).len(), 1);
}

fn paths<'a>(paths: &[&'a str]) -> Option<Vec<Option<Cow<'a, str>>>> {
    Some(paths.iter().map(|path| Some((*path).into())).collect())
}

fn put_raw(world: &mut Harness, side: usize, xid: i32, op: OpCode, body: &[u8]) {
    let input = &mut world.sides[side].input;
    let mark = begin_frame(input);
    RequestHeader { xid, op: op.code() }.put(input);
    input.extend_from_slice(body);
    end_frame(input, mark);
}

/// The sizes of these replies are not in the request, but must be known: a client that reconnects sends its watches
/// first, and would make no progress.
#[test]
fn watches_and_multi_reads_are_served_while_small_replies_only() {
    let (mut world, side) = only_small_replies();
    let set_watches = |missed: &[&str]| {
        let mut body = Vec::new();
        Zxid(i64::MAX).put(&mut body);
        for list in [paths(missed), paths(&[]), paths(&["/small"])] {
            list.put(&mut body);
        }
        body
    };
    let multi_read = |path: &str| {
        let mut body = Vec::new();
        MultiOp::GetData(PathWatch { path: Some(path.into()), watch: false }).put(&mut body);
        MultiHeader::END.put(&mut body);
        body
    };
    put_raw(&mut world, side, 3, OpCode::SetWatches, &set_watches(&["/gone"]));
    put_raw(&mut world, side, 4, OpCode::MultiRead, &multi_read("/small"));
    world.settle();
    let xids: Vec<_> = world.replies(side).iter().map(|reply| reply.0).collect();
    assert_eq!(xids, [-1, 3, 4], "an event, and both replies");
    put_raw(&mut world, side, 5, OpCode::MultiRead, &multi_read("/a"));
    world.settle();
    assert_eq!(world.replies(side), [], "it is large");
    world.small_replies_only = false;
    world.settle();
    assert_eq!(world.replies(side).len(), 1);
    world.small_replies_only = true;
    let gone = format!("/{}", "n".repeat(SMALL_BYTES));
    put_raw(&mut world, side, 6, OpCode::SetWatches, &set_watches(&[&gone]));
    world.settle();
    assert_eq!(world.replies(side), [], "its events are large");
}

/// Reads that wait for a write are executed when it is applied, all in one step.
#[test]
fn replies_of_one_submission_are_limited() {
    let mut world = Harness::new();
    let side = small_client(&mut world);
    let data = vec![1; 1_000_000];
    world.set(side, 1, "/a", &data);
    world.settle();
    for _ in 0..100 {
        world.bare(side, 1, OpCode::Ping);
    }
    world.settle();
    world.replies(side);
    world.effects.replies_max = 0;
    world.set(side, 1, "/a", b"");
    world.serve(side);
    (2..50).for_each(|xid| world.get(side, xid, "/a", false));
    world.set(side, 1, "/a", &data);
    (2..50).for_each(|xid| world.get(side, xid, "/a", false));
    world.settle();
    assert!(world.sides[side].is_closed);
    let bytes = world.sides[side].output.len();
    assert!(bytes < data.len(), "{bytes}");
}

/// Processes one request that has waited for a second.
fn serve_late(settings: ConnSettings, op: OpCode) -> (FrameOutcome, Vec<(i32, i32)>) {
    let mut world = Harness::new();
    let side = small_client(&mut world);
    let mut submission = Submission::default();
    let late = &mut world.sides[side];
    let frame = [&7_i32.to_be_bytes()[..], &op.code().to_be_bytes(), b"\0\0\0\x02/a\0"].concat();
    let mut service = Service {
        now: world.now,
        state: &world.state,
        settings,
        admission: Admission::Open,
        small_replies_only: false,
        waited_ms: 11_000,
        admit: &|_| true,
        out: &mut late.output,
        submission: &mut submission,
    };
    let verdict = late.conn.on_frame(&frame, &mut service);
    (verdict, world.replies(side).iter().map(|reply| (reply.0, reply.2)).collect())
}

#[test]
fn requests_that_waited_too_long_are_refused_or_dropped() {
    let throttled = ConnSettings { throttled_op_wait_ms: 10_999, ..SETTINGS };
    assert_eq!(serve_late(throttled, OpCode::GetData), (FrameOutcome::Continue, vec![(7, -127)]));
    assert_eq!(serve_late(throttled, OpCode::SetData), (FrameOutcome::Continue, vec![(7, -127)]));
    assert_eq!(serve_late(throttled, OpCode::Ping), (FrameOutcome::Continue, vec![(-2, 0)]), "heartbeats are exempt");
    assert_eq!(serve_late(throttled, OpCode::CloseSession), (FrameOutcome::Continue, vec![]));
    let patient = ConnSettings { throttled_op_wait_ms: 11_000, ..SETTINGS };
    assert_eq!(serve_late(patient, OpCode::GetData), (FrameOutcome::Continue, vec![(7, 0)]));
    let dropping = ConnSettings { drop_late: true, ..SETTINGS }; // longer than the session timeout of 10 s
    assert_eq!(serve_late(dropping, OpCode::GetData), (FrameOutcome::Close, vec![]));
    assert_eq!(serve_late(dropping, OpCode::CloseSession), (FrameOutcome::Continue, vec![]));
}

#[test]
fn k153_full_disk_refuses_writes_that_need_space() {
    let mut world = Harness::new();
    let side = small_client(&mut world);
    world.pass(ReplicaInput::DiskSpace { free_bytes: 1000, reserve_bytes: 1000 });
    assert_eq!(world.replica.status().writes(), WriteAdmission::All);
    world.set(side, 1, "/a", b"a first one fits, and uses the space up");
    world.set(side, 2, "/a", b"");
    world.get(side, 3, "/a", false);
    delete(&mut world, side, 4, "/a");
    world.settle();
    let heard: Vec<_> = world.replies(side).iter().map(|reply| (reply.0, reply.2)).collect();
    assert_eq!(heard, [(1, 0), (2, -127), (3, 0), (4, 0)]);
    world.pass(ReplicaInput::DiskSpace { free_bytes: 100, reserve_bytes: 1000 });
    assert_eq!(world.replica.status().writes(), WriteAdmission::None);
    let newcomer = world.connect(SessionId::NONE, 10_000);
    world.create(side, 5, "/b", 0);
    world.settle();
    assert!(world.sides[newcomer].is_closed, "no word could tell it why");
    assert_eq!(world.replies(side)[0].2, -127);
    world.pass(ReplicaInput::DiskSpace { free_bytes: 1 << 30, reserve_bytes: 1000 });
    world.create(side, 6, "/b", 0);
    world.settle();
    assert_eq!(world.replies(side)[0].2, 0);
}

fn delete(world: &mut Harness, side: usize, xid: i32, path: &str) {
    put_request(&mut world.sides[side].input, xid, OpCode::Delete.code(), &at_any_version(path));
}

fn at_any_version(path: &str) -> PathVersion<'_> {
    PathVersion { path: Some(path.into()), version: -1 }
}

fn multi(world: &mut Harness, side: usize, xid: i32, elements: &[MultiOp<'_>]) {
    let input = &mut world.sides[side].input;
    let mark = begin_frame(input);
    RequestHeader { xid, op: OpCode::Multi.code() }.put(input);
    elements.iter().for_each(|element| element.put(input));
    MultiHeader::END.put(input);
    end_frame(input, mark);
}

/// Xid and error of the last replies to a client.
fn errors(world: &mut Harness, side: usize) -> Vec<(i32, i32)> {
    world.settle();
    world.replies(side).iter().map(|reply| (reply.0, reply.2)).collect()
}

/// During the shortage, requests that end it are served, and it ends without intervention (O16).
#[test]
fn k150_low_disk_accepts_writes_that_free_space() {
    const RESERVE: u64 = 100_000;
    let mut world = Harness::new();
    let side = small_client(&mut world);
    (0..6).for_each(|at| world.create(side, at, &format!("/n{at}"), 0));
    let (leaving, session) = world.client();
    world.create(leaving, 1, "/ephemeral", 1);
    world.settle();
    world.replies(side);
    world.replies(leaving);

    world.pass(ReplicaInput::DiskSpace { free_bytes: RESERVE - 1, reserve_bytes: RESERVE });
    assert_eq!(world.replica.status().writes(), WriteAdmission::Freeing);
    let remove = |path: &'static str| MultiOp::Delete(at_any_version(path));
    let set = SetDataRequest { path: Some("/a".into()), data: Some(b"larger"), version: -1 };
    world.create(side, 1, "/b", 0);
    delete(&mut world, side, 2, "/n0");
    multi(&mut world, side, 3, &[MultiOp::Check(at_any_version("/a")), remove("/n1"), remove("/n2")]);
    multi(&mut world, side, 4, &[remove("/n3"), MultiOp::SetData(set)]);
    multi(&mut world, side, 5, &[MultiOp::Check(at_any_version("/a"))]);
    assert_eq!(errors(&mut world, side), [(1, -127), (2, 0), (3, 0), (4, -127), (5, -127)]);
    assert!(world.state.stat("/n2").is_none() && world.state.stat("/n3").is_some());

    let (newcomer, _) = world.client();
    delete(&mut world, newcomer, 1, "/n4");
    assert_eq!(errors(&mut world, newcomer), [(1, 0)], "who wants to delete needs a session");
    let renewed = world.connect(session, 10_000);
    world.settle();
    assert_eq!(world.hello(renewed).session, session);

    world.pass(ReplicaInput::DiskSpace { free_bytes: RESERVE / 5, reserve_bytes: RESERVE });
    assert_eq!(world.replica.status().writes(), WriteAdmission::None);
    delete(&mut world, side, 6, "/n5");
    world.get(side, 7, "/a", false);
    assert_eq!(errors(&mut world, side), [(6, -127), (7, 0)]);
    world.bare(renewed, 1, OpCode::CloseSession);
    world.settle();
    assert!(!world.state.has_session(session) && world.state.stat("/ephemeral").is_none(), "sessions end to the last");

    world.pass(ReplicaInput::DiskSpace { free_bytes: 2 * RESERVE, reserve_bytes: RESERVE });
    world.create(side, 8, "/b", 0);
    assert_eq!(errors(&mut world, side), [(8, 0)], "without intervention");
}

/// However fast nodes expire, a step deletes a limited number, and the next steps the rest.
#[test]
fn k117_mass_node_expiry_is_split_into_steps() {
    let mut world = Harness::new();
    let settings = ReplicaSettings { sweep_interval_ms: 1000, sweep_per_minute: 1_000_000, ..replica_settings(1, 0) };
    world.replica = standalone(settings, &world.state, world.now);
    let (side, _) = world.client();
    for number in 0..1000 {
        let path = Some(format!("/n{number}").into());
        let body = CreateTtlRequest { path, data: None, acl: RawAcls::OPEN, flags: 5, ttl_ms: 1 };
        put_request(&mut world.sides[side].input, number, OpCode::CreateTtl.code(), &body);
    }
    world.settle();
    let before = world.state.node_count();
    (world.now.mono_ms, world.now.wall_ms) = (1000, 2000);
    world.on_time();
    assert_eq!(world.replica.status().outstanding(), DELETED_AT_ONCE_MAX);
    assert_eq!(world.replica.deadline(), Some(1000), "there is more to do");
    for _ in 0..3 {
        world.on_time();
    }
    world.settle();
    assert_eq!(world.state.node_count(), before - 1000);
}

#[test]
fn client_waiting_for_memory_is_not_silent() {
    let mut world = Harness::new();
    let (side, session) = world.client();
    for _ in 0..20 {
        world.now.mono_ms += 1000;
        world.sides[side].conn.on_refused(world.now); // its frame is not even read again
        world.on_time();
        world.settle();
    }
    assert!(world.state.has_session(session));
    world.create(side, 1, "/a", 0);
    world.settle();
    assert_eq!(world.replies(side).len(), 1);
    world.now.mono_ms += 20_000;
    world.on_time();
    world.settle();
    assert!(!world.state.has_session(session));
}
