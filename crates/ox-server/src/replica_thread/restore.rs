//! A snapshot that an operator restores, from its request until it is durable.

use crate::shared::Shared;
use ox_proto::Zxid;
use ox_tree::State;
use parking_lot::{Mutex, MutexGuard};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How soon a stop of the server is noticed.
const STOP_NOTICED: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(crate) struct Restore {
    /// Held while a state is restored, and while a snapshot on request is written: a snapshot of the old state that is
    /// finished later would be the newest file.
    files: Mutex<()>,
    /// Where to report the end. Set while a state is being restored.
    requester: Mutex<Option<SyncSender<Zxid>>>,
}

impl Restore {
    /// Keeps a restore from beginning.
    pub(crate) fn exclude(&self) -> MutexGuard<'_, ()> {
        self.files.lock()
    }

    /// Whether a state is being restored: no client is served.
    pub(crate) fn is_running(&self) -> bool {
        self.requester.lock().is_some()
    }

    /// The restored state is durable.
    pub(crate) fn on_done(&self, last: Zxid) {
        if let Some(requester) = self.requester.lock().take() {
            let _ = requester.send(last); // the requester may have stopped waiting
        }
    }

    /// Replaces the state, and waits until that is durable. `None` if the server stops.
    pub(crate) fn run(&self, shared: &Shared, state: Box<State>) -> Option<Zxid> {
        let _files = self.files.lock();
        let (sender, receiver) = sync_channel(1);
        *self.requester.lock() = Some(sender);
        shared.inbox.put(|input| input.restore = Some(state));
        loop {
            match receiver.recv_timeout(STOP_NOTICED) {
                Ok(last) => return Some(last),
                Err(RecvTimeoutError::Timeout) if !shared.is_stopping() => (),
                Err(_) => return None,
            }
        }
    }
}
