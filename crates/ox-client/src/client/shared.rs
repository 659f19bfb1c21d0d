//! The state shared by the client handles, the watches and the driver of a session.

use crate::connect_failure::{self, ConnectCause, ConnectFailure};
use crate::core::{
    Disconnect, Effect, Failure, Phase, Reply, Request, Session, SessionEnd, SubmitError, SubmitResult, Waiter,
    WatchClass, WatchId,
};
use crate::error::{Error, ErrorKind};
use crate::reader_queue::ReaderQueue;
use crate::server_list::ServerAddress;
use crate::session_events::{self, SessionEvent};
use crate::state::{self, SessionState, SessionTicket};
use crate::transport::Dialer;
use crate::watch::{self, Sink};
use bytes::BytesMut;
use ox_proto::SessionId;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout_at;

/// Completes the future of a request.
pub(crate) type Sender = oneshot::Sender<Result<Reply, Failure>>;

impl Waiter for Sender {
    fn is_cancelled(&self) -> bool {
        self.is_closed()
    }
}

/// The result of a request.
pub(crate) type Receiver = oneshot::Receiver<Result<Reply, Failure>>;

type Effects = Vec<Effect<Sender, Sink>>;

/// A session with everything that waits for it.
pub(crate) struct Shared {
    locked: Mutex<Locked>,
    /// Notified when further requests fit into the session.
    capacity: Notify,
    /// Zero of the millisecond clock that the session core uses.
    started: Instant,
    /// The prefix of all paths on the server; empty for the root.
    pub(crate) chroot: String,
    /// Whether the chroot has existed, so that a NoNode error is about another node.
    pub(crate) has_seen_chroot: AtomicBool,
    pub(crate) dialer: Arc<Dialer>,
    watches: AtomicU64,
}

struct Locked {
    session: Session<Sender, Sink>,
    effects: Effects,
    driver: Option<Waker>,
    /// Whether callers wait for `capacity`.
    has_blocked_callers: bool,
    state: SessionState,
    state_readers: Vec<Weak<ReaderQueue<SessionState>>>,
    event_readers: Vec<Weak<ReaderQueue<SessionEvent>>>,
    /// The last failure of each server since the last session.
    failures: Vec<ConnectFailure>,
    /// Why SASL ended the session.
    sasl_failure: Option<String>,
    /// The scheme of the credentials that ended the session.
    rejected_scheme: Option<Box<str>>,
}

/// Parameters of the next connection attempt.
pub(crate) struct Attempt {
    pub(crate) server: ServerAddress,
    pub(crate) pause: Duration,
    pub(crate) limit: Duration,
}

/// What the driver needs to know after an iteration.
pub(crate) struct Iteration {
    pub(crate) deadline: Option<tokio::time::Instant>,
    pub(crate) is_read_only: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(session: Session<Sender, Sink>, chroot: String, dialer: Dialer) -> Self {
        let locked = Locked {
            session,
            effects: Vec::new(),
            driver: None,
            has_blocked_callers: false,
            state: SessionState::Connecting,
            state_readers: Vec::new(),
            event_readers: Vec::new(),
            failures: Vec::new(),
            sasl_failure: None,
            rejected_scheme: None,
        };
        let (capacity, watches) = (Notify::new(), AtomicU64::new(0));
        Self {
            locked: Mutex::new(locked),
            capacity,
            started: Instant::now(),
            chroot,
            has_seen_chroot: AtomicBool::new(false),
            dialer: Arc::new(dialer),
            watches,
        }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn instant(&self, ms: i64) -> Instant {
        self.started + Duration::from_millis(ms.max(0).unsigned_abs())
    }

    /// Changes the session, performs the resulting effects, and wakes the driver.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Session<Sender, Sink>, i64, &mut Effects) -> T) -> T {
        let mut locked = self.locked.lock();
        let Locked { session, effects, .. } = &mut *locked;
        let changed = change(session, self.now_ms(), effects);
        self.perform(&mut locked);
        let driver = locked.driver.take();
        drop(locked);
        if let Some(driver) = driver {
            driver.wake();
        }
        changed
    }

    /// Performs the effects in order. The lock is held throughout, so that no reader observes a later effect first.
    fn perform(&self, locked: &mut Locked) {
        for effect in locked.effects.drain(..) {
            match effect {
                Effect::Complete(waiter, result) => drop(waiter.send(result)), // the caller may have dropped its future
                Effect::Event(sink, event) => watch::push_event(&sink, event),
                Effect::EndWatch(sink, event) => watch::push_last_event(&sink, event),
                Effect::State(phase) => {
                    locked.state = self.state_of(phase);
                    if locked.state.is_connected() {
                        locked.failures.clear();
                    }
                    tracing::debug!(state = ?locked.state, "session state changed");
                    locked.state_readers.retain(|reader| {
                        reader.upgrade().is_some_and(|reader| {
                            state::push_state(&reader, locked.state);
                            true
                        })
                    });
                    notify(&mut locked.event_readers, &SessionEvent::State(locked.state));
                }
                Effect::Authenticating { read_only } => {
                    tracing::debug!("SASL authentication begins");
                    notify(&mut locked.event_readers, &SessionEvent::Authenticating { read_only });
                }
                Effect::SaslFailed(reason) => {
                    tracing::warn!(%reason, "SASL authentication failed");
                    locked.sasl_failure = Some(reason);
                }
                Effect::AuthRejected(scheme) => {
                    tracing::warn!(%scheme, "the server rejected the credentials");
                    locked.rejected_scheme = Some(scheme);
                }
                Effect::Notification(event) => notify(&mut locked.event_readers, &SessionEvent::Event(event)),
            }
        }
        if locked.has_blocked_callers && (locked.session.has_capacity() || locked.session.has_ended()) {
            locked.has_blocked_callers = false;
            self.capacity.notify_waiters();
        }
    }

    fn state_of(&self, phase: Phase) -> SessionState {
        match phase {
            Phase::Connected { read_only: false, .. } => SessionState::Connected,
            Phase::Connected { read_only: true, .. } => SessionState::ConnectedReadOnly,
            Phase::Suspended { lost_after_ms } => SessionState::Suspended { lost_after: self.instant(lost_after_ms) },
            Phase::Ended(SessionEnd::Expired) => SessionState::Expired,
            Phase::Ended(SessionEnd::AuthFailed) => SessionState::AuthFailed,
            Phase::Ended(SessionEnd::Closed) => SessionState::Closed,
        }
    }

    /// Submits a request to the session; returns when that happened as well.
    pub(crate) fn submit(
        &self,
        request: Request<Sender, Sink>,
        encode: &dyn Fn(&mut Vec<u8>),
    ) -> (Instant, SubmitResult<Sender, Sink>) {
        let now = Instant::now();
        let now_ms = i64::try_from(now.duration_since(self.started).as_millis()).unwrap_or(i64::MAX);
        let mut locked = self.locked.lock();
        let submitted = locked.session.submit(now_ms, request, encode);
        if let Err((SubmitError::Full, _)) = &submitted {
            locked.has_blocked_callers = true;
        }
        let driver = locked.driver.take();
        drop(locked);
        if let Some(driver) = driver {
            driver.wake();
        }
        (now, submitted)
    }

    /// Waits until another request may fit. Returns false when `until` passes first.
    pub(crate) async fn await_capacity(&self, until: Option<tokio::time::Instant>) -> bool {
        let mut notified = pin!(self.capacity.notified());
        notified.as_mut().enable();
        {
            let mut locked = self.locked.lock();
            if locked.session.has_capacity() || locked.session.has_ended() {
                return true;
            }
            locked.has_blocked_callers = true;
        }
        match until {
            Some(until) => timeout_at(until, notified).await.is_ok(),
            None => {
                notified.await;
                true
            }
        }
    }

    /// One iteration of a connection: processes `input` and moves pending bytes to `output`.
    pub(crate) fn iterate(
        &self,
        input: &mut BytesMut,
        output: Option<&mut Vec<u8>>,
        driver: &Waker,
    ) -> Result<Iteration, Disconnect> {
        let mut locked = self.locked.lock();
        let now_ms = self.now_ms();
        let Locked { session, effects, .. } = &mut *locked;
        let processed = if input.is_empty() { Ok(()) } else { session.on_input(now_ms, input, effects) };
        let result = processed.and_then(|()| session.on_tick(now_ms, effects));
        self.perform(&mut locked);
        result?;
        if let Some(output) = output {
            std::mem::swap(&mut locked.session.out, output);
        }
        locked.register_driver(driver);
        let deadline = locked.session.deadline().map(|ms| self.instant(ms).into());
        Ok(Iteration { deadline, is_read_only: locked.session.is_read_only() })
    }

    /// One iteration without a connection: processes timeouts only.
    pub(crate) fn iterate_disconnected(&self, driver: &Waker) -> Result<Option<tokio::time::Instant>, Disconnect> {
        let mut locked = self.locked.lock();
        let now_ms = self.now_ms();
        let Locked { session, effects, .. } = &mut *locked;
        let result = session.on_tick(now_ms, effects);
        self.perform(&mut locked);
        result?;
        locked.register_driver(driver);
        Ok(locked.session.deadline().map(|ms| self.instant(ms).into()))
    }

    /// The next connection attempt; `None` when the session has ended.
    pub(crate) fn next_attempt(&self) -> Option<Attempt> {
        let mut locked = self.locked.lock();
        if locked.session.has_ended() {
            return None;
        }
        if locked.session.has_tried_all() {
            notify(&mut locked.event_readers, &SessionEvent::NoServer);
        }
        let (server, pause_ms) = locked.session.next_server();
        let limit_ms = locked.session.attempt_timeout_ms().unsigned_abs();
        let (pause, limit) = (Duration::from_millis(pause_ms), Duration::from_millis(limit_ms));
        Some(Attempt { server, pause, limit })
    }

    /// Records why a server established no session.
    pub(crate) fn record_failure(&self, server: &ServerAddress, cause: ConnectCause) {
        let failures = &mut self.locked.lock().failures;
        match failures.iter_mut().find(|failure| failure.server == *server) {
            Some(failure) => failure.cause = cause,
            None => failures.push(ConnectFailure { server: server.clone(), cause }),
        }
    }

    /// Why each server established no session, sorted. A server without a recorded cause has not replied yet.
    pub(crate) fn connect_failures(&self) -> Vec<ConnectFailure> {
        let locked = self.locked.lock();
        if locked.state.is_connected() {
            return Vec::new();
        }
        let mut servers = locked.session.servers().to_vec();
        servers.sort_unstable();
        // With several servers, it is not known which of them accepted the connection.
        let is_silent = locked.session.is_in_handshake() && servers.len() == 1;
        let unknown = if is_silent { ConnectCause::NoReply } else { ConnectCause::Timeout };
        let cause = |server: &ServerAddress| {
            let known = locked.failures.iter().find(|failure| failure.server == *server);
            known.map_or_else(|| unknown.clone(), |failure| failure.cause.clone())
        };
        servers.into_iter().map(|server| ConnectFailure { cause: cause(&server), server }).collect()
    }

    /// Adds to an error why no server can be reached, or why the authentication failed.
    pub(crate) fn explain(&self, error: Error) -> Error {
        let locked = self.locked.lock();
        let detail = match (error.kind(), &locked.rejected_scheme) {
            (ErrorKind::ConnectionLoss | ErrorKind::CloseUnconfirmed, _) if !locked.failures.is_empty() => {
                Some(connect_failure::list(&locked.failures))
            }
            (ErrorKind::AuthFailed, Some(scheme)) => {
                Some(format!("the servers reject these credentials, or have no scheme `{scheme}`"))
            }
            (ErrorKind::AuthFailed, None) => locked.sasl_failure.clone(),
            _ => None,
        };
        match detail {
            Some(detail) => error.with_detail(detail),
            None => error,
        }
    }

    /// Why SASL ended the session.
    pub(crate) fn sasl_failure(&self) -> Option<String> {
        self.locked.lock().sasl_failure.clone()
    }

    /// The other servers, any of which may be read-write, and the timeout for asking each.
    pub(crate) fn other_servers(&self) -> (Vec<ServerAddress>, Duration) {
        let locked = self.locked.lock();
        (locked.session.other_servers(), Duration::from_millis(locked.session.attempt_timeout_ms().unsigned_abs()))
    }

    pub(crate) fn next_watch(&self) -> WatchId {
        WatchId(self.watches.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn remove_watcher(&self, class: WatchClass, path: &str, id: WatchId) {
        self.change(|session, now_ms, _| session.remove_watcher(now_ms, class, path, id));
    }

    pub(crate) fn state(&self) -> SessionState {
        self.locked.lock().state
    }

    pub(crate) fn subscribe_states(&self, queue: &Arc<ReaderQueue<SessionState>>) {
        let mut locked = self.locked.lock();
        state::push_state(queue, locked.state);
        locked.state_readers.retain(|reader| reader.strong_count() != 0);
        locked.state_readers.push(Arc::downgrade(queue));
    }

    pub(crate) fn subscribe_events(&self, queue: &Arc<ReaderQueue<SessionEvent>>) {
        let mut locked = self.locked.lock();
        session_events::push_session_event(queue, SessionEvent::State(locked.state));
        locked.event_readers.push(Arc::downgrade(queue));
        locked.session.forwards_events = true;
    }

    pub(crate) fn lost_after(&self) -> Instant {
        self.instant(self.locked.lock().session.lost_after_ms())
    }

    pub(crate) fn ticket(&self) -> Option<SessionTicket> {
        let credentials = self.locked.lock().session.credentials();
        (credentials.id != SessionId::NONE).then(|| SessionTicket {
            id: credentials.id,
            password: credentials.password,
            timeout: Duration::from_millis(u64::try_from(credentials.timeout_ms).unwrap_or(0)),
            last_zxid: credentials.last_zxid,
        })
    }

    /// Ends the watchers of a path whose watch was removed from the server.
    pub(crate) fn end_watches(&self, classes: &[WatchClass], path: &str) {
        self.change(|session, _, effects| session.end_watches(classes, path, effects));
    }
}

/// Sends an event to all readers that still exist.
fn notify(listeners: &mut Vec<Weak<ReaderQueue<SessionEvent>>>, notice: &SessionEvent) {
    listeners.retain(|listener| {
        let listener = listener.upgrade();
        listener.as_ref().is_some_and(|listener| {
            session_events::push_session_event(listener, notice.clone());
            true
        })
    });
}

impl Locked {
    fn register_driver(&mut self, driver: &Waker) {
        if !self.driver.as_ref().is_some_and(|held| held.will_wake(driver)) {
            self.driver = Some(driver.clone());
        }
    }
}
