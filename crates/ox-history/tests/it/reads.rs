//! Reads that show what they must not (P22, P25, P26, P27, P28, P29, P30, P35, P41).

use crate::history_builder::{Story, create, delete, ephemeral, get, set};
use ox_history::{Answer, Body, Op, Reason, Received};
use ox_proto::{ErrorCode, Zxid};

#[test]
fn p25_an_own_write_is_not_seen() {
    let mut story = Story::new();
    let a = story.connect();
    let before = story.zxid();
    story.write(a, create("/a"));
    story.hang_up(a);
    let b = story.reconnect(story.session(a));
    let read = story.send(b, get("/a"));
    story.reply(b, read, before, Answer::error(ErrorCode::NoNode.code()));
    story.is_bad(Reason::StaleOwnWrite);
}

#[test]
fn p25_the_zxid_is_new_and_the_data_old() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    let old = story.look(a, &get("/a"));
    story.write(a, set("/a", "2", 0));
    let read = story.send(a, get("/a"));
    story.reply(a, read, story.zxid(), old);
    story.is_bad(Reason::StaleOwnWrite);
}

#[test]
fn p26_a_session_goes_back() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(b, create("/a"));
    let (zxid, old) = (story.zxid(), story.look(a, &get("/a")));
    story.write(b, set("/a", "2", 0));
    story.read(a, get("/a"));
    story.hang_up(a);
    let a2 = story.reconnect(story.session(a));
    let read = story.send(a2, get("/a"));
    story.reply(a2, read, zxid, old);
    story.is_bad(Reason::SessionWentBack);
}

#[test]
fn p26_a_server_that_is_behind_accepts() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.hang_up(a);
    let b = story.reconnect(story.session(a));
    story.history.connections[b].last_zxid_seen = Zxid(1000);
    story.is_bad(Reason::GrantedAhead);
}

#[test]
fn p26_a_stale_answer() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, create("/a"));
    let old = story.look(b, &get("/a"));
    story.write(a, set("/a", "2", 0));
    let read = story.send(b, get("/a"));
    story.reply(b, read, story.zxid(), old);
    story.is_bad(Reason::StaleRead);
}

#[test]
fn p27_zxids_decrease() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.read(a, get("/a"));
    story.read(a, get("/a"));
    story.set_zxid(a, 2, 1);
    story.is_bad(Reason::ZxidWentBack);
}

#[test]
fn p27_a_zxid_that_never_was() {
    let mut story = Story::new();
    let a = story.connect();
    story.read(a, get("/a"));
    story.set_zxid(a, 0, 99);
    story.is_bad(Reason::ReplyAheadOfHistory);
}

#[test]
fn p27_a_read_of_the_future() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    let zxid = story.zxid();
    let write = story.send(a, create("/a"));
    let written = story.commit(a, write);
    let read = story.send(b, get("/a"));
    let seen = story.look(b, &get("/a"));
    story.reply(b, read, zxid, seen);
    story.reply(a, write, story.zxid(), written);
    story.is_bad(Reason::ReadFromTheFuture);
}

#[test]
fn p27_known_before_it_was_sent() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.read(b, get("/b"));
    story.write(a, create("/a"));
    let zxid = story.zxid().0;
    story.set_zxid(b, 0, zxid);
    story.is_bad(Reason::ReplyBeforeCause);
}

#[test]
fn p29_a_sync_that_syncs_nothing() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    let zxid = story.zxid();
    story.write(a, create("/a"));
    let sync = story.send(b, Op::Sync { path: "/a".to_owned() });
    story.reply(b, sync, zxid, Answer::ok(Body::Path("/a".to_owned())));
    story.is_bad(Reason::SyncMissedWrite);
}

/// A read that shows the first of two creates.
fn half_seen(multi: Op) -> Story {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, multi);
    let both = Op::MultiRead(vec![get("/x"), get("/y")]);
    let mut half = story.look(b, &both);
    let stat = ox_proto::Stat { czxid: story.zxid(), mzxid: story.zxid(), ..ox_proto::Stat::default() };
    let time = story.history.log[2].time_ms;
    let stat = ox_proto::Stat { ctime: time, mtime: time, data_length: 1, pzxid: story.zxid(), ..stat };
    if let Body::Multi(results) = &mut half.body {
        results[0] = ox_history::Element { op: 4, err: 0, body: Body::Data(Some(b"1".to_vec()), stat) };
        results[1] = ox_history::Element::error(ErrorCode::NoNode.code());
    }
    let read = story.send(b, both);
    story.reply(b, read, story.zxid(), half);
    story
}

#[test]
fn p30_half_a_multi_is_visible() {
    half_seen(Op::Multi(vec![create("/x"), create("/y")])).is_bad(Reason::PartialMulti);
}

#[test]
fn p30_a_failed_multi_left_something() {
    half_seen(Op::Multi(vec![create("/x"), create("/x")])).is_bad(Reason::PartialMulti);
}

#[test]
fn p35_wrong_counters() {
    for spoil in [
        |stat: &mut ox_proto::Stat| stat.version += 1,
        |stat: &mut ox_proto::Stat| stat.cversion += 1,
        |stat: &mut ox_proto::Stat| stat.num_children += 1,
        |stat: &mut ox_proto::Stat| stat.czxid = Zxid(1),
        |stat: &mut ox_proto::Stat| stat.ephemeral_owner = 99,
    ] {
        let mut story = Story::new();
        let a = story.connect();
        story.write(a, create("/a"));
        story.read(a, get("/a"));
        if let Body::Data(_, stat) = story.body(a, 1) {
            spoil(stat);
        }
        story.is_bad(Reason::WrongStat);
    }
}

#[test]
fn p41_a_node_outlives_its_session() {
    let mut story = Story::new();
    let (a, b) = (story.connect(), story.connect());
    story.write(a, ephemeral("/e"));
    let alive = story.look(b, &get("/e"));
    story.write(a, Op::CloseSession);
    story.hang_up(a);
    let read = story.send(b, get("/e"));
    story.reply(b, read, story.zxid(), alive);
    story.is_bad(Reason::EphemeralOutlived);
}

#[test]
fn p41_the_final_state_has_an_orphan() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, ephemeral("/e"));
    story.dump();
    let orphan = story.history.dumps[0].nodes["/e"].clone();
    story.history.dumps.clear();
    story.write(a, Op::CloseSession);
    story.hang_up(a);
    story.dump();
    story.history.dumps[0].nodes.insert("/e".to_owned(), orphan);
    story.is_bad(Reason::EphemeralOutlived);
}

#[test]
fn p41_the_final_state_lacks_a_node() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, ephemeral("/e"));
    story.dump();
    story.history.dumps[0].nodes.remove("/e");
    story.is_bad(Reason::EphemeralVanished);
}

#[test]
fn p19_the_final_state_is_another() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.dump();
    story.history.dumps[0].nodes.get_mut("/a").unwrap().data = None;
    story.is_bad(Reason::DumpDiffers);
}

#[test]
fn p23_a_value_from_nowhere() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    story.read(a, get("/a"));
    if let Received::Reply { body: Body::Data(data, _), .. } = story.frame(a, 1) {
        *data = Some(b"never".to_vec());
    }
    story.is_bad(Reason::WrongResult);
}

#[test]
fn p25_a_deleted_node_is_back() {
    let mut story = Story::new();
    let a = story.connect();
    story.write(a, create("/a"));
    let alive = story.look(a, &get("/a"));
    story.write(a, delete("/a"));
    let read = story.send(a, get("/a"));
    story.reply(a, read, story.zxid(), alive);
    story.is_bad(Reason::StaleOwnWrite);
}

/// A server without a leader shows what it has, and refuses the rest.
#[test]
fn k027_a_server_without_a_leader() {
    let read_only = |err: ErrorCode, is_said: bool| {
        let mut story = Story::new();
        let a = story.connect();
        story.write(a, create("/a"));
        story.hang_up(a);
        let b = story.reconnect(story.session(a));
        story.history.connections[b].is_read_only = is_said;
        story.read(b, get("/a"));
        let write = story.send(b, set("/a", "2", 0));
        story.reply(b, write, story.zxid(), Answer::error(err.code()));
        story
    };
    read_only(ErrorCode::NotReadOnly, true).is_good();
    read_only(ErrorCode::NotReadOnly, false).is_bad(Reason::ReadOnlyUnsaid);
    read_only(ErrorCode::BadVersion, true).is_bad(Reason::ReadOnlyTook);
}
