//! Values of metrics and of connection statistics.

use crate::four_letter_client::{ALL_COMMANDS, address_of, find_metric, send_and_read};
use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use ox_proto::OpCode;
use ox_proto::request::PathVersion;
use ox_testkit::{RawClient, RawEvent, RawHandshake, RawPacket};

fn next_event(client: &mut RawClient) -> (String, i32) {
    let RawEvent { path, kind, .. } = client.event();
    (path, kind)
}

/// The value of a `key=value` pair in the line of a connection.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, inside) = line.split_once('(')?;
    let pairs = inside.trim_end_matches(')').split(',');
    pairs.filter_map(|pair| pair.split_once('=')).find(|(found, _)| *found == key).map(|(_, value)| value)
}

fn line_of(server: &ServerFixture, client: &RawClient) -> String {
    let cons = server.command("cons");
    let start = format!(" /{}[1](", address_of(client));
    let line = cons.lines().find(|line| line.starts_with(&start));
    line.unwrap_or_else(|| panic!("{start} is not in {cons}")).to_owned()
}

#[test]
fn cons_shows_the_last_reply_of_a_connection() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = server.client();
    let line = line_of(&server, &client);
    for (key, expected) in [
        ("queued", "0"),
        ("recved", "1"),
        ("sent", "1"),
        ("sid", &client.session().to_string()),
        ("lop", "SESS"),
        ("to", "30000"),
        ("lcxid", "0x0"),
        ("lzxid", "0x1"),
    ] {
        assert_eq!(value(&line, key), Some(expected), "{key} in {line}");
    }
    assert_eq!(client.hello.timeout_ms, 30_000);
    client.create("/a", b"");
    let line = line_of(&server, &client);
    let shown = ["recved", "sent", "lop", "lcxid", "lzxid"].map(|key| value(&line, key).unwrap());
    assert_eq!(shown, ["2", "2", "CREA", "0x1", "0x2"], "{line}");
    client.get("/a");
    client.ping();
    let line = line_of(&server, &client);
    let shown = ["recved", "sent", "lop", "lcxid", "lzxid"].map(|key| value(&line, key).unwrap());
    assert_eq!(shown, ["4", "4", "PING", "0x2", "0x2"], "a ping does not change the xid: {line}");
    let [last, min, average, max] =
        ["llat", "minlat", "avglat", "maxlat"].map(|key| value(&line, key).unwrap().parse::<i64>().unwrap());
    assert!(min <= average && average <= max && min <= last && last <= max, "{line}");
}

#[test]
fn refused_write_is_shown_without_its_operation() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = server.client();
    client.exists("/missing");
    assert_eq!(value(&line_of(&server, &client), "lop"), Some("EXIS"), "a refused read is shown");
    client.create("/a", b"");
    let delete = PathVersion { path: Some("/a".into()), version: 7 };
    client.ask(|packet, xid| packet.request(xid, OpCode::Delete, &delete));
    let line = line_of(&server, &client);
    assert_eq!(["lop", "lcxid", "lzxid"].map(|key| value(&line, key).unwrap()), ["NA", "0x3", "0x3"], "{line}");
}

#[test]
fn resumed_session_has_no_last_operation() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let first = server.client();
    let second = server.resume(&first).expect("the session is alive");
    assert_eq!(first.session(), second.session());
    let line = line_of(&server, &second);
    assert_eq!(["lop", "recved", "sent"].map(|key| value(&line, key).unwrap()), ["null", "1", "1"], "{line}");
    server.await_metric("connection_revalidate_count", "1");
    server.await_metric("global_sessions", "1");
}

#[test]
fn replies_of_the_replica_are_shown_in_order() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = server.client();
    client.create("/a", b"");
    // Two writes and two reads in one packet: the reads wait for the writes.
    let packet = RawPacket::default().set(10, "/a", b"x").get(11, "/a").set(12, "/a", b"x").get(13, "/a");
    client.send(&packet);
    let xids: Vec<i32> = (0..4).map(|_| client.reply().xid).collect();
    assert_eq!(xids, [10, 11, 12, 13]);
    let line = line_of(&server, &client);
    let shown = ["queued", "recved", "sent", "lop", "lcxid", "lzxid"].map(|key| value(&line, key).unwrap());
    assert_eq!(shown, ["0", "6", "6", "GETD", "0xd", "0x4"], "{line}");
    assert_eq!(server.metric("cnt_updatelatency"), "4", "a session, a node, two changes");
    assert_eq!(server.metric("cnt_readlatency"), "2");
    server.await_metric("cnt_a_read_per_namespace", "2");
    server.await_metric("sum_a_write_per_namespace", &(2 + 3 + 3).to_string());
    assert_eq!(server.metric("outstanding_requests"), "0");
}

#[test]
fn command_counts_itself() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let srvr = server.command("srvr");
    assert!(srvr.contains("\nReceived: 1\nSent: 0\nConnections: 1\n"), "{srvr}");
    let srvr = server.command("srvr\n");
    assert!(srvr.contains("\nReceived: 2\nSent: 1\nConnections: 1\n"), "{srvr}");
    assert_eq!(server.metric("bytes_received_count"), "12", "four for each command, whatever follows");
    let cons = server.command("cons");
    assert!(cons.contains("[0](queued=0,recved=1,sent=0)\n\n"), "{cons}");
}

#[test]
fn packets_and_bytes_are_counted() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = server.client();
    client.ping();
    assert_eq!(server.metric("last_client_response_size"), "16");
    client.create("/app", b"0123456789");
    client.get("/app");
    let reply = 16 + 4 + 10 + 68;
    assert_eq!(server.metric("last_client_response_size"), reply.to_string());
    assert_eq!(server.metric("max_client_response_size"), reply.to_string());
    assert_eq!(server.metric("min_client_response_size"), "16");
    let create = 16 + 4 + 4;
    assert_eq!(server.metric("response_bytes"), (create + reply).to_string(), "pings are not counted");
    assert_eq!(server.metric("connection_request_count"), "1");
    assert_eq!(server.metric("sum_app_read_per_namespace"), (4 + 10 + 68).to_string());
    server.command("srst");
    assert_eq!(server.metric("last_client_response_size"), "-1");
    assert_eq!(server.metric("cnt_app_read_per_namespace"), "0");
    assert_eq!(server.metric("connection_request_count"), "0");
    assert_eq!(server.metric("znode_count"), "6");
    assert_eq!(server.metric("packets_received"), "5", "only the commands since, including this one");
}

#[test]
fn writes_are_counted_at_every_stage() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = server.client();
    client.create("/app", b"x");
    client.create_as("/app/e", 1);
    client.set("/app", b"yy");
    for (name, expected) in [
        ("commit_count", "4"),
        ("proposal_count", "4"),
        ("sync_processor_request_queued", "4"),
        ("outstanding_changes_removed", "4"),
        ("cnt_propagation_latency", "4"),
        ("sum_sync_processor_batch_size", "4"),
        ("cnt_sync_processor_queue_and_flush_time_ms", "4"),
        ("cnt_fsynctime", "4"),
        ("cnt_updatelatency", "4"),
        ("ephemerals_count", "1"),
        ("znode_count", "7"),
        ("global_sessions", "1"),
        ("digest_mismatches_count", "0"),
        ("cnt_dbinittime", "1"),
    ] {
        server.await_metric(name, expected);
    }
    let open: i64 = server.metric("open_file_descriptor_count").parse().unwrap();
    let max: i64 = server.metric("max_file_descriptor_count").parse().unwrap();
    assert!(0 < open && open <= max);
    client.close();
    server.await_metric("ephemerals_count", "0");
    server.await_metric("connection_drop_count", "0");
}

#[test]
fn watches_fired_are_counted_by_event() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let (mut watcher, mut writer) = (server.client(), server.client());
    writer.create("/app", b"");
    watcher.watch(OpCode::Exists, "/app/n");
    watcher.watch(OpCode::GetChildren, "/app");
    assert_eq!(server.metric("watch_count"), "2");
    writer.create("/app/n", b"");
    assert_eq!(next_event(&mut watcher), ("/app/n".to_owned(), 1));
    assert_eq!(next_event(&mut watcher), ("/app".to_owned(), 4));
    watcher.watch(OpCode::GetData, "/app/n");
    writer.set("/app/n", b"x");
    assert_eq!(next_event(&mut watcher), ("/app/n".to_owned(), 3));
    watcher.watch(OpCode::Exists, "/app/n");
    writer.ask(|packet, xid| packet.delete(xid, "/app/n"));
    assert_eq!(next_event(&mut watcher), ("/app/n".to_owned(), 2));
    for kind in ["created", "children", "changed", "deleted"] {
        server.await_metric(&format!("sum_node_{kind}_watch_count"), "1");
    }
    assert_eq!(server.metric("watch_count"), "0");
    let event = 16 + 4 + 4 + 4;
    assert_eq!(server.metric("watch_bytes"), (3 * (event + 6) + event + 4).to_string());
}

#[test]
fn quotas_are_shown_by_namespace() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = server.client();
    client.create("/app", b"12345");
    for path in
        ["/zookeeper/quota/app", "/zookeeper/quota/app/zookeeper_limits", "/zookeeper/quota/app/zookeeper_stats"]
    {
        let data =
            if path.ends_with("limits") { &b"count=5,bytes=-1=;byteHardLimit=100"[..] } else { b"count=0,bytes=0" };
        client.create(path, data);
    }
    assert_eq!(server.metric("app_quota_count_limit_per_namespace"), "5");
    assert_eq!(server.metric("app_quota_bytes_limit_per_namespace"), "100");
    assert_eq!(server.metric("app_quota_count_usage_per_namespace"), "1");
    assert_eq!(server.metric("app_quota_bytes_usage_per_namespace"), "5");
}

#[test]
fn writes_refused_by_a_quota_are_counted() {
    let server = ServerFixture::with_properties(ALL_COMMANDS, "-Dzookeeper.enforceQuota=true");
    let mut client = server.client();
    client.create("/app", b"");
    client.create("/zookeeper/quota/app", b"");
    client.create("/zookeeper/quota/app/zookeeper_limits", b"count=1,bytes=-1=;byteHardLimit=9");
    client.create("/zookeeper/quota/app/zookeeper_stats", b"");
    assert_eq!(client.create("/app/a", b"").err, 0, "more than a soft limit allows");
    assert_eq!(client.create("/app/b", b"far too much").err, -125);
    assert_eq!(client.set("/app/a", b"far too much").err, -125);
    server.await_metric("app_quota_exceeded_error_per_namespace", "2");
    server.command("srst");
    server.await_metric("app_quota_exceeded_error_per_namespace", "0");
}

#[test]
fn closed_and_refused_connections_are_counted() {
    let server = ServerFixture::with("4lw.commands.whitelist=*\nmaxClientCnxns=3\n");
    let mut client = server.client();
    client.raw.finish();
    client.raw.expect_closed();
    server.await_metric("connection_drop_count", "1");
    let (mine, _second, _third) = (server.connect(), server.connect(), server.connect());
    let mut refused = server.connect();
    refused.try_send(b"ruok"); // it is closed before or after that
    refused.expect_closed();
    assert_eq!(find_metric(&send_and_read(mine, b"mntr"), "connection_rejected").as_deref(), Some("1"));
}

#[test]
fn refused_handshakes_are_counted() {
    let throttle = "connection_throttle_tokens=2\nconnection_throttle_fill_time=100000\n";
    let server = ServerFixture::with(&format!("{ALL_COMMANDS}{throttle}"));
    let _clients = (server.client(), server.client());
    let mut refused = server.connect();
    assert_eq!(refused.handshake(&RawHandshake::new(TIMEOUT_MS)), None);
    assert_eq!(server.metric("connection_rejected"), "1");
    assert_eq!(server.metric("max_connection_token_deficit"), "2");
    assert_eq!(server.metric("cnt_connection_token_deficit"), "2");
}

#[test]
fn refused_large_requests_are_counted() {
    let server = ServerFixture::with(&format!("{ALL_COMMANDS}largeRequestThreshold=1000\nlargeRequestMaxBytes=5000\n"));
    let mut client = server.client();
    client.create("/a", b"");
    client.send(&RawPacket::default().set(9, "/a", &[0; 6000]));
    assert_eq!(client.try_reply(), None);
    assert_eq!(server.metric("large_requests_rejected"), "1");
}

#[test]
fn expired_sessions_are_counted() {
    let server = ServerFixture::with("4lw.commands.whitelist=*\ntickTime=50\n");
    let mut watcher = server.client();
    let mut short = RawClient::open(server.address(), 100);
    watcher.watch(OpCode::Exists, "/e");
    short.create_as("/e", 1);
    assert_eq!(next_event(&mut watcher), ("/e".to_owned(), 1));
    watcher.watch(OpCode::Exists, "/e");
    assert_eq!(next_event(&mut watcher), ("/e".to_owned(), 2), "the session is silent and times out");
    server.await_metric("stale_sessions_expired", "1");
}

/// Apache stores the root under two names, of zero bytes and of one, beside `/zookeeper` and its two children.
#[test]
fn node_count_and_data_size_equal_those_of_apache() {
    let server = ServerFixture::with(ALL_COMMANDS);
    assert_eq!(server.metric("approximate_data_size"), "44");
    let files = server.config().data_dir.join("version-2");
    let bytes = |prefix: &str| {
        let entries = std::fs::read_dir(&files).unwrap().map(Result::unwrap);
        let named = entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with(prefix));
        named.map(|entry| entry.metadata().unwrap().len()).sum::<u64>()
    };
    assert!(0 < bytes("oxk."));
    let size = bytes("") - bytes("oxk.");
    assert_eq!(server.command("dirs"), format!("datadir_size: {size}\nlogdir_size: {size}\n"));
}
