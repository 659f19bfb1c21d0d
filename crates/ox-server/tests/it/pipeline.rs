//! Pipelined requests: order, completeness, and what a client may conclude from a reply.

use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use ox_proto::OpCode;
use ox_testkit::{RawClient, RawPacket, RawReceived, Rng};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn read_sees_the_write_before_it_and_not_the_one_after_it() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create("/a", b"");
    for round in 0..200 {
        let (one, two) = (format!("one{round}"), format!("two{round}"));
        let packet =
            RawPacket::default().set(1, "/a", one.as_bytes()).get(2, "/a").set(3, "/a", two.as_bytes()).get(4, "/a");
        client.send(&packet);
        let replies: Vec<_> = (0..4).map(|_| client.reply()).collect();
        assert_eq!(replies[1].data().unwrap(), one.as_bytes());
        assert_eq!(replies[3].data().unwrap(), two.as_bytes());
        assert!(replies.windows(2).all(|pair| pair[0].zxid <= pair[1].zxid));
    }
}

/// The expected reply to a request.
enum Expected {
    Ok,
    Err(i32),
    Data(Vec<u8>),
    Auth,
}

/// Random requests of one client on its own node, with the expected replies.
fn random_requests(random: &mut Rng, path: &str, count: i32) -> (Vec<u8>, Vec<(i32, Expected)>) {
    let (mut packet, mut expected, mut value) = (RawPacket::default(), Vec::new(), Vec::new());
    for xid in 1..=count {
        let (next, reply) = match random.below(12) {
            0..=2 => {
                value = format!("{}-{xid}", random.next_u64()).into_bytes();
                (packet.set(xid, path, &value), Expected::Ok)
            }
            3..=5 => (packet.get(xid, path), Expected::Data(value.clone())),
            6 => (packet.create(xid, path, b"", 0), Expected::Err(-110)),
            7 => (packet.read(xid, OpCode::Exists, "/no", false), Expected::Err(-101)),
            8 => (packet.raw(xid, OpCode::SetData.code(), &[1]), Expected::Err(-5)),
            9 => (packet.of_path(xid, OpCode::Sync, path), Expected::Ok),
            10 => (packet.auth(xid, "digest", format!("u{}:p", xid % 9).as_bytes()), Expected::Auth),
            _ => (packet.raw(xid, OpCode::Sasl.code(), &[0, 0, 0, 0]), Expected::Auth),
        };
        packet = next;
        expected.push((xid, reply));
    }
    (packet.0, expected)
}

fn check_replies(client: &mut RawClient, expected: &[(i32, Expected)]) {
    let mut last_zxid = 0;
    for (xid, expected) in expected {
        let reply = client.reply();
        assert_eq!(reply.xid, *xid, "replies arrive in the order of the requests");
        match expected {
            Expected::Ok => assert_eq!(reply.err, 0),
            Expected::Err(err) => assert_eq!(reply.err, *err),
            Expected::Data(data) => assert_eq!(reply.data().unwrap(), *data),
            Expected::Auth => assert_eq!((reply.err, reply.zxid), (0, 0)),
        }
        if reply.zxid != 0 {
            assert!(last_zxid <= reply.zxid, "zxids never go back");
            last_zxid = reply.zxid;
        }
    }
}

#[test]
fn k138_replies_arrive_in_order_for_any_mix_of_requests() {
    let server = ServerFixture::start();
    thread::scope(|scope| {
        for seed in 0..4_u64 {
            let address = server.address();
            scope.spawn(move || {
                let mut random = Rng::new(seed);
                let path = format!("/n{seed}");
                let mut client = RawClient::open(address, TIMEOUT_MS);
                client.create(&path, b"");
                for round in 0..8 {
                    let (bytes, expected) = random_requests(&mut random, &path, 500);
                    // The same requests in pieces of random size, from a few bytes to many.
                    let piece_max = [7, 100, 5000, 100_000][round % 4];
                    let mut rest = &bytes[..];
                    let mut writer = client.raw.writer();
                    let mut pieces = Rng::new(random.next_u64());
                    thread::scope(|scope| {
                        scope.spawn(move || {
                            while !rest.is_empty() {
                                let length = 1 + pieces.index(piece_max);
                                let (piece, after) = rest.split_at(length.min(rest.len()));
                                writer.write_all(piece).unwrap();
                                rest = after;
                            }
                        });
                        check_replies(&mut client, &expected);
                    });
                    client.set(&path, b"");
                }
            });
        }
    });
}

#[test]
fn million_pipelined_requests_all_get_a_reply() {
    const COUNT: i32 = 1_000_000;
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create("/a", b"x");
    let mut writer = client.raw.writer();
    thread::scope(|scope| {
        scope.spawn(move || {
            for start in (0..COUNT).step_by(1000) {
                let packet = (start..start + 1000).fold(RawPacket::default(), |packet, xid| match xid % 100 {
                    0 => packet.set(xid, "/a", b"y"),
                    1..=9 => packet.read(xid, OpCode::Exists, "/a", false),
                    _ => packet.of_path(xid, OpCode::Sync, "/a"),
                });
                writer.write_all(&packet.0).unwrap();
            }
        });
        for xid in 0..COUNT {
            let reply = client.reply();
            assert_eq!((reply.xid, reply.err), (xid, 0));
        }
    });
}

#[test]
fn requests_may_arrive_byte_by_byte() {
    let server = ServerFixture::start();
    let mut client = server.client();
    let packet = (1..=20).fold(RawPacket::default().create(0, "/a", b"", 0), |packet, xid| match xid % 3 {
        0 => packet.ping(),
        1 => packet.set(xid, "/a", b"data"),
        _ => packet.get(xid, "/a"),
    });
    for byte in packet.0 {
        client.raw.send(&[byte]);
    }
    for xid in 0..=20 {
        let expected = if xid % 3 == 0 && xid != 0 { -2 } else { xid };
        assert_eq!(client.reply().xid, expected);
    }
}

#[test]
fn k141_frame_at_the_limit_is_accepted_and_one_byte_more_is_refused() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create("/a", b"");
    let data = vec![7; 1_048_575 - 8 - 4 - 2 - 4 - 4]; // header, path, length of the data, version
    let packet = RawPacket::default().set(1, "/a", &data);
    assert_eq!(packet.0.len(), 4 + 1_048_575);
    client.send(&packet);
    assert_eq!(client.reply().err, 0);
    assert_eq!(client.get("/a").data().unwrap(), data, "a reply may be larger than a request");
    client.raw.try_send(&1_048_576_i32.to_be_bytes());
    assert_eq!(client.try_reply(), None, "refused by its length, before the rest arrives");
    let mut again = server.resume(&client).expect("the session survives");
    assert_eq!(again.exists("/a").stat().data_length, i32::try_from(data.len()).unwrap());
    for bad in [&(-1_i32).to_be_bytes()[..], &[0, 0, 0, 0], &[0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0]] {
        let mut other = server.client();
        other.raw.try_send(bad);
        assert_eq!(other.try_reply(), None, "no header: closed without a reply");
    }
}

#[test]
fn jute_maxbuffer_sets_the_frame_limit() {
    let server = ServerFixture::with_properties("", "-Djute.maxbuffer=2000");
    let mut client = server.client();
    assert_eq!(client.create("/a", &[1; 1900]).err, 0);
    client.raw.try_send(&2001_i32.to_be_bytes());
    assert_eq!(client.try_reply(), None);
}

#[test]
fn k142_requests_after_close_session_are_not_executed() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.send(&RawPacket::default().create(1, "/before", b"", 0).raw(2, 99, b"").create(3, "/after", b"", 0));
    assert_eq!((client.reply().err, client.reply().err), (0, -6));
    assert_eq!(client.try_reply(), None);
    let mut packet = RawPacket::default().create(1, "/first", b"", 0);
    packet.0.extend((-1_i32).to_be_bytes());
    let mut client = server.client();
    client.send(&packet.create(2, "/second", b"", 0));
    while client.try_reply().is_some() {}
    let mut client = server.client();
    client.send(&RawPacket::default().auth(1, "unknown", b"").create(2, "/unknown", b"", 0));
    assert_eq!(client.reply().err, -115);
    assert_eq!(client.try_reply(), None);
    // A client whose session has moved to another connection.
    let mut old = server.client();
    let mut new = server.resume(&old).unwrap();
    old.raw.try_send(&RawPacket::default().create(1, "/stale", b"", 0).0);
    assert_eq!(old.try_reply(), None);
    new.ask(|packet, xid| packet.of_path(xid, OpCode::Sync, "/"));
    assert_eq!(new.children("/"), ["before", "first", "zookeeper"]);
}

#[test]
fn session_sees_its_writes_on_every_connection() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create("/a", b"");
    for round in 0..50 {
        let value = format!("{round}");
        client.set("/a", value.as_bytes());
        client = server.resume(&client).unwrap();
        assert_eq!(client.get("/a").data().unwrap(), value.as_bytes());
    }
}

/// A client that has read a node with a watch receives the event before it sees a newer state (P47).
#[test]
fn k132_event_arrives_before_the_state_that_it_announces() {
    const ROUNDS: usize = 300;
    let server = ServerFixture::start();
    server.client().create("/hot", b"0");
    let address = server.address();
    thread::scope(|scope| {
        let watchers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = RawClient::open(address, TIMEOUT_MS);
                    (0..ROUNDS).for_each(|_| watch_one_change(&mut client));
                })
            })
            .collect();
        let mut writer = RawClient::open(address, TIMEOUT_MS);
        let mut number = 0;
        while !watchers.iter().all(thread::ScopedJoinHandle::is_finished) {
            let packet = (0..20).fold(RawPacket::default(), |packet, xid| {
                number += 1;
                packet.set(xid, "/hot", format!("{number}").as_bytes())
            });
            writer.send(&packet);
            (0..20).for_each(|_| assert_eq!(writer.reply().err, 0));
        }
    });
}

/// Reads with a watch, then without one until the data is new: the event must have arrived before.
fn watch_one_change(client: &mut RawClient) {
    let first = client.watch(OpCode::GetData, "/hot").stat().mzxid;
    let mut fired = client.events.pop_front();
    let mut last_zxid = 0;
    loop {
        let packet = (0..10).fold(RawPacket::default(), |packet, xid| packet.get(xid, "/hot"));
        client.send(&packet);
        for _ in 0..10 {
            let reply = loop {
                match client.receive().expect("the connection is open") {
                    RawReceived::Reply(reply) => break reply,
                    RawReceived::Event(event) => {
                        assert!(last_zxid < event.zxid, "a reply with zxid {last_zxid} arrived before {event:?}");
                        assert_eq!(fired.replace(event), None, "a watch fires once");
                    }
                }
            };
            last_zxid = reply.zxid;
            let is_newer = first < reply.stat().mzxid;
            assert!(!is_newer || fired.is_some(), "the new state arrived before its event");
        }
        if fired.is_some() {
            return;
        }
    }
}

#[test]
fn event_of_a_write_arrives_before_its_reply() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create("/a", b"");
    for _ in 0..50 {
        client.watch(OpCode::GetData, "/a");
        let zxid = client.set("/a", b"x").zxid;
        let event = client.events.pop_front().expect("it arrived before the reply");
        assert_eq!((event.kind, &*event.path, event.zxid), (3, "/a", zxid));
    }
}

#[test]
fn k139_no_request_is_stuck_without_a_cause() {
    // More writes than may be in flight, and no other event that would wake a thread.
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create("/a", &vec![1; 10_000]);
    let mut writer = client.raw.writer();
    thread::scope(|scope| {
        scope.spawn(move || {
            let packet = (1..=10_000).fold(RawPacket::default(), |packet, xid| packet.set(xid, "/a", b"x"));
            writer.write_all(&packet.0).unwrap();
        });
        (1..=10_000).for_each(|xid| assert_eq!(client.reply().xid, xid));
    });
    // More replies than may be unsent, with and without a write before them.
    client.set("/a", &vec![1; 10_000]);
    for first in [None, Some(0)] {
        let mut packet = RawPacket::default();
        if let Some(xid) = first {
            packet = packet.set(xid, "/a", &vec![2; 10_000]);
        }
        let packet = (1..=2000).fold(packet, |packet, xid| packet.get(xid, "/a"));
        client.send(&packet);
        (first.into_iter().chain(1..=2000)).for_each(|xid| assert_eq!(client.reply().xid, xid));
    }
    // One request at a time: a lost wake-up costs the second until the next periodic check.
    let begun = Instant::now();
    (0..1000).for_each(|_| assert_eq!(client.set("/a", b"x").err, 0));
    assert!(begun.elapsed() < Duration::from_secs(50));
}

#[test]
fn k139_no_configured_limit_makes_a_request_wait_forever() {
    for settings in [
        "globalOutstandingLimit=1\n",
        "request_throttle_max_requests=1\nrequest_throttle_stall_time=1\n",
        "request_throttle_max_requests=3\nrequest_throttle_stall_time=5\nlargeRequestThreshold=100\n",
    ] {
        let server = ServerFixture::with(settings);
        server.client().create("/a", b"");
        thread::scope(|scope| {
            for number in 0..5 {
                let address = server.address();
                scope.spawn(move || {
                    let mut client = RawClient::open(address, TIMEOUT_MS);
                    let data = vec![1; 10 + 100 * number];
                    for _ in 0..5 {
                        let packet = (1..=100).fold(RawPacket::default(), |packet, xid| match xid % 4 {
                            0 => packet.get(xid, "/a"),
                            _ => packet.set(xid, "/a", &data),
                        });
                        client.send(&packet);
                        (1..=100).for_each(|xid| assert_eq!(client.reply().xid, xid));
                    }
                });
            }
        });
    }
}

#[test]
fn large_requests_are_limited_together() {
    let server = ServerFixture::with("largeRequestThreshold=1000\nlargeRequestMaxBytes=5000\n");
    let mut client = server.client();
    client.create("/a", b"");
    for _ in 0..20 {
        assert_eq!(client.set("/a", &[1; 4000]).err, 0, "one at a time is within the limit");
    }
    client.raw.try_send(&RawPacket::default().set(1, "/a", &[2; 6000]).0);
    assert_eq!(client.try_reply(), None, "too large by itself");
    let mut other = server.client();
    other.raw.try_send(&6000_i32.to_be_bytes());
    assert_eq!(other.try_reply(), None, "refused by its length");
    assert_eq!(server.client().set("/a", &[1; 4000]).err, 0, "the limit is free again");
}

/// Writes of other clients delay a request for longer than it may wait: it is refused, in order.
#[test]
fn request_that_waited_too_long_is_refused() {
    let settings = "request_throttle_max_requests=1\nrequest_throttle_stall_time=30\nthrottled_op_wait_time=5\n";
    let server = ServerFixture::with(settings);
    let address = server.address();
    server.client().create("/a", b"");
    thread::scope(|scope| {
        let late = scope.spawn(move || {
            let mut client = RawClient::open(address, TIMEOUT_MS);
            let begun = Instant::now();
            loop {
                assert!(begun.elapsed() < Duration::from_secs(30), "not one was late");
                client.send(&RawPacket::default().set(1, "/a", b"").get(2, "/a").ping());
                let (write, read, ping) = (client.reply(), client.reply(), client.reply());
                assert!([0, -127].contains(&write.err) && [0, -127].contains(&read.err));
                assert_eq!((write.xid, read.xid, ping.xid, ping.err), (1, 2, -2, 0));
                if write.err == -127 {
                    return;
                }
            }
        });
        while !late.is_finished() {
            let mut busy = RawClient::open(address, TIMEOUT_MS);
            busy.send(&(1..=50).fold(RawPacket::default(), |packet, xid| packet.set(xid, "/a", b"x")));
            (1..=50).for_each(|xid| assert_eq!(busy.reply().xid, xid));
        }
    });
}

/// Small requests with large replies, from a client that reads every reply: the server must not accept requests faster
/// than it replies to them.
#[test]
fn k146_requests_are_read_no_faster_than_their_replies_are_sent() {
    const ANSWERS: usize = 3000;
    const SOCKETS_HOLD: usize = 12 << 20;
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create("/a", &vec![1; 200_000]);
    let mut writer = client.raw.writer();
    let many = (0..10_000).fold(RawPacket::default(), |packet, _| packet.get(1, "/a"));
    let pusher = thread::spawn(move || {
        let mut pushed = 0;
        while let Ok(count @ 1..) = writer.write(&many.0[pushed % many.0.len()..]) {
            pushed += count;
        }
        pushed
    });
    (0..ANSWERS).for_each(|_| assert_eq!(client.reply().err, 0));
    client.raw.shut_down();
    assert!(pusher.join().unwrap() < SOCKETS_HOLD, "the server queues requests");
}
