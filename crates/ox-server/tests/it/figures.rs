//! Figures are right.

use crate::harness::{Client, Running};
use ox_config::FourLetterWords;
use ox_proto::OpCode;
use ox_proto::request::{PathVersion, PathWatch, SetDataRequest, put_request};
use std::io::Write;

/// The value of a `key=value` in the line of a connection.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, inside) = line.split_once('(')?;
    let pairs = inside.trim_end_matches(')').split(',');
    pairs.filter_map(|pair| pair.split_once('=')).find(|(found, _)| *found == key).map(|(_, value)| value)
}

fn line_of(running: &Running, client: &Client) -> String {
    let cons = running.word("cons");
    let start = format!(" /{}[1](", client.address());
    let line = cons.lines().find(|line| line.starts_with(&start));
    line.unwrap_or_else(|| panic!("{start} is not in {cons}")).to_owned()
}

#[test]
fn a_connection_shows_its_last_answer() {
    let running = Running::start();
    let mut client = running.client();
    let line = line_of(&running, &client);
    for (key, expected) in [
        ("queued", "0"),
        ("recved", "1"),
        ("sent", "1"),
        ("sid", &client.session.to_string()),
        ("lop", "SESS"),
        ("to", "30000"),
        ("lcxid", "0x0"),
        ("lzxid", "0x1"),
    ] {
        assert_eq!(value(&line, key), Some(expected), "{key} in {line}");
    }
    assert_eq!(client.timeout_ms, 30_000);
    client.create("/a", b"", 0);
    let line = line_of(&running, &client);
    let shown = ["recved", "sent", "lop", "lcxid", "lzxid"].map(|key| value(&line, key).unwrap());
    assert_eq!(shown, ["2", "2", "CREA", "0x1", "0x2"], "{line}");
    client.get("/a", false);
    client.ping();
    let line = line_of(&running, &client);
    let shown = ["recved", "sent", "lop", "lcxid", "lzxid"].map(|key| value(&line, key).unwrap());
    assert_eq!(shown, ["4", "4", "PING", "0x2", "0x2"], "a ping is no request of the client's own: {line}");
    let [last, min, average, max] =
        ["llat", "minlat", "avglat", "maxlat"].map(|key| value(&line, key).unwrap().parse::<i64>().unwrap());
    assert!(min <= average && average <= max && min <= last && last <= max, "{line}");
}

#[test]
fn a_refused_write_has_no_name() {
    let running = Running::start();
    let mut client = running.client();
    client.exists("/missing", false);
    assert_eq!(value(&line_of(&running, &client), "lop"), Some("EXIS"), "a refused read has");
    client.create("/a", b"", 0);
    client.call(OpCode::Delete, &PathVersion { path: Some("/a".into()), version: 7 });
    let line = line_of(&running, &client);
    assert_eq!(["lop", "lcxid", "lzxid"].map(|key| value(&line, key).unwrap()), ["NA", "0x3", "0x3"], "{line}");
}

#[test]
fn a_resumed_session_has_done_nothing_yet() {
    let running = Running::start();
    let first = running.client();
    let second = Client::connect(running.open(), 30_000, Some(&first));
    assert_eq!(first.session, second.session);
    let line = line_of(&running, &second);
    assert_eq!(["lop", "recved", "sent"].map(|key| value(&line, key).unwrap()), ["null", "1", "1"], "{line}");
    running.await_metric("connection_revalidate_count", "1");
    running.await_metric("global_sessions", "1");
}

#[test]
fn answers_through_the_replica_are_named_in_their_turn() {
    let running = Running::start();
    let mut client = running.client();
    client.create("/a", b"", 0);
    // Two writes and two reads in one packet: the reads wait for the writes.
    let mut packet = Vec::new();
    for xid in [10, 12] {
        let set = SetDataRequest { path: Some("/a".into()), data: Some(b"x"), version: -1 };
        put_request(&mut packet, xid, OpCode::SetData.code(), &set);
        let get = PathWatch { path: Some("/a".into()), watch: false };
        put_request(&mut packet, xid + 1, OpCode::GetData.code(), &get);
    }
    client.send_bytes(&packet);
    let xids: Vec<i32> = (0..4).map(|_| client.receive().xid).collect();
    assert_eq!(xids, [10, 11, 12, 13]);
    let line = line_of(&running, &client);
    let shown = ["queued", "recved", "sent", "lop", "lcxid", "lzxid"].map(|key| value(&line, key).unwrap());
    assert_eq!(shown, ["0", "6", "6", "GETD", "0xd", "0x4"], "{line}");
    assert_eq!(running.metric("cnt_updatelatency"), "4", "a session, a node, two changes");
    assert_eq!(running.metric("cnt_readlatency"), "2");
    running.await_metric("cnt_a_read_per_namespace", "2");
    running.await_metric("sum_a_write_per_namespace", &(2 + 3 + 3).to_string());
    assert_eq!(running.metric("outstanding_requests"), "0");
}

#[test]
fn a_word_counts_itself() {
    let running = Running::start();
    let srvr = running.word("srvr");
    assert!(srvr.contains("\nReceived: 1\nSent: 0\nConnections: 1\n"), "{srvr}");
    let srvr = running.word("srvr\n");
    assert!(srvr.contains("\nReceived: 2\nSent: 1\nConnections: 1\n"), "{srvr}");
    assert_eq!(running.metric("bytes_received_count"), "12", "four for each word, whatever follows");
    let cons = running.word("cons");
    assert!(cons.contains("[0](queued=0,recved=1,sent=0)\n\n"), "{cons}");
}

#[test]
fn packets_and_bytes() {
    let running = Running::start();
    let mut client = running.client();
    client.ping();
    assert_eq!(running.metric("last_client_response_size"), "16");
    client.create("/app", b"0123456789", 0);
    client.get("/app", false);
    let reply = 16 + 4 + 10 + 68;
    assert_eq!(running.metric("last_client_response_size"), reply.to_string());
    assert_eq!(running.metric("max_client_response_size"), reply.to_string());
    assert_eq!(running.metric("min_client_response_size"), "16");
    let create = 16 + 4 + 4;
    assert_eq!(running.metric("response_bytes"), (create + reply).to_string(), "pings do not count");
    assert_eq!(running.metric("connection_request_count"), "1");
    assert_eq!(running.metric("sum_app_read_per_namespace"), (4 + 10 + 68).to_string());
    running.word("srst");
    assert_eq!(running.metric("last_client_response_size"), "-1");
    assert_eq!(running.metric("cnt_app_read_per_namespace"), "0");
    assert_eq!(running.metric("connection_request_count"), "0");
    assert_eq!(running.metric("znode_count"), "6");
    assert_eq!(running.metric("packets_received"), "5", "only the words since, this one included");
}

#[test]
fn writes_leave_their_tracks() {
    let running = Running::start();
    let mut client = running.client();
    client.create("/app", b"x", 0);
    client.create("/app/e", b"", 1);
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
        running.await_metric(name, expected);
    }
    let open: i64 = running.metric("open_file_descriptor_count").parse().unwrap();
    let max: i64 = running.metric("max_file_descriptor_count").parse().unwrap();
    assert!(0 < open && open <= max);
    client.close();
    running.await_metric("ephemerals_count", "0");
    running.await_metric("connection_drop_count", "0");
}

#[test]
fn watches_fired_are_counted_by_event() {
    let running = Running::start();
    let (mut watcher, mut writer) = (running.client(), running.client());
    writer.create("/app", b"", 0);
    watcher.exists("/app/n", true);
    watcher.children("/app", true);
    assert_eq!(running.metric("watch_count"), "2");
    writer.create("/app/n", b"", 0);
    assert_eq!(watcher.await_event(), ("/app/n".to_owned(), 1));
    assert_eq!(watcher.await_event(), ("/app".to_owned(), 4));
    watcher.get("/app/n", true);
    writer.set("/app/n", b"x");
    assert_eq!(watcher.await_event(), ("/app/n".to_owned(), 3));
    watcher.exists("/app/n", true);
    writer.delete("/app/n");
    assert_eq!(watcher.await_event(), ("/app/n".to_owned(), 2));
    for kind in ["created", "children", "changed", "deleted"] {
        running.await_metric(&format!("sum_node_{kind}_watch_count"), "1");
    }
    assert_eq!(running.metric("watch_count"), "0");
    let event = 16 + 4 + 4 + 4;
    assert_eq!(running.metric("watch_bytes"), (3 * (event + 6) + event + 4).to_string());
}

#[test]
fn quotas_show_by_namespace() {
    let running = Running::start();
    let mut client = running.client();
    client.create("/app", b"12345", 0);
    for path in
        ["/zookeeper/quota/app", "/zookeeper/quota/app/zookeeper_limits", "/zookeeper/quota/app/zookeeper_stats"]
    {
        let data =
            if path.ends_with("limits") { &b"count=5,bytes=-1=;byteHardLimit=100"[..] } else { b"count=0,bytes=0" };
        client.create(path, data, 0);
    }
    assert_eq!(running.metric("app_quota_count_limit_per_namespace"), "5");
    assert_eq!(running.metric("app_quota_bytes_limit_per_namespace"), "100");
    assert_eq!(running.metric("app_quota_count_usage_per_namespace"), "1");
    assert_eq!(running.metric("app_quota_bytes_usage_per_namespace"), "5");
}

#[test]
fn connections_that_end_are_counted() {
    let running = Running::start_with(|config| {
        config.four_letter_words = FourLetterWords::All;
        config.limits.max_client_cnxns = 2;
    });
    let client = running.client();
    client.drop_connection();
    running.await_metric("connection_drop_count", "1");
    let (_first, second) = (running.open(), running.open());
    let mut third = running.open();
    // The refused connection is closed before or after the word is written.
    let _ = third.write_all(b"ruok");
    let _ = std::io::Read::read(&mut third, &mut [0; 1]);
    drop(second);
    running.await_metric("connection_rejected", "1");
}

#[test]
fn expired_sessions_are_counted() {
    let running = Running::start_with(|config| {
        config.four_letter_words = FourLetterWords::All;
        (config.tick_ms, config.min_session_timeout_ms) = (50, 100);
    });
    let mut watcher = running.client();
    let mut short = Client::connect(running.open(), 100, None);
    watcher.exists("/e", true);
    short.create("/e", b"", 1);
    assert_eq!(watcher.await_event(), ("/e".to_owned(), 1));
    watcher.exists("/e", true);
    assert_eq!(watcher.await_event(), ("/e".to_owned(), 2), "the session is silent and times out");
    running.await_metric("stale_sessions_expired", "1");
}
