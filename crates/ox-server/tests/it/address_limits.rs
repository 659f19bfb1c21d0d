//! What the clients of one address may have together.

use crate::four_letter_client::ALL_WORDS;
use crate::raw::{Client, Hello, Packet, Raw};
use crate::server_fixture::{Served, TIMEOUT_MS};
use ox_proto::request::{SetWatches, xid};
use ox_proto::{OpCode, Zxid};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};

const THROTTLED: i32 = -127;

fn served(limit: &str) -> Served {
    Served::with(&format!("{ALL_WORDS}{limit}\n"))
}

/// A connection that comes from another address of this host.
fn from_elsewhere(served: &Served) -> Raw {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0)).into()).unwrap();
    socket.connect(&served.address().into()).unwrap();
    Raw::over(socket.into())
}

#[test]
fn an_address_with_enough_sessions_gets_no_more() {
    let served = served("oxkeeper.maxSessionsPerAddress=2");
    let hello = Hello::new(TIMEOUT_MS);
    let first = served.client();
    drop(served.client()); // the connection ends, its session does not
    served.await_metric("num_alive_connections", "2"); // the one that asks is the other
    assert!(Client::try_open(served.address(), &hello).is_none(), "closed without an answer");
    assert!(Client::try_open_over(from_elsewhere(&served), &hello).is_some(), "others are not concerned");
    let first = served.resume(&first).expect("a session that there is can be resumed");
    assert_eq!([served.metric("sessions_rejected"), served.metric("connection_rejected")], ["1", "1"]);
    first.close();
    assert!(Client::try_open(served.address(), &hello).is_some(), "there is room again");
}

#[test]
fn an_address_with_enough_watches_gets_no_more() {
    let served = served("oxkeeper.maxWatchesPerAddress=3");
    let (mut one, mut two) = (served.client(), served.client());
    one.create("/a", b"1");
    assert_eq!(one.watch(OpCode::GetData, "/a").err, 0);
    assert_eq!(one.ask(|packet, xid| packet.add_watch(xid, "/b", 0)).err, 0); // one for data, one for children
    for op in [OpCode::GetData, OpCode::Exists, OpCode::GetChildren, OpCode::GetChildren2] {
        let reply = two.watch(op, "/a");
        assert_eq!((reply.err, reply.body.len()), (THROTTLED, 0), "{op:?}: no answer that looks watched and is not");
    }
    assert_eq!(two.ask(|packet, xid| packet.add_watch(xid, "/a", 1)).err, THROTTLED);
    assert_eq!(two.get("/a").err, 0, "without a watch");
    assert_eq!(one.watch(OpCode::GetData, "/a").err, 0, "what is there may be repeated");
    let mut other = Client::try_open_over(from_elsewhere(&served), &Hello::new(TIMEOUT_MS)).unwrap();
    assert_eq!(other.watch(OpCode::GetData, "/a").err, 0, "others are not concerned");
    assert_eq!([served.metric("watches_rejected"), served.metric("watch_count")], ["5", "4"]);
    two.set("/a", b"2"); // the watch of one is used up
    one.event();
    assert_eq!(two.watch(OpCode::GetData, "/a").err, 0);
    drop(one);
    served.await_metric("watch_count", "1");
    assert_eq!(two.ask(|packet, xid| packet.add_watch(xid, "/b", 0)).err, 0);
}

/// Clients do not look at the answer to setWatches: who cannot have its watches back must notice otherwise.
#[test]
fn a_client_is_never_left_without_its_watches() {
    let served = served("oxkeeper.maxWatchesPerAddress=3");
    let mut body = Vec::new();
    let lists = [vec!["/".into()], vec!["/a".into(), "/b".into()], vec!["/".into()], vec![], vec![]];
    SetWatches { relative_zxid: Zxid(i64::MAX), lists }.put(3, &mut body);
    let mut at_once = served.client();
    at_once.send(&Packet::default().raw(xid::SET_WATCHES, OpCode::SetWatches.code(), &body));
    assert_eq!(at_once.try_reply(), None, "closed");
    let mut behind_a_write = served.client();
    let packet = Packet::default().create(1, "/c", b"", 0).raw(xid::SET_WATCHES, OpCode::SetWatches.code(), &body);
    behind_a_write.send(&packet.get(3, "/c"));
    assert_eq!(behind_a_write.reply().err, 0);
    while let Some(reply) = behind_a_write.try_reply() {
        assert_eq!((reply.xid, reply.err), (xid::SET_WATCHES, THROTTLED), "and nothing behind it");
    }
    served.await_metric("watch_count", "0");
    assert_eq!(served.metric("watches_rejected"), "2");
}

#[test]
fn no_limit_is_no_limit() {
    let served = served("oxkeeper.maxWatchesPerAddress=0\noxkeeper.maxSessionsPerAddress=0");
    let mut clients: Vec<Client> = (0..5).map(|_| served.client()).collect();
    for client in &mut clients {
        assert_eq!(client.watch(OpCode::GetChildren, "/").err, 0);
    }
    assert_eq!(
        ["watch_count", "watches_rejected", "sessions_rejected"].map(|name| served.metric(name)),
        ["5", "0", "0"]
    );
}
