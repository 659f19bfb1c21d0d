//! Events that are late, out of order, missing or unexpected (P47 to P52).

use crate::history_builder::{
    HistoryBuilder, bobs, create, delete, ephemeral, exists, get, set, watch, watch_children,
};
use ox_history::{Op, OpResult, ReplyBody, ViolationKind};
use ox_proto::Zxid;

/// Two connections, `/a`, and the second one watching it.
fn watched() -> (HistoryBuilder, usize, usize) {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.read(b, watch("/a"));
    (builder, a, b)
}

fn lasting(mode: i32) -> (HistoryBuilder, usize, usize) {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.read(b, Op::AddWatch { path: "/a".to_owned(), mode });
    (builder, a, b)
}

#[test]
fn p47_state_before_event_is_found() {
    let (mut builder, a, b) = watched();
    let zxid = builder.write(a, set("/a", "2", 0));
    builder.read(b, get("/a"));
    builder.event(b, zxid, 3, "/a");
    builder.assert_violation(ViolationKind::EventAfterState);
}

#[test]
fn p48_swapped_events_are_found() {
    let (mut builder, a, b) = lasting(0);
    let first = builder.write(a, set("/a", "2", 0));
    let second = builder.write(a, set("/a", "3", 1));
    builder.event(b, second, 3, "/a");
    builder.event(b, first, 3, "/a");
    builder.assert_violation(ViolationKind::EventsOutOfOrder);
}

#[test]
fn p48_swapped_events_of_one_transaction_are_found() {
    let (mut builder, a, b) = lasting(1);
    let zxid = builder.write(a, Op::Multi(vec![create("/a/1"), create("/a/2")]));
    builder.event(b, zxid, 1, "/a/2");
    builder.event(b, zxid, 1, "/a/1");
    builder.assert_violation(ViolationKind::EventsOutOfOrder);
}

#[test]
fn p48_split_events_of_multi_are_found() {
    let (mut builder, a, b) = lasting(1);
    let zxid = builder.write(a, Op::Multi(vec![create("/a/1"), create("/a/2")]));
    builder.event(b, zxid, 1, "/a/1");
    builder.read(b, get("/a"));
    builder.event(b, zxid, 1, "/a/2");
    builder.assert_violation(ViolationKind::EventsSplit);
}

#[test]
fn p48_event_before_older_reply_is_found() {
    let (mut builder, a, b) = watched();
    let before = builder.zxid();
    let read = builder.send(b, get("/a"));
    let seen = builder.expected_read(b, &get("/a"));
    let zxid = builder.write(a, set("/a", "2", 0));
    builder.event(b, zxid, 3, "/a");
    builder.reply(b, read, before, seen);
    builder.assert_violation(ViolationKind::EventOvertookReply);
}

#[test]
fn p49_missing_one_shot_event_is_found() {
    let (mut builder, a, b) = watched();
    builder.write(a, set("/a", "2", 0));
    builder.read(b, get("/a"));
    builder.assert_violation(ViolationKind::LostEvent);
}

#[test]
fn p49_missing_persistent_event_is_found() {
    let (mut builder, a, b) = lasting(0);
    let zxid = builder.write(a, set("/a", "2", 0));
    builder.write(a, set("/a", "3", 1));
    builder.event(b, zxid, 3, "/a");
    builder.assert_violation(ViolationKind::LostEvent);
}

#[test]
fn p49_missing_event_on_idle_connection_is_found() {
    let (mut builder, a, _) = watched();
    builder.write(a, delete("/a"));
    builder.assert_violation(ViolationKind::LostEvent);
}

#[test]
fn p49_missing_event_of_session_end_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, ephemeral("/e"));
    builder.read(b, exists("/e"));
    builder.write(a, Op::CloseSession);
    builder.disconnect(a);
    builder.read(b, get("/e"));
    builder.assert_violation(ViolationKind::LostEvent);
}

#[test]
fn p50_event_without_change_is_found() {
    let (mut builder, a, b) = watched();
    let zxid = builder.write(a, create("/other"));
    builder.event(b, zxid, 3, "/a");
    builder.assert_violation(ViolationKind::InventedEvent);
}

#[test]
fn p50_event_without_watch_is_found() {
    let (mut builder, a, b) = watched();
    let zxid = builder.write(a, create("/other"));
    builder.event(b, zxid, 1, "/other");
    builder.assert_violation(ViolationKind::InventedEvent);
}

#[test]
fn p50_event_of_wrong_type_is_found() {
    let (mut builder, a, b) = watched();
    let zxid = builder.write(a, set("/a", "2", 0));
    builder.event(b, zxid, 4, "/a");
    builder.assert_violation(ViolationKind::LostEvent);
}

#[test]
fn p50_one_shot_watch_firing_twice_is_found() {
    let (mut builder, a, b) = watched();
    for version in 0..2 {
        let zxid = builder.write(a, set("/a", "2", version));
        builder.event(b, zxid, 3, "/a");
    }
    builder.assert_violation(ViolationKind::FiredTwice);
}

#[test]
fn p50_duplicate_event_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.read(b, watch("/a"));
    builder.read(b, watch_children("/a"));
    let zxid = builder.write(a, delete("/a"));
    builder.event(b, zxid, 2, "/a");
    builder.event(b, zxid, 2, "/a");
    builder.assert_violation(ViolationKind::FiredTwice);
}

#[test]
fn p50_event_after_removal_is_found() {
    let (mut builder, a, b) = lasting(0);
    let remove = builder.send(b, Op::RemoveWatches { path: "/a".to_owned(), kind: 4 });
    builder.reply(b, remove, builder.zxid(), OpResult::ok(ReplyBody::Empty));
    let zxid = builder.write(a, set("/a", "2", 0));
    builder.event(b, zxid, 3, "/a");
    builder.assert_violation(ViolationKind::EventAfterRemoval);
}

#[test]
fn p50_check_of_missing_watch_is_found() {
    let (mut builder, _, b) = watched();
    let request = builder.send(b, Op::CheckWatches { path: "/a".to_owned(), kind: 1 });
    builder.reply(b, request, builder.zxid(), OpResult::ok(ReplyBody::Empty));
    builder.assert_violation(ViolationKind::WrongWatchReply);
}

fn after_set_watches(events: &[(i32, &str)], lists: [&[&str]; 3]) -> HistoryBuilder {
    let (mut builder, a, b) = watched();
    builder.write(a, create("/b"));
    let relative = builder.zxid();
    builder.disconnect(b);
    builder.write(a, set("/a", "2", 0));
    let b2 = builder.reconnect(builder.session(b));
    let lists = lists.map(|list| list.iter().map(|path| (*path).to_owned()).collect()).to_vec();
    let request = builder.send(b2, Op::SetWatches { relative, lists });
    for (kind, path) in events {
        builder.event(b2, Zxid(-1), *kind, path);
    }
    builder.reply(b2, request, builder.zxid(), OpResult::ok(ReplyBody::Empty));
    builder
}

#[test]
fn p51_missing_set_watches_event_is_found() {
    after_set_watches(&[], [&["/a"], &[], &[]]).assert_violation(ViolationKind::WrongSetWatches);
    after_set_watches(&[(3, "/a")], [&["/a"], &[], &[]]).assert_valid();
}

#[test]
fn p51_wrong_set_watches_event_is_found() {
    after_set_watches(&[(1, "/gone")], [&["/gone"], &[], &[]]).assert_violation(ViolationKind::WrongSetWatches);
    after_set_watches(&[(2, "/gone")], [&["/gone"], &[], &[]]).assert_valid();
}

#[test]
fn p51_needless_set_watches_event_is_found() {
    after_set_watches(&[(3, "/b")], [&["/b"], &[], &[]]).assert_violation(ViolationKind::WrongSetWatches);
}

#[test]
fn p51_watch_lost_by_set_watches_is_found() {
    let mut builder = after_set_watches(&[], [&["/b"], &[], &[]]);
    let writer = builder.connect();
    builder.write(writer, set("/b", "2", 0));
    builder.assert_violation(ViolationKind::LostEvent);
}

#[test]
fn p52_event_of_unreadable_node_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.read(b, exists("/secret"));
    let zxid = builder.write(a, bobs("/secret"));
    builder.event(b, zxid, 1, "/secret");
    builder.assert_violation(ViolationKind::LeakedEvent);
}

#[test]
fn event_during_authentication_is_optional() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.read(b, Op::AddWatch { path: "/".to_owned(), mode: 1 });
    let request = builder.send(b, Op::Auth { scheme: "digest".to_owned(), auth: b"bob:pw".to_vec() });
    builder.reply(b, request, Zxid(0), OpResult::ok(ReplyBody::Empty));
    builder.write(a, bobs("/a")); // may precede the authentication
    builder.read(b, get("/"));
    builder.assert_valid();
}
