//! A server without a leader, and clients that accept read-only mode.

use crate::ensemble::{follow, following, looking, ordered};
use crate::harness::Harness;
use ox_proto::txn::Txn as Body;
use ox_proto::{OpCode, SessionId, Zxid};
use ox_replica::ReplicaInput;
use ox_replica::{LocalSessions, ReplicaSettings};
use ox_zab::{Eligibility, Input, Reason};

fn with_local(settings: &mut ReplicaSettings) {
    settings.local_sessions = LocalSessions::Upgrade;
    settings.read_only_after_ms = Some(2_000);
}

fn without_local(settings: &mut ReplicaSettings) {
    settings.read_only_after_ms = Some(2_000);
}

fn pass(world: &mut Harness, ms: i64) {
    world.now.mono_ms += ms;
    world.on_time();
    world.settle();
}

/// In read-only mode, because the second server is down.
fn alone(change: fn(&mut ReplicaSettings)) -> Harness {
    let mut world = looking(Eligibility::HasHistory, change);
    pass(&mut world, 2_000);
    assert!(world.replica.status().is_read_only() && !world.replica.status().is_serving());
    world
}

fn is_turned_away(world: &mut Harness, side: usize) -> bool {
    world.settle();
    world.sides[side].is_closed && world.sides[side].output.is_empty()
}

#[test]
fn read_only_mode_begins_after_delay() {
    let mut world = looking(Eligibility::HasHistory, with_local);
    pass(&mut world, 1_999);
    assert!(!world.replica.status().is_read_only());
    let early = world.connect_as(SessionId::NONE, 10_000, Some(true));
    assert!(is_turned_away(&mut world, early));
    pass(&mut world, 1);
    assert!(world.replica.status().is_read_only());
    let mut world = looking(Eligibility::HasHistory, |_| ());
    pass(&mut world, 1_000_000);
    assert!(!world.replica.status().is_read_only(), "unless it is allowed, never");
}

/// A server that has lost files has nothing to serve.
#[test]
fn k028_reads_wait_for_complete_state() {
    for standing in [Eligibility::Empty, Eligibility::Quarantined] {
        let mut world = looking(standing, with_local);
        for _ in 0..10 {
            pass(&mut world, 10_000);
            assert!(!world.replica.status().is_read_only(), "{standing:?}");
            assert!(world.replica.deadline().is_none_or(|at_ms| world.now.mono_ms < at_ms), "nothing is due");
        }
    }
}

#[test]
fn k027_read_only_server_serves_reads_only() {
    let mut world = alone(with_local);
    let side = world.connect_as(SessionId::NONE, 10_000, Some(true));
    world.settle();
    let hello = world.hello(side);
    assert_eq!((hello.session.server(), hello.read_only), (1, Some(true)));
    world.get(side, 1, "/", false);
    world.create(side, 2, "/n", 0);
    world.create(side, 3, "/e", 1);
    world.bare(side, 4, OpCode::Sync);
    world.get(side, 5, "/none", true);
    world.bare(side, 6, OpCode::CloseSession);
    world.settle();
    let replies: Vec<_> = world.replies(side).iter().map(|reply| (reply.0, reply.1, reply.2)).collect();
    assert_eq!(replies, [(1, 0, 0), (2, 0, -119), (3, 0, -119), (4, 0, -119), (5, 0, -101), (6, 0, 0)]);
    // An expired local session leaves no trace either (K27).
    let silent = world.connect_as(SessionId::NONE, 10_000, Some(true));
    world.settle();
    pass(&mut world, 20_000);
    world.serve(silent);
    assert!(world.sides[silent].is_closed && world.replica.status().local_session_count() == 0);
    assert_eq!((world.replica.status().last_proposed(), world.state.last_zxid()), (Zxid::ZERO, Zxid::ZERO));
    assert!(world.log.is_empty());
}

#[test]
fn client_that_needs_writes_is_refused() {
    let mut world = alone(with_local);
    for read_only in [None, Some(false)] {
        let side = world.connect_as(SessionId::NONE, 10_000, read_only);
        assert!(is_turned_away(&mut world, side), "{read_only:?}");
    }
    let mut world = alone(without_local);
    let side = world.connect_as(SessionId::NONE, 10_000, Some(true));
    assert!(is_turned_away(&mut world, side), "there are no sessions");
}

#[test]
fn k124_global_sessions_are_not_closed() {
    for change in [with_local, without_local] {
        let mut world = following(change);
        let session = SessionId::first(2, 77);
        ordered(&mut world, Zxid::new(1, 1), session, 0, &Body::CreateSession { timeout_ms: 4_000 });
        world.pass(ReplicaInput::Peer(Input::StepDown(Reason::LinkLost)));
        world.settle();
        pass(&mut world, 2_000);
        assert!(world.replica.status().is_read_only());
        let side = world.connect_as(session, 10_000, Some(true));
        assert!(is_turned_away(&mut world, side), "neither taken nor said to be over");
        pass(&mut world, 60_000);
        assert!(world.state.has_session(session), "and not given up");
    }
}

/// The session may have become global since the leader was lost (P43).
#[test]
fn unknown_session_is_not_reported_as_expired() {
    let mut world = alone(with_local);
    for server in [1, 2] {
        let side = world.connect_as(SessionId::first(server, 77), 10_000, Some(true));
        assert!(is_turned_away(&mut world, side));
    }
}

#[test]
fn read_only_mode_ends_with_leader() {
    let mut world = alone(with_local);
    let side = world.connect_as(SessionId::NONE, 10_000, Some(true));
    world.settle();
    let session = world.hello(side).session;
    follow(&mut world, 1);
    world.serve(side);
    assert!(world.sides[side].is_closed && !world.replica.status().is_read_only());
    world.settle();
    let again = world.connect_as(session, 10_000, Some(true));
    world.settle();
    let hello = world.hello(again);
    assert_eq!((hello.session, hello.read_only), (session, Some(false)));
    pass(&mut world, 1);
    world.pass(ReplicaInput::Peer(Input::StepDown(Reason::LinkLost)));
    world.settle();
    pass(&mut world, 1_999);
    assert!(!world.replica.status().is_read_only(), "the delay starts again");
    pass(&mut world, 1);
    assert!(world.replica.status().is_read_only());
}
