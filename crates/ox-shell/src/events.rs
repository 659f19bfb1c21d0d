//! What the session learns, as lines: the connection, and watched nodes.
//!
//! A task prints events whenever they come. A command that is about to print first lets [`Events::catch_up`] print what came
//! before its answer, so that an event always stands above the output of the command that has caused it.

use crate::output::{Output, Paint};
use ox_client::{Client, Event, EventKind, SessionEvent, SessionEvents, SessionState};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::sync::watch;

/// How a session stands, for those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody knows yet.
    Unknown,
    /// There is a connection.
    Connected,
    /// No server answers.
    NoServer,
    /// It is over.
    Over,
}

/// The events of one session.
#[derive(Debug)]
pub struct Events {
    inner: Mutex<Inner>,
    out: Output,
    prints: Arc<AtomicBool>,
    standing: watch::Sender<Standing>,
}

#[derive(Debug)]
struct Inner {
    notices: SessionEvents,
    /// Wakes the task that prints.
    printer: Option<Waker>,
}

impl Events {
    /// Begins to print. `prints` turns it on and off.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn follow(client: &Client, out: Output, prints: Arc<AtomicBool>) -> Arc<Self> {
        let inner = Mutex::new(Inner { notices: client.session_events(), printer: None });
        let (standing, _) = watch::channel(Standing::Unknown);
        let events = Arc::new(Self { inner, out, prints, standing });
        let printer = Arc::clone(&events);
        tokio::spawn(async move { std::future::poll_fn(|cx| printer.poll(cx)).await });
        events
    }

    /// Prints what there is; ready when nothing will follow.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        inner.printer = Some(cx.waker().clone());
        self.print(&mut inner)
    }

    /// Prints everything that has come until now.
    pub fn catch_up(&self) {
        let _ = self.print(&mut self.inner.lock());
    }

    fn print(&self, inner: &mut Inner) -> Poll<()> {
        // Whoever prints: the task must be woken by what comes next.
        let waker = inner.printer.clone().unwrap_or_else(|| Waker::noop().clone());
        let mut cx = Context::from_waker(&waker);
        loop {
            let notice = match pin!(inner.notices.next()).poll(&mut cx) {
                Poll::Ready(Some(notice)) => notice,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            };
            if let Some(line) = line(&notice)
                && self.prints.load(Ordering::Relaxed)
            {
                self.show(&line);
            }
            self.stands(&notice);
        }
    }

    fn stands(&self, notice: &SessionEvent) {
        let standing = match notice {
            SessionEvent::State(state) if state.is_connected() => Standing::Connected,
            SessionEvent::State(state) if state.is_final() => Standing::Over,
            SessionEvent::State(_) => Standing::Unknown,
            SessionEvent::NoServer => Standing::NoServer,
            SessionEvent::Event(_) | _ => return,
        };
        self.standing.send_replace(standing);
    }

    /// How the session stands, now and later.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// An event that no server tells of: a watch is gone.
    pub fn removed(&self, kind: &str, path: &str) {
        if self.prints.load(Ordering::Relaxed) {
            self.show(&text("SyncConnected", kind, path, -1));
        }
    }

    fn show(&self, line: &str) {
        self.out.event(&format!("\n{}\n\n{}\n", self.out.paint(Paint::Event, "WATCHER::"), line));
    }
}

/// The line about a notice, if it is for users.
fn line(notice: &SessionEvent) -> Option<String> {
    match notice {
        SessionEvent::State(state) => {
            let state = match state {
                SessionState::Connected => "SyncConnected",
                SessionState::ConnectedReadOnly => "ConnectedReadOnly",
                SessionState::Suspended { .. } => "Disconnected",
                SessionState::Expired => "Expired",
                SessionState::AuthFailed => "AuthFailed",
                SessionState::Closed => "Closed",
                SessionState::Connecting | _ => return None,
            };
            Some(text(state, "None", "null", -1))
        }
        SessionEvent::Event(Event { kind, path, zxid }) => {
            let kind = match kind {
                EventKind::NodeCreated => "NodeCreated",
                EventKind::NodeDeleted => "NodeDeleted",
                EventKind::NodeDataChanged => "NodeDataChanged",
                EventKind::NodeChildrenChanged => "NodeChildrenChanged",
                EventKind::Missed | EventKind::WatchRemoved | EventKind::SessionEnded | _ => return None,
            };
            Some(text("SyncConnected", kind, path, zxid.map_or(-1, |zxid| zxid.0)))
        }
        SessionEvent::NoServer | _ => None,
    }
}

fn text(state: &str, kind: &str, path: &str, zxid: i64) -> String {
    format!("WatchedEvent state:{state} type:{kind} path:{path} zxid: {zxid}")
}
