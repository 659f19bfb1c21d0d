//! Four-letter commands and client requests do not delay each other.

use crate::four_letter_client::ALL_COMMANDS;
use crate::server_fixture::ServerFixture;
use ox_proto::OpCode;
use ox_proto::request::{SetWatches, xid};
use ox_testkit::{RawClient, RawConnection, RawPacket};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

const PER_PACKET: usize = 4000;

/// Sets watches on nodes that do not exist, with paths of 200 characters.
fn watch_many(client: &mut RawClient, watches: usize) {
    for first in (0..watches).step_by(PER_PACKET) {
        let paths = (first..(first + PER_PACKET).min(watches)).map(|number| format!("/{number:0199}").into());
        let mut lists: [Vec<_>; 5] = Default::default();
        lists[1] = paths.collect();
        let mut body = Vec::new();
        SetWatches { lists, ..SetWatches::default() }.put(3, &mut body);
        client.send(&RawPacket::default().raw(xid::SET_WATCHES, OpCode::SetWatches.code(), &body));
        assert_eq!(client.reply().err, 0);
    }
}

/// A connection with small buffers, which a long reply exceeds.
fn narrow(server: &ServerFixture) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.connect(&server.address().into()).unwrap();
    socket.into()
}

#[test]
fn k152_slow_reader_of_a_listing_delays_no_other_client() {
    const WATCHES: usize = 40_000;
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = server.client();
    watch_many(&mut client, WATCHES);
    let total = format!("1 connections watching {WATCHES} paths\nTotal watches:{WATCHES}\n");
    assert_eq!(server.command("wchs"), total);
    let mut slow: Vec<(TcpStream, &str)> = ["wchp", "wchc"].map(|command| (narrow(&server), command)).into();
    for (stream, command) in &mut slow {
        stream.write_all(command.as_bytes()).unwrap();
    }
    // They read nothing; all other clients are served.
    for number in 0..50 {
        assert_eq!(server.command("ruok"), "imok");
        client.create(&format!("/n{number}"), b"");
        client.exists("/n0");
    }
    assert_eq!(
        server.command("wchp").len(),
        WATCHES * (201 + 2 + client.session().to_string().len() + 1) - WATCHES + 1
    );
    for (stream, command) in &mut slow {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let paths = reply.lines().filter(|line| line.trim_start().len() == 200).count();
        assert_eq!(paths, WATCHES, "{command}");
        assert!(reply.ends_with("\n\n"), "{command}");
    }
}

#[test]
fn listing_of_a_closed_connection_is_dropped() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = server.client();
    watch_many(&mut client, 20_000);
    for _ in 0..20 {
        let mut stream = narrow(&server);
        stream.write_all(b"wchc").unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
    }
    server.await_metric("num_alive_connections", "2");
    assert_eq!(server.command("ruok"), "imok");
}

#[test]
fn repeated_listings_do_not_delay_requests() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut bystander = server.client();
    watch_many(&mut bystander, 20_000);
    let (mut watcher, mut writer) = (server.client(), server.client());
    writer.create("/n", b"");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let listings = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) || rounds == 0 {
                for command in ["wchs", "wchp", "wchc", "cons", "stat", "dump", "mntr", "crst", "srst"] {
                    assert!(!server.command(command).is_empty(), "{command}");
                }
                rounds += 1;
            }
            rounds
        });
        for number in 0..300 {
            watcher.watch(OpCode::GetData, "/n");
            writer.set("/n", format!("{number}").as_bytes());
            assert_eq!(watcher.event().kind, 3);
        }
        done.store(true, Ordering::Relaxed);
        assert!(0 < listings.join().unwrap());
    });
}

#[test]
fn many_concurrent_commands_all_get_a_reply() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut asking: Vec<RawConnection> = (0..100).map(|_| server.connect()).collect();
    for raw in &mut asking {
        raw.send(b"stat");
    }
    for mut raw in asking {
        assert!(String::from_utf8(raw.rest()).unwrap().contains("Mode: standalone\n"));
    }
}
