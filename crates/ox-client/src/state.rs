//! Session states, and the stream of their changes.

use crate::limits::STATES_MAX;
use crate::reader_queue::ReaderQueue;
use futures_core::Stream;
use ox_proto::limits::PASSWORD_BYTES;
use ox_proto::{SessionId, Zxid};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The state of a session, as far as the client knows.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::SessionState;
/// if let SessionState::Suspended { lost_after } = client.state() {
///     println!("this session keeps its ephemeral nodes until {lost_after:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// No session is established yet.
    Connecting,
    /// Connected to a read-write server.
    Connected,
    /// Connected to a read-only server: it answers reads and rejects writes. It cannot keep the session alive on the
    /// leader, so [`Client::session_lost_after`](crate::Client::session_lost_after) does not move forward.
    ConnectedReadOnly,
    /// The connection is lost; the session may still be alive.
    Suspended {
        /// After this moment the session must be assumed expired, and other clients may have taken over what it held.
        /// It is one session timeout after the last request that is known to have reached a read-write server.
        lost_after: Instant,
    },
    /// The session expired, with its ephemeral nodes and watches. Final.
    Expired,
    /// A server rejected the credentials. Final.
    AuthFailed,
    /// The application [closed](crate::Client::close) the client. Final.
    Closed,
}

impl SessionState {
    /// Whether the client is connected to a server.
    ///
    /// ```
    /// use ox_client::SessionState;
    /// assert!(SessionState::ConnectedReadOnly.is_connected() && !SessionState::Connecting.is_connected());
    /// ```
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::ConnectedReadOnly)
    }

    /// Whether no other state can follow.
    ///
    /// ```
    /// use ox_client::SessionState;
    /// assert!(SessionState::Expired.is_final() && !SessionState::Connected.is_final());
    /// ```
    pub fn is_final(self) -> bool {
        matches!(self, Self::Expired | Self::AuthFailed | Self::Closed)
    }
}

/// A stream of session states in order. It begins with the state at the time of the call of
/// [`Client::states`](crate::Client::states) and ends after a final state.
///
/// No transition is skipped for a slow reader until 256 are unread; beyond that, the oldest are dropped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// use ox_client::{Client, SessionState};
/// let client = Client::connect(&server.address().to_string()).await?;
/// let mut states = client.states();
/// assert_eq!(states.next().await, Some(SessionState::Connected));
/// client.close().await?;
/// assert_eq!(states.next().await, Some(SessionState::Closed));
/// assert_eq!(states.next().await, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SessionStates(Arc<ReaderQueue<SessionState>>);

impl SessionStates {
    pub(crate) fn new(queue: Arc<ReaderQueue<SessionState>>) -> Self {
        Self(queue)
    }

    /// Returns the next state, `None` after a final one.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut states = client.states();
    /// println!("{:?}", states.next().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<SessionState> {
        std::future::poll_fn(|cx| self.0.poll(cx)).await
    }
}

impl Stream for SessionStates {
    type Item = SessionState;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionState>> {
        self.0.poll(cx)
    }
}

/// Appends a state, dropping the oldest at the length limit.
pub(crate) fn push_state(queue: &ReaderQueue<SessionState>, state: SessionState) {
    queue.update(|queue| {
        if STATES_MAX <= queue.len() {
            queue.pop_front();
        }
        queue.push_back(state);
    });
    if state.is_final() {
        queue.end();
    }
}

/// What another client needs to resume a session; see [`Builder::resume`](crate::Builder::resume).
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = client.detach().expect("the session is established");
/// let builder = ox_client::Client::builder().servers("zk1")?.resume(ticket);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionTicket {
    /// The id of the session.
    pub id: SessionId,
    /// The session password. Anyone who has it can take over the session.
    pub password: [u8; PASSWORD_BYTES],
    /// The granted timeout: servers expire the session of a client that is silent for longer.
    pub timeout: Duration,
    /// The newest zxid that the client has seen; it does not connect to servers that are behind.
    pub last_zxid: Zxid,
}

impl fmt::Debug for SessionTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, timeout, last_zxid, .. } = self;
        f.debug_struct("SessionTicket")
            .field("id", &format_args!("{id}"))
            .field("timeout", timeout)
            .field("last_zxid", &format_args!("{last_zxid}"))
            .finish_non_exhaustive()
    }
}
