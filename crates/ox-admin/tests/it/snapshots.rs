//! `snapshot` and `restore`: rights, limits and the order of the checks.

use crate::harness::Harness;
use ox_testkit::{OpCode, http};

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
    let reply = http(harness.address(), "POST", "/commands/restore", &[SUPER], b"garbage").unwrap();
    assert_eq!(reply.status, 501);
    assert!(reply.text().contains("a running server does not replace its data"), "{}", reply.text());
    assert_eq!(harness.send("POST", "/commands/restore", &[SUPER]).status, 429);
    let metrics = harness.get("/metrics").text();
    assert!(metrics.contains("\nrestore_rate_limited_count 1.0\n") && metrics.contains("\nrestore_error_count 1.0\n"));
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
