//! Many clients at the same time, some of them misbehaving.

use crate::four_letter_client::ALL_COMMANDS;
use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use ox_proto::OpCode;
use ox_testkit::{RawClient, RawConnection, RawHandshake, RawPacket};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Connections that keep the server's arena full do not starve one that does not (O14).
#[test]
fn flooding_clients_do_not_starve_a_quiet_one() {
    let server = ServerFixture::start();
    let address = server.address();
    let (stop, replies) = (AtomicBool::new(false), AtomicUsize::new(0));
    // Requests with long bodies and short replies: they are served quickly, and there is always more to read.
    let path = format!("/{}", "x".repeat(60_000));
    let packet = (0..16).fold(RawPacket::default(), |packet, xid| packet.read(xid, OpCode::Exists, &path, false));
    thread::scope(|scope| {
        for _ in 0..24 {
            let (stop, replies, packet) = (&stop, &replies, &packet);
            scope.spawn(move || {
                let mut client = RawClient::open(address, TIMEOUT_MS);
                let mut writer = client.raw.writer();
                thread::scope(|scope| {
                    scope.spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            writer.write_all(&packet.0).unwrap();
                        }
                        client_done(writer);
                    });
                    while client.try_reply().is_some() {
                        replies.fetch_add(1, Ordering::Relaxed);
                    }
                });
            });
        }
        let mut quiet = RawClient::open(address, TIMEOUT_MS);
        let before = replies.load(Ordering::Relaxed);
        for _ in 0..30 {
            assert_eq!(quiet.exists("/").err, 0);
        }
        let others = replies.load(Ordering::Relaxed) - before;
        stop.store(true, Ordering::Relaxed);
        assert!(others < 30 * 24 * 30, "24 flooding clients got {others} replies while the quiet one got 30");
    });
}

fn client_done(stream: std::net::TcpStream) {
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

#[test]
fn k147_flood_of_connections_leaks_no_connection() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let address = server.address();
    let mut steady = server.client();
    thread::scope(|scope| {
        for kind in 0..4 {
            scope.spawn(move || {
                for round in 0..400 {
                    let mut raw = RawConnection::connect(address);
                    match kind {
                        0 => (), // closed immediately
                        1 => _ = raw.try_send(&[0, 0, 0, 45, 0]),
                        2 => _ = raw.try_send(&RawHandshake::new(TIMEOUT_MS).frame()),
                        _ => {
                            assert!(raw.handshake(&RawHandshake::new(TIMEOUT_MS)).is_some());
                            raw.send(&RawPacket::default().create(1, &format!("/e{round}"), b"", 1).close(2).0);
                            raw.rest();
                        }
                    }
                }
            });
        }
        for _ in 0..200 {
            assert_eq!(steady.ping().err, 0);
        }
    });
    assert_eq!(steady.children("/"), ["zookeeper"]);
    server.await_metric("num_alive_connections", "2"); // the steady client, and the connection of mntr
}

#[test]
fn k117_many_expiring_sessions_delay_no_heartbeat() {
    const SESSIONS: usize = 400;
    let server = ServerFixture::with("tickTime=200\nminSessionTimeout=400\n");
    let address = server.address();
    let mut steady = RawClient::open(address, 10_000);
    let doomed: Vec<RawClient> = (0..SESSIONS)
        .map(|number| {
            let mut client = RawClient::open(address, 1000);
            let packet = (0..10)
                .fold(RawPacket::default(), |packet, xid| packet.create(xid, &format!("/{number}-{xid}"), b"", 1));
            client.send(&packet);
            client
        })
        .collect();
    // They become silent together; the steady client is served while they expire.
    let (begun, mut heartbeats) = (Instant::now(), 0);
    loop {
        assert_eq!(steady.ping().err, 0);
        match steady.children("/").len() - 1 {
            0 => break,
            left if left < SESSIONS * 10 => heartbeats += 1,
            _ => (),
        }
        assert!(begun.elapsed() < Duration::from_secs(40));
    }
    assert!(0 < heartbeats, "no heartbeat was served while they expired");
    drop(doomed);
}

/// Each connection reads its own node in turn: the cost grows with the requests, and no connection is left out.
#[test]
fn many_concurrent_connections_are_all_served() {
    let server = ServerFixture::start();
    let mut clients: Vec<RawClient> = (0..300).map(|_| server.client()).collect();
    for round in 0..3 {
        for (number, client) in clients.iter_mut().enumerate() {
            let path = format!("/n{number}");
            let packet = RawPacket::default()
                .create(1, &path, b"", 0)
                .set(2, &path, format!("{round}").as_bytes())
                .get(3, &path);
            client.send(&packet);
        }
        for client in &mut clients {
            assert_eq!([client.reply().xid, client.reply().xid], [1, 2]);
            assert_eq!(client.reply().data().unwrap(), format!("{round}").as_bytes());
        }
    }
}
