//! What the server's threads share, and the locks that go with it.
//!
//! Two locks protect data, always taken in this order: `state`, then the watch table inside it. Queues between
//! threads (inbox, mailboxes, log queue, words, register of connections) have a mutex each, held for a swap or a push
//! and never while another lock is taken — except that mailboxes are filled while the state is held, which is what
//! puts events before the state they announce. The traffic by namespace in the metrics has one too, because its names
//! are not known beforehand; a thread takes it once per turn.

use crate::clock::Clock;
use crate::inbox::Inbox;
use crate::mailbox::Mailbox;
use crate::metrics::Metrics;
use crate::register::Register;
use crate::stats::Stats;
use ox_config::Config;
use ox_store::Store;
use ox_tree::State;
use parking_lot::{Mutex, RwLock};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Why a server stopped by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fatal {
    /// The log cannot be written any more: nothing may be acknowledged.
    #[error("the transaction log cannot be written: {0}")]
    Log(#[source] ox_store::Error),
    /// A thread that serves all others ended.
    #[error("thread {0} ended unexpectedly")]
    Thread(&'static str),
}

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) state: RwLock<State>,
    pub(crate) inbox: Inbox,
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) register: Register,
    pub(crate) stats: Stats,
    pub(crate) metrics: Metrics,
    pub(crate) store: Store,
    pub(crate) address: OnceLock<SocketAddr>,
    pub(crate) trace_mask: AtomicU64,
    stopping: AtomicBool,
    fatal: Mutex<Option<Fatal>>,
}

impl Shared {
    pub(crate) fn new(config: Config, state: State, store: Store, mailboxes: Vec<Mailbox>) -> Self {
        Self {
            config,
            clock: Clock::new(),
            state: RwLock::new(state),
            inbox: Inbox::default(),
            mailboxes,
            register: Register::default(),
            stats: Stats::default(),
            metrics: Metrics::default(),
            store,
            address: OnceLock::new(),
            trace_mask: AtomicU64::new(306), // Apache's default
            stopping: AtomicBool::new(false),
            fatal: Mutex::new(None),
        }
    }

    /// True when every thread should end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Asks every thread to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
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

    pub(crate) fn take_fatal(&self) -> Option<Fatal> {
        self.fatal.lock().take()
    }
}
