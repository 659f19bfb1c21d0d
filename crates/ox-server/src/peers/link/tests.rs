//! Both ends of links over real sockets, iteration by iteration.

use super::*;
use mio::{Events, Poll};
use ox_proto::txn::{CreateKind, CreateTxn, Record, Txn, TxnHeader};
use ox_proto::{RawAcls, SessionId};
use std::sync::mpsc::{Receiver, Sender, channel};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// One end of several links, with the events that it has reported.
struct Side {
    links: Links,
    poll: Poll,
    events: Vec<PeerEvent>,
}

impl Side {
    fn new() -> Self {
        let poll = Poll::new().unwrap();
        let commands = Arc::new(PeerCommands::new(mio::Waker::new(poll.registry(), crate::io::WAKER).unwrap()));
        Self { links: Links::new(commands, Arc::default(), 1 << 20, true, true), poll, events: Vec::new() }
    }

    fn add(&mut self, stream: std::net::TcpStream, token: usize, end: RemoteEnd) -> LinkId {
        stream.set_nonblocking(true).unwrap();
        self.links.add(TcpStream::from_std(stream), Token(token), end, self.poll.registry()).unwrap()
    }

    fn run_iteration(&mut self) {
        let timeout = if self.links.has_more() { Duration::ZERO } else { Duration::from_millis(10) };
        let mut ready = Events::with_capacity(16);
        self.poll.poll(&mut ready, Some(timeout)).unwrap();
        ready.iter().for_each(|event| self.links.on_ready(event.token()));
        self.links.run_iteration(&mut self.events);
    }

    fn link(&self, token: usize) -> &Link {
        &self.links.links[&Token(token)]
    }
}

/// A state with `nodes` nodes of a hundred kilobytes each.
fn state(nodes: i64) -> State {
    let mut state = State::new(TreeOptions::default());
    let data = vec![7; 100_000];
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

/// A leader and a learner with two links between them.
fn linked() -> (Side, Side, [LinkId; 2], [LinkId; 2]) {
    let (mut leader, mut learner) = (Side::new(), Side::new());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut pair = |token| {
        let dialled = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = leader.add(listener.accept().unwrap().0, token, RemoteEnd::Learner);
        (near, learner.add(dialled, token, RemoteEnd::Leader(TreeOptions::default())))
    };
    let ((first, far_first), (second, far_second)) = (pair(1), pair(2));
    (leader, learner, [first, second], [far_first, far_second])
}

/// However fast the remote end is, an iteration is bounded at both ends, and traffic is reported (K93).
#[test]
fn k093_snapshot_is_sent_in_chunks_and_delays_no_other_link() {
    let (mut leader, mut learner, [bulk, small], [far_bulk, far_small]) = linked();
    leader.links.send_snapshot(bulk, state(200).freeze());
    let (mut iterations, mut reports, mut at) = ([0, 0], 0, Instant::now());
    let until = Instant::now() + TEST_TIMEOUT;
    while learner.links.snapshots.is_empty() {
        assert!(Instant::now() < until, "{iterations:?}");
        leader.links.send(small, Packets::from(&Message::Ping(Zxid(1))));
        leader.run_iteration();
        assert_eq!(leader.link(2).out.len() + leader.link(2).socket.unsent_bytes(), 0, "the other link is served");
        learner.run_iteration();
        iterations = [iterations[0] + usize::from(!leader.link(1).out.is_empty()), iterations[1] + 1];
        at += PROGRESS;
        learner.links.on_time(at, &mut learner.events);
        leader.links.on_time(at, &mut leader.events);
        let received =
            |event: &PeerEvent| matches!(event, PeerEvent::Progress(link, Traffic::Received) if *link == far_bulk);
        reports += learner.events.drain(..).filter(received).count();
    }
    // Twenty megabytes in total.
    assert!(iterations.iter().all(|iterations| 20_000_000 / (2 * LINK_CHUNK_BYTES) < *iterations), "{iterations:?}");
    assert!(10 < reports, "{reports}");
    let state = learner.links.take_snapshots().pop().unwrap().finish().unwrap();
    assert_eq!((state.last_zxid(), far_small == far_bulk), (Zxid(200), false));
}

/// Bytes that had to wait for the remote end show that it reads; bytes that the kernel accepts immediately do not.
#[test]
fn only_bytes_that_had_to_wait_are_a_sign_of_life() {
    let (mut leader, mut learner, [link, _], _) = linked();
    let has_sent = |leader: &mut Side, at| {
        leader.links.on_time(at, &mut leader.events);
        leader.events.drain(..).any(|event| matches!(event, PeerEvent::Progress(_, Traffic::Sent)))
    };
    let mut at = Instant::now();
    for _ in 0..5 {
        leader.links.send(link, Packets::from(&Message::Ping(Zxid(1))));
        leader.run_iteration();
        at += PROGRESS;
        assert!(!has_sent(&mut leader, at), "the learner has not read it");
    }
    let mut pings = Packets::default();
    (0..1_000_000).for_each(|_| pings.put(&Message::Ping(Zxid(1))));
    leader.links.send(link, pings);
    let until = Instant::now() + TEST_TIMEOUT;
    while leader.link(1).socket.unsent_bytes() == 0 || leader.links.has_more() {
        leader.run_iteration();
        assert!(Instant::now() < until);
    }
    at += PROGRESS;
    has_sent(&mut leader, at);
    at += PROGRESS;
    assert!(!has_sent(&mut leader, at), "nothing is sent");
    while !has_sent(&mut leader, at) {
        learner.run_iteration();
        learner.links.consumed(LinkId(1), usize::MAX);
        leader.run_iteration();
        at += PROGRESS;
        assert!(Instant::now() < until);
    }
}

/// The core decides how much a link may hold. It is notified of every byte sent, in steps.
#[test]
fn link_with_much_unsent_stays_and_reports_what_is_sent() {
    let (mut leader, mut learner, [link, _], [far, _]) = linked();
    let first = Packets::from(&Message::LeaderInfo(ox_zab::Epoch(1))); // the first packet of a link has to be small
    let (record, mut handed) = (vec![7; 100_000], first.flow_bytes);
    leader.links.send(link, first);
    for counter in 1..=600 {
        let txn = ox_zab::EncodedTxn { zxid: Zxid(counter), record: record.clone().into() };
        let packets = Packets::from(&Message::Proposal(txn));
        handed += packets.flow_bytes;
        leader.links.send(link, packets);
    }
    leader.run_iteration();
    assert!(
        leader.events.iter().all(|event| !matches!(event, PeerEvent::LinkClosed(_))),
        "60 MB are no reason to close it"
    );
    let (until, mut sent) = (Instant::now() + TEST_TIMEOUT, 0);
    while sent + LINK_SENT_REPORT_BYTES <= handed {
        leader.run_iteration();
        learner.run_iteration();
        learner.links.consumed(far, usize::MAX);
        for event in leader.events.drain(..) {
            if let PeerEvent::Sent(_, bytes) = event {
                assert!(
                    (LINK_SENT_REPORT_BYTES..2 * LINK_SENT_REPORT_BYTES + LINK_CHUNK_BYTES).contains(&bytes),
                    "{bytes}"
                );
                sent += bytes;
            }
        }
        assert!(Instant::now() < until, "{sent} of {handed}");
    }
}

/// Sends and receives until `is_done`.
fn exchange(leader: &mut Side, learner: &mut Side, is_done: impl Fn(&Side) -> bool) {
    let until = Instant::now() + TEST_TIMEOUT;
    while !is_done(learner) {
        leader.run_iteration();
        learner.run_iteration();
        assert!(Instant::now() < until);
    }
}

/// A learner whose replica is behind does not read, and its leader's pings wait in the socket.
#[test]
fn leader_is_not_silent_while_its_learner_does_not_read() {
    let (mut leader, mut learner, [link, _], [far, _]) = linked();
    leader.links.send(link, Packets::from(&Message::UpToDate));
    exchange(&mut leader, &mut learner, |learner| {
        learner.links.leader_last_received().is_some_and(|(_, is_read)| is_read)
    });
    assert!(!learner.links.read_leader(&mut learner.events), "there is nothing to read");

    let txn = ox_zab::EncodedTxn { zxid: Zxid(1), record: vec![7; 1_000_000].into() };
    for _ in 0..20 {
        leader.links.send(link, Packets::from(&Message::Proposal(txn.clone())));
    }
    exchange(&mut leader, &mut learner, |learner| LINK_HELD_BYTES_MAX <= learner.link(1).held_bytes);
    let is_read = |learner: &Side| learner.links.leader_last_received().expect("it is active").1;
    assert!(!is_read(&learner), "it is full");
    assert!(!learner.links.read_leader(&mut learner.events));
    learner.links.consumed(far, usize::MAX);
    assert!(!is_read(&learner), "it has to read first");
    let before = learner.links.leader_last_received();
    assert!(learner.links.read_leader(&mut learner.events));
    assert!(before < learner.links.leader_last_received());
}

/// A learner that has sent its hello as `server`, and that the leader has as link `token`.
fn adopted(leader: &mut Side, token: usize, server: i64, is_member: bool) -> std::net::TcpStream {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let learner = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (near, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    let mut near = TcpStream::from_std(near);
    let interest = Interest::READABLE | Interest::WRITABLE;
    leader.poll.registry().register(&mut near, Token(token), interest).unwrap();
    let (kind, accepted) = (ox_zab::LearnerKind::Observer, ox_zab::Epoch(1));
    let hello = Message::Hello { server: ServerId(server), kind, accepted, config_version: 0 };
    let (address, input) = (std::net::Ipv4Addr::LOCALHOST.into(), Packets::from(&hello).bytes);
    let conn = Accepted { stream: near, token: Token(token), address, input };
    leader.links.adopt(conn, ServerId(server), |_| is_member, &mut leader.events);
    learner
}

/// A request that fits into the limit of the tests, but not twice.
fn large_request() -> Vec<u8> {
    let (body, ids) = (vec![7; 700_000].into(), Bytes::new());
    let request = ox_zab::Request { session: SessionId(1), cxid: 1, op: 5, body, ids };
    Packets::from(&Message::Request(request)).bytes
}

fn is_gone(side: &Side, id: LinkId) -> bool {
    side.events.iter().any(|event| matches!(event, PeerEvent::LinkClosed(link) if *link == id))
}

#[test]
fn unknown_servers_hold_no_more_than_one_packet_together() {
    use std::io::Write;
    for is_member in [false, true] {
        let mut leader = Side::new();
        let mut learners = [1, 2, 3].map(|token| adopted(&mut leader, token, 100 + token as i64, is_member));
        let ids = [1, 2, 3].map(|token| leader.link(token).id);
        ids.iter().for_each(|id| leader.links.send(*id, Packets::from(&Message::LeaderInfo(ox_zab::Epoch(2)))));
        let (request, until) = (large_request(), Instant::now() + TEST_TIMEOUT);
        let parts = [300_000, 600_000, 400_000];
        for (at, learner) in learners.iter_mut().enumerate() {
            learner.write_all(&request[..parts[at]]).unwrap();
            let holds = |leader: &Side| leader.links.links.get(&Token(at + 1)).map_or(parts[at], Link::unread_bytes);
            while holds(&leader) < parts[at] {
                leader.run_iteration();
                let held: usize = leader.links.links.values().map(Link::unread_bytes).sum();
                assert!(is_member || held <= leader.links.packet_bytes_max, "{held}");
                assert!(Instant::now() < until);
            }
        }
        assert_eq!(ids.map(|id| is_gone(&leader, id)), [false, !is_member, false], "the one that holds most");
    }
}

/// Counts the lines that are logged.
#[derive(Clone, Default)]
struct Lines(Arc<std::sync::atomic::AtomicU64>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn closed_links_of_unknown_servers_do_not_fill_the_log() {
    let (mut leader, lines, began) = (Side::new(), Lines::default(), Instant::now());
    leader.links.packet_bytes_max = 10;
    tracing::subscriber::with_default(lines.clone(), || {
        for token in 1..=200 {
            let _learner = adopted(&mut leader, token, 100, false);
            leader.links.links.get_mut(&Token(token)).unwrap().input = vec![0; 11];
            leader.links.bound_unknown(&mut leader.events);
            assert!(leader.links.links.is_empty());
        }
    });
    let lines = lines.0.load(std::sync::atomic::Ordering::Relaxed);
    let most = crate::limits::LOG_LINES_BURST as u64 + began.elapsed().as_secs() + 1;
    assert!((1..=most).contains(&lines), "{lines} lines for 200 links");
}

#[test]
fn addresses_of_a_learner_are_those_of_its_open_links() {
    let mut leader = Side::new();
    let _learners = [(1, 7), (2, 7), (3, 8)].map(|(token, server)| adopted(&mut leader, token, server, true));
    let count = |leader: &Side, server| leader.links.addresses_of(ServerId(server)).count();
    assert_eq!([7, 8, 9].map(|server| count(&leader, server)), [2, 1, 0]);
    let first = leader.link(1).id;
    leader.links.close(first);
    assert_eq!(count(&leader, 7), 1);
}

#[test]
fn learner_sends_only_its_hello_before_the_leader_has_replied() {
    use std::io::Write;
    for is_accepted in [false, true] {
        let mut leader = Side::new();
        let mut learner = adopted(&mut leader, 1, 1, true);
        let id = leader.link(1).id;
        if is_accepted {
            leader.links.send(id, Packets::from(&Message::LeaderInfo(ox_zab::Epoch(2))));
        }
        learner.write_all(&large_request()[..50_000]).unwrap();
        let until = Instant::now() + TEST_TIMEOUT;
        while !is_gone(&leader, id) && leader.link(1).input.len() < 50_000 {
            leader.run_iteration();
            assert!(Instant::now() < until);
        }
        assert_eq!(is_gone(&leader, id), !is_accepted);
    }
}

/// An on-disk log of which one transaction can be read per message on `permits`.
struct Disk {
    permits: Receiver<()>,
    left: i64,
    /// Notified when the log is closed.
    freed: Sender<()>,
}

impl Iterator for Disk {
    type Item = Result<LoggedRecord, ox_store::StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1).filter(|left| 0 <= *left)?;
        self.permits.recv_timeout(TEST_TIMEOUT).expect("the test permits the next read");
        let zxid = Zxid(1_000_000 - self.left);
        Some(Ok(LoggedRecord { zxid, record: vec![0; LINK_CHUNK_BYTES] }))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.freed.send(());
    }
}

/// A log of `left` transactions, the sender that permits a read, and the receiver that is notified when it is closed.
fn disk(left: i64) -> (Disk, Sender<()>, Receiver<()>) {
    let ((permit, permits), (freed, is_free)) = (channel(), channel());
    (Disk { permits, left, freed }, permit, is_free)
}

/// Commits received on a link.
fn commits(side: &mut Side, link: LinkId) -> usize {
    let of_link = |event| {
        if let PeerEvent::Messages(from, messages, _) = event
            && from == link
        {
            return messages;
        }
        Vec::new()
    };
    let messages = side.events.drain(..).flat_map(of_link);
    messages.filter(|message| matches!(message, Message::Commit(_) | Message::Commits(_))).count()
}

#[test]
fn slow_disk_delays_only_the_learner_that_needs_the_log() {
    let (mut leader, mut learner, [bulk, small], [far_bulk, _]) = linked();
    let (disk, permit, is_free) = disk(3);
    leader.links.send(bulk, Packets::from(&Message::Diff(Zxid(1_000_000))));
    leader.links.send_log_diff(bulk, disk, &mut leader.events);
    let until = Instant::now() + TEST_TIMEOUT;
    let (mut pinged, mut received) = (0, 0);
    for read in 1..=3 {
        for _ in 0..10 {
            leader.links.send(small, Packets::from(&Message::Ping(Zxid(1))));
            leader.run_iteration();
            pinged += usize::from(leader.link(2).out.is_empty() && leader.link(2).socket.unsent_bytes() == 0);
        }
        assert!(!leader.links.has_more(), "the thread does not spin while it waits for the disk");
        permit.send(()).unwrap();
        while received < read {
            leader.run_iteration();
            learner.run_iteration();
            received += commits(&mut learner, far_bulk);
            learner.links.consumed(far_bulk, usize::MAX);
            assert!(Instant::now() < until, "{received} of {read}");
        }
    }
    assert_eq!(pinged, 30, "the other link is served");
    is_free.recv_timeout(TEST_TIMEOUT).expect("it is read to its end");
    while !leader.link(1).out.is_empty() {
        leader.run_iteration();
        assert!(Instant::now() < until, "its end is not noticed");
    }
}

/// Whether the link waits for it, or the disk does, or many chunks are read ahead.
#[test]
fn log_is_closed_when_the_learner_disconnects() {
    for permits in [0, 1, 100] {
        let (mut leader, _learner, [bulk, _], _) = linked();
        let (disk, permit, is_free) = disk(100);
        (0..permits).for_each(|_| permit.send(()).unwrap());
        leader.links.send_log_diff(bulk, disk, &mut leader.events);
        leader.run_iteration();
        leader.links.close(bulk);
        let _ = permit.send(()); // the disk replies in the end
        is_free.recv_timeout(TEST_TIMEOUT).unwrap_or_else(|_| panic!("it is kept after {permits}"));
    }
}

/// A read error is not taken for the end of the diff.
#[test]
fn unreadable_log_closes_the_link() {
    let (mut leader, _learner, [bulk, _], _) = linked();
    let history = std::iter::once(Err(ox_store::StoreError::HistoryChanged(Zxid(1))));
    leader.links.send_log_diff(bulk, history, &mut leader.events);
    let until = Instant::now() + TEST_TIMEOUT;
    while !leader.events.iter().any(|event| matches!(event, PeerEvent::LinkClosed(link) if *link == bulk)) {
        leader.run_iteration();
        assert!(Instant::now() < until);
    }
}
