//! Reads with forbidden results (P22, P25, P26, P27, P28, P29, P30, P35, P41).

use crate::history_builder::{HistoryBuilder, create, delete, ephemeral, get, set};
use ox_history::{Op, OpResult, ReceivedFrame, ReplyBody, ViolationKind};
use ox_proto::{ErrorCode, Zxid};

#[test]
fn p25_read_without_own_write_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    let before = builder.zxid();
    builder.write(a, create("/a"));
    builder.disconnect(a);
    let b = builder.reconnect(builder.session(a));
    let read = builder.send(b, get("/a"));
    builder.reply(b, read, before, OpResult::error(ErrorCode::NoNode.code()));
    builder.assert_violation(ViolationKind::StaleOwnWrite);
}

#[test]
fn p25_old_data_with_new_zxid_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    let old = builder.expected_read(a, &get("/a"));
    builder.write(a, set("/a", "2", 0));
    let read = builder.send(a, get("/a"));
    builder.reply(a, read, builder.zxid(), old);
    builder.assert_violation(ViolationKind::StaleOwnWrite);
}

#[test]
fn p26_older_state_on_new_connection_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(b, create("/a"));
    let (zxid, old) = (builder.zxid(), builder.expected_read(a, &get("/a")));
    builder.write(b, set("/a", "2", 0));
    builder.read(a, get("/a"));
    builder.disconnect(a);
    let a2 = builder.reconnect(builder.session(a));
    let read = builder.send(a2, get("/a"));
    builder.reply(a2, read, zxid, old);
    builder.assert_violation(ViolationKind::OlderSessionView);
}

#[test]
fn p26_session_accepted_by_lagging_server_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.disconnect(a);
    let b = builder.reconnect(builder.session(a));
    builder.history.connections[b].last_zxid_seen = Zxid(1000);
    builder.assert_violation(ViolationKind::GrantedAhead);
}

#[test]
fn p26_stale_reply_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    let old = builder.expected_read(b, &get("/a"));
    builder.write(a, set("/a", "2", 0));
    let read = builder.send(b, get("/a"));
    builder.reply(b, read, builder.zxid(), old);
    builder.assert_violation(ViolationKind::StaleRead);
}

#[test]
fn p27_decreasing_zxid_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.read(a, get("/a"));
    builder.read(a, get("/a"));
    builder.set_zxid(a, 2, 1);
    builder.assert_violation(ViolationKind::ZxidDecreased);
}

#[test]
fn p27_zxid_beyond_log_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.read(a, get("/a"));
    builder.set_zxid(a, 0, 99);
    builder.assert_violation(ViolationKind::ReplyAheadOfHistory);
}

#[test]
fn p27_read_of_later_state_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    let zxid = builder.zxid();
    let write = builder.send(a, create("/a"));
    let written = builder.commit(a, write);
    let read = builder.send(b, get("/a"));
    let seen = builder.expected_read(b, &get("/a"));
    builder.reply(b, read, zxid, seen);
    builder.reply(a, write, builder.zxid(), written);
    builder.assert_violation(ViolationKind::ReadOfLaterState);
}

#[test]
fn p27_reply_before_write_was_sent_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.read(b, get("/b"));
    builder.write(a, create("/a"));
    let zxid = builder.zxid().0;
    builder.set_zxid(b, 0, zxid);
    builder.assert_violation(ViolationKind::ReplyBeforeCause);
}

#[test]
fn p29_sync_missing_a_write_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    let zxid = builder.zxid();
    builder.write(a, create("/a"));
    let sync = builder.send(b, Op::Sync { path: "/a".to_owned() });
    builder.reply(b, sync, zxid, OpResult::ok(ReplyBody::Path("/a".to_owned())));
    builder.assert_violation(ViolationKind::SyncMissedWrite);
}

/// A read that shows only the first of two creates.
fn half_seen(multi: Op) -> HistoryBuilder {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, multi);
    let both = Op::MultiRead(vec![get("/x"), get("/y")]);
    let mut half = builder.expected_read(b, &both);
    let stat = ox_proto::Stat { czxid: builder.zxid(), mzxid: builder.zxid(), ..ox_proto::Stat::default() };
    let time = builder.history.log[2].time_ms;
    let stat = ox_proto::Stat { ctime: time, mtime: time, data_length: 1, pzxid: builder.zxid(), ..stat };
    if let ReplyBody::Multi(results) = &mut half.body {
        results[0] = ox_history::ElementResult { op: 4, err: 0, body: ReplyBody::Data(Some(b"1".to_vec()), stat) };
        results[1] = ox_history::ElementResult::error(ErrorCode::NoNode.code());
    }
    let read = builder.send(b, both);
    builder.reply(b, read, builder.zxid(), half);
    builder
}

#[test]
fn p30_partial_multi_is_found() {
    half_seen(Op::Multi(vec![create("/x"), create("/y")])).assert_violation(ViolationKind::PartialMulti);
}

#[test]
fn p30_effect_of_failed_multi_is_found() {
    half_seen(Op::Multi(vec![create("/x"), create("/x")])).assert_violation(ViolationKind::PartialMulti);
}

#[test]
fn p35_wrong_stat_counters_are_found() {
    for spoil in [
        |stat: &mut ox_proto::Stat| stat.version += 1,
        |stat: &mut ox_proto::Stat| stat.cversion += 1,
        |stat: &mut ox_proto::Stat| stat.num_children += 1,
        |stat: &mut ox_proto::Stat| stat.czxid = Zxid(1),
        |stat: &mut ox_proto::Stat| stat.ephemeral_owner = 99,
    ] {
        let mut builder = HistoryBuilder::new();
        let a = builder.connect();
        builder.write(a, create("/a"));
        builder.read(a, get("/a"));
        if let ReplyBody::Data(_, stat) = builder.body(a, 1) {
            spoil(stat);
        }
        builder.assert_violation(ViolationKind::WrongStat);
    }
}

#[test]
fn p41_ephemeral_after_session_end_is_found() {
    let (mut builder, [a, b]) = HistoryBuilder::connected();
    builder.write(a, ephemeral("/e"));
    let alive = builder.expected_read(b, &get("/e"));
    builder.write(a, Op::CloseSession);
    builder.disconnect(a);
    let read = builder.send(b, get("/e"));
    builder.reply(b, read, builder.zxid(), alive);
    builder.assert_violation(ViolationKind::EphemeralOutlived);
}

#[test]
fn p41_orphan_in_final_state_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, ephemeral("/e"));
    builder.dump();
    let orphan = builder.history.dumps[0].nodes["/e"].clone();
    builder.history.dumps.clear();
    builder.write(a, Op::CloseSession);
    builder.disconnect(a);
    builder.dump();
    builder.history.dumps[0].nodes.insert("/e".to_owned(), orphan);
    builder.assert_violation(ViolationKind::EphemeralOutlived);
}

#[test]
fn p41_missing_ephemeral_in_final_state_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, ephemeral("/e"));
    builder.dump();
    builder.history.dumps[0].nodes.remove("/e");
    builder.assert_violation(ViolationKind::EphemeralVanished);
}

#[test]
fn p19_different_final_state_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.dump();
    builder.history.dumps[0].nodes.get_mut("/a").unwrap().data = None;
    builder.assert_violation(ViolationKind::DumpDiffers);
}

#[test]
fn p23_value_never_written_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    builder.read(a, get("/a"));
    if let ReceivedFrame::Reply { body: ReplyBody::Data(data, _), .. } = builder.frame(a, 1) {
        *data = Some(b"never".to_vec());
    }
    builder.assert_violation(ViolationKind::WrongResult);
}

#[test]
fn p25_deleted_node_reappearing_is_found() {
    let (mut builder, [a]) = HistoryBuilder::connected();
    builder.write(a, create("/a"));
    let alive = builder.expected_read(a, &get("/a"));
    builder.write(a, delete("/a"));
    let read = builder.send(a, get("/a"));
    builder.reply(a, read, builder.zxid(), alive);
    builder.assert_violation(ViolationKind::StaleOwnWrite);
}

/// A server without a leader serves reads and refuses everything else.
#[test]
fn k027_read_only_server_violations_are_found() {
    let read_only = |err: ErrorCode, is_said: bool| {
        let mut builder = HistoryBuilder::new();
        let a = builder.connect();
        builder.write(a, create("/a"));
        builder.disconnect(a);
        let b = builder.reconnect(builder.session(a));
        builder.history.connections[b].is_read_only = is_said;
        builder.read(b, get("/a"));
        let write = builder.send(b, set("/a", "2", 0));
        builder.reply(b, write, builder.zxid(), OpResult::error(err.code()));
        builder
    };
    read_only(ErrorCode::NotReadOnly, true).assert_valid();
    read_only(ErrorCode::NotReadOnly, false).assert_violation(ViolationKind::UnannouncedReadOnly);
    read_only(ErrorCode::BadVersion, true).assert_violation(ViolationKind::ReadOnlyAccepted);
}
