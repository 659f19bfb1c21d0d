//! Handshakes that do not end, or never begin.

use crate::four_letter_client::ALL_COMMANDS;
use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use crate::tls_client::Certificates;
use ox_testkit::{RawClient, RawConnection, RawHandshake};

/// The first bytes of a ClientHello: a record that announces more than follows.
const HALF_HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];

#[test]
fn oldest_handshake_is_closed_beyond_the_limit() {
    let certificates = Certificates::new();
    let limit = "netty.server.outstandingHandshake.limit=4\n";
    let server = ServerFixture::with(&format!("{}{limit}{ALL_COMMANDS}", certificates.secure_port()));
    let mut silent: Vec<RawConnection> = Vec::new();
    for number in 0..4 {
        let mut raw = RawConnection::connect(server.secure_address());
        if number % 2 == 0 {
            raw.send(HALF_HELLO);
        }
        silent.push(raw);
    }
    server.await_metric("outstanding_tls_handshake", "4");
    certificates.client("alice").open(server.secure_address());
    assert_eq!(silent[0].rest(), b"", "the oldest one");
    server.await_metric("tls_handshake_exceeded", "1");
    server.await_metric("outstanding_tls_handshake", "3");
}

/// A client whose handshake has begun has time for its next flight, however many others begin meanwhile.
#[test]
fn flood_of_new_handshakes_does_not_close_an_answered_one() {
    let certificates = Certificates::new();
    let limit = "netty.server.outstandingHandshake.limit=8\n";
    let server = ServerFixture::with(&format!("{}{limit}{ALL_COMMANDS}", certificates.secure_port()));
    let begun = certificates.client("alice").begin(server.secure_address()).unwrap();
    begun.await_answer();
    let _flood: Vec<_> = (0..40).map(|_| RawConnection::connect(server.secure_address())).collect();
    server.await_metric("tls_handshake_exceeded", "33");
    let (raw, _report) = begun.finish().unwrap();
    assert!(RawClient::try_open_over(raw, &RawHandshake::new(TIMEOUT_MS)).is_some());
}

#[test]
fn answered_handshakes_that_are_abandoned_do_not_keep_new_clients_out() {
    let certificates = Certificates::new();
    let limit = "netty.server.outstandingHandshake.limit=8\n";
    let server = ServerFixture::with(&format!("{}{limit}{ALL_COMMANDS}", certificates.secure_port()));
    let client = certificates.client("alice");
    let _abandoned: Vec<_> = (0..40).map(|_| client.begin(server.secure_address()).unwrap()).collect();
    client.open(server.secure_address()).create("/a", b"");
    server.await_metric("outstanding_tls_handshake", "7");
}

#[test]
fn silent_connection_to_a_unified_port_is_closed_in_time() {
    let certificates = Certificates::new();
    let settings = "client.portUnification=true\nssl.handshakeDetectionTimeoutMillis=100\n";
    let server = ServerFixture::with(&format!("{}{settings}{ALL_COMMANDS}", certificates.stores()));
    assert_eq!(server.connect().rest(), b"");
    assert_eq!(server.metric("unsuccessful_handshake"), "1");
    let mut plain = server.client();
    assert_eq!(plain.create("/a", b"").err, 0, "the time counts until the first byte only");
}

#[test]
fn hostile_handshakes_do_not_harm_other_clients() {
    let certificates = Certificates::new();
    let server = ServerFixture::with(&format!("{}{ALL_COMMANDS}", certificates.secure_port()));
    let client = certificates.client("alice");
    let mut served = client.open(server.secure_address());
    served.create("/a", b"");
    let mut open: Vec<RawConnection> = Vec::new();
    for number in 0..200_u32 {
        let mut raw = RawConnection::connect(server.secure_address());
        match number % 4 {
            0 => (),
            1 => raw.send(HALF_HELLO),
            2 => _ = raw.try_send(&[HALF_HELLO, &[0xff; 2000]].concat()),
            _ => _ = raw.try_send(&[&[0x16, 3, 3, 0x40, 0][..], &[1, 0xff, 0xff, 0xff], &[0; 0x3ffc]].concat()),
        }
        assert_eq!(served.get("/a").err, 0);
        open.push(raw);
    }
    assert_eq!(client.open(server.secure_address()).get("/a").err, 0);
    drop(open);
    server.await_metric("outstanding_tls_handshake", "0");
    server.await_metric("num_alive_connections", "2");
}

/// A handshake counts as a connection of its address, so that the limit of connections holds for it too.
#[test]
fn handshakes_count_for_the_limit_per_address() {
    let certificates = Certificates::new();
    let server = ServerFixture::with(&format!("{}maxClientCnxns=2\n{ALL_COMMANDS}", certificates.secure_port()));
    let _silent: Vec<_> = (0..2).map(|_| RawConnection::connect(server.secure_address())).collect();
    server.await_metric("outstanding_tls_handshake", "2");
    assert_eq!(RawConnection::connect(server.secure_address()).rest(), b"", "beyond the limit");
    server.client().create("/a", b""); // each port has a limit of its own
}
