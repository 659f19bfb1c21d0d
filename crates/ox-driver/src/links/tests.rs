//! Both ends of links over pipes in memory, iteration by iteration.

use super::*;
use crate::sockets::{SocketRead, SocketWrite};
use bytes::Bytes;
use ox_proto::txn::{CreateKind, CreateTxn, Record, Txn, TxnHeader};
use ox_proto::{RawAcls, SessionId};
use std::cell::RefCell;
use std::rc::Rc;

const CHUNK_BYTES: usize = 256 << 10;
const HELD_BYTES_MAX: usize = 16 << 20;
const SENT_REPORT_BYTES: usize = 256 << 10;
const TRAFFIC_INTERVAL: Duration = Duration::from_millis(200);

/// The largest number of iterations of a test.
const ITERATIONS_MAX: usize = 100_000;

fn limits() -> LinkLimits {
    LinkLimits {
        packet_bytes_max: 1 << 20,
        first_packet_bytes_max: 4 << 10,
        chunk_bytes: CHUNK_BYTES,
        iteration_bytes_max: 4 << 20,
        held_bytes_max: HELD_BYTES_MAX,
        sent_report_bytes: SENT_REPORT_BYTES,
        traffic_interval: TRAFFIC_INTERVAL,
        links_per_member_max: 4,
        unknown_servers_max: 64,
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    is_closed: bool,
}

type SharedPipe = Rc<RefCell<Pipe>>;

/// Input and output of a link at one server.
struct PipeEnd {
    input: SharedPipe,
    output: SharedPipe,
}

/// How the pipes of one server behave.
struct Pipes {
    /// Bytes that a pipe holds.
    capacity: usize,
    /// Bytes that one call transfers at most.
    call_bytes_max: usize,
}

impl Sockets for Pipes {
    type Socket = PipeEnd;

    fn receive(&mut self, socket: &mut PipeEnd, buffer: &mut [u8]) -> SocketRead {
        let mut pipe = socket.input.borrow_mut();
        let count = pipe.bytes.len().min(buffer.len()).min(self.call_bytes_max);
        buffer.iter_mut().zip(pipe.bytes.drain(..count)).for_each(|(to, byte)| *to = byte);
        match count {
            0 if pipe.is_closed => SocketRead::End,
            0 => SocketRead::Nothing,
            _ => SocketRead::Bytes(count),
        }
    }

    fn send(&mut self, socket: &mut PipeEnd, bytes: &[u8]) -> SocketWrite {
        let mut pipe = socket.output.borrow_mut();
        let space = self.capacity.saturating_sub(pipe.bytes.len()).min(self.call_bytes_max);
        let count = bytes.len().min(space);
        pipe.bytes.extend(&bytes[..count]);
        if count == 0 { SocketWrite::Full } else { SocketWrite::Bytes(count) }
    }

    fn close(&mut self, socket: PipeEnd) {
        socket.output.borrow_mut().is_closed = true;
    }
}

/// One end of several links, with the events that it has reported.
struct Side {
    links: Links<PipeEnd>,
    pipes: Pipes,
    now: Duration,
    events: Vec<LinkEvent>,
}

impl Side {
    fn new(capacity: usize) -> Self {
        let pipes = Pipes { capacity, call_bytes_max: usize::MAX };
        Self { links: Links::new(limits()), pipes, now: Duration::ZERO, events: Vec::new() }
    }

    fn send(&mut self, link: LinkId, message: &Message) {
        self.links.send(self.now, link, Packets::from(message));
    }

    fn run_iteration(&mut self) {
        let ids: Vec<LinkId> = self.links.links.keys().copied().collect();
        ids.into_iter().for_each(|id| self.links.on_ready(id));
        self.links.run_iteration(self.now, &mut self.pipes, &mut self.events);
    }

    /// Lets time pass, so that traffic is reported.
    fn on_time(&mut self) {
        self.now += TRAFFIC_INTERVAL;
        self.links.on_time(self.now, &mut self.events);
    }

    fn link(&self, link: LinkId) -> &Link<PipeEnd> {
        &self.links.links[&link]
    }

    fn is_closed(&self, id: LinkId) -> bool {
        self.events.iter().any(|event| matches!(event, LinkEvent::Closed(link) if *link == id))
    }
}

const BULK: LinkId = LinkId(1);
const SMALL: LinkId = LinkId(2);

/// A leader and a learner with the links `BULK` and `SMALL` between them.
fn linked(capacity: usize) -> (Side, Side) {
    let (mut leader, mut learner) = (Side::new(capacity), Side::new(capacity));
    for id in [BULK, SMALL] {
        let (up, down) = (SharedPipe::default(), SharedPipe::default());
        let near = PipeEnd { input: Rc::clone(&up), output: Rc::clone(&down) };
        leader.links.add(Duration::ZERO, id, near, RemoteEnd::Learner);
        let far = PipeEnd { input: down, output: up };
        learner.links.add(Duration::ZERO, id, far, RemoteEnd::Leader(TreeOptions::default()));
    }
    (leader, learner)
}

/// A state with `nodes` nodes of this many bytes each.
fn state(nodes: i64, bytes: usize) -> State {
    let mut state = State::new(TreeOptions::default());
    let data = vec![7; bytes];
    for number in 1..=nodes {
        let path = format!("/n{number}").into();
        let (kind, acl) = (CreateKind::Create { ephemeral: false }, RawAcls::OPEN);
        let txn = Txn::Create(CreateTxn { kind, path, data: Some(&data), acl, parent_cversion: 1 });
        let header =
            TxnHeader { session: SessionId(1), cxid: 1, zxid: Zxid(number), time_ms: 1, kind: txn.kind().code() };
        state.replay(&Record { header, txn, digest: None });
    }
    state
}

/// However fast the remote end is, an iteration is bounded at both ends, and traffic is reported (K93).
#[test]
fn k093_snapshot_is_sent_in_chunks_and_delays_no_other_link() {
    let (mut leader, mut learner) = linked(usize::MAX);
    leader.links.send_snapshot(Duration::ZERO, BULK, state(200, 100_000).freeze());
    let (mut iterations, mut reports) = ([0, 0], 0);
    while learner.links.snapshots.is_empty() {
        assert!(iterations[1] < ITERATIONS_MAX, "{iterations:?}");
        leader.send(SMALL, &Message::Ping(Zxid(1)));
        leader.run_iteration();
        let small = leader.link(SMALL);
        assert_eq!(small.out.len() + small.unsent.bytes(), 0, "the other link is served");
        learner.run_iteration();
        iterations = [iterations[0] + usize::from(!leader.link(BULK).out.is_empty()), iterations[1] + 1];
        learner.on_time();
        let received = |event: &LinkEvent| matches!(event, LinkEvent::Progress(BULK, Traffic::Received));
        reports += learner.events.drain(..).filter(received).count();
    }
    // Twenty megabytes in total.
    assert!(iterations.iter().all(|iterations| 20_000_000 / (2 * CHUNK_BYTES) < *iterations), "{iterations:?}");
    assert!(10 < reports, "{reports}");
    let state = learner.links.take_snapshots().pop().unwrap().finish().unwrap();
    assert_eq!(state.last_zxid(), Zxid(200));
}

/// Bytes that had to wait for the remote end show that it reads; bytes that the socket accepts immediately do not.
#[test]
fn only_bytes_that_had_to_wait_are_a_sign_of_life() {
    let (mut leader, mut learner) = linked(200_000);
    let has_sent = |leader: &mut Side| {
        leader.on_time();
        leader.events.drain(..).any(|event| matches!(event, LinkEvent::Progress(_, Traffic::Sent)))
    };
    for _ in 0..5 {
        leader.send(BULK, &Message::Ping(Zxid(1)));
        leader.run_iteration();
        assert!(!has_sent(&mut leader), "the learner has not read it");
    }
    let mut pings = Packets::default();
    (0..100_000).for_each(|_| pings.put(&Message::Ping(Zxid(1))));
    leader.links.send(leader.now, BULK, pings);
    leader.run_iteration();
    assert!(leader.link(BULK).unsent.bytes() != 0 && !leader.links.has_more(), "the socket is full");
    assert!(!has_sent(&mut leader), "the socket had free space");
    leader.run_iteration();
    assert!(!has_sent(&mut leader), "nothing is sent");
    learner.run_iteration();
    leader.run_iteration();
    assert!(has_sent(&mut leader), "the learner has read");
}

/// The core decides how much a link may hold. It is notified of every byte sent, in steps.
#[test]
fn link_with_much_unsent_stays_and_reports_what_is_sent() {
    let (mut leader, mut learner) = linked(1 << 20);
    let first = Packets::from(&Message::LeaderInfo(ox_zab::Epoch(1))); // the first packet of a link has to be small
    let (record, mut handed) = (vec![7; 100_000], first.flow_bytes);
    leader.links.send(Duration::ZERO, BULK, first);
    for counter in 1..=600 {
        let txn = ox_zab::EncodedTxn { zxid: Zxid(counter), record: record.clone().into() };
        let packets = Packets::from(&Message::Proposal(txn));
        handed += packets.flow_bytes;
        leader.links.send(Duration::ZERO, BULK, packets);
    }
    leader.run_iteration();
    assert!(!leader.is_closed(BULK), "60 MB are no reason to close it");
    let (mut iterations, mut sent) = (0, 0);
    while sent + SENT_REPORT_BYTES <= handed {
        leader.run_iteration();
        learner.run_iteration();
        learner.links.consumed(BULK, usize::MAX);
        for event in leader.events.drain(..) {
            if let LinkEvent::Sent(_, bytes) = event {
                assert!((SENT_REPORT_BYTES..2 * SENT_REPORT_BYTES + CHUNK_BYTES).contains(&bytes), "{bytes}");
                sent += bytes;
            }
        }
        iterations += 1;
        assert!(iterations < ITERATIONS_MAX, "{sent} of {handed}");
    }
}

/// Sends and receives until `is_done`.
fn exchange(leader: &mut Side, learner: &mut Side, is_done: impl Fn(&Side) -> bool) {
    let mut iterations = 0;
    while !is_done(learner) {
        leader.run_iteration();
        learner.run_iteration();
        iterations += 1;
        assert!(iterations < ITERATIONS_MAX);
    }
}

/// A learner whose replica is behind does not read, and its leader's pings wait in the socket.
#[test]
fn leader_is_not_silent_while_its_learner_does_not_read() {
    let (mut leader, mut learner) = linked(1 << 20);
    let read_leader =
        |learner: &mut Side| learner.links.read_leader(learner.now, &mut learner.pipes, &mut learner.events);
    leader.send(BULK, &Message::UpToDate);
    exchange(&mut leader, &mut learner, |learner| {
        learner.links.leader_last_received().is_some_and(|(_, is_read)| is_read)
    });
    assert!(!read_leader(&mut learner), "there is nothing to read");

    let txn = ox_zab::EncodedTxn { zxid: Zxid(1), record: vec![7; 1_000_000].into() };
    (0..20).for_each(|_| leader.send(BULK, &Message::Proposal(txn.clone())));
    exchange(&mut leader, &mut learner, |learner| HELD_BYTES_MAX <= learner.link(BULK).held_bytes);
    let is_read = |learner: &Side| learner.links.leader_last_received().expect("it is active").1;
    assert!(!is_read(&learner), "it is full");
    assert!(!read_leader(&mut learner));
    learner.links.consumed(BULK, usize::MAX);
    assert!(!is_read(&learner), "it has to read first");
    learner.now += TRAFFIC_INTERVAL;
    leader.run_iteration();
    assert!(read_leader(&mut learner));
    assert_eq!(learner.links.leader_last_received().map(|(at, _)| at), Some(learner.now));
}

/// Runs an iteration in which the sockets report nothing.
fn run_without_events(side: &mut Side) {
    side.links.run_iteration(side.now, &mut side.pipes, &mut side.events);
}

#[test]
fn link_is_read_again_when_the_replica_has_taken_its_packets() {
    let (mut leader, mut learner) = linked(usize::MAX);
    leader.send(BULK, &Message::UpToDate);
    let txn = ox_zab::EncodedTxn { zxid: Zxid(1), record: vec![7; 1_000_000].into() };
    (0..20).for_each(|_| leader.send(BULK, &Message::Proposal(txn.clone())));
    exchange(&mut leader, &mut learner, |learner| HELD_BYTES_MAX <= learner.link(BULK).held_bytes);
    while leader.links.has_more() {
        run_without_events(&mut leader);
    }
    while learner.links.has_more() {
        run_without_events(&mut learner);
    }
    let (held, unread) = (learner.link(BULK).held_bytes, learner.link(BULK).socket.input.borrow().bytes.len());
    assert!(0 < unread);
    learner.links.consumed(BULK, held);
    run_without_events(&mut learner);
    assert!(learner.link(BULK).socket.input.borrow().bytes.len() < unread);
}

#[test]
fn log_diff_continues_when_the_disk_has_delivered() {
    let (mut leader, _learner) = linked(usize::MAX);
    let (disk, chunks) = LogDiffChunks::channel();
    leader.links.send_log_diff(BULK, chunks);
    run_without_events(&mut leader);
    disk.send(vec![7; 100]).unwrap();
    run_without_events(&mut leader);
    assert_eq!(leader.link(BULK).socket.output.borrow().bytes.len(), 100);
}

/// A learner that has sent its hello as `server`: the pipe that it writes to, and its link.
fn adopted(leader: &mut Side, id: LinkId, server: i64, is_member: bool) -> SharedPipe {
    let up = SharedPipe::default();
    let socket = PipeEnd { input: Rc::clone(&up), output: SharedPipe::default() };
    let (kind, accepted) = (ox_zab::LearnerKind::Observer, ox_zab::Epoch(1));
    let hello = Message::Hello { server: ServerId(server), kind, accepted, config_version: 0 };
    let (server, input) = (ServerId(server), Packets::from(&hello).bytes);
    let learner = IdentifiedLearner { link: id, socket, server, input };
    leader.links.adopt(leader.now, learner, |_| is_member, &mut leader.pipes, &mut leader.events);
    up
}

/// A request that fits into the limit of the tests, but not twice.
fn large_request() -> Vec<u8> {
    let (body, ids) = (vec![7; 700_000].into(), Bytes::new());
    let request = ox_zab::Request { session: SessionId(1), cxid: 1, op: 5, body, ids };
    Packets::from(&Message::Request(request)).bytes
}

#[test]
fn unknown_servers_hold_no_more_than_one_packet_together() {
    let ids = [1, 2, 3].map(LinkId);
    for is_member in [false, true] {
        let mut leader = Side::new(usize::MAX);
        let learners = ids.map(|id| adopted(&mut leader, id, 100 + id.0.cast_signed(), is_member));
        ids.iter().for_each(|id| leader.send(*id, &Message::LeaderInfo(ox_zab::Epoch(2))));
        let request = large_request();
        for ((id, learner), bytes) in ids.iter().zip(&learners).zip([300_000, 600_000, 400_000]) {
            learner.borrow_mut().bytes.extend(&request[..bytes]);
            let holds = |leader: &Side| leader.links.links.get(id).map_or(bytes, Link::unread_bytes);
            while holds(&leader) < bytes {
                leader.run_iteration();
                let held: usize = leader.links.links.values().map(Link::unread_bytes).sum();
                assert!(is_member || held <= leader.links.limits.packet_bytes_max, "{held}");
            }
        }
        assert_eq!(ids.map(|id| leader.is_closed(id)), [false, !is_member, false], "the one that holds most");
        let is_report = |report: &LinkReport| matches!(report, LinkReport::UnknownClosed { .. });
        assert_eq!(leader.links.take_reports().iter().any(is_report), !is_member);
    }
}

#[test]
fn learner_sends_only_its_hello_before_the_leader_has_replied() {
    for is_accepted in [false, true] {
        let mut leader = Side::new(usize::MAX);
        let learner = adopted(&mut leader, BULK, 1, true);
        if is_accepted {
            leader.send(BULK, &Message::LeaderInfo(ox_zab::Epoch(2)));
        }
        learner.borrow_mut().bytes.extend(&large_request()[..50_000]);
        leader.run_iteration();
        assert_eq!(leader.is_closed(BULK), !is_accepted);
        assert!(!is_accepted || leader.link(BULK).input.len() == 50_000);
    }
}

#[test]
fn new_link_of_a_server_replaces_its_oldest_one() {
    let mut leader = Side::new(usize::MAX);
    let max = limits().links_per_member_max as u64;
    let _other = adopted(&mut leader, LinkId(100), 2, true);
    let learners: Vec<SharedPipe> = (1..=max + 2).map(|id| adopted(&mut leader, LinkId(id), 1, true)).collect();
    let closed: Vec<u64> = (1..=max + 2).filter(|id| leader.is_closed(LinkId(*id))).collect();
    assert_eq!((closed, learners.len()), (vec![1, 2], limits().links_per_member_max + 2));
    assert!(!leader.is_closed(LinkId(100)), "the link of another server");
}

/// However much has arrived on all links together, other work of the thread is not delayed, and each link has its turn.
#[test]
fn iteration_transfers_a_limited_number_of_bytes() {
    let (mut leader, links) = (Side::new(usize::MAX), 64);
    let ids: Vec<LinkId> = (1..=links).map(LinkId).collect();
    for id in &ids {
        let learner = adopted(&mut leader, *id, id.0.cast_signed(), true);
        leader.send(*id, &Message::LeaderInfo(ox_zab::Epoch(2)));
        learner.borrow_mut().bytes.extend(&large_request());
    }
    let received_bytes = |leader: &Side| ids.iter().map(|id| leader.link(*id).unread_bytes()).sum::<usize>();
    let (mut before, mut iterations) = (received_bytes(&leader), 0);
    while leader.links.has_more() {
        leader.links.run_iteration(leader.now, &mut leader.pipes, &mut leader.events);
        let received = received_bytes(&leader);
        assert!(received - before < limits().iteration_bytes_max + 2 * CHUNK_BYTES, "{}", received - before);
        (before, iterations) = (received, iterations + 1);
    }
    assert!(10 < iterations && 64 * 700_000 < before, "{iterations} iterations, {before} bytes");
}

/// The reader of the log has ended without the empty chunk that marks the end: an announced DIFF must not be skipped.
#[test]
fn log_diff_that_could_not_be_read_closes_the_link() {
    let (mut leader, mut learner) = linked(usize::MAX);
    let (sender, chunks) = LogDiffChunks::channel();
    leader.links.send_log_diff(BULK, chunks);
    leader.send(BULK, &Message::UpToDate);
    leader.run_iteration();
    assert!(!leader.is_closed(BULK), "the disk is slow");
    drop(sender);
    leader.run_iteration();
    learner.run_iteration();
    assert!(leader.is_closed(BULK) && learner.is_closed(BULK));
    assert!(!learner.events.iter().any(|event| matches!(event, LinkEvent::Messages(..))), "nothing follows the gap");
}

/// Packets, a snapshot and further packets arrive complete and in order, wherever reads and writes end.
#[test]
fn reads_and_writes_may_end_at_any_byte() {
    for [leader_bytes, learner_bytes, capacity] in [[1, 1, 1], [1, 1000, 7], [3, 5, 64], [1000, 1, 64], [17, 1000, 17]]
    {
        let (mut leader, mut learner) = linked(capacity);
        (leader.pipes.call_bytes_max, learner.pipes.call_bytes_max) = (leader_bytes, learner_bytes);
        leader.send(BULK, &Message::LeaderInfo(ox_zab::Epoch(1)));
        leader.links.send_snapshot(Duration::ZERO, BULK, state(3, 100).freeze());
        let (sender, chunks) = LogDiffChunks::channel();
        let mut log = (4..=5).map(|zxid| Ok(ox_store::LoggedRecord { zxid: Zxid(zxid), record: vec![1; 50] }));
        for _ in 0..3 {
            sender.send(next_chunk(&mut log, 60).unwrap()).unwrap();
        }
        leader.links.send_log_diff(BULK, chunks);
        leader.send(BULK, &Message::UpToDate);
        let is_up_to_date = |side: &Side| side.link(BULK).is_active;
        exchange(&mut leader, &mut learner, is_up_to_date);
        let of_event = |event| if let LinkEvent::Messages(_, messages, _) = event { messages } else { Vec::new() };
        let messages: Vec<Message> = learner.events.drain(..).flat_map(of_event).collect();
        let kinds: Vec<String> = messages.iter().map(|message| format!("{message:?}")).collect();
        let expected = ["LeaderInfo", "Snap", "Proposal", "Commit", "Proposal", "Commit", "UpToDate"];
        assert!(kinds.iter().zip(expected).all(|(kind, start)| kind.starts_with(start)), "{kinds:?}");
        assert_eq!(kinds.len(), expected.len());
        assert_eq!(learner.links.take_snapshots().pop().unwrap().finish().unwrap().last_zxid(), Zxid(3));
        assert!(leader.link(BULK).out.is_empty() && !leader.links.has_more());
    }
}
