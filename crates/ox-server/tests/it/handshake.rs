//! The handshake, and other first bytes of a connection.

use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use ox_proto::connect::ConnectResponse;
use ox_proto::password::session_password;
use ox_proto::{OpCode, SessionId};
use ox_testkit::{RawClient, RawConnection, RawHandshake, RawPacket, RawReply};

/// Sends a handshake; `None` when the connection is closed without a reply.
fn handshake(server: &ServerFixture, hello: &RawHandshake) -> Option<ConnectResponse> {
    server.connect().handshake(hello)
}

#[test]
fn new_session_gets_an_id_and_its_password() {
    let server = ServerFixture::start();
    let hello = handshake(&server, &RawHandshake::new(TIMEOUT_MS)).unwrap();
    assert_eq!(hello.session.0 >> 56, 1, "a standalone server has id 1");
    assert_eq!(hello.password, session_password(hello.session));
    assert_eq!((hello.timeout_ms, hello.read_only), (TIMEOUT_MS, Some(false)));
}

#[test]
fn k108_old_client_gets_a_reply_without_the_last_byte() {
    let server = ServerFixture::start();
    for (read_only, length) in [(None, 36), (Some(false), 37), (Some(true), 37)] {
        let mut raw = server.connect();
        raw.send(&RawHandshake { read_only, ..RawHandshake::new(TIMEOUT_MS) }.frame());
        assert_eq!(raw.frame().unwrap().len(), length);
    }
}

#[test]
fn timeout_is_clamped_to_the_bounds() {
    let server = ServerFixture::with("maxSessionTimeout=40000\n");
    for (requested, granted) in [
        (-5, 4000),
        (0, 4000),
        (3999, 4000),
        (4001, 4001),
        (40_000, 40_000),
        (40_001, 40_000),
        (i32::MAX, 40_000),
        (i32::MIN, 4000),
    ] {
        assert_eq!(
            handshake(&server, &RawHandshake::new(requested)).unwrap().timeout_ms,
            granted,
            "requested {requested}"
        );
    }
}

#[test]
fn password_of_a_new_session_is_ignored() {
    let server = ServerFixture::start();
    for password in [None, Some(vec![]), Some(vec![7; 3]), Some(vec![7; 16]), Some(vec![7; 1000])] {
        assert!(
            handshake(&server, &RawHandshake { password, ..RawHandshake::new(TIMEOUT_MS) }).unwrap().session
                != SessionId::NONE
        );
    }
}

#[test]
fn bytes_after_the_record_are_ignored() {
    let server = ServerFixture::start();
    let mut frame = RawHandshake::new(TIMEOUT_MS).frame();
    frame.extend([9; 100]);
    let length = u32::try_from(frame.len() - 4).unwrap();
    frame[..4].copy_from_slice(&length.to_be_bytes());
    let mut raw = server.connect();
    raw.send(&frame);
    assert_eq!(raw.frame().unwrap().len(), 37);
}

#[test]
fn malformed_handshake_is_closed_without_a_reply() {
    let server = ServerFixture::start();
    let frame = RawHandshake::new(TIMEOUT_MS).frame();
    let cut = |length: usize| {
        let mut cut = frame[..4 + length].to_vec();
        cut[..4].copy_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
        cut
    };
    let mut bad_password = frame.clone();
    bad_password[28..32].copy_from_slice(&(-2_i32).to_be_bytes());
    let mut long_password = frame.clone();
    long_password[28..32].copy_from_slice(&i32::MAX.to_be_bytes());
    for bytes in [
        cut(0),
        cut(27),
        cut(43),
        bad_password,
        long_password,
        vec![0xff; 4],
        i32::MIN.to_be_bytes().to_vec(),
        i32::MAX.to_be_bytes().to_vec(),
        1_048_576_i32.to_be_bytes().to_vec(),
        b"GET / HTTP/1.1\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00".to_vec(),
    ] {
        let mut raw = server.connect();
        raw.try_send(&bytes);
        raw.expect_closed();
    }
    assert_eq!(cut(44).len(), 48);
    assert!(handshake(&server, &RawHandshake::new(TIMEOUT_MS)).is_some(), "other clients are served as before");
}

#[test]
fn k133_client_ahead_of_the_server_is_refused() {
    let server = ServerFixture::start();
    let zxid = server.client().ping().zxid;
    for (seen, taken) in [(zxid, true), (zxid + 100, false), (-1, true), (i64::MIN, true), (i64::MAX, false)] {
        let hello = RawHandshake { last_zxid_seen: seen, ..RawHandshake::new(TIMEOUT_MS) };
        assert_eq!(handshake(&server, &hello).is_some(), taken, "seen {seen}");
    }
}

#[test]
fn k119_session_is_resumed_or_refused_but_never_replaced() {
    let server = ServerFixture::start();
    let first = server.client();
    let refused = |hello: &RawHandshake| {
        let mut raw = server.connect();
        let reply = raw.handshake(hello).unwrap();
        raw.expect_closed();
        assert_eq!(reply, ConnectResponse::refused(Some(false)));
    };
    refused(&RawHandshake {
        session: SessionId(77),
        password: Some(session_password(SessionId(77)).into()),
        ..hello(&first)
    });
    refused(&RawHandshake { password: Some(vec![0; 16]), ..hello(&first) });
    refused(&RawHandshake { password: None, ..hello(&first) });
    refused(&RawHandshake { password: Some(first.hello.password[..15].to_vec()), ..hello(&first) });
    let again = server.resume(&first).expect("the session is alive");
    assert_eq!(again.hello, first.hello);
    assert_eq!(again.close().err, 0);
    refused(&hello(&first));
}

fn hello(client: &RawClient) -> RawHandshake {
    RawHandshake::resume(&client.hello)
}

#[test]
fn k115_wrong_password_closes_the_connection_and_keeps_the_session() {
    let server = ServerFixture::start();
    let mut client = server.client();
    client.create_as("/e", 1);
    let refused = handshake(&server, &RawHandshake { password: Some(vec![1; 16]), ..hello(&client) }).unwrap();
    assert_eq!(refused.session, SessionId::NONE);
    assert_eq!(client.try_reply(), None, "closed without a reply");
    let mut again = server.resume(&client).expect("the session is alive");
    assert_eq!(again.exists("/e").stat().ephemeral_owner, client.session().0);
    assert_eq!(again.set("/e", b"1").err, 0, "and writes are accepted");
}

#[test]
fn newest_connection_owns_the_session() {
    let server = ServerFixture::start();
    let mut clients = vec![server.client()];
    for _ in 0..20 {
        let next = server.resume(clients.last().unwrap()).expect("the session is alive");
        clients.push(next);
    }
    let mut last = clients.pop().unwrap();
    for mut old in clients {
        assert_eq!(old.try_reply(), None);
    }
    assert_eq!(last.create("/a", b"").err, 0);
}

#[test]
fn timeout_is_negotiated_again_at_every_handshake() {
    let server = ServerFixture::start();
    let client = server.client();
    let again = RawClient::try_open(server.address(), &RawHandshake { timeout_ms: 5000, ..hello(&client) }).unwrap();
    assert_eq!(again.hello.timeout_ms, 5000);
}

#[test]
fn requests_may_follow_the_handshake_in_the_same_packet() {
    let server = ServerFixture::start();
    let mut bytes = RawHandshake::new(TIMEOUT_MS).frame();
    let requests = RawPacket::default().auth(-4, "digest", b"a:b").create(1, "/a", b"x", 0).get(2, "/a").ping();
    bytes.extend(requests.0);
    let mut raw = server.connect();
    raw.send(&bytes);
    raw.frame().unwrap();
    let replies: Vec<_> = (0..4).map(|_| RawReply::decode(&raw.frame().unwrap())).collect();
    assert_eq!(
        replies.iter().map(|reply| (reply.xid, reply.err)).collect::<Vec<_>>(),
        [(-4, 0), (1, 0), (2, 0), (-2, 0)]
    );
    assert_eq!(replies[2].data().unwrap(), b"x");
}

#[test]
fn requests_after_a_refused_handshake_are_dropped() {
    let server = ServerFixture::start();
    let mut bytes = RawHandshake { session: SessionId(5), ..RawHandshake::new(TIMEOUT_MS) }.frame();
    bytes.extend(RawPacket::default().create(1, "/dropped", b"", 0).0);
    let mut raw = server.connect();
    raw.send(&bytes);
    assert_eq!(ConnectResponse::decode(&raw.frame().unwrap()), Ok(ConnectResponse::refused(Some(false))));
    raw.expect_closed();
    assert_eq!(server.client().exists("/dropped").err, -101);
}

#[test]
fn handshake_may_arrive_byte_by_byte() {
    let server = ServerFixture::start();
    let mut raw = server.connect();
    for byte in RawHandshake::new(TIMEOUT_MS).frame() {
        raw.send(&[byte]);
    }
    assert_eq!(raw.frame().unwrap().len(), 37);
}

/// Frames before the handshake are limited to a small size, because the sender is not authenticated.
#[test]
fn k144_handshake_has_a_size_limit_and_a_budget_of_its_own() {
    let server = ServerFixture::with("globalOutstandingLimit=1\n");
    let mut raw = server.connect();
    raw.try_send(&(64_i32 << 10 | 1).to_be_bytes());
    raw.expect_closed();
    // New connections are served, however many requests of other clients are in flight.
    let mut busy = server.client();
    busy.create("/busy", b"");
    let packet = (1..=1000).fold(RawPacket::default(), |packet, xid| packet.set(xid, "/busy", b"x"));
    busy.send(&packet);
    for _ in 0..20 {
        server.client().close();
    }
    assert!((1..=1000).all(|xid| busy.reply().xid == xid));
}

#[test]
fn commands_are_recognised_at_the_start_of_a_connection_only() {
    let server = ServerFixture::with("4lw.commands.whitelist=ruok,stmk,gtmk\n");
    let ask = |pieces: &[&[u8]]| {
        let mut raw = server.connect();
        pieces.iter().for_each(|piece| raw.send(piece));
        String::from_utf8(raw.rest()).unwrap()
    };
    assert_eq!(ask(&[b"ruok"]), "imok");
    assert_eq!(ask(&[b"r", b"uo", b"k"]), "imok");
    assert_eq!(ask(&[b"ruok\n and more"]), "imok");
    assert!(ask(&[b"dump"]).contains("not in the whitelist"));
    let mut mask = server.connect();
    for byte in *b"stmk\0\0\0\0\0\0\0\x07" {
        mask.send(&[byte]); // a command that waits for eight more bytes
    }
    assert_eq!(mask.rest(), b"7");
    assert_eq!(ask(&[b"gtmk"]), "7");
    let mut half_closed = server.connect();
    half_closed.send(b"ruok");
    half_closed.finish();
    assert_eq!(half_closed.rest(), b"imok");
    let mut client = server.client();
    client.raw.send(b"ruok");
    assert_eq!(client.try_reply(), None, "taken for a length that is too large");
}

/// Connections count towards the limits from accept on.
#[test]
fn connections_are_limited_by_address_and_in_total() {
    for settings in ["maxClientCnxns=3\n", "maxCnxns=3\n"] {
        let server = ServerFixture::with(settings);
        let mut kept: Vec<RawConnection> = Vec::new();
        for _ in 0..3 {
            let mut raw = server.connect();
            assert!(raw.handshake(&RawHandshake::new(TIMEOUT_MS)).is_some());
            kept.push(raw);
        }
        for _ in 0..600 {
            server.connect().expect_closed();
        }
        kept.pop();
        // The connection is uncounted as soon as the server has noticed its end.
        let refused = (0..1000).take_while(|_| {
            let mut raw = server.connect();
            raw.try_send(&RawHandshake::new(TIMEOUT_MS).frame());
            raw.frame().is_none()
        });
        assert!(refused.count() < 1000);
    }
}

#[test]
fn sessions_use_tokens_of_the_throttle() {
    let server = ServerFixture::with("connection_throttle_tokens=5\nconnection_throttle_fill_time=100000\n");
    let taken = (0..20).filter(|_| handshake(&server, &RawHandshake::new(TIMEOUT_MS)).is_some()).count();
    assert_eq!(taken, 5);
    let weighed = "connection_throttle_tokens=2\nconnection_throttle_fill_time=100000\n\
                   connection_throttle_weight_enabled=true\n";
    let server = ServerFixture::with(weighed); // six tokens: a new session takes three, a resumed one two
    let client = server.client();
    assert!(server.resume(&client).is_some());
    assert!(handshake(&server, &RawHandshake::new(TIMEOUT_MS)).is_none(), "one token is left");
}

#[test]
fn connection_without_a_session_is_closed_after_the_timeout() {
    let server = ServerFixture::with("nio.sessionlessCnxnTimeout=100\n");
    let silent = server.connect();
    let mut half = server.connect();
    half.send(&[0, 0, 0, 45, 1, 2]);
    for mut raw in [silent, half] {
        raw.expect_closed();
    }
}

#[test]
fn unknown_opcode_gets_an_error_reply_and_closes_the_connection() {
    let server = ServerFixture::start();
    let known: Vec<i32> = OpCode::ALL.iter().map(|op| op.code()).collect();
    let refused = [-10, -1, 0, 13, 20];
    for op in (-20..=120).chain([i32::MIN, i32::MAX]) {
        if known.contains(&op) && !refused.contains(&op) {
            continue;
        }
        let mut client = server.client();
        client.send(&RawPacket::default().ping().raw(7, op, b"").get(8, "/"));
        assert_eq!(client.reply().xid, -2);
        let reply = client.reply();
        assert_eq!((reply.xid, reply.zxid, reply.err), (7, -1, -6), "opcode {op}");
        assert_eq!(client.try_reply(), None, "opcode {op}");
        assert!(server.resume(&client).is_some(), "the session survives");
    }
}
