//! Links between a leader and its learners: packets, and a whole state where that is needed.
//!
//! Each link moves one piece per iteration, and all together not many: a snapshot takes long, at both ends, and delays no
//! other link.
//!
//! No link is closed for what waits in it: the core hands over no more than its send window, and hears of what the
//! socket has taken ([`Event::Sent`]). Reading and writing never wait for each other, so two servers that both have much to
//! send cannot block each other: a link is not read only while the replica has not dealt with what was read, and the
//! replica waits for its own disk, never for a socket.

mod queue;

use super::command::{Event, Orders, Packets};
use super::handshakes::Accepted;
use super::line_limit::LineLimit;
use super::socket::Socket;
use super::stored::{Piece, Pieces};
use crate::limits::{FIRST_PACKET_BYTES_MAX, LINK_HELD_BYTES_MAX, LINK_PIECE_BYTES, LINK_SENT_BYTES};
use crate::limits::{LINK_TURN_BYTES_MAX, LINKS_PER_MEMBER_MAX, UNKNOWN_SERVERS_MAX};
use crate::metrics::Metrics;
use bytes::Bytes;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ox_proto::quorum::packet::PacketReader;
use ox_proto::{ServerId, Zxid};
use ox_store::Logged;
use ox_store::snapshot::stream::{SnapshotReceiver, SnapshotSender};
use ox_tree::{FrozenView, State, TreeOptions};
use ox_zab::{LinkId, Message, Sender, Traffic};
use queue::{Batch, Queue};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the replica is told that bytes move.
const PROGRESS: Duration = Duration::from_millis(200);

/// What is to be sent, in order.
enum Out {
    Packets(Packets, Batch),
    State(Box<SnapshotSender>),
    Stored(Pieces),
}

/// Bytes that are received at once.
const DESK_BYTES: usize = 128 << 10;

/// What the replica is told of bytes that come, or go.
#[derive(Default)]
struct Movement {
    is_new: bool,
    told: Option<Instant>,
}

impl Movement {
    /// Whether it is time to tell of something new.
    fn is_to_be_told(&mut self, now: Instant) -> bool {
        let is_due = self.is_new && self.told.is_none_or(|told| PROGRESS <= now.duration_since(told));
        if is_due {
            *self = Self { is_new: false, told: Some(now) };
        }
        is_due
    }
}

/// One link.
pub(super) struct Link {
    id: LinkId,
    socket: Socket,
    /// Who speaks at the other end.
    side: Sender,
    /// For states that come in.
    options: Option<TreeOptions>,
    reader: PacketReader,
    packet_bytes_max: usize,
    /// The first packet has come.
    has_spoken: bool,
    /// The learner that its hello names, and the address that it dialled from.
    server: Option<ServerId>,
    address: Option<IpAddr>,
    /// That is in no configuration.
    is_unknown: bool,
    /// The core has sent something: the leader takes this learner.
    is_accepted: bool,
    /// The leader has sent UPTODATE: from now on it pings.
    is_active: bool,
    /// When bytes last came.
    heard: Instant,
    input: Vec<u8>,
    /// There may be something to read.
    may_read: bool,
    loading: Option<(Zxid, Box<SnapshotReceiver>)>,
    out: VecDeque<Out>,
    queue: Queue,
    /// What has gone to the socket of the send window, and was not reported.
    sent_bytes: usize,
    /// Bytes of packets that the replica has not dealt with.
    held_bytes: usize,
    /// When the replica was last told of either, and whether there is news.
    came: Movement,
    went: Movement,
}

/// A state that has come, and is still to be put together, which takes its time.
pub(super) struct Arrived {
    pub(super) link: LinkId,
    zxid: Zxid,
    receiver: Box<SnapshotReceiver>,
}

impl Arrived {
    /// None if it cannot be right.
    pub(super) fn finish(self) -> Option<Box<State>> {
        Some(Box::new(self.receiver.finish(self.zxid).ok()?.state))
    }
}

/// The other end of a new link.
pub(super) enum End {
    /// A learner, which has dialled.
    Learner,
    /// The leader; its state would be loaded with these options.
    Leader(TreeOptions),
}

impl Link {
    fn new(id: LinkId, stream: TcpStream, end: End, packet_bytes_max: usize, metrics: Arc<Metrics>) -> Self {
        let (side, options) = match end {
            End::Learner => (Sender::Learner, None),
            End::Leader(options) => (Sender::Leader, Some(options)),
        };
        Self {
            id,
            socket: Socket::new(stream),
            side,
            options,
            reader: PacketReader::default(),
            packet_bytes_max,
            has_spoken: false,
            server: None,
            address: None,
            is_unknown: false,
            is_accepted: false,
            is_active: false,
            heard: Instant::now(),
            input: Vec::new(),
            may_read: true,
            loading: None,
            out: VecDeque::new(),
            queue: Queue::new(metrics),
            sent_bytes: 0,
            held_bytes: 0,
            came: Movement::default(),
            went: Movement::default(),
        }
    }

    /// The largest packet that is taken. A learner sends its hello and no more until the leader has replied.
    fn limit(&self) -> usize {
        let may_speak = self.has_spoken && (self.is_accepted || self.side == Sender::Leader);
        if may_speak { self.packet_bytes_max } else { FIRST_PACKET_BYTES_MAX }
    }

    /// What has come and is not done with.
    fn unread_bytes(&self) -> usize {
        self.input.len() + self.held_bytes
    }
}

/// All of them.
pub(super) struct Links {
    orders: Arc<Orders>,
    metrics: Arc<Metrics>,
    packet_bytes_max: usize,
    leader_nodelay: bool,
    learner_nodelay: bool,
    links: BTreeMap<Token, Link>,
    tokens: BTreeMap<LinkId, Token>,
    next: u64,
    /// Links that may have something to read or to send, each once, in the order of their turns.
    waiting: VecDeque<Token>,
    is_waiting: BTreeSet<Token>,
    /// Links that the disk has nothing for yet; it wakes the thread.
    reading: BTreeSet<Token>,
    /// States that have come completely, and have not been taken.
    states: Vec<Arrived>,
    /// Where bytes come in.
    desk: Box<[u8]>,
    /// Links of unknown servers that were closed for what they hold.
    closed_unknown: LineLimit,
}

impl Links {
    pub(super) fn new(
        orders: Arc<Orders>,
        metrics: Arc<Metrics>,
        packet_bytes_max: usize,
        leader_nodelay: bool,
        learner_nodelay: bool,
    ) -> Self {
        Self {
            orders,
            metrics,
            packet_bytes_max,
            leader_nodelay,
            learner_nodelay,
            links: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next: 0,
            waiting: VecDeque::new(),
            is_waiting: BTreeSet::new(),
            reading: BTreeSet::new(),
            states: Vec::new(),
            desk: vec![0; DESK_BYTES].into(),
            closed_unknown: LineLimit::new(),
        }
    }

    pub(super) fn add(&mut self, mut stream: TcpStream, token: Token, end: End, registry: &Registry) -> Option<LinkId> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).ok()?;
        Some(self.insert(stream, token, end))
    }

    fn insert(&mut self, stream: TcpStream, token: Token, end: End) -> LinkId {
        let nodelay = match end {
            End::Learner => self.leader_nodelay,
            End::Leader(_) => self.learner_nodelay,
        };
        let _ = stream.set_nodelay(nodelay);
        self.next += 1;
        let id = LinkId(self.next);
        self.tokens.insert(id, token);
        self.links.insert(token, Link::new(id, stream, end, self.packet_bytes_max, Arc::clone(&self.metrics)));
        id
    }

    /// Takes a registered connection over whose input begins with the hello of `server`.
    pub(super) fn adopt(
        &mut self,
        Accepted { stream, token, address, input }: Accepted,
        server: ServerId,
        is_member: impl Fn(ServerId) -> bool,
        events: &mut Vec<Event>,
    ) {
        let is_unknown = !is_member(server);
        if let Some(surplus) = self.surplus(server, is_member) {
            self.fail(surplus, events);
        }
        let id = self.insert(stream, token, End::Learner);
        if let Some(link) = self.links.get_mut(&token) {
            (link.server, link.address) = (Some(server), Some(address));
            (link.is_unknown, link.input) = (is_unknown, input);
        }
        events.push(Event::Linked(id));
        self.on_ready(token);
    }

    /// Where the links of a learner come from.
    pub(super) fn addresses_of(&self, server: ServerId) -> impl Iterator<Item = IpAddr> {
        self.links.values().filter(move |link| link.server == Some(server)).filter_map(|link| link.address)
    }

    /// Other servers are members.
    pub(super) fn reconfigure(&mut self, is_member: impl Fn(ServerId) -> bool) {
        for link in self.links.values_mut() {
            link.is_unknown = link.server.is_some_and(|server| !is_member(server));
        }
    }

    /// Closes links of unknown servers, the one that holds most first, until all together hold no more than one may: a packet
    /// of the largest size.
    fn bound_unknown(&mut self, events: &mut Vec<Event>) {
        loop {
            let unknown = self.links.iter().filter(|(_, link)| link.is_unknown);
            let held: Vec<(usize, Token)> = unknown.map(|(token, link)| (link.unread_bytes(), *token)).collect();
            let total: usize = held.iter().map(|(bytes, _)| bytes).sum();
            let Some((bytes, token)) = held.into_iter().max().filter(|_| self.packet_bytes_max < total) else { return };
            if let Some(suppressed) = self.closed_unknown.may_log() {
                let line = "closed a link of an unknown server: such servers send too much together";
                tracing::warn!(bytes, total, suppressed, "{line}");
            }
            self.fail(token, events);
        }
    }

    /// The link that has to end before `server` gets another one: the oldest of a member, or the one that was silent for
    /// longest of all servers that are in no configuration.
    fn surplus(&self, server: ServerId, is_member: impl Fn(ServerId) -> bool) -> Option<Token> {
        let learners = self.links.iter().filter_map(|(token, link)| Some((*token, link, link.server?)));
        let (mut links, max): (Vec<_>, usize) = if is_member(server) {
            let same = learners.filter(|(.., of)| *of == server);
            (same.map(|(token, link, _)| (None, link.id, token)).collect(), LINKS_PER_MEMBER_MAX)
        } else {
            let unknown = learners.filter(|(.., of)| !is_member(*of));
            (unknown.map(|(token, link, _)| (link.came.told, link.id, token)).collect(), UNKNOWN_SERVERS_MAX)
        };
        links.sort_unstable();
        links.first().filter(|_| max <= links.len()).map(|(.., token)| *token)
    }

    /// When bytes last came from an active leader, which pings, and whether all that came were read.
    pub(super) fn leader_heard(&self) -> Option<(Instant, bool)> {
        let leader = self.links.values().find(|link| link.is_active)?;
        Some((leader.heard, !leader.may_read && leader.held_bytes < LINK_HELD_BYTES_MAX))
    }

    /// Reads from an active leader. False if nothing came.
    pub(super) fn read_leader(&mut self, events: &mut Vec<Event>) -> bool {
        let leader = self.links.iter_mut().find(|(_, link)| link.is_active);
        let Some(token) = leader.map(|(token, link)| {
            link.may_read = true;
            *token
        }) else {
            return false;
        };
        self.wants_turn(token);
        self.read(token, events).0 != 0
    }

    /// Ends the link to the leader.
    pub(super) fn reset_leader(&mut self, events: &mut Vec<Event>) {
        let active = self.links.iter().find(|(_, link)| link.is_active).map(|(token, _)| *token);
        if let Some(token) = active {
            self.links[&token].socket.reset_on_close();
            self.fail(token, events);
        }
    }

    pub(super) fn send(&mut self, id: LinkId, packets: Packets) {
        self.push(id, |queue| {
            let batch = queue.comes(packets.count);
            Out::Packets(packets, batch)
        });
    }

    /// Says SNAP and sends the state.
    pub(super) fn send_state(&mut self, id: LinkId, frozen: FrozenView) {
        let sender = SnapshotSender::new(frozen);
        let head = Packets::from(&Message::Snap(sender.last_zxid()));
        self.send(id, Packets { flow_bytes: 0, ..head });
        self.push(id, |_| Out::State(Box::new(sender)));
    }

    /// Sends what the log holds.
    pub(super) fn send_stored<H>(&mut self, id: LinkId, history: H, events: &mut Vec<Event>)
    where
        H: Iterator<Item = Result<Logged, ox_store::Error>> + Send + 'static,
    {
        let Some(token) = self.tokens.get(&id).copied() else { return };
        match Pieces::read(history, Arc::clone(&self.orders)) {
            Ok(pieces) => self.push(id, |_| Out::Stored(pieces)),
            Err(error) => {
                tracing::error!(%error, "cannot start a thread to read the log with");
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
        self.wants_turn(token);
    }

    /// Something may be read or sent.
    pub(super) fn on_ready(&mut self, token: Token) {
        if let Some(link) = self.links.get_mut(&token) {
            link.may_read = true;
            self.wants_turn(token);
        }
    }

    fn wants_turn(&mut self, token: Token) {
        if self.is_waiting.insert(token) {
            self.waiting.push_back(token);
        }
    }

    /// Whether somebody's next piece can be moved at once.
    pub(super) fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Moves a piece of each link that is ready, as far as the turn goes; the others are the first in the next one.
    pub(super) fn turn(&mut self, events: &mut Vec<Event>) {
        for token in std::mem::take(&mut self.reading) {
            self.wants_turn(token);
        }
        let mut left = LINK_TURN_BYTES_MAX;
        for _ in 0..self.waiting.len() {
            let Some(token) = self.waiting.pop_front_if(|_| 0 < left) else { return };
            self.is_waiting.remove(&token);
            let (came, is_all_read) = self.read(token, events);
            let (went, is_all_sent) = self.flush(token, events);
            left = left.saturating_sub(came + went);
            if !(is_all_read && is_all_sent) {
                self.wants_turn(token);
            }
        }
    }

    /// States that have come since the last look.
    pub(super) fn take_states(&mut self) -> Vec<Arrived> {
        std::mem::take(&mut self.states)
    }

    /// Hangs up; the replica knows.
    pub(super) fn close(&mut self, id: LinkId) {
        if let Some(token) = self.tokens.remove(&id) {
            self.flush(token, &mut Vec::new());
            self.links.remove(&token);
        }
    }

    /// The replica has dealt with packets: more may be read.
    pub(super) fn consumed(&mut self, id: LinkId, bytes: usize) {
        let Some(token) = self.tokens.get(&id).copied() else { return };
        let Some(link) = self.links.get_mut(&token) else { return };
        let was_full = LINK_HELD_BYTES_MAX <= link.held_bytes;
        link.held_bytes = link.held_bytes.saturating_sub(bytes);
        if was_full && link.held_bytes < LINK_HELD_BYTES_MAX {
            self.on_ready(token);
        }
    }

    /// Reads a piece. Returns how many bytes came, and whether nothing more can be read now.
    fn read(&mut self, token: Token, events: &mut Vec<Event>) -> (usize, bool) {
        let Some(link) = self.links.get_mut(&token) else { return (0, true) };
        if !link.may_read || LINK_HELD_BYTES_MAX <= link.held_bytes {
            return (0, true); // until the replica has dealt with some of it
        }
        let before = link.input.len();
        let read = link.socket.read(&mut link.input, before + LINK_PIECE_BYTES, &mut self.desk);
        let came = link.input.len() - before;
        link.came.is_new |= 0 < came;
        if 0 < came {
            link.heard = Instant::now();
        }
        let is_unknown = link.is_unknown;
        match (read, take(link, &mut self.states, events)) {
            (Ok(is_all), Ok(())) => {
                link.may_read = !is_all;
                if is_unknown {
                    self.bound_unknown(events);
                }
                return (came, is_all);
            }
            (Err(error), Ok(())) => tracing::debug!(link = link.id.0, %error, "a link has ended"),
            (_, Err(error)) => tracing::warn!(link = link.id.0, error, "a link cannot be understood"),
        }
        self.fail(token, events);
        (came, true)
    }

    /// Sends a piece. Returns how many bytes went, and whether nothing more can be sent now.
    fn flush(&mut self, token: Token, events: &mut Vec<Event>) -> (usize, bool) {
        let Some(link) = self.links.get_mut(&token) else { return (0, true) };
        let socket = &mut link.socket;
        // What the system takes at once, it may take for somebody who is not there.
        let mut had_to_wait = socket.unsent_bytes() != 0;
        let mut went = 0;
        while went < LINK_PIECE_BYTES {
            while socket.unsent_bytes() < LINK_PIECE_BYTES
                && let Some(Out::Packets(packets, batch)) = link.out.pop_front_if(|out| matches!(out, Out::Packets(..)))
            {
                link.queue.goes(&batch);
                socket.push(packets.bytes);
                link.sent_bytes += packets.flow_bytes;
            }
            if LINK_SENT_BYTES <= link.sent_bytes {
                events.push(Event::Sent(link.id, std::mem::take(&mut link.sent_bytes)));
            }
            if socket.unsent_bytes() == 0 {
                let piece = match link.out.front_mut() {
                    None | Some(Out::Packets(..)) => return (went, true),
                    Some(Out::State(sender)) => sender.next().unwrap_or_default().into(),
                    Some(Out::Stored(pieces)) => pieces.next(),
                };
                match piece {
                    Piece::End => drop(link.out.pop_front()),
                    Piece::Bytes(bytes) => {
                        had_to_wait = true;
                        socket.push(bytes);
                    }
                    Piece::NotYet => {
                        self.reading.insert(token);
                        return (went, true);
                    }
                    Piece::Broken => {
                        self.fail(token, events);
                        return (went, true);
                    }
                }
            }
            let Ok(sent) = socket.flush(LINK_PIECE_BYTES) else {
                self.fail(token, events);
                return (went, true);
            };
            went += sent;
            link.went.is_new |= had_to_wait && 0 < sent;
            if socket.unsent_bytes() != 0 && sent < LINK_PIECE_BYTES {
                return (went, true); // until the other end makes room
            }
        }
        (went, false)
    }

    fn fail(&mut self, token: Token, events: &mut Vec<Event>) {
        if let Some(link) = self.links.remove(&token) {
            self.tokens.remove(&link.id);
            events.push(Event::Gone(link.id));
        }
    }

    /// Tells which links have moved anything.
    pub(super) fn on_time(&mut self, now: Instant, events: &mut Vec<Event>) {
        for link in self.links.values_mut() {
            for (movement, moved) in [(&mut link.came, Traffic::Received), (&mut link.went, Traffic::Sent)] {
                if movement.is_to_be_told(now) {
                    events.push(Event::Progress(link.id, moved));
                }
            }
        }
    }
}

/// Takes everything complete out of the input.
fn take(link: &mut Link, states: &mut Vec<Arrived>, events: &mut Vec<Event>) -> Result<(), &'static str> {
    loop {
        if let Some((zxid, receiver)) = &mut link.loading {
            let used = receiver.feed(&link.input).map_err(|_| "a state is broken")?;
            let Some(used) = used else {
                link.input.clear();
                return Ok(());
            };
            link.input.drain(..used);
            let zxid = *zxid;
            let Some((_, receiver)) = link.loading.take() else { return Ok(()) };
            states.push(Arrived { link: link.id, zxid, receiver });
        }
        if link.reader.next(&link.input, link.limit()).map_err(|_| "a packet is too large")?.is_none() {
            return Ok(());
        }
        take_packets(link, events)?;
    }
}

/// Takes packets, up to one that is followed by something else.
fn take_packets(link: &mut Link, events: &mut Vec<Event>) -> Result<(), &'static str> {
    let mut input = std::mem::take(&mut link.input);
    input.shrink_to_fit(); // transactions stay in it for as long as they are kept for learners
    let chunk = Bytes::from(input);
    let (mut at, mut messages) = (0, Vec::new());
    while let Some((packet, length)) =
        link.reader.next(&chunk[at..], link.limit()).map_err(|_| "a packet is too large")?
    {
        let message = Message::read(&packet, &chunk, link.side).map_err(|_| "a packet is broken")?;
        at += length;
        link.has_spoken = true;
        if let Message::Hello { server, .. } = message {
            link.queue.is_of(server);
        }
        link.is_active |= link.options.is_some() && matches!(message, Message::UpToDate);
        let snap = if let Message::Snap(zxid) = message { Some(zxid) } else { None };
        if !messages.last_mut().is_some_and(|last: &mut Message| last.join(&message)) {
            messages.push(message);
        }
        if let Some(zxid) = snap {
            let options = link.options.clone().ok_or("a learner sends a state")?;
            link.loading = Some((zxid, Box::new(SnapshotReceiver::new(options))));
            break;
        }
    }
    link.input = chunk[at..].to_vec();
    link.held_bytes += at;
    events.push(Event::Messages(link.id, messages, at));
    Ok(())
}

#[cfg(test)]
mod tests;
