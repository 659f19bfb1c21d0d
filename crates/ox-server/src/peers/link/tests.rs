//! Links over real sockets: registration, addresses, threads that read log diffs, log lines.

use super::*;
use mio::net::TcpStream;
use mio::{Events, Poll};
use ox_driver::links::LinkEvent;
use ox_proto::Zxid;
use ox_tree::TreeOptions;
use ox_zab::Message;
use std::sync::mpsc::{Receiver, Sender, channel};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// One end of several links, with the events that it has reported.
struct Side {
    links: PeerLinks,
    poll: Poll,
    events: Vec<PeerEvent>,
}

impl Side {
    fn new(packet_bytes_max: usize) -> Self {
        let poll = Poll::new().unwrap();
        let commands = Arc::new(PeerCommands::new(mio::Waker::new(poll.registry(), crate::io::WAKER).unwrap()));
        let links = PeerLinks::new(commands, (Arc::default(), Clock::new()), packet_bytes_max, true, true);
        Self { links, poll, events: Vec::new() }
    }

    fn add(&mut self, stream: std::net::TcpStream, token: usize, end: RemoteEnd) -> LinkId {
        stream.set_nonblocking(true).unwrap();
        self.links.add(Stream::Plain(TcpStream::from_std(stream)), Token(token), end, self.poll.registry()).unwrap()
    }

    fn run_iteration(&mut self) {
        let timeout = if self.links.has_more() { Duration::ZERO } else { Duration::from_millis(10) };
        let mut ready = Events::with_capacity(16);
        self.poll.poll(&mut ready, Some(timeout)).unwrap();
        ready.iter().for_each(|event| self.links.on_ready(event.token()));
        self.links.run_iteration(&mut self.events);
    }

    fn is_closed(&self, id: LinkId) -> bool {
        self.events.iter().any(|event| matches!(event, PeerEvent::Link(LinkEvent::Closed(link)) if *link == id))
    }
}

/// A leader and a learner with two links between them.
fn linked() -> (Side, Side, [LinkId; 2], [LinkId; 2]) {
    let (mut leader, mut learner) = (Side::new(1 << 20), Side::new(1 << 20));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut pair = |token| {
        let dialled = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = leader.add(listener.accept().unwrap().0, token, RemoteEnd::Learner);
        (near, learner.add(dialled, token, RemoteEnd::Leader(TreeOptions::default())))
    };
    let ((first, far_first), (second, far_second)) = (pair(1), pair(2));
    (leader, learner, [first, second], [far_first, far_second])
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
    let conn = Accepted { stream: Stream::Plain(near), token: Token(token), address, input };
    leader.links.adopt(conn, ServerId(server), |_| is_member, &mut leader.events);
    learner
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
    let (mut leader, lines, began) = (Side::new(10), Lines::default(), Instant::now());
    tracing::subscriber::with_default(lines.clone(), || {
        for token in 1..=200 {
            let _learner = adopted(&mut leader, token, 100, false);
            leader.run_iteration();
            assert!(leader.is_closed(LinkId(token as u64)), "its hello is larger than the limit of the test");
        }
    });
    let lines = lines.0.load(std::sync::atomic::Ordering::Relaxed);
    let most = crate::limits::LOG_LINES_BURST as u64 + began.elapsed().as_secs() + 1;
    assert!((1..=most).contains(&lines), "{lines} lines for 200 links");
}

#[test]
fn addresses_of_a_learner_are_those_of_its_open_links() {
    let mut leader = Side::new(1 << 20);
    let _learners = [(1, 7), (2, 7), (3, 8)].map(|(token, server)| adopted(&mut leader, token, server, true));
    let count = |leader: &Side, server| leader.links.addresses_of(ServerId(server)).count();
    assert_eq!([7, 8, 9].map(|server| count(&leader, server)), [2, 1, 0]);
    leader.links.close(LinkId(1));
    assert_eq!(count(&leader, 7), 1);
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

/// Commits and pings received on a link.
fn received(side: &mut Side, link: LinkId) -> usize {
    let of_link = |event| {
        if let PeerEvent::Link(LinkEvent::Messages(from, messages, _)) = event
            && from == link
        {
            return messages;
        }
        Vec::new()
    };
    let messages = side.events.drain(..).flat_map(of_link);
    messages.filter(|message| matches!(message, Message::Commit(_) | Message::Commits(_) | Message::Ping(_))).count()
}

#[test]
fn slow_disk_delays_only_the_learner_that_needs_the_log() {
    let (mut leader, mut learner, [bulk, small], [far_bulk, far_small]) = linked();
    let (disk, permit, is_free) = disk(3);
    leader.links.send(bulk, Packets::from(&Message::Diff(Zxid(1_000_000))));
    leader.links.send_log_diff(bulk, disk, &mut leader.events);
    leader.links.send(bulk, Packets::from(&Message::Ping(Zxid(1))));
    let until = Instant::now() + TEST_TIMEOUT;
    let mut exchange = |leader: &mut Side, link: LinkId, count: usize| {
        let mut received_count = 0;
        while received_count < count {
            leader.run_iteration();
            learner.run_iteration();
            received_count += received(&mut learner, link);
            learner.links.consumed(link, usize::MAX);
            assert!(Instant::now() < until, "{received_count} of {count}");
        }
    };
    for read in 1..=3 {
        (0..10).for_each(|_| leader.links.send(small, Packets::from(&Message::Ping(Zxid(1)))));
        exchange(&mut leader, far_small, 10);
        leader.run_iteration();
        assert!(!leader.links.has_more(), "the thread does not spin while it waits for the disk");
        permit.send(()).unwrap();
        let ping = usize::from(read == 3); // it follows the end of the diff
        exchange(&mut leader, far_bulk, 1 + ping);
    }
    is_free.recv_timeout(TEST_TIMEOUT).expect("it is read to its end");
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
    while !leader.is_closed(bulk) {
        leader.run_iteration();
        assert!(Instant::now() < until);
    }
}
