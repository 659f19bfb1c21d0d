//! Streams with missing, duplicate or misplaced replies (P24, P32).

use crate::history_builder::{HistoryBuilder, create, get};
use ox_history::{Op, ReceivedFrame, ReplyBody, ViolationKind};

fn two_replies() -> (HistoryBuilder, usize) {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.read(a, get("/a"));
    (builder, a)
}

#[test]
fn p24_swapped_replies_are_found() {
    let (mut builder, a) = two_replies();
    builder.history.connections[a].received.swap(0, 1);
    builder.assert_violation(ViolationKind::RepliesOutOfOrder);
}

#[test]
fn p32_missing_reply_is_found() {
    let (mut builder, a) = two_replies();
    builder.send(a, get("/a"));
    builder.assert_violation(ViolationKind::MissingReply);
}

#[test]
fn p32_duplicate_reply_is_found() {
    let (mut builder, a) = two_replies();
    let again = builder.history.connections[a].received[1].clone();
    builder.history.connections[a].received.push(again);
    builder.assert_violation(ViolationKind::DuplicateReply);
}

#[test]
fn p32_reply_without_request_is_found() {
    let (mut builder, a) = two_replies();
    if let ReceivedFrame::Reply { xid, .. } = builder.frame(a, 1) {
        *xid = 4711;
    }
    builder.assert_violation(ViolationKind::UnknownXid);
}

#[test]
fn p32_reply_before_request_is_found() {
    let (mut builder, a) = two_replies();
    builder.history.connections[a].requests[1].at = builder.history.ended.plus_ms(1);
    builder.assert_violation(ViolationKind::RepliesOutOfOrder);
}

#[test]
fn p32_frame_after_last_reply_is_found() {
    let (mut builder, a) = two_replies();
    builder.write(a, Op::CloseSession);
    builder.event(a, builder.zxid(), 3, "/a");
    builder.assert_violation(ViolationKind::FrameAfterLastReply);
}

#[test]
fn p32_undecodable_reply_is_found() {
    let (mut builder, a) = two_replies();
    *builder.body(a, 1) = ReplyBody::Undecodable;
    builder.assert_violation(ViolationKind::Undecodable);
}
