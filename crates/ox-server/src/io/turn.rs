//! The loop of an I/O thread.

use super::accept::accept;
use super::connection::{Connection, Received};
use super::figures::TurnFigures;
use super::pool::Pool;
use crate::limits::{
    ACCEPTED_AT_ONCE_MAX, ANSWERED_AT_ONCE_BYTES, ARENA_BYTES, READ_BYTES, SERVED_AT_ONCE_MAX, UNSENT_BYTES_MAX,
    UNSENT_BYTES_PAUSE,
};
use crate::mailbox::{Mail, Text};
use crate::shared::Shared;
use crate::words::{self, Heard, WordQueue};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use ox_proto::acl::perms;
use ox_proto::frame::split_frame;
use ox_replica::{Ask, Conn, ConnSettings, Now, Service, Submission, Verdict};
use ox_tree::outbox::{Note, Outbox};
use ox_tree::{ConnId, State};
use parking_lot::RwLockReadGuard;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Token of the waker of every thread.
pub(crate) const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

/// How often idle connections are looked for.
const IDLE_CHECK_MS: i64 = 1000;

/// One I/O thread.
pub(crate) struct IoThread {
    number: u8,
    poll: Poll,
    listener: Option<TcpListener>,
    shared: Arc<Shared>,
    words: WordQueue,
    settings: ConnSettings,
    frame_bytes_max: usize,
    conns: Vec<Option<Connection>>,
    free: Vec<usize>,
    generation: u64,
    /// Connections that have something to do this turn.
    listed: Vec<usize>,
    arena: Vec<u8>,
    received: Vec<(usize, Range<usize>)>,
    submission: Submission,
    pool: Pool,
    figures: TurnFigures,
    next_thread: usize,
    next_idle_check_ms: i64,
}

/// How much may still be served before the state is let go.
struct Budget {
    requests: usize,
    bytes: usize,
}

impl Budget {
    fn new() -> Self {
        Self { requests: SERVED_AT_ONCE_MAX, bytes: ANSWERED_AT_ONCE_BYTES }
    }

    fn is_spent(&self) -> bool {
        self.requests == 0 || self.bytes == 0
    }
}

/// What became of the frames of a connection.
enum Served {
    /// All that may be served now.
    Done,
    /// The budget is spent; there is more.
    More,
}

impl IoThread {
    pub(crate) fn new(number: u8, poll: Poll, shared: Arc<Shared>, words: WordQueue) -> Self {
        let config = &shared.config;
        Self {
            number,
            poll,
            listener: None,
            words,
            settings: ConnSettings {
                min_timeout_ms: config.min_session_timeout_ms,
                max_timeout_ms: config.max_session_timeout_ms,
            },
            frame_bytes_max: config.limits.jute_max_buffer_bytes as usize,
            conns: Vec::new(),
            free: Vec::new(),
            generation: 0,
            listed: Vec::new(),
            arena: vec![0; ARENA_BYTES],
            received: Vec::new(),
            submission: Submission::default(),
            pool: Pool::default(),
            figures: TurnFigures::default(),
            next_thread: 0,
            next_idle_check_ms: IDLE_CHECK_MS,
            shared,
        }
    }

    /// Makes this the thread that accepts connections for all.
    pub(crate) fn listen(&mut self, mut listener: TcpListener) -> io::Result<()> {
        self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Runs until the server stops.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.shared.is_stopping() {
            self.wait(&mut events)?;
            let mut accepting = false;
            for event in &events {
                match event.token() {
                    WAKER => (),
                    LISTENER => accepting = true,
                    Token(slot) => self.on_event(slot, event),
                }
            }
            if accepting {
                self.accept();
            }
            self.turn();
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let mailbox = &self.shared.mailboxes[usize::from(self.number)];
        let rest = (self.next_idle_check_ms - self.shared.clock.mono_ms()).max(0);
        let patience = Duration::from_millis(rest.unsigned_abs());
        let busy = !self.listed.is_empty() || !mailbox.may_sleep();
        let result = self.poll.poll(events, Some(if busy { Duration::ZERO } else { patience }));
        mailbox.is_awake();
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    fn on_event(&mut self, slot: usize, event: &Event) {
        let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else { return };
        conn.read_closed |= event.is_read_closed() || event.is_error();
        conn.readable |= event.is_readable() || conn.read_closed;
        if event.is_writable() {
            conn.now_writable();
        }
        self.list(slot);
    }

    fn list(&mut self, slot: usize) {
        if let Some(conn) = self.conns[slot].as_mut().filter(|conn| !conn.listed) {
            conn.listed = true;
            self.listed.push(slot);
        }
    }

    /// Takes new connections and spreads them over the threads.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE_MAX {
            let Some(listener) = &self.listener else { return };
            match accept(listener, &self.shared) {
                Ok(Some((stream, address))) => {
                    let thread = self.next_thread;
                    self.next_thread = (thread + 1) % self.shared.mailboxes.len();
                    if thread == usize::from(self.number) {
                        self.add(stream, address);
                    } else {
                        self.shared.mailboxes[thread].put(|mail| mail.accepted.push((stream, address)));
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // Out of descriptors, most likely: try again when others have gone.
                    tracing::warn!(%error, "cannot accept a connection");
                    self.rearm_listener();
                    return;
                }
            }
        }
        self.rearm_listener();
    }

    /// Asks to be told again of connections that are still waiting.
    fn rearm_listener(&mut self) {
        if let Some(listener) = &mut self.listener
            && let Err(error) = self.poll.registry().reregister(listener, LISTENER, Interest::READABLE)
        {
            tracing::error!(%error, "cannot listen any more");
        }
    }

    fn add(&mut self, mut stream: TcpStream, address: SocketAddr) {
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

    fn turn(&mut self) {
        let now = self.shared.clock.now();
        self.receive(now);
        self.serve(now);
        self.submit();
        self.figures.publish(&self.shared);
        self.flush(now);
        if self.next_idle_check_ms <= now.mono_ms {
            self.next_idle_check_ms = now.mono_ms + IDLE_CHECK_MS;
            self.close_idle(now);
        }
        self.submit();
    }

    fn submit(&mut self) {
        if !self.submission.is_empty() {
            self.shared.inbox.submit(std::mem::take(&mut self.submission));
        }
    }

    /// Reads every listed connection that may take more, into one arena.
    fn receive(&mut self, now: Now) {
        let mut at = 0;
        let held_back = self.shared.inbox.is_full();
        for &slot in &self.listed {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            let may_read = conn.readable && !conn.ended && !conn.closing && conn.core.may_take() && !held_back;
            if !may_read || UNSENT_BYTES_PAUSE < conn.unsent() || self.arena.len() < at + READ_BYTES {
                continue;
            }
            match conn.receive(&mut self.arena[at..at + READ_BYTES]) {
                Received::Bytes(count) => {
                    conn.figures.last_io_ms.store(now.mono_ms, Ordering::Relaxed);
                    self.received.push((slot, at..at + count));
                    at += count;
                }
                Received::Nothing => (),
                Received::End => {
                    if !conn.asked_word {
                        self.figures.on_dropped();
                    }
                    conn.ended = true;
                    conn.readable = false;
                }
            }
        }
    }

    /// Serves all frames that have come in, and those that had to wait.
    fn serve(&mut self, now: Now) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.read();
        self.figures.on_state(shared.clock.mono_ms(), state.last_zxid());
        self.deliver();
        let mut budget = Budget::new();
        for (slot, range) in std::mem::take(&mut self.received) {
            // The arena is lent out so that a connection and its bytes can be used side by side.
            let arena = std::mem::take(&mut self.arena);
            let mut rest = &arena[range];
            let Some(conn) = self.conns[slot].as_mut() else {
                self.arena = arena;
                continue;
            };
            if !conn.input.is_empty() {
                conn.input.extend_from_slice(rest);
                rest = &[];
            }
            while !rest.is_empty() {
                match self.serve_frames(slot, now, &state, &mut rest, &mut budget) {
                    Served::Done => break,
                    Served::More => self.renew(&mut state, &mut budget),
                }
            }
            if let Some(conn) = self.conns[slot].as_mut().filter(|_| !rest.is_empty()) {
                self.pool.lend(&mut conn.input);
                conn.input.extend_from_slice(rest);
            }
            self.arena = arena;
        }
        self.serve_waiting(now, &mut state, &mut budget);
    }

    /// Serves what connections have kept: frames that were incomplete, or that had to wait.
    fn serve_waiting(&mut self, now: Now, state: &mut RwLockReadGuard<'_, State>, budget: &mut Budget) {
        let mut at = 0;
        while at < self.listed.len() {
            let slot = self.listed[at];
            at += 1;
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            if conn.input.is_empty() {
                continue;
            }
            let input = std::mem::take(&mut conn.input);
            let mut rest = &input[..];
            while let Served::More = self.serve_frames(slot, now, state, &mut rest, budget) {
                self.renew(state, budget);
            }
            let served = input.len() - rest.len();
            if let Some(conn) = self.conns[slot].as_mut() {
                conn.input = input;
                conn.input.drain(..served);
                self.pool.take_back(&mut conn.input);
            }
        }
    }

    /// Lets writers have the state for a moment, then goes on.
    fn renew(&mut self, state: &mut RwLockReadGuard<'_, State>, budget: &mut Budget) {
        RwLockReadGuard::bump(state);
        self.figures.on_state(self.shared.clock.mono_ms(), state.last_zxid());
        self.deliver();
        *budget = Budget::new();
    }

    /// Serves the frames at the start of `rest` and moves it on.
    fn serve_frames(&mut self, slot: usize, now: Now, state: &State, rest: &mut &[u8], budget: &mut Budget) -> Served {
        let Some(conn) = self.conns[slot].as_mut() else {
            *rest = &[];
            return Served::Done;
        };
        self.pool.lend(&mut conn.output);
        let served = loop {
            if conn.closing || conn.asked_word {
                *rest = &[];
                break Served::Done;
            }
            if budget.is_spent() {
                break Served::More;
            }
            if !conn.core.may_take() || UNSENT_BYTES_PAUSE < conn.unsent() {
                break Served::Done;
            }
            if conn.core.is_new() {
                match words::hear(rest, &self.shared.config.four_letter_words) {
                    Heard::Nothing => (),
                    Heard::TooLittle => break Served::Done,
                    Heard::Word(word) => {
                        conn.asked_word = true;
                        conn.closing = !self.words.ask(&self.shared, conn.core.id(), &conn.figures, word);
                        continue;
                    }
                }
            }
            match split_frame(rest, self.frame_bytes_max) {
                Ok(Some((payload, behind))) => {
                    let before = conn.output.len();
                    let in_flight = conn.core.in_flight();
                    let mut service = Service {
                        now,
                        state,
                        settings: self.settings,
                        out: &mut conn.output,
                        submission: &mut self.submission,
                    };
                    let verdict = conn.core.on_frame(payload, &mut service);
                    *rest = behind;
                    self.figures.on_frame(conn, payload, before, in_flight, now);
                    budget.requests -= 1;
                    budget.bytes = budget.bytes.saturating_sub(conn.output.len() - before);
                    if verdict == Verdict::Close {
                        conn.closing = true;
                        conn.output.truncate(before);
                    }
                }
                Ok(None) => break Served::Done,
                Err(error) => {
                    tracing::warn!(address = %conn.address, %error, "connection closed");
                    conn.closing = true;
                }
            }
        };
        self.figures.on_served(conn, now);
        served
    }

    /// Moves everything the replica has sent into the connections' buffers.
    fn deliver(&mut self) {
        let Some(mail) = self.shared.mailboxes[usize::from(self.number)].take() else { return };
        let Mail { outboxes, accepted, texts } = mail;
        for (stream, address) in accepted {
            self.add(stream, address);
        }
        for outbox in &outboxes {
            self.deliver_outbox(outbox);
        }
        for Text { conn: id, text, is_last } in texts {
            let Some(conn) = self.conns.get_mut(id.slot()).and_then(Option::as_mut) else { continue };
            if conn.core.id() == id && !conn.closing {
                conn.output.extend_from_slice(text.as_bytes());
                (conn.closing, conn.wants_more) = (is_last, !is_last);
                self.figures.on_text(conn, &text);
                self.list(id.slot());
            }
        }
    }

    fn deliver_outbox(&mut self, outbox: &Outbox) {
        let now_ms = self.shared.clock.mono_ms();
        for part in &outbox.parts {
            let slot = part.conn.slot();
            let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) else { continue };
            if conn.core.id() != part.conn || conn.closing {
                continue;
            }
            let bytes = &outbox.bytes[part.span.clone()];
            match &part.note {
                Note::Event(Some(readers)) if !conn.core.ids().may(readers, perms::READ) => continue,
                Note::Event(_) => self.figures.on_event(conn, bytes),
                Note::Answers(count) => {
                    conn.core.on_answers(*count);
                    self.figures.on_answers(conn, bytes, *count, now_ms);
                }
                Note::Attached(session, timeout_ms) => {
                    conn.core.on_attached(*session, *timeout_ms);
                    self.figures.on_attached(conn, *session, *timeout_ms, now_ms);
                }
                Note::Close => {
                    self.figures.on_last(conn, bytes, now_ms);
                    conn.core.start_closing();
                    conn.closing = true;
                }
            }
            self.pool.lend(&mut conn.output);
            conn.output.extend_from_slice(bytes);
            if UNSENT_BYTES_MAX < conn.unsent() {
                tracing::warn!(address = %conn.address, "connection closed: it does not read what it is sent");
                conn.output.clear();
                conn.closing = true;
            }
            if !conn.listed {
                conn.listed = true;
                self.listed.push(slot);
            }
        }
    }

    /// Writes what connections have to send, and closes those that are done.
    fn flush(&mut self, now: Now) {
        let mut again = Vec::new();
        for slot in std::mem::take(&mut self.listed) {
            let Some(conn) = self.conns[slot].as_mut() else { continue };
            conn.listed = false;
            let before = conn.unsent();
            let dead = conn.flush(&mut self.pool).is_err();
            if conn.unsent() < before {
                conn.figures.last_io_ms.store(now.mono_ms, Ordering::Relaxed);
            }
            conn.figures.interest.store(conn.interest(), Ordering::Relaxed);
            let answered = conn.closing && conn.unsent() == 0;
            if dead || answered || (conn.ended && !conn.asked_word) {
                self.close(slot);
                continue;
            }
            if conn.wants_more && conn.unsent() == 0 {
                conn.wants_more = false;
                self.words.go_on(conn.core.id());
            }
            let may_go_on = conn.core.may_take() && conn.unsent() <= UNSENT_BYTES_PAUSE && !conn.asked_word;
            let has_frame = || !conn.input.is_empty() && !matches!(split_frame(&conn.input, usize::MAX), Ok(None));
            if may_go_on && (conn.readable || has_frame()) {
                again.push(slot);
            }
        }
        for slot in again {
            self.list(slot);
        }
    }

    fn close(&mut self, slot: usize) {
        let Some(mut conn) = self.conns[slot].take() else { return };
        let _ = self.poll.registry().deregister(&mut conn.stream);
        let id = conn.core.id();
        self.figures.on_close(&conn);
        if conn.asked_word {
            self.words.give_up(id);
        }
        self.shared.register.remove(id, conn.address.ip());
        self.submission.push(id, Ask::Gone, &[]);
        self.free.push(slot);
    }

    /// Closes connections that have been silent for too long.
    fn close_idle(&mut self, now: Now) {
        let step = i64::from(self.shared.config.sessionless_timeout_ms.max(1));
        for slot in 0..self.conns.len() {
            let Some(conn) = self.conns[slot].as_ref() else { continue };
            if conn.figures.closes_at_ms(step) <= now.mono_ms {
                tracing::debug!(address = %conn.address, "connection closed: silent for too long");
                self.figures.on_idle();
                self.close(slot);
            }
        }
    }
}
