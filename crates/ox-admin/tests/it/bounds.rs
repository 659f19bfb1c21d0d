//! Bounds: long heads, silent clients, foreign hosts.

use crate::harness::Harness;
use ox_testkit::HttpReply;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn long_head_is_refused() {
    let harness = Harness::new();
    let mut stream = TcpStream::connect(harness.address()).unwrap();
    let head = format!("GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    let _ = stream.write_all(head.as_bytes()); // the server may close before it has read everything
    let status = HttpReply::read(&mut stream).map(|reply| reply.status);
    assert!(status.as_ref().map_or(true, |status| *status == 431), "{status:?}");
    assert_eq!(harness.get("/livez").status, 200);
}

/// A client that sends half a request is disconnected; others are served meanwhile.
#[test]
fn silent_clients_are_disconnected() {
    let harness = Harness::with(|_| (), |admin| admin.idle_timeout_ms = 300);
    let mut silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(harness.address()).unwrap()).collect();
    silent.iter_mut().for_each(|stream| stream.write_all(b"GET /commands/ruok HTT").unwrap());
    assert_eq!(harness.get("/commands/ruok").status, 200);
    for mut stream in silent {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        assert!(read.is_ok() || read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
    }
}

#[test]
fn requests_with_a_foreign_host_are_refused() {
    let harness = Harness::new();
    for path in ["/commands/ruok", "/metrics", "/livez"] {
        assert_eq!(harness.send("GET", path, &[("Host", "attacker.example")]).status, 421, "{path}");
        assert_eq!(harness.send("GET", path, &[("Host", "127.0.0.1:1")]).status, 200, "{path}");
    }
}

#[test]
fn garbage_closes_the_connection_only() {
    let harness = Harness::new();
    for bytes in [&b"\x16\x03\x01\x00\x05hello"[..], b"GET\r\n\r\n", b"\0\0\0\x2d\0\0\0\0", b"GET / HTTP/9.9\r\n\r\n"] {
        let mut stream = TcpStream::connect(harness.address()).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest); // a reply or a reset
    }
    assert_eq!(harness.get("/livez").status, 200);
}
