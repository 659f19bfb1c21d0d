//! `snapshot` and `restore`: rights, limits and the order of the checks.

use crate::harness::Harness;
use ox_testkit::{OpCode, RawClient, http, http_request, wait_for};
use std::io::Write as _;
use std::net::TcpStream;

const SUPER: (&str, &str) = ("Authorization", "digest super:pw");

#[test]
fn snapshot_and_restore_answer_as_apache() {
    let harness = Harness::new();
    harness.client().create("/a", b"data");
    let error = |reply: &ox_testkit::HttpReply| reply.text().lines().nth(2).map(|line| line.trim().to_owned());
    for (headers, text) in [
        (&[][..], "Auth info is missing for the command"),
        (&[("Authorization", "foo bar")][..], "Not authenticated"),
        (&[("Authorization", "digest a b")][..], "Not authenticated"),
        (&[("Authorization", "x509")][..], "Not authenticated"),
    ] {
        for (method, command) in [("GET", "snapshot"), ("POST", "restore")] {
            let reply = harness.send(method, &format!("/commands/{command}"), headers);
            assert_eq!((reply.status, error(&reply)), (401, Some(format!("\"error\" : \"{text}\""))), "{command}");
        }
    }
    let reply = harness.send("GET", "/commands/snapshot", &[SUPER]);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/octet-stream")));
    assert!(reply.body.starts_with(b"ZKSN\0\0\0\x02"));
    assert_eq!(reply.header("snapshot_size"), Some(reply.body.len().to_string().as_str()));
    assert!(reply.header("last_zxid").is_some_and(|zxid| zxid.starts_with("0x")));
    let empty = "{\n  \"command\" : \"restore\",\n  \"error\" : null\n}";
    assert_eq!(harness.send("POST", "/commands/restore", &[SUPER]).status, 400, "no body");
    for status in [500, 429] {
        let reply = http(harness.address(), "POST", "/commands/restore", &[SUPER], b"garbage").unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (status, empty));
    }
    assert!(harness.client().exists("/a").err == 0, "the data is unchanged");
    let metrics = harness.get("/metrics").text();
    assert!(metrics.contains("\nrestore_rate_limited_count 1.0\n") && metrics.contains("\nrestore_error_count 1.0\n"));
}

/// The reply comes when the restored data survives a restart.
#[test]
fn restored_snapshot_replaces_the_data_for_good() {
    let mut harness = Harness::new();
    let mut client = harness.client();
    client.create("/a", b"old");
    client.create_as("/ephemeral", 1);
    let session = client.handshake();
    let snapshot = harness.send("GET", "/commands/snapshot", &[SUPER]);
    let zxid = snapshot.header("last_zxid").unwrap().trim_start_matches("0x").to_owned();
    client.set("/a", b"new");
    client.create("/b", b"");
    let mut late = harness.client();
    late.create("/c", b"");
    let lost = late.handshake();
    let reply = http(harness.address(), "POST", "/commands/restore", &[SUPER], &snapshot.body).unwrap();
    let zxid = i64::from_str_radix(&zxid, 16).unwrap();
    let expected = format!("{{\n  \"last_zxid\" : {zxid},\n  \"command\" : \"restore\",\n  \"error\" : null\n}}");
    assert_eq!((reply.status, reply.text()), (200, expected));
    assert!(client.try_reply().is_none() && late.try_reply().is_none(), "connections are closed");

    let check = |harness: &Harness, client: &mut RawClient| {
        assert_eq!(client.get("/a").data().as_deref(), Some(&b"old"[..]));
        assert_eq!(
            [client.exists("/b").err, client.exists("/c").err, client.exists("/ephemeral").err],
            [-101, -101, 0]
        );
        assert_eq!(harness.get("/commands/ruok").status, 200);
    };
    let mut client = RawClient::try_open(harness.server.address(), &session).expect("a session of the snapshot");
    check(&harness, &mut client);
    assert!(RawClient::try_open(harness.server.address(), &lost).is_none(), "another session has expired");
    assert_eq!(client.create("/d", b"").zxid, zxid + 1);
    let metrics = harness.get("/metrics").text();
    assert!(metrics.contains("\nrestore_time_count 1.0\n"), "{metrics}");
    let session = client.handshake();
    harness.restart();
    let mut client = RawClient::try_open(harness.server.address(), &session).expect("the session is still alive");
    check(&harness, &mut client);
    assert_eq!(client.exists("/d").err, 0);
}

/// A client that sends slowly delays no other one, and a client that disconnects changes nothing.
#[test]
fn interrupted_body_changes_nothing() {
    let harness = Harness::with(|_| (), |admin| admin.rate_limit_ms = 1);
    let mut client = harness.client();
    client.create("/a", b"");
    let snapshot = harness.send("GET", "/commands/snapshot", &[SUPER]).body;
    client.create("/b", b"");
    let request = http_request("POST", "/commands/restore", &[SUPER], &snapshot);
    let mut slow = TcpStream::connect(harness.address()).unwrap();
    slow.write_all(&request[..request.len() - 10]).unwrap();
    for _ in 0..20 {
        assert_eq!(harness.get("/commands/ruok").status, 200);
    }
    drop(slow);
    wait_for(|| harness.get("/metrics").text().contains("\nrestore_error_count 1.0\n").then_some(())).unwrap();
    assert_eq!(client.exists("/b").err, 0);
    let reply = http(harness.address(), "POST", "/commands/restore", &[SUPER], &snapshot).unwrap();
    assert_eq!(reply.status, 200, "the next one is not blocked");
}

#[test]
fn snapshot_again_after_the_interval_in_microseconds() {
    let day_ms = 86_400_000;
    let limited = Harness::with(|_| (), |admin| admin.rate_limit_ms = day_ms * 1000);
    let path = "/commands/snap?streaming=false";
    assert_eq!(limited.send("GET", path, &[("Authorization", "ip")]).status, 200);
    let reply = limited.send("GET", path, &[SUPER]);
    assert_eq!(
        (reply.status, reply.text()),
        (429, "{\n  \"command\" : \"snapshot\",\n  \"error\" : null\n}".to_owned())
    );
    assert!(limited.get("/metrics").text().contains("\nsnapshot_rate_limited_count 1.0\n"));
    let free = Harness::with(|_| (), |admin| admin.rate_limit_ms = 1);
    for _ in 0..2 {
        let reply = free.send("GET", path, &[SUPER]);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
        assert!(reply.header("snapshot_size").is_some());
    }
}

#[test]
fn disabled_snapshots_and_missing_rights_are_refused() {
    let off = Harness::with(|_| (), |admin| (admin.snapshot_enabled, admin.restore_enabled) = (false, false));
    assert_eq!(off.send("GET", "/commands/snapshot", &[SUPER]).status, 503);
    assert_eq!(off.send("POST", "/commands/restore", &[SUPER]).status, 503);
    let harness = Harness::new();
    let mut client = harness.client();
    client.send(&ox_testkit::RawPacket::default().auth(-4, "digest", b"alice:secret"));
    assert_eq!(client.reply().err, 0);
    // All permissions on / for alice, and all but one for everyone.
    let acl = |entries: &[(i32, &str, &str)]| {
        let text = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
        let mut bytes = i32::try_from(entries.len()).unwrap().to_be_bytes().to_vec();
        entries.iter().for_each(|(perms, scheme, id)| {
            bytes.extend([&perms.to_be_bytes()[..], &text(scheme), &text(id)].concat());
        });
        bytes
    };
    let list = acl(&[(31, "auth", ""), (15, "world", "anyone")]);
    let body = [&1_u32.to_be_bytes()[..], b"/", &list, &(-1_i32).to_be_bytes()].concat();
    assert_eq!(client.ask(|packet, xid| packet.raw(xid, OpCode::SetAcl.code(), &body)).err, 0);
    let snapshot = |auth: &str| harness.send("GET", "/commands/snapshot", &[("Authorization", auth)]);
    let refused = snapshot("digest bob:secret");
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("\"error\" : \"Not authorized\""));
    assert_eq!(snapshot("ip").status, 403);
    assert_eq!(snapshot("digest alice:secret").status, 200);
}
