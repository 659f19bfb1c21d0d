//! Writes whose effect does not match their replies (P23, P24, P30, P31, P33, P34, P54).

use crate::history_builder::{HistoryBuilder, create, delete, get, sequential, set};
use ox_history::{Create, ElementResult, LoggedTxn, Op, OpResult, ReceivedFrame, ReplyBody, ViolationKind};
use ox_proto::{ErrorCode, OpCode, SessionId, Zxid};

#[test]
fn p23_order_against_real_time_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    let late = builder.send(b, create("/late"));
    let result = builder.commit(b, late);
    builder.reply(b, late, builder.zxid(), result);
    builder.write(a, create("/early"));
    // The second write completed before the first was sent.
    let sent = &mut builder.history.connections[b].requests[0];
    sent.at = builder.history.ended.plus_ms(10);
    builder.wait(20);
    let at = builder.history.ended;
    if let ReceivedFrame::Reply { at: received, .. } = builder.frame(b, 0) {
        *received = at;
    }
    builder.assert_violation(ViolationKind::OutOfRealTime);
}

#[test]
fn p23_impossible_success_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    let zxid = builder.write(a, create("/a"));
    let entry = &mut builder.history.log[usize::try_from(zxid.0).unwrap() - 1];
    entry.txn = LoggedTxn::Delete { path: "/a".to_owned() };
    builder.assert_violation(ViolationKind::WrongTransaction);
}

#[test]
fn p23_impossible_error_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, delete("/a"));
    if let ReceivedFrame::Reply { err, .. } = builder.frame(a, 0) {
        *err = ErrorCode::NotEmpty.code();
    }
    builder.assert_violation(ViolationKind::WrongResult);
}

#[test]
fn p23_zxid_of_another_write_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    let zxid = builder.write(a, create("/a"));
    let request = builder.send(b, create("/b"));
    builder.reply(b, request, zxid, OpResult::ok(ReplyBody::Path("/b".to_owned())));
    builder.assert_violation(ViolationKind::ForeignZxid);
}

#[test]
fn p23_shared_zxid_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let zxid = builder.write(a, create("/a"));
    builder.disconnect(a);
    let b = builder.reconnect(builder.session(a));
    let request = builder.send(b, create("/a"));
    let xid = builder.history.connections[a].requests[0].xid;
    builder.history.connections[b].requests[0].xid = xid;
    builder.reply(b, request, zxid, OpResult::ok(ReplyBody::Path("/a".to_owned())));
    builder.assert_violation(ViolationKind::SharedZxid);
}

#[test]
fn p23_unsent_write_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.log(builder.session(a), 17, LoggedTxn::Delete { path: "/a".to_owned() });
    builder.assert_violation(ViolationKind::UnsentWrite);
}

#[test]
fn p54_lost_acknowledged_write_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.history.log.pop();
    builder.assert_violation(ViolationKind::LostWrite);
}

#[test]
fn p24_reordered_writes_are_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let (first, second) = (builder.send(a, create("/1")), builder.send(a, create("/2")));
    builder.commit(a, second);
    builder.commit(a, first);
    builder.disconnect(a);
    builder.assert_violation(ViolationKind::WritesOutOfOrder);
}

#[test]
fn p24_skipped_write_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.send(a, create("/1"));
    let second = builder.send(a, create("/2"));
    builder.commit(a, second);
    builder.disconnect(a);
    builder.assert_violation(ViolationKind::SkippedWrite);
}

#[test]
fn p24_read_after_later_write_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    let read = builder.send(a, get("/a"));
    let write = builder.send(a, set("/a", "2", -1));
    let written = builder.commit(a, write);
    let seen = builder.expected_read(a, &get("/a"));
    builder.reply(a, read, builder.zxid(), seen);
    builder.reply(a, write, builder.zxid(), written);
    builder.assert_violation(ViolationKind::ReadAfterLaterWrite);
}

#[test]
fn p30_swapped_results_are_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, Op::Multi(vec![create("/a"), delete("/a"), create("/b")]));
    if let ReplyBody::Multi(results) = builder.body(a, 0) {
        results.swap(0, 1);
    }
    builder.assert_violation(ViolationKind::MultiResults);
}

#[test]
fn p30_missing_result_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, Op::Multi(vec![create("/a"), create("/b")]));
    if let ReplyBody::Multi(results) = builder.body(a, 0) {
        results.pop();
    }
    builder.assert_violation(ViolationKind::MultiResults);
}

#[test]
fn p30_failed_multi_with_effect_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, Op::Multi(vec![create("/a"), create("/b")]));
    *builder.body(a, 0) =
        ReplyBody::Multi(vec![ElementResult::error(0), ElementResult::error(ErrorCode::NodeExists.code())]);
    builder.assert_violation(ViolationKind::FailedMultiTookEffect);
}

#[test]
fn p31_failed_write_with_effect_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    if let ReceivedFrame::Reply { err, body, .. } = builder.frame(a, 0) {
        (*err, *body) = (ErrorCode::NodeExists.code(), ReplyBody::Empty);
    }
    builder.assert_violation(ViolationKind::ErrorTookEffect);
}

#[test]
fn p31_throttled_write_with_effect_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    if let ReceivedFrame::Reply { err, body, .. } = builder.frame(a, 0) {
        (*err, *body) = (ErrorCode::ThrottledOp.code(), ReplyBody::Empty);
    }
    builder.assert_violation(ViolationKind::RefusedIsLogged);
}

#[test]
fn p33_reused_sequence_number_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, sequential("/s"));
    builder.write(a, delete("/s0000000000"));
    let zxid = builder.write(a, sequential("/s"));
    let entry = &mut builder.history.log[usize::try_from(zxid.0).unwrap() - 1];
    if let LoggedTxn::Create { path, .. } = &mut entry.txn {
        *path = "/s0000000000".to_owned();
    }
    builder.assert_violation(ViolationKind::WrongName);
}

#[test]
fn p33_wrong_name_in_reply_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, sequential("/s"));
    *builder.body(a, 0) = ReplyBody::Path("/s0000000007".to_owned());
    builder.assert_violation(ViolationKind::WrongName);
}

#[test]
fn p34_lost_update_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.write(a, set("/a", "2", 0));
    let zxid = builder.write(a, set("/a", "3", 0));
    let entry = &mut builder.history.log[usize::try_from(zxid.0).unwrap() - 1];
    entry.txn = LoggedTxn::SetData { path: "/a".to_owned(), data: Some(b"3".to_vec()), version: 1 };
    builder.assert_violation(ViolationKind::LostUpdate);
}

#[test]
fn p34_lost_update_only_in_reply_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.write(a, set("/a", "2", 7));
    let stat = builder.expected_read(a, &get("/a")).body.stat().copied().unwrap();
    if let ReceivedFrame::Reply { err, body, .. } = builder.frame(a, 1) {
        (*err, *body) = (0, ReplyBody::Stat(stat));
    }
    builder.assert_violation(ViolationKind::LostUpdate);
}

#[test]
fn p35_wrong_stat_of_write_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.write(a, set("/a", "2", 0));
    if let ReplyBody::Stat(stat) = builder.body(a, 1) {
        stat.mzxid = Zxid(1);
    }
    builder.assert_violation(ViolationKind::WrongStat);
}

#[test]
fn p41_removal_of_plain_node_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.log(SessionId::NONE, 0, LoggedTxn::DeleteContainer { path: "/a".to_owned() });
    builder.assert_violation(ViolationKind::WrongRemoval);
}

#[test]
fn p41_removal_of_unused_container_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, Op::Create(Create { op: OpCode::CreateContainer, ..Create::open("/c", b"", 4) }));
    builder.log(SessionId::NONE, 0, LoggedTxn::DeleteContainer { path: "/c".to_owned() });
    builder.assert_violation(ViolationKind::WrongRemoval);
    builder.history.settings.never_used_ms = 1;
    builder.history.log.last_mut().unwrap().time_ms += 5;
    builder.assert_valid();
}
