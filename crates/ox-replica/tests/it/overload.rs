//! Bounds, and what happens at them.

use crate::harness::{SETTINGS, World, replica_settings};
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::request::{CreateTtlRequest, PathVersion, PathWatch, RequestHeader, SetDataRequest, put_request};
use ox_proto::{Jute, OpCode, RawAcls, SessionId, Zxid};
use ox_replica::limits::{
    BYTES_IN_FLIGHT_MAX, EXPECTED_ANSWER_BYTES_MAX, FIRST_ANSWER_BYTES, REPLIES_BYTES_MAX, REQUESTS_IN_FLIGHT_MAX,
    SWEPT_AT_ONCE_MAX,
};
use ox_replica::{
    ConnSettings, Load, Replica, ReplicaSettings, Room, SMALL_BYTES, Service, Submission, Verdict, Writes,
};
use std::borrow::Cow;

/// A client whose answers are known to be small.
fn small_client(world: &mut World) -> usize {
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
fn k146_requests_on_their_way_are_bounded_by_number_bytes_and_answers() {
    let mut world = World::new();
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

    // Nobody knows what a new connection will ask for: a few reads may follow its first write.
    let (fresh, _) = world.client();
    world.set(fresh, 0, "/a", b"");
    (1..100).for_each(|xid| world.get(fresh, xid, "/a", false));
    world.serve(fresh);
    assert_eq!(world.sides[fresh].conn.in_flight() as usize, EXPECTED_ANSWER_BYTES_MAX / FIRST_ANSWER_BYTES);
    world.settle();
    assert_eq!(world.replies(fresh).len(), 100);
}

#[test]
fn k146_a_connection_that_asks_for_too_much_behind_a_write_is_given_up() {
    let mut world = World::new();
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
fn what_is_on_its_way_is_counted_until_it_is_applied() {
    let mut world = World::new();
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
fn crowded_servers_take_one_request_of_each() {
    let mut world = World::new();
    let side = small_client(&mut world);
    world.room = Room::OneEach;
    (0..10).for_each(|xid| world.set(side, xid, "/a", b""));
    world.serve(side);
    assert_eq!(world.sides[side].conn.in_flight(), 1);
    world.settle();
    assert_eq!(world.replies(side).len(), 10, "all of them, one after the other");
    world.room = Room::None;
    world.bare(side, 1, OpCode::Ping);
    world.get(side, 2, "/a", false);
    world.set(side, 3, "/a", b"");
    world.settle();
    assert_eq!(world.replies(side).len(), 2, "what can be answered at once is");
    world.room = Room::Plenty;
    world.settle();
    assert_eq!(world.replies(side).len(), 1);
}

#[test]
fn requests_while_only_small_ones_enter_wait_if_large() {
    let mut world = World::new();
    let (large, small) = (small_client(&mut world), small_client(&mut world));
    world.room = Room::Small;
    world.set(large, 1, "/a", &[0; SMALL_BYTES]);
    world.set(small, 1, "/a", b"");
    world.settle();
    assert_eq!((world.replies(large).len(), world.replies(small).len()), (0, 1));
    world.room = Room::OneEach;
    world.settle();
    assert_eq!(world.replies(large).len(), 1);
}

/// A client of a server that makes small replies only. A reply with `/a` is large, one with `/small` is not.
fn only_small_replies() -> (World, usize) {
    let mut world = World::new();
    let side = small_client(&mut world);
    world.set(side, 1, "/a", &[0; SMALL_BYTES + 1]);
    world.create(side, 2, "/small", 0);
    world.settle();
    world.replies(side);
    world.small_replies_only = true;
    (world, side)
}

#[test]
fn replies_while_only_small_ones_are_made_wait_if_large() {
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

fn put_raw(world: &mut World, side: usize, xid: i32, op: OpCode, body: &[u8]) {
    let input = &mut world.sides[side].input;
    let mark = begin_frame(input);
    RequestHeader { xid, op: op.code() }.put(input);
    input.extend_from_slice(body);
    end_frame(input, mark);
}

/// The size of their replies is not in the request, but has to be known all the same: a client that comes back sends its watches
/// first, and would get no further.
#[test]
fn watches_and_multi_reads_are_served_while_only_small_replies_are_made() {
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

/// Reads that come when the write they followed is applied are answered immediately, all in one step.
#[test]
fn replies_of_one_submission_are_bounded() {
    let mut world = World::new();
    let side = small_client(&mut world);
    let data = vec![1; 1_000_000];
    world.set(side, 1, "/a", &data);
    world.settle();
    for _ in 0..100 {
        world.bare(side, 1, OpCode::Ping);
    }
    world.settle();
    world.replies(side);
    world.replica.limit_replies(0);
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

/// Serves one request that has been lying here for a second.
fn serve_late(settings: ConnSettings, op: OpCode) -> (Verdict, Vec<(i32, i32)>) {
    let mut world = World::new();
    let side = small_client(&mut world);
    let mut submission = Submission::default();
    let late = &mut world.sides[side];
    let frame = [&7_i32.to_be_bytes()[..], &op.code().to_be_bytes(), b"\0\0\0\x02/a\0"].concat();
    let mut service = Service {
        now: world.now,
        state: &world.state,
        settings,
        room: Room::Plenty,
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
    assert_eq!(serve_late(throttled, OpCode::GetData), (Verdict::Continue, vec![(7, -127)]));
    assert_eq!(serve_late(throttled, OpCode::SetData), (Verdict::Continue, vec![(7, -127)]));
    assert_eq!(serve_late(throttled, OpCode::Ping), (Verdict::Continue, vec![(-2, 0)]), "heartbeats are exempt");
    assert_eq!(serve_late(throttled, OpCode::CloseSession), (Verdict::Continue, vec![]));
    let patient = ConnSettings { throttled_op_wait_ms: 11_000, ..SETTINGS };
    assert_eq!(serve_late(patient, OpCode::GetData), (Verdict::Continue, vec![(7, 0)]));
    let dropping = ConnSettings { drop_late: true, ..SETTINGS }; // longer than the session's ten seconds
    assert_eq!(serve_late(dropping, OpCode::GetData), (Verdict::Close, vec![]));
    assert_eq!(serve_late(dropping, OpCode::CloseSession), (Verdict::Continue, vec![]));
}

#[test]
fn k153_a_full_disk_refuses_what_needs_space() {
    let mut world = World::new();
    let side = small_client(&mut world);
    world.replica.on_space(world.now, 1000, 1000);
    assert_eq!(world.replica.writes(), Writes::All);
    world.set(side, 1, "/a", b"a first one fits, and uses the space up");
    world.set(side, 2, "/a", b"");
    world.get(side, 3, "/a", false);
    delete(&mut world, side, 4, "/a");
    world.settle();
    let heard: Vec<_> = world.replies(side).iter().map(|reply| (reply.0, reply.2)).collect();
    assert_eq!(heard, [(1, 0), (2, -127), (3, 0), (4, 0)]);
    world.replica.on_space(world.now, 100, 1000);
    assert_eq!(world.replica.writes(), Writes::None);
    let newcomer = world.connect(SessionId::NONE, 10_000);
    world.create(side, 5, "/b", 0);
    world.settle();
    assert!(world.sides[newcomer].is_closed, "no word could tell it why");
    assert_eq!(world.replies(side)[0].2, -127);
    world.replica.on_space(world.now, 1 << 30, 1000);
    world.create(side, 6, "/b", 0);
    world.settle();
    assert_eq!(world.replies(side)[0].2, 0);
}

fn delete(world: &mut World, side: usize, xid: i32, path: &str) {
    put_request(&mut world.sides[side].input, xid, OpCode::Delete.code(), &at_any_version(path));
}

fn at_any_version(path: &str) -> PathVersion<'_> {
    PathVersion { path: Some(path.into()), version: -1 }
}

fn multi(world: &mut World, side: usize, xid: i32, elements: &[MultiOp<'_>]) {
    let input = &mut world.sides[side].input;
    let mark = begin_frame(input);
    RequestHeader { xid, op: OpCode::Multi.code() }.put(input);
    elements.iter().for_each(|element| element.put(input));
    MultiHeader::END.put(input);
    end_frame(input, mark);
}

/// The last replies to a client: xid and error.
fn errors(world: &mut World, side: usize) -> Vec<(i32, i32)> {
    world.settle();
    world.replies(side).iter().map(|reply| (reply.0, reply.2)).collect()
}

/// O16: what is needed to get out of the shortage is served in it, and it ends by itself.
#[test]
fn k150_short_of_space_what_frees_space_is_served() {
    const RESERVE: u64 = 100_000;
    let mut world = World::new();
    let side = small_client(&mut world);
    (0..6).for_each(|at| world.create(side, at, &format!("/n{at}"), 0));
    let (leaving, session) = world.client();
    world.create(leaving, 1, "/ephemeral", 1);
    world.settle();
    world.replies(side);
    world.replies(leaving);

    world.replica.on_space(world.now, RESERVE - 1, RESERVE);
    assert_eq!(world.replica.writes(), Writes::Freeing);
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

    world.replica.on_space(world.now, RESERVE / 5, RESERVE);
    assert_eq!(world.replica.writes(), Writes::None);
    delete(&mut world, side, 6, "/n5");
    world.get(side, 7, "/a", false);
    assert_eq!(errors(&mut world, side), [(6, -127), (7, 0)]);
    world.bare(renewed, 1, OpCode::CloseSession);
    world.settle();
    assert!(!world.state.has_session(session) && world.state.stat("/ephemeral").is_none(), "sessions end to the last");

    world.replica.on_space(world.now, 2 * RESERVE, RESERVE);
    world.create(side, 8, "/b", 0);
    assert_eq!(errors(&mut world, side), [(8, 0)], "and nobody had to do anything");
}

/// However fast nodes may be removed, a step removes only so many, and the rest go in the next ones.
#[test]
fn k117_a_flood_of_expired_nodes_comes_in_pieces() {
    let mut world = World::new();
    let settings = ReplicaSettings { sweep_interval_ms: 1000, sweep_per_minute: 1_000_000, ..replica_settings(1, 0) };
    world.replica = Replica::standalone(settings, &world.state, world.now);
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
    assert_eq!(world.replica.outstanding(), SWEPT_AT_ONCE_MAX);
    assert_eq!(world.replica.deadline(), Some(1000), "there is more to do");
    for _ in 0..3 {
        world.on_time();
    }
    world.settle();
    assert_eq!(world.state.node_count(), before - 1000);
}

#[test]
fn a_client_that_waits_for_room_is_not_silent() {
    let mut world = World::new();
    let (side, session) = world.client();
    world.room = Room::None;
    world.create(side, 1, "/a", 0);
    world.serve(side);
    for _ in 0..20 {
        world.now.mono_ms += 1000;
        world.sides[side].conn.on_no_room(world.now);
        world.on_time();
        world.settle();
    }
    assert!(world.state.has_session(session));
    world.room = Room::Plenty;
    world.settle();
    assert_eq!(world.replies(side).len(), 1);
    world.now.mono_ms += 20_000;
    world.on_time();
    world.settle();
    assert!(!world.state.has_session(session));
}
