//! One session over successive connections: which requests are sent when, and which reply belongs to which request.
//!
//! The driver feeds in new connections ([`Session::on_open`]), received bytes ([`Session::on_input`]), time
//! ([`Session::on_tick`]) and disconnects ([`Session::on_lost`]); callers submit requests ([`Session::submit`]). Bytes
//! to send are appended to [`Session::out`]. A server must reply in the order of the requests; the session closes a
//! connection whose replies are out of order.

mod input;
mod sasl_replies;
#[cfg(test)]
mod tests;

use super::sasl::SaslExchange;
use super::watches::{WatchClass, WatchId, Watches};
use super::{Effect, Phase};
use crate::event::{Event, EventKind};
use crate::limits::{
    CLOSE_MS_MAX, PING_MS_MAX, REQUESTS_MAX, ROUND_PAUSE_MS, SHORT_CONNECTION_MS, SHORT_CONNECTION_PAUSE_MS,
    UNSENT_BYTES_MAX,
};
use crate::server_list::{ServerAddress, ServerList};
use bytes::Bytes;
use ox_proto::connect::ConnectRequest;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::Jute;
use ox_proto::limits::PASSWORD_BYTES;
use ox_proto::request::{AuthPacket, PathKind, RequestHeader, put_bare_request, put_request, xid};
use ox_proto::{OpCode, SessionId, Zxid};
use std::collections::VecDeque;

/// The caller that waits for a reply.
pub(crate) trait Waiter {
    /// Whether the caller has dropped its future.
    fn is_cancelled(&self) -> bool;
}

/// A reply with an undecoded body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) zxid: Zxid,
    pub(crate) err: i32,
    pub(crate) body: Bytes,
}

/// Why the session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    Expired,
    AuthFailed,
    Closed,
}

/// Why a request receives no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `None` when only the connection was lost.
    pub(crate) ended: Option<SessionEnd>,
    /// Whether the server may have received the request.
    pub(crate) sent: bool,
}

/// Why the client closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Disconnect {
    #[error("no reply to the handshake in time")]
    Handshake,
    #[error("no session from the server during the handshake")]
    NoSession,
    #[error("read timeout")]
    ReadTimeout,
    #[error("malformed packet")]
    MalformedPacket,
    #[error("reply xid out of order")]
    OutOfOrder,
    #[error("switching to another server")]
    SwitchServer,
    #[error("session ended")]
    SessionEnded,
}

/// Why the session does not accept a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubmitError {
    /// Too many requests or bytes are in flight.
    Full,
    /// The session is disconnected, and the request does not wait for a connection.
    Disconnected,
    /// The request exceeds `jute.maxbuffer`.
    TooLarge {
        /// Bytes that a request may have.
        limit: usize,
    },
    Ended(SessionEnd),
}

/// The result of [`Session::submit`]; a request that is not accepted is handed back.
pub(crate) type SubmitResult<W, S> = Result<Submitted, (SubmitError, Request<W, S>)>;

/// A request to be submitted, without its body.
#[derive(Debug)]
pub(crate) struct Request<W, S> {
    pub(crate) op: OpCode,
    pub(crate) waiter: W,
    /// Whether the request may wait for a connection.
    pub(crate) waits: bool,
    pub(crate) watch: Option<WatchRequest<S>>,
}

/// The watch that a request leaves on the server when it succeeds.
#[derive(Debug)]
pub(crate) struct WatchRequest<S> {
    pub(crate) id: WatchId,
    pub(crate) class: WatchClass,
    pub(crate) path: Box<str>,
    pub(crate) sink: S,
}

/// How the session accepted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Submitted {
    Sent,
    /// Waiting for a connection; the number cancels it.
    Queued(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The session timeout to request.
    pub(crate) timeout_ms: i32,
    pub(crate) read_only: bool,
    /// Limit for a request frame in bytes, without its length prefix.
    pub(crate) frame_bytes_max: usize,
    pub(crate) requests_max: usize,
    /// The session to resume instead of creating one.
    pub(crate) resume: Option<SessionCredentials>,
}

impl Settings {
    pub(crate) fn new(timeout_ms: i32) -> Self {
        let frame_bytes_max = ox_proto::limits::FRAME_BYTES_MAX_DEFAULT;
        Self { timeout_ms, read_only: false, frame_bytes_max, requests_max: REQUESTS_MAX, resume: None }
    }
}

/// What a server requires to reattach a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionCredentials {
    pub(crate) id: SessionId,
    pub(crate) password: [u8; PASSWORD_BYTES],
    pub(crate) timeout_ms: i32,
    pub(crate) last_zxid: Zxid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnState {
    Disconnected,
    Handshake {
        since_ms: i64,
    },
    /// The session is established, and the SASL exchange runs: nothing else is sent.
    Authenticating {
        since_ms: i64,
        read_only: bool,
    },
    Open {
        read_only: bool,
    },
    Ended(SessionEnd),
}

/// What the client does with the reply to a request.
#[derive(Debug)]
enum PendingKind<W, S> {
    Request {
        waiter: W,
        watch: Option<Box<WatchRequest<S>>>,
        op: OpCode,
    },
    /// setWatches after a reconnect; the reply needs no action.
    Rearm,
    /// removeWatches for a watch that is no longer used.
    RemoveWatches,
    /// A token of the SASL exchange.
    Sasl,
    Close,
}

#[derive(Debug)]
struct Pending<W, S> {
    xid: i32,
    sent_ms: i64,
    kind: PendingKind<W, S>,
}

/// A request that waits for a connection.
#[derive(Debug)]
struct Queued<W, S> {
    number: u64,
    /// The whole frame; its xid is 0 until it is sent.
    frame: Vec<u8>,
    waits: bool,
    kind: PendingKind<W, S>,
}

/// Credentials of addauth, sent on every connection.
#[derive(Debug)]
struct Credential<W> {
    scheme: Box<str>,
    auth: Option<Vec<u8>>,
    waiters: Vec<W>,
}

#[derive(Debug)]
pub(crate) struct Session<W, S> {
    settings: Settings,
    servers: ServerList,
    conn: ConnState,
    id: SessionId,
    password: [u8; PASSWORD_BYTES],
    timeout_ms: i32,
    /// Whether a read-write server has created the session; a session of a read-only server is not reused.
    is_established: bool,
    last_zxid: Zxid,
    /// The zxid up to which no event was missed; set while watches are not re-armed after a reconnect.
    watched_zxid: Option<Zxid>,
    xid: i32,
    /// Bytes that the driver writes to the socket.
    pub(crate) out: Vec<u8>,
    queued: VecDeque<Queued<W, S>>,
    queued_bytes: usize,
    queued_count: u64,
    pending: VecDeque<Pending<W, S>>,
    rearming: usize,
    watches: Watches<S>,
    credentials: Vec<Credential<W>>,
    /// The exchange of this connection, until it has ended. In a box, because most clients have none.
    sasl: Option<Box<SaslExchange>>,
    /// Indexes of credentials that are sent and not confirmed yet.
    auth_in_flight: VecDeque<usize>,
    pings: VecDeque<i64>,
    last_sent_ms: i64,
    last_received_ms: i64,
    /// Send time of the newest request that a read-write server has answered: the session lives at least a timeout
    /// longer.
    last_touch_ms: i64,
    /// Received bytes of an incomplete frame.
    partial_bytes: usize,
    /// Connection attempts since the last established session.
    attempts: usize,
    opened_ms: i64,
    /// Whether this connection has received a reply to a request.
    has_replied: bool,
    /// Consecutive connections that were lost shortly after the handshake, without a reply.
    short_connections: usize,
    wants_switch: bool,
    /// Whether a reader of session events exists, so that notifications are forwarded.
    pub(crate) forwards_events: bool,
    closing: Option<Vec<W>>,
    /// When the client stops trying to close the session and leaves it to expire.
    close_by_ms: Option<i64>,
}

impl<W: Waiter, S: Clone> Session<W, S> {
    pub(crate) fn new(settings: Settings, servers: ServerList) -> Self {
        let resume = settings.resume;
        Self {
            servers,
            conn: ConnState::Disconnected,
            id: resume.map_or(SessionId::NONE, |resume| resume.id),
            password: resume.map_or([0; PASSWORD_BYTES], |resume| resume.password),
            timeout_ms: resume.map_or(settings.timeout_ms, |resume| resume.timeout_ms),
            is_established: resume.is_some(),
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
            sasl: None,
            auth_in_flight: VecDeque::new(),
            pings: VecDeque::new(),
            last_sent_ms: 0,
            last_received_ms: 0,
            last_touch_ms: 0,
            partial_bytes: 0,
            attempts: 0,
            opened_ms: 0,
            has_replied: false,
            short_connections: 0,
            wants_switch: false,
            forwards_events: false,
            closing: None,
            close_by_ms: None,
            settings,
        }
    }

    /// Credentials and progress of the session; the id is [`SessionId::NONE`] before the first connection.
    pub(crate) fn credentials(&self) -> SessionCredentials {
        SessionCredentials {
            id: self.id,
            password: self.password,
            timeout_ms: self.timeout_ms,
            last_zxid: self.last_zxid,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.conn, ConnState::Ended(_))
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.conn == ConnState::Open { read_only: true }
    }

    /// When the session must be assumed expired unless a server replies before.
    pub(crate) fn lost_after_ms(&self) -> i64 {
        self.last_touch_ms + i64::from(self.timeout_ms)
    }

    /// The time limit of one connection attempt: the session timeout divided among the servers.
    pub(crate) fn attempt_timeout_ms(&self) -> i64 {
        (i64::from(self.timeout_ms) / self.servers.len() as i64).max(1)
    }

    /// Whether a full round over all servers since the last session has just failed.
    pub(crate) fn has_tried_all(&self) -> bool {
        0 < self.attempts && self.attempts.is_multiple_of(self.servers.len())
    }

    /// Whether a server has accepted a connection and not replied to the handshake yet.
    pub(crate) fn is_in_handshake(&self) -> bool {
        matches!(self.conn, ConnState::Handshake { .. })
    }

    /// The server to try next, and the pause before that in milliseconds.
    pub(crate) fn next_server(&mut self) -> (ServerAddress, u64) {
        let round = self.servers.len();
        let (rounds, pauses) = match self.attempts {
            0 => (self.short_connections / round, SHORT_CONNECTION_PAUSE_MS),
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

    /// When [`Session::on_tick`] must be called next.
    pub(crate) fn deadline(&self) -> Option<i64> {
        let deadline = match self.conn {
            ConnState::Disconnected | ConnState::Ended(_) => None,
            ConnState::Handshake { since_ms } | ConnState::Authenticating { since_ms, .. } => {
                Some(since_ms + self.attempt_timeout_ms())
            }
            ConnState::Open { .. } => Some(self.ping_at_ms().min(self.read_timeout_at_ms())),
        };
        deadline.into_iter().chain(self.close_by_ms).min()
    }

    fn ping_at_ms(&self) -> i64 {
        self.last_sent_ms + (i64::from(self.timeout_ms) / 3).clamp(1, PING_MS_MAX)
    }

    fn read_timeout_at_ms(&self) -> i64 {
        self.last_received_ms + (i64::from(self.timeout_ms) * 2 / 3).max(2)
    }

    /// Handles timeouts and sends pings. On an error the driver closes the connection.
    pub(crate) fn on_tick(&mut self, now_ms: i64, effects: &mut Vec<Effect<W, S>>) -> Result<(), Disconnect> {
        if self.close_by_ms.is_some_and(|close_by_ms| close_by_ms <= now_ms) {
            self.abandon(effects);
        }
        if self.wants_switch {
            return Err(Disconnect::SwitchServer);
        }
        match self.conn {
            ConnState::Ended(_) => return Err(Disconnect::SessionEnded),
            ConnState::Handshake { since_ms } | ConnState::Authenticating { since_ms, .. }
                if since_ms + self.attempt_timeout_ms() <= now_ms =>
            {
                return Err(Disconnect::Handshake);
            }
            ConnState::Open { .. } => {
                if self.read_timeout_at_ms() <= now_ms {
                    return Err(Disconnect::ReadTimeout);
                }
                if self.ping_at_ms() <= now_ms {
                    put_bare_request(&mut self.out, xid::PING, OpCode::Ping.code());
                    self.pings.push_back(now_ms);
                    self.last_sent_ms = now_ms;
                }
            }
            ConnState::Disconnected | ConnState::Handshake { .. } | ConnState::Authenticating { .. } => (),
        }
        Ok(())
    }

    /// A connection is open: queues the connect request. The exchange `sasl` follows the connect response.
    pub(crate) fn on_open(&mut self, now_ms: i64, sasl: Option<SaslExchange>) {
        self.sasl = sasl.map(Box::new);
        self.conn = ConnState::Handshake { since_ms: now_ms };
        self.last_received_ms = now_ms;
        self.partial_bytes = 0;
        let (session, password) = if self.is_established { (self.id, self.password) } else { Default::default() };
        let request = ConnectRequest {
            last_zxid_seen: self.last_zxid,
            timeout_ms: self.settings.timeout_ms,
            session,
            password: Some(&password),
            read_only: Some(self.settings.read_only),
        };
        self.out.clear();
        request.put_frame(&mut self.out);
    }

    /// The connection is lost: requests already sent fail; queued requests stay if they may wait.
    pub(crate) fn on_lost(&mut self, now_ms: i64, effects: &mut Vec<Effect<W, S>>) {
        let was_open = matches!(self.conn, ConnState::Open { .. });
        if self.has_ended() {
            return;
        }
        self.conn = ConnState::Disconnected;
        self.wants_switch = false;
        self.out.clear();
        self.sasl = None;
        self.auth_in_flight.clear();
        self.pings.clear();
        if was_open {
            let is_short = !self.has_replied && now_ms < self.opened_ms + SHORT_CONNECTION_MS;
            self.short_connections = if is_short { self.short_connections + 1 } else { 0 };
            self.watched_zxid.get_or_insert(self.last_zxid);
            self.rearming = 0;
            effects.push(Effect::State(Phase::Suspended { lost_after_ms: self.lost_after_ms() }));
        }
        for pending in std::mem::take(&mut self.pending) {
            self.fail(pending.kind, Failure { ended: None, sent: true }, effects);
        }
        let queued = std::mem::take(&mut self.queued);
        for queued in queued {
            if queued.waits {
                self.queued.push_back(queued);
            } else {
                self.queued_bytes -= queued.frame.len();
                self.fail(queued.kind, Failure { ended: None, sent: false }, effects);
            }
        }
    }

    /// Sends a request, or queues it for the next connection. `encode` appends the body.
    pub(crate) fn submit(
        &mut self,
        now_ms: i64,
        request: Request<W, S>,
        encode: &dyn Fn(&mut Vec<u8>),
    ) -> SubmitResult<W, S> {
        let open = match self.conn {
            ConnState::Ended(ended) => return Err((SubmitError::Ended(ended), request)),
            _ if self.closing.is_some() => return Err((SubmitError::Ended(SessionEnd::Closed), request)),
            ConnState::Open { .. } => true,
            ConnState::Disconnected | ConnState::Handshake { .. } | ConnState::Authenticating { .. } => false,
        };
        if !open && !request.waits {
            return Err((SubmitError::Disconnected, request));
        }
        if !self.has_capacity() {
            return Err((SubmitError::Full, request));
        }
        if !open {
            return self.queue(request, encode);
        }
        let start = self.out.len();
        let xid = self.next_xid();
        let mark = begin_frame(&mut self.out);
        RequestHeader { xid, op: request.op.code() }.put(&mut self.out);
        encode(&mut self.out);
        if self.settings.frame_bytes_max < self.out.len() - mark {
            self.out.truncate(start);
            return Err((SubmitError::TooLarge { limit: self.settings.frame_bytes_max }, request));
        }
        end_frame(&mut self.out, mark);
        self.last_sent_ms = now_ms;
        let kind = self.pending_kind(request);
        self.pending.push_back(Pending { xid, sent_ms: now_ms, kind });
        Ok(Submitted::Sent)
    }

    fn queue(&mut self, request: Request<W, S>, encode: &dyn Fn(&mut Vec<u8>)) -> SubmitResult<W, S> {
        let mut frame = Vec::new();
        let mark = begin_frame(&mut frame);
        RequestHeader { xid: 0, op: request.op.code() }.put(&mut frame);
        encode(&mut frame);
        if self.settings.frame_bytes_max < frame.len() - mark {
            return Err((SubmitError::TooLarge { limit: self.settings.frame_bytes_max }, request));
        }
        end_frame(&mut frame, mark);
        self.queued_count += 1;
        self.queued_bytes += frame.len();
        let (waits, kind) = (request.waits, self.pending_kind(request));
        self.queued.push_back(Queued { number: self.queued_count, frame, waits, kind });
        Ok(Submitted::Queued(self.queued_count))
    }

    fn pending_kind(&mut self, request: Request<W, S>) -> PendingKind<W, S> {
        if let Some(watch) = &request.watch {
            self.watches.begin_arming(watch.class, &watch.path);
        }
        PendingKind::Request { waiter: request.waiter, watch: request.watch.map(Box::new), op: request.op }
    }

    /// Whether another request fits below the limits.
    pub(crate) fn has_capacity(&self) -> bool {
        self.pending.len() + self.queued.len() < self.settings.requests_max
            && self.out.len() + self.queued_bytes < UNSENT_BYTES_MAX
    }

    /// Cancels a queued request. Returns false if it has been sent in the meantime.
    pub(crate) fn cancel_queued(&mut self, number: u64) -> bool {
        let Ok(at) = self.queued.binary_search_by_key(&number, |queued| queued.number) else { return false };
        let Some(queued) = self.queued.remove(at) else { return false };
        self.queued_bytes -= queued.frame.len();
        if let PendingKind::Request { watch: Some(watch), .. } = queued.kind {
            self.watches.end_arming(watch.class, &watch.path);
        }
        true
    }

    /// Authenticates on this and on every later connection.
    pub(crate) fn add_auth(
        &mut self,
        now_ms: i64,
        scheme: &str,
        auth: Option<&[u8]>,
        waiter: Option<W>,
    ) -> Result<(), SessionEnd> {
        if let ConnState::Ended(ended) = self.conn {
            return Err(ended);
        }
        let is_same = |held: &Credential<W>| &*held.scheme == scheme && held.auth.as_deref() == auth;
        let index = match self.credentials.iter().position(is_same) {
            Some(index) => index,
            None => {
                let (scheme, auth) = (scheme.into(), auth.map(<[u8]>::to_vec));
                self.credentials.push(Credential { scheme, auth, waiters: Vec::new() });
                self.credentials.len() - 1
            }
        };
        self.credentials[index].waiters.extend(waiter);
        if matches!(self.conn, ConnState::Open { .. }) {
            self.send_auth(now_ms, index);
        }
        Ok(())
    }

    fn send_auth(&mut self, now_ms: i64, index: usize) {
        let Credential { scheme, auth, .. } = &self.credentials[index];
        let packet = AuthPacket { kind: 0, scheme: Some((&**scheme).into()), auth: auth.as_deref() };
        put_request(&mut self.out, xid::AUTH, OpCode::Auth.code(), &packet);
        self.auth_in_flight.push_back(index);
        self.last_sent_ms = now_ms;
    }

    /// Removes a local watcher, and the watch from the server when no other watcher shares it.
    pub(crate) fn remove_watcher(&mut self, now_ms: i64, class: WatchClass, path: &str, id: WatchId) {
        if self.watches.remove(class, path, id) {
            self.disarm(now_ms, class, path);
        }
    }

    fn disarm(&mut self, now_ms: i64, class: WatchClass, path: &str) {
        if !matches!(self.conn, ConnState::Open { .. }) || self.closing.is_some() {
            return; // only watches that still have watchers are re-armed on a new connection
        }
        let xid = self.next_xid();
        let body = PathKind { path: Some(path.into()), kind: class.code() };
        put_request(&mut self.out, xid, OpCode::RemoveWatches.code(), &body);
        self.last_sent_ms = now_ms;
        self.pending.push_back(Pending { xid, sent_ms: now_ms, kind: PendingKind::RemoveWatches });
    }

    /// Ends all local watchers of a path, because its watch was removed from the server.
    pub(crate) fn end_watches(&mut self, classes: &[WatchClass], path: &str, effects: &mut Vec<Effect<W, S>>) {
        for class in classes {
            for sink in self.watches.take(*class, path) {
                effects.push(Effect::EndWatch(sink, Event::bare(EventKind::WatchRemoved)));
            }
        }
    }

    /// Closes the session after all requests submitted before.
    pub(crate) fn close(&mut self, now_ms: i64, waiter: Option<W>, effects: &mut Vec<Effect<W, S>>) {
        if let ConnState::Ended(_) = self.conn {
            let done = Reply { zxid: self.last_zxid, err: 0, body: Bytes::new() };
            effects.extend(waiter.map(|waiter| Effect::Complete(waiter, Ok(done))));
            return;
        }
        let is_first = self.closing.is_none();
        self.close_by_ms.get_or_insert(now_ms + i64::from(self.timeout_ms).min(CLOSE_MS_MAX));
        self.closing.get_or_insert_default().extend(waiter);
        if !self.is_established && !matches!(self.conn, ConnState::Open { .. }) {
            return self.end(SessionEnd::Closed, effects); // no session was established
        }
        if is_first && matches!(self.conn, ConnState::Open { .. }) {
            self.send_close(now_ms);
        }
    }

    fn send_close(&mut self, now_ms: i64) {
        let xid = self.next_xid();
        put_bare_request(&mut self.out, xid, OpCode::CloseSession.code());
        self.last_sent_ms = now_ms;
        self.pending.push_back(Pending { xid, sent_ms: now_ms, kind: PendingKind::Close });
    }

    /// Stops the client and leaves the session on the server until it expires or is resumed.
    pub(crate) fn abandon(&mut self, effects: &mut Vec<Effect<W, S>>) {
        let waiters = self.closing.take().unwrap_or_default();
        let failure = Failure { ended: None, sent: true };
        effects.extend(waiters.into_iter().map(|waiter| Effect::Complete(waiter, Err(failure))));
        self.end(SessionEnd::Closed, effects);
    }

    /// Replaces the list of servers. The connection is closed if balancing the load requires a move.
    pub(crate) fn update_servers(&mut self, servers: Vec<ServerAddress>) {
        let is_connected = !matches!(self.conn, ConnState::Disconnected);
        self.wants_switch |= self.servers.update(servers, is_connected);
        self.attempts = 0;
    }

    /// A read-write server was found while connected to a read-only one: moves there.
    pub(crate) fn switch_to(&mut self, server: &ServerAddress) {
        if self.is_read_only() {
            self.servers.prefer(server);
            self.wants_switch = true;
        }
    }

    /// All servers, in the order in which they are tried.
    pub(crate) fn servers(&self) -> &[ServerAddress] {
        self.servers.all()
    }

    /// Whether a server has established the session on this connection.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.conn, ConnState::Open { .. })
    }

    /// The servers to search for a read-write one.
    pub(crate) fn other_servers(&self) -> Vec<ServerAddress> {
        self.servers.others()
    }

    fn next_xid(&mut self) -> i32 {
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        self.xid
    }

    fn fail(&mut self, kind: PendingKind<W, S>, failure: Failure, effects: &mut Vec<Effect<W, S>>) {
        if let PendingKind::Request { waiter, watch, .. } = kind {
            if let Some(watch) = watch {
                self.watches.end_arming(watch.class, &watch.path);
            }
            effects.push(Effect::Complete(waiter, Err(failure)));
        }
    }

    /// Ends the session: fails all requests, ends all watches, publishes the final state.
    fn end(&mut self, ended: SessionEnd, effects: &mut Vec<Effect<W, S>>) {
        if self.has_ended() {
            return;
        }
        self.conn = ConnState::Ended(ended);
        self.close_by_ms = None;
        self.out.clear();
        for pending in std::mem::take(&mut self.pending) {
            self.fail(pending.kind, Failure { ended: Some(ended), sent: true }, effects);
        }
        self.queued_bytes = 0;
        for queued in std::mem::take(&mut self.queued) {
            self.fail(queued.kind, Failure { ended: Some(ended), sent: false }, effects);
        }
        let failure = Failure { ended: Some(ended), sent: false };
        for credential in std::mem::take(&mut self.credentials) {
            effects.extend(credential.waiters.into_iter().map(|waiter| Effect::Complete(waiter, Err(failure))));
        }
        effects.push(Effect::State(Phase::Ended(ended)));
        for sink in self.watches.take_all() {
            effects.push(Effect::EndWatch(sink, Event::bare(EventKind::SessionEnded)));
        }
        let done = Reply { zxid: self.last_zxid, err: 0, body: Bytes::new() };
        for waiter in self.closing.take().unwrap_or_default() {
            effects.push(Effect::Complete(waiter, Ok(done.clone())));
        }
    }
}
