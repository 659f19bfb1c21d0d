//! What the replica asks the peers thread to do, and what it is told.

use mio::Waker;
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use ox_store::StoredHistory;
use ox_tree::{FrozenView, State};
use ox_zab::{LinkId, Message, Traffic, VoteNotification};
use parking_lot::Mutex;
use std::sync::Arc;

/// Encoded packets of one link.
#[derive(Default)]
pub(crate) struct Packets {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u64,
    /// What they count in the send window of the link.
    pub(crate) flow_bytes: usize,
}

impl Packets {
    pub(crate) fn put(&mut self, message: &Message) {
        message.put(&mut self.bytes);
        self.count += message.packets();
        self.flow_bytes += message.flow_bytes();
    }
}

impl From<&Message> for Packets {
    fn from(message: &Message) -> Self {
        let mut packets = Self::default();
        packets.put(message);
        packets
    }
}

/// An order.
pub(crate) enum Command {
    /// Tell a server on the election port.
    Notify(ServerId, VoteNotification),
    /// Connect to a leader.
    Dial(ServerId),
    /// Send packets.
    Send(LinkId, Packets),
    /// Send a state, and say where it is.
    Snapshot(LinkId, FrozenView),
    /// Send stored transactions, with their commits.
    Stored(LinkId, Box<StoredHistory>),
    /// Hang up, when everything is sent or not.
    Close(LinkId),
    /// So many bytes of packets are done with.
    Consumed(LinkId, usize),
    /// Let learners connect; or nobody any more.
    Listen(bool),
    /// Let observers connect.
    ServeObservers,
    /// This configuration is in force, and this one may follow.
    Config(Arc<Ensemble>, Option<Arc<Ensemble>>),
}

/// What happened.
pub(crate) enum Event {
    /// An election connection has come up or gone down.
    Election(ServerId, ox_zab::ElectionConnection),
    /// The leader was reached, or not.
    Dialed(ServerId, Option<LinkId>),
    /// A learner has connected.
    Linked(LinkId),
    /// Nobody can connect.
    CannotListen,
    /// A connection is gone.
    Gone(LinkId),
    /// Bytes have gone or come.
    Progress(LinkId, Traffic),
    /// The socket has taken packets that count so much in the link's send window.
    Sent(LinkId, usize),
    /// The stored log has been looked into, up to this transaction.
    LookedUp(LinkId, Zxid, Option<Box<StoredHistory>>),
    /// Packets, and how many bytes they hold.
    Messages(LinkId, Vec<Message>, usize),
    /// A state has come in.
    Loaded(LinkId, Box<State>),
}

/// Orders that wait, and how to wake who takes them.
pub(crate) struct Orders {
    waiting: Mutex<Vec<Command>>,
    waker: Waker,
}

impl Orders {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waiting: Mutex::new(Vec::new()), waker }
    }

    /// Gives orders.
    pub(crate) fn give(&self, commands: impl IntoIterator<Item = Command>) {
        let mut waiting = self.waiting.lock();
        let slept = waiting.is_empty();
        waiting.extend(commands);
        let has_work = !waiting.is_empty();
        drop(waiting);
        if slept && has_work {
            self.wake();
        }
    }

    /// Makes the thread look around.
    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake the peers thread");
        }
    }

    pub(super) fn take(&self) -> Vec<Command> {
        std::mem::take(&mut self.waiting.lock())
    }
}
