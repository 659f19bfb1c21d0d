//! Sessions that end, move or resume wrongly (P38 to P43).

use crate::history_builder::{HistoryBuilder, TIMEOUT_MS, create, ephemeral, get};
use ox_history::{HandshakeReply, LoggedTxn, Op, OpResult, Time, ViolationKind};
use ox_proto::SessionId;

#[test]
fn p38_early_expiry_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.read(a, get("/a"));
    builder.wait(i64::from(TIMEOUT_MS) - 500);
    builder.expire(builder.session(a));
    builder.disconnect(a);
    builder.assert_violation(ViolationKind::EarlyExpiry);
}

#[test]
fn p38_early_expiry_after_start_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    builder.wait(3000);
    builder.history.starts.push(builder.history.ended);
    builder.wait(2500);
    builder.expire(builder.session(a));
    builder.assert_violation(ViolationKind::EarlyExpiry);
}

#[test]
fn p39_late_expiry_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    builder.wait(60_000);
    builder.expire(builder.session(a));
    builder.assert_violation(ViolationKind::LateExpiry);
}

#[test]
fn p39_missing_expiry_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    builder.wait(60_000);
    builder.assert_violation(ViolationKind::LateExpiry);
}

#[test]
fn p40_resumed_closed_session_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, Op::CloseSession);
    builder.disconnect(a);
    builder.read(b, get("/a"));
    let again = builder.reconnect(builder.session(a));
    builder.disconnect(again);
    builder.assert_violation(ViolationKind::ClosedSessionRevived);
}

#[test]
fn p41_incomplete_close_list_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, ephemeral("/e"));
    builder.write(a, Op::CloseSession);
    builder.disconnect(a);
    builder.history.log.last_mut().unwrap().txn = LoggedTxn::CloseSession { paths: Some(Vec::new()) };
    builder.assert_violation(ViolationKind::WrongCloseList);
}

#[test]
fn p42_write_on_old_connection_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let b = builder.reconnect(builder.session(a));
    builder.write(a, create("/a"));
    builder.history.connections[a].closed = Some(builder.history.ended);
    builder.write(b, create("/b"));
    builder.assert_violation(ViolationKind::MovedSessionWrote);
}

/// A connection that lost its session is closed without a reply (ZOOKEEPER-710).
#[test]
fn p42_reply_to_moved_session_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let session = builder.session(a);
    let b = builder.reconnect(session);
    let request = builder.send(a, create("/a"));
    let xid = builder.history.connections[a].requests[request].xid;
    let zxid = builder.log(session, xid, LoggedTxn::Error { err: -118 });
    builder.disconnect(a);
    builder.disconnect(b);
    builder.assert_valid();
    builder.reply(a, request, zxid, OpResult::error(-118));
    builder.history.connections[a].closed = Some(builder.history.ended);
    builder.assert_violation(ViolationKind::ReplyToMovedSession);
}

/// An eager client: it writes before the reply to its handshake, and never receives that reply.
#[test]
fn p42_handshake_without_reply_passes() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    let b = builder.reconnect(builder.session(a));
    let request = builder.send(b, create("/a"));
    builder.commit(b, request);
    builder.history.connections[b].granted = None;
    builder.disconnect(b);
    builder.wait(i64::from(TIMEOUT_MS) + 1000);
    builder.expire(builder.session(a));
    builder.assert_valid();
}

/// The same with a new session, whose first write the server refused.
#[test]
fn p42_new_session_without_reply_passes() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.send(a, create("/a"));
    let request = builder.send(a, create("/b"));
    builder.commit(a, request);
    builder.history.connections[a].granted = None;
    builder.history.settings.may_refuse_writes = true;
    builder.disconnect(a);
    builder.assert_valid();
}

/// A slow disk: the client's requests are still in flight after it has disconnected.
#[test]
fn p38_session_with_writes_in_flight_is_not_silent() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let request = builder.send(a, create("/a"));
    builder.disconnect(a);
    builder.wait(60_000);
    builder.commit(a, request);
    builder.expire(builder.session(a));
    builder.assert_valid();
    builder.history.log[1].applied = builder.history.connections[a].closed;
    builder.assert_violation(ViolationKind::LateExpiry);
}

#[test]
fn p42_alternating_connections_are_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let first = builder.send(a, create("/1"));
    let third = builder.send(a, create("/3"));
    let b = builder.reconnect(builder.session(a));
    let second = builder.send(b, create("/2"));
    builder.commit(a, first);
    builder.commit(b, second);
    builder.commit(a, third);
    builder.disconnect(a);
    builder.disconnect(b);
    builder.assert_violation(ViolationKind::MovedSessionWrote);
}

#[test]
fn p43_replaced_session_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.disconnect(a);
    let again = builder.reconnect(builder.session(a));
    let other = builder.session(b);
    if let Some(HandshakeReply::Session { session, .. }) = &mut builder.history.connections[again].granted {
        *session = other;
    }
    builder.assert_violation(ViolationKind::ReplacedSession);
}

#[test]
fn p43_refused_live_session_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    builder.refused(builder.session(a));
    builder.assert_violation(ViolationKind::LiveSessionRefused);
}

/// In an ensemble, an end that was proposed but never committed does not count.
#[test]
fn p43_refusal_with_uncommitted_close_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    builder.refused(builder.session(a));
    let later = builder.wait(1_000);
    builder.history.starts.push(later);
    builder.assert_valid();
    builder.history.settings.is_ensemble = true;
    builder.assert_violation(ViolationKind::LiveSessionRefused);
}

#[test]
fn refusals_of_closed_sessions_pass() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    let wrong_password = builder.refused(builder.session(a));
    builder.history.connections[wrong_password].has_valid_password = false;
    builder.refused(SessionId(0x777)); // never existed
    builder.assert_valid();
}

#[test]
fn p43_session_granted_with_wrong_password_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    let thief = builder.reconnect(builder.session(a));
    builder.history.connections[thief].has_valid_password = false;
    builder.assert_violation(ViolationKind::WrongPasswordAccepted);
}

#[test]
fn concurrent_handshakes_pass_in_any_order() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let session = builder.session(a);
    let b = builder.reconnect(session);
    builder.disconnect(b);
    // It writes before the reply to its handshake, which it never receives.
    let c = builder.reconnect(session);
    let request = builder.send(c, create("/a"));
    builder.commit(c, request);
    builder.disconnect(c);
    builder.history.connections[c].granted = None;
    builder.history.connections[a].closed = Some(builder.history.ended);
    builder.assert_valid();
}

#[test]
fn timeout_of_last_handshake_counts() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let session = builder.session(a);
    let opened = builder.reconnect(session);
    builder.read(a, get("/a")); // on the old connection, before it is closed
    builder.history.connections[a].closed = Some(builder.history.ended);
    if let Some(HandshakeReply::Session { at, timeout_ms, .. }) = &mut builder.history.connections[opened].granted {
        (*at, *timeout_ms) = (builder.history.ended.plus_ms(1), 1000);
    }
    builder.wait(2000);
    builder.expire(session);
    builder.disconnect(opened);
    builder.assert_valid();
}

#[test]
fn handshake_before_server_start_passes() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    let b = builder.reconnect(builder.session(a));
    let opened = builder.history.connections[b].opened;
    builder.history.starts.push(Time(opened.0 + 500));
    if let Some(HandshakeReply::Session { timeout_ms, .. }) = &mut builder.history.connections[b].granted {
        *timeout_ms = 1000;
    }
    builder.wait(2000);
    builder.expire(builder.session(a));
    builder.disconnect(b);
    builder.assert_valid();
}

/// A member without a leader replies late, and the client may read the reply even later.
#[test]
fn timeout_of_a_handshake_counts_before_its_reply_arrives() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.disconnect(a);
    let b = builder.reconnect(builder.session(a));
    builder.history.starts.push(builder.history.ended);
    builder.wait(2000);
    builder.expire(builder.session(a));
    let late = builder.wait(1000);
    let connection = &mut builder.history.connections[b];
    connection.requested_timeout_ms = 1000;
    if let Some(HandshakeReply::Session { at, timeout_ms, .. }) = &mut connection.granted {
        (*at, *timeout_ms) = (late, 1000);
    }
    builder.disconnect(b);
    builder.assert_valid();
}
