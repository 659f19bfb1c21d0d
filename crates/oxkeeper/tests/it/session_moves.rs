//! A session that moves to another server while its old connection is open (ZOOKEEPER-710).

use crate::members;
use ox_proto::multi::MultiOp;
use ox_proto::request::PathVersion;
use ox_proto::{ErrorCode, OpCode};
use ox_testkit::{RawClient, RawHandshake, RawPacket, TestEnsemble};

const TIMEOUT_MS: i32 = 30_000;
const XID: i32 = 100;

/// Every kind of write that the old connection may send.
fn writes() -> Vec<(&'static str, RawPacket)> {
    let delete = MultiOp::Delete(PathVersion { path: Some("/none".into()), version: -1 });
    vec![
        ("create", RawPacket::default().create(XID, "/late", b"", 0)),
        ("delete", RawPacket::default().delete(XID, "/none")),
        ("setData", RawPacket::default().set(XID, "/", b"late")),
        ("multi", RawPacket::default().multi(XID, &[delete])),
        ("closeSession", RawPacket::default().close(XID)),
    ]
}

fn moves(ensemble: &TestEnsemble, old: usize, new: usize) {
    for (name, write) in writes() {
        let mut stale = RawClient::open(ensemble.addresses[old], TIMEOUT_MS);
        let mut owner =
            RawClient::try_open(ensemble.addresses[new], &RawHandshake::resume(&stale.hello)).expect("the session");
        assert_eq!(stale.get("/").err, 0, "reads are served");
        assert_eq!(stale.ask(|packet, xid| packet.of_path(xid, OpCode::Sync, "/")).err, 0, "and so is sync");
        stale.send(&write);
        stale.raw.expect_closed();
        let path = format!("/{name}-{old}-{new}");
        assert_eq!(owner.create(&path, b"").err, 0, "the owner's connection goes on");
        assert_eq!(owner.get("/late").err, ErrorCode::NoNode.code(), "{name} had no effect");
        owner.close();
    }
}

#[test]
fn write_over_the_old_connection_closes_it() {
    let ensemble = members::start(3, 1, "");
    let (leader, observer) = (ensemble.leader(), 3);
    let mut followers = (0..3).filter(|at| *at != leader);
    let (one, other) = (followers.next().unwrap(), followers.next().unwrap());
    for (old, new) in [(one, leader), (one, other), (one, observer), (observer, one), (observer, leader)] {
        moves(&ensemble, old, new);
    }
    // A leader closes its connection as soon as the session moves away.
    let mut stale = RawClient::open(ensemble.addresses[leader], TIMEOUT_MS);
    let mut owner =
        RawClient::try_open(ensemble.addresses[one], &RawHandshake::resume(&stale.hello)).expect("the session");
    stale.raw.expect_closed();
    assert_eq!(owner.create("/owner", b"").err, 0);
    ensemble.check_equal();
}
