//! The loop of an I/O thread.

use super::accept::{Knock, accept, bind};
use super::connection::{Connection, Received};
use super::figures::TurnFigures;
use super::leave::Leavers;
use super::pool::Pool;
use super::serve::unsent_limits;
use super::stalled::{Retry, Stall, Stalled};
use crate::descriptors::connections_max;
use crate::java_text;
use crate::limits::{
    ACCEPT_PAUSE_MS, ACCEPTED_AT_ONCE_MAX, ARENA_BYTES, PROVOKED_LINES_AT_ONCE, READ_BYTES, TOUCH_WAITING_MS,
    UNSENT_BYTES_PAUSE,
};
use crate::register::Refused;
use crate::seldom::Seldom;
use crate::shared::Shared;
use crate::totals::Growth;
use crate::watchdog::Turns;
use crate::words::WordQueue;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use ox_proto::OpCode;
use ox_replica::{
    Admission, ClientInput, Conn, ConnSettings, Load, Now, PauseDetector, Pressure, SMALL_BYTES, Shortage, Submission,
};
use ox_tree::ConnId;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Token of the waker of every thread.
pub(crate) const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

/// One I/O thread.
pub(crate) struct IoThread {
    pub(super) number: u8,
    poll: Poll,
    listener: Option<TcpListener>,
    /// How many connections there may be on all threads; more would take the files' descriptors.
    connections_max: usize,
    /// When to try again to accept, after there was no room for anybody.
    accept_again_ms: Option<i64>,
    /// Newcomers wait, and that has been said.
    is_crowded: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) words: WordQueue,
    pub(super) settings: ConnSettings,
    pub(super) frame_bytes_max: usize,
    pub(super) conns: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Sockets of connections that are closed but for the client.
    pub(super) leavers: Leavers,
    generation: u64,
    /// Connections that have something to do this turn.
    pub(super) listed: Vec<usize>,
    stalled: Stalled,
    /// Connections that have something to do and unsent replies, while replies of all connections take up much memory.
    paused: BTreeSet<usize>,
    /// When sessions of stalled connections are touched next.
    next_touch_ms: i64,
    /// What the server could take on when the iteration began, or at its last submission.
    pub(super) room: Admission,
    /// How much of the share of replies and events is used.
    pub(super) pressure: Pressure,
    /// Unsent bytes at which a connection's requests wait.
    pub(super) pause_bytes: usize,
    /// Bytes read at once from a connection that has none reserved.
    read_bytes: usize,
    pub(super) arena: Vec<u8>,
    pub(super) received: Vec<(usize, Range<usize>)>,
    pub(super) submission: Submission,
    /// Bytes of events put into buffers since these were last counted.
    pub(super) delivered_bytes: usize,
    pub(super) pool: Pool,
    pub(super) figures: TurnFigures,
    next_thread: usize,
    pub(super) next_idle_check_ms: i64,
    /// Of the checks for idle connections.
    pub(super) pulse: PauseDetector,
    /// Warnings about what clients send or do not read.
    pub(super) complaints: Seldom,
    refusals: Seldom,
    /// Lines about clients that went.
    ends: Seldom,
}

impl IoThread {
    pub(crate) fn new(number: u8, poll: Poll, shared: Arc<Shared>, words: WordQueue) -> Self {
        let config = &shared.config;
        let throttle = &config.request_throttle;
        Self {
            number,
            poll,
            listener: None,
            connections_max: usize::MAX,
            accept_again_ms: None,
            is_crowded: false,
            words,
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
            leavers: Leavers::default(),
            generation: 0,
            listed: Vec::new(),
            stalled: Stalled::default(),
            paused: BTreeSet::new(),
            next_touch_ms: 0,
            room: Admission::Open,
            pressure: Pressure::Low,
            pause_bytes: 0,
            read_bytes: READ_BYTES,
            arena: vec![0; ARENA_BYTES],
            received: Vec::new(),
            submission: Submission::default(),
            delivered_bytes: 0,
            pool: Pool::default(),
            figures: TurnFigures::default(),
            next_thread: 0,
            pulse: PauseDetector::new(i32::try_from(config.tick_ms).unwrap_or(i32::MAX), shared.clock.mono_ms()),
            next_idle_check_ms: shared.clock.mono_ms(),
            complaints: Seldom::new(PROVOKED_LINES_AT_ONCE),
            refusals: Seldom::new(PROVOKED_LINES_AT_ONCE),
            ends: Seldom::new(PROVOKED_LINES_AT_ONCE),
            shared,
        }
    }

    /// Makes this the thread that accepts connections for all, as long as there are fewer than `connections_max`.
    pub(crate) fn listen(&mut self, mut listener: TcpListener, connections_max: usize) -> io::Result<()> {
        self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        (self.listener, self.connections_max) = (Some(listener), connections_max);
        Ok(())
    }

    /// Listens elsewhere from now on; who is connected stays. If that cannot be, everything stays as it was.
    pub(super) fn relisten(&mut self, address: SocketAddr) {
        let backlog = self.shared.config.listen_backlog;
        let open =
            |address: SocketAddr| bind(Some(address.ip()).filter(|ip| !ip.is_unspecified()), address.port(), backlog);
        let before = self.listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let opened = open(address).or_else(|_| {
            self.listener = None; // it may be in the way
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
    pub(crate) fn run(mut self, turns: &Turns) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.shared.is_stopping() {
            turns.mark();
            self.wait(&mut events, self.shared.clock.mono_ms())?;
            let now = self.shared.clock.now();
            self.on_events(&events, now.mono_ms);
            self.turn(now);
        }
        Ok(())
    }

    fn on_events(&mut self, events: &Events, now_ms: i64) {
        let mut accepting = self.accept_again_ms.is_some_and(|again_ms| again_ms <= now_ms);
        for event in events {
            match event.token() {
                WAKER => (),
                LISTENER => accepting |= self.accept_again_ms.is_none(),
                token if Leavers::owns(token) => {
                    self.leavers.on_event(token, &mut self.arena, &self.shared.register);
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
        let patience = Duration::from_millis((self.wake_ms(now_ms) - now_ms).max(0).unsigned_abs());
        let busy = !self.listed.is_empty() || self.stalled.flows() || !mailbox.may_sleep();
        let result = self.poll.poll(events, Some(if busy { Duration::ZERO } else { patience }));
        mailbox.is_awake();
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    /// When there is something to do even if no event comes.
    fn wake_ms(&self, now_ms: i64) -> i64 {
        let wake_ms = self.next_idle_check_ms.min(self.accept_again_ms.unwrap_or(i64::MAX));
        if self.stalled.is_empty() && self.paused.is_empty() {
            return wake_ms;
        }
        wake_ms.min(now_ms + i64::from(self.shared.config.request_throttle.stall_time_ms.max(1)))
    }

    fn on_event(&mut self, slot: usize, event: &Event) {
        let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else { return };
        conn.on_event(event);
        self.list(slot);
    }

    pub(super) fn list(&mut self, slot: usize) {
        if let Some(conn) = self.conns[slot].as_mut().filter(|conn| !conn.listed) {
            conn.listed = true;
            self.listed.push(slot);
        }
    }

    /// Takes new connections and spreads them over the threads.
    fn accept(&mut self, now_ms: i64) {
        self.accept_again_ms = None;
        let was_crowded = std::mem::replace(&mut self.is_crowded, false);
        for _ in 0..ACCEPTED_AT_ONCE_MAX {
            let Some(listener) = &self.listener else { return };
            if self.connections_max <= self.shared.register.descriptors() {
                return self.let_wait(now_ms, was_crowded, "there are no descriptors for more");
            }
            match accept(listener, &self.shared) {
                Ok(Knock::Taken(stream, address)) => {
                    let thread = self.next_thread;
                    self.next_thread = (thread + 1) % self.shared.mailboxes.len();
                    if thread == usize::from(self.number) {
                        self.add(stream, address);
                    } else {
                        self.shared.mailboxes[thread].put(|mail| mail.accepted.push((stream, address)));
                    }
                }
                Ok(Knock::Refused(address, reason)) => {
                    self.shared.metrics.connection_rejected.add(1);
                    if let Some(unsaid) = self.refusals.may_say(now_ms) {
                        let limits = &self.shared.config.limits;
                        let max = if reason == Refused::Address { limits.max_client_cnxns } else { limits.max_cnxns };
                        tracing::warn!(unsaid, "Too many connections from /{} - max is {max}", address.ip());
                    }
                }
                Ok(Knock::Gone) => (),
                Ok(Knock::Nobody) => return,
                Err(error) => return self.let_wait(now_ms, was_crowded, &error.to_string()),
            }
        }
        self.accept_again_ms = Some(now_ms); // there may be more, and the system has said so already
    }

    /// Those who are here go on, newcomers wait until some have gone.
    fn let_wait(&mut self, now_ms: i64, was_crowded: bool, reason: &str) {
        if !was_crowded && let Some(unsaid) = self.refusals.may_say(now_ms) {
            let connections = self.shared.register.descriptors();
            tracing::error!(connections, unsaid, "cannot accept connections: {reason}; newcomers wait");
        }
        self.is_crowded = true;
        self.accept_again_ms = Some(now_ms + ACCEPT_PAUSE_MS);
    }

    pub(super) fn add(&mut self, mut stream: TcpStream, address: SocketAddr) {
        let slot = self.free.pop().unwrap_or(self.conns.len());
        let registered = slot < ConnId::SLOTS_MAX && {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, Token(slot), interest).is_ok()
        };
        if !registered {
            self.free.push(slot);
            return self.shared.register.abandon(address.ip());
        }
        self.generation += 1;
        let id = ConnId::new(self.number, slot, self.generation);
        let now = self.shared.clock.now();
        let figures = self.shared.register.add(id, address, now.wall_ms, now.mono_ms);
        let conn = Connection::new(stream, address, Conn::new(id, address.ip()), figures);
        if slot == self.conns.len() {
            self.conns.push(Some(conn));
        } else {
            self.conns[slot] = Some(conn);
        }
    }

    fn turn(&mut self, now: Now) {
        self.judge_room(now);
        self.receive(now);
        self.serve(now);
        self.submit();
        self.figures.publish(&self.shared);
        self.flush(now);
        if self.next_idle_check_ms <= now.mono_ms {
            self.check_idle(now);
        }
        self.submit();
    }

    /// Looks at what all threads together hold. Connections that had to wait for memory come first, the longest waiting
    /// one before the others.
    fn judge_room(&mut self, now: Now) {
        let totals = &self.shared.totals;
        self.room = totals.room(Load::default());
        self.read_bytes = if totals.is_receiving_full() { SMALL_BYTES } else { READ_BYTES };
        (self.pressure, self.pause_bytes) = unsent_limits(&self.shared);
        if self.next_touch_ms <= now.mono_ms && !self.stalled.is_empty() {
            self.next_touch_ms = now.mono_ms + TOUCH_WAITING_MS;
            let stalled = self.stalled.slots().filter_map(|slot| self.conns[slot].as_ref());
            // A client that has closed its side may be dead: what it sent waits, but its session may expire.
            let waits = |conn: &&Connection| conn.stalled.is_some() && !conn.read_closed;
            stalled.filter(waits).for_each(|conn| conn.core.on_refused(now));
        }
        self.retry_stalled(now);
        if self.pressure == Pressure::Low {
            for slot in std::mem::take(&mut self.paused) {
                self.list(slot);
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
        let retried = self.stalled.take((self.room, self.pressure), now.mono_ms, waits);
        let others = std::mem::take(&mut self.listed);
        for slot in &others {
            if let Some(conn) = self.conns[*slot].as_mut() {
                conn.listed = false;
            }
        }
        for Retry { slot, is_overdue } in retried {
            if let Some(conn) = self.conns[slot].as_mut() {
                (conn.was_stalled, conn.is_overdue) = (conn.stalled.take(), is_overdue);
            }
            self.list(slot);
        }
        others.into_iter().for_each(|slot| self.list(slot));
    }

    pub(super) fn submit(&mut self) {
        if !self.submission.is_empty() {
            self.shared.totals.queue(self.submission.load());
            let next = self.submission.like();
            self.shared.inbox.submit(std::mem::replace(&mut self.submission, next));
        }
    }

    /// Reads every listed connection that may take more, into one arena.
    fn receive(&mut self, now: Now) {
        let mut at = 0;
        for &slot in &self.listed {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            conn.passed_over = false;
            // A client that no longer waits for its handshake may be elsewhere: its session must not be taken from there.
            conn.ended |= conn.read_closed && conn.core.is_connecting();
            let may_read =
                conn.readable && !conn.ended && !conn.closing && conn.stalled.is_none() && !conn.waits_for_frame;
            // Whoever has a frame waiting gets no further one read: input stays below a frame and one read.
            let may_read = may_read && !conn.has_frame() && conn.unsent() <= self.pause_bytes;
            if !may_read || !conn.core.may_take(self.room) {
                continue;
            }
            let read_bytes = if conn.reserved == 0 { self.read_bytes } else { READ_BYTES };
            if self.arena.len() < at + read_bytes {
                conn.passed_over = true;
                continue;
            }
            match conn.receive(&mut self.arena[at..at + read_bytes]) {
                Received::Bytes(count) => {
                    conn.figures.last_io_ms.store(now.mono_ms, Ordering::Relaxed);
                    self.received.push((slot, at..at + count));
                    at += count;
                }
                Received::Nothing => (),
                Received::End => {
                    if !conn.asked_word {
                        self.figures.on_dropped();
                        say_end(conn, &mut self.ends, now);
                    }
                    conn.ended = true;
                    conn.readable = false;
                }
            }
        }
    }

    /// Writes what connections have to send, closes those that are done, and lists those that can go on at once.
    /// Whoever was passed over comes first.
    fn flush(&mut self, now: Now) {
        let (mut first, mut then, mut growth) = (Vec::new(), Vec::new(), Growth::default());
        for slot in std::mem::take(&mut self.listed) {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            (conn.listed, conn.was_stalled, conn.is_overdue) = (false, None, false);
            let before = conn.unsent();
            let is_dead = conn.flush(now.mono_ms, &mut self.pool).is_err();
            if conn.unsent() < before {
                conn.figures.last_io_ms.store(now.mono_ms, Ordering::Relaxed);
                if self.pause_bytes < before {
                    conn.core.on_refused(now); // its pings are not read, but it takes what it is sent
                }
            }
            conn.figures.interest.store(conn.interest(), Ordering::Relaxed);
            if conn.wants_more && conn.unsent() == 0 {
                conn.wants_more = false;
                self.words.go_on(conn.core.id());
            }
            let is_answered = conn.closing && conn.unsent() == 0;
            // One that waits for memory is not read, so the end does not show otherwise.
            if conn.is_broken && conn.stalled.is_some() {
                self.figures.on_dropped();
                say_end(conn, &mut self.ends, now);
                conn.ended = true;
            }
            if is_dead || (conn.ended && (is_answered || !conn.asked_word)) {
                self.close(slot);
                continue;
            }
            if is_answered {
                self.let_leave(slot, now);
                continue;
            }
            growth += conn.growth();
            let may_go_on = conn.core.may_take(self.room) && conn.unsent() <= UNSENT_BYTES_PAUSE && !conn.closing;
            if may_go_on && conn.stalled.is_none() && !conn.asked_word && (conn.readable || conn.has_frame()) {
                if self.pause_bytes < conn.unsent() {
                    self.paused.insert(slot);
                } else if conn.passed_over {
                    first.push(slot);
                } else {
                    then.push(slot);
                }
            }
        }
        self.shared.totals.buffer(growth);
        self.delivered_bytes = 0;
        self.stalled.end_iteration(now.mono_ms);
        first.into_iter().chain(then).for_each(|slot| self.list(slot));
    }

    /// Puts a connection aside until the server has memory for its next request. One that was tried again keeps its place.
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

    /// Says that a connection is closed, and why; not too often.
    pub(super) fn complain(&mut self, slot: usize, now: Now, reason: &str) {
        self.figures.on_dropped();
        let Some(conn) = self.conns[slot].as_ref() else { return };
        if let Some(unsaid) = self.complaints.may_say(now.mono_ms) {
            tracing::warn!(address = %conn.address, unsaid, "connection closed: {reason}");
        }
    }

    pub(super) fn close(&mut self, slot: usize) {
        drop(self.take_out(slot));
    }

    /// Closes a connection that has got its last answer, so that the client gets it too.
    fn let_leave(&mut self, slot: usize, now: Now) {
        // Who has said good-bye says nothing more.
        let is_quiet = |conn: &Connection| conn.core.last_op() == Some(OpCode::CloseSession) && !conn.readable;
        let is_quiet = self.conns[slot].as_ref().is_some_and(is_quiet);
        if let Some(mut stream) = self.take_out(slot).filter(|_| !is_quiet) {
            let _ = self.poll.registry().deregister(&mut stream);
            self.leavers.add(stream, now.mono_ms, self.poll.registry(), &self.shared.register);
        }
    }

    /// Forgets a connection, except for its socket. Closing that takes it out of the poll too.
    fn take_out(&mut self, slot: usize) -> Option<TcpStream> {
        let mut conn = self.conns[slot].take()?;
        let id = conn.core.id();
        self.figures.on_close(&conn);
        self.paused.remove(&slot);
        if let Some(stall) = conn.stalled {
            self.stalled.remove(stall.shortage, slot);
        }
        if conn.asked_word {
            self.words.give_up(id);
        }
        self.shared.register.remove(id, conn.address.ip());
        (conn.input, conn.reserved) = (Vec::new(), 0);
        conn.drop_output();
        if conn.waits_for_frame {
            self.shared.totals.wait_for_frame(false);
        }
        self.shared.totals.buffer(conn.growth());
        self.shared.totals.free_large_room(conn.large.iter().map(|(_, bytes)| bytes).sum());
        if !conn.core.is_new() {
            self.submission.push(id, ClientInput::Gone, &[]); // the replica has heard of it
        }
        self.free.push(slot);
        Some(conn.stream)
    }
}

/// Says that a client has closed its connection, though not its session.
fn say_end(conn: &Connection, lines: &mut Seldom, now: Now) {
    if let Some(session) = conn.core.session()
        && let Some(unsaid) = lines.may_say(now.mono_ms)
    {
        let address = java_text::address(conn.address);
        tracing::info!(
            unsaid,
            "Unable to read additional data from client, it probably closed the socket: address = {address}, session \
             = {session}"
        );
    }
}

#[cfg(test)]
mod tests;
