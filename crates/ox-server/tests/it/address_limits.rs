//! Limits on the sessions and watches of one client address.

use crate::four_letter_client::ALL_COMMANDS;
use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use ox_proto::request::{SetWatches, xid};
use ox_proto::{OpCode, Zxid};
use ox_testkit::{RawClient, RawConnection, RawHandshake, RawPacket};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};

const THROTTLED: i32 = -127;

fn server(limit: &str) -> ServerFixture {
    ServerFixture::with(&format!("{ALL_COMMANDS}{limit}\n"))
}

/// A connection from another address of this host.
fn from_elsewhere(server: &ServerFixture) -> RawConnection {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0)).into()).unwrap();
    socket.connect(&server.address().into()).unwrap();
    RawConnection::over(socket.into())
}

#[test]
fn address_at_its_session_limit_gets_no_new_session() {
    let server = server("oxkeeper.maxSessionsPerAddress=2");
    let hello = RawHandshake::new(TIMEOUT_MS);
    let first = server.client();
    drop(server.client()); // the connection ends, its session does not
    server.await_metric("num_alive_connections", "2"); // including the connection of mntr
    assert!(RawClient::try_open(server.address(), &hello).is_none(), "closed without a reply");
    assert!(RawClient::try_open_over(from_elsewhere(&server), &hello).is_some(), "the limit is per address");
    let first = server.resume(&first).expect("an existing session can be resumed");
    assert_eq!([server.metric("sessions_rejected"), server.metric("connection_rejected")], ["1", "1"]);
    first.close();
    assert!(RawClient::try_open(server.address(), &hello).is_some(), "below the limit again");
}

#[test]
fn address_at_its_watch_limit_gets_no_new_watch() {
    let server = server("oxkeeper.maxWatchesPerAddress=3");
    let (mut one, mut two) = (server.client(), server.client());
    one.create("/a", b"1");
    assert_eq!(one.watch(OpCode::GetData, "/a").err, 0);
    assert_eq!(one.ask(|packet, xid| packet.add_watch(xid, "/b", 0)).err, 0); // one for data, one for children
    for op in [OpCode::GetData, OpCode::Exists, OpCode::GetChildren, OpCode::GetChildren2] {
        let reply = two.watch(op, "/a");
        assert_eq!((reply.err, reply.body.len()), (THROTTLED, 0), "{op:?}: no answer that looks watched and is not");
    }
    assert_eq!(two.ask(|packet, xid| packet.add_watch(xid, "/a", 1)).err, THROTTLED);
    assert_eq!(two.get("/a").err, 0, "without a watch");
    assert_eq!(one.watch(OpCode::GetData, "/a").err, 0, "an existing watch may be set again");
    let mut other = RawClient::try_open_over(from_elsewhere(&server), &RawHandshake::new(TIMEOUT_MS)).unwrap();
    assert_eq!(other.watch(OpCode::GetData, "/a").err, 0, "the limit is per address");
    assert_eq!([server.metric("watches_rejected"), server.metric("watch_count")], ["5", "4"]);
    two.set("/a", b"2"); // fires the watch of one
    one.event();
    assert_eq!(two.watch(OpCode::GetData, "/a").err, 0);
    drop(one);
    server.await_metric("watch_count", "1");
    assert_eq!(two.ask(|packet, xid| packet.add_watch(xid, "/b", 0)).err, 0);
}

/// Clients ignore the reply to setWatches, so a client whose watches are refused must be disconnected.
#[test]
fn client_whose_watches_are_refused_is_disconnected() {
    let server = server("oxkeeper.maxWatchesPerAddress=3");
    let mut body = Vec::new();
    let lists = [vec!["/".into()], vec!["/a".into(), "/b".into()], vec!["/".into()], vec![], vec![]];
    SetWatches { relative_zxid: Zxid(i64::MAX), lists }.put(3, &mut body);
    let mut at_once = server.client();
    at_once.send(&RawPacket::default().raw(xid::SET_WATCHES, OpCode::SetWatches.code(), &body));
    assert_eq!(at_once.try_reply(), None, "closed");
    let mut behind_a_write = server.client();
    let packet = RawPacket::default().create(1, "/c", b"", 0).raw(xid::SET_WATCHES, OpCode::SetWatches.code(), &body);
    behind_a_write.send(&packet.get(3, "/c"));
    assert_eq!(behind_a_write.reply().err, 0);
    while let Some(reply) = behind_a_write.try_reply() {
        assert_eq!((reply.xid, reply.err), (xid::SET_WATCHES, THROTTLED), "and nothing after it");
    }
    server.await_metric("watch_count", "0");
    assert_eq!(server.metric("watches_rejected"), "2");
}

#[test]
fn limit_of_zero_is_no_limit() {
    let server = server("oxkeeper.maxWatchesPerAddress=0\noxkeeper.maxSessionsPerAddress=0");
    let mut clients: Vec<RawClient> = (0..5).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.watch(OpCode::GetChildren, "/").err, 0);
    }
    assert_eq!(
        ["watch_count", "watches_rejected", "sessions_rejected"].map(|name| server.metric(name)),
        ["5", "0", "0"]
    );
}
