//! Histories without fault.

use crate::history_builder::{Story, create, delete, ephemeral, exists, get, sequential, set, watch, watch_children};
use ox_history::{Answer, Body, Create, LoggedTxn, Op};
use ox_proto::{ErrorCode, OpCode, Zxid};

#[test]
fn a_day_in_the_life() {
    let mut story = Story::new();
    let a = story.connect();
    let b = story.connect();
    story.write(a, create("/a"));
    story.read(b, watch("/a"));
    story.read(b, watch_children("/a"));
    let zxid = story.zxid();
    let request = story.send(a, set("/a", "2", 0));
    let answer = story.commit(a, request);
    story.event(b, Zxid(zxid.0 + 1), 3, "/a");
    story.reply(a, request, Zxid(zxid.0 + 1), answer);
    story.read(b, get("/a"));
    story.write(a, set("/a", "3", 7)); // refused
    story.write(a, delete("/nowhere"));
    let zxid = story.write(a, ephemeral("/a/e"));
    story.event(b, zxid, 4, "/a");
    story.write(a, sequential("/a/s-"));
    story.write(a, Op::Multi(vec![create("/m"), set("/m", "x", 0), delete("/a/s-0000000001")]));
    story.write(a, Op::Multi(vec![create("/n"), create("/n")]));
    story.read(b, exists("/n"));
    story.read(b, Op::Ping);
    if let Some(last) = story.history.connections[b].requests.last_mut() {
        last.xid = -2;
    }
    if let Some(ox_history::Received::Reply { xid, .. }) = story.history.connections[b].received.last_mut() {
        *xid = -2;
    }
    story.write(a, Op::CloseSession);
    story.hang_up(a);
    story.read(b, get("/a/e"));
    story.dump();
    story.is_good();
}

#[test]
fn writes_without_an_answer_are_there_or_not() {
    let mut story = Story::new();
    let a = story.connect();
    let done = story.send(a, create("/done"));
    story.commit(a, done);
    story.send(a, create("/lost"));
    story.hang_up(a);
    let b = story.connect();
    story.read(b, get("/done"));
    story.read(b, get("/lost"));
    story.is_good();
}

#[test]
fn a_stream_may_end_anywhere() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, create("/a"));
    story.read(b, watch("/a"));
    story.read(b, watch_children("/a"));
    story.write(a, delete("/a")); // b is told once, but is gone
    story.hang_up(b);
    story.is_good();
}

#[test]
fn refusals_without_a_zxid() {
    let mut story = Story::new();
    let a = story.connect();
    let request = story.send(a, create("/full"));
    story.reply(a, request, story.zxid(), Answer::error(ErrorCode::ThrottledOp.code()));
    let request = story.send(a, Op::Broken(OpCode::SetData));
    story.reply(a, request, story.zxid(), Answer::error(ErrorCode::MarshallingError.code()));
    let request = story.send(a, Op::Auth { scheme: "digest".to_owned(), auth: b"bob:pw".to_vec() });
    story.reply(a, request, Zxid(0), Answer::ok(Body::Empty));
    let request = story.send(a, Op::Unknown(999));
    story.reply(a, request, Zxid(-1), Answer::error(ErrorCode::Unimplemented.code()));
    story.hang_up(a);
    story.is_good();
}

#[test]
fn a_session_moves_on_with_its_watches() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.write(a, create("/b"));
    story.read(a, watch("/a"));
    story.hang_up(a);
    let b = story.connect();
    let seen = story.zxid();
    story.write(b, set("/a", "2", -1));
    let a2 = story.reconnect(story.session(a));
    let lists = vec![vec!["/a".to_owned(), "/b".to_owned()], vec!["/c".to_owned()], vec!["/gone".to_owned()]];
    let request = story.send(a2, Op::SetWatches { relative: seen, lists });
    story.event(a2, Zxid(-1), 3, "/a");
    story.event(a2, Zxid(-1), 2, "/gone");
    story.reply(a2, request, story.zxid(), Answer::ok(Body::Empty));
    let zxid = story.write(b, create("/c"));
    story.event(a2, zxid, 1, "/c");
    let zxid = story.write(b, set("/b", "2", -1));
    story.event(a2, zxid, 3, "/b");
    story.is_good();
}

#[test]
fn silent_sessions_end_in_time() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, ephemeral("/e"));
    story.hang_up(a);
    story.wait(6000);
    story.expire(story.session(a));
    story.refused(story.session(a));
    story.is_good();
}

#[test]
fn answers_without_a_zxid_stand_between_events() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.read(b, Op::AddWatch { path: "/a".to_owned(), mode: 0 });
    let zxid = story.write(a, create("/a"));
    story.event(b, zxid, 1, "/a");
    let request = story.send(b, Op::Sasl { token: b"x".to_vec() });
    story.reply(b, request, Zxid(0), Answer::ok(Body::Empty));
    let zxid = story.write(a, set("/a", "2", 0));
    story.event(b, zxid, 3, "/a");
    story.is_good();
}

#[test]
fn without_a_list_the_nodes_of_a_session_go_in_any_order() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, create("/p"));
    for path in ["/p/1", "/p/2", "/q"] {
        story.write(a, ephemeral(path));
    }
    for path in ["/p", "/q"] {
        story.read(b, Op::AddWatch { path: path.to_owned(), mode: 0 });
    }
    let zxid = story.write(a, Op::CloseSession);
    story.hang_up(a);
    story.history.log.last_mut().unwrap().txn = LoggedTxn::CloseSession { paths: None };
    for (kind, path) in [(4, "/p"), (2, "/q"), (4, "/p")] {
        story.event(b, zxid, kind, path);
    }
    story.is_good();
}

#[test]
fn usage_of_quotas_is_the_servers_in_lists_too() {
    let stats = "/zookeeper/quota/a/zookeeper_stats";
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/zookeeper/quota/a"));
    story.write(a, create(stats));
    let op = Op::MultiRead(vec![get(stats), get("/nowhere")]);
    let mut answer = story.look(a, &op);
    if let Body::Multi(elements) = &mut answer.body
        && let Body::Data(data, stat) = &mut elements[0].body
    {
        (*data, stat.data_length) = (Some(b"count=1,bytes=1".to_vec()), 15);
    }
    let request = story.send(a, op);
    story.reply(a, request, story.zxid(), answer);
    story.is_good();
}

#[test]
fn usage_of_quotas_is_the_servers_from_the_start() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/zookeeper/quota/a"));
    let stats = Create::open("/zookeeper/quota/a/zookeeper_stats", b"", 0);
    let request = story.send(a, Op::Create(Create { op: OpCode::Create2, ..stats }));
    let mut answer = story.commit(a, request);
    if let Body::Created(_, stat) = &mut answer.body {
        stat.data_length = 15;
    }
    story.reply(a, request, story.zxid(), answer);
    story.is_good();
}

#[test]
fn a_stream_may_end_behind_the_events_of_rearming() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.read(b, Op::AddWatch { path: "/".to_owned(), mode: 1 });
    story.send(b, Op::SetWatches { relative: Zxid(0), lists: vec![vec!["/gone".to_owned()], vec![], vec![]] });
    story.event(b, Zxid(-1), 2, "/gone");
    story.hang_up(b);
    story.write(a, create("/a"));
    story.is_good();
}
