//! The queue of commands from the replica thread to the peers thread.

use mio::Waker;
use ox_driver::replica_loop::PeerCommand;
use parking_lot::Mutex;

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
