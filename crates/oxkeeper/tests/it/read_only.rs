//! A server without a quorum, and clients that only read.

use crate::members;
use ox_proto::OpCode;
use ox_testkit::{RawClient, RawConnection, RawHandshake};

const TIMEOUT_MS: i32 = 30_000;

#[test]
fn k027_server_without_quorum_serves_reads() {
    let settings = "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true";
    let mut ensemble = members::prepare(3, 0, settings, &["readonlymode.enabled=true"]).start();
    let mut owner = RawClient::open(ensemble.addresses[0], TIMEOUT_MS);
    assert_eq!(owner.create("/n", b"seen").err, 0);
    assert_eq!(owner.create_as("/e", 1).err, 0);
    let zxid = owner.ask(|packet, xid| packet.of_path(xid, OpCode::Sync, "/")).zxid;
    assert_eq!(ensemble.four_letter(0, "isro"), "rw");
    ensemble.kill(1);
    ensemble.kill(2);
    ensemble.wait_for_reply(0, "isro", "ro");
    let srvr = ensemble.four_letter(0, "srvr");
    assert!(srvr.contains("\nMode: read-only\n") && srvr.contains("READ-ONLY mode"), "{srvr}");
    assert_eq!(ensemble.metric(0, "server_state").as_deref(), Some("read-only"));
    // A client that may write, or whose session is global, is refused.
    assert!(RawConnection::connect(ensemble.addresses[0]).handshake(&RawHandshake::new(TIMEOUT_MS)).is_none());
    let global = RawHandshake { read_only: Some(true), ..RawHandshake::resume(&owner.hello) };
    assert!(RawConnection::connect(ensemble.addresses[0]).handshake(&global).is_none());
    let hello = RawHandshake { read_only: Some(true), ..RawHandshake::new(TIMEOUT_MS) };
    let mut reader = RawClient::try_open(ensemble.addresses[0], &hello).expect("a session");
    assert_eq!(reader.hello.read_only, Some(true));
    assert_eq!(reader.get("/n").data(), Some(b"seen".to_vec()));
    assert_eq!(reader.exists("/e").err, 0);
    for reply in [
        reader.create("/x", b""),
        reader.create_as("/x", 1),
        reader.set("/n", b"x"),
        reader.ask(|packet, xid| packet.of_path(xid, OpCode::Sync, "/")),
    ] {
        assert_eq!((reply.err, reply.zxid), (-119, zxid));
    }
    ensemble.restart(1);
    ensemble.wait_for_reply(0, "isro", "rw");
    assert_eq!(reader.try_reply(), None, "it is sent away, to come back for more");
    let mut reader = RawClient::try_open(ensemble.addresses[0], &hello).expect("a session");
    assert_eq!(reader.hello.read_only, Some(false));
    assert_eq!(reader.set("/n", b"again").err, 0);
    ensemble.restart(2);
    let mut owner =
        RawClient::try_open(ensemble.addresses[2], &RawHandshake::resume(&owner.hello)).expect("its session lives");
    assert_eq!(owner.get("/n").data(), Some(b"again".to_vec()));
    owner.close();
}
