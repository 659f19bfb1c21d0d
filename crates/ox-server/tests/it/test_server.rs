//! The server that tests of other crates start.

use crate::server_fixture::TIMEOUT_MS;
use ox_proto::{OpCode, SessionId};
use ox_server::{Server, TestServer};
use ox_testkit::{RawClient, RawHandshake};
use std::net::TcpStream;

fn client(server: &TestServer) -> RawClient {
    RawClient::open(server.address(), TIMEOUT_MS)
}

fn again(server: &TestServer, client: &RawClient) -> Option<RawClient> {
    RawClient::try_open(server.address(), &RawHandshake::resume(&client.hello))
}

#[test]
fn expired_session_loses_its_nodes() {
    let server = Server::ephemeral().unwrap();
    let (mut owner, mut other) = (client(&server), client(&server));
    let created = owner.ask(|packet, xid| packet.create(xid, "/mine", b"", 1));
    assert_eq!(created.err, 0);
    server.expire(owner.hello.session).unwrap();
    assert_eq!(other.ask(|packet, xid| packet.read(xid, OpCode::Exists, "/mine", false)).err, -101);
    owner.raw.expect_closed();
    assert!(again(&server, &owner).is_none());
    server.expire(owner.hello.session).unwrap();
}

#[test]
fn dropped_connection_keeps_the_session() {
    let server = Server::ephemeral().unwrap();
    let (mut one, mut two) = (client(&server), client(&server));
    assert_eq!(server.sessions().len(), 2);
    assert!(server.drop_connection(one.hello.session));
    assert!(!server.drop_connection(SessionId(7)));
    one.raw.expect_closed();
    assert_eq!(two.ask(|packet, xid| packet.get(xid, "/")).err, 0);
    let mut one = again(&server, &one).unwrap();
    assert_eq!(server.drop_connections(), 2);
    one.raw.expect_closed();
    two.raw.expect_closed();
}

#[test]
fn restart_keeps_port_and_data_and_drop_removes_the_directory() {
    let mut dir = None;
    let mut server = TestServer::start(|config| dir = Some(config.data_dir.clone())).unwrap();
    let mut first = client(&server);
    assert_eq!(first.ask(|packet, xid| packet.create(xid, "/kept", b"x", 0)).err, 0);
    server.stop().unwrap();
    assert!(TcpStream::connect(server.address()).is_err());
    server.restart().unwrap();
    let mut second = again(&server, &first).expect("sessions are kept, too");
    assert_eq!(second.ask(|packet, xid| packet.get(xid, "/kept")).data().unwrap(), b"x");
    server.restart().unwrap();
    second.raw.expect_closed();
    let dir = dir.unwrap();
    assert!(dir.exists());
    drop(server);
    assert!(!dir.exists());
}
