//! One I/O thread, iteration by iteration, with a clock that the test moves. Without a replica, the test sees what
//! would be submitted to it, and sets how much memory all threads hold.

use super::*;
use crate::four_letter;
use crate::global_limits::Growth;
use crate::mailbox::Mailbox;
use crate::options::{store_options, tree_options};
use ox_config::Config;
use ox_proto::connect::ConnectRequest;
use ox_proto::request::{SetDataRequest, put_request};
use ox_proto::{SessionId, Zxid};
use ox_replica::LastSeen;
use ox_replica::outbox::{Outbox, PartKind};
use ox_store::Store;
use ox_store::disk::RealDisk;
use std::io::Write;
use std::net::{Shutdown, TcpStream as Client};
use tempfile::TempDir;

const BUDGET_BYTES: u64 = 8 << 20;
const LARGE: usize = SMALL_BYTES + 1000;

struct Driver {
    io: IoThread,
    events: Events,
    now_ms: i64,
    held_bytes: usize,
    listener: std::net::TcpListener,
    _dir: TempDir,
}

fn driver() -> Driver {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::default_standalone();
    (config.data_dir, config.data_log_dir) = (dir.path().to_owned(), dir.path().to_owned());
    config.limits.memory_budget_bytes = Some(BUDGET_BYTES);
    config.storage.pre_alloc_bytes = 1 << 10;
    let opened = Store::open(Arc::new(RealDisk), &store_options(&config), &tree_options(&config, 1), 1).unwrap();
    let poll = Poll::new().unwrap();
    let mailbox = Mailbox::new(mio::Waker::new(poll.registry(), WAKER).unwrap());
    let shared = Arc::new(Shared::new(config, opened.state, opened.store, vec![mailbox]));
    let io = IoThread::new(0, poll, shared, four_letter::queue().0);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    Driver { io, events: Events::with_capacity(1024), now_ms: 1000, held_bytes: 0, listener, _dir: dir }
}

impl Driver {
    /// One iteration, `ms` after the last one, with the events that have arrived by then.
    fn pass(&mut self, ms: i64) {
        self.now_ms += ms;
        self.io.poll.poll(&mut self.events, Some(Duration::ZERO)).unwrap();
        self.io.on_events(&self.events, self.now_ms);
        self.io.run_iteration(Now { mono_ms: self.now_ms, wall_ms: self.now_ms });
    }

    /// Iterations until the kernel has done what the test waits for.
    fn pass_until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        for _ in 0..10_000 {
            self.pass(0);
            if is_so(self) {
                return;
            }
            std::thread::yield_now();
        }
        panic!("{what}");
    }

    /// A client with a session timeout of 40 s.
    fn connect(&mut self) -> (usize, Client) {
        let (slot, client) = self.open();
        self.attach(slot);
        (slot, client)
    }

    fn open(&mut self) -> (usize, Client) {
        let client = Client::connect(self.listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        let (stream, address) = self.listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        self.io.shared.connections.admit(address.ip(), 0, 0).expect("no limit");
        let slot = self.io.free.last().copied().unwrap_or(self.io.conns.len());
        self.io.add(TcpStream::from_std(stream), address);
        (slot, client)
    }

    fn attach(&mut self, slot: usize) {
        let mut outbox = Outbox::default();
        outbox.push(self.conn(slot).core.id(), PartKind::Attached(SessionId(1 + slot as i64), 40_000), |_| ());
        self.io.shared.post(0, outbox);
        self.pass(0);
    }

    /// Sends everything, with iterations while the socket is full.
    fn send(&mut self, client: &mut Client, mut bytes: &[u8]) {
        for _ in 0..10_000 {
            match client.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(_) => self.pass(0),
            }
            if bytes.is_empty() {
                return;
            }
        }
        panic!("the connection is not read");
    }

    fn conn(&self, slot: usize) -> &Connection {
        self.io.conns[slot].as_ref().expect("it is open")
    }

    /// Sets the bytes of requests in flight that all threads hold together.
    fn hold(&mut self, bytes: usize) {
        self.held_bytes = bytes;
        self.io.shared.global_limits.set_held(Load { requests: 0, bytes });
    }

    /// Connections of the requests submitted since the last call.
    fn submitted(&self) -> Vec<usize> {
        let input = self.io.shared.inbox.take(Duration::ZERO);
        let items = input.submissions.iter().flat_map(|submission| &submission.entries);
        let slots = items
            .filter(|item| matches!(item.input, ClientInput::Request { .. }))
            .map(|item| item.conn.slot())
            .collect();
        for submission in input.submissions {
            self.io.shared.global_limits.on_taken(submission.load(), Load { requests: 0, bytes: self.held_bytes });
        }
        slots
    }

    fn share_in_flight(&self) -> usize {
        self.io.shared.global_limits.budget().in_flight
    }
}

/// The record of when a connection's client was last seen.
fn touch_of(driver: &mut Driver, client: &mut Client) -> LastSeen {
    let mut hello = Vec::new();
    let (session, password, read_only) = (SessionId::NONE, None, None);
    ConnectRequest { last_zxid_seen: Zxid::ZERO, timeout_ms: 40_000, session, password, read_only }
        .put_frame(&mut hello);
    driver.send(client, &hello);
    for _ in 0..10_000 {
        driver.pass(0);
        let input = driver.io.shared.inbox.take(Duration::ZERO);
        for item in input.submissions.iter().flat_map(|submission| &submission.entries) {
            if let ClientInput::Connect { last_seen: touch, .. } = &item.input {
                return touch.clone();
            }
        }
    }
    panic!("the handshake is not submitted");
}

/// Gives a connection `bytes` of unsent output, of which the socket takes few.
fn add_unsent(driver: &mut Driver, slot: usize, bytes: usize) {
    let conn = driver.io.conns[slot].as_mut().unwrap();
    socket2::SockRef::from(&conn.stream).set_send_buffer_size(4096).unwrap();
    conn.output = vec![0; bytes];
    driver.io.mark_ready(slot);
    driver.pass(0);
}

fn set(bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let body = SetDataRequest { path: Some("/a".into()), data: Some(&vec![0; bytes]), version: -1 };
    put_request(&mut frame, 1, OpCode::SetData.code(), &body);
    frame
}

/// Large writes wait for the share in flight, and small ones arrive after them.
#[test]
fn stalled_small_write_is_admitted_before_large_ones_that_must_wait() {
    let mut driver = driver();
    let share = driver.share_in_flight();
    driver.hold(2 * share);
    let mut clients: Vec<_> = (0..100).map(|_| driver.connect()).collect();
    for (_, client) in &mut clients[..99] {
        client.write_all(&set(LARGE)).unwrap();
    }
    driver.pass_until("all large writes wait", |driver| driver.io.stalled.slots().count() == 99);
    clients[99].1.write_all(&set(1)).unwrap();
    driver.pass_until("the small write waits", |driver| driver.io.stalled.slots().count() == 100);
    driver.hold(share); // only small ones are admitted
    driver.pass(0);
    assert_eq!(driver.submitted(), [clients[99].0]);
}

#[test]
fn memory_of_a_large_request_is_released_when_it_is_served() {
    let mut driver = driver();
    let (slot, mut client) = driver.connect();
    let next = &set(1)[..10];
    driver.send(&mut client, &[&set(1_000_000), next].concat());
    driver.pass_until("the request is served", |driver| driver.submitted() == [slot]);
    driver.pass_until("a part of the next is received", |driver| driver.conn(slot).input == next);
    let kept = driver.conn(slot).input.capacity();
    assert!(kept <= crate::limits::POOLED_BUFFER_BYTES, "{kept} bytes for {}", next.len());
}

#[test]
fn session_of_a_stalled_connection_whose_client_closed_its_side_is_not_touched() {
    let mut driver = driver();
    driver.hold(2 * driver.share_in_flight());
    let (slot, mut client) = driver.open();
    let touch = touch_of(&mut driver, &mut client);
    driver.attach(slot);
    driver.send(&mut client, &set(LARGE));
    driver.pass_until("the write waits", |driver| driver.conn(slot).stalled.is_some());
    driver.pass(1000);
    assert_eq!(touch.last_ms(), driver.now_ms, "the client is not silent: its connection is not read");
    client.shutdown(Shutdown::Write).unwrap();
    driver.pass_until("the end of the stream is noticed", |driver| driver.conn(slot).read_closed);
    let last_ms = touch.last_ms();
    driver.pass(1000);
    assert_eq!(touch.last_ms(), last_ms);
    driver.hold(0);
    driver.pass(1000);
    assert_eq!(driver.submitted(), [slot], "what was sent before the end is executed");
}

#[test]
fn stalled_connection_that_is_reset_is_closed() {
    let mut driver = driver();
    driver.hold(2 * driver.share_in_flight());
    let (slot, mut client) = driver.connect();
    driver.send(&mut client, &set(LARGE));
    driver.pass_until("the write waits", |driver| driver.conn(slot).stalled.is_some());
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client); // resets the connection
    driver.pass_until("the connection is closed", |driver| driver.io.conns[slot].is_none());
}

#[test]
fn admission_is_checked_again_after_a_submission_within_an_iteration() {
    let mut driver = driver();
    let mut clients: Vec<_> = (0..3).map(|_| driver.connect()).collect();
    let frame = set(600_000);
    let (start, last) = frame.split_at(frame.len() - 1);
    clients.iter_mut().for_each(|(_, client)| driver.send(client, start));
    driver.pass_until("all but the last bytes are received", |driver| {
        driver.io.conns.iter().flatten().all(|conn| conn.input.len() == start.len())
    });
    // The second one uses up the share, and fills the submission so that it is handed over.
    driver.hold(driver.share_in_flight() - 700_000);
    clients.iter_mut().for_each(|(_, client)| client.write_all(last).unwrap());
    let mut submitted = Vec::new();
    driver.pass_until("two are submitted", |driver| {
        submitted.extend(driver.submitted());
        2 <= submitted.len()
    });
    assert_eq!(submitted.len(), 2);
    assert_eq!(driver.io.stalled.slots().count(), 1, "there is no memory for the third");
}

#[test]
fn connection_with_unsent_replies_continues_when_pressure_falls() {
    let mut driver = driver();
    let (slot, mut client) = driver.connect();
    socket2::SockRef::from(&client).set_recv_buffer_size(4096).unwrap();
    let half_share = driver.io.shared.global_limits.budget().unsent / 2;
    driver.io.shared.global_limits.on_posted(half_share);
    add_unsent(&mut driver, slot, 900_000);
    driver.send(&mut client, &set(1));
    driver.pass_until("the request has arrived", |driver| driver.conn(slot).readable);
    driver.pass(0);
    assert!(0 < driver.conn(slot).unsent() && driver.submitted().is_empty());
    driver.io.shared.global_limits.on_buffers_grown(Growth { received: 0, unsent: -half_share.cast_signed() });
    assert!(driver.io.wake_ms(driver.now_ms) <= driver.now_ms + 100, "no event arrives");
    driver.pass(100);
    driver.pass(0);
    assert_eq!(driver.submitted(), [slot]);
}

/// Between delivery and the end of the iteration the replica creates further replies, as far as the share allows.
#[test]
fn mail_is_counted_while_it_is_delivered() {
    let mut driver = driver();
    let (slot, _client) = driver.connect();
    let event = [0; SMALL_BYTES];
    let mut outbox = Outbox::default();
    outbox.push(driver.conn(slot).core.id(), PartKind::Event(None), |buffer| buffer.extend_from_slice(&event));
    driver.io.shared.post(0, outbox);
    driver.io.deliver();
    assert_eq!(driver.conn(slot).unsent(), SMALL_BYTES);
    assert!(SMALL_BYTES <= driver.io.shared.global_limits.used());
    driver.pass(0);
    assert_eq!((driver.conn(slot).unsent(), driver.io.shared.global_limits.used()), (0, 0));
}

/// Small writes keep the share in flight used up, so that memory for a large one is never free.
#[test]
fn large_write_is_submitted_while_small_ones_keep_the_share_used_up() {
    let mut driver = driver();
    driver.hold(driver.share_in_flight());
    let ((large, mut waiting), (small, mut busy)) = (driver.connect(), driver.connect());
    driver.send(&mut waiting, &set(LARGE));
    driver.pass_until("the large write waits", |driver| driver.conn(large).stalled.is_some());
    let mut submitted = Vec::new();
    for _ in 0..=crate::limits::LARGE_WRITE_WAIT_MS / 100 {
        driver.send(&mut busy, &set(1));
        let mut outbox = Outbox::default();
        driver.pass_until("the small write is submitted", |driver| {
            submitted.extend(driver.submitted());
            submitted.contains(&small)
        });
        submitted.retain(|slot| *slot != small);
        outbox.reply(driver.conn(small).core.id(), |_| ());
        driver.io.shared.post(0, outbox);
        driver.pass(100);
    }
    submitted.extend(driver.submitted());
    assert_eq!(submitted, [large]);
}
