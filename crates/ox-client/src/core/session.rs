//! One session over many connections: what is sent when, and what an answer belongs to.
//!
//! The driver brings connections ([`Session::on_open`]), bytes ([`Session::on_input`]), time ([`Session::on_time`]) and
//! losses ([`Session::on_lost`]); callers bring requests ([`Session::submit`]). What must be written stands in
//! [`Session::out`]. Requests are answered strictly in the order they were sent; anything else is a lost connection.

mod input;
#[cfg(test)]
mod tests;

use super::watches::{Class, WatchId, Watches};
use super::{Effect, Phase};
use crate::event::{Event, EventKind};
use crate::limits::{
    CLOSE_MS_MAX, PING_MS_MAX, REQUESTS_MAX, ROUND_PAUSE_MS, SHORT_LIFE_MS, SHORT_LIFE_PAUSE_MS, UNSENT_BYTES_MAX,
};
use crate::server_list::{Server, Servers};
use bytes::Bytes;
use ox_proto::connect::ConnectRequest;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::Jute;
use ox_proto::limits::PASSWORD_BYTES;
use ox_proto::request::{AuthPacket, PathKind, RequestHeader, put_bare_request, put_request, xid};
use ox_proto::{OpCode, SessionId, Zxid};
use std::collections::VecDeque;

/// Whoever waits for an answer.
pub(crate) trait Waiter {
    /// Nobody waits any more.
    fn is_gone(&self) -> bool;
}

/// An answer as the server gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) zxid: Zxid,
    pub(crate) err: i32,
    pub(crate) body: Bytes,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Expired,
    AuthFailed,
    Closed,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `None` when the connection was lost.
    pub(crate) ending: Option<Ending>,
    /// The server may have got the request.
    pub(crate) sent: bool,
}

/// Why a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Lost {
    #[error("the server does not answer the handshake")]
    Handshake,
    #[error("the server is silent")]
    Silence,
    #[error("the server sends what cannot be understood")]
    Garbage,
    #[error("an answer is out of order")]
    OutOfOrder,
    #[error("another server is wanted")]
    Moving,
    #[error("the session is over")]
    Over,
}

/// Why a request is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too much is under way.
    Full,
    /// There is no connection, and the request does not wait for one.
    Away,
    /// The request is larger than a server takes.
    TooLarge,
    Over(Ending),
}

/// What [`Session::submit`] says to a request; one that is not taken comes back.
pub(crate) type Taken<W, S> = Result<Submitted, (Refused, Ask<W, S>)>;

/// A request for [`Session::submit`].
#[derive(Debug)]
pub(crate) struct Ask<W, S> {
    pub(crate) op: OpCode,
    pub(crate) waiter: W,
    /// Whether it may wait for a connection.
    pub(crate) waits: bool,
    pub(crate) watch: Option<WatchAsk<S>>,
}

/// The watch that a request leaves when it succeeds.
#[derive(Debug)]
pub(crate) struct WatchAsk<S> {
    pub(crate) id: WatchId,
    pub(crate) class: Class,
    pub(crate) path: Box<str>,
    pub(crate) sink: S,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submitted {
    Sent,
    /// Not sent yet; the number takes it back.
    Queued(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// What is asked for.
    pub(crate) timeout_ms: i32,
    pub(crate) read_only: bool,
    /// The largest request frame.
    pub(crate) frame_bytes_max: usize,
    pub(crate) requests_max: usize,
    /// A session to go on with.
    pub(crate) resume: Option<Identity>,
}

impl Settings {
    pub(crate) fn new(timeout_ms: i32) -> Self {
        let frame_bytes_max = ox_proto::limits::FRAME_BYTES_MAX_DEFAULT;
        Self { timeout_ms, read_only: false, frame_bytes_max, requests_max: REQUESTS_MAX, resume: None }
    }
}

/// What proves a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: SessionId,
    pub(crate) password: [u8; PASSWORD_BYTES],
    pub(crate) timeout_ms: i32,
    pub(crate) last_zxid: Zxid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Away,
    Greeting { since_ms: i64 },
    Open { read_only: bool },
    Over(Ending),
}

/// What an answer is for.
#[derive(Debug)]
enum What<W, S> {
    Request {
        waiter: W,
        watch: Option<Box<WatchAsk<S>>>,
        op: OpCode,
    },
    /// Watches are left again.
    Rearm,
    /// A watch of the server is of no use any more.
    Forget,
    Close,
}

#[derive(Debug)]
struct Pending<W, S> {
    xid: i32,
    sent_ms: i64,
    what: What<W, S>,
}

/// A request that waits for a connection.
#[derive(Debug)]
struct Queued<W, S> {
    number: u64,
    /// The whole frame, with 0 for an xid.
    frame: Vec<u8>,
    waits: bool,
    what: What<W, S>,
}

/// Proof of who the client is, sent on every connection.
#[derive(Debug)]
struct Credential<W> {
    scheme: Box<str>,
    auth: Option<Vec<u8>>,
    waiters: Vec<W>,
}

#[derive(Debug)]
pub(crate) struct Session<W, S> {
    settings: Settings,
    servers: Servers,
    link: Link,
    id: SessionId,
    password: [u8; PASSWORD_BYTES],
    timeout_ms: i32,
    /// A server that takes writes knows the session.
    is_known: bool,
    last_zxid: Zxid,
    /// Up to here nothing was missed while watches were not armed.
    watched_zxid: Option<Zxid>,
    xid: i32,
    /// Bytes for the socket.
    pub(crate) out: Vec<u8>,
    queued: VecDeque<Queued<W, S>>,
    queued_bytes: usize,
    queued_count: u64,
    pending: VecDeque<Pending<W, S>>,
    rearming: usize,
    watches: Watches<S>,
    credentials: Vec<Credential<W>>,
    /// Credentials sent and not answered, by place.
    proving: VecDeque<usize>,
    pings: VecDeque<i64>,
    last_sent_ms: i64,
    last_heard_ms: i64,
    /// When the newest request was sent that is known to have reached the server.
    proven_ms: i64,
    /// Bytes of a frame that has not come as a whole yet.
    unread: usize,
    /// Attempts without a session since the last one.
    attempts: usize,
    opened_ms: i64,
    /// A request was answered on this connection.
    has_served: bool,
    /// Connections in a row that were lost at once, and of no use.
    short_lives: usize,
    wants_to_move: bool,
    /// Whether somebody listens to all notifications.
    pub(crate) is_heard: bool,
    closing: Option<Vec<W>>,
    /// When the session is left to expire by itself.
    close_by_ms: Option<i64>,
}

impl<W: Waiter, S: Clone> Session<W, S> {
    pub(crate) fn new(settings: Settings, servers: Servers) -> Self {
        let resume = settings.resume;
        Self {
            servers,
            link: Link::Away,
            id: resume.map_or(SessionId::NONE, |resume| resume.id),
            password: resume.map_or([0; PASSWORD_BYTES], |resume| resume.password),
            timeout_ms: resume.map_or(settings.timeout_ms, |resume| resume.timeout_ms),
            is_known: resume.is_some(),
            last_zxid: resume.map_or(Zxid::ZERO, |resume| resume.last_zxid),
            watched_zxid: None,
            xid: 0,
            out: Vec::new(),
            queued: VecDeque::new(),
            queued_bytes: 0,
            queued_count: 0,
            pending: VecDeque::new(),
            rearming: 0,
            watches: Watches::new(),
            credentials: Vec::new(),
            proving: VecDeque::new(),
            pings: VecDeque::new(),
            last_sent_ms: 0,
            last_heard_ms: 0,
            proven_ms: 0,
            unread: 0,
            attempts: 0,
            opened_ms: 0,
            has_served: false,
            short_lives: 0,
            wants_to_move: false,
            is_heard: false,
            closing: None,
            close_by_ms: None,
            settings,
        }
    }

    /// The session as it is now; its id is [`SessionId::NONE`] before the first connection.
    pub(crate) fn identity(&self) -> Identity {
        Identity { id: self.id, password: self.password, timeout_ms: self.timeout_ms, last_zxid: self.last_zxid }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.link, Link::Over(_))
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.link == Link::Open { read_only: true }
    }

    /// After this moment the session must be assumed lost, unless something more is heard.
    pub(crate) fn lost_after_ms(&self) -> i64 {
        self.proven_ms + i64::from(self.timeout_ms)
    }

    /// How long one attempt at a connection may take.
    pub(crate) fn attempt_ms(&self) -> i64 {
        (i64::from(self.timeout_ms) / self.servers.len() as i64).max(1)
    }

    /// Whether every server was tried since there was a session, the last one just now.
    pub(crate) fn has_tried_all(&self) -> bool {
        0 < self.attempts && self.attempts.is_multiple_of(self.servers.len())
    }

    /// The server to try next, and how long to wait before.
    pub(crate) fn next_server(&mut self) -> (Server, u64) {
        let round = self.servers.len();
        let (rounds, pauses) = match self.attempts {
            0 => (self.short_lives / round, SHORT_LIFE_PAUSE_MS),
            attempts if attempts.is_multiple_of(round) => (attempts / round, ROUND_PAUSE_MS),
            _ => (0, ROUND_PAUSE_MS),
        };
        let pause = match rounds {
            0 => 0,
            _ => self.servers.jitter((pauses.start() << (rounds - 1).min(16)).min(*pauses.end())),
        };
        self.attempts += 1;
        (self.servers.next(), pause)
    }

    /// When [`Session::on_time`] has something to do.
    pub(crate) fn deadline(&self) -> Option<i64> {
        let deadline = match self.link {
            Link::Away | Link::Over(_) => None,
            Link::Greeting { since_ms } => Some(since_ms + self.attempt_ms()),
            Link::Open { .. } => Some(self.ping_at_ms().min(self.silent_at_ms())),
        };
        deadline.into_iter().chain(self.close_by_ms).min()
    }

    fn ping_at_ms(&self) -> i64 {
        self.last_sent_ms + (i64::from(self.timeout_ms) / 3).clamp(1, PING_MS_MAX)
    }

    fn silent_at_ms(&self) -> i64 {
        self.last_heard_ms + (i64::from(self.timeout_ms) * 2 / 3).max(2)
    }

    /// Time has passed. An error means that the connection is to be given up.
    pub(crate) fn on_time(&mut self, now_ms: i64, effects: &mut Vec<Effect<W, S>>) -> Result<(), Lost> {
        if self.close_by_ms.is_some_and(|close_by_ms| close_by_ms <= now_ms) {
            self.abandon(effects);
        }
        if self.wants_to_move {
            return Err(Lost::Moving);
        }
        match self.link {
            Link::Over(_) => return Err(Lost::Over),
            Link::Greeting { since_ms } if since_ms + self.attempt_ms() <= now_ms => return Err(Lost::Handshake),
            Link::Open { .. } => {
                if self.silent_at_ms() <= now_ms {
                    return Err(Lost::Silence);
                }
                if self.ping_at_ms() <= now_ms {
                    put_bare_request(&mut self.out, xid::PING, OpCode::Ping.code());
                    self.pings.push_back(now_ms);
                    self.last_sent_ms = now_ms;
                }
            }
            Link::Away | Link::Greeting { .. } => (),
        }
        Ok(())
    }

    /// There is a connection: the handshake goes first.
    pub(crate) fn on_open(&mut self, now_ms: i64) {
        self.link = Link::Greeting { since_ms: now_ms };
        self.last_heard_ms = now_ms;
        self.unread = 0;
        let (session, password) = if self.is_known { (self.id, self.password) } else { Default::default() };
        let hello = ConnectRequest {
            last_zxid_seen: self.last_zxid,
            timeout_ms: self.settings.timeout_ms,
            session,
            password: Some(&password),
            read_only: Some(self.settings.read_only),
        };
        self.out.clear();
        hello.put_frame(&mut self.out);
    }

    /// The connection is gone. What was sent fails, what was not waits, if it may.
    pub(crate) fn on_lost(&mut self, now_ms: i64, effects: &mut Vec<Effect<W, S>>) {
        let was_open = matches!(self.link, Link::Open { .. });
        if self.is_over() {
            return;
        }
        self.link = Link::Away;
        self.wants_to_move = false;
        self.out.clear();
        self.proving.clear();
        self.pings.clear();
        if was_open {
            let is_short = !self.has_served && now_ms < self.opened_ms + SHORT_LIFE_MS;
            self.short_lives = if is_short { self.short_lives + 1 } else { 0 };
            self.watched_zxid.get_or_insert(self.last_zxid);
            self.rearming = 0;
            effects.push(Effect::State(Phase::Suspended { lost_after_ms: self.lost_after_ms() }));
        }
        for pending in std::mem::take(&mut self.pending) {
            self.fail(pending.what, Failure { ending: None, sent: true }, effects);
        }
        let queued = std::mem::take(&mut self.queued);
        for queued in queued {
            if queued.waits {
                self.queued.push_back(queued);
            } else {
                self.queued_bytes -= queued.frame.len();
                self.fail(queued.what, Failure { ending: None, sent: false }, effects);
            }
        }
    }

    /// Sends a request, or keeps it for the next connection. `encode` writes the body.
    pub(crate) fn submit(&mut self, now_ms: i64, ask: Ask<W, S>, encode: &dyn Fn(&mut Vec<u8>)) -> Taken<W, S> {
        let open = match self.link {
            Link::Over(ending) => return Err((Refused::Over(ending), ask)),
            _ if self.closing.is_some() => return Err((Refused::Over(Ending::Closed), ask)),
            Link::Open { .. } => true,
            Link::Away | Link::Greeting { .. } if !ask.waits => return Err((Refused::Away, ask)),
            Link::Away | Link::Greeting { .. } => false,
        };
        if !self.has_room() {
            return Err((Refused::Full, ask));
        }
        if !open {
            return self.queue(ask, encode);
        }
        let start = self.out.len();
        let xid = self.next_xid();
        let mark = begin_frame(&mut self.out);
        RequestHeader { xid, op: ask.op.code() }.put(&mut self.out);
        encode(&mut self.out);
        if self.settings.frame_bytes_max < self.out.len() - mark {
            self.out.truncate(start);
            return Err((Refused::TooLarge, ask));
        }
        end_frame(&mut self.out, mark);
        self.last_sent_ms = now_ms;
        let what = self.what(ask);
        self.pending.push_back(Pending { xid, sent_ms: now_ms, what });
        Ok(Submitted::Sent)
    }

    fn queue(&mut self, ask: Ask<W, S>, encode: &dyn Fn(&mut Vec<u8>)) -> Taken<W, S> {
        let mut frame = Vec::new();
        let mark = begin_frame(&mut frame);
        RequestHeader { xid: 0, op: ask.op.code() }.put(&mut frame);
        encode(&mut frame);
        if self.settings.frame_bytes_max < frame.len() - mark {
            return Err((Refused::TooLarge, ask));
        }
        end_frame(&mut frame, mark);
        self.queued_count += 1;
        self.queued_bytes += frame.len();
        let (waits, what) = (ask.waits, self.what(ask));
        self.queued.push_back(Queued { number: self.queued_count, frame, waits, what });
        Ok(Submitted::Queued(self.queued_count))
    }

    fn what(&mut self, ask: Ask<W, S>) -> What<W, S> {
        if let Some(watch) = &ask.watch {
            self.watches.arm(watch.class, &watch.path);
        }
        What::Request { waiter: ask.waiter, watch: ask.watch.map(Box::new), op: ask.op }
    }

    /// Whether one more request is taken.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() + self.queued.len() < self.settings.requests_max
            && self.out.len() + self.queued_bytes < UNSENT_BYTES_MAX
    }

    /// Takes a request back. False when it was sent meanwhile.
    pub(crate) fn withdraw(&mut self, number: u64) -> bool {
        let Ok(at) = self.queued.binary_search_by_key(&number, |queued| queued.number) else { return false };
        let Some(queued) = self.queued.remove(at) else { return false };
        self.queued_bytes -= queued.frame.len();
        if let What::Request { watch: Some(watch), .. } = queued.what {
            self.watches.armed(watch.class, &watch.path);
        }
        true
    }

    /// Proves who the client is, now and on every later connection.
    pub(crate) fn add_auth(
        &mut self,
        now_ms: i64,
        scheme: &str,
        auth: Option<&[u8]>,
        waiter: Option<W>,
    ) -> Result<(), Ending> {
        if let Link::Over(ending) = self.link {
            return Err(ending);
        }
        let known = |held: &Credential<W>| &*held.scheme == scheme && held.auth.as_deref() == auth;
        let place = match self.credentials.iter().position(known) {
            Some(place) => place,
            None => {
                let (scheme, auth) = (scheme.into(), auth.map(<[u8]>::to_vec));
                self.credentials.push(Credential { scheme, auth, waiters: Vec::new() });
                self.credentials.len() - 1
            }
        };
        self.credentials[place].waiters.extend(waiter);
        if matches!(self.link, Link::Open { .. }) {
            self.prove(now_ms, place);
        }
        Ok(())
    }

    fn prove(&mut self, now_ms: i64, place: usize) {
        let Credential { scheme, auth, .. } = &self.credentials[place];
        let packet = AuthPacket { kind: 0, scheme: Some((&**scheme).into()), auth: auth.as_deref() };
        put_request(&mut self.out, xid::AUTH, OpCode::Auth.code(), &packet);
        self.proving.push_back(place);
        self.last_sent_ms = now_ms;
    }

    /// A watcher is gone. The server is told when nobody else uses the watch.
    pub(crate) fn forget(&mut self, now_ms: i64, class: Class, path: &str, id: WatchId) {
        if self.watches.remove(class, path, id) {
            self.disarm(now_ms, class, path);
        }
    }

    fn disarm(&mut self, now_ms: i64, class: Class, path: &str) {
        if !matches!(self.link, Link::Open { .. }) || self.closing.is_some() {
            return; // a new connection has no watches but those that are left again
        }
        let xid = self.next_xid();
        let body = PathKind { path: Some(path.into()), kind: class.code() };
        put_request(&mut self.out, xid, OpCode::RemoveWatches.code(), &body);
        self.last_sent_ms = now_ms;
        self.pending.push_back(Pending { xid, sent_ms: now_ms, what: What::Forget });
    }

    /// Ends all local watchers of a path, because the server has removed its watch.
    pub(crate) fn end_watches(&mut self, classes: &[Class], path: &str, effects: &mut Vec<Effect<W, S>>) {
        for class in classes {
            for sink in self.watches.take(*class, path) {
                effects.push(Effect::End(sink, Event::bare(EventKind::WatchRemoved)));
            }
        }
    }

    /// Ends the session behind everything that was asked before.
    pub(crate) fn close(&mut self, now_ms: i64, waiter: Option<W>, effects: &mut Vec<Effect<W, S>>) {
        if let Link::Over(_) = self.link {
            let done = Reply { zxid: self.last_zxid, err: 0, body: Bytes::new() };
            effects.extend(waiter.map(|waiter| Effect::Done(waiter, Ok(done))));
            return;
        }
        let is_first = self.closing.is_none();
        self.close_by_ms.get_or_insert(now_ms + i64::from(self.timeout_ms).min(CLOSE_MS_MAX));
        self.closing.get_or_insert_default().extend(waiter);
        if !self.is_known && !matches!(self.link, Link::Open { .. }) {
            return self.end(Ending::Closed, effects); // there is no session to close
        }
        if is_first && matches!(self.link, Link::Open { .. }) {
            self.send_close(now_ms);
        }
    }

    fn send_close(&mut self, now_ms: i64) {
        let xid = self.next_xid();
        put_bare_request(&mut self.out, xid, OpCode::CloseSession.code());
        self.last_sent_ms = now_ms;
        self.pending.push_back(Pending { xid, sent_ms: now_ms, what: What::Close });
    }

    /// Stops without closing the session, which goes on at the server until it expires or is resumed.
    pub(crate) fn abandon(&mut self, effects: &mut Vec<Effect<W, S>>) {
        let waiters = self.closing.take().unwrap_or_default();
        let failure = Failure { ending: None, sent: true };
        effects.extend(waiters.into_iter().map(|waiter| Effect::Done(waiter, Err(failure))));
        self.end(Ending::Closed, effects);
    }

    /// Another list of servers. The connection is given up when the new list asks for it.
    pub(crate) fn update_servers(&mut self, servers: Vec<Server>) {
        let is_connected = !matches!(self.link, Link::Away);
        self.wants_to_move |= self.servers.update(servers, is_connected);
        self.attempts = 0;
    }

    /// A server that takes writes was found while the connection does not.
    pub(crate) fn move_to(&mut self, server: &Server) {
        if self.is_read_only() {
            self.servers.prefer(server);
            self.wants_to_move = true;
        }
    }

    /// Servers that may take writes, while the connection does not.
    pub(crate) fn other_servers(&self) -> Vec<Server> {
        self.servers.others()
    }

    fn next_xid(&mut self) -> i32 {
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        self.xid
    }

    fn fail(&mut self, what: What<W, S>, failure: Failure, effects: &mut Vec<Effect<W, S>>) {
        if let What::Request { waiter, watch, .. } = what {
            if let Some(watch) = watch {
                self.watches.armed(watch.class, &watch.path);
            }
            effects.push(Effect::Done(waiter, Err(failure)));
        }
    }

    /// The session is over: everybody learns it.
    fn end(&mut self, ending: Ending, effects: &mut Vec<Effect<W, S>>) {
        if self.is_over() {
            return;
        }
        self.link = Link::Over(ending);
        self.close_by_ms = None;
        self.out.clear();
        for pending in std::mem::take(&mut self.pending) {
            self.fail(pending.what, Failure { ending: Some(ending), sent: true }, effects);
        }
        self.queued_bytes = 0;
        for queued in std::mem::take(&mut self.queued) {
            self.fail(queued.what, Failure { ending: Some(ending), sent: false }, effects);
        }
        let failure = Failure { ending: Some(ending), sent: false };
        for credential in std::mem::take(&mut self.credentials) {
            effects.extend(credential.waiters.into_iter().map(|waiter| Effect::Done(waiter, Err(failure))));
        }
        effects.push(Effect::State(Phase::Over(ending)));
        for sink in self.watches.take_all() {
            effects.push(Effect::End(sink, Event::bare(EventKind::SessionEnded)));
        }
        let done = Reply { zxid: self.last_zxid, err: 0, body: Bytes::new() };
        for waiter in self.closing.take().unwrap_or_default() {
            effects.push(Effect::Done(waiter, Ok(done.clone())));
        }
    }
}
