//! What a leader may report to its clients, and what not once it has lost its quorum.

use crate::leading::{Leading, SYNC_MS};
use ox_proto::quorum::identities::RawIds;
use ox_proto::{OpCode, SessionId};
use ox_zab::{Message, Request};

/// A leader without a quorum neither expires sessions nor reports that a session has expired.
#[test]
fn k121_leader_without_followers_expires_no_session() {
    let mut leading = Leading::new();
    let (side, session) = leading.client(2_000);
    leading.world.cut(side);
    leading.settle();
    leading.is_followed = false;
    leading.pass(3_200); // the session is due to expire
    let again = leading.world.connect(session, 2_000);
    leading.settle();
    assert!(leading.world.sides[again].output.is_empty(), "nothing is certain");
    assert!(leading.world.state.has_session(session));
    leading.pass(SYNC_MS);
    assert!(!leading.world.replica.status().is_serving());
    let side = &leading.world.sides[again];
    assert!(side.is_closed && side.output.is_empty(), "it may connect to another server");
}

#[test]
fn k122_expiry_is_reported_after_proof_of_leadership() {
    let mut leading = Leading::new();
    let (side, session) = leading.client(2_000);
    leading.world.cut(side);
    leading.is_followed = false;
    leading.pass(3_200);
    let again = leading.world.connect(session, 2_000);
    leading.settle();
    leading.is_followed = true;
    leading.settle();
    assert_eq!(leading.world.hello(again).timeout_ms, 0);
    assert!(leading.world.sides[again].is_closed && !leading.world.state.has_session(session));
    // A learner revalidates an unknown session.
    leading.is_followed = false;
    let unknown = SessionId(77);
    leading.receives(Message::Revalidate(unknown, 2_000));
    let is_told = |leading: &Leading| leading.told.contains(&Message::Revalidated(unknown, false));
    assert!(!is_told(&leading));
    leading.is_followed = true;
    leading.settle();
    assert!(is_told(&leading));
}

/// The last server that names a session owns it; the previous one is refused, and can take it back.
#[test]
fn k115_session_moves_with_client_and_back() {
    let mut leading = Leading::new();
    let (side, session) = leading.client(10_000);
    leading.receives(Message::Revalidate(session, 10_000));
    assert!(leading.told.contains(&Message::Revalidated(session, true)));
    assert!(leading.world.sides[side].is_closed, "its old connection is given up");
    let again = leading.world.connect(session, 10_000);
    leading.settle();
    assert_eq!(leading.world.hello(again).session, session);
    leading.world.create(again, 1, "/mine", 0);
    leading.world.bare(again, 2, OpCode::CloseSession);
    leading.settle();
    let errors: Vec<i32> = leading.world.replies(again).iter().map(|reply| reply.2).collect();
    assert_eq!(errors, [0, 0]);
}

/// Apache's observer masters expect the replies to revalidations in order.
#[test]
fn revalidations_are_replied_to_in_order() {
    let mut leading = Leading::new();
    let (_, session) = leading.client(10_000);
    let unknown = SessionId(0x0200_0000_0000_0077);
    leading.is_followed = false;
    for asked in [unknown, session] {
        leading.receives(Message::Revalidate(asked, 10_000));
    }
    let is_answer = |message: &&Message| matches!(message, Message::Revalidated(..));
    assert_eq!(leading.told.iter().find(is_answer), None, "the first needs a proof");
    leading.is_followed = true;
    leading.settle();
    let answers: Vec<_> = leading.told.iter().filter(is_answer).collect();
    assert_eq!(answers, [&Message::Revalidated(unknown, false), &Message::Revalidated(session, true)]);
    leading.receives(Message::Revalidate(session, 10_000));
    assert_eq!(leading.told.last(), Some(&Message::Revalidated(session, true)), "its client no longer waits");
}

/// A sync is replied to as soon as leadership is proven, and never without proof.
#[test]
fn k099_sync_waits_for_proof_of_leadership_only() {
    let mut leading = Leading::new();
    let (side, _) = leading.client(10_000);
    leading.is_followed = false;
    leading.world.sync_path(side, 1, "/");
    leading.settle();
    assert!(leading.told.iter().any(|told| matches!(told, Message::Ping(_))), "the proof is asked for at once");
    assert_eq!(leading.world.replies(side), []);
    leading.is_followed = true;
    leading.settle();
    assert_eq!(leading.world.replies(side).len(), 1);
    // Replies to earlier pings prove nothing for later requests.
    leading.is_followed = false;
    leading.pass(1_000);
    leading.told.retain(|told| !matches!(told, Message::Ping(_)));
    leading.world.sync_path(side, 2, "/");
    leading.settle();
    leading.told.retain(|told| !matches!(told, Message::Ping(_)));
    leading.receives(Message::Pong(leading.world.replica.status().last_proposed(), bytes::Bytes::new()));
    assert_eq!(leading.world.replies(side), [], "that was said before it was asked");
}

/// A connection that is being closed may still have requests; its watches are removed with it, not before.
#[test]
fn k135_watches_are_removed_when_role_ends() {
    let mut leading = Leading::new();
    let (side, _) = leading.client(10_000);
    leading.world.get(side, 1, "/", true);
    leading.settle();
    leading.is_followed = false;
    while leading.world.replica.status().is_serving() {
        leading.world.now.mono_ms += 100;
        leading.world.on_time();
    }
    let watches = |leading: &Leading| leading.world.state.watches().lock().total();
    assert_eq!(watches(&leading), 1);
    leading.world.post();
    leading.settle();
    assert!(leading.world.sides[side].is_closed);
    assert_eq!(watches(&leading), 0);
}

/// A new leader gives every session its full timeout, once.
#[test]
fn k123_session_gets_full_timeout_after_leader_change() {
    let mut leading = Leading::new();
    let (side, session) = leading.client(4_000);
    leading.world.cut(side);
    leading.pass(3_000);
    let mut next = Leading::continuing(leading.world.now, leading.world.state);
    next.pass(4_000);
    assert!(next.world.state.has_session(session), "its timeout started again");
    next.pass(2_000);
    assert!(!next.world.state.has_session(session));
}

/// The upgrade of a learner's local session takes effect when it is committed, not when it is proposed (P44).
#[test]
fn proposed_session_is_not_resumed() {
    let mut leading = Leading::new();
    let session = SessionId::first(2, 77);
    leading.is_followed = false;
    let (body, ids) = (10_000_i32.to_be_bytes().to_vec().into(), RawIds::NULL.bytes().into());
    leading.receives(Message::Request(Request { session, cxid: 0, op: OpCode::CreateSession.code(), body, ids }));
    leading.receives(Message::Revalidate(session, 10_000));
    let side = leading.world.connect(session, 10_000);
    leading.settle();
    let is_told = |leading: &Leading| leading.told.contains(&Message::Revalidated(session, true));
    assert!(!is_told(&leading) && leading.world.sides[side].output.is_empty(), "nothing is certain");
    leading.is_followed = true;
    leading.settle();
    assert!(is_told(&leading) && leading.world.state.has_session(session));
    assert_eq!(leading.world.hello(side).session, session);
}
