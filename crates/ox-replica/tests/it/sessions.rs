//! Sessions at the edges: before they are there, when they end, when clocks jump.

use crate::harness::{World, replica_settings};
use ox_proto::{OpCode, SessionId};
use ox_replica::{Now, Replica};

#[test]
fn k112_a_session_is_there_when_its_transaction_is_and_not_before() {
    let mut world = World::new();
    let side = world.connect(SessionId::NONE, 10_000);
    world.serve(side);
    world.step();
    assert_eq!((world.replica.session_count(), world.state.sessions().count()), (0, 0));
    assert_eq!(world.replies(side), [], "and the client has not heard of it");
    world.settle();
    let session = world.hello(side).session;
    assert_eq!((world.replica.session_count(), world.state.has_session(session)), (1, true));
}

#[test]
fn k114_ids_are_good_for_every_server_and_every_clock() {
    for server in [0, 1, 2, 127, 128, 129, 254, 255] {
        for wall_ms in [0, 1, 0xff_ffff, 1 << 24, 0xff_ffff_ffff, 1_700_000_000_000, i64::MAX] {
            let mut world = World::of_server(server, wall_ms);
            let (side, session) = world.client();
            assert!(session != SessionId::NONE && session.0 != i64::MIN);
            assert_eq!(session.0.cast_unsigned() >> 56, u64::from(server), "the server's number stands on top");
            world.create(side, 1, "/e", 1);
            world.settle();
            assert_eq!(world.replies(side)[0].2, 0, "server {server} at {wall_ms}");
            assert_eq!(world.state.ephemerals_of(session).collect::<Vec<_>>(), ["/e"]);
            // The same server starts again while its clock stands still, or went back.
            world.replica = Replica::standalone(replica_settings(server, wall_ms), &world.state, world.now);
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
fn k116_the_wall_clock_ends_no_session() {
    let mut world = World::new();
    let (_, session) = world.client();
    for wall_ms in [i64::MAX, 0, -1, 1_700_000_000_000] {
        world.now = Now { mono_ms: world.now.mono_ms + 100, wall_ms };
        world.on_time();
        world.settle();
        assert!(world.state.has_session(session));
    }
    // And none is kept alive by it.
    world.now = Now { mono_ms: 20_000, wall_ms: 0 };
    world.on_time();
    world.settle();
    assert!(!world.state.has_session(session));
}

#[test]
fn k118_no_watch_outlives_its_connection() {
    let mut world = World::new();
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

/// The client pings, but nobody reads it: its requests fill the pipeline, and the disk stands still.
#[test]
fn a_client_that_waits_for_our_disk_does_not_expire() {
    let mut world = World::new();
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

/// Its answer comes right before its time is over; what it has said meanwhile is not read yet.
#[test]
fn a_client_that_has_waited_for_our_disk_gets_its_whole_timeout() {
    for stays in [true, false] {
        let mut world = World::new();
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

#[test]
fn k111_a_close_takes_everything_that_is_on_its_way() {
    let mut world = World::new();
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

/// What a connection has sent before it was lost is there when the next one has the session, or never will be: clients
/// look for it then.
#[test]
fn a_session_comes_back_behind_what_it_has_written() {
    let mut world = World::new();
    let (side, session) = world.client();
    world.create(side, 1, "/mine", 0);
    world.serve(side);
    world.step();
    world.cut(side);
    let again = world.connect(session, 10_000);
    world.serve(again);
    world.step();
    world.post();
    assert!(world.sides[again].output.is_empty(), "the write is on its way");
    world.settle();
    assert_eq!(world.hello(again).session, session);
    world.get(again, 1, "/mine", false);
    world.settle();
    assert_eq!(world.replies(again)[0].2, 0);
}
