//! Clients that make the server hold as much as possible, against a small memory budget.

use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use ox_testkit::{RawClient, RawHandshake, RawPacket};
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const BUDGET: usize = 16 << 20;
const SETTINGS: &str = "4lw.commands.whitelist=*\noxkeeper.memoryBudget=16777216\n";
/// Each share may be exceeded by one request or reply, and by what one iteration of an I/O thread receives.
const BEYOND: usize = 8 << 20;
const LARGE: usize = 1_000_000;
/// Enough to exceed the budget several times without the limits.
const CLIENTS: usize = 100;

fn used(server: &ServerFixture) -> usize {
    server.metric("client_memory_bytes").parse().unwrap()
}

/// Runs `flood` while a well-behaved client reads and writes small nodes, and checks the memory in use.
fn check_flood(server: &ServerFixture, flood: impl FnOnce() -> Vec<RawClient>) {
    assert_eq!(server.metric("client_memory_limit_bytes"), BUDGET.to_string());
    let (ends, peak, requests) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                peak.fetch_max(used(server), Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            let mut client = server.client();
            while !ends.load(Ordering::Relaxed) {
                assert_eq!(client.set("/small", b"x").err, 0);
                assert_eq!(client.get("/small").data().unwrap(), b"x");
                assert_eq!(client.ping().err, 0);
                requests.fetch_add(1, Ordering::Relaxed);
            }
        });
        let hostile = flood();
        // The other client is served while the flood lasts.
        let (before, begun) = (requests.load(Ordering::Relaxed), Instant::now());
        while requests.load(Ordering::Relaxed) < before + 20 {
            assert!(begun.elapsed() < Duration::from_secs(50), "the well-behaved client is not served");
            std::thread::yield_now();
        }
        ends.store(true, Ordering::Relaxed);
        drop(hostile);
    });
    let peak = peak.into_inner();
    assert!(peak < BUDGET + BEYOND, "{peak} bytes of {BUDGET}");
    server.await_metric("client_memory_bytes", "0");
}

fn prepared() -> ServerFixture {
    let server = ServerFixture::with(SETTINGS);
    let mut client = server.client();
    assert_eq!(client.create("/small", b"").err, 0);
    assert_eq!(client.create("/large", &vec![1; LARGE]).err, 0);
    server
}

#[test]
fn memory_for_incomplete_requests_is_bounded_and_released() {
    let server = prepared();
    check_flood(&server, || {
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
        let frame = RawPacket::default().set(1, "/large", &vec![2; LARGE]).0;
        for client in &mut clients {
            client.raw.writer().set_nonblocking(true).unwrap();
            client.raw.try_send(&frame[..LARGE / 10 * 9]); // as much as the server takes
        }
        clients
    });
}

#[test]
fn memory_for_large_writes_is_bounded_and_all_get_a_reply() {
    let server = prepared();
    check_flood(&server, || {
        let packet = (1..=5).fold(RawPacket::default(), |packet, xid| packet.set(xid, "/large", &vec![3; LARGE]));
        let mut clients: Vec<_> = (0..CLIENTS / 5).map(|_| server.client()).collect();
        std::thread::scope(|scope| {
            for client in &mut clients {
                let packet = &packet;
                scope.spawn(move || {
                    client.send(packet);
                    (1..=5)
                        .for_each(|xid| assert_eq!((client.reply().xid, client.hello.timeout_ms), (xid, TIMEOUT_MS)));
                });
            }
        });
        clients
    });
}

#[test]
fn memory_for_unread_replies_is_bounded_and_released() {
    let server = prepared();
    check_flood(&server, || {
        let packet = (1..=20).fold(RawPacket::default(), |packet, xid| packet.get(xid, "/large"));
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| client.send(&packet));
        clients
    });
}

/// Reads that follow a write are executed when it is applied, whatever the client has read by then.
#[test]
fn memory_for_replies_that_follow_a_write_is_bounded_and_released() {
    let server = prepared();
    check_flood(&server, || {
        let packet =
            (1..=30).fold(RawPacket::default().set(0, "/small", b"x"), |packet, xid| packet.get(xid, "/large"));
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
        clients.iter_mut().for_each(|client| client.send(&packet));
        clients
    });
}

#[test]
fn memory_for_unread_events_is_bounded_and_released() {
    let server = prepared();
    assert_eq!(server.client().create("/watched", b"").err, 0);
    check_flood(&server, || {
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
        for client in &mut clients {
            assert_eq!(client.ask(|packet, xid| packet.add_watch(xid, "/watched", 1)).err, 0);
        }
        let (mut writer, path) = (server.client(), format!("/watched/{}", "n".repeat(100_000)));
        for _ in 0..50 {
            assert_eq!(writer.create(&path, b"").err, 0);
            assert_eq!(writer.ask(|packet, xid| packet.delete(xid, &path)).err, 0);
        }
        clients
    });
}

/// A request larger than the whole budget is received, logged and replied to, and so is the next.
#[test]
fn request_larger_than_the_budget_is_served() {
    let settings = "4lw.commands.whitelist=*\noxkeeper.memoryBudget=8388608\n";
    let server = ServerFixture::with_properties(settings, "-Djute.maxbuffer=40000000");
    let data = vec![7; 20_000_000];
    let mut clients = [server.client(), server.client()];
    assert_eq!(clients[0].create("/large", b"").err, 0);
    for client in &mut clients {
        assert_eq!(client.set("/large", &data).err, 0);
        assert_eq!(client.get("/large").data().unwrap(), data);
    }
    server.await_metric("client_memory_bytes", "0");
}

/// The server does not read a connection that waits for memory, so it must not regard its client as silent.
#[test]
fn session_of_a_connection_that_waits_for_memory_does_not_expire() {
    let settings = "4lw.commands.whitelist=*\noxkeeper.memoryBudget=8388608\ntickTime=200\nmaxSessionTimeout=30000\n";
    let server = ServerFixture::with(settings);
    let mut client = server.client();
    assert_eq!(client.create("/large", b"").err, 0);
    // They hold the share of requests being received, and send fast enough not to be closed.
    let frame = RawPacket::default().set(1, "/large", &vec![2; LARGE]).0;
    let mut holders = [server.client(), server.client(), server.client()];
    holders.iter_mut().for_each(|holder| holder.raw.send(&frame[..LARGE / 5]));
    while used(&server) < 3 * LARGE {}
    let mut waiting = RawClient::try_open(server.address(), &RawHandshake::new(400)).expect("a session");
    assert_eq!(waiting.hello.timeout_ms, 400);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| waiting.set("/large", &vec![3; LARGE]).err);
        let mut at = LARGE / 5;
        while at < frame.len() {
            std::thread::sleep(Duration::from_millis(200));
            let end = frame.len().min(at + LARGE / 20);
            holders.iter_mut().for_each(|holder| holder.raw.send(&frame[at..end]));
            at = end;
        }
        holders.iter_mut().for_each(|holder| assert_eq!(holder.reply().err, 0));
        assert_eq!(writer.join().unwrap(), 0);
    });
    let mut closed = [0; 1];
    waiting.raw.writer().set_nonblocking(true).unwrap();
    let read = waiting.raw.writer().read(&mut closed);
    assert!(read.is_err(), "no reply arrives, and the connection is open: {read:?}");
}
