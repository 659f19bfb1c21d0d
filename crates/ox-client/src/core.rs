//! The session without sockets, clocks and tasks: inputs with the current time in, bytes and effects out.

mod sasl;
mod session;
mod watches;

pub(crate) use sasl::SaslExchange;
pub(crate) use session::{
    Disconnect, Failure, Reply, Request, Session, SessionCredentials, SessionEnd, Settings, SubmitError, SubmitResult,
    Submitted, Waiter, WatchRequest,
};
pub(crate) use watches::{WatchClass, WatchId};

use crate::event::Event;
use ox_proto::SessionId;

/// What the driver performs, in this order.
#[derive(Debug)]
pub(crate) enum Effect<W, S> {
    /// Completes a request with its reply, or with the reason why no reply will follow.
    Complete(W, Result<Reply, Failure>),
    /// Delivers an event to one watcher.
    Event(S, Event),
    /// Delivers the last event of a watcher.
    EndWatch(S, Event),
    /// Publishes a new session state.
    State(Phase),
    /// A server has established the session, and requests wait for the end of SASL.
    Authenticating { read_only: bool },
    /// Precedes the end of the session: why SASL failed.
    SaslFailed(String),
    /// Precedes the end of the session: the scheme of the credentials that a server rejected.
    AuthRejected(Box<str>),
    /// Follows the events of a notification: the notification itself, for readers of all session events.
    Notification(Event),
}

/// Session state as the application sees it. Times are on the driver's clock, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connected { session: SessionId, read_only: bool },
    Suspended { lost_after_ms: i64 },
    Ended(SessionEnd),
}
