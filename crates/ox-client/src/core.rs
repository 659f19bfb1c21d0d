//! The session without sockets, clocks and tasks: inputs with the time in, bytes and effects out.

mod session;
mod watches;

pub(crate) use session::{
    Ask, Ending, Failure, Identity, Lost, Refused, Reply, Session, Settings, Submitted, Taken, Waiter, WatchAsk,
};
pub(crate) use watches::{Class, WatchId};

use crate::event::Event;
use ox_proto::SessionId;

/// What the driver has to do, in this order.
#[derive(Debug)]
pub(crate) enum Effect<W, S> {
    /// A request is answered, or never will be.
    Done(W, Result<Reply, Failure>),
    /// An event for one watcher.
    Event(S, Event),
    /// Nothing more will come for this watcher.
    End(S, Event),
    /// The session has changed.
    State(Phase),
    /// Behind the events of a notification: what it was, for those who listen to all of them.
    Heard(Event),
}

/// What the application is told about the session. Times are those of the driver's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connected { session: SessionId, read_only: bool },
    Suspended { lost_after_ms: i64 },
    Over(Ending),
}
