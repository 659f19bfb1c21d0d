//! Sessions: expiry, ephemeral nodes, restarts, and nodes that the server deletes by itself.

use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use ox_proto::request::SetWatches;
use ox_proto::{OpCode, Zxid};
use ox_testkit::{RawClient, RawHandshake, RawPacket};
use std::time::{Duration, Instant};

const SHORT: &str = "tickTime=200\nminSessionTimeout=400\n";

#[test]
fn expired_session_loses_its_ephemeral_nodes_immediately() {
    let server = ServerFixture::with(SHORT);
    let mut watcher = server.client();
    watcher.create("/group", b"");
    let mut doomed = RawClient::open(server.address(), 1000);
    for number in 0..5 {
        doomed.create_as(&format!("/group/e{number}"), 1);
    }
    doomed.create("/stays", b"");
    (0..5).for_each(|number| _ = watcher.watch(OpCode::Exists, &format!("/group/e{number}")));
    let silent_since = Instant::now();
    let events: Vec<_> = (0..5).map(|_| watcher.event()).collect();
    let took = silent_since.elapsed();
    assert!(Duration::from_millis(900) < took, "not before the timeout: {took:?}");
    let zxid = events[0].zxid;
    assert!(events.iter().all(|event| event.kind == 2 && event.zxid == zxid), "{events:?}");
    assert_eq!(watcher.exists("/group").stat().pzxid, Zxid(zxid), "one transaction");
    assert_eq!(watcher.children("/group"), [] as [&str; 0]);
    assert_eq!(watcher.exists("/stays").err, 0);
    assert_eq!(doomed.try_reply(), None, "its connection is closed without a reply");
    assert!(server.resume(&doomed).is_none(), "a closed session stays closed");
}

#[test]
fn session_with_traffic_does_not_expire() {
    let server = ServerFixture::with(SHORT);
    let mut client = RawClient::open(server.address(), 1000);
    client.create_as("/e", 1);
    let begun = Instant::now();
    let mut pings = 0;
    // Reads that the I/O thread replies to count as traffic, too.
    while begun.elapsed() < Duration::from_millis(2500) {
        match pings % 2 {
            0 => assert_eq!(client.ping().err, 0),
            _ => assert_eq!(client.exists("/e").err, 0),
        }
        pings += 1;
        std::thread::sleep(Duration::from_millis(100)); // the pace of the client is what is tested
    }
    assert_eq!(client.set("/e", b"x").err, 0);
}

#[test]
fn close_session_gets_a_reply_and_is_final() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create_as("/e", 1);
    client.send(&RawPacket::default().create(1, "/e2", b"", 1).close(2).create(3, "/late", b"", 0).ping().get(5, "/"));
    assert_eq!(client.reply().err, 0);
    let closed = client.reply();
    assert_eq!((closed.xid, closed.err), (2, 0));
    let mut late = Vec::new();
    while let Some(reply) = client.try_reply() {
        late.push(reply.err);
    }
    assert!(late.iter().all(|err| *err == -112), "{late:?}");
    let mut other = server.client();
    assert_eq!(other.children("/"), ["zookeeper"], "its nodes are deleted, and no later request was executed");
    assert!(server.resume(&client).is_none());
}

#[test]
fn k111_ephemeral_node_does_not_outlive_its_session() {
    let mut server = ServerFixture::with(SHORT);
    let address = server.address();
    for round in 0..30 {
        let mut client = RawClient::open(address, 30_000);
        // Creates before, during and after the close, with and without waiting for replies.
        let mut packet =
            (0..20).fold(RawPacket::default(), |packet, xid| packet.create(xid, &format!("/a{round}-{xid}"), b"", 1));
        if round % 3 == 0 {
            client.send(&packet);
            packet = RawPacket::default();
        }
        let packet =
            (21..40).fold(packet.close(20), |packet, xid| packet.create(xid, &format!("/b{round}-{xid}"), b"", 3));
        client.raw.try_send(&packet.0);
        if round % 2 == 0 {
            client.raw.rest();
        }
    }
    let mut other = server.client();
    let begun = Instant::now();
    while other.children("/") != ["zookeeper"] {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", other.children("/"));
    }
    server.restart();
    assert_eq!(server.client().children("/"), ["zookeeper"]);
}

#[test]
fn session_with_nodes_and_watches_survives_a_restart() {
    let mut server = ServerFixture::start();
    let mut client = server.client();
    client.create_as("/e", 1);
    client.create("/a", b"1");
    let seen = client.ping().zxid;
    let mut other = server.client();
    other.create("/made", b"");
    other.set("/a", b"2");
    other.close();
    server.restart();
    let hello = RawHandshake { last_zxid_seen: seen, ..RawHandshake::resume(&client.hello) };
    let mut again = RawClient::try_open(server.address(), &hello).expect("the session is alive");
    assert_eq!(again.exists("/e").stat().ephemeral_owner, client.session().0);
    // setWatches re-arms the watches and reports missed changes.
    let path = |path: &'static str| vec![path.into()];
    let lists = [path("/a"), path("/made"), path("/"), vec![], vec![]];
    let mut body = Vec::new();
    SetWatches { relative_zxid: Zxid(seen), lists }.put(3, &mut body);
    assert_eq!(again.ask(|packet, xid| packet.raw(xid, OpCode::SetWatches.code(), &body)).err, 0);
    let missed: Vec<_> =
        std::mem::take(&mut again.events).into_iter().map(|event| (event.kind, event.path, event.zxid)).collect();
    assert_eq!(missed, [(3, "/a".to_owned(), -1), (1, "/made".to_owned(), -1), (4, "/".to_owned(), -1)]);
    again.close();
    assert_eq!(server.client().exists("/e").err, -101);
}

#[test]
fn client_ahead_of_a_restored_server_is_refused() {
    let server = ServerFixture::start();
    let client = server.client();
    let hello = RawHandshake { last_zxid_seen: 1000, ..RawHandshake::resume(&client.hello) };
    assert!(RawClient::try_open(server.address(), &hello).is_none());
    assert!(server.resume(&client).is_some());
}

#[test]
fn k112_granted_session_exists_after_a_crash() {
    let mut server = ServerFixture::start();
    let clients: Vec<_> = (0..50).map(|_| server.client()).collect();
    server.restart();
    for client in &clients {
        assert!(server.resume(client).is_some());
    }
}

#[test]
fn k126_empty_containers_and_expired_ttl_nodes_are_deleted() {
    let properties = "-Dznode.container.checkIntervalMs=50 -Dznode.container.maxPerMinute=600000 \
                      -Dznode.container.maxNeverUsedIntervalMs=300";
    let server = ServerFixture::with_properties("extendedTypesEnabled=true\n", properties);
    let mut client = server.client();
    let body = |path: &'static str| ox_proto::request::CreateRequest {
        path: Some(path.into()),
        data: None,
        acl: ox_proto::RawAcls::OPEN,
        flags: 4,
    };
    for path in ["/used", "/unused", "/kept"] {
        assert_eq!(client.ask(|packet, xid| packet.request(xid, OpCode::CreateContainer, &body(path))).err, 0);
    }
    for path in ["/used/child", "/kept/child"] {
        client.create(path, b"");
    }
    assert_eq!(client.ask(|packet, xid| packet.create_ttl(xid, "/ttl", 5, 200)).err, 0);
    assert_eq!(client.ask(|packet, xid| packet.create_ttl(xid, "/long", 5, 1_000_000)).err, 0);
    for path in ["/used", "/unused", "/ttl"] {
        client.watch(OpCode::Exists, path);
    }
    client.ask(|packet, xid| packet.delete(xid, "/used/child"));
    let mut gone: Vec<_> = (0..3).map(|_| client.event()).map(|event| (event.kind, event.path)).collect();
    gone.sort();
    assert_eq!(gone, [(2, "/ttl".to_owned()), (2, "/unused".to_owned()), (2, "/used".to_owned())]);
    assert_eq!(client.children("/"), ["kept", "long", "zookeeper"]);
}

/// More ephemeral nodes than one record can list.
#[test]
fn k145_session_with_very_many_nodes_can_be_closed() {
    const COUNT: i32 = 200_000;
    let mut server = ServerFixture::start();
    let mut client = server.client();
    let name = "x".repeat(20);
    let mut writer = client.raw.writer();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            use std::io::Write;
            for start in (0..COUNT).step_by(1000) {
                let packet = (start..start + 1000)
                    .fold(RawPacket::default(), |packet, xid| packet.create(xid, &format!("/{name}{xid}"), b"", 1));
                writer.write_all(&packet.0).unwrap();
            }
        });
        (0..COUNT).for_each(|xid| assert_eq!((client.reply().xid), xid));
    });
    assert_eq!(server.client().exists("/").stat().num_children, COUNT + 1);
    assert_eq!(client.close().err, 0);
    let mut other = server.client();
    assert_eq!(other.children("/"), ["zookeeper"]);
    server.restart();
    assert_eq!(server.client().children("/"), ["zookeeper"]);
    server.restart();
}

/// After a stop under load, every acknowledged write exists, and the server ends without an error.
#[test]
fn k51_stop_under_load_loses_no_acknowledged_write() {
    let mut server = ServerFixture::start();
    server.client().create("/n", b"");
    for round in 0..3 {
        let address = server.address();
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                std::thread::spawn(move || {
                    let mut client = RawClient::open(address, TIMEOUT_MS);
                    let mut acknowledged = Vec::new();
                    for number in 0.. {
                        let first = number * 100;
                        let packet = (first..first + 100).fold(RawPacket::default(), |packet, xid| {
                            packet.create(xid, &format!("/n/{round}-{worker}-{xid}"), b"", 0)
                        });
                        client.raw.try_send(&packet.0);
                        for _ in 0..100 {
                            match client.try_reply() {
                                Some(reply) => acknowledged.push(reply.path()),
                                None => return acknowledged,
                            }
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        let mut watcher = server.client();
        while watcher.exists("/n").stat().num_children < 1000 * (round + 1) {}
        server.restart();
        let acknowledged: Vec<String> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        let mut client = server.client();
        let there: std::collections::BTreeSet<String> =
            client.children("/n").into_iter().map(|name| format!("/n/{name}")).collect();
        assert!(acknowledged.iter().all(|path| there.contains(path)));
    }
}
