//! Known cases of the AdminServer.

use crate::harness::Harness;
use ox_testkit::{OpCode, RawClient};

const ALL: i32 = 31;
const FORGED: (&str, &str) = ("X-Forwarded-For", "10.1.2.3");
const BY_ADDRESS: (&str, &str) = ("Authorization", "ip");

/// Sets the ACL of the root, by which the rights of commands are decided.
fn protect(harness: &Harness, entries: &[(i32, &str, &str)]) {
    let text = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
    let entries = entries.iter().map(|(perms, scheme, id)| [&perms.to_be_bytes(), &*text(scheme), &text(id)].concat());
    let entries: Vec<_> = entries.collect();
    let count = i32::try_from(entries.len()).unwrap().to_be_bytes();
    let body = [&*text("/"), &count, &entries.concat(), &(-1_i32).to_be_bytes()].concat();
    assert_eq!(harness.client().ask(|packet, xid| packet.raw(xid, OpCode::SetAcl.code(), &body)).err, 0);
}

fn snapshot(harness: &Harness, headers: &[(&str, &str)]) -> u16 {
    harness.send("GET", "/commands/snapshot?streaming=false", headers).status
}

/// The address of a request is that of its connection, whatever it claims, unless proxies are trusted.
#[test]
fn k159_forged_header_gives_no_address() {
    for (trusts, expected) in [(false, 403), (true, 200)] {
        let harness = Harness::with(|_| (), |admin| admin.trusts_forwarded_for = trusts);
        protect(&harness, &[(ALL, "ip", "10.1.2.3")]);
        assert_eq!(snapshot(&harness, &[BY_ADDRESS]), 403);
        assert_eq!(snapshot(&harness, &[BY_ADDRESS, FORGED]), expected, "trusts proxies: {trusts}");
    }
}

#[test]
fn k159_command_needs_every_permission() {
    for perms in (0..ALL).rev() {
        let is_one_missing = (ALL ^ perms).count_ones() == 1;
        if is_one_missing {
            let harness = Harness::new();
            protect(&harness, &[(perms, "ip", "127.0.0.1")]);
            assert_eq!(snapshot(&harness, &[BY_ADDRESS]), 403, "permissions {perms}");
        }
    }
    let harness = Harness::new();
    protect(&harness, &[(ALL, "ip", "127.0.0.1")]);
    assert_eq!(snapshot(&harness, &[BY_ADDRESS]), 200);
}

#[test]
fn k061_snapshot_does_not_change_the_tree() {
    let harness = Harness::new();
    let mut client = harness.client();
    client.create("/a", b"data");
    let of_root = |client: &mut RawClient| {
        let body = [&1_u32.to_be_bytes()[..], b"/", &[0]].concat(); // without a watch
        let reply = client.ask(|packet, xid| packet.raw(xid, OpCode::GetChildren2.code(), &body));
        assert_eq!(reply.err, 0);
        reply.body
    };
    let last = |harness: &Harness| {
        let text = harness.get("/commands/last_snapshot").text();
        assert!(!text.contains("error\" : \""), "{text}");
        text
    };
    let (before, none) = (of_root(&mut client), last(&harness));
    assert_eq!(snapshot(&harness, &[("Authorization", "digest super:pw")]), 200);
    assert_eq!(of_root(&mut client), before);
    assert_eq!(client.get("/a").data().as_deref(), Some(&b"data"[..]));
    assert_ne!(last(&harness), none, "there is a snapshot");
}
