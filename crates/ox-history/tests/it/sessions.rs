//! Sessions that end wrongly, move wrongly or come back (P38 to P43).

use crate::history_builder::{Story, TIMEOUT_MS, create, ephemeral, get};
use ox_history::{Answer, Granted, LoggedTxn, Op, Reason, Time};
use ox_proto::SessionId;

#[test]
fn p38_closed_before_its_time() {
    let mut story = Story::new();
    let a = story.connect();
    story.read(a, get("/a"));
    story.wait(i64::from(TIMEOUT_MS) - 500);
    story.expire(story.session(a));
    story.hang_up(a);
    story.is_bad(Reason::EarlyExpiry);
}

#[test]
fn p38_closed_right_after_a_start() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    story.wait(3000);
    story.history.starts.push(story.history.ended);
    story.wait(2500);
    story.expire(story.session(a));
    story.is_bad(Reason::EarlyExpiry);
}

#[test]
fn p39_closed_much_too_late() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    story.wait(60_000);
    story.expire(story.session(a));
    story.is_bad(Reason::LateExpiry);
}

#[test]
fn p39_never_closed() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    story.wait(60_000);
    story.is_bad(Reason::LateExpiry);
}

#[test]
fn p40_resumed_after_its_end() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, Op::CloseSession);
    story.hang_up(a);
    story.read(b, get("/a"));
    let again = story.reconnect(story.session(a));
    story.hang_up(again);
    story.is_bad(Reason::ClosedSessionRevived);
}

#[test]
fn p41_the_end_forgets_a_node() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, ephemeral("/e"));
    story.write(a, Op::CloseSession);
    story.hang_up(a);
    story.history.log.last_mut().unwrap().txn = LoggedTxn::CloseSession { paths: Some(Vec::new()) };
    story.is_bad(Reason::WrongCloseList);
}

#[test]
fn p42_the_old_connection_still_writes() {
    let mut story = Story::new();
    let a = story.connect();
    let b = story.reconnect(story.session(a));
    story.write(a, create("/a"));
    story.history.connections[a].closed = Some(story.history.ended);
    story.write(b, create("/b"));
    story.is_bad(Reason::MovedSessionWrote);
}

/// A connection that lost its session is closed without a reply (ZOOKEEPER-710).
#[test]
fn p42_write_of_moved_session_gets_a_reply() {
    let mut story = Story::new();
    let a = story.connect();
    let session = story.session(a);
    let b = story.reconnect(session);
    let request = story.send(a, create("/a"));
    let xid = story.history.connections[a].requests[request].xid;
    let zxid = story.log(session, xid, LoggedTxn::Error { err: -118 });
    story.hang_up(a);
    story.hang_up(b);
    story.is_good();
    story.reply(a, request, zxid, Answer::error(-118));
    story.history.connections[a].closed = Some(story.history.ended);
    story.is_bad(Reason::MovedSessionAnswered);
}

/// An eager client: it writes before its handshake is answered, and never sees the answer.
#[test]
fn p42_a_handshake_whose_answer_was_lost() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    let b = story.reconnect(story.session(a));
    let request = story.send(b, create("/a"));
    story.commit(b, request);
    story.history.connections[b].granted = None;
    story.hang_up(b);
    story.wait(i64::from(TIMEOUT_MS) + 1000);
    story.expire(story.session(a));
    story.is_good();
}

/// The same with a new session, of which the server turned the first write away.
#[test]
fn p42_a_new_session_nobody_was_told_of() {
    let mut story = Story::new();
    let a = story.connect();
    story.send(a, create("/a"));
    let request = story.send(a, create("/b"));
    story.commit(a, request);
    story.history.connections[a].granted = None;
    story.history.settings.may_refuse_writes = true;
    story.hang_up(a);
    story.is_good();
}

/// A slow disk: what the client sent is still on its way when it has gone.
#[test]
fn p38_a_session_whose_writes_are_on_their_way_is_not_silent() {
    let mut story = Story::new();
    let a = story.connect();
    let request = story.send(a, create("/a"));
    story.hang_up(a);
    story.wait(60_000);
    story.commit(a, request);
    story.expire(story.session(a));
    story.is_good();
    story.history.log[1].applied = story.history.connections[a].closed;
    story.is_bad(Reason::LateExpiry);
}

#[test]
fn p42_two_connections_take_turns() {
    let mut story = Story::new();
    let a = story.connect();
    let first = story.send(a, create("/1"));
    let third = story.send(a, create("/3"));
    let b = story.reconnect(story.session(a));
    let second = story.send(b, create("/2"));
    story.commit(a, first);
    story.commit(b, second);
    story.commit(a, third);
    story.hang_up(a);
    story.hang_up(b);
    story.is_bad(Reason::MovedSessionWrote);
}

#[test]
fn p43_another_session() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.hang_up(a);
    let again = story.reconnect(story.session(a));
    let other = story.session(b);
    if let Some(Granted::Session { session, .. }) = &mut story.history.connections[again].granted {
        *session = other;
    }
    story.is_bad(Reason::ReplacedSession);
}

#[test]
fn p43_a_living_session_is_refused() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    story.refused(story.session(a));
    story.is_bad(Reason::LiveSessionRefused);
}

/// An end that was proposed and never agreed on is none, for servers that have to agree.
#[test]
fn p43_a_session_whose_end_is_not_agreed_on_is_refused() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    story.refused(story.session(a));
    let later = story.wait(1_000);
    story.history.starts.push(later);
    story.is_good();
    story.history.settings.is_ensemble = true;
    story.is_bad(Reason::LiveSessionRefused);
}

#[test]
fn refusals_that_are_right() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    let wrong_password = story.refused(story.session(a));
    story.history.connections[wrong_password].is_proven = false;
    story.refused(SessionId(0x777)); // never was
    story.is_good();
}

#[test]
fn p43_granted_without_its_password() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    let thief = story.reconnect(story.session(a));
    story.history.connections[thief].is_proven = false;
    story.is_bad(Reason::StolenSession);
}

#[test]
fn whose_handshake_came_first_may_be_unknown() {
    let mut story = Story::new();
    let a = story.connect();
    let session = story.session(a);
    let b = story.reconnect(session);
    story.hang_up(b);
    // It sends before it is told that it has the session, and never is.
    let c = story.reconnect(session);
    let request = story.send(c, create("/a"));
    story.commit(c, request);
    story.hang_up(c);
    story.history.connections[c].granted = None;
    story.history.connections[a].closed = Some(story.history.ended);
    story.is_good();
}

#[test]
fn the_timeout_of_the_last_handshake_counts() {
    let mut story = Story::new();
    let a = story.connect();
    let session = story.session(a);
    let opened = story.reconnect(session);
    story.read(a, get("/a")); // on the old connection, which does not know yet
    story.history.connections[a].closed = Some(story.history.ended);
    if let Some(Granted::Session { at, timeout_ms, .. }) = &mut story.history.connections[opened].granted {
        (*at, *timeout_ms) = (story.history.ended.plus_ms(1), 1000);
    }
    story.wait(2000);
    story.expire(session);
    story.hang_up(opened);
    story.is_good();
}

#[test]
fn a_handshake_that_waited_for_the_start() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    let b = story.reconnect(story.session(a));
    let opened = story.history.connections[b].opened;
    story.history.starts.push(Time(opened.0 + 500));
    if let Some(Granted::Session { timeout_ms, .. }) = &mut story.history.connections[b].granted {
        *timeout_ms = 1000;
    }
    story.wait(2000);
    story.expire(story.session(a));
    story.hang_up(b);
    story.is_good();
}

/// A member that waits for a leader replies late, and the client may read later still.
#[test]
fn timeout_of_a_handshake_counts_before_its_reply_arrives() {
    let mut story = Story::new();
    let a = story.connect();
    story.hang_up(a);
    let b = story.reconnect(story.session(a));
    story.history.starts.push(story.history.ended);
    story.wait(2000);
    story.expire(story.session(a));
    let late = story.wait(1000);
    let connection = &mut story.history.connections[b];
    connection.asked_timeout_ms = 1000;
    if let Some(Granted::Session { at, timeout_ms, .. }) = &mut connection.granted {
        (*at, *timeout_ms) = (late, 1000);
    }
    story.hang_up(b);
    story.is_good();
}
