//! Histories without violations pass.

use crate::history_builder::{
    HistoryBuilder, create, delete, ephemeral, exists, get, sequential, set, watch, watch_children,
};
use ox_history::{Create, LoggedTxn, Op, OpResult, ReplyBody};
use ox_proto::{ErrorCode, OpCode, Zxid};

#[test]
fn mixed_requests_pass() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let b = builder.connect();
    builder.write(a, create("/a"));
    builder.read(b, watch("/a"));
    builder.read(b, watch_children("/a"));
    let zxid = builder.zxid();
    let request = builder.send(a, set("/a", "2", 0));
    let result = builder.commit(a, request);
    builder.event(b, Zxid(zxid.0 + 1), 3, "/a");
    builder.reply(a, request, Zxid(zxid.0 + 1), result);
    builder.read(b, get("/a"));
    builder.write(a, set("/a", "3", 7)); // fails
    builder.write(a, delete("/nowhere"));
    let zxid = builder.write(a, ephemeral("/a/e"));
    builder.event(b, zxid, 4, "/a");
    builder.write(a, sequential("/a/s-"));
    builder.write(a, Op::Multi(vec![create("/m"), set("/m", "x", 0), delete("/a/s-0000000001")]));
    builder.write(a, Op::Multi(vec![create("/n"), create("/n")]));
    builder.read(b, exists("/n"));
    builder.read(b, Op::Ping);
    if let Some(last) = builder.history.connections[b].requests.last_mut() {
        last.xid = -2;
    }
    if let Some(ox_history::ReceivedFrame::Reply { xid, .. }) = builder.history.connections[b].received.last_mut() {
        *xid = -2;
    }
    builder.write(a, Op::CloseSession);
    builder.disconnect(a);
    builder.read(b, get("/a/e"));
    builder.dump();
    builder.assert_valid();
}

#[test]
fn writes_without_reply_pass_in_or_out_of_log() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let done = builder.send(a, create("/done"));
    builder.commit(a, done);
    builder.send(a, create("/lost"));
    builder.disconnect(a);
    let b = builder.connect();
    builder.read(b, get("/done"));
    builder.read(b, get("/lost"));
    builder.assert_valid();
}

#[test]
fn stream_may_end_anywhere() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.read(b, watch("/a"));
    builder.read(b, watch_children("/a"));
    builder.write(a, delete("/a")); // b gets one event, but is disconnected
    builder.disconnect(b);
    builder.assert_valid();
}

#[test]
fn errors_without_zxid_pass() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let request = builder.send(a, create("/full"));
    builder.reply(a, request, builder.zxid(), OpResult::error(ErrorCode::ThrottledOp.code()));
    let request = builder.send(a, Op::Broken(OpCode::SetData));
    builder.reply(a, request, builder.zxid(), OpResult::error(ErrorCode::MarshallingError.code()));
    let request = builder.send(a, Op::Auth { scheme: "digest".to_owned(), auth: b"bob:pw".to_vec() });
    builder.reply(a, request, Zxid(0), OpResult::ok(ReplyBody::Empty));
    let request = builder.send(a, Op::Unknown(999));
    builder.reply(a, request, Zxid(-1), OpResult::error(ErrorCode::Unimplemented.code()));
    builder.disconnect(a);
    builder.assert_valid();
}

#[test]
fn session_move_with_watches_passes() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.write(a, create("/b"));
    builder.read(a, watch("/a"));
    builder.disconnect(a);
    let b = builder.connect();
    let seen = builder.zxid();
    builder.write(b, set("/a", "2", -1));
    let a2 = builder.reconnect(builder.session(a));
    let lists = vec![vec!["/a".to_owned(), "/b".to_owned()], vec!["/c".to_owned()], vec!["/gone".to_owned()]];
    let request = builder.send(a2, Op::SetWatches { relative: seen, lists });
    builder.event(a2, Zxid(-1), 3, "/a");
    builder.event(a2, Zxid(-1), 2, "/gone");
    builder.reply(a2, request, builder.zxid(), OpResult::ok(ReplyBody::Empty));
    let zxid = builder.write(b, create("/c"));
    builder.event(a2, zxid, 1, "/c");
    let zxid = builder.write(b, set("/b", "2", -1));
    builder.event(a2, zxid, 3, "/b");
    builder.assert_valid();
}

#[test]
fn timely_expiry_passes() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, ephemeral("/e"));
    builder.disconnect(a);
    builder.wait(6000);
    builder.expire(builder.session(a));
    builder.refused(builder.session(a));
    builder.assert_valid();
}

#[test]
fn replies_without_zxid_between_events_pass() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.read(b, Op::AddWatch { path: "/a".to_owned(), mode: 0 });
    let zxid = builder.write(a, create("/a"));
    builder.event(b, zxid, 1, "/a");
    let request = builder.send(b, Op::Sasl { token: b"x".to_vec() });
    builder.reply(b, request, Zxid(0), OpResult::ok(ReplyBody::Empty));
    let zxid = builder.write(a, set("/a", "2", 0));
    builder.event(b, zxid, 3, "/a");
    builder.assert_valid();
}

#[test]
fn close_without_list_deletes_in_any_order() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, create("/p"));
    for path in ["/p/1", "/p/2", "/q"] {
        builder.write(a, ephemeral(path));
    }
    for path in ["/p", "/q"] {
        builder.read(b, Op::AddWatch { path: path.to_owned(), mode: 0 });
    }
    let zxid = builder.write(a, Op::CloseSession);
    builder.disconnect(a);
    builder.history.log.last_mut().unwrap().txn = LoggedTxn::CloseSession { paths: None };
    for (kind, path) in [(4, "/p"), (2, "/q"), (4, "/p")] {
        builder.event(b, zxid, kind, path);
    }
    builder.assert_valid();
}

#[test]
fn quota_usage_is_ignored_in_children() {
    let stats = "/zookeeper/quota/a/zookeeper_stats";
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/zookeeper/quota/a"));
    builder.write(a, create(stats));
    let op = Op::MultiRead(vec![get(stats), get("/nowhere")]);
    let mut result = builder.expected_read(a, &op);
    if let ReplyBody::Multi(elements) = &mut result.body
        && let ReplyBody::Data(data, stat) = &mut elements[0].body
    {
        (*data, stat.data_length) = (Some(b"count=1,bytes=1".to_vec()), 15);
    }
    let request = builder.send(a, op);
    builder.reply(a, request, builder.zxid(), result);
    builder.assert_valid();
}

#[test]
fn quota_usage_is_ignored_from_the_start() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/zookeeper/quota/a"));
    let stats = Create::open("/zookeeper/quota/a/zookeeper_stats", b"", 0);
    let request = builder.send(a, Op::Create(Create { op: OpCode::Create2, ..stats }));
    let mut result = builder.commit(a, request);
    if let ReplyBody::Created(_, stat) = &mut result.body {
        stat.data_length = 15;
    }
    builder.reply(a, request, builder.zxid(), result);
    builder.assert_valid();
}

#[test]
fn stream_may_end_after_set_watches_events() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.read(b, Op::AddWatch { path: "/".to_owned(), mode: 1 });
    builder.send(b, Op::SetWatches { relative: Zxid(0), lists: vec![vec!["/gone".to_owned()], vec![], vec![]] });
    builder.event(b, Zxid(-1), 2, "/gone");
    builder.disconnect(b);
    builder.write(a, create("/a"));
    builder.assert_valid();
}
