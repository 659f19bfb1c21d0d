//! One I/O thread, iteration by iteration, with a clock that the test moves. Without a replica, the test sees what
//! would be submitted to it, and sets how much memory all threads hold.

use super::fake::{FakeHost, Place};
use super::limits::{LARGE_WRITE_WAIT_MS, LINGER_MS, POOLED_BUFFER_BYTES_MAX};
use super::*;
use ox_proto::connect::ConnectRequest;
use ox_proto::request::{SetDataRequest, put_bare_request, put_request};
use ox_proto::{SessionId, Zxid};
use ox_replica::outbox::{Outbox, PartKind};
use ox_replica::{ConnAuth, ConnSettings, LastSeen, Load, SMALL_BYTES};

const LARGE: usize = SMALL_BYTES + 1000;

struct Driver {
    io: ClientIo<usize, ()>,
    host: FakeHost,
    now_ms: i64,
    held_bytes: usize,
}

fn driver() -> Driver {
    driver_with(ClientIoSizes::default())
}

fn driver_with(sizes: ClientIoSizes) -> Driver {
    let conn = ConnSettings {
        min_timeout_ms: 4_000,
        max_timeout_ms: 40_000,
        throttled_op_wait_ms: 0,
        drop_late: false,
        syncs_travel: false,
        auth: ConnAuth::NONE,
    };
    let settings = ClientIoSettings {
        thread: 0,
        conn,
        frame_bytes_max: 1 << 20,
        sessionless_timeout_ms: 10_000,
        stall_time_ms: 100,
        tick_ms: 2_000,
        sizes,
    };
    let io = ClientIo::new(settings, Now { mono_ms: 1000, wall_ms: 1000 });
    Driver { io, host: FakeHost::new(), now_ms: 1000, held_bytes: 0 }
}

impl Driver {
    /// One iteration, `ms` after the last one, with the events that have arrived by then.
    fn pass(&mut self, ms: i64) {
        self.now_ms += ms;
        for (place, readiness) in self.host.events() {
            match place {
                Place::Slot(slot) => self.io.on_ready(slot, readiness),
                Place::Lingering(index) => self.io.on_lingering_ready(index),
            }
        }
        while self.io.step(Now { mono_ms: self.now_ms, wall_ms: self.now_ms }, &mut self.host) != IoStage::Receive {}
    }

    /// Iterations until everything that was sent is processed.
    fn pass_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        for _ in 0..1000 {
            self.pass(0);
            if is_so(self) {
                return;
            }
        }
        panic!("{what}");
    }

    /// A client with a session timeout of 40 s: its slot and its socket.
    fn connect(&mut self) -> (usize, usize) {
        let (slot, socket) = self.open();
        self.attach(slot);
        (slot, socket)
    }

    fn open(&mut self) -> (usize, usize) {
        let socket = self.host.open(usize::MAX);
        let slot = self.io.free.last().copied().unwrap_or(self.io.conns.len());
        let now = Now { mono_ms: self.now_ms, wall_ms: self.now_ms };
        self.io.add(socket, ([127, 0, 0, 1], 1).into(), Vec::new(), now, &mut self.host).expect("it is registered");
        (slot, socket)
    }

    fn attach(&mut self, slot: usize) {
        let mut outbox = Outbox::default();
        outbox.push(self.conn(slot).core.id(), PartKind::Attached(SessionId(1 + slot as i64), 40_000), |_| ());
        self.host.post(outbox);
        self.pass(0);
    }

    fn send(&mut self, socket: usize, bytes: &[u8]) {
        self.host.socket(socket).input.extend(bytes);
    }

    fn conn(&self, slot: usize) -> &Connection<usize, ()> {
        self.io.conns[slot].as_ref().expect("it is open")
    }

    /// Sets the bytes of requests in flight that all threads hold together.
    fn hold(&mut self, bytes: usize) {
        self.held_bytes = bytes;
        self.host.limits.set_held(Load { requests: 0, bytes });
    }

    /// Connections of the requests submitted since the last call.
    fn submitted(&mut self) -> Vec<usize> {
        let submissions = std::mem::take(&mut self.host.submissions);
        for submission in &submissions {
            self.host.limits.on_taken(submission.load(), Load { requests: 0, bytes: self.held_bytes });
        }
        let items = submissions.iter().flat_map(|submission| &submission.entries);
        let requests = items.filter(|item| matches!(item.input, ClientInput::Request { .. }));
        requests.map(|item| item.conn.slot()).collect()
    }

    fn share_in_flight(&self) -> usize {
        self.host.limits.budget().in_flight
    }
}

/// The record of when a connection's client was last seen.
fn touch_of(driver: &mut Driver, socket: usize) -> LastSeen {
    let mut hello = Vec::new();
    let (session, password, read_only) = (SessionId::NONE, None, None);
    ConnectRequest { last_zxid_seen: Zxid::ZERO, timeout_ms: 40_000, session, password, read_only }
        .put_frame(&mut hello);
    driver.send(socket, &hello);
    driver.pass(0);
    let items = driver.host.submissions.iter().flat_map(|submission| &submission.entries);
    let touch = items.into_iter().find_map(|item| {
        if let ClientInput::Connect { last_seen, .. } = &item.input { Some(last_seen.clone()) } else { None }
    });
    touch.expect("the handshake is submitted")
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
    let clients: Vec<_> = (0..100).map(|_| driver.connect()).collect();
    for (_, client) in &clients[..99] {
        driver.send(*client, &set(LARGE));
    }
    driver.pass_until("all large writes wait", |driver| driver.io.stalled.slots().count() == 99);
    driver.send(clients[99].1, &set(1));
    driver.pass_until("the small write waits", |driver| driver.io.stalled.slots().count() == 100);
    driver.hold(share); // only small ones are admitted
    driver.pass(0);
    assert_eq!(driver.submitted(), [clients[99].0]);
}

#[test]
fn memory_of_a_large_request_is_released_when_it_is_served() {
    let mut driver = driver();
    let (slot, client) = driver.connect();
    let next = &set(1)[..10];
    driver.send(client, &[&set(1_000_000), next].concat());
    driver.pass_until("the request is served", |driver| driver.submitted() == [slot]);
    driver.pass_until("a part of the next is received", |driver| driver.conn(slot).input == next);
    let kept = driver.conn(slot).input.capacity();
    assert!(kept <= POOLED_BUFFER_BYTES_MAX, "{kept} bytes for {}", next.len());
}

#[test]
fn session_of_a_stalled_connection_whose_client_closed_its_side_is_not_touched() {
    let mut driver = driver();
    driver.hold(2 * driver.share_in_flight());
    let (slot, client) = driver.open();
    let touch = touch_of(&mut driver, client);
    driver.attach(slot);
    driver.send(client, &set(LARGE));
    driver.pass_until("the write waits", |driver| driver.conn(slot).stalled.is_some());
    driver.pass(1000);
    assert_eq!(touch.last_ms(), driver.now_ms, "the client is not silent: its connection is not read");
    driver.host.socket(client).is_ended = true;
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
    let (slot, client) = driver.connect();
    driver.send(client, &set(LARGE));
    driver.pass_until("the write waits", |driver| driver.conn(slot).stalled.is_some());
    driver.host.socket(client).is_reset = true;
    driver.pass_until("the connection is closed", |driver| driver.io.conns[slot].is_none());
}

#[test]
fn admission_is_checked_again_after_a_submission_within_an_iteration() {
    let mut driver = driver();
    let clients: Vec<_> = (0..3).map(|_| driver.connect()).collect();
    let frame = set(600_000);
    let (start, last) = frame.split_at(frame.len() - 1);
    clients.iter().for_each(|(_, client)| driver.send(*client, start));
    driver.pass_until("all but the last bytes are received", |driver| {
        driver.io.conns.iter().flatten().all(|conn| conn.input.len() == start.len())
    });
    // The second one uses up the share, and fills the submission so that it is handed over.
    driver.hold(driver.share_in_flight() - 700_000);
    clients.iter().for_each(|(_, client)| driver.send(*client, last));
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
    let (slot, client) = driver.connect();
    let half_share = driver.host.limits.budget().unsent / 2;
    driver.host.limits.on_posted(half_share);
    driver.host.socket(client).space = 0;
    driver.io.conns[slot].as_mut().unwrap().output = vec![0; 900_000];
    driver.send(client, &set(1));
    driver.pass_until("the request has arrived", |driver| driver.conn(slot).readable);
    driver.pass(0);
    assert!(0 < driver.conn(slot).unsent() && driver.submitted().is_empty());
    driver.host.limits.on_buffers_grown(BufferGrowth { received: 0, unsent: -half_share.cast_signed() });
    assert!(driver.io.wake_ms(driver.now_ms) <= driver.now_ms + 100, "no event arrives");
    driver.pass(100);
    driver.pass(0);
    assert_eq!(driver.submitted(), [slot]);
}

/// Between delivery and the end of the iteration the replica creates further replies, as far as the share allows.
#[test]
fn mail_is_counted_while_it_is_delivered() {
    let mut driver = driver();
    let (slot, _) = driver.connect();
    let event = [0; SMALL_BYTES];
    let mut outbox = Outbox::default();
    outbox.push(driver.conn(slot).core.id(), PartKind::Event(None), |buffer| buffer.extend_from_slice(&event));
    driver.host.post(outbox);
    driver.io.deliver(&mut driver.host, &ox_tree::State::new(ox_tree::TreeOptions::default()));
    assert_eq!(driver.conn(slot).unsent(), SMALL_BYTES);
    assert!(SMALL_BYTES <= driver.host.limits.used());
    driver.pass(0);
    assert_eq!((driver.conn(slot).unsent(), driver.host.limits.used()), (0, 0));
}

#[test]
fn reply_to_a_closed_connection_does_not_reach_the_next_one_in_its_slot() {
    let mut driver = driver();
    let (slot, first) = driver.connect();
    let closed = driver.conn(slot).core.id();
    driver.host.socket(first).is_reset = true;
    driver.pass_until("the first connection is closed", |driver| driver.io.conns[slot].is_none());
    let (reused, second) = driver.connect();
    assert_eq!(reused, slot);
    let mut outbox = Outbox::default();
    outbox.push(closed, PartKind::Event(None), |bytes| bytes.extend_from_slice(b"late"));
    driver.host.post(outbox);
    driver.pass(0);
    assert_eq!(driver.host.socket(second).output, b"");
}

/// Events that a client does not read are limited, because any number of other clients may cause them.
#[test]
fn client_that_does_not_read_its_events_is_closed() {
    let mut driver = driver();
    let (slot, client) = driver.connect();
    driver.host.socket(client).space = 0;
    let event = [0; SMALL_BYTES];
    let bytes_max = driver.host.limits.budget().unsent;
    for _ in 0..=bytes_max / SMALL_BYTES {
        if driver.io.conns[slot].is_none() {
            break;
        }
        let mut outbox = Outbox::default();
        outbox.push(driver.conn(slot).core.id(), PartKind::Event(None), |bytes| bytes.extend_from_slice(&event));
        driver.host.post(outbox);
        driver.pass(0);
    }
    assert!(driver.io.conns[slot].is_none(), "it holds as much memory as all clients may");
    assert_eq!(driver.host.closed, ["Stuck"]);
}

#[test]
fn requests_of_a_client_that_does_not_read_its_replies_wait() {
    let mut driver = driver_with(ClientIoSizes { unsent_pause_bytes: 100, ..ClientIoSizes::default() });
    let (slot, client) = driver.connect();
    driver.host.socket(client).space = 0;
    driver.send(client, &ping().repeat(50));
    for _ in 0..100 {
        driver.pass(0);
    }
    assert!(driver.conn(slot).unsent() <= 100 + 20, "{}", driver.conn(slot).unsent());
    driver.host.socket(client).space = usize::MAX;
    driver.pass_until("all replies arrive", |driver| driver.host.socket(client).output.len() == 50 * 20);
}

/// Clients announce frames that they never complete.
#[test]
fn incomplete_large_frames_hold_no_more_than_their_share() {
    let read_bytes = 10_000;
    let mut driver = driver_with(ClientIoSizes { read_bytes, ..ClientIoSizes::default() });
    let frame = set(1_000_000);
    let clients: Vec<_> = (0..20).map(|_| driver.connect()).collect();
    clients.iter().for_each(|(_, client)| driver.send(*client, &frame[..frame.len() - 1]));
    for _ in 0..1000 {
        driver.pass(0);
    }
    let received: usize = driver.io.connections().map(|conn| conn.input.len()).sum();
    let share = driver.host.limits.budget().received;
    // One frame may begin while the share is not used up, and the first read of each shows its length.
    let max = share + frame.len() + clients.len() * read_bytes;
    assert!(frame.len() < received && received <= max, "{received} of {max}");
}

#[test]
fn pause_of_the_thread_closes_no_connection() {
    let mut driver = driver();
    let (slot, _) = driver.connect();
    driver.pass(60_000);
    assert!(driver.io.conns[slot].is_some(), "its client may have sent something meanwhile");
    for _ in 0..60 {
        driver.pass(1000);
    }
    assert_eq!(driver.host.closed, ["Idle"]);
}

/// Small writes keep the share in flight used up, so that memory for a large one is never free.
#[test]
fn large_write_is_submitted_while_small_ones_keep_the_share_used_up() {
    let mut driver = driver();
    driver.hold(driver.share_in_flight());
    let ((large, waiting), (small, busy)) = (driver.connect(), driver.connect());
    driver.send(waiting, &set(LARGE));
    driver.pass_until("the large write waits", |driver| driver.conn(large).stalled.is_some());
    let mut submitted = Vec::new();
    for _ in 0..=LARGE_WRITE_WAIT_MS / 100 {
        driver.send(busy, &set(1));
        let mut outbox = Outbox::default();
        driver.pass_until("the small write is submitted", |driver| {
            submitted.extend(driver.submitted());
            submitted.contains(&small)
        });
        submitted.retain(|slot| *slot != small);
        outbox.reply(driver.conn(small).core.id(), |_| ());
        driver.host.post(outbox);
        driver.pass(100);
    }
    submitted.extend(driver.submitted());
    assert_eq!(submitted, [large]);
}

#[test]
fn frames_beyond_a_budget_are_served_in_the_next_step_and_have_not_waited() {
    let mut driver = driver_with(ClientIoSizes { requests_per_lock: 1, ..ClientIoSizes::default() });
    driver.io.settings.conn.throttled_op_wait_ms = 1;
    let (slot, client) = driver.connect();
    driver.send(client, &[ping(), ping(), ping()].concat());
    driver.io.on_ready(slot, Readiness { readable: true, ..Readiness::default() });
    let mut serves = 0;
    loop {
        driver.now_ms += 100; // each step is late
        match driver.io.step(Now { mono_ms: driver.now_ms, wall_ms: 0 }, &mut driver.host) {
            IoStage::Serve => serves += 1,
            IoStage::Receive => break,
            IoStage::Submit | IoStage::Flush | IoStage::SubmitCloses => (),
        }
        assert_eq!(driver.conn(slot).held_since_ms.map_or(0, |since_ms| driver.io.now.mono_ms - since_ms), 0);
    }
    assert_eq!(serves, 3, "a step for each");
    assert_eq!(driver.conn(slot).held_since_ms, None, "no frame waits any more");
    assert_eq!(driver.host.socket(client).output.len(), 3 * 20, "three replies");
}

/// Between two steps of an iteration, input may arrive at a lingering socket.
#[test]
fn lingering_input_does_not_overwrite_received_frames() {
    let mut driver = driver();
    let (closed, lingering) = driver.connect();
    let mut outbox = Outbox::default();
    outbox.push(driver.conn(closed).core.id(), PartKind::Close, |bytes| bytes.extend_from_slice(b"end"));
    driver.host.post(outbox);
    driver.pass(0);
    assert!(driver.host.socket(lingering).is_shut_down && !driver.host.socket(lingering).is_closed);
    let (slot, client) = driver.connect();
    driver.send(client, &ping());
    driver.io.on_ready(slot, Readiness { readable: true, ..Readiness::default() });
    assert_eq!(driver.io.step(Now { mono_ms: driver.now_ms, wall_ms: 0 }, &mut driver.host), IoStage::Serve);
    driver.send(lingering, &[0xff; 100]);
    driver.io.on_lingering_ready(0);
    driver.pass(0);
    assert_eq!(driver.host.socket(client).output.len(), 20, "the reply");
    driver.pass(LINGER_MS);
    driver.pass(0);
    assert!(driver.host.socket(lingering).is_closed, "the time is over");
}

#[test]
fn lingering_socket_is_closed_when_its_client_has_read_the_last_reply() {
    let mut driver = driver();
    let (slot, client) = driver.connect();
    let mut outbox = Outbox::default();
    outbox.push(driver.conn(slot).core.id(), PartKind::Close, |bytes| bytes.extend_from_slice(b"end"));
    driver.host.post(outbox);
    driver.pass(0);
    driver.send(client, &set(1));
    driver.pass(0);
    assert!(!driver.host.socket(client).is_closed);
    driver.host.socket(client).is_ended = true;
    driver.pass(0);
    assert!(driver.host.socket(client).is_closed && driver.host.socket(client).output == b"end");
}

/// A read or write may take any part of the bytes.
#[test]
fn requests_and_replies_in_single_bytes_are_complete() {
    let mut driver = driver_with(ClientIoSizes { read_bytes: 1, arena_bytes: 1, ..ClientIoSizes::default() });
    let (_, client) = driver.connect();
    driver.send(client, &ping());
    for _ in 0..ping().len() + 20 {
        driver.host.socket(client).space = 1;
        driver.pass(0);
    }
    assert_eq!(driver.host.socket(client).output.len(), 20);
}

fn ping() -> Vec<u8> {
    let mut frame = Vec::new();
    put_bare_request(&mut frame, -2, OpCode::Ping.code());
    frame
}
