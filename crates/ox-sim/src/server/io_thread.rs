//! The I/O threads of a process. Each runs the production iteration (`ox-driver/src/client_io.rs`), and can be
//! preempted between any two of its steps.

use super::process::Process;
use crate::env::Env;
use crate::event::{Event, ProcessId};
use crate::link::{Direction, LinkId, Place};
use crate::plan::Plan;
use ox_driver::client_io::{
    ClientHost, ClientIo, ClientIoSettings, ClientIoSizes, ClientNote, ClientSockets, CloseReason, GlobalLimits,
    IoStage, Mail, Readiness,
};
use ox_driver::sockets::{SocketRead, SocketWrite, Sockets};
use ox_history::Time;
use ox_proto::limits::FRAME_BYTES_MAX_DEFAULT;
use ox_replica::outbox::Outbox;
use ox_replica::{
    AdmissionLimits, Conn, ConnAuth, ConnId, ConnSettings, HandshakeKind, MemoryBudget, Now, Submission, Throttle,
};
use ox_tree::State;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// How long a connection without a session may be silent.
const SESSIONLESS_MS: i64 = 10_000;
/// Delay before a thread retries requests that were not admitted (`request_throttle_stall_time`).
const STALL_MS: i64 = 100;
/// The longest delay after which the rest of a partial read or write follows.
const REST_DELAY_US: i64 = 20_000;

#[derive(Debug)]
pub(crate) struct IoThread {
    pub(crate) mailbox: Vec<Outbox>,
    pub(crate) connections: ClientIo<LinkId, ()>,
    /// Accepted links that have no connection yet.
    accepted: Vec<LinkId>,
    /// Links with events that the thread has not taken yet.
    ready: BTreeSet<LinkId>,
    stage: IoStage,
    is_scheduled: bool,
    /// When the thread wakes even without an event.
    timer: Option<Time>,
}

impl IoThread {
    pub(crate) fn new(plan: &Plan, thread: usize, now: Now) -> Self {
        let settings = ClientIoSettings {
            thread: u8::try_from(thread).expect("few threads"),
            conn: ConnSettings {
                min_timeout_ms: plan.tick_ms * 2,
                max_timeout_ms: plan.tick_ms * 20,
                throttled_op_wait_ms: plan.throttled_wait_ms,
                drop_late: plan.drop_late,
                syncs_travel: plan.is_ensemble(),
                auth: ConnAuth::NONE,
            },
            frame_bytes_max: FRAME_BYTES_MAX_DEFAULT,
            sessionless_timeout_ms: SESSIONLESS_MS,
            stall_time_ms: STALL_MS,
            tick_ms: plan.tick_ms,
            sizes: ClientIoSizes {
                read_bytes: plan.read_bytes,
                arena_bytes: plan.read_bytes * plan.reads_at_once,
                requests_per_lock: plan.served_at_once,
                reply_bytes_per_lock: plan.reply_bytes_at_once,
                unsent_pause_bytes: plan.unsent_pause_bytes,
                unsent_event_bytes_max: plan.unsent_events_bytes,
            },
        };
        Self {
            mailbox: Vec::new(),
            connections: ClientIo::new(settings, now),
            accepted: Vec::new(),
            ready: BTreeSet::new(),
            stage: IoStage::Receive,
            is_scheduled: false,
            timer: None,
        }
    }

    /// Whether an iteration is not over.
    pub(crate) fn is_running(&self) -> bool {
        self.stage != IoStage::Receive || self.connections.is_busy()
    }
}

/// The limits on all clients of a process.
pub(crate) fn global_limits(plan: &Plan) -> GlobalLimits {
    let budget = MemoryBudget::new(plan.memory_budget_bytes);
    let limits = AdmissionLimits { budget, requests_max: plan.outstanding_max, throttle_max: plan.throttle_max };
    GlobalLimits::new(limits, plan.large_bytes, plan.large_bytes_max)
}

impl Process {
    pub(crate) fn wake_io(&mut self, env: &mut Env, pid: ProcessId, thread: usize) {
        if !std::mem::replace(&mut self.io[thread].is_scheduled, true) {
            let delay = self.thread_delay(env);
            env.schedule_in(delay, Event::Io(pid, thread));
        }
    }

    pub(crate) fn accept(&mut self, env: &mut Env, pid: ProcessId, link: LinkId) {
        let thread = self.next_thread;
        self.next_thread = (thread + 1) % self.io.len();
        env.links[link].boot = pid.boot;
        self.io[thread].accepted.push(link);
        self.wake_io(env, pid, thread);
    }

    /// Bytes, the end of the stream, or free space have arrived at the server's end of a link.
    pub(crate) fn on_socket(&mut self, env: &mut Env, pid: ProcessId, link: LinkId) {
        if let Some(Place { thread, .. }) = env.links[link].place {
            self.io[thread].ready.insert(link);
            self.wake_io(env, pid, thread);
        }
    }

    /// Whether the replica thread knows of every closed connection.
    pub(crate) fn has_reported_all_closes(&self) -> bool {
        self.io.iter().all(|io| io.connections.has_reported_all_closes())
    }

    /// Takes steps until the thread is preempted or its iteration ends.
    pub(crate) fn io_step(&mut self, env: &mut Env, pid: ProcessId, thread: usize) {
        self.io[thread].is_scheduled = false;
        let now = self.now(env);
        loop {
            let Self { state, limits, throttle, io, inbox, .. } = self;
            let IoThread { mailbox, connections, accepted, ready, stage, .. } = &mut io[thread];
            let begins = *stage == IoStage::Receive;
            let (events, accepted) =
                if begins { (std::mem::take(ready), std::mem::take(accepted)) } else { Default::default() };
            let submissions = &mut inbox.submissions;
            let before = submissions.len();
            let mut host = Host { env, thread, state, limits, throttle, mailbox, submissions, ready };
            for link in accepted {
                host.accept(connections, link, now);
            }
            for link in events {
                host.pass_event(connections, link);
            }
            *stage = connections.step(now, &mut host);
            let is_over = *stage == IoStage::Receive;
            if before < inbox.submissions.len() {
                self.wake_replica(env, pid);
            }
            if env.failure.is_some() {
                return;
            }
            if is_over {
                return self.end_iteration(env, pid, thread, now);
            }
            if env.preempts() {
                return self.wake_io(env, pid, thread);
            }
        }
    }

    fn end_iteration(&mut self, env: &mut Env, pid: ProcessId, thread: usize, now: Now) {
        let io = &mut self.io[thread];
        let has_input = !io.mailbox.is_empty() || !io.ready.is_empty() || !io.accepted.is_empty();
        if has_input || io.connections.is_busy() {
            return self.wake_io(env, pid, thread);
        }
        let rest_us = (io.connections.wake_ms(now.mono_ms) - now.mono_ms).max(1) * 1000;
        let wakes_at = Time(env.now.0 + rest_us);
        if io.timer.is_none_or(|timer| timer <= env.now || wakes_at < timer) {
            io.timer = Some(wakes_at);
            env.schedule_in(rest_us, Event::Io(pid, thread));
        }
    }
}

/// The surroundings of one step.
struct Host<'a> {
    env: &'a mut Env,
    thread: usize,
    state: &'a State,
    limits: &'a GlobalLimits,
    throttle: &'a RefCell<Option<Throttle>>,
    mailbox: &'a mut Vec<Outbox>,
    submissions: &'a mut Vec<Submission>,
    ready: &'a mut BTreeSet<LinkId>,
}

impl Host<'_> {
    fn accept(&mut self, connections: &mut ClientIo<LinkId, ()>, link: LinkId, now: Now) {
        let address = SocketAddr::new(crate::client::address(self.env.links[link].client), 0);
        connections.add(link, address, Vec::new(), now, self).expect("there are few connections");
        self.pass_event(connections, link);
    }

    /// Reports what a socket is ready for, as the kernel does after any change.
    fn pass_event(&mut self, connections: &mut ClientIo<LinkId, ()>, link: LinkId) {
        let socket = &mut self.env.links[link];
        let readiness = Readiness {
            readable: socket.up.has_bytes() || socket.up.has_ended(),
            writable: socket.down.unread() < self.env.plan.window_bytes,
            read_closed: socket.up.has_ended(),
            broken: socket.up.has_ended() && socket.down.is_closed(),
        };
        match socket.place {
            Some(Place { slot, is_lingering: false, .. }) => connections.on_ready(slot, readiness),
            Some(Place { slot, is_lingering: true, .. }) => connections.on_lingering_ready(slot),
            None => (), // it was closed
        }
    }

    /// A part of `count` bytes. The rest follows later.
    fn part(&mut self, link: LinkId, count: usize) -> usize {
        if count < 2 || !self.env.rng.chance(self.env.plan.partial_per_mille) {
            return count;
        }
        let delay = self.env.rng.skewed(REST_DELAY_US);
        self.env.schedule_in(delay, Event::Socket(link));
        1 + self.env.rng.index(count - 1)
    }
}

impl Sockets for Host<'_> {
    type Socket = LinkId;

    fn receive(&mut self, link: &mut LinkId, buffer: &mut [u8]) -> SocketRead {
        let up = &self.env.links[*link].up;
        let arrived = up.arrived_bytes().min(buffer.len());
        if arrived == 0 {
            return if up.has_ended() { SocketRead::End } else { SocketRead::Nothing };
        }
        let count = self.part(*link, arrived);
        self.env.coverage.partial_reads += u64::from(count < arrived);
        self.env.links[*link].up.read_into(&mut buffer[..count]);
        SocketRead::Bytes(count)
    }

    fn send(&mut self, link: &mut LinkId, bytes: &[u8]) -> SocketWrite {
        let socket = &mut self.env.links[*link];
        if socket.down.is_closed() {
            return SocketWrite::Broken;
        }
        let space = self.env.plan.window_bytes.saturating_sub(socket.down.unread()).min(bytes.len());
        socket.is_full |= space < bytes.len();
        self.env.coverage.full_sockets += u64::from(space < bytes.len());
        if space == 0 {
            return SocketWrite::Full;
        }
        let count = self.part(*link, space);
        self.env.coverage.partial_writes += u64::from(count < space);
        self.env.send(*link, Direction::ToClient, &bytes[..count]);
        SocketWrite::Bytes(count)
    }

    fn close(&mut self, link: LinkId) {
        self.env.links[link].place = None;
        if self.env.links[link].up.unread() == 0 {
            self.env.close(link, Direction::ToClient);
        } else {
            self.env.coverage.resets += 1;
            self.env.cut(link); // the kernel resets a connection that is closed with unread input
        }
    }
}

impl ClientSockets for Host<'_> {
    fn register(&mut self, link: &mut LinkId, slot: usize) -> bool {
        self.env.links[*link].place = Some(Place { thread: self.thread, slot, is_lingering: false });
        true
    }

    fn shut_down(&mut self, link: &mut LinkId, index: usize) -> bool {
        self.env.close(*link, Direction::ToClient);
        self.env.links[*link].place = Some(Place { thread: self.thread, slot: index, is_lingering: true });
        self.ready.insert(*link);
        true
    }
}

impl<'a> ClientHost for Host<'a> {
    type Record = ();
    type StateGuard = &'a State;

    fn lock_state(&mut self) -> &'a State {
        self.state
    }

    fn limits(&self) -> &GlobalLimits {
        self.limits
    }

    fn take_mail(&mut self) -> Option<Mail> {
        let outboxes = std::mem::take(self.mailbox);
        outboxes.iter().for_each(|outbox| self.env.trace.bytes(&outbox.bytes));
        Some(Mail { outboxes, texts: Vec::new() })
    }

    fn submit(&mut self, submission: Submission) {
        self.submissions.push(submission);
    }

    fn admits(&self, now: Now, kind: HandshakeKind) -> bool {
        self.throttle.borrow_mut().as_mut().is_none_or(|throttle| throttle.admit(now, kind, 1.0))
    }

    fn on_open(&mut self, _id: ConnId, _socket: &Self::Socket, _address: SocketAddr, _now: Now) {}

    fn on_removed(&mut self, _core: &Conn, _record: ()) {}

    fn on_close(&mut self, core: &Conn, _record: &(), reason: CloseReason<'_>, _now: Now) {
        let coverage = &mut self.env.coverage;
        match reason {
            CloseReason::Disconnected => (),
            CloseReason::Refused(_) => coverage.refused_frames += 1,
            CloseReason::Idle => coverage.idle_closed += 1,
            CloseReason::Stuck => coverage.aborted += 1,
            CloseReason::SlowReader | CloseReason::SlowRequest | CloseReason::NoMemory => {
                coverage.closed_for_memory += 1;
            }
        }
        self.env.note(format_args!("io: connection {:?} is closed: {reason:?}", core.id()));
    }

    fn note(&mut self, note: ClientNote) {
        let coverage = &mut self.env.coverage;
        *match note {
            ClientNote::LargeRefused => &mut coverage.large_refused,
            ClientNote::Stalled => &mut coverage.stalled,
            ClientNote::StaleDropped => &mut coverage.stale_dropped,
            ClientNote::Throttled => &mut coverage.throttled,
            ClientNote::HiddenEvent => &mut coverage.hidden_events,
            ClientNote::OnePerConnection => &mut coverage.one_per_connection,
            ClientNote::FollowsInFlight => &mut coverage.waiting_reads,
            ClientNote::PausedReader => &mut coverage.slow_reader_pauses,
            ClientNote::FrameWaits => &mut coverage.waiting_frames,
            ClientNote::ArenaFull => &mut coverage.full_arenas,
            ClientNote::BudgetSpent => &mut coverage.budgets_spent,
        } += 1;
    }

    fn on_lingering(&mut self, lingers: bool) {
        self.env.coverage.lingering += u64::from(lingers);
    }
}
