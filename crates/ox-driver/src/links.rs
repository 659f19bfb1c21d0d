//! Links between a leader and its learners: packets, and a whole snapshot or log diff where that is needed.
//!
//! Each link transfers one chunk per iteration, and all together a limited number: a snapshot takes long at both ends
//! and delays no other link.
//!
//! No link is closed for what waits in it: the core hands over no more than its send window, and is notified of what
//! the socket has accepted ([`LinkEvent::Sent`]). Reading and writing never wait for each other, so two servers that
//! both have much to send cannot block each other: a link is not read only while the replica has not processed what was
//! read ([`HeldPackets`]), and the replica waits for its own disk, never for a socket.

mod held_packets;
mod link;
mod log_diff_feed;
mod packet_queue;

pub use held_packets::HeldPackets;
pub use log_diff_feed::{LogDiffChunks, next_chunk};
pub use packet_queue::Dequeued;

use crate::sockets::{Broken, Sockets};
use link::{Flushed, Link, Out};
use ox_proto::{ServerId, Zxid};
use ox_store::snapshot::stream::{SnapshotReceiver, SnapshotSender};
use ox_tree::{FrozenView, State, TreeOptions};
use ox_zab::{LinkId, Message, Traffic};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Size of the receive buffer.
const RECEIVE_BUFFER_BYTES: usize = 128 << 10;

#[derive(Clone, Copy, Debug)]
pub struct LinkLimits {
    pub packet_bytes_max: usize,
    /// Limit for the first packet, which comes from a server that is not identified yet.
    pub first_packet_bytes_max: usize,
    /// Bytes that one link receives, and sends, in one iteration.
    pub chunk_bytes: usize,
    /// Approximate bytes that all links transfer in one iteration, so that other work is not delayed.
    pub iteration_bytes_max: usize,
    /// Bytes of packets of one link that may wait for the replica.
    pub held_bytes_max: usize,
    /// Sent bytes after which the replica is notified, so that it hands over more. Bytes that are not reported count as
    /// unsent: a window that is not larger would never open again.
    pub sent_report_bytes: usize,
    /// How often the replica is notified of traffic on a link.
    pub traffic_interval: Duration,
    /// Links of one configured server: a new one, and old ones whose end is not noticed yet.
    pub links_per_member_max: usize,
    /// Links of all servers that are in no configuration.
    pub unknown_servers_max: usize,
}

/// Encoded packets of one link.
#[derive(Debug, Default)]
pub struct Packets {
    pub bytes: Vec<u8>,
    pub count: u64,
    /// Bytes that count in the send window of the link.
    pub flow_bytes: usize,
}

impl Packets {
    pub fn put(&mut self, message: &Message) {
        message.put(&mut self.bytes);
        self.count += message.packets();
        self.flow_bytes += message.flow_bytes();
    }
}

impl From<&Message> for Packets {
    fn from(message: &Message) -> Self {
        let mut packets = Self::default();
        packets.put(message);
        packets
    }
}

/// What happens on a link, for the replica.
#[derive(Debug)]
pub enum LinkEvent {
    /// The link was closed.
    Closed(LinkId),
    /// Bytes were received or sent.
    Progress(LinkId, Traffic),
    /// The socket has accepted packets that count this much in the link's send window.
    Sent(LinkId, usize),
    /// Received packets, and their size in bytes.
    Messages(LinkId, Vec<Message>, usize),
}

/// What operators learn about links.
#[derive(Debug)]
pub enum LinkReport {
    Dequeued(Dequeued),
    /// The link of an unknown server, which held `bytes`, was closed: all of them held `total`.
    UnknownClosed {
        bytes: usize,
        total: usize,
    },
}

/// A snapshot that is received, and still has to be loaded, which takes long.
pub struct UnloadedSnapshot {
    pub link: LinkId,
    zxid: Zxid,
    receiver: Box<SnapshotReceiver>,
}

impl UnloadedSnapshot {
    /// `None` if it is corrupt.
    pub fn finish(self) -> Option<Box<State>> {
        Some(Box::new(self.receiver.finish(self.zxid).ok()?.state))
    }
}

/// The remote end of a new link.
pub enum RemoteEnd {
    /// A learner, which has dialled.
    Learner,
    /// The leader, with the options for loading its snapshot.
    Leader(TreeOptions),
}

/// A connection of a learner that has sent its hello.
pub struct IdentifiedLearner<S> {
    pub link: LinkId,
    pub socket: S,
    /// The server that the hello names.
    pub server: ServerId,
    /// What was received, which starts with the hello.
    pub input: Vec<u8>,
}

/// The links of a server.
pub struct Links<S> {
    limits: LinkLimits,
    links: BTreeMap<LinkId, Link<S>>,
    /// Links that may have input or output, each once, in the order of their turns.
    run_queue: VecDeque<LinkId>,
    is_queued: BTreeSet<LinkId>,
    /// Links whose log diff is being read.
    awaiting_disk: BTreeSet<LinkId>,
    /// Snapshots that are completely received, and not taken yet.
    snapshots: Vec<UnloadedSnapshot>,
    reports: Vec<LinkReport>,
    /// The receive buffer of all links.
    buffer: Box<[u8]>,
}

impl<S> Links<S> {
    pub fn new(limits: LinkLimits) -> Self {
        Self {
            limits,
            links: BTreeMap::new(),
            run_queue: VecDeque::new(),
            is_queued: BTreeSet::new(),
            awaiting_disk: BTreeSet::new(),
            snapshots: Vec::new(),
            reports: Vec::new(),
            buffer: vec![0; RECEIVE_BUFFER_BYTES.min(limits.chunk_bytes)].into(),
        }
    }

    /// Adds an open link. `id` must be new.
    pub fn add(&mut self, now: Duration, id: LinkId, socket: S, end: RemoteEnd) {
        self.links.insert(id, Link::new(now, id, socket, end));
    }

    /// Adds the link of a learner.
    pub fn adopt(
        &mut self,
        now: Duration,
        IdentifiedLearner { link: id, socket, server, input }: IdentifiedLearner<S>,
        is_member: impl Fn(ServerId) -> bool,
        sockets: &mut impl Sockets<Socket = S>,
        events: &mut Vec<LinkEvent>,
    ) {
        let is_unknown = !is_member(server);
        if let Some(surplus) = self.surplus(server, is_member) {
            self.fail(surplus, sockets, events);
        }
        self.add(now, id, socket, RemoteEnd::Learner);
        if let Some(link) = self.links.get_mut(&id) {
            (link.server, link.is_unknown, link.input) = (Some(server), is_unknown, input);
        }
        self.on_ready(id);
    }

    pub fn contains(&self, id: LinkId) -> bool {
        self.links.contains_key(&id)
    }

    /// The sockets of the links whose hello names `server`.
    pub fn sockets_of(&self, server: ServerId) -> impl Iterator<Item = &S> {
        self.links.values().filter(move |link| link.server == Some(server)).map(|link| &link.socket)
    }

    /// Applies a new configuration: which servers are members.
    pub fn reconfigure(&mut self, is_member: impl Fn(ServerId) -> bool) {
        for link in self.links.values_mut() {
            link.is_unknown = link.server.is_some_and(|server| !is_member(server));
        }
    }

    /// Closes links of unknown servers, the one that holds most first, until all together hold no more than one link
    /// may: a packet of the largest size.
    fn bound_unknown(&mut self, sockets: &mut impl Sockets<Socket = S>, events: &mut Vec<LinkEvent>) {
        loop {
            let unknown = self.links.values().filter(|link| link.is_unknown);
            let held: Vec<(usize, LinkId)> = unknown.map(|link| (link.unread_bytes(), link.id)).collect();
            let total: usize = held.iter().map(|(bytes, _)| bytes).sum();
            let most = held.into_iter().max().filter(|_| self.limits.packet_bytes_max < total);
            let Some((bytes, id)) = most else { return };
            self.reports.push(LinkReport::UnknownClosed { bytes, total });
            self.fail(id, sockets, events);
        }
    }

    /// The link to close before `server` gets another one: the oldest of a member, or the longest silent of all servers
    /// that are in no configuration.
    fn surplus(&self, server: ServerId, is_member: impl Fn(ServerId) -> bool) -> Option<LinkId> {
        let learners = self.links.values().filter_map(|link| Some((link, link.server?)));
        let (mut links, max): (Vec<_>, usize) = if is_member(server) {
            let same = learners.filter(|(_, of)| *of == server);
            (same.map(|(link, _)| (None, link.id)).collect(), self.limits.links_per_member_max)
        } else {
            let unknown = learners.filter(|(_, of)| !is_member(*of));
            let silent = unknown.map(|(link, _)| (link.received.reported_at, link.id));
            (silent.collect(), self.limits.unknown_servers_max)
        };
        links.sort_unstable();
        links.first().filter(|_| max <= links.len()).map(|(_, id)| *id)
    }

    fn active_leader(&self) -> Option<&Link<S>> {
        self.links.values().find(|link| link.is_active)
    }

    /// When bytes last arrived from an active leader, which pings, and whether all input was read.
    pub fn leader_last_received(&self) -> Option<(Duration, bool)> {
        let leader = self.active_leader()?;
        Some((leader.last_received, !leader.may_read && !leader.is_full(&self.limits)))
    }

    /// Reads from an active leader. False if nothing arrived.
    pub fn read_leader(
        &mut self,
        now: Duration,
        sockets: &mut impl Sockets<Socket = S>,
        events: &mut Vec<LinkEvent>,
    ) -> bool {
        let Some(id) = self.active_leader().map(|link| link.id) else { return false };
        self.on_ready(id);
        self.read(now, id, sockets, events).0 != 0
    }

    /// The link to an active leader, and its socket.
    pub fn leader_link(&self) -> Option<(LinkId, &S)> {
        self.active_leader().map(|link| (link.id, &link.socket))
    }

    pub fn send(&mut self, now: Duration, id: LinkId, packets: Packets) {
        if let Some(link) = self.links.get_mut(&id) {
            let batch = link.queue.push(now, packets.count);
            self.push(id, Out::Packets(packets, batch));
        }
    }

    /// Sends SNAP and the snapshot.
    pub fn send_snapshot(&mut self, now: Duration, id: LinkId, frozen: FrozenView) {
        let sender = SnapshotSender::new(frozen);
        let head = Packets::from(&Message::Snap(sender.last_zxid()));
        self.send(now, id, Packets { flow_bytes: 0, ..head });
        self.push(id, Out::Snapshot(Box::new(sender)));
    }

    /// Sends transactions from the on-disk log.
    pub fn send_log_diff(&mut self, id: LinkId, chunks: LogDiffChunks) {
        self.push(id, Out::LogDiff(chunks));
    }

    fn push(&mut self, id: LinkId, out: Out) {
        if let Some(link) = self.links.get_mut(&id) {
            link.is_accepted = true;
            link.out.push_back(out);
            self.schedule(id);
        }
    }

    /// Marks a link ready to read and write.
    pub fn on_ready(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.may_read = true;
            self.schedule(id);
        }
    }

    fn schedule(&mut self, id: LinkId) {
        if self.is_queued.insert(id) {
            self.run_queue.push_back(id);
        }
    }

    /// Whether a link can transfer its next chunk immediately.
    pub fn has_more(&self) -> bool {
        !self.run_queue.is_empty()
    }

    /// Transfers a chunk of each ready link, up to a limit; the others are first in the next iteration.
    pub fn run_iteration(
        &mut self,
        now: Duration,
        sockets: &mut impl Sockets<Socket = S>,
        events: &mut Vec<LinkEvent>,
    ) {
        for id in std::mem::take(&mut self.awaiting_disk) {
            self.schedule(id);
        }
        let mut left = self.limits.iteration_bytes_max;
        for _ in 0..self.run_queue.len() {
            let Some(id) = self.run_queue.pop_front_if(|_| 0 < left) else { return };
            self.is_queued.remove(&id);
            let (received_bytes, is_all_read) = self.read(now, id, sockets, events);
            let (sent_bytes, is_all_sent) = self.flush(now, id, sockets, events);
            left = left.saturating_sub(received_bytes + sent_bytes);
            if !(is_all_read && is_all_sent) {
                self.schedule(id);
            }
        }
    }

    /// Takes the snapshots received since the last call. The replica has to process their SNAP packets first.
    pub fn take_snapshots(&mut self) -> Vec<UnloadedSnapshot> {
        std::mem::take(&mut self.snapshots)
    }

    pub fn take_reports(&mut self) -> Vec<LinkReport> {
        std::mem::take(&mut self.reports)
    }

    /// Closes a link on request of the replica, after one attempt to flush it.
    pub fn close(&mut self, now: Duration, id: LinkId, sockets: &mut impl Sockets<Socket = S>) {
        self.flush(now, id, sockets, &mut Vec::new());
        self.remove(id, sockets);
    }

    /// Resumes reading, after the replica has processed packets.
    pub fn consumed(&mut self, id: LinkId, bytes: usize) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let was_full = link.is_full(&self.limits);
        link.held_bytes = link.held_bytes.saturating_sub(bytes);
        if was_full && !link.is_full(&self.limits) {
            self.on_ready(id);
        }
    }

    /// Whether a link is not read because the replica has too many of its packets.
    pub fn is_full(&self, id: LinkId) -> bool {
        self.links.get(&id).is_some_and(|link| link.is_full(&self.limits))
    }

    /// Reads a chunk. Returns the number of bytes, and whether nothing more can be read now.
    fn read(
        &mut self,
        now: Duration,
        id: LinkId,
        sockets: &mut impl Sockets<Socket = S>,
        events: &mut Vec<LinkEvent>,
    ) -> (usize, bool) {
        let Some(link) = self.links.get_mut(&id) else { return (0, true) };
        let (received_bytes, outcome) =
            link.read(now, &self.limits, (sockets, &mut self.buffer), &mut self.snapshots, events);
        let is_unknown = link.is_unknown;
        match outcome {
            Ok(is_all) => {
                if is_unknown {
                    self.bound_unknown(sockets, events);
                }
                (received_bytes, is_all)
            }
            Err(Broken) => {
                self.fail(id, sockets, events);
                (received_bytes, true)
            }
        }
    }

    /// Sends a chunk. Returns the number of bytes, and whether nothing more can be sent now.
    fn flush(
        &mut self,
        now: Duration,
        id: LinkId,
        sockets: &mut impl Sockets<Socket = S>,
        events: &mut Vec<LinkEvent>,
    ) -> (usize, bool) {
        let Some(link) = self.links.get_mut(&id) else { return (0, true) };
        match link.flush(now, &self.limits, sockets, &mut self.reports, events) {
            Ok(Flushed::All(bytes)) => (bytes, true),
            Ok(Flushed::More(bytes)) => (bytes, false),
            Ok(Flushed::AwaitsDisk(bytes)) => {
                self.awaiting_disk.insert(id);
                (bytes, true)
            }
            Err(Broken) => {
                self.fail(id, sockets, events);
                (0, true)
            }
        }
    }

    /// Closes a link that has failed, or has to be closed for another reason, and notifies the replica.
    pub fn fail(&mut self, id: LinkId, sockets: &mut impl Sockets<Socket = S>, events: &mut Vec<LinkEvent>) {
        if self.remove(id, sockets) {
            events.push(LinkEvent::Closed(id));
        }
    }

    fn remove(&mut self, id: LinkId, sockets: &mut impl Sockets<Socket = S>) -> bool {
        let Some(link) = self.links.remove(&id) else { return false };
        sockets.close(link.socket);
        true
    }

    /// When [`Links::on_time`] has something to report.
    pub fn deadline(&self) -> Option<Duration> {
        let interval = self.limits.traffic_interval;
        self.links.values().flat_map(|link| [&link.received, &link.sent]).filter_map(|at| at.deadline(interval)).min()
    }

    /// Notifies the replica of traffic on each link.
    pub fn on_time(&mut self, now: Duration, events: &mut Vec<LinkEvent>) {
        for link in self.links.values_mut() {
            for (report, traffic) in [(&mut link.received, Traffic::Received), (&mut link.sent, Traffic::Sent)] {
                if report.take_due(now, self.limits.traffic_interval) {
                    events.push(LinkEvent::Progress(link.id, traffic));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
