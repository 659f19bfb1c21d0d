//! Clients that do not read, do not finish, or go without saying so.

use crate::raw::{Client, Hello, Packet, Raw};
use crate::server_fixture::{Served, TIMEOUT_MS};
use ox_proto::OpCode;
use socket2::{Domain, Socket, Type};
use std::time::{Duration, Instant};

/// Well below the ten seconds that a silent connection is left alone.
const AT_ONCE: Duration = Duration::from_secs(8);

#[test]
fn k147_the_end_is_seen_with_the_last_bytes() {
    let served = Served::start();
    for round in 0..20 {
        let mut raw = served.connect();
        if round % 2 == 0 {
            assert!(raw.handshake(&Hello::new(TIMEOUT_MS)).is_some());
        }
        // Data and end in one go, so that the system tells of both at once.
        raw.send(&[0, 0, 0, 50, 1, 2, 3]);
        raw.finish();
        let begun = Instant::now();
        raw.expect_closed();
        assert!(begun.elapsed() < AT_ONCE, "round {round}");
    }
}

#[test]
fn requests_sent_before_the_end_are_executed() {
    let served = Served::start();
    let mut client = served.client();
    client.send(&Packet::default().create(1, "/last", b"", 0));
    client.raw.finish();
    client.raw.rest();
    let mut other = served.client();
    assert_eq!(other.exists("/last").err, 0);
}

/// Behind a write answers cannot wait for the client because the state goes on.
#[test]
fn k146_answers_behind_a_write_are_bounded() {
    let served = Served::start();
    let mut client = served.client();
    let data = vec![5; 1_000_000];
    client.create("/big", &data);
    client.create("/small", b"");
    let reads =
        |count| (1..=count).fold(Packet::default().set(0, "/small", b""), |packet, xid| packet.get(xid, "/big"));
    // A client that is known for large answers is let on a few at a time.
    client.send(&reads(100));
    (0..=100).for_each(|xid| assert_eq!(client.reply().xid, xid));
    // One that is known for small ones surprises us, and is given up.
    for _ in 0..200 {
        client.ping();
    }
    client.send(&reads(500));
    let mut heard = 0;
    while client.try_reply().is_some() {
        heard += 1;
    }
    assert!(heard < 500, "all of it was kept in memory");
    // But it gets on when it comes back.
    let mut again = served.resume(&client).expect("the session lives");
    again.send(&reads(500));
    (0..=500).for_each(|xid| assert_eq!(again.reply().xid, xid));
}

/// A client whose socket takes little, so that the server stops in the middle of what it has to send.
fn narrow_client(served: &Served) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&served.address().into()).unwrap();
    Client::try_open_over(Raw::over(socket.into()), &Hello::new(TIMEOUT_MS)).expect("a session")
}

#[test]
fn k134_a_client_that_does_not_read_its_events_is_closed_rather_than_told_a_part() {
    let served = Served::start();
    let mut deaf = [served.client(), narrow_client(&served)];
    for client in &mut deaf {
        assert_eq!(client.ask(|packet, xid| packet.add_watch(xid, "/", 1)).err, 0);
    }
    let mut writer = served.client();
    let name = "n".repeat(500_000);
    let mut created = 0;
    // Enough for the buffers of two sockets, and for what may wait between them.
    for _ in 0..12 {
        let packet = (0..20).fold(Packet::default(), |packet, xid| match xid % 2 {
            0 => packet.create(xid, &format!("/{name}"), b"", 0),
            _ => packet.delete(xid, &format!("/{name}")),
        });
        writer.send(&packet);
        (0..20).for_each(|_| assert_eq!(writer.reply().err, 0));
        created += 20;
    }
    for client in &mut deaf {
        let mut heard = 0;
        while client.hear().is_some() {
            heard += 1;
        }
        assert!(heard < created, "it was closed");
        assert!(served.resume(client).is_some(), "its session lives");
    }
    assert_eq!(writer.ping().err, 0);
}

/// A transaction that fires more than sockets hold is no fault of those who hear of it.
#[test]
fn a_burst_of_events_waits_for_the_client() {
    const COUNT: usize = 100;
    let served = Served::start();
    let (mut reader, mut slow) = (served.client(), narrow_client(&served));
    for client in [&mut reader, &mut slow] {
        assert_eq!(client.ask(|packet, xid| packet.add_watch(xid, "/", 1)).err, 0);
    }
    let mut owner = served.client();
    let name = "n".repeat(200_000);
    for number in 0..COUNT {
        assert_eq!(owner.ask(|packet, xid| packet.create(xid, &format!("/{name}{number}"), b"", 1)).err, 0);
    }
    assert_eq!(owner.ask(|packet, xid| packet.close(xid)).err, 0);
    for client in [&mut reader, &mut slow] {
        for heard in 0..2 * COUNT {
            assert!(client.hear().is_some(), "{heard} events");
        }
    }
}

#[test]
fn k152_words_to_clients_that_do_not_read_delay_nobody() {
    let served = Served::with("4lw.commands.whitelist=*\n");
    let mut deaf: Vec<_> = (0..300).map(|_| served.connect()).collect();
    deaf.iter_mut().for_each(|raw| raw.send(b"srvr"));
    let mut client = served.client();
    let begun = Instant::now();
    (0..100).for_each(|_| assert_eq!(client.ping().err, 0));
    assert!(begun.elapsed() < AT_ONCE);
    for mut raw in deaf {
        let text = String::from_utf8(raw.rest()).unwrap();
        assert!(text.is_empty() || text.contains("Mode: standalone"), "{text}");
    }
}

#[test]
fn k151_what_one_request_can_ask_for_is_bounded() {
    let served = Served::start();
    let mut client = served.client();
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

/// The last answer reaches a client that goes on talking: the connection ends, it is not reset.
#[test]
fn the_last_answer_is_not_taken_back() {
    use std::io::Read;
    let served = Served::with("4lw.commands.whitelist=*\n");
    let chatter = vec![0; 300_000]; // more than is read at once
    let say = |mut raw: Raw, last_words: &[u8], answer_bytes: usize| {
        raw.send(&[last_words, &chatter].concat());
        let mut stream = raw.writer();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an end");
        assert_eq!(answer.len(), answer_bytes);
    };
    for _ in 0..20 {
        say(served.connect(), b"ruok", 4);
        say(served.client().raw, &Packet::default().raw(1, 99, b"").0, 20);
        say(served.client().raw, &Packet::default().auth(-4, "nobody", b"x").0, 20);
    }
}

/// A client that does not go after its last answer is left alone for a while, not for ever, and holds no place.
#[test]
fn who_does_not_leave_is_put_out() {
    let served = Served::with("4lw.commands.whitelist=*\nmaxClientCnxns=1\n");
    let mut raw = served.connect();
    raw.send(b"ruok");
    assert_eq!(raw.rest(), b"imok");
    let mut next = served.client();
    assert_eq!(next.ping().err, 0);
    let begun = Instant::now();
    while raw.try_send(b"x") {
        assert!(begun.elapsed() < AT_ONCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}
