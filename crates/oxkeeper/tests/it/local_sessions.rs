//! Local sessions on servers in all roles.

use crate::members;
use ox_proto::OpCode;
use ox_proto::connect::ConnectResponse;
use ox_proto::multi::MultiOp;
use ox_proto::request::CreateRequest;
use ox_proto::{RawAcls, SessionId};
use ox_testkit::{RawClient, RawConnection, RawHandshake};

const EPHEMERAL: i32 = 1;
const TIMEOUT_MS: i32 = 30_000;

fn multi(client: &mut RawClient, path: &str) -> Option<i32> {
    let request = CreateRequest { path: Some(path.into()), data: None, acl: RawAcls::OPEN, flags: EPHEMERAL };
    let element = MultiOp::Create(OpCode::Create, request);
    let reply = client.ask(|packet, xid| packet.multi(xid, std::slice::from_ref(&element)));
    reply.body.get(5..9).map(|err| i32::from_be_bytes(err.try_into().unwrap()))
}

#[test]
fn local_session_is_upgraded_by_its_first_ephemeral_node() {
    let settings = "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true";
    let ensemble = members::start(3, 1, settings);
    for at in 0..4 {
        let next = (at + 1) % 4;
        let mut client = RawClient::open(ensemble.addresses[at], TIMEOUT_MS);
        let session = client.session();
        assert_eq!(usize::from(session.server()), at + 1);
        assert_eq!(client.create(&format!("/n{at}"), b"").err, 0);
        ensemble.wait_for_metric(at, "local_sessions", "1");
        ensemble.wait_for_metric(at, "global_sessions", "0");
        let dump = ensemble.four_letter(at, "dump");
        assert!(dump.contains("Local Session Sets (1)/(1):") && dump.contains("Global Session"), "{dump}");
        // No other server knows the session.
        assert!(RawClient::try_open(ensemble.addresses[next], &RawHandshake::resume(&client.hello)).is_none());
        let mut client =
            RawClient::try_open(ensemble.addresses[at], &RawHandshake::resume(&client.hello)).expect("its server has");
        assert_eq!(client.session(), session);
        let path = format!("/e{at}");
        if at % 2 == 0 {
            assert_eq!(client.create_as(&path, EPHEMERAL).err, 0);
        } else {
            assert_eq!(multi(&mut client, &path), Some(0));
        }
        ensemble.wait_for_metric(at, "local_sessions", "0");
        ensemble.wait_for_metric(next, "global_sessions", "1");
        let mut moved =
            RawClient::try_open(ensemble.addresses[next], &RawHandshake::resume(&client.hello)).expect("all know it");
        assert_eq!((moved.session(), moved.set(&path, b"moved").err), (session, 0));
        moved.close();
        ensemble.wait_for_metric(at, "ephemerals_count", "0");
        ensemble.wait_for_metric(at, "global_sessions", "0");
    }
}

#[test]
fn k113_local_session_without_upgrade_owns_no_ephemeral_node() {
    let ensemble = members::start(3, 1, "localSessionsEnabled=true");
    let leader = ensemble.leader();
    for at in 0..4 {
        let mut client = RawClient::open(ensemble.addresses[at], TIMEOUT_MS);
        assert_eq!(client.create_as("/e", EPHEMERAL).err, -120);
        let in_multi = if at == leader { -120 } else { -112 };
        assert_eq!(multi(&mut client, "/e"), Some(in_multi), "server {}", at + 1);
        assert_eq!(client.exists("/e").err, -101);
        let before = client.create(&format!("/n{at}"), b"").zxid;
        let reply = client.close();
        assert_eq!((reply.err, reply.zxid), (0, before), "the end takes no zxid");
        ensemble.wait_for_metric(at, "local_sessions", "0");
    }
}

/// A local session survives an election of its server, but not a silent client.
#[test]
fn local_session_survives_elections_but_not_silence() {
    let mut ensemble = members::start(3, 0, "localSessionsEnabled=true\nminSessionTimeout=500");
    let leader = ensemble.leader();
    let at = (leader + 1) % 3;
    let client = RawClient::open(ensemble.addresses[at], TIMEOUT_MS);
    let silent = RawClient::open(ensemble.addresses[at], 1000);
    ensemble.kill(leader);
    ensemble.leader_but(&[leader]);
    let again = RawHandshake::resume(&client.hello);
    let mut resumed = None;
    while resumed.is_none() {
        let mut raw = RawConnection::connect(ensemble.addresses[at]);
        raw.send(&again.frame());
        resumed = raw.frame().map(|payload| ConnectResponse::decode(&payload).unwrap());
    }
    assert_eq!(resumed.map(|hello| hello.session), Some(client.session()));
    ensemble.wait_for_metric(at, "local_sessions", "1");
    let mut raw = RawConnection::connect(ensemble.addresses[at]);
    let hello = raw.handshake(&RawHandshake::resume(&silent.hello)).expect("an answer");
    assert_eq!(hello.session, SessionId::NONE, "it has expired");
}
