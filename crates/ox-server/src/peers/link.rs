//! Links between a leader and its learners: packets, and a whole snapshot where that is needed.
//!
//! Each link transfers one chunk per iteration, and all together a limited number: a snapshot takes long at both ends
//! and delays no other link.
//!
//! No link is closed for what waits in it: the core hands over no more than its send window, and is notified of what
//! the socket has accepted ([`PeerEvent::Sent`]). Reading and writing never wait for each other, so two servers that
//! both have much to send cannot block each other: a link is not read only while the replica has not processed what was
//! read, and the replica waits for its own disk, never for a socket.

mod queue;

use super::commands::{Packets, PeerCommands, PeerEvent};
use super::handshakes::Accepted;
use super::log_diff_sender::{Chunk, LogDiffSender};
use super::socket::Socket;
use super::timed_log_limit::TimedLogLimit;
use crate::limits::{FIRST_PACKET_BYTES_MAX, LINK_CHUNK_BYTES, LINK_HELD_BYTES_MAX, LINK_SENT_REPORT_BYTES};
use crate::limits::{LINK_ITERATION_BYTES_MAX, LINKS_PER_MEMBER_MAX, UNKNOWN_SERVERS_MAX};
use crate::metrics::Metrics;
use bytes::Bytes;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ox_proto::quorum::packet::PacketReader;
use ox_proto::{ServerId, Zxid};
use ox_store::LoggedRecord;
use ox_store::snapshot::stream::{SnapshotReceiver, SnapshotSender};
use ox_tree::{FrozenView, State, TreeOptions};
use ox_zab::{LinkId, Message, Sender, Traffic};
use queue::{Batch, Queue};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the replica is notified of traffic on a link.
const PROGRESS: Duration = Duration::from_millis(200);

/// Output of a link, in order.
enum Out {
    Packets(Packets, Batch),
    Snapshot(Box<SnapshotSender>),
    LogDiff(LogDiffSender),
}

/// Size of the receive buffer.
const RECEIVE_BUFFER_BYTES: usize = 128 << 10;

/// When the replica was last notified of received, or sent, bytes.
#[derive(Default)]
struct TrafficReport {
    is_new: bool,
    reported_at: Option<Instant>,
}

impl TrafficReport {
    /// Whether to notify the replica of new traffic now.
    fn take_due(&mut self, now: Instant) -> bool {
        let is_due =
            self.is_new && self.reported_at.is_none_or(|reported_at| PROGRESS <= now.duration_since(reported_at));
        if is_due {
            *self = Self { is_new: false, reported_at: Some(now) };
        }
        is_due
    }
}

pub(super) struct Link {
    id: LinkId,
    socket: Socket,
    /// Which role the remote end has.
    side: Sender,
    /// For loading a snapshot, if the remote end is a leader.
    options: Option<TreeOptions>,
    reader: PacketReader,
    packet_bytes_max: usize,
    /// Whether the first packet has arrived.
    has_received: bool,
    /// The learner that its hello names, and the address that it dialled from.
    server: Option<ServerId>,
    address: Option<IpAddr>,
    /// Whether that server is in no configuration.
    is_unknown: bool,
    /// The core has sent a packet: the leader has accepted this learner.
    is_accepted: bool,
    /// The leader has sent UPTODATE: from now on it pings.
    is_active: bool,
    /// When bytes were last received.
    last_received: Instant,
    input: Vec<u8>,
    /// Whether the socket may have input.
    may_read: bool,
    loading: Option<(Zxid, Box<SnapshotReceiver>)>,
    out: VecDeque<Out>,
    queue: Queue,
    /// Bytes of the send window that the socket has accepted, and that are not reported.
    sent_bytes: usize,
    /// Bytes of packets that the replica has not processed.
    held_bytes: usize,
    /// Traffic that the replica is notified of, for each direction.
    received: TrafficReport,
    sent: TrafficReport,
}

/// A snapshot that is received, and still has to be loaded, which takes long.
pub(super) struct ReceivedSnapshot {
    pub(super) link: LinkId,
    zxid: Zxid,
    receiver: Box<SnapshotReceiver>,
}

impl ReceivedSnapshot {
    /// `None` if it is corrupt.
    pub(super) fn finish(self) -> Option<Box<State>> {
        Some(Box::new(self.receiver.finish(self.zxid).ok()?.state))
    }
}

/// The remote end of a new link.
pub(super) enum RemoteEnd {
    /// A learner, which has dialled.
    Learner,
    /// The leader, with the options for loading its snapshot.
    Leader(TreeOptions),
}

impl Link {
    fn new(id: LinkId, stream: TcpStream, end: RemoteEnd, packet_bytes_max: usize, metrics: Arc<Metrics>) -> Self {
        let (side, options) = match end {
            RemoteEnd::Learner => (Sender::Learner, None),
            RemoteEnd::Leader(options) => (Sender::Leader, Some(options)),
        };
        Self {
            id,
            socket: Socket::new(stream),
            side,
            options,
            reader: PacketReader::default(),
            packet_bytes_max,
            has_received: false,
            server: None,
            address: None,
            is_unknown: false,
            is_accepted: false,
            is_active: false,
            last_received: Instant::now(),
            input: Vec::new(),
            may_read: true,
            loading: None,
            out: VecDeque::new(),
            queue: Queue::new(metrics),
            sent_bytes: 0,
            held_bytes: 0,
            received: TrafficReport::default(),
            sent: TrafficReport::default(),
        }
    }

    /// The largest packet that is accepted. A learner may send only its hello before the leader has replied.
    fn limit(&self) -> usize {
        let may_speak = self.has_received && (self.is_accepted || self.side == Sender::Leader);
        if may_speak { self.packet_bytes_max } else { FIRST_PACKET_BYTES_MAX }
    }

    /// Received bytes that are not processed.
    fn unread_bytes(&self) -> usize {
        self.input.len() + self.held_bytes
    }
}

/// The links of this server.
pub(super) struct Links {
    commands: Arc<PeerCommands>,
    metrics: Arc<Metrics>,
    packet_bytes_max: usize,
    leader_nodelay: bool,
    learner_nodelay: bool,
    links: BTreeMap<Token, Link>,
    tokens: BTreeMap<LinkId, Token>,
    next: u64,
    /// Links that may have input or output, each once, in the order of their turns.
    run_queue: VecDeque<Token>,
    is_queued: BTreeSet<Token>,
    /// Links whose log diff is being read; the reading thread wakes this one.
    awaiting_disk: BTreeSet<Token>,
    /// Snapshots that are completely received, and not taken yet.
    snapshots: Vec<ReceivedSnapshot>,
    /// The receive buffer of all links.
    buffer: Box<[u8]>,
    /// Limits the lines about closed links of unknown servers.
    unknown_close_log: TimedLogLimit,
}

impl Links {
    pub(super) fn new(
        commands: Arc<PeerCommands>,
        metrics: Arc<Metrics>,
        packet_bytes_max: usize,
        leader_nodelay: bool,
        learner_nodelay: bool,
    ) -> Self {
        Self {
            commands,
            metrics,
            packet_bytes_max,
            leader_nodelay,
            learner_nodelay,
            links: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next: 0,
            run_queue: VecDeque::new(),
            is_queued: BTreeSet::new(),
            awaiting_disk: BTreeSet::new(),
            snapshots: Vec::new(),
            buffer: vec![0; RECEIVE_BUFFER_BYTES].into(),
            unknown_close_log: TimedLogLimit::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        mut stream: TcpStream,
        token: Token,
        end: RemoteEnd,
        registry: &Registry,
    ) -> Option<LinkId> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).ok()?;
        Some(self.insert(stream, token, end))
    }

    fn insert(&mut self, stream: TcpStream, token: Token, end: RemoteEnd) -> LinkId {
        let nodelay = match end {
            RemoteEnd::Learner => self.leader_nodelay,
            RemoteEnd::Leader(_) => self.learner_nodelay,
        };
        let _ = stream.set_nodelay(nodelay);
        self.next += 1;
        let id = LinkId(self.next);
        self.tokens.insert(id, token);
        self.links.insert(token, Link::new(id, stream, end, self.packet_bytes_max, Arc::clone(&self.metrics)));
        id
    }

    /// Takes over a registered connection whose input starts with the hello of `server`.
    pub(super) fn adopt(
        &mut self,
        Accepted { stream, token, address, input }: Accepted,
        server: ServerId,
        is_member: impl Fn(ServerId) -> bool,
        events: &mut Vec<PeerEvent>,
    ) {
        let is_unknown = !is_member(server);
        if let Some(surplus) = self.surplus(server, is_member) {
            self.fail(surplus, events);
        }
        let from = stream.peer_addr().ok();
        let id = self.insert(stream, token, RemoteEnd::Learner);
        if let Some(link) = self.links.get_mut(&token) {
            (link.server, link.address) = (Some(server), Some(address));
            (link.is_unknown, link.input) = (is_unknown, input);
        }
        events.push(PeerEvent::LearnerConnected(id, from));
        self.on_ready(token);
    }

    /// The addresses that a learner's links come from.
    pub(super) fn addresses_of(&self, server: ServerId) -> impl Iterator<Item = IpAddr> {
        self.links.values().filter(move |link| link.server == Some(server)).filter_map(|link| link.address)
    }

    /// Applies a new configuration: which servers are members.
    pub(super) fn reconfigure(&mut self, is_member: impl Fn(ServerId) -> bool) {
        for link in self.links.values_mut() {
            link.is_unknown = link.server.is_some_and(|server| !is_member(server));
        }
    }

    /// Closes links of unknown servers, the one that holds most first, until all together hold no more than one link
    /// may: a packet of the largest size.
    fn bound_unknown(&mut self, events: &mut Vec<PeerEvent>) {
        loop {
            let unknown = self.links.iter().filter(|(_, link)| link.is_unknown);
            let held: Vec<(usize, Token)> = unknown.map(|(token, link)| (link.unread_bytes(), *token)).collect();
            let total: usize = held.iter().map(|(bytes, _)| bytes).sum();
            let Some((bytes, token)) = held.into_iter().max().filter(|_| self.packet_bytes_max < total) else { return };
            if let Some(suppressed) = self.unknown_close_log.allow() {
                let line =
                    "link of an unknown server closed: the links of unknown servers together use too much memory";
                tracing::warn!(bytes, total, suppressed, "{line}");
            }
            self.fail(token, events);
        }
    }

    /// The link to close before `server` gets another one: the oldest of a member, or the longest silent of all servers
    /// that are in no configuration.
    fn surplus(&self, server: ServerId, is_member: impl Fn(ServerId) -> bool) -> Option<Token> {
        let learners = self.links.iter().filter_map(|(token, link)| Some((*token, link, link.server?)));
        let (mut links, max): (Vec<_>, usize) = if is_member(server) {
            let same = learners.filter(|(.., of)| *of == server);
            (same.map(|(token, link, _)| (None, link.id, token)).collect(), LINKS_PER_MEMBER_MAX)
        } else {
            let unknown = learners.filter(|(.., of)| !is_member(*of));
            (unknown.map(|(token, link, _)| (link.received.reported_at, link.id, token)).collect(), UNKNOWN_SERVERS_MAX)
        };
        links.sort_unstable();
        links.first().filter(|_| max <= links.len()).map(|(.., token)| *token)
    }

    /// When bytes last arrived from an active leader, which pings, and whether all input was read.
    pub(super) fn leader_last_received(&self) -> Option<(Instant, bool)> {
        let leader = self.links.values().find(|link| link.is_active)?;
        Some((leader.last_received, !leader.may_read && leader.held_bytes < LINK_HELD_BYTES_MAX))
    }

    /// Reads from an active leader. False if nothing arrived.
    pub(super) fn read_leader(&mut self, events: &mut Vec<PeerEvent>) -> bool {
        let leader = self.links.iter_mut().find(|(_, link)| link.is_active);
        let Some(token) = leader.map(|(token, link)| {
            link.may_read = true;
            *token
        }) else {
            return false;
        };
        self.schedule(token);
        self.read(token, events).0 != 0
    }

    /// Resets the link to the leader.
    pub(super) fn reset_leader(&mut self, events: &mut Vec<PeerEvent>) {
        let active = self.links.iter().find(|(_, link)| link.is_active).map(|(token, _)| *token);
        if let Some(token) = active {
            self.links[&token].socket.reset_on_close();
            self.fail(token, events);
        }
    }

    pub(super) fn send(&mut self, id: LinkId, packets: Packets) {
        self.push(id, |queue| {
            let batch = queue.push(packets.count);
            Out::Packets(packets, batch)
        });
    }

    /// Sends SNAP and the snapshot.
    pub(super) fn send_snapshot(&mut self, id: LinkId, frozen: FrozenView) {
        let sender = SnapshotSender::new(frozen);
        let head = Packets::from(&Message::Snap(sender.last_zxid()));
        self.send(id, Packets { flow_bytes: 0, ..head });
        self.push(id, |_| Out::Snapshot(Box::new(sender)));
    }

    /// Sends transactions from the on-disk log.
    pub(super) fn send_log_diff<H>(&mut self, id: LinkId, history: H, events: &mut Vec<PeerEvent>)
    where
        H: Iterator<Item = Result<LoggedRecord, ox_store::StoreError>> + Send + 'static,
    {
        let Some(token) = self.tokens.get(&id).copied() else { return };
        match LogDiffSender::read(history, Arc::clone(&self.commands)) {
            Ok(log_diff) => self.push(id, |_| Out::LogDiff(log_diff)),
            Err(error) => {
                tracing::error!(%error, "cannot start a thread to read the log");
                self.fail(token, events);
            }
        }
    }

    fn push(&mut self, id: LinkId, out: impl FnOnce(&mut Queue) -> Out) {
        let Some(token) = self.tokens.get(&id).copied() else { return };
        let Some(link) = self.links.get_mut(&token) else { return };
        let out = out(&mut link.queue);
        link.is_accepted = true;
        link.out.push_back(out);
        self.schedule(token);
    }

    /// Marks a link ready to read and write.
    pub(super) fn on_ready(&mut self, token: Token) {
        if let Some(link) = self.links.get_mut(&token) {
            link.may_read = true;
            self.schedule(token);
        }
    }

    fn schedule(&mut self, token: Token) {
        if self.is_queued.insert(token) {
            self.run_queue.push_back(token);
        }
    }

    /// Whether a link can transfer its next chunk immediately.
    pub(super) fn has_more(&self) -> bool {
        !self.run_queue.is_empty()
    }

    /// Transfers a chunk of each ready link, up to a limit; the others are first in the next iteration.
    pub(super) fn run_iteration(&mut self, events: &mut Vec<PeerEvent>) {
        for token in std::mem::take(&mut self.awaiting_disk) {
            self.schedule(token);
        }
        let mut left = LINK_ITERATION_BYTES_MAX;
        for _ in 0..self.run_queue.len() {
            let Some(token) = self.run_queue.pop_front_if(|_| 0 < left) else { return };
            self.is_queued.remove(&token);
            let (received_bytes, is_all_read) = self.read(token, events);
            let (sent_bytes, is_all_sent) = self.flush(token, events);
            left = left.saturating_sub(received_bytes + sent_bytes);
            if !(is_all_read && is_all_sent) {
                self.schedule(token);
            }
        }
    }

    /// Takes the snapshots received since the last call.
    pub(super) fn take_snapshots(&mut self) -> Vec<ReceivedSnapshot> {
        std::mem::take(&mut self.snapshots)
    }

    /// Closes a link on request of the replica, after one attempt to flush it.
    pub(super) fn close(&mut self, id: LinkId) {
        if let Some(token) = self.tokens.remove(&id) {
            self.flush(token, &mut Vec::new());
            self.links.remove(&token);
        }
    }

    /// Resumes reading, after the replica has processed packets.
    pub(super) fn consumed(&mut self, id: LinkId, bytes: usize) {
        let Some(token) = self.tokens.get(&id).copied() else { return };
        let Some(link) = self.links.get_mut(&token) else { return };
        let was_full = LINK_HELD_BYTES_MAX <= link.held_bytes;
        link.held_bytes = link.held_bytes.saturating_sub(bytes);
        if was_full && link.held_bytes < LINK_HELD_BYTES_MAX {
            self.on_ready(token);
        }
    }

    /// Reads a chunk. Returns the number of bytes, and whether nothing more can be read now.
    fn read(&mut self, token: Token, events: &mut Vec<PeerEvent>) -> (usize, bool) {
        let Some(link) = self.links.get_mut(&token) else { return (0, true) };
        if !link.may_read || LINK_HELD_BYTES_MAX <= link.held_bytes {
            return (0, true); // until the replica has processed some of it
        }
        let before = link.input.len();
        let read = link.socket.read(&mut link.input, before + LINK_CHUNK_BYTES, &mut self.buffer);
        let received_bytes = link.input.len() - before;
        link.received.is_new |= 0 < received_bytes;
        if 0 < received_bytes {
            link.last_received = Instant::now();
        }
        let is_unknown = link.is_unknown;
        match (read, take(link, &mut self.snapshots, events)) {
            (Ok(is_all), Ok(())) => {
                link.may_read = !is_all;
                if is_unknown {
                    self.bound_unknown(events);
                }
                return (received_bytes, is_all);
            }
            (Err(error), Ok(())) => tracing::debug!(link = link.id.0, %error, "link closed"),
            (_, Err(error)) => tracing::warn!(link = link.id.0, error, "malformed quorum packet"),
        }
        self.fail(token, events);
        (received_bytes, true)
    }

    /// Sends a chunk. Returns the number of bytes, and whether nothing more can be sent now.
    fn flush(&mut self, token: Token, events: &mut Vec<PeerEvent>) -> (usize, bool) {
        let Some(link) = self.links.get_mut(&token) else { return (0, true) };
        let socket = &mut link.socket;
        // Bytes that the kernel accepts immediately are no sign of life: it accepts them for a dead peer, too.
        let mut had_to_wait = socket.unsent_bytes() != 0;
        let mut sent_bytes = 0;
        while sent_bytes < LINK_CHUNK_BYTES {
            while socket.unsent_bytes() < LINK_CHUNK_BYTES
                && let Some(Out::Packets(packets, batch)) = link.out.pop_front_if(|out| matches!(out, Out::Packets(..)))
            {
                link.queue.pop(&batch);
                socket.push(packets.bytes);
                link.sent_bytes += packets.flow_bytes;
            }
            if LINK_SENT_REPORT_BYTES <= link.sent_bytes {
                events.push(PeerEvent::Sent(link.id, std::mem::take(&mut link.sent_bytes)));
            }
            if socket.unsent_bytes() == 0 {
                let chunk = match link.out.front_mut() {
                    None | Some(Out::Packets(..)) => return (sent_bytes, true),
                    Some(Out::Snapshot(sender)) => sender.next().unwrap_or_default().into(),
                    Some(Out::LogDiff(log_diff)) => log_diff.next(),
                };
                match chunk {
                    Chunk::RemoteEnd => drop(link.out.pop_front()),
                    Chunk::Bytes(bytes) => {
                        had_to_wait = true;
                        socket.push(bytes);
                    }
                    Chunk::NotYet => {
                        self.awaiting_disk.insert(token);
                        return (sent_bytes, true);
                    }
                    Chunk::Failed => {
                        self.fail(token, events);
                        return (sent_bytes, true);
                    }
                }
            }
            let Ok(sent) = socket.flush(LINK_CHUNK_BYTES) else {
                self.fail(token, events);
                return (sent_bytes, true);
            };
            sent_bytes += sent;
            link.sent.is_new |= had_to_wait && 0 < sent;
            if socket.unsent_bytes() != 0 && sent < LINK_CHUNK_BYTES {
                return (sent_bytes, true); // until the remote end reads
            }
        }
        (sent_bytes, false)
    }

    fn fail(&mut self, token: Token, events: &mut Vec<PeerEvent>) {
        if let Some(link) = self.links.remove(&token) {
            self.tokens.remove(&link.id);
            events.push(PeerEvent::LinkClosed(link.id));
        }
    }

    /// Notifies the replica of traffic on each link.
    pub(super) fn on_time(&mut self, now: Instant, events: &mut Vec<PeerEvent>) {
        for link in self.links.values_mut() {
            for (movement, moved) in [(&mut link.received, Traffic::Received), (&mut link.sent, Traffic::Sent)] {
                if movement.take_due(now) {
                    events.push(PeerEvent::Progress(link.id, moved));
                }
            }
        }
    }
}

/// Takes all complete packets and snapshots out of the input.
fn take(
    link: &mut Link,
    snapshots: &mut Vec<ReceivedSnapshot>,
    events: &mut Vec<PeerEvent>,
) -> Result<(), &'static str> {
    loop {
        if let Some((zxid, receiver)) = &mut link.loading {
            let used = receiver.feed(&link.input).map_err(|_| "snapshot stream is corrupt")?;
            let Some(used) = used else {
                link.input.clear();
                return Ok(());
            };
            link.input.drain(..used);
            let zxid = *zxid;
            let Some((_, receiver)) = link.loading.take() else { return Ok(()) };
            snapshots.push(ReceivedSnapshot { link: link.id, zxid, receiver });
        }
        if link.reader.next(&link.input, link.limit()).map_err(|_| "packet exceeds the limit")?.is_none() {
            return Ok(());
        }
        take_packets(link, events)?;
    }
}

/// Takes packets, up to a SNAP, which a snapshot follows.
fn take_packets(link: &mut Link, events: &mut Vec<PeerEvent>) -> Result<(), &'static str> {
    let mut input = std::mem::take(&mut link.input);
    input.shrink_to_fit(); // transactions reference it for as long as they are in the recent log
    let chunk = Bytes::from(input);
    let (mut at, mut messages) = (0, Vec::new());
    while let Some((packet, length)) =
        link.reader.next(&chunk[at..], link.limit()).map_err(|_| "packet exceeds the limit")?
    {
        let message = Message::read(&packet, &chunk, link.side).map_err(|_| "packet cannot be decoded")?;
        at += length;
        link.has_received = true;
        if let Message::Hello { server, .. } = message {
            link.queue.set_learner(server);
        }
        link.is_active |= link.options.is_some() && matches!(message, Message::UpToDate);
        let snap = if let Message::Snap(zxid) = message { Some(zxid) } else { None };
        if !messages.last_mut().is_some_and(|last: &mut Message| last.join(&message)) {
            messages.push(message);
        }
        if let Some(zxid) = snap {
            let options = link.options.clone().ok_or("a learner sent SNAP")?;
            link.loading = Some((zxid, Box::new(SnapshotReceiver::new(options))));
            break;
        }
    }
    link.input = chunk[at..].to_vec();
    link.held_bytes += at;
    events.push(PeerEvent::Messages(link.id, messages, at));
    Ok(())
}

#[cfg(test)]
mod tests;
