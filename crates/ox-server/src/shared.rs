//! What the server's threads share, and the locks that go with it.
//!
//! Two locks protect data, always taken in this order: `state`, then the watch table inside it. Queues between
//! threads (inbox, mailboxes, log queue, words, register of connections) have a mutex each, held for a swap or a push
//! and never while another lock is taken — except that mailboxes are filled while the state is held, which is what
//! puts events before the state they announce. The traffic by namespace in the metrics has one too, because its names
//! are not known beforehand; a thread takes it once per turn.

use crate::clock::Clock;
use crate::inbox::Inbox;
use crate::mailbox::{Mailbox, memory_of};
use crate::metrics::Metrics;
use crate::register::Register;
use crate::stats::Stats;
use crate::totals::Totals;
use ox_config::{Config, ConnectionThrottle};
use ox_proto::ensemble::Ensemble;
use ox_replica::{HandshakeKind, Now, Throttle, ThrottleSettings, Weights};
use ox_store::{ConfigFiles, Store};
use ox_tree::State;
use ox_tree::outbox::Outbox;
use parking_lot::{Condvar, Mutex, RwLock};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Why a server stopped by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fatal {
    /// The log cannot be written any more: nothing may be acknowledged.
    #[error("the transaction log cannot be written: {0}")]
    Log(#[source] ox_store::Error),
    /// A directory of the data was removed or moved away: what is written now is lost.
    #[error("a data directory is gone, and what was written since cannot be kept: {0}")]
    Gone(#[source] ox_store::Error),
    /// A thread that serves all others ended.
    #[error("thread {0} ended unexpectedly")]
    Thread(&'static str),
    /// A thread that serves all others has stood still for longer than `oxkeeper.watchdog.exitAfter`.
    #[error("thread {0} does not get on")]
    Stalled(&'static str),
}

impl Fatal {
    /// The disk has no space left. A server that is started when there is some goes on where this one was.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Log(error) if error.is_full())
    }
}

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) state: RwLock<State>,
    pub(crate) inbox: Inbox,
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) register: Register,
    pub(crate) stats: Stats,
    pub(crate) totals: Totals,
    /// Tokens for new sessions, where the configuration asks for them.
    throttle: Option<Mutex<Throttle>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) store: Store,
    /// Of the client port.
    pub(crate) address: Mutex<Option<SocketAddr>>,
    /// The configuration in force.
    pub(crate) ensemble: RwLock<Option<Arc<Ensemble>>>,
    /// Where configurations are written, if they can change.
    pub(crate) config_files: Option<ConfigFiles>,
    pub(crate) trace_mask: AtomicU64,
    stopping: AtomicBool,
    /// Held for a moment by whoever naps or ends the naps.
    naps: Mutex<()>,
    stopped: Condvar,
    fatal: Mutex<Option<Fatal>>,
}

impl Shared {
    pub(crate) fn new(config: Config, state: State, store: Store, mailboxes: Vec<Mailbox>) -> Self {
        let clock = Clock::new();
        let ensemble = config.member.as_ref().map(|member| Arc::new(member.ensemble.clone()));
        Self {
            totals: Totals::new(&config),
            throttle: Throttle::new(throttle_settings(&config.connection_throttle), clock.now()).map(Mutex::new),
            config,
            clock,
            state: RwLock::new(state),
            inbox: Inbox::default(),
            mailboxes,
            register: Register::default(),
            stats: Stats::default(),
            metrics: Arc::default(),
            store,
            address: Mutex::new(None),
            ensemble: RwLock::new(ensemble),
            config_files: None,
            trace_mask: AtomicU64::new(306), // Apache's default
            stopping: AtomicBool::new(false),
            naps: Mutex::new(()),
            stopped: Condvar::new(),
            fatal: Mutex::new(None),
        }
    }

    /// Hands replies and events to the I/O thread of this number, and counts them until they are delivered.
    pub(crate) fn post(&self, thread: usize, outbox: Outbox) {
        self.totals.mail(memory_of(&outbox));
        self.mailboxes[thread].put(|mail| mail.outboxes.push(outbox));
    }

    /// Whether a handshake may go on.
    pub(crate) fn admit(&self, now: Now, newcomer: HandshakeKind) -> bool {
        let has_local = self.config.member.as_ref().is_some_and(|member| member.local_sessions);
        let newcomer = if has_local && newcomer == HandshakeKind::New { HandshakeKind::Local } else { newcomer };
        let (mut is_admitted, mut deficit) = (true, 0);
        if let Some(throttle) = &self.throttle {
            let mut throttle = throttle.lock();
            (is_admitted, deficit) = (throttle.admit(now, newcomer, rand::random()), throttle.deficit());
        }
        if is_admitted {
            self.metrics.connection_token_deficit.note(i64::try_from(deficit).unwrap_or(i64::MAX), 1);
        } else {
            self.metrics.connection_rejected.add(1);
        }
        is_admitted
    }

    /// How likely a handshake is turned away at random.
    pub(crate) fn drop_chance(&self) -> f64 {
        self.throttle.as_ref().map_or(0.0, |throttle| throttle.lock().drop_chance())
    }

    /// True when every thread should end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Sleeps for a while, or until the server stops.
    pub(crate) fn nap(&self, time: Duration) {
        let mut naps = self.naps.lock();
        if !self.is_stopping() {
            self.stopped.wait_for(&mut naps, time);
        }
    }

    /// Asks every thread to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        drop(self.naps.lock()); // whoever has looked at it before sleeps by now
        self.stopped.notify_all();
        self.inbox.wake();
        self.mailboxes.iter().for_each(Mailbox::wake);
    }

    /// Ends the server because it must not go on. The first reason counts.
    pub(crate) fn fail(&self, fatal: Fatal) {
        tracing::error!(%fatal, "stopping");
        self.metrics.unrecoverable_error_count.add(1);
        self.fatal.lock().get_or_insert(fatal);
        self.stop();
    }

    /// Waits until the server stops. Returns whether some threads may never end.
    pub(crate) fn await_stop(&self) -> bool {
        let mut naps = self.naps.lock();
        while !self.is_stopping() {
            self.stopped.wait(&mut naps);
        }
        drop(naps);
        matches!(*self.fatal.lock(), Some(Fatal::Stalled(_)))
    }

    pub(crate) fn take_fatal(&self) -> Option<Fatal> {
        self.fatal.lock().take()
    }
}

fn throttle_settings(asked: &ConnectionThrottle) -> ThrottleSettings {
    let weights = asked.weights.as_ref();
    let weights = weights.map(|by| Weights { new: by.global, renewed: by.renew, local: by.local });
    ThrottleSettings {
        tokens: asked.tokens,
        fill_time_ms: asked.fill_time_ms,
        fill_count: asked.fill_count,
        freeze_time_ms: asked.freeze_time_ms,
        drop_increase: asked.drop_increase,
        drop_decrease: asked.drop_decrease,
        decrease_ratio: asked.decrease_ratio,
        weights,
    }
}

/// Ends the server when the thread that holds it ends, by a panic or otherwise.
pub(crate) struct Essential {
    pub(crate) shared: std::sync::Arc<Shared>,
    pub(crate) name: &'static str,
    /// What counts as a bad end.
    pub(crate) only_panics: bool,
}

impl Drop for Essential {
    fn drop(&mut self) {
        let is_bad = std::thread::panicking() || !(self.only_panics || self.shared.is_stopping());
        if is_bad {
            self.shared.fail(Fatal::Thread(self.name));
        }
    }
}
