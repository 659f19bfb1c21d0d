//! The peers thread of a member: runs the links of production (`ox-driver/src/links.rs`) over the wires of the
//! simulated network.
//!
//! ```text
//!   replica thread ── PeerCommand ──► queue ─► [ peers thread ] ─► wires
//!         ▲                                           │
//!         └────────── inbox ◄────── PeerEvent ────────┘
//! ```
//! Wires hold [`crate::Plan::wire_bytes`], and reads and writes may end at any byte.

use super::member::{choose_observer_master, link, number, server_id};
use super::process::Process;
use crate::checkers::Finding;
use crate::env::Env;
use crate::event::{Event, Job, ProcessId};
use crate::net::{Side, WireId};
use crate::outcome::FailureKind;
use crate::plan::Plan;
use bytes::Bytes;
use ox_driver::links::{IdentifiedLearner, LinkLimits, Links, LogDiffChunks, RemoteEnd};
use ox_driver::replica_loop::{PeerCommand, PeerEvent};
use ox_driver::sockets::{SocketRead, SocketWrite, Sockets};
use ox_history::Time;
use ox_proto::quorum::PacketReader;
use ox_store::LogDiff;
use ox_tree::State;
use ox_zab::{LinkId, Message, Sender, ServerId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

/// Largest first packet of a link.
const FIRST_PACKET_BYTES_MAX: usize = 4 << 10;

/// Pause of the reader of a log diff while the link does not take its chunks.
const CHUNK_RETRY_US: i64 = 5_000;

/// A log diff that is being read.
pub(crate) struct LogDiffReader {
    pub(crate) history: Box<LogDiff>,
    sender: SyncSender<Vec<u8>>,
    /// A chunk that the link has not taken yet.
    pub(crate) next: Option<Vec<u8>>,
}

/// Makes a member read only `bytes` per read, with pauses, until a given time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlowRead {
    pub(crate) bytes: usize,
    pub(crate) pause_us: i64,
    pub(crate) until: Time,
}

pub(crate) struct PeersThread {
    links: Links<WireId>,
    commands: VecDeque<PeerCommand>,
    /// Wires that may have input or free space.
    ready: BTreeSet<WireId>,
    /// What learners have sent whose hello is not complete.
    hellos: BTreeMap<WireId, Vec<u8>>,
    log_diffs: BTreeMap<LinkId, LogDiffReader>,
    /// Received snapshots until the replica thread gets them.
    loaded: BTreeMap<LinkId, Box<State>>,
    is_planned: bool,
    timer: Option<Duration>,
    pub(crate) slow_read: SlowRead,
    /// When a slow reader reads a wire again.
    reads_at: BTreeMap<WireId, Time>,
}

impl PeersThread {
    pub(super) fn new(plan: &Plan) -> Self {
        let limits = LinkLimits {
            packet_bytes_max: 64 << 20,
            first_packet_bytes_max: FIRST_PACKET_BYTES_MAX,
            chunk_bytes: plan.link_chunk_bytes,
            iteration_bytes_max: plan.link_chunk_bytes * 4,
            held_bytes_max: plan.held_bytes,
            sent_report_bytes: (plan.learner_window_bytes.min(plan.request_window_bytes) / 4).max(1),
            traffic_interval: Duration::from_millis(u64::from(plan.tick_ms.unsigned_abs() / 4).min(200)),
            links_per_member_max: 4,
            unknown_servers_max: 64,
        };
        Self {
            links: Links::new(limits),
            commands: VecDeque::new(),
            ready: BTreeSet::new(),
            hellos: BTreeMap::new(),
            log_diffs: BTreeMap::new(),
            loaded: BTreeMap::new(),
            is_planned: false,
            timer: None,
            slow_read: SlowRead::default(),
            reads_at: BTreeMap::new(),
        }
    }

    /// Whether it has nothing to do until something arrives.
    pub(crate) fn is_idle(&self) -> bool {
        let has_work = self.links.has_more() || !self.commands.is_empty() || !self.ready.is_empty();
        !has_work && self.loaded.is_empty() && self.log_diffs.is_empty()
    }
}

/// The wires of a process as sockets.
struct Wires<'a> {
    env: &'a mut Env,
    pid: ProcessId,
    slow: Option<SlowRead>,
    reads_at: &'a mut BTreeMap<WireId, Time>,
    /// When each server was last heard on a wire.
    last_seen: &'a mut BTreeMap<usize, Time>,
}

impl Wires<'_> {
    /// A part of `count` bytes, perhaps none. The rest can be transferred later.
    fn part(&mut self, id: WireId, side: Side, count: usize) -> usize {
        if self.env.is_healed || !self.env.rng.chance(self.env.plan.link_partial_per_mille) {
            return count;
        }
        let delay = self.env.net_delay();
        self.env.schedule_in(delay, Event::Ready(id, side));
        self.env.rng.index(count)
    }

    /// The most bytes that a member takes in one call while it reads slowly.
    fn slow_bytes_max(&mut self, id: WireId, side: Side) -> usize {
        let (now, Some(SlowRead { bytes, pause_us, .. })) = (self.env.now, self.slow) else { return usize::MAX };
        if self.reads_at.get(&id).is_some_and(|reads_at| now < *reads_at) {
            return 0;
        }
        self.reads_at.insert(id, Time(now.0 + pause_us));
        self.env.schedule_in(pause_us, Event::Ready(id, side));
        bytes
    }
}

impl Sockets for Wires<'_> {
    type Socket = WireId;

    fn receive(&mut self, id: &mut WireId, buffer: &mut [u8]) -> SocketRead {
        let id = *id;
        let side = self.env.net.wires[id].side(self.pid);
        let (other, pipe) = (1 - side, &self.env.net.wires[id].pipes[1 - side]);
        if !pipe.has_bytes() {
            return if pipe.is_at_end() { SocketRead::End } else { SocketRead::Nothing };
        }
        let arrived = pipe.arrived_bytes().min(buffer.len());
        let most = arrived.min(self.slow_bytes_max(id, side));
        let count = if most == 0 { 0 } else { self.part(id, side, most) };
        self.env.coverage.partial_link_reads += u64::from(count < most);
        if count == 0 {
            return SocketRead::Nothing;
        }
        buffer[..count].copy_from_slice(&self.env.wire_read(id, other, count));
        self.last_seen.insert(self.env.net.wires[id].ends[other].server, self.env.now);
        SocketRead::Bytes(count)
    }

    fn send(&mut self, id: &mut WireId, bytes: &[u8]) -> SocketWrite {
        let id = *id;
        let side = self.env.net.wires[id].side(self.pid);
        let capacity = self.env.wire_capacity(id, side, bytes.len());
        if capacity == 0 {
            self.env.coverage.full_wires += 1;
            return SocketWrite::Full;
        }
        // A kernel accepts the rest of a partial write only when the other end reads, which a leader counts as a sign of
        // life: so an end that may be unable to read gets no partial writes.
        let [one, other] = self.env.net.wires[id].ends.map(|end| end.server);
        let is_read = self.env.net.is_open_both_ways(one, other);
        let count = if is_read { self.part(id, side, capacity) } else { capacity };
        self.env.coverage.partial_link_writes += u64::from(count < capacity);
        if count == 0 {
            return SocketWrite::Full;
        }
        self.env.wire_send(id, side, &bytes[..count]);
        SocketWrite::Bytes(count)
    }

    fn close(&mut self, id: WireId) {
        self.env.wire_close(id, self.env.net.wires[id].side(self.pid));
    }
}

impl Process {
    /// The links and their sockets.
    fn links<'a>(&'a mut self, env: &'a mut Env, pid: ProcessId) -> (&'a mut Links<WireId>, Wires<'a>) {
        let thread = &mut self.peers_thread;
        let slow = Some(thread.slow_read).filter(|slow| env.now < slow.until && !env.is_healed);
        let (reads_at, last_seen) = (&mut thread.reads_at, &mut self.member.last_seen);
        (&mut thread.links, Wires { env, pid, slow, reads_at, last_seen })
    }

    pub(super) fn command_peers(&mut self, env: &mut Env, pid: ProcessId, commands: Vec<PeerCommand>) {
        self.peers_thread.commands.extend(commands);
        self.wake_peers(env, pid);
    }

    fn wake_peers(&mut self, env: &mut Env, pid: ProcessId) {
        if !std::mem::replace(&mut self.peers_thread.is_planned, true) {
            let delay = self.thread_delay(env);
            env.schedule_in(delay, Event::Peers(pid));
        }
    }

    /// Bytes have arrived on a wire, or it has free space.
    pub(crate) fn on_wire_ready(&mut self, env: &mut Env, pid: ProcessId, wire: WireId) {
        self.peers_thread.ready.insert(wire);
        self.wake_peers(env, pid);
    }

    /// A dial to the leader has succeeded.
    pub(crate) fn on_dialed(&mut self, env: &mut Env, pid: ProcessId, leader: usize, wire: WireId) {
        let end = RemoteEnd::Leader(crate::jobs::tree_options(&env.plan));
        self.peers_thread.links.add(env.elapsed(), link(wire), wire, end);
        self.on_wire_ready(env, pid, wire);
        self.on_peer(env, pid, PeerEvent::Dialed(server_id(leader), Some(link(wire))));
    }

    /// A learner has connected.
    pub(crate) fn on_accepted(&mut self, env: &mut Env, pid: ProcessId, wire: WireId) {
        self.peers_thread.hellos.insert(wire, Vec::new());
        self.admit(env, pid, wire);
        self.on_wire_ready(env, pid, wire);
    }

    /// One iteration of the peers thread.
    pub(crate) fn peers_step(&mut self, env: &mut Env, pid: ProcessId) {
        self.peers_thread.is_planned = false;
        if self.is_stopping {
            return;
        }
        self.expire_unidentified(env, pid);
        for command in std::mem::take(&mut self.peers_thread.commands) {
            self.execute_command(env, pid, command);
        }
        for wire in std::mem::take(&mut self.peers_thread.ready) {
            if self.peers_thread.hellos.contains_key(&wire) {
                self.read_hello(env, pid, wire);
            } else {
                self.peers_thread.links.on_ready(link(wire));
            }
        }
        let (now, mut events) = (env.elapsed(), Vec::new());
        let (links, mut wires) = self.links(env, pid);
        links.run_iteration(now, &mut wires, &mut events);
        links.on_time(now, &mut events);
        drop(links.take_reports());
        events.into_iter().for_each(|event| self.on_peer(env, pid, PeerEvent::Link(event)));
        self.load_snapshots(env, pid);
        if self.peers_thread.links.has_more() {
            return self.wake_peers(env, pid);
        }
        let deadline = self.peers_thread.links.deadline();
        if deadline.is_some() && deadline != self.peers_thread.timer {
            self.peers_thread.timer = deadline;
            let rest = deadline.unwrap_or(now).saturating_sub(now).as_micros();
            env.schedule_in(i64::try_from(rest).unwrap_or(i64::MAX), Event::Peers(pid));
        }
    }

    fn execute_command(&mut self, env: &mut Env, pid: ProcessId, command: PeerCommand) {
        let now = env.elapsed();
        let (links, mut wires) = self.links(env, pid);
        match command {
            PeerCommand::Notify(to, note) => {
                env.notify(pid.server, number(to), (note, self.member.ensemble.clone()));
            }
            PeerCommand::Dial(leader) => {
                let master = self.status().peer().and_then(|peer| choose_observer_master(env, peer, pid));
                env.dial(pid, number(leader), master);
            }
            PeerCommand::Listen(listens) => self.member.is_listening = listens,
            PeerCommand::ServeObservers => self.member.is_listening = true,
            PeerCommand::Config(..) => (), // all servers know all addresses
            PeerCommand::Send(link, packets) => links.send(now, link, packets),
            PeerCommand::Snapshot(link, frozen) => links.send_snapshot(now, link, frozen),
            PeerCommand::LogDiff(link, history) => self.send_log_diff(env, pid, link, history),
            PeerCommand::Close(link) => links.close(now, link, &mut wires),
            PeerCommand::Consumed(link, bytes) => {
                wires.env.coverage.full_links += u64::from(links.is_full(link));
                links.consumed(link, bytes);
            }
        }
    }

    /// Reads the hello of a learner, and makes a link of its connection when the hello is complete.
    fn read_hello(&mut self, env: &mut Env, pid: ProcessId, wire: WireId) {
        let mut buffer = [0; FIRST_PACKET_BYTES_MAX];
        let mut socket = wire;
        let count = match self.links(env, pid).1.receive(&mut socket, &mut buffer) {
            SocketRead::Bytes(count) => count,
            SocketRead::Nothing => return,
            SocketRead::End => return self.close_unidentified_wire(env, pid, wire),
        };
        self.on_hello_bytes(env, pid, wire);
        let Some(input) = self.peers_thread.hellos.get_mut(&wire) else { return };
        input.extend_from_slice(&buffer[..count]);
        match hello(input) {
            Err(error) => Finding::new(FailureKind::Link, error).report(env),
            Ok(None) => self.on_wire_ready(env, pid, wire),
            Ok(Some(server)) => {
                let input = self.peers_thread.hellos.remove(&wire).unwrap_or_default();
                self.forget_unidentified(wire);
                let (now, mut events) = (env.elapsed(), Vec::new());
                let (links, mut wires) = self.links(env, pid);
                let learner = IdentifiedLearner { link: link(wire), socket: wire, server, input };
                links.adopt(now, learner, |_| true, &mut wires, &mut events);
                events.into_iter().for_each(|event| self.on_peer(env, pid, PeerEvent::Link(event)));
                self.on_peer(env, pid, PeerEvent::LearnerConnected(link(wire), None));
            }
        }
    }

    /// Closes a connection whose hello has not arrived.
    pub(super) fn close_unidentified_wire(&mut self, env: &mut Env, pid: ProcessId, wire: WireId) {
        self.forget_unidentified(wire);
        if self.peers_thread.hellos.remove(&wire).is_some() {
            env.wire_close(wire, env.net.wires[wire].side(pid));
        }
    }

    /// Loads received snapshots, as separate threads do in production.
    fn load_snapshots(&mut self, env: &mut Env, pid: ProcessId) {
        for received in self.peers_thread.links.take_snapshots() {
            let link = received.link;
            let Some(state) = received.finish() else {
                return Finding::new(FailureKind::Link, "snapshot stream is corrupt").report(env);
            };
            env.note(format_args!("peer {}: has received a snapshot at {}", pid.server, state.last_zxid()));
            env.coverage.snapshots_received += 1;
            self.peers_thread.loaded.insert(link, state);
            let delay = self.thread_delay(env);
            env.schedule_in(delay, Event::SnapshotLoaded(pid, link));
        }
    }

    pub(crate) fn on_snapshot_loaded(&mut self, env: &mut Env, pid: ProcessId, link: LinkId) {
        if let Some(state) = self.peers_thread.loaded.remove(&link) {
            self.on_peer(env, pid, PeerEvent::SnapshotLoaded(link, state));
        }
    }

    /// Starts to read and send a log diff.
    fn send_log_diff(&mut self, env: &mut Env, pid: ProcessId, link: LinkId, history: Box<LogDiff>) {
        env.note(format_args!("peer {}: sends the log diff on {}", pid.server, link.0));
        env.coverage.log_diffs += 1;
        let (sender, chunks) = LogDiffChunks::channel();
        self.peers_thread.log_diffs.insert(link, LogDiffReader { history, sender, next: None });
        self.peers_thread.links.send_log_diff(link, chunks);
        env.schedule_in(0, Event::Job(Job::SendLogDiff(pid, link)));
    }

    pub(crate) fn take_log_diff(&mut self, link: LinkId) -> Option<LogDiffReader> {
        self.peers_thread.log_diffs.remove(&link)
    }

    /// Passes the chunk that was read to the link. `None` after an error, which closes the link.
    pub(crate) fn on_log_diff_read(
        &mut self,
        env: &mut Env,
        pid: ProcessId,
        link: LinkId,
        reader: Option<LogDiffReader>,
    ) {
        self.wake_peers(env, pid);
        let Some(mut reader) = reader else { return };
        let chunk = reader.next.take().unwrap_or_default();
        let is_last = chunk.is_empty();
        let pause_us = match reader.sender.try_send(chunk) {
            Err(TrySendError::Disconnected(_)) => return, // the link is closed
            Err(TrySendError::Full(chunk)) => {
                reader.next = Some(chunk);
                CHUNK_RETRY_US
            }
            Ok(()) if is_last => return,
            Ok(()) => 0,
        };
        self.peers_thread.log_diffs.insert(link, reader);
        env.schedule_in(pause_us, Event::Job(Job::SendLogDiff(pid, link)));
    }
}

/// The server that a complete hello names.
fn hello(input: &[u8]) -> Result<Option<ServerId>, String> {
    let mut reader = PacketReader::default();
    let next = reader.next(input, FIRST_PACKET_BYTES_MAX).map_err(|error| format!("{error:?}"))?;
    let Some((packet, _)) = next else { return Ok(None) };
    match Message::read(&packet, &Bytes::copy_from_slice(input), Sender::Learner) {
        Ok(Message::Hello { server, .. }) => Ok(Some(server)),
        other => Err(format!("a learner has sent {other:?} first")),
    }
}
