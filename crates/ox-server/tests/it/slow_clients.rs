//! Clients that do not read, do not complete a request, or disconnect without notice.

use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use ox_proto::OpCode;
use ox_testkit::{RawClient, RawConnection, RawHandshake, RawPacket};
use socket2::{Domain, Socket, Type};
use std::time::{Duration, Instant};

/// Well below the ten seconds after which a silent connection is closed.
const AT_ONCE: Duration = Duration::from_secs(8);

#[test]
fn k147_end_of_stream_is_noticed_with_the_last_bytes() {
    let server = ServerFixture::start();
    for round in 0..20 {
        let mut raw = server.connect();
        if round % 2 == 0 {
            assert!(raw.handshake(&RawHandshake::new(TIMEOUT_MS)).is_some());
        }
        // Data and end of stream together, so that the kernel reports both in one event.
        raw.send(&[0, 0, 0, 50, 1, 2, 3]);
        raw.finish();
        let begun = Instant::now();
        raw.expect_closed();
        assert!(begun.elapsed() < AT_ONCE, "round {round}");
    }
}

#[test]
fn requests_sent_before_the_end_are_executed() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.send(&RawPacket::default().create(1, "/last", b"", 0));
    client.raw.finish();
    client.raw.rest();
    let mut other = server.client();
    assert_eq!(other.exists("/last").err, 0);
}

/// Replies to reads after a write cannot be delayed until the client reads, because the state changes.
#[test]
fn k146_replies_that_follow_a_write_are_bounded() {
    let server = ServerFixture::start();
    let mut client = server.client();
    let data = vec![5; 1_000_000];
    client.create("/big", &data);
    client.create("/small", b"");
    let reads =
        |count| (1..=count).fold(RawPacket::default().set(0, "/small", b""), |packet, xid| packet.get(xid, "/big"));
    // A client whose replies were large gets a few requests executed at a time.
    client.send(&reads(100));
    (0..=100).for_each(|xid| assert_eq!(client.reply().xid, xid));
    // A client whose replies were small can exceed the limit, and is disconnected.
    for _ in 0..200 {
        client.ping();
    }
    client.send(&reads(500));
    let mut received = 0;
    while client.try_reply().is_some() {
        received += 1;
    }
    assert!(received < 500, "all of it was kept in memory");
    // It is served again when it reconnects.
    let mut again = server.resume(&client).expect("the session is alive");
    again.send(&reads(500));
    (0..=500).for_each(|xid| assert_eq!(again.reply().xid, xid));
}

/// A client with a small receive buffer, so that the server's output stays partly unsent.
fn narrow_client(server: &ServerFixture) -> RawClient {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&server.address().into()).unwrap();
    RawClient::try_open_over(RawConnection::over(socket.into()), &RawHandshake::new(TIMEOUT_MS)).expect("a session")
}

#[test]
fn k134_client_that_does_not_read_its_events_is_closed_and_loses_none_silently() {
    let server = ServerFixture::start();
    let mut deaf = [server.client(), narrow_client(&server)];
    for client in &mut deaf {
        assert_eq!(client.ask(|packet, xid| packet.add_watch(xid, "/", 1)).err, 0);
    }
    let mut writer = server.client();
    let name = "n".repeat(500_000);
    let mut created = 0;
    // Enough for the buffers of two sockets, and for the server's limit.
    for _ in 0..12 {
        let packet = (0..20).fold(RawPacket::default(), |packet, xid| match xid % 2 {
            0 => packet.create(xid, &format!("/{name}"), b"", 0),
            _ => packet.delete(xid, &format!("/{name}")),
        });
        writer.send(&packet);
        (0..20).for_each(|_| assert_eq!(writer.reply().err, 0));
        created += 20;
    }
    for client in &mut deaf {
        let mut received = 0;
        while client.receive().is_some() {
            received += 1;
        }
        assert!(received < created, "it was closed");
        assert!(server.resume(client).is_some(), "its session is alive");
    }
    assert_eq!(writer.ping().err, 0);
}

/// A client is not closed because one transaction fires more events than its socket can hold.
#[test]
fn burst_of_events_waits_for_the_client() {
    const COUNT: usize = 100;
    let server = ServerFixture::start();
    let (mut reader, mut slow) = (server.client(), narrow_client(&server));
    for client in [&mut reader, &mut slow] {
        assert_eq!(client.ask(|packet, xid| packet.add_watch(xid, "/", 1)).err, 0);
    }
    let mut owner = server.client();
    let name = "n".repeat(200_000);
    for number in 0..COUNT {
        assert_eq!(owner.ask(|packet, xid| packet.create(xid, &format!("/{name}{number}"), b"", 1)).err, 0);
    }
    assert_eq!(owner.ask(|packet, xid| packet.close(xid)).err, 0);
    for client in [&mut reader, &mut slow] {
        for received in 0..2 * COUNT {
            assert!(client.receive().is_some(), "{received} events");
        }
    }
}

#[test]
fn k152_commands_of_clients_that_do_not_read_delay_no_other_client() {
    let server = ServerFixture::with("4lw.commands.whitelist=*\n");
    let mut deaf: Vec<_> = (0..300).map(|_| server.connect()).collect();
    deaf.iter_mut().for_each(|raw| raw.send(b"srvr"));
    let mut client = server.client();
    let begun = Instant::now();
    (0..100).for_each(|_| assert_eq!(client.ping().err, 0));
    assert!(begun.elapsed() < AT_ONCE);
    for mut raw in deaf {
        let text = String::from_utf8(raw.rest()).unwrap();
        assert!(text.is_empty() || text.contains("Mode: standalone"), "{text}");
    }
}

#[test]
fn k151_reply_to_one_request_is_bounded() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create("/big", &vec![1; 1_000_000]);
    let mut body = Vec::new();
    for _ in 0..10_000 {
        body.extend([0, 0, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 4, b'/', b'b', b'i', b'g', 0]);
    }
    body.extend([0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff]);
    let reply = client.ask(|packet, xid| packet.raw(xid, OpCode::MultiRead.code(), &body));
    assert_eq!((reply.err, reply.body.len()), (-5, 0), "ten gigabytes");
    assert_eq!(client.ping().err, 0);
}

/// The last reply reaches a client that is still sending: the connection is closed, not reset.
#[test]
fn last_reply_reaches_a_client_that_keeps_sending() {
    use std::io::Read;
    let server = ServerFixture::with("4lw.commands.whitelist=*\n");
    let chatter = vec![0; 300_000]; // more than one read takes
    let send_and_check = |mut raw: RawConnection, last_request: &[u8], reply_bytes: usize| {
        raw.send(&[last_request, &chatter].concat());
        let mut stream = raw.writer();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("an end");
        assert_eq!(reply.len(), reply_bytes);
    };
    for _ in 0..20 {
        send_and_check(server.connect(), b"ruok", 4);
        send_and_check(server.client().raw, &RawPacket::default().raw(1, 99, b"").0, 20);
        send_and_check(server.client().raw, &RawPacket::default().auth(-4, "unknown", b"x").0, 20);
    }
}

/// A client that does not close its side after the last reply is disconnected after a while, and uses no connection
/// meanwhile.
#[test]
fn client_that_keeps_its_side_open_is_disconnected_after_the_linger_time() {
    let server = ServerFixture::with("4lw.commands.whitelist=*\nmaxClientCnxns=1\n");
    let mut raw = server.connect();
    raw.send(b"ruok");
    assert_eq!(raw.rest(), b"imok");
    let mut next = server.client();
    assert_eq!(next.ping().err, 0);
    let begun = Instant::now();
    while raw.try_send(b"x") {
        assert!(begun.elapsed() < AT_ONCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}
