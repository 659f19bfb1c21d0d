//! The state of a client, and the stream of its changes.

use crate::limits::STATES_MAX;
use crate::reader_queue::Feed;
use futures_core::Stream;
use ox_proto::limits::PASSWORD_BYTES;
use ox_proto::{SessionId, Zxid};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Where a client stands.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::State;
/// if let State::Suspended { lost_after } = client.state() {
///     println!("what this session holds is safe until {lost_after:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No server has given it a session yet.
    Connecting,
    /// Connected, with a session.
    Connected,
    /// Connected to a server that lost the others: reads are answered, writes are not. The others do not hear of this client, so
    /// the session's time runs on: see [`Client::session_lost_after`](crate::Client::session_lost_after).
    ConnectedReadOnly,
    /// The connection is lost, the session may be alive.
    Suspended {
        /// From this moment on the session must be assumed lost: a server may have given the client up, and others
        /// may have taken over what it held. It is counted from the last request that is known to have reached a server.
        lost_after: Instant,
    },
    /// The session is over, with its ephemeral nodes and watches. Final.
    Expired,
    /// A server did not accept the credentials. Final.
    AuthFailed,
    /// [Closed](crate::Client::close). Final.
    Closed,
}

impl State {
    /// Whether there is a connection.
    ///
    /// ```
    /// use ox_client::State;
    /// assert!(State::ConnectedReadOnly.is_connected() && !State::Connecting.is_connected());
    /// ```
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::ConnectedReadOnly)
    }

    /// Whether nothing follows.
    ///
    /// ```
    /// use ox_client::State;
    /// assert!(State::Expired.is_final() && !State::Connected.is_final());
    /// ```
    pub fn is_final(self) -> bool {
        matches!(self, Self::Expired | Self::AuthFailed | Self::Closed)
    }
}

/// Every state of a client in order, beginning with the one it was in when
/// [`Client::states`](crate::Client::states) was called. It ends behind a final state.
///
/// No transition is left out, however slowly the stream is read, until 256 of them wait: then the oldest go.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// use ox_client::{Client, State};
/// let client = Client::connect(&server.address().to_string()).await?;
/// let mut states = client.states();
/// assert_eq!(states.next().await, Some(State::Connected));
/// client.close().await?;
/// assert_eq!(states.next().await, Some(State::Closed));
/// assert_eq!(states.next().await, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct States(Arc<Feed<State>>);

impl States {
    pub(crate) fn new(feed: Arc<Feed<State>>) -> Self {
        Self(feed)
    }

    /// The next state, `None` behind a final one.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut states = client.states();
    /// println!("{:?}", states.next().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<State> {
        std::future::poll_fn(|cx| self.0.poll(cx)).await
    }
}

impl Stream for States {
    type Item = State;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<State>> {
        self.0.poll(cx)
    }
}

/// Tells a reader of a new state.
pub(crate) fn tell(feed: &Feed<State>, state: State) {
    feed.put(|queue| {
        if STATES_MAX <= queue.len() {
            queue.pop_front();
        }
        queue.push_back(state);
    });
    if state.is_final() {
        feed.end();
    }
}

/// What another client needs to go on with a session: see [`Builder::resume`](crate::Builder::resume).
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let ticket = client.detach().expect("there is a session");
/// let builder = ox_client::Client::builder().servers("zk1")?.resume(ticket);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionTicket {
    /// The session.
    pub id: SessionId,
    /// Its password. Whoever has it can take the session.
    pub password: [u8; PASSWORD_BYTES],
    /// The time after which servers give a silent client up.
    pub timeout: Duration,
    /// The newest transaction the client has seen: no server that is behind it will be used.
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
