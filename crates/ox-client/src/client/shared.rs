//! What clients, watches and the driver of a session share.

use crate::core::{Ask, Class, Effect, Ending, Failure, Lost, Phase, Refused, Reply, Session, Taken, Waiter, WatchId};
use crate::reader_queue::Feed;
use crate::server_list::Server;
use crate::session_events::{self, Notice};
use crate::state::{self, SessionTicket, State};
use crate::watch::{self, Sink};
use bytes::BytesMut;
use ox_proto::SessionId;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout_at;

/// Waits for an answer.
pub(crate) type Sender = oneshot::Sender<Result<Reply, Failure>>;

impl Waiter for Sender {
    fn is_gone(&self) -> bool {
        self.is_closed()
    }
}

type Effects = Vec<Effect<Sender, Sink>>;

/// A session and everybody around it.
pub(crate) struct Shared {
    locked: Mutex<Locked>,
    /// Told when requests find room again.
    room: Notify,
    /// The beginning of the session's time.
    started: Instant,
    /// Empty, or a path that is put before all others.
    pub(crate) chroot: String,
    watches: AtomicU64,
}

struct Locked {
    session: Session<Sender, Sink>,
    effects: Effects,
    driver: Option<Waker>,
    /// Somebody waits for room.
    is_crowded: bool,
    state: State,
    readers: Vec<Weak<Feed<State>>>,
    listeners: Vec<Weak<Feed<Notice>>>,
}

/// The next try to connect.
pub(crate) struct Attempt {
    pub(crate) server: Server,
    pub(crate) pause: Duration,
    pub(crate) limit: Duration,
}

/// What a turn of the driver leads to.
pub(crate) struct Turn {
    pub(crate) deadline: Option<tokio::time::Instant>,
    pub(crate) is_read_only: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(session: Session<Sender, Sink>, chroot: String) -> Self {
        let locked = Locked {
            session,
            effects: Vec::new(),
            driver: None,
            is_crowded: false,
            state: State::Connecting,
            readers: Vec::new(),
            listeners: Vec::new(),
        };
        let (room, watches) = (Notify::new(), AtomicU64::new(0));
        Self { locked: Mutex::new(locked), room, started: Instant::now(), chroot, watches }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn instant(&self, ms: i64) -> Instant {
        self.started + Duration::from_millis(ms.max(0).unsigned_abs())
    }

    /// Changes the session, performs what follows from it, and wakes the driver.
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

    /// Performs effects in order. The lock stays: nobody learns of a later thing first.
    fn perform(&self, locked: &mut Locked) {
        for effect in locked.effects.drain(..) {
            match effect {
                Effect::Done(waiter, result) => drop(waiter.send(result)), // nobody may wait any more
                Effect::Event(sink, event) => watch::tell(&sink, event),
                Effect::End(sink, event) => watch::tell_last(&sink, event),
                Effect::State(phase) => {
                    locked.state = self.state_of(phase);
                    tracing::debug!(state = ?locked.state, "session");
                    locked.readers.retain(|reader| {
                        reader.upgrade().is_some_and(|reader| {
                            state::tell(&reader, locked.state);
                            true
                        })
                    });
                    notify(&mut locked.listeners, &Notice::State(locked.state));
                }
                Effect::Heard(event) => notify(&mut locked.listeners, &Notice::Event(event)),
            }
        }
        if locked.is_crowded && (locked.session.has_room() || locked.session.is_over()) {
            locked.is_crowded = false;
            self.room.notify_waiters();
        }
    }

    fn state_of(&self, phase: Phase) -> State {
        match phase {
            Phase::Connected { read_only: false, .. } => State::Connected,
            Phase::Connected { read_only: true, .. } => State::ConnectedReadOnly,
            Phase::Suspended { lost_after_ms } => State::Suspended { lost_after: self.instant(lost_after_ms) },
            Phase::Over(Ending::Expired) => State::Expired,
            Phase::Over(Ending::AuthFailed) => State::AuthFailed,
            Phase::Over(Ending::Closed) => State::Closed,
        }
    }

    /// Hands a request to the session, with the time when that was.
    pub(crate) fn submit(
        &self,
        ask: Ask<Sender, Sink>,
        encode: &dyn Fn(&mut Vec<u8>),
    ) -> (Instant, Taken<Sender, Sink>) {
        let now = Instant::now();
        let now_ms = i64::try_from(now.duration_since(self.started).as_millis()).unwrap_or(i64::MAX);
        let mut locked = self.locked.lock();
        let submitted = locked.session.submit(now_ms, ask, encode);
        if let Err((Refused::Full, _)) = &submitted {
            locked.is_crowded = true;
        }
        let driver = locked.driver.take();
        drop(locked);
        if let Some(driver) = driver {
            driver.wake();
        }
        (now, submitted)
    }

    /// Waits until there may be room. False when that takes too long.
    pub(crate) async fn await_room(&self, until: Option<tokio::time::Instant>) -> bool {
        let mut told = pin!(self.room.notified());
        told.as_mut().enable();
        {
            let mut locked = self.locked.lock();
            if locked.session.has_room() || locked.session.is_over() {
                return true;
            }
            locked.is_crowded = true;
        }
        match until {
            Some(until) => timeout_at(until, told).await.is_ok(),
            None => {
                told.await;
                true
            }
        }
    }

    /// One turn of a connection: what was read goes in, what is to be written comes out.
    pub(crate) fn turn(
        &self,
        input: &mut BytesMut,
        output: Option<&mut Vec<u8>>,
        driver: &Waker,
    ) -> Result<Turn, Lost> {
        let mut locked = self.locked.lock();
        let now_ms = self.now_ms();
        let Locked { session, effects, .. } = &mut *locked;
        let heard = if input.is_empty() { Ok(()) } else { session.on_input(now_ms, input, effects) };
        let alive = heard.and_then(|()| session.on_time(now_ms, effects));
        self.perform(&mut locked);
        alive?;
        if let Some(output) = output {
            std::mem::swap(&mut locked.session.out, output);
        }
        locked.sleep(driver);
        let deadline = locked.session.deadline().map(|ms| self.instant(ms).into());
        Ok(Turn { deadline, is_read_only: locked.session.is_read_only() })
    }

    /// The same without a connection.
    pub(crate) fn away_turn(&self, driver: &Waker) -> Result<Option<tokio::time::Instant>, Lost> {
        let mut locked = self.locked.lock();
        let now_ms = self.now_ms();
        let Locked { session, effects, .. } = &mut *locked;
        let alive = session.on_time(now_ms, effects);
        self.perform(&mut locked);
        alive?;
        locked.sleep(driver);
        Ok(locked.session.deadline().map(|ms| self.instant(ms).into()))
    }

    /// Where to connect next; `None` when the session is over.
    pub(crate) fn next_attempt(&self) -> Option<Attempt> {
        let mut locked = self.locked.lock();
        if locked.session.is_over() {
            return None;
        }
        if locked.session.has_tried_all() {
            notify(&mut locked.listeners, &Notice::NoServer);
        }
        let (server, pause_ms) = locked.session.next_server();
        let limit_ms = locked.session.attempt_ms().unsigned_abs();
        let (pause, limit) = (Duration::from_millis(pause_ms), Duration::from_millis(limit_ms));
        Some(Attempt { server, pause, limit })
    }

    /// Servers that may take writes, and how long each may take to answer.
    pub(crate) fn other_servers(&self) -> (Vec<Server>, Duration) {
        let locked = self.locked.lock();
        (locked.session.other_servers(), Duration::from_millis(locked.session.attempt_ms().unsigned_abs()))
    }

    pub(crate) fn next_watch(&self) -> WatchId {
        WatchId(self.watches.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn forget(&self, class: Class, path: &str, id: WatchId) {
        self.change(|session, now_ms, _| session.forget(now_ms, class, path, id));
    }

    pub(crate) fn state(&self) -> State {
        self.locked.lock().state
    }

    pub(crate) fn subscribe(&self, feed: &Arc<Feed<State>>) {
        let mut locked = self.locked.lock();
        state::tell(feed, locked.state);
        locked.readers.retain(|reader| reader.strong_count() != 0);
        locked.readers.push(Arc::downgrade(feed));
    }

    pub(crate) fn listen(&self, feed: &Arc<Feed<Notice>>) {
        let mut locked = self.locked.lock();
        session_events::tell(feed, Notice::State(locked.state));
        locked.listeners.push(Arc::downgrade(feed));
        locked.session.is_heard = true;
    }

    pub(crate) fn lost_after(&self) -> Instant {
        self.instant(self.locked.lock().session.lost_after_ms())
    }

    pub(crate) fn ticket(&self) -> Option<SessionTicket> {
        let identity = self.locked.lock().session.identity();
        (identity.id != SessionId::NONE).then(|| SessionTicket {
            id: identity.id,
            password: identity.password,
            timeout: Duration::from_millis(u64::try_from(identity.timeout_ms).unwrap_or(0)),
            last_zxid: identity.last_zxid,
        })
    }

    /// An event for watchers that have none of the server's.
    pub(crate) fn end_watches(&self, classes: &[Class], path: &str) {
        self.change(|session, _, effects| session.end_watches(classes, path, effects));
    }
}

/// Tells all that listen and are still there.
fn notify(listeners: &mut Vec<Weak<Feed<Notice>>>, notice: &Notice) {
    listeners.retain(|listener| {
        let listener = listener.upgrade();
        listener.as_ref().is_some_and(|listener| {
            session_events::tell(listener, notice.clone());
            true
        })
    });
}

impl Locked {
    fn sleep(&mut self, driver: &Waker) {
        if !self.driver.as_ref().is_some_and(|held| held.will_wake(driver)) {
            self.driver = Some(driver.clone());
        }
    }
}
