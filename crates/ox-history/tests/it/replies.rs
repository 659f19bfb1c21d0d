//! Streams in which answers are missing, double or in the wrong place (P24, P32).

use crate::history_builder::{Story, create, get};
use ox_history::{Body, Op, Reason, Received};

fn two_answers() -> (Story, usize) {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.read(a, get("/a"));
    (story, a)
}

#[test]
fn p24_answers_change_places() {
    let (mut story, a) = two_answers();
    story.history.connections[a].received.swap(0, 1);
    story.is_bad(Reason::RepliesOutOfOrder);
}

#[test]
fn p32_no_answer() {
    let (mut story, a) = two_answers();
    story.send(a, get("/a"));
    story.is_bad(Reason::Unanswered);
}

#[test]
fn p32_two_answers() {
    let (mut story, a) = two_answers();
    let again = story.history.connections[a].received[1].clone();
    story.history.connections[a].received.push(again);
    story.is_bad(Reason::AnsweredTwice);
}

#[test]
fn p32_an_answer_to_nobody() {
    let (mut story, a) = two_answers();
    if let Received::Reply { xid, .. } = story.frame(a, 1) {
        *xid = 4711;
    }
    story.is_bad(Reason::UnknownXid);
}

#[test]
fn p32_an_answer_before_its_request() {
    let (mut story, a) = two_answers();
    story.history.connections[a].requests[1].at = story.history.ended.plus_ms(1);
    story.is_bad(Reason::RepliesOutOfOrder);
}

#[test]
fn p32_something_after_the_end() {
    let (mut story, a) = two_answers();
    story.write(a, Op::CloseSession);
    story.event(a, story.zxid(), 3, "/a");
    story.is_bad(Reason::AfterTheEnd);
}

#[test]
fn p32_an_answer_that_is_none() {
    let (mut story, a) = two_answers();
    *story.body(a, 1) = Body::Undecodable;
    story.is_bad(Reason::Undecodable);
}
