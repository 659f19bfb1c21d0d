//! Links between a leader and its learners: packets, and a whole state where that is needed.

use super::command::Event;
use super::socket::Socket;
use crate::limits::{FIRST_PACKET_BYTES_MAX, LINK_HELD_BYTES_MAX, LINK_INPUT_BYTES, LINK_UNSENT_BYTES_MAX, LINKS_MAX};
use bytes::Bytes;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use ox_config::MemberConfig;
use ox_proto::Zxid;
use ox_proto::quorum::packet::{PacketKind, PacketReader, put_bare, put_with_data};
use ox_store::StoredHistory;
use ox_store::snapshot::stream::{SnapshotReceiver, SnapshotSender};
use ox_tree::{Frozen, Options};
use ox_zab::{LinkId, Message, Side};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How often the replica is told that bytes move.
const PROGRESS: Duration = Duration::from_millis(200);

/// What is to be sent, in order.
enum Out {
    Bytes(Vec<u8>),
    State(Box<SnapshotSender>),
    Stored(Box<StoredHistory>),
}

/// Bytes that are received at once.
const DESK_BYTES: usize = 128 << 10;
/// Stored transactions that are read at once.
const STORED_CHUNK_BYTES: usize = 256 << 10;

/// One link.
pub(super) struct Link {
    id: LinkId,
    socket: Socket,
    /// Who speaks at the other end.
    side: Side,
    /// For states that come in.
    options: Option<Options>,
    reader: PacketReader,
    packet_bytes_max: usize,
    /// The first packet has come.
    has_spoken: bool,
    input: Vec<u8>,
    loading: Option<(Zxid, Box<SnapshotReceiver>)>,
    out: VecDeque<Out>,
    out_bytes: usize,
    /// Bytes of packets that the replica has not dealt with.
    held_bytes: usize,
    told: Option<Instant>,
    has_moved: bool,
}

/// The other end of a new link.
pub(super) enum End {
    /// A learner, which has dialled.
    Learner,
    /// The leader; its state would be loaded with these options.
    Leader(Options),
}

impl Link {
    fn new(id: LinkId, stream: TcpStream, end: End, packet_bytes_max: usize) -> Self {
        let (side, options) = match end {
            End::Learner => (Side::Learner, None),
            End::Leader(options) => (Side::Leader, Some(options)),
        };
        Self {
            id,
            socket: Socket::new(stream),
            side,
            options,
            reader: PacketReader::default(),
            packet_bytes_max,
            has_spoken: false,
            input: Vec::new(),
            loading: None,
            out: VecDeque::new(),
            out_bytes: 0,
            held_bytes: 0,
            told: None,
            has_moved: false,
        }
    }

    /// The largest packet that is taken; a small one while nobody knows who is there.
    fn limit(&self) -> usize {
        if self.has_spoken { self.packet_bytes_max } else { FIRST_PACKET_BYTES_MAX }
    }
}

/// All of them.
pub(super) struct Links {
    packet_bytes_max: usize,
    leader_nodelay: bool,
    learner_nodelay: bool,
    links: BTreeMap<Token, Link>,
    tokens: BTreeMap<LinkId, Token>,
    next: u64,
    /// Links with something new to send.
    full: BTreeSet<Token>,
    /// Where bytes come in.
    desk: Box<[u8]>,
}

impl Links {
    pub(super) fn new(packet_bytes_max: usize, member: &MemberConfig) -> Self {
        Self {
            packet_bytes_max,
            leader_nodelay: member.leader_nodelay,
            learner_nodelay: member.learner_nodelay,
            links: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next: 0,
            full: BTreeSet::new(),
            desk: vec![0; DESK_BYTES].into(),
        }
    }

    pub(super) fn add(&mut self, mut stream: TcpStream, token: Token, end: End, registry: &Registry) -> Option<LinkId> {
        if LINKS_MAX <= self.links.len() {
            return None; // they have their time; newcomers come again
        }
        let nodelay = match end {
            End::Learner => self.leader_nodelay,
            End::Leader(_) => self.learner_nodelay,
        };
        let _ = stream.set_nodelay(nodelay);
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).ok()?;
        self.next += 1;
        let id = LinkId(self.next);
        self.tokens.insert(id, token);
        self.links.insert(token, Link::new(id, stream, end, self.packet_bytes_max));
        Some(id)
    }

    pub(super) fn send(&mut self, id: LinkId, bytes: Vec<u8>, events: &mut Vec<Event>) {
        self.push(id, Out::Bytes(bytes), events);
    }

    /// Says SNAP and sends the state.
    pub(super) fn send_state(&mut self, id: LinkId, frozen: Frozen, events: &mut Vec<Event>) {
        let sender = SnapshotSender::new(frozen);
        let mut head = Vec::new();
        Message::Snap(sender.last_zxid()).put(&mut head);
        self.push(id, Out::Bytes(head), events);
        self.push(id, Out::State(Box::new(sender)), events);
    }

    /// Sends what the log holds.
    pub(super) fn send_stored(&mut self, id: LinkId, history: Box<StoredHistory>, events: &mut Vec<Event>) {
        self.push(id, Out::Stored(history), events);
    }

    fn push(&mut self, id: LinkId, out: Out, events: &mut Vec<Event>) {
        let Some(token) = self.tokens.get(&id).copied() else { return };
        let Some(link) = self.links.get_mut(&token) else { return };
        if let Out::Bytes(bytes) = &out {
            link.out_bytes += bytes.len();
        }
        link.out.push_back(out);
        if LINK_UNSENT_BYTES_MAX < link.out_bytes {
            tracing::warn!(link = id.0, "a server does not take what it is sent");
            return self.fail(token, events);
        }
        self.full.insert(token);
    }

    /// Sends what was added.
    pub(super) fn flush_all(&mut self, events: &mut Vec<Event>) {
        for token in std::mem::take(&mut self.full) {
            self.flush(token, events);
        }
    }

    /// Hangs up; the replica knows.
    pub(super) fn close(&mut self, id: LinkId) {
        if let Some(token) = self.tokens.remove(&id) {
            self.flush(token, &mut Vec::new());
            self.links.remove(&token);
        }
    }

    /// The replica has dealt with packets: more may be read.
    pub(super) fn consumed(&mut self, id: LinkId, bytes: usize, events: &mut Vec<Event>) {
        let Some(token) = self.tokens.get(&id).copied() else { return };
        let Some(link) = self.links.get_mut(&token) else { return };
        let was_full = LINK_HELD_BYTES_MAX <= link.held_bytes;
        link.held_bytes = link.held_bytes.saturating_sub(bytes);
        if was_full && link.held_bytes < LINK_HELD_BYTES_MAX {
            self.on_ready(token, events);
        }
    }

    pub(super) fn on_ready(&mut self, token: Token, events: &mut Vec<Event>) {
        while let Some(link) = self.links.get_mut(&token) {
            if LINK_HELD_BYTES_MAX <= link.held_bytes {
                break;
            }
            let before = link.input.len();
            let read = link.socket.read(&mut link.input, LINK_INPUT_BYTES.max(before + 1), &mut self.desk);
            link.has_moved |= before < link.input.len();
            let taken = take(link, events);
            match (read, taken) {
                (Ok(true), Ok(())) => break,
                (Ok(false), Ok(())) => (),
                (Err(error), Ok(())) => {
                    tracing::debug!(link = link.id.0, %error, "a link has ended");
                    return self.fail(token, events);
                }
                (_, Err(error)) => {
                    tracing::warn!(link = link.id.0, error, "a link cannot be understood");
                    return self.fail(token, events);
                }
            }
        }
        self.flush(token, events);
    }

    fn flush(&mut self, token: Token, events: &mut Vec<Event>) {
        let Some(link) = self.links.get_mut(&token) else { return };
        let socket = &mut link.socket;
        loop {
            if socket.unsent_bytes() == 0 {
                while let Some(Out::Bytes(bytes)) = link.out.pop_front_if(|out| matches!(out, Out::Bytes(_))) {
                    socket.push(bytes);
                }
            }
            if socket.unsent_bytes() == 0 {
                match link.out.front_mut() {
                    None | Some(Out::Bytes(_)) => return,
                    Some(Out::State(sender)) => match sender.next() {
                        Some(chunk) => {
                            link.out_bytes += chunk.len();
                            socket.push(chunk);
                        }
                        None => drop(link.out.pop_front()),
                    },
                    Some(Out::Stored(history)) => match stored_chunk(history) {
                        Ok(chunk) if chunk.is_empty() => drop(link.out.pop_front()),
                        Ok(chunk) => {
                            link.out_bytes += chunk.len();
                            socket.push(chunk);
                        }
                        Err(error) => {
                            tracing::error!(%error, "the stored log cannot be read for a learner");
                            return self.fail(token, events);
                        }
                    },
                }
            }
            match socket.flush() {
                Ok(sent) => {
                    link.out_bytes -= sent;
                    link.has_moved |= 0 < sent;
                    if socket.unsent_bytes() != 0 {
                        return;
                    }
                }
                Err(_) => return self.fail(token, events),
            }
        }
    }

    fn fail(&mut self, token: Token, events: &mut Vec<Event>) {
        if let Some(link) = self.links.remove(&token) {
            self.tokens.remove(&link.id);
            events.push(Event::Gone(link.id));
        }
    }

    /// Tells which links have moved anything.
    pub(super) fn on_time(&mut self, now: Instant, events: &mut Vec<Event>) {
        for link in self.links.values_mut().filter(|link| link.has_moved) {
            if link.told.is_none_or(|told| PROGRESS <= now.duration_since(told)) {
                (link.told, link.has_moved) = (Some(now), false);
                events.push(Event::Progress(link.id));
            }
        }
    }
}

/// The next transactions of a stored history, as proposals with their commits; nothing at its end.
fn stored_chunk(history: &mut StoredHistory) -> Result<Vec<u8>, ox_store::Error> {
    let mut chunk = Vec::new();
    while chunk.len() < STORED_CHUNK_BYTES
        && let Some(logged) = history.next().transpose()?
    {
        put_with_data(&mut chunk, PacketKind::Proposal, logged.zxid, &logged.record);
        put_bare(&mut chunk, PacketKind::Commit, logged.zxid);
    }
    Ok(chunk)
}

/// Takes everything complete out of the input.
fn take(link: &mut Link, events: &mut Vec<Event>) -> Result<(), &'static str> {
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
            let received = receiver.finish(zxid).map_err(|_| "a state is broken")?;
            events.push(Event::Loaded(link.id, Box::new(received.state)));
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
