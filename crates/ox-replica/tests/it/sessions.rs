//! Sessions at their beginning and end, and when clocks jump.

use crate::harness::{Harness, replica_settings, standalone};
use ox_proto::{OpCode, SessionId};
use ox_replica::{Now, ReplicaInput};

#[test]
fn k112_session_exists_after_its_transaction_is_applied() {
    let mut world = Harness::new();
    let side = world.connect(SessionId::NONE, 10_000);
    world.serve(side);
    world.step();
    assert_eq!((world.replica.status().session_count(), world.state.sessions().count()), (0, 0));
    assert_eq!(world.replies(side), [], "and the client has not heard of it");
    world.settle();
    let session = world.hello(side).session;
    assert_eq!((world.replica.status().session_count(), world.state.has_session(session)), (1, true));
}

#[test]
fn k114_session_ids_are_unique_for_any_server_and_clock() {
    for server in [0, 1, 2, 127, 128, 129, 254, 255] {
        for wall_ms in [0, 1, 0xff_ffff, 1 << 24, 0xff_ffff_ffff, 1_700_000_000_000, i64::MAX] {
            let mut world = Harness::of_server(server, wall_ms);
            let (side, session) = world.client();
            assert!(session != SessionId::NONE && session.0 != i64::MIN);
            assert_eq!(session.0.cast_unsigned() >> 56, u64::from(server), "the server's number stands on top");
            world.create(side, 1, "/e", 1);
            world.settle();
            assert_eq!(world.replies(side)[0].2, 0, "server {server} at {wall_ms}");
            assert_eq!(world.state.ephemerals_of(session).collect::<Vec<_>>(), ["/e"]);
            // The same server restarts while its clock stands still, or after it was set back.
            world.replica = standalone(replica_settings(server, wall_ms), &world.state, world.now);
            let (_, next) = world.client();
            assert_ne!(next, session);
            let again = world.connect(session, 10_000);
            world.bare(again, 1, OpCode::CloseSession);
            world.settle();
            assert_eq!(world.state.stat("/e"), None);
            assert!(world.state.has_session(next) && !world.state.has_session(session));
        }
    }
}

#[test]
fn k116_wall_clock_does_not_expire_sessions() {
    let mut world = Harness::new();
    let (_, session) = world.client();
    for wall_ms in [i64::MAX, 0, -1, 1_700_000_000_000] {
        world.now = Now { mono_ms: world.now.mono_ms + 100, wall_ms };
        world.on_time();
        world.settle();
        assert!(world.state.has_session(session));
    }
    // The wall clock does not keep a session alive either.
    world.now = Now { mono_ms: 20_000, wall_ms: 0 };
    world.on_time();
    world.settle();
    assert!(!world.state.has_session(session));
}

#[test]
fn k118_watches_are_removed_with_connection() {
    let mut world = Harness::new();
    let (gone, _) = world.client();
    let (closed, _) = world.client();
    let (expired, session) = world.client();
    for side in [gone, closed, expired] {
        (0..50).for_each(|number| world.get(side, number, &format!("/{number}"), true));
        (0..50).for_each(|number| world.create(side, 100 + number, &format!("/{side}-{number}"), 1));
        (0..50).for_each(|number| world.get(side, 200 + number, &format!("/{side}-{number}"), true));
    }
    world.settle();
    assert_eq!(world.state.watches().lock().total(), 3 * 50);
    world.cut(gone);
    world.bare(closed, 1, OpCode::CloseSession);
    world.settle();
    assert_eq!(world.state.watches().lock().total(), 50);
    world.now.mono_ms = 20_000;
    world.on_time();
    world.settle();
    assert!(!world.state.has_session(session) && world.sides[expired].is_closed);
    assert_eq!(world.state.watches().lock().total(), 0);
}

/// The client sends pings that are not read, because its requests fill the pipeline and the disk is stalled.
#[test]
fn client_waiting_for_disk_does_not_expire() {
    let mut world = Harness::new();
    let (side, session) = world.client();
    world.create(side, 1, "/a", 0);
    world.serve(side);
    world.step();
    for mono_ms in [11_000, 22_000, 60_000] {
        world.now.mono_ms = mono_ms;
        world.on_time();
    }
    world.settle();
    assert!(world.state.has_session(session));
    assert_eq!(world.replies(side).len(), 1);
    world.now.mono_ms = 80_000;
    world.on_time();
    world.settle();
    assert!(!world.state.has_session(session), "but it does when it falls silent");
}

/// Its reply is sent right before its timeout; pings that it sent meanwhile are not read yet.
#[test]
fn client_that_waited_for_disk_gets_full_timeout() {
    for stays in [true, false] {
        let mut world = Harness::new();
        let (side, session) = world.client();
        world.create(side, 1, "/a", 0);
        world.serve(side);
        world.step();
        world.now.mono_ms = 9_900;
        world.settle();
        if !stays {
            world.cut(side);
        }
        for mono_ms in [12_000, 19_000] {
            world.now.mono_ms = mono_ms;
            world.on_time();
            world.settle();
            assert!(world.state.has_session(session), "at {mono_ms}, stays: {stays}");
        }
        world.now.mono_ms = 22_000;
        world.on_time();
        world.settle();
        assert!(!world.state.has_session(session));
    }
}

/// The process was stopped, so its clients could not reach it.
#[test]
fn session_gets_full_timeout_after_a_pause() {
    let mut world = Harness::new();
    let (_, session) = world.client();
    world.now.mono_ms = 60_000;
    world.pass(ReplicaInput::Pause);
    for (mono_ms, is_alive) in [(60_000, true), (69_000, true), (72_000, false)] {
        world.now.mono_ms = mono_ms;
        world.on_time();
        world.settle();
        assert_eq!(world.state.has_session(session), is_alive, "at {mono_ms}");
    }
}

#[test]
fn k111_close_session_deletes_pending_ephemerals() {
    let mut world = Harness::new();
    let (side, session) = world.client();
    (0..10).for_each(|xid| world.create(side, xid, &format!("/e{xid}"), 1));
    world.bare(side, 10, OpCode::CloseSession);
    (11..20).for_each(|xid| world.create(side, xid, &format!("/e{xid}"), 1));
    world.settle();
    assert_eq!(world.state.ephemerals_of(session).count(), 0);
    assert_eq!(world.state.ephemeral_count(), 0);
    let heard = world.replies(side);
    assert_eq!((heard.len(), heard[10].0, heard[10].2), (11, 10, 0), "the close is the last thing answered");
}

/// The next connection sees what the previous one has written, or the write never happens: clients check it then.
#[test]
fn session_resumes_after_its_pending_writes() {
    let mut world = Harness::new();
    let (side, session) = world.client();
    world.create(side, 1, "/mine", 0);
    world.serve(side);
    world.step();
    world.cut(side);
    let again = world.connect(session, 10_000);
    world.serve(again);
    world.step();
    world.post();
    assert!(world.sides[again].output.is_empty(), "the write is in flight");
    world.settle();
    assert_eq!(world.hello(again).session, session);
    world.get(again, 1, "/mine", false);
    world.settle();
    assert_eq!(world.replies(again)[0].2, 0);
}
