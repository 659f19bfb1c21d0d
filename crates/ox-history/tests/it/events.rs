//! Events that come too late, in the wrong order, not at all or for no reason (P47 to P52).

use crate::history_builder::{Story, bobs, create, delete, ephemeral, exists, get, set, watch, watch_children};
use ox_history::{Answer, Body, Op, Reason};
use ox_proto::Zxid;

/// Two connections, `/a`, and the second one watching it.
fn watched() -> (Story, usize, usize) {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, create("/a"));
    story.read(b, watch("/a"));
    (story, a, b)
}

fn lasting(mode: i32) -> (Story, usize, usize) {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, create("/a"));
    story.read(b, Op::AddWatch { path: "/a".to_owned(), mode });
    (story, a, b)
}

#[test]
fn p47_the_state_before_the_event() {
    let (mut story, a, b) = watched();
    let zxid = story.write(a, set("/a", "2", 0));
    story.read(b, get("/a"));
    story.event(b, zxid, 3, "/a");
    story.is_bad(Reason::EventAfterState);
}

#[test]
fn p48_events_change_places() {
    let (mut story, a, b) = lasting(0);
    let first = story.write(a, set("/a", "2", 0));
    let second = story.write(a, set("/a", "3", 1));
    story.event(b, second, 3, "/a");
    story.event(b, first, 3, "/a");
    story.is_bad(Reason::EventsOutOfOrder);
}

#[test]
fn p48_events_of_one_transaction_change_places() {
    let (mut story, a, b) = lasting(1);
    let zxid = story.write(a, Op::Multi(vec![create("/a/1"), create("/a/2")]));
    story.event(b, zxid, 1, "/a/2");
    story.event(b, zxid, 1, "/a/1");
    story.is_bad(Reason::EventsOutOfOrder);
}

#[test]
fn p48_a_multi_is_told_in_two_parts() {
    let (mut story, a, b) = lasting(1);
    let zxid = story.write(a, Op::Multi(vec![create("/a/1"), create("/a/2")]));
    story.event(b, zxid, 1, "/a/1");
    story.read(b, get("/a"));
    story.event(b, zxid, 1, "/a/2");
    story.is_bad(Reason::EventsSplit);
}

#[test]
fn p48_an_event_overtakes_an_answer() {
    let (mut story, a, b) = watched();
    let before = story.zxid();
    let read = story.send(b, get("/a"));
    let seen = story.look(b, &get("/a"));
    let zxid = story.write(a, set("/a", "2", 0));
    story.event(b, zxid, 3, "/a");
    story.reply(b, read, before, seen);
    story.is_bad(Reason::EventOvertookReply);
}

#[test]
fn p49_a_one_shot_watch_does_not_fire() {
    let (mut story, a, b) = watched();
    story.write(a, set("/a", "2", 0));
    story.read(b, get("/a"));
    story.is_bad(Reason::LostEvent);
}

#[test]
fn p49_a_lasting_watch_misses_a_change() {
    let (mut story, a, b) = lasting(0);
    let zxid = story.write(a, set("/a", "2", 0));
    story.write(a, set("/a", "3", 1));
    story.event(b, zxid, 3, "/a");
    story.is_bad(Reason::LostEvent);
}

#[test]
fn p49_an_idle_connection_is_forgotten() {
    let (mut story, a, _) = watched();
    story.write(a, delete("/a"));
    story.is_bad(Reason::LostEvent);
}

#[test]
fn p49_the_end_of_a_session_is_not_told() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, ephemeral("/e"));
    story.read(b, exists("/e"));
    story.write(a, Op::CloseSession);
    story.hang_up(a);
    story.read(b, get("/e"));
    story.is_bad(Reason::LostEvent);
}

#[test]
fn p50_an_event_for_no_change() {
    let (mut story, a, b) = watched();
    let zxid = story.write(a, create("/other"));
    story.event(b, zxid, 3, "/a");
    story.is_bad(Reason::InventedEvent);
}

#[test]
fn p50_an_event_for_no_watch() {
    let (mut story, a, b) = watched();
    let zxid = story.write(a, create("/other"));
    story.event(b, zxid, 1, "/other");
    story.is_bad(Reason::InventedEvent);
}

#[test]
fn p50_an_event_of_the_wrong_type() {
    let (mut story, a, b) = watched();
    let zxid = story.write(a, set("/a", "2", 0));
    story.event(b, zxid, 4, "/a");
    story.is_bad(Reason::LostEvent);
}

#[test]
fn p50_a_one_shot_watch_fires_twice() {
    let (mut story, a, b) = watched();
    for version in 0..2 {
        let zxid = story.write(a, set("/a", "2", version));
        story.event(b, zxid, 3, "/a");
    }
    story.is_bad(Reason::FiredTwice);
}

#[test]
fn p50_one_change_is_told_twice() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, create("/a"));
    story.read(b, watch("/a"));
    story.read(b, watch_children("/a"));
    let zxid = story.write(a, delete("/a"));
    story.event(b, zxid, 2, "/a");
    story.event(b, zxid, 2, "/a");
    story.is_bad(Reason::FiredTwice);
}

#[test]
fn p50_an_event_after_the_removal() {
    let (mut story, a, b) = lasting(0);
    let remove = story.send(b, Op::RemoveWatches { path: "/a".to_owned(), kind: 4 });
    story.reply(b, remove, story.zxid(), Answer::ok(Body::Empty));
    let zxid = story.write(a, set("/a", "2", 0));
    story.event(b, zxid, 3, "/a");
    story.is_bad(Reason::EventAfterRemoval);
}

#[test]
fn p50_a_watch_that_is_not_there_is_found() {
    let (mut story, _, b) = watched();
    let asked = story.send(b, Op::CheckWatches { path: "/a".to_owned(), kind: 1 });
    story.reply(b, asked, story.zxid(), Answer::ok(Body::Empty));
    story.is_bad(Reason::WrongWatchAnswer);
}

fn rearmed(events: &[(i32, &str)], lists: [&[&str]; 3]) -> Story {
    let (mut story, a, b) = watched();
    story.write(a, create("/b"));
    let relative = story.zxid();
    story.hang_up(b);
    story.write(a, set("/a", "2", 0));
    let b2 = story.reconnect(story.session(b));
    let lists = lists.map(|list| list.iter().map(|path| (*path).to_owned()).collect()).to_vec();
    let request = story.send(b2, Op::SetWatches { relative, lists });
    for (kind, path) in events {
        story.event(b2, Zxid(-1), *kind, path);
    }
    story.reply(b2, request, story.zxid(), Answer::ok(Body::Empty));
    story
}

#[test]
fn p51_a_missed_change_is_not_told() {
    rearmed(&[], [&["/a"], &[], &[]]).is_bad(Reason::WrongRearm);
    rearmed(&[(3, "/a")], [&["/a"], &[], &[]]).is_good();
}

#[test]
fn p51_the_wrong_type() {
    rearmed(&[(1, "/gone")], [&["/gone"], &[], &[]]).is_bad(Reason::WrongRearm);
    rearmed(&[(2, "/gone")], [&["/gone"], &[], &[]]).is_good();
}

#[test]
fn p51_no_change_and_yet_an_event() {
    rearmed(&[(3, "/b")], [&["/b"], &[], &[]]).is_bad(Reason::WrongRearm);
}

#[test]
fn p51_an_armed_watch_stays_silent() {
    let mut story = rearmed(&[], [&["/b"], &[], &[]]);
    let writer = story.connect();
    story.write(writer, set("/b", "2", 0));
    story.is_bad(Reason::LostEvent);
}

#[test]
fn p52_an_event_about_a_secret() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.read(b, exists("/secret"));
    let zxid = story.write(a, bobs("/secret"));
    story.event(b, zxid, 1, "/secret");
    story.is_bad(Reason::LeakedEvent);
}

#[test]
fn when_exactly_somebody_was_authenticated_is_unknown() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.read(b, Op::AddWatch { path: "/".to_owned(), mode: 1 });
    let request = story.send(b, Op::Auth { scheme: "digest".to_owned(), auth: b"bob:pw".to_vec() });
    story.reply(b, request, Zxid(0), Answer::ok(Body::Empty));
    story.write(a, bobs("/a")); // it may have come before the authentication
    story.read(b, get("/"));
    story.is_good();
}
