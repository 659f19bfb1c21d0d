//! The loop of an I/O thread.

use super::accept::{AcceptOutcome, accept, bind};
use super::buffer_pool::BufferPool;
use super::connection::{Connection, Received};
use super::iteration_stats::IterationStats;
use super::linger::Lingering;
use super::serve::unsent_limits;
use super::stalled::{Retry, Stall, Stalled};
use crate::connection_table::Refused;
use crate::fd_limit::connections_max;
use crate::four_letter::CommandQueue;
use crate::global_limits::Growth;
use crate::java_text;
use crate::limits::{
    ACCEPT_PAUSE_MS, ACCEPTS_PER_ITERATION_MAX, ARENA_BYTES, LOG_LINES_BURST, READ_BYTES, STALLED_TOUCH_MS,
    UNSENT_BYTES_PAUSE,
};
use crate::log_limit::LogLimit;
use crate::shared::Shared;
use crate::watchdog::Heartbeat;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use ox_proto::OpCode;
use ox_replica::{
    Admission, ClientInput, Conn, ConnId, ConnSettings, Load, Now, PauseDetector, Pressure, SMALL_BYTES, Shortage,
    Submission,
};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Token of the waker of each I/O thread.
pub(crate) const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

pub(crate) struct IoThread {
    pub(super) number: u8,
    poll: Poll,
    listener: Option<TcpListener>,
    /// Connections allowed on all threads together. More would use the descriptors that logs and snapshots need.
    connections_max: usize,
    /// When to accept again, after descriptors have run out.
    accept_retry_ms: Option<i64>,
    /// Accepting is paused, and that has been logged.
    accept_paused: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: CommandQueue,
    pub(super) settings: ConnSettings,
    pub(super) frame_bytes_max: usize,
    pub(super) conns: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Sockets of closed connections whose clients have not read the last reply yet.
    pub(super) lingering: Lingering,
    generation: u64,
    /// Connections with work in this iteration.
    pub(super) ready: Vec<usize>,
    stalled: Stalled,
    /// Connections with work and unsent replies, paused while the unsent replies of all connections use much memory.
    paused: BTreeSet<usize>,
    /// When the sessions of stalled connections are touched next.
    next_touch_ms: i64,
    /// The admission when the iteration began, or at its last submission.
    pub(super) admission: Admission,
    /// How much of the memory share of replies and events is used.
    pub(super) pressure: Pressure,
    /// Back-pressure: the server does not read from a connection with more unsent bytes than this.
    pub(super) pause_bytes: usize,
    /// Bytes per read from a connection without a reservation.
    read_bytes: usize,
    pub(super) arena: Vec<u8>,
    pub(super) received: Vec<(usize, Range<usize>)>,
    pub(super) submission: Submission,
    /// Bytes of events in buffers that `GlobalLimits` does not count yet.
    pub(super) delivered_bytes: usize,
    /// Bytes of outboxes that this iteration has delivered. `GlobalLimits` counts them until the end of the iteration,
    /// and from then on the buffers that received them.
    pub(super) delivered_mail: usize,
    pub(super) pool: BufferPool,
    pub(super) stats: IterationStats,
    next_thread: usize,
    pub(super) next_idle_check_ms: i64,
    /// Detects pauses between two checks for idle connections.
    pub(super) pulse: PauseDetector,
    /// Warnings about connections closed for what their clients sent or did not read.
    pub(super) close_log: LogLimit,
    refusal_log: LogLimit,
    /// Lines about clients that disconnected without closing their session.
    disconnect_log: LogLimit,
}

impl IoThread {
    pub(crate) fn new(number: u8, poll: Poll, shared: Arc<Shared>, commands: CommandQueue) -> Self {
        let config = &shared.config;
        let throttle = &config.request_throttle;
        Self {
            number,
            poll,
            listener: None,
            connections_max: usize::MAX,
            accept_retry_ms: None,
            accept_paused: false,
            commands,
            settings: ConnSettings {
                min_timeout_ms: config.min_session_timeout_ms,
                max_timeout_ms: config.max_session_timeout_ms,
                throttled_op_wait_ms: i64::from(throttle.throttled_op_wait_ms),
                drop_late: throttle.drop_stale && throttle.stale_latency_check,
                syncs_travel: config.member.is_some(),
            },
            frame_bytes_max: config.limits.jute_max_buffer_bytes as usize,
            conns: Vec::new(),
            free: Vec::new(),
            lingering: Lingering::default(),
            generation: 0,
            ready: Vec::new(),
            stalled: Stalled::default(),
            paused: BTreeSet::new(),
            next_touch_ms: 0,
            admission: Admission::Open,
            pressure: Pressure::Low,
            pause_bytes: 0,
            read_bytes: READ_BYTES,
            arena: vec![0; ARENA_BYTES],
            received: Vec::new(),
            submission: Submission::default(),
            delivered_bytes: 0,
            delivered_mail: 0,
            pool: BufferPool::default(),
            stats: IterationStats::default(),
            next_thread: 0,
            pulse: PauseDetector::new(i32::try_from(config.tick_ms).unwrap_or(i32::MAX), shared.clock.mono_ms()),
            next_idle_check_ms: shared.clock.mono_ms(),
            close_log: LogLimit::new(LOG_LINES_BURST),
            refusal_log: LogLimit::new(LOG_LINES_BURST),
            disconnect_log: LogLimit::new(LOG_LINES_BURST),
            shared,
        }
    }

    /// Makes this the thread that accepts connections for all threads, while there are fewer than `connections_max`.
    pub(crate) fn listen(&mut self, mut listener: TcpListener, connections_max: usize) -> io::Result<()> {
        self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        (self.listener, self.connections_max) = (Some(listener), connections_max);
        Ok(())
    }

    /// Moves the client port to another address. Open connections stay. If the new address cannot be bound, the old one
    /// stays.
    pub(super) fn relisten(&mut self, address: SocketAddr) {
        let backlog = self.shared.config.listen_backlog;
        let open =
            |address: SocketAddr| bind(Some(address.ip()).filter(|ip| !ip.is_unspecified()), address.port(), backlog);
        let before = self.listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let opened = open(address).or_else(|_| {
            self.listener = None; // it may use the same port
            open(address)
        });
        let opened =
            opened.inspect_err(|error| tracing::error!(%error, "Error reconfiguring client port to {address}"));
        let opened =
            opened.or_else(|error| if self.listener.is_none() { before.map_or(Err(error), open) } else { Err(error) });
        let listening = opened.and_then(|listener| {
            let address = listener.local_addr()?;
            let connections_max = connections_max(true).map_err(io::Error::other)?;
            self.listen(listener, connections_max)?;
            Ok(address)
        });
        if let Ok(address) = listening {
            tracing::info!("binding to port {address}");
            *self.shared.address.lock() = Some(address);
        }
    }

    /// Runs until the server stops.
    pub(crate) fn run(mut self, heartbeat: &Heartbeat) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.shared.is_stopping() {
            heartbeat.beat();
            self.wait(&mut events, self.shared.clock.mono_ms())?;
            let now = self.shared.clock.now();
            self.on_events(&events, now.mono_ms);
            self.run_iteration(now);
        }
        Ok(())
    }

    fn on_events(&mut self, events: &Events, now_ms: i64) {
        let mut accepting = self.accept_retry_ms.is_some_and(|retry_ms| retry_ms <= now_ms);
        for event in events {
            match event.token() {
                WAKER => (),
                LISTENER => accepting |= self.accept_retry_ms.is_none(),
                token if Lingering::owns(token) => {
                    self.lingering.on_event(token, &mut self.arena, &self.shared.connections);
                }
                Token(slot) => self.on_event(slot, event),
            }
        }
        if accepting {
            self.accept(now_ms);
        }
    }

    fn wait(&mut self, events: &mut Events, now_ms: i64) -> io::Result<()> {
        let mailbox = &self.shared.mailboxes[usize::from(self.number)];
        let timeout = Duration::from_millis((self.wake_ms(now_ms) - now_ms).max(0).unsigned_abs());
        let busy = !self.ready.is_empty() || self.stalled.flows() || !mailbox.may_sleep();
        let result = self.poll.poll(events, Some(if busy { Duration::ZERO } else { timeout }));
        mailbox.is_awake();
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    /// When the thread has work even if no event arrives.
    fn wake_ms(&self, now_ms: i64) -> i64 {
        let wake_ms = self.next_idle_check_ms.min(self.accept_retry_ms.unwrap_or(i64::MAX));
        if self.stalled.is_empty() && self.paused.is_empty() {
            return wake_ms;
        }
        wake_ms.min(now_ms + i64::from(self.shared.config.request_throttle.stall_time_ms.max(1)))
    }

    fn on_event(&mut self, slot: usize, event: &Event) {
        let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else { return };
        conn.on_event(event);
        self.mark_ready(slot);
    }

    pub(super) fn mark_ready(&mut self, slot: usize) {
        if let Some(conn) = self.conns[slot].as_mut().filter(|conn| !conn.ready) {
            conn.ready = true;
            self.ready.push(slot);
        }
    }

    /// Accepts new connections and spreads them over the threads.
    fn accept(&mut self, now_ms: i64) {
        self.accept_retry_ms = None;
        let was_paused = std::mem::replace(&mut self.accept_paused, false);
        for _ in 0..ACCEPTS_PER_ITERATION_MAX {
            let Some(listener) = &self.listener else { return };
            if self.connections_max <= self.shared.connections.descriptors() {
                return self.pause_accept(now_ms, was_paused, "no free file descriptors");
            }
            match accept(listener, &self.shared) {
                Ok(AcceptOutcome::Admitted(stream, address)) => {
                    let thread = self.next_thread;
                    self.next_thread = (thread + 1) % self.shared.mailboxes.len();
                    if thread == usize::from(self.number) {
                        self.add(stream, address);
                    } else {
                        self.shared.mailboxes[thread].put(|mail| mail.accepted.push((stream, address)));
                    }
                }
                Ok(AcceptOutcome::Refused(address, reason)) => {
                    self.shared.metrics.connection_rejected.add(1);
                    if let Some(suppressed) = self.refusal_log.allow(now_ms) {
                        let limits = &self.shared.config.limits;
                        let max = if reason == Refused::Address { limits.max_client_cnxns } else { limits.max_cnxns };
                        tracing::warn!(suppressed, "Too many connections from /{} - max is {max}", address.ip());
                    }
                }
                Ok(AcceptOutcome::Aborted) => (),
                Ok(AcceptOutcome::Empty) => return,
                Err(error) => return self.pause_accept(now_ms, was_paused, &error.to_string()),
            }
        }
        self.accept_retry_ms = Some(now_ms); // more may be pending, and the event for them is already consumed
    }

    /// Stops accepting until connections close. Open connections are served on.
    fn pause_accept(&mut self, now_ms: i64, was_paused: bool, reason: &str) {
        if !was_paused && let Some(suppressed) = self.refusal_log.allow(now_ms) {
            let connections = self.shared.connections.descriptors();
            tracing::error!(connections, suppressed, "accept paused: {reason}; raise ulimit -n or lower maxCnxns");
        }
        self.accept_paused = true;
        self.accept_retry_ms = Some(now_ms + ACCEPT_PAUSE_MS);
    }

    pub(super) fn add(&mut self, mut stream: TcpStream, address: SocketAddr) {
        let slot = self.free.pop().unwrap_or(self.conns.len());
        let registered = slot < ConnId::SLOTS_MAX && {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(slot), interest).is_ok()
        };
        if !registered {
            self.free.push(slot);
            return self.shared.connections.abandon(address.ip());
        }
        self.generation += 1;
        let id = ConnId::new(self.number, slot, self.generation);
        let now = self.shared.clock.now();
        let stats = self.shared.connections.add(id, address, now.wall_ms, now.mono_ms);
        let conn = Connection::new(stream, address, Conn::new(id, address.ip()), stats);
        if slot == self.conns.len() {
            self.conns.push(Some(conn));
        } else {
            self.conns[slot] = Some(conn);
        }
    }

    fn run_iteration(&mut self, now: Now) {
        self.check_admission(now);
        self.receive(now);
        self.serve(now);
        self.submit();
        self.stats.publish(&self.shared);
        self.flush(now);
        if self.next_idle_check_ms <= now.mono_ms {
            self.check_idle(now);
        }
        self.submit();
    }

    /// Checks the memory that all threads hold. Connections that waited for memory go first, the longest waiting first.
    fn check_admission(&mut self, now: Now) {
        let global_limits = &self.shared.global_limits;
        self.admission = global_limits.admission(Load::default());
        self.read_bytes = if global_limits.is_receiving_full() { SMALL_BYTES } else { READ_BYTES };
        (self.pressure, self.pause_bytes) = unsent_limits(&self.shared);
        if self.next_touch_ms <= now.mono_ms && !self.stalled.is_empty() {
            self.next_touch_ms = now.mono_ms + STALLED_TOUCH_MS;
            let stalled = self.stalled.slots().filter_map(|slot| self.conns[slot].as_ref());
            // A client that has closed its side may be dead: its requests are kept, but its session may expire.
            let waits = |conn: &&Connection| conn.stalled.is_some() && !conn.read_closed;
            stalled.filter(waits).for_each(|conn| conn.core.on_refused(now));
        }
        self.retry_stalled(now);
        if self.pressure == Pressure::Low {
            for slot in std::mem::take(&mut self.paused) {
                self.mark_ready(slot);
            }
        }
    }

    fn retry_stalled(&mut self, now: Now) {
        if self.stalled.is_empty() {
            return;
        }
        let conns = &self.conns;
        let waits = |slot: usize, shortage| {
            conns[slot].as_ref().is_some_and(|conn| conn.stalled.is_some_and(|stall| stall.shortage == shortage))
        };
        let retried = self.stalled.take((self.admission, self.pressure), now.mono_ms, waits);
        let others = std::mem::take(&mut self.ready);
        for slot in &others {
            if let Some(conn) = self.conns[*slot].as_mut() {
                conn.ready = false;
            }
        }
        for Retry { slot, is_overdue } in retried {
            if let Some(conn) = self.conns[slot].as_mut() {
                (conn.was_stalled, conn.is_overdue) = (conn.stalled.take(), is_overdue);
            }
            self.mark_ready(slot);
        }
        others.into_iter().for_each(|slot| self.mark_ready(slot));
    }

    pub(super) fn submit(&mut self) {
        if !self.submission.is_empty() {
            self.shared.global_limits.on_submitted(self.submission.load());
            let next = self.submission.like();
            self.shared.inbox.submit(std::mem::replace(&mut self.submission, next));
        }
    }

    /// Reads every ready connection that may take more input, into one arena.
    fn receive(&mut self, now: Now) {
        let mut at = 0;
        for &slot in &self.ready {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            conn.skipped = false;
            // A client that has closed its side before the handshake completed may use another server: its session must
            // not be taken over.
            conn.ended |= conn.read_closed && conn.core.is_connecting();
            let may_read =
                conn.readable && !conn.ended && !conn.closing && conn.stalled.is_none() && !conn.waits_for_frame;
            // A connection with a complete frame is not read: its input stays below one frame and one read.
            let may_read = may_read && !conn.has_frame() && conn.unsent() <= self.pause_bytes;
            if !may_read || !conn.core.may_take(self.admission) {
                continue;
            }
            let read_bytes = if conn.reserved == 0 { self.read_bytes } else { READ_BYTES };
            if self.arena.len() < at + read_bytes {
                conn.skipped = true;
                continue;
            }
            match conn.receive(&mut self.arena[at..at + read_bytes]) {
                Received::Bytes(count) => {
                    conn.stats.last_io_ms.store(now.mono_ms, Ordering::Relaxed);
                    self.received.push((slot, at..at + count));
                    at += count;
                }
                Received::Nothing => (),
                Received::End => {
                    if !conn.is_command {
                        self.stats.on_dropped();
                        log_disconnect(conn, &mut self.disconnect_log, now);
                    }
                    conn.ended = true;
                    conn.readable = false;
                }
            }
        }
    }

    /// Writes output, closes connections that are done, and marks those ready that can continue immediately.
    /// Connections that were skipped because the arena was full go first.
    fn flush(&mut self, now: Now) {
        let (mut first, mut then, mut growth) = (Vec::new(), Vec::new(), Growth::default());
        for slot in std::mem::take(&mut self.ready) {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            (conn.ready, conn.was_stalled, conn.is_overdue) = (false, None, false);
            let before = conn.unsent();
            let is_dead = conn.flush(now.mono_ms, &mut self.pool).is_err();
            if conn.unsent() < before {
                conn.stats.last_io_ms.store(now.mono_ms, Ordering::Relaxed);
                if self.pause_bytes < before {
                    conn.core.on_refused(now); // pings are not read, but the client reads its replies
                }
            }
            conn.stats.interest.store(conn.interest(), Ordering::Relaxed);
            if conn.wants_more && conn.unsent() == 0 {
                conn.wants_more = false;
                self.commands.continue_listing(conn.core.id());
            }
            let is_replied = conn.closing && conn.unsent() == 0;
            // A connection that waits for memory is not read, so this is the only place that notices its end.
            if conn.is_broken && conn.stalled.is_some() {
                self.stats.on_dropped();
                log_disconnect(conn, &mut self.disconnect_log, now);
                conn.ended = true;
            }
            if is_dead || (conn.ended && (is_replied || !conn.is_command)) {
                self.close(slot);
                continue;
            }
            if is_replied {
                self.linger(slot, now);
                continue;
            }
            growth += conn.growth();
            let may_go_on = conn.core.may_take(self.admission) && conn.unsent() <= UNSENT_BYTES_PAUSE && !conn.closing;
            if may_go_on && conn.stalled.is_none() && !conn.is_command && (conn.readable || conn.has_frame()) {
                if self.pause_bytes < conn.unsent() {
                    self.paused.insert(slot);
                } else if conn.skipped {
                    first.push(slot);
                } else {
                    then.push(slot);
                }
            }
        }
        growth.unsent -= std::mem::take(&mut self.delivered_mail).cast_signed();
        self.shared.global_limits.on_buffers_grown(growth);
        self.delivered_bytes = 0;
        self.stalled.end_iteration(now.mono_ms);
        first.into_iter().chain(then).for_each(|slot| self.mark_ready(slot));
    }

    /// Sets a connection aside until the server has memory for its next request. After a retry it keeps its place in
    /// the queue.
    pub(super) fn stall(&mut self, slot: usize, shortage: Shortage, now: Now) {
        let Some(conn) = self.conns[slot].as_mut().filter(|conn| conn.stalled.is_none()) else { return };
        if let Some(before) = conn.was_stalled.filter(|before| before.shortage == shortage) {
            conn.stalled = Some(before);
            self.stalled.add_again(shortage, slot);
        } else {
            conn.stalled = Some(Stall { shortage, since_ms: now.mono_ms });
            self.stalled.add(shortage, slot, now.mono_ms);
        }
    }

    /// Logs the reason for closing a connection, with a rate limit, and counts the connection as dropped.
    pub(super) fn log_close(&mut self, slot: usize, now: Now, reason: &str) {
        self.stats.on_dropped();
        let Some(conn) = self.conns[slot].as_ref() else { return };
        if let Some(suppressed) = self.close_log.allow(now.mono_ms) {
            tracing::warn!(address = %conn.address, suppressed, "connection closed: {reason}");
        }
    }

    pub(super) fn close(&mut self, slot: usize) {
        drop(self.remove_conn(slot));
    }

    /// Closes a connection after its last reply. The socket stays open until the client has read that reply.
    fn linger(&mut self, slot: usize, now: Now) {
        // closeSession is the last request of a client, so no input can follow that would reset the connection.
        let is_done_sending = |conn: &Connection| conn.core.last_op() == Some(OpCode::CloseSession) && !conn.readable;
        let is_done_sending = self.conns[slot].as_ref().is_some_and(is_done_sending);
        if let Some(mut stream) = self.remove_conn(slot).filter(|_| !is_done_sending) {
            let _ = self.poll.registry().deregister(&mut stream);
            self.lingering.add(stream, now.mono_ms, self.poll.registry(), &self.shared.connections);
        }
    }

    /// Removes a connection and returns its socket, which stays registered until it is closed.
    fn remove_conn(&mut self, slot: usize) -> Option<TcpStream> {
        let mut conn = self.conns[slot].take()?;
        let id = conn.core.id();
        self.stats.on_close(&conn);
        self.paused.remove(&slot);
        if let Some(stall) = conn.stalled {
            self.stalled.remove(stall.shortage, slot);
        }
        if conn.is_command {
            self.commands.cancel(id);
        }
        self.shared.connections.remove(id, conn.address.ip());
        (conn.input, conn.reserved) = (Vec::new(), 0);
        conn.drop_output();
        if conn.waits_for_frame {
            self.shared.global_limits.wait_for_frame(false);
        }
        self.shared.global_limits.on_buffers_grown(conn.growth());
        self.shared.global_limits.release_large(conn.large.iter().map(|(_, bytes)| bytes).sum());
        if !conn.core.is_new() {
            self.submission.push(id, ClientInput::Gone, &[]); // the replica knows the connection
        }
        self.free.push(slot);
        Some(conn.stream)
    }
}

/// Logs that a client has closed its connection without closing its session.
fn log_disconnect(conn: &Connection, lines: &mut LogLimit, now: Now) {
    if let Some(session) = conn.core.session()
        && let Some(suppressed) = lines.allow(now.mono_ms)
    {
        let address = java_text::address(conn.address);
        tracing::info!(
            suppressed,
            "Unable to read additional data from client, it probably closed the socket: address = {address}, session \
             = {session}"
        );
    }
}

#[cfg(test)]
mod tests;
