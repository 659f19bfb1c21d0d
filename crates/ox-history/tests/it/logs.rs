//! Logs that cannot be (P16, P37, P40).

use crate::history_builder::{Story, create};
use ox_history::{LoggedTxn, Op, Reason};
use ox_proto::Zxid;

#[test]
fn p16_a_hole() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.history.log.remove(0);
    story.is_bad(Reason::Hole);
}

#[test]
fn p16_a_repetition() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.history.log[1].zxid = Zxid(1);
    story.is_bad(Reason::Hole);
}

#[test]
fn p37_an_id_is_issued_twice() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, Op::CloseSession);
    story.hang_up(a);
    story.log(story.session(a), 0, LoggedTxn::CreateSession { timeout_ms: 4000 });
    story.is_bad(Reason::SessionIdReused);
}

#[test]
fn p40_a_write_after_the_end() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, Op::CloseSession);
    story.hang_up(a);
    let delete = LoggedTxn::Delete { path: "/a".to_owned() };
    story.log(story.session(a), 7, delete);
    story.is_bad(Reason::ClosedSessionWrote);
}
