//! Requests to read the stores of TLS again, for the thread that owns them.

use ox_tls::{ReloadOutcome, Reloader};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Longer than the interval of the thread's checks, and than reading files takes.
const REPLY_LIMIT: Duration = Duration::from_secs(10);

/// Whether other certificates are used now, or why not.
pub(crate) type StoreReload = Result<bool, String>;

/// Why stores cannot be used.
pub(crate) struct StoreFailure {
    pub(crate) reason: String,
    /// Whether it was reported before.
    pub(crate) is_known: bool,
}

#[derive(Default)]
pub(crate) struct StoreReloads(Mutex<Vec<SyncSender<StoreReload>>>);

impl StoreReloads {
    /// Waits until the thread has read the stores.
    pub(crate) fn request(&self) -> StoreReload {
        let (sender, receiver) = sync_channel(1);
        self.0.lock().push(sender);
        receiver.recv_timeout(REPLY_LIMIT).unwrap_or_else(|_| Err("the stores were not read in time".to_owned()))
    }

    /// The requests since the last call.
    pub(crate) fn take(&self) -> Vec<SyncSender<StoreReload>> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Reads stores again. `failure` keeps the error of files that have not changed since, which the stores report once.
pub(crate) fn poll<T>(
    stores: &mut Reloader<T>,
    failure: &mut Option<String>,
    replace: impl FnOnce(&Arc<T>),
) -> Result<bool, StoreFailure> {
    match stores.poll() {
        Ok(ReloadOutcome::Unchanged) => {
            failure.clone().map_or(Ok(false), |reason| Err(StoreFailure { reason, is_known: true }))
        }
        Ok(ReloadOutcome::Replaced) => {
            *failure = None;
            replace(stores.current());
            Ok(true)
        }
        Err(reason) => {
            *failure = Some(reason.to_string());
            Err(StoreFailure { reason: reason.to_string(), is_known: false })
        }
    }
}
