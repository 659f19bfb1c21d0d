//! State that the server's threads share, and its locks.
//!
//! Two locks protect data, always taken in this order: `state`, then the watch table inside it. Queues between threads
//! (inbox, mailboxes, log queue, four-letter commands, connection table) have a mutex each, held for a swap or a push
//! and never while another lock is taken. The exception: mailboxes are filled while the state is locked, so that an
//! event arrives before the state that it announces. Traffic by namespace in the metrics has a mutex too, because its
//! names are not known in advance; a thread takes it once per iteration. Settings that can change while the server runs
//! have a lock that is held to copy a pointer. The certificates of the client port, and those
//! for other servers, have a lock that a handshake takes once; failed logins by address have a mutex that an accepted
//! connection takes once, and the Kerberos replay cache has one that a login takes once. A restored snapshot and snapshots on
//! request exclude each other by a mutex that only their threads take.

use crate::audit::AuditQueue;
use crate::clock::Clock;
use crate::io::client_port_tls::ClientPortTls;
use crate::io::client_sasl::ClientSasl;
use crate::io::connection_table::ConnectionTable;
use crate::io::failed_logins::FailedLogins;
use crate::io::mailbox::Mailbox;
use crate::limits::SERVERS_MEASURED_MAX;
use crate::live_settings::LiveSettings;
use crate::options::global_limits;
use crate::peers::security::PeerSecurity;
use crate::replica_thread::inbox::Inbox;
use crate::replica_thread::restore::Restore;
use crate::status::disk_trend::DiskTrend;
use crate::status::metrics::Metrics;
use crate::status::prometheus::QuantileWindows;
use crate::status::stats::Stats;
use crate::status::tree_usage::MeasuredUsage;
use crate::status::version::Build;
use ox_config::{Config, ConnectionThrottle};
use ox_driver::client_io::{GlobalLimits, memory_of};
use ox_proto::ServerId;
use ox_proto::ensemble::Ensemble;
use ox_replica::outbox::Outbox;
use ox_replica::{HandshakeKind, Now, Throttle, ThrottleSettings, Weights};
use ox_store::{ConfigFiles, Store};
use ox_tree::State;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Why a server stopped by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fatal {
    /// A write or fsync of the transaction log failed, so nothing may be acknowledged any more.
    #[error("the transaction log cannot be written: {0}")]
    Log(#[source] ox_store::StoreError),
    /// A data directory was removed or moved: everything written since then is lost.
    #[error("a data directory was removed while the server was running: {0}")]
    Gone(#[source] ox_store::StoreError),
    /// A thread that the server depends on ended.
    #[error("thread {0} ended unexpectedly")]
    Thread(&'static str),
    /// A thread that the server depends on hung for longer than `oxkeeper.watchdog.exitAfter`.
    #[error("thread {0} stalled")]
    Stalled(&'static str),
}

impl Fatal {
    /// Whether the disk is full. A server that is started when space is free continues where this one stopped.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Log(error) if error.is_full())
    }
}

/// The connection of a learner, for status commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LearnerLink {
    pub(crate) address: Option<SocketAddr>,
    pub(crate) established_ms: i64,
}

pub(crate) struct Shared {
    pub(crate) build: Build,
    /// As it was read at the start.
    pub(crate) config: Config,
    /// What may have changed since. Locked to copy or to replace the pointer.
    pub(crate) live: RwLock<Arc<LiveSettings>>,
    pub(crate) clock: Clock,
    pub(crate) state: RwLock<State>,
    pub(crate) inbox: Inbox,
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) connections: ConnectionTable,
    pub(crate) stats: Stats,
    pub(crate) global_limits: GlobalLimits,
    /// Throttle of new sessions, where it is configured.
    throttle: Option<Mutex<Throttle>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) disk_trend: Mutex<DiskTrend>,
    /// The last walk over the tree, for metrics of single nodes.
    pub(crate) tree_usage: Mutex<Option<MeasuredUsage>>,
    /// Days until the certificates of HTTP ports expire, by port.
    pub(crate) http_certificates: Mutex<BTreeMap<&'static str, i64>>,
    /// Log lines that the program around the server has dropped, where it counts them.
    pub(crate) log_lines_dropped: OnceLock<Arc<AtomicU64>>,
    /// Distributions of the last minutes, for Prometheus's page.
    pub(crate) quantile_windows: Mutex<QuantileWindows>,
    pub(crate) store: Store,
    pub(crate) restore: Restore,
    /// Events for the audit thread, where there is one.
    pub(crate) audit: Option<AuditQueue>,
    /// Set if a port for clients uses TLS.
    pub(crate) tls: Option<Arc<ClientPortTls>>,
    /// Set once on a member of an ensemble.
    pub(crate) peer_security: OnceLock<Arc<PeerSecurity>>,
    /// SASL of clients, where it is configured.
    pub(crate) sasl: Option<ClientSasl>,
    pub(crate) failed_logins: FailedLogins,
    /// The address of the client port.
    pub(crate) address: Mutex<Option<SocketAddr>>,
    /// The active configuration; `None` on a standalone server.
    pub(crate) ensemble: RwLock<Option<Arc<Ensemble>>>,
    /// The files that configurations are written to, if they can change.
    pub(crate) config_files: Option<ConfigFiles>,
    /// Where the learners of this server last connected from, by id.
    pub(crate) learner_links: Mutex<BTreeMap<ServerId, LearnerLink>>,
    pub(crate) trace_mask: AtomicU64,
    /// Checks of the watchdog at which every thread made progress.
    pub(crate) healthy_checks: AtomicU64,
    stopping: AtomicBool,
    /// Held to check or set `stopping`, so that no wake-up is lost.
    sleep_lock: Mutex<()>,
    stopped: Condvar,
    fatal: Mutex<Option<Fatal>>,
}

impl Shared {
    pub(crate) fn new(build: Build, config: Config, state: State, store: Store, mailboxes: Vec<Mailbox>) -> Self {
        let clock = Clock::new();
        let audit = config.audit.enabled.then(AuditQueue::new);
        let ensemble = config.member.as_ref().map(|member| Arc::new(member.ensemble.clone()));
        Self {
            build,
            global_limits: global_limits(&config),
            throttle: Throttle::new(throttle_settings(&config.connection_throttle), clock.now()).map(Mutex::new),
            live: RwLock::new(Arc::new(LiveSettings::of(&config))),
            config,
            clock,
            state: RwLock::new(state),
            inbox: Inbox::default(),
            mailboxes,
            connections: ConnectionTable::default(),
            stats: Stats::default(),
            metrics: Arc::default(),
            disk_trend: Mutex::default(),
            tree_usage: Mutex::default(),
            http_certificates: Mutex::default(),
            log_lines_dropped: OnceLock::new(),
            quantile_windows: Mutex::default(),
            store,
            restore: Restore::default(),
            audit,
            tls: None,
            peer_security: OnceLock::new(),
            sasl: None,
            failed_logins: FailedLogins::default(),
            address: Mutex::new(None),
            ensemble: RwLock::new(ensemble),
            config_files: None,
            learner_links: Mutex::default(),
            trace_mask: AtomicU64::new(306), // Apache's default
            healthy_checks: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            sleep_lock: Mutex::new(()),
            stopped: Condvar::new(),
            fatal: Mutex::new(None),
        }
    }

    /// The present values of settings that can change while the server runs.
    pub(crate) fn live(&self) -> Arc<LiveSettings> {
        Arc::clone(&self.live.read())
    }

    /// Hands replies and events to an I/O thread, and counts them until they are delivered.
    pub(crate) fn post(&self, thread: usize, outbox: Outbox) {
        self.global_limits.on_posted(memory_of(&outbox));
        self.mailboxes[thread].put(|mail| mail.for_connections.outboxes.push(outbox));
    }

    /// Notes the connection of a learner. The number of servers is bounded, because unknown ones can connect, too.
    pub(crate) fn note_learner(&self, server: ServerId, address: Option<SocketAddr>) {
        let mut links = self.learner_links.lock();
        if links.len() < SERVERS_MEASURED_MAX || links.contains_key(&server) {
            links.insert(server, LearnerLink { address, established_ms: self.clock.now().wall_ms });
        }
    }

    /// Whether the throttle admits a handshake.
    pub(crate) fn admit(&self, now: Now, kind: HandshakeKind) -> bool {
        let has_local = self.config.member.as_ref().is_some_and(|member| member.local_sessions);
        let kind = if has_local && kind == HandshakeKind::New { HandshakeKind::Local } else { kind };
        let (mut is_admitted, mut deficit) = (true, 0);
        if let Some(throttle) = &self.throttle {
            let mut throttle = throttle.lock();
            (is_admitted, deficit) = (throttle.admit(now, kind, rand::random()), throttle.deficit());
        }
        if is_admitted {
            self.metrics.connection_token_deficit.note(i64::try_from(deficit).unwrap_or(i64::MAX), 1);
        } else {
            self.metrics.connection_rejected.add(1);
        }
        is_admitted
    }

    /// Probability with which the throttle refuses a handshake.
    pub(crate) fn drop_probability(&self) -> f64 {
        self.throttle.as_ref().map_or(0.0, |throttle| throttle.lock().drop_chance())
    }

    /// Whether every thread should end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Sleeps for `time`, or until the server stops.
    pub(crate) fn sleep(&self, time: Duration) {
        let mut sleep_lock = self.sleep_lock.lock();
        if !self.is_stopping() {
            self.stopped.wait_for(&mut sleep_lock, time);
        }
    }

    /// Requests every thread to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        drop(self.sleep_lock.lock()); // a thread that has checked the flag before is asleep by now
        self.stopped.notify_all();
        self.inbox.wake();
        self.mailboxes.iter().for_each(Mailbox::wake);
        self.tls.iter().for_each(|tls| tls.wake());
    }

    /// Stops the server because of an error. The first error counts.
    pub(crate) fn fail(&self, fatal: Fatal) {
        tracing::error!(%fatal, "server stops after a fatal error");
        self.metrics.unrecoverable_error_count.add(1);
        self.fatal.lock().get_or_insert(fatal);
        self.stop();
    }

    /// Waits until the server stops. Returns whether a thread may hang.
    pub(crate) fn await_stop(&self) -> bool {
        let mut sleep_lock = self.sleep_lock.lock();
        while !self.is_stopping() {
            self.stopped.wait(&mut sleep_lock);
        }
        drop(sleep_lock);
        matches!(*self.fatal.lock(), Some(Fatal::Stalled(_)))
    }

    pub(crate) fn take_fatal(&self) -> Option<Fatal> {
        self.fatal.lock().take()
    }
}

fn throttle_settings(config: &ConnectionThrottle) -> ThrottleSettings {
    let weights = config.weights.as_ref();
    let weights = weights.map(|by| Weights { new: by.global, renewed: by.renew, local: by.local });
    ThrottleSettings {
        tokens: config.tokens,
        fill_time_ms: config.fill_time_ms,
        fill_count: config.fill_count,
        freeze_time_ms: config.freeze_time_ms,
        drop_increase: config.drop_increase,
        drop_decrease: config.drop_decrease,
        decrease_ratio: config.decrease_ratio,
        weights,
    }
}

/// Stops the server with an error when the thread that owns it ends, by a panic or otherwise.
pub(crate) struct EssentialThread {
    pub(crate) shared: std::sync::Arc<Shared>,
    pub(crate) name: &'static str,
    /// Whether a return of the thread is no error.
    pub(crate) only_panics: bool,
}

impl Drop for EssentialThread {
    fn drop(&mut self) {
        let is_bad = std::thread::panicking() || !(self.only_panics || self.shared.is_stopping());
        if is_bad {
            self.shared.fail(Fatal::Thread(self.name));
        }
    }
}
