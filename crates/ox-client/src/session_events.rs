//! Session states and events in one stream.

use crate::client::Shared;
use crate::event::{Event, EventKind};
use crate::limits::EVENTS_MAX;
use crate::reader_queue::ReaderQueue;
use crate::state::SessionState;
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// An item of [`Client::session_events`](crate::Client::session_events).
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::SessionEvent;
/// let mut events = client.session_events();
/// while let Some(notice) = events.next().await {
///     match notice {
///         SessionEvent::State(state) => println!("{state:?}"),
///         SessionEvent::Event(event) => println!("{:?} {}", event.kind, event.path),
///         notice => println!("{notice:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The session changed its state.
    State(SessionState),
    /// A notification that at least one watch of this session was waiting for; reported once, however many watches
    /// there are.
    Event(Event),
    /// A server has established the session, and SASL authentication begins. A connected state follows when the server
    /// accepts the client, [`SessionState::AuthFailed`] when it does not.
    Authenticating {
        /// Whether the server is read-only.
        read_only: bool,
    },
    /// A full round over all servers failed to establish a session, for the reasons that
    /// [`Client::connect_failures`](crate::Client::connect_failures) returns. The client keeps trying.
    NoServer,
}

/// A stream of session states and events in the order of their occurrence. It begins with the state at the time of the
/// call of [`Client::session_events`](crate::Client::session_events) and ends after a final state.
///
/// When 4096 items are unread, further items are dropped and replaced by one [`EventKind::Missed`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{SessionEvent, SessionState};
/// let mut events = client.session_events();
/// client.close().await?;
/// assert_eq!(events.next().await, Some(SessionEvent::State(SessionState::Connected)));
/// assert_eq!(events.next().await, Some(SessionEvent::State(SessionState::Closed)));
/// assert_eq!(events.next().await, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SessionEvents {
    shared: Arc<Shared>,
    queue: Arc<ReaderQueue<SessionEvent>>,
}

impl SessionEvents {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let queue = Arc::new(ReaderQueue::new());
        shared.subscribe_events(&queue);
        Self { shared, queue }
    }

    /// Returns the next item, `None` after a final state.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// println!("{:?}", client.session_events().next().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<SessionEvent> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<SessionEvent>> {
        self.queue.poll(cx).map(|notice| match notice {
            Some(SessionEvent::Event(event)) => {
                let path = self.shared.client_path(event.path);
                Some(SessionEvent::Event(Event { path, ..event }))
            }
            other => other,
        })
    }
}

impl Stream for SessionEvents {
    type Item = SessionEvent;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionEvent>> {
        self.poll(cx)
    }
}

/// Appends an item, or `Missed` at the length limit.
pub(crate) fn push_session_event(queue: &ReaderQueue<SessionEvent>, notice: SessionEvent) {
    let is_final = matches!(notice, SessionEvent::State(state) if state.is_final());
    let missed = || SessionEvent::Event(Event::bare(EventKind::Missed));
    queue.update(|queue| match queue.back() {
        _ if is_final || queue.len() < EVENTS_MAX => queue.push_back(notice),
        Some(last) if *last == missed() => (),
        _ => queue.push_back(missed()),
    });
    if is_final {
        queue.end();
    }
}
