//! Prints events of the session: connection changes and watches.
//!
//! A task prints events when they are received. A command calls [`Events::catch_up`] before it prints, so that an event
//! always precedes the output of the command that caused it.

use crate::output::{Output, Paint};
use ox_client::{Client, Event, EventKind, SessionEvent, SessionEvents, SessionState};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::sync::watch;

/// The state of the connection, for commands that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// No server was tried yet.
    Unknown,
    /// Connected to a server.
    Connected,
    /// A full round over all servers failed.
    NoServer,
    /// The session has ended.
    Ended,
}

/// How events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStyle {
    /// As `zkCli` does, on standard output.
    ZkCli,
    /// Events of watches, in one line on standard error.
    Script,
    /// Events of watches and changes of the connection, in one line each.
    Terminal,
}

/// Prints the events of one session.
#[derive(Debug)]
pub struct Events {
    inner: Mutex<Inner>,
    out: Output,
    prints: Arc<AtomicBool>,
    style: EventStyle,
    /// Whether the connection was lost since the session began.
    was_lost: AtomicBool,
    /// Whether SASL authentication of this connection has begun, so that a connected state is its success.
    is_authenticating: AtomicBool,
    standing: watch::Sender<ConnectionStatus>,
}

#[derive(Debug)]
struct Inner {
    session_events: SessionEvents,
    /// Waker of the printing task.
    printer: Option<Waker>,
}

impl Events {
    /// Starts to print. `prints` turns it on and off.
    ///
    /// # Panics
    /// When called outside of a tokio runtime.
    pub fn follow(client: &Client, out: Output, prints: Arc<AtomicBool>, style: EventStyle) -> Arc<Self> {
        let inner = Mutex::new(Inner { session_events: client.session_events(), printer: None });
        let (standing, _) = watch::channel(ConnectionStatus::Unknown);
        let events = Arc::new(Self {
            inner,
            out,
            prints,
            style,
            was_lost: AtomicBool::default(),
            is_authenticating: AtomicBool::default(),
            standing,
        });
        let printer = Arc::clone(&events);
        tokio::spawn(async move { std::future::poll_fn(|cx| printer.poll(cx)).await });
        events
    }

    /// Prints pending events; ready when no further events follow.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        inner.printer = Some(cx.waker().clone());
        self.print(&mut inner)
    }

    /// Prints all events received so far.
    pub fn catch_up(&self) {
        let _ = self.print(&mut self.inner.lock());
    }

    fn print(&self, inner: &mut Inner) -> Poll<()> {
        // Registers the printing task's waker whichever caller prints, because the task handles the next event.
        let waker = inner.printer.clone().unwrap_or_else(|| Waker::noop().clone());
        let mut cx = Context::from_waker(&waker);
        loop {
            let event = match pin!(inner.session_events.next()).poll(&mut cx) {
                Poll::Ready(Some(event)) => event,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            };
            let line = match self.style {
                EventStyle::ZkCli => self.zkcli_line(&event),
                EventStyle::Script | EventStyle::Terminal => self.native_line(&event),
            };
            if let Some(line) = line
                && self.prints.load(Ordering::Relaxed)
            {
                self.show(&line);
            }
            self.update_status(&event);
        }
    }

    /// Compat: with SASL, the event of the connection precedes that of the authentication.
    fn zkcli_line(&self, event: &SessionEvent) -> Option<String> {
        let is_authenticating = self.is_authenticating.swap(false, Ordering::Relaxed);
        match event {
            SessionEvent::Authenticating { read_only } => {
                self.is_authenticating.store(true, Ordering::Relaxed);
                let state = if *read_only { SessionState::ConnectedReadOnly } else { SessionState::Connected };
                line(&SessionEvent::State(state))
            }
            SessionEvent::State(state) if state.is_connected() && is_authenticating => {
                Some(text("SaslAuthenticated", "None", "null", -1))
            }
            SessionEvent::State(_) | SessionEvent::Event(_) | SessionEvent::NoServer | _ => line(event),
        }
    }

    fn update_status(&self, event: &SessionEvent) {
        if matches!(event, SessionEvent::State(SessionState::Suspended { .. })) {
            self.was_lost.store(true, Ordering::Relaxed);
        }
        let standing = match event {
            SessionEvent::State(state) if state.is_connected() => ConnectionStatus::Connected,
            SessionEvent::State(state) if state.is_final() => ConnectionStatus::Ended,
            SessionEvent::State(_) => ConnectionStatus::Unknown,
            SessionEvent::NoServer => ConnectionStatus::NoServer,
            SessionEvent::Event(_) | _ => return,
        };
        self.standing.send_replace(standing);
    }

    /// Subscribes to the state of the connection.
    pub fn status(&self) -> watch::Receiver<ConnectionStatus> {
        self.standing.subscribe()
    }

    /// Prints the removal of a watch, for which no server sends an event. The native style leaves that to the command.
    pub fn removed(&self, kind: &str, path: &str) {
        if self.prints.load(Ordering::Relaxed) && self.style == EventStyle::ZkCli {
            self.show(&text("SyncConnected", kind, path, -1));
        }
    }

    fn show(&self, line: &str) {
        match self.style {
            EventStyle::ZkCli => {
                self.out.event(&format!("\n{}\n\n{}\n", self.out.paint(Paint::Event, "WATCHER::"), line));
            }
            EventStyle::Terminal => self.out.event(&(self.out.paint(Paint::Event, line) + "\n")),
            EventStyle::Script => self.out.info(line),
        }
    }

    /// Formats an event in the native style. The shell itself reports the first connection of a session.
    fn native_line(&self, event: &SessionEvent) -> Option<String> {
        match event {
            SessionEvent::Event(Event { kind, path, .. }) => {
                let what = match kind {
                    EventKind::NodeCreated => "was created",
                    EventKind::NodeDeleted => "was deleted",
                    EventKind::NodeDataChanged => "has new data",
                    EventKind::NodeChildrenChanged => "has new or fewer children",
                    EventKind::Missed | EventKind::WatchRemoved | EventKind::SessionEnded | _ => return None,
                };
                Some(format!("event: {} {what}", self.out.escape_untrusted(path)))
            }
            SessionEvent::State(state) if self.style == EventStyle::Terminal => {
                let text = match state {
                    SessionState::Connected if self.was_lost.load(Ordering::Relaxed) => "connected again",
                    SessionState::ConnectedReadOnly => "connected to a read-only server",
                    SessionState::Suspended { .. } => "connection lost; reconnecting",
                    SessionState::Expired => {
                        "session expired, with its watches and ephemeral nodes; `connect` opens another"
                    }
                    SessionState::AuthFailed => {
                        "authentication failed, which ends the session; `connect` opens another"
                    }
                    SessionState::Connected | SessionState::Closed | SessionState::Connecting | _ => return None,
                };
                Some(text.to_owned())
            }
            SessionEvent::State(_) | SessionEvent::NoServer | _ => None,
        }
    }
}

/// Formats an event as a line, if users see it.
fn line(event: &SessionEvent) -> Option<String> {
    match event {
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
