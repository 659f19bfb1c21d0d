//! Commands from the replica thread to the peers thread, and events back.

use mio::Waker;
use ox_driver::links::{LinkEvent, Packets};
use ox_proto::ensemble::Ensemble;
use ox_proto::{ServerId, Zxid};
use ox_store::LogDiff;
use ox_tree::{FrozenView, State};
use ox_zab::{LinkId, VoteNotification};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;

/// A command to the peers thread.
pub(crate) enum PeerCommand {
    /// Send a notification to a server.
    Notify(ServerId, VoteNotification),
    /// Open a link to a leader.
    Dial(ServerId),
    /// Send packets on a link.
    Send(LinkId, Packets),
    /// Send SNAP and a snapshot.
    Snapshot(LinkId, FrozenView),
    /// Send transactions from the on-disk log, with their commits.
    LogDiff(LinkId, Box<LogDiff>),
    /// Close a link, even if data is unsent.
    Close(LinkId),
    /// Packets of this many bytes are processed: more may be read.
    Consumed(LinkId, usize),
    /// Open the quorum port, or close the ports for learners.
    Listen(bool),
    /// Open the observer master port.
    ServeObservers,
    /// The committed configuration, and the proposed one that may follow it.
    Config(Arc<Ensemble>, Option<Arc<Ensemble>>),
}

/// An event of the peers thread.
pub(crate) enum PeerEvent {
    /// An election connection has opened or closed.
    Election(ServerId, ox_zab::ElectionConnection),
    /// The link to the leader is open, or the dial failed.
    Dialed(ServerId, Option<LinkId>),
    /// A learner has connected, from this address.
    LearnerConnected(LinkId, Option<SocketAddr>),
    /// The quorum port cannot be bound.
    CannotListen,
    Link(LinkEvent),
    /// The on-disk log was searched up to this zxid, with the diff if it can be sent.
    LogDiffRead(LinkId, Zxid, Option<Box<LogDiff>>),
    /// A snapshot was received and loaded.
    SnapshotLoaded(LinkId, Box<State>),
}

/// The queue of the peers thread, and its waker.
pub(crate) struct PeerCommands {
    waiting: Mutex<Vec<PeerCommand>>,
    waker: Waker,
}

impl PeerCommands {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { waiting: Mutex::new(Vec::new()), waker }
    }

    /// Queues commands, and wakes the thread if the queue was empty.
    pub(crate) fn send(&self, commands: impl IntoIterator<Item = PeerCommand>) {
        let mut waiting = self.waiting.lock();
        let slept = waiting.is_empty();
        waiting.extend(commands);
        let has_work = !waiting.is_empty();
        drop(waiting);
        if slept && has_work {
            self.wake();
        }
    }

    /// Wakes the thread without a command.
    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake the peers thread");
        }
    }

    pub(super) fn take(&self) -> Vec<PeerCommand> {
        std::mem::take(&mut self.waiting.lock())
    }
}
