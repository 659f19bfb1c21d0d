//! New connections to a member that has just lost its leader.

use crate::ensemble::{LINK, following, looking, ordered, proposed, requests, start_following};
use crate::harness::Harness;
use ox_proto::connect::ConnectRequest;
use ox_proto::txn::Txn as Body;
use ox_proto::{SessionId, Zxid};
use ox_replica::ReplicaInput;
use ox_replica::limits::REVALIDATIONS_IN_FLIGHT_MAX;
use ox_replica::{LocalSessions, ReplicaSettings};
use ox_zab::{Eligibility, Input, Message, PeerState, Reason, ServerId, Vote, VoteNotification};

const LIMIT_MS: i64 = 2_000;

fn parking(settings: &mut ReplicaSettings) {
    settings.park_limit_ms = LIMIT_MS;
}

/// A follower that has just lost its leader.
fn leaderless(change: impl FnOnce(&mut ReplicaSettings)) -> Harness {
    let mut world = following(change);
    lose_leader(&mut world);
    world
}

fn lose_leader(world: &mut Harness) {
    world.pass(ReplicaInput::Peer(Input::StepDown(Reason::LinkLost)));
    world.settle();
    assert!(!world.replica.status().is_serving());
}

fn pass(world: &mut Harness, ms: i64) {
    world.now.mono_ms += ms;
    if world.replica.deadline().is_some_and(|deadline| deadline <= world.now.mono_ms) {
        world.on_time();
    }
    world.settle();
}

fn connect(world: &mut Harness, session: SessionId, timeout_ms: i32) -> usize {
    let side = world.connect(session, timeout_ms);
    world.settle();
    side
}

/// The connection is open and has no reply.
fn waits(world: &Harness, side: usize) -> bool {
    !world.sides[side].is_closed && world.sides[side].output.is_empty()
}

#[test]
fn handshake_after_loss_of_leader_is_answered_by_the_next() {
    let mut world = leaderless(parking);
    pass(&mut world, 500);
    let new = connect(&mut world, SessionId::NONE, 10_000);
    let back = connect(&mut world, SessionId::first(2, 77), 10_000);
    world.create(new, 1, "/early", 0);
    world.settle();
    assert!(waits(&world, new) && waits(&world, back));
    assert!(!world.sides[new].input.is_empty(), "no request is read before the handshake is answered");
    start_following(&mut world, 2);
    let created = requests(&mut world);
    assert_eq!(created.len(), 1, "{created:?}");
    ordered(&mut world, Zxid::new(2, 1), created[0].session, 0, &Body::CreateSession { timeout_ms: 10_000 });
    assert_eq!(world.hello(new).session, created[0].session);
    world.pass(ReplicaInput::Packet(LINK, Message::Revalidated(SessionId::first(2, 77), true)));
    world.settle();
    assert!(waits(&world, back), "replies come after those to earlier writes");
    ordered(&mut world, Zxid::new(2, 2), created[0].session, 1, &Body::Error { err: -110 });
    assert_eq!(world.replies(new).len(), 1);
    assert_eq!(world.hello(back).session, SessionId::first(2, 77), "the new leader knows the session");
    assert_eq!(world.replica.counters_mut().parked, 2);
}

#[test]
fn handshake_waits_no_longer_than_its_bounds() {
    for (timeout_ms, wait_ms) in [(60_000, LIMIT_MS - 500), (4_000, 1_000), (400, 100)] {
        let mut world = leaderless(parking);
        pass(&mut world, 500);
        let side = connect(&mut world, SessionId::NONE, timeout_ms);
        pass(&mut world, wait_ms - 1);
        assert!(waits(&world, side), "{timeout_ms}");
        pass(&mut world, 1);
        assert!(world.sides[side].is_closed && world.sides[side].output.is_empty(), "{timeout_ms}");
    }
}

#[test]
fn handshake_is_refused_where_no_leader_is_expected() {
    let mut world = looking(Eligibility::HasHistory, parking);
    let side = connect(&mut world, SessionId::NONE, 10_000);
    assert!(world.sides[side].is_closed, "no leader since the start");
    let mut world = leaderless(parking);
    pass(&mut world, LIMIT_MS);
    let side = connect(&mut world, SessionId::NONE, 10_000);
    assert!(world.sides[side].is_closed, "the leader was lost too long ago");
    let mut world = leaderless(|_| ());
    let side = connect(&mut world, SessionId::NONE, 10_000);
    assert!(world.sides[side].is_closed, "off");
}

#[test]
fn handshake_in_flight_when_leader_is_lost_starts_over() {
    let mut world = following(parking);
    let new = connect(&mut world, SessionId::NONE, 10_000);
    let back = connect(&mut world, SessionId::first(2, 77), 10_000);
    lose_leader(&mut world);
    assert!(waits(&world, new) && waits(&world, back));
    world.sent.clear();
    start_following(&mut world, 2);
    assert!(world.sent.contains(&(LINK, Message::Revalidate(SessionId::first(2, 77), 10_000))));
    let created = requests(&mut world);
    assert_eq!(created.len(), 1, "{created:?}");
    ordered(&mut world, Zxid::new(2, 1), created[0].session, 0, &Body::CreateSession { timeout_ms: 10_000 });
    assert_eq!(world.hello(new).session, created[0].session);
}

/// A client that has seen the state after `last_zxid_seen`.
fn connect_knowing(world: &mut Harness, last_zxid_seen: Zxid) -> usize {
    let side = world.connect(SessionId::NONE, 10_000);
    let input = &mut world.sides[side].input;
    input.clear();
    let (session, password, read_only) = (SessionId::NONE, None, None);
    ConnectRequest { last_zxid_seen, timeout_ms: 10_000, session, password, read_only }.put_frame(input);
    world.settle();
    side
}

/// Another server may have applied a commit first, and its client may connect here next.
#[test]
fn client_that_knows_of_a_commit_in_flight_waits_for_it() {
    let mut world = following(parking);
    let error = Body::Error { err: -101 };
    proposed(&mut world, Zxid::new(1, 1), SessionId(7), 1, &error);
    proposed(&mut world, Zxid::new(1, 2), SessionId(7), 2, &error);
    let side = connect_knowing(&mut world, Zxid::new(1, 2));
    let unknown = connect_knowing(&mut world, Zxid::new(1, 3));
    assert!(waits(&world, side) && world.sides[unknown].is_closed);
    world.pass(ReplicaInput::Packet(LINK, Message::Commit(Zxid::new(1, 1))));
    world.settle();
    assert!(waits(&world, side) && requests(&mut world).is_empty());
    world.pass(ReplicaInput::Packet(LINK, Message::Commit(Zxid::new(1, 2))));
    world.settle();
    assert_eq!(requests(&mut world).len(), 1, "a session is requested");
}

/// The old leader may not have announced every commit to this follower; the next one does. A zxid of an earlier epoch
/// that the next leader does not bring was never committed: only a read-only server can have shown it.
#[test]
fn client_ahead_of_server_is_served_after_next_leader_if_zxid_is_of_earlier_epoch() {
    for (zxid, is_served) in [(Zxid::ZERO, true), (Zxid::new(1, 9), true), (Zxid::new(2, 9), false)] {
        let mut world = leaderless(parking);
        let side = connect_knowing(&mut world, zxid);
        assert!(waits(&world, side));
        start_following(&mut world, 2);
        assert_eq!((world.sides[side].is_closed, requests(&mut world).len()), (!is_served, usize::from(is_served)));
    }
}

#[test]
fn failed_attempt_to_follow_keeps_handshakes() {
    let mut world = leaderless(parking);
    let side = connect(&mut world, SessionId::NONE, 10_000);
    let gone = connect(&mut world, SessionId::NONE, 10_000);
    world.cut(gone);
    let vote = Vote { leader: ServerId(2), zxid: Zxid::ZERO, epoch: 1 };
    let note = VoteNotification { state: PeerState::Looking, vote, round: 2, has_version: true };
    world.pass(ReplicaInput::Peer(Input::Notification(ServerId(2), note)));
    world.settle();
    assert_eq!(world.replica.status().peer_state(), Some(PeerState::Following));
    lose_leader(&mut world);
    assert!(waits(&world, side));
    start_following(&mut world, 3);
    assert_eq!(requests(&mut world).len(), 1, "a closed connection gets no session");
}

#[test]
fn read_only_mode_ends_the_wait() {
    let mut world = leaderless(|settings| {
        (settings.park_limit_ms, settings.read_only_after_ms) = (LIMIT_MS, Some(1_000));
        settings.local_sessions = LocalSessions::Upgrade;
    });
    let writer = connect(&mut world, SessionId::NONE, 10_000);
    let reader = world.connect_as(SessionId::NONE, 10_000, Some(true));
    world.settle();
    assert!(waits(&world, writer) && waits(&world, reader));
    pass(&mut world, 1_000);
    assert!(world.replica.status().is_read_only());
    assert!(world.sides[writer].is_closed && world.sides[writer].output.is_empty());
    assert_eq!(world.hello(reader).read_only, Some(true));
}

/// All clients of another server connect. A leader closes links that leave too many replies unread.
#[test]
fn revalidations_in_flight_are_limited() {
    let mut world = following(parking);
    let asked = |world: &mut Harness| {
        let sent = std::mem::take(&mut world.sent).into_iter();
        sent.filter_map(|(_, message)| match message {
            Message::Revalidate(session, _) => Some(session),
            _ => None,
        })
        .collect::<Vec<_>>()
    };
    let (limit, more) = (REVALIDATIONS_IN_FLIGHT_MAX, 5);
    let sessions: Vec<SessionId> = (0..).take(limit + more).map(|n| SessionId::first(2, 77 + n)).collect();
    let sides: Vec<usize> = sessions.iter().map(|session| world.connect(*session, 10_000)).collect();
    world.settle();
    assert_eq!(asked(&mut world), sessions[..limit]);
    world.pass(ReplicaInput::Packet(LINK, Message::Revalidated(sessions[limit], true)));
    world.settle();
    assert_eq!(asked(&mut world), [], "the leader was not asked for it");
    world.cut(sides[limit + 1]);
    world.settle();
    for session in &sessions[..3] {
        world.pass(ReplicaInput::Packet(LINK, Message::Revalidated(*session, true)));
    }
    world.settle();
    assert_eq!(asked(&mut world), [limit, limit + 2, limit + 3].map(|n| sessions[n]), "one client has not waited");
    for session in &sessions[3..] {
        world.pass(ReplicaInput::Packet(LINK, Message::Revalidated(*session, true)));
        world.settle();
    }
    for n in (0..sides.len()).filter(|n| *n != limit + 1) {
        assert_eq!(world.hello(sides[n]).session, sessions[n]);
    }
}
