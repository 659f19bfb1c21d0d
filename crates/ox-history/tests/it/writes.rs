//! Writes that did not happen as told (P23, P24, P30, P31, P33, P34, P54).

use crate::history_builder::{Story, create, delete, get, sequential, set};
use ox_history::{Answer, Body, Create, Element, LoggedTxn, Op, Reason, Received};
use ox_proto::{ErrorCode, OpCode, SessionId, Zxid};

#[test]
fn p23_against_real_time() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    let late = story.send(b, create("/late"));
    let answer = story.commit(b, late);
    story.reply(b, late, story.zxid(), answer);
    story.write(a, create("/early"));
    // The second write was answered before the first was sent.
    let sent = &mut story.history.connections[b].requests[0];
    sent.at = story.history.ended.plus_ms(10);
    story.wait(20);
    let at = story.history.ended;
    if let Received::Reply { at: received, .. } = story.frame(b, 0) {
        *received = at;
    }
    story.is_bad(Reason::OutOfRealTime);
}

#[test]
fn p23_success_that_cannot_be() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    let zxid = story.write(a, create("/a"));
    let entry = &mut story.history.log[usize::try_from(zxid.0).unwrap() - 1];
    entry.txn = LoggedTxn::Delete { path: "/a".to_owned() };
    story.is_bad(Reason::WrongTransaction);
}

#[test]
fn p23_an_error_that_cannot_be() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, delete("/a"));
    if let Received::Reply { err, .. } = story.frame(a, 0) {
        *err = ErrorCode::NotEmpty.code();
    }
    story.is_bad(Reason::WrongResult);
}

#[test]
fn p23_the_zxid_of_another() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    let zxid = story.write(a, create("/a"));
    let request = story.send(b, create("/b"));
    story.reply(b, request, zxid, Answer::ok(Body::Path("/b".to_owned())));
    story.is_bad(Reason::ForeignZxid);
}

#[test]
fn p23_one_zxid_for_two() {
    let mut story = Story::new();
    let a = story.connect();
    let zxid = story.write(a, create("/a"));
    story.hang_up(a);
    let b = story.reconnect(story.session(a));
    let request = story.send(b, create("/a"));
    let xid = story.history.connections[a].requests[0].xid;
    story.history.connections[b].requests[0].xid = xid;
    story.reply(b, request, zxid, Answer::ok(Body::Path("/a".to_owned())));
    story.is_bad(Reason::SharedZxid);
}

#[test]
fn p23_nobody_asked_for_it() {
    let mut story = Story::new();
    let a = story.connect();
    story.log(story.session(a), 17, LoggedTxn::Delete { path: "/a".to_owned() });
    story.is_bad(Reason::Unsent);
}

#[test]
fn p54_an_answered_write_is_lost() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.history.log.pop();
    story.is_bad(Reason::LostWrite);
}

#[test]
fn p24_pipelined_writes_change_places() {
    let mut story = Story::new();
    let a = story.connect();
    let (first, second) = (story.send(a, create("/1")), story.send(a, create("/2")));
    story.commit(a, second);
    story.commit(a, first);
    story.hang_up(a);
    story.is_bad(Reason::WritesOutOfOrder);
}

#[test]
fn p24_a_write_is_left_out() {
    let mut story = Story::new();
    let a = story.connect();
    story.send(a, create("/1"));
    let second = story.send(a, create("/2"));
    story.commit(a, second);
    story.hang_up(a);
    story.is_bad(Reason::SkippedWrite);
}

#[test]
fn p24_a_read_waits_too_long() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    let read = story.send(a, get("/a"));
    let write = story.send(a, set("/a", "2", -1));
    let written = story.commit(a, write);
    let seen = story.look(a, &get("/a"));
    story.reply(a, read, story.zxid(), seen);
    story.reply(a, write, story.zxid(), written);
    story.is_bad(Reason::ReadAfterLaterWrite);
}

#[test]
fn p30_results_change_places() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, Op::Multi(vec![create("/a"), delete("/a"), create("/b")]));
    if let Body::Multi(results) = story.body(a, 0) {
        results.swap(0, 1);
    }
    story.is_bad(Reason::MultiResults);
}

#[test]
fn p30_a_result_is_missing() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, Op::Multi(vec![create("/a"), create("/b")]));
    if let Body::Multi(results) = story.body(a, 0) {
        results.pop();
    }
    story.is_bad(Reason::MultiResults);
}

#[test]
fn p30_a_failed_multi_was_done() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, Op::Multi(vec![create("/a"), create("/b")]));
    *story.body(a, 0) = Body::Multi(vec![Element::error(0), Element::error(ErrorCode::NodeExists.code())]);
    story.is_bad(Reason::FailedMultiTookEffect);
}

#[test]
fn p31_a_refused_write_was_done() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    if let Received::Reply { err, body, .. } = story.frame(a, 0) {
        (*err, *body) = (ErrorCode::NodeExists.code(), Body::Empty);
    }
    story.is_bad(Reason::ErrorTookEffect);
}

#[test]
fn p31_a_throttled_write_was_done() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    if let Received::Reply { err, body, .. } = story.frame(a, 0) {
        (*err, *body) = (ErrorCode::ThrottledOp.code(), Body::Empty);
    }
    story.is_bad(Reason::RefusedIsLogged);
}

#[test]
fn p33_a_number_is_given_out_again() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, sequential("/s"));
    story.write(a, delete("/s0000000000"));
    let zxid = story.write(a, sequential("/s"));
    let entry = &mut story.history.log[usize::try_from(zxid.0).unwrap() - 1];
    if let LoggedTxn::Create { path, .. } = &mut entry.txn {
        *path = "/s0000000000".to_owned();
    }
    story.is_bad(Reason::WrongName);
}

#[test]
fn p33_the_answer_names_another_node() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, sequential("/s"));
    *story.body(a, 0) = Body::Path("/s0000000007".to_owned());
    story.is_bad(Reason::WrongName);
}

#[test]
fn p34_two_conditional_writes_succeed() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.write(a, set("/a", "2", 0));
    let zxid = story.write(a, set("/a", "3", 0));
    let entry = &mut story.history.log[usize::try_from(zxid.0).unwrap() - 1];
    entry.txn = LoggedTxn::SetData { path: "/a".to_owned(), data: Some(b"3".to_vec()), version: 1 };
    story.is_bad(Reason::LostUpdate);
}

#[test]
fn p34_only_the_answer_says_so() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.write(a, set("/a", "2", 7));
    let stat = story.look(a, &get("/a")).body.stat().copied().unwrap();
    if let Received::Reply { err, body, .. } = story.frame(a, 1) {
        (*err, *body) = (0, Body::Stat(stat));
    }
    story.is_bad(Reason::LostUpdate);
}

#[test]
fn p35_the_stat_of_a_write() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.write(a, set("/a", "2", 0));
    if let Body::Stat(stat) = story.body(a, 1) {
        stat.mzxid = Zxid(1);
    }
    story.is_bad(Reason::WrongStat);
}

#[test]
fn p41_a_node_that_is_nobodys_is_removed() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.log(SessionId::NONE, 0, LoggedTxn::DeleteContainer { path: "/a".to_owned() });
    story.is_bad(Reason::UnjustRemoval);
}

#[test]
fn p41_a_container_that_was_never_used_is_removed() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, Op::Create(Create { op: OpCode::CreateContainer, ..Create::open("/c", b"", 4) }));
    story.log(SessionId::NONE, 0, LoggedTxn::DeleteContainer { path: "/c".to_owned() });
    story.is_bad(Reason::UnjustRemoval);
    story.history.settings.never_used_ms = 1;
    story.history.log.last_mut().unwrap().time_ms += 5;
    story.is_good();
}
