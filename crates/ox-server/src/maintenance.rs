//! Housekeeping on slow clocks, each thing on a thread of its own: free space, and old files.

use crate::shared::{Fatal, Shared};
use ox_store::Error;
use std::io;
use std::time::Duration;

/// How often free space is measured. In between the replica counts what it logs; snapshots and others take space too.
const SPACE_CHECK: Duration = Duration::from_secs(1);

/// Measures free space until the server stops.
pub(crate) fn watch_space(shared: &Shared) {
    let mut was_low = false;
    while !shared.is_stopping() {
        was_low = check_space(shared, was_low);
        shared.nap(SPACE_CHECK);
    }
}

/// Removes old files until the server stops. That may take long: everything that is kept is read first.
pub(crate) fn purge_every(shared: &Shared, pause: Duration) {
    while !shared.is_stopping() {
        purge(shared);
        shared.nap(pause);
    }
}

/// Below the low-water mark writes are refused; above it they are taken again.
fn check_space(shared: &Shared, was_low: bool) -> bool {
    let space = match shared.store.space() {
        Ok(space) => space,
        Err(error) if is_gone(&error) => {
            shared.fail(Fatal::Gone(error));
            return was_low;
        }
        Err(error) => {
            tracing::warn!(%error, "cannot measure free space");
            return was_low;
        }
    };
    if space.is_low != was_low {
        let free_bytes = space.free_bytes;
        if space.is_low {
            tracing::error!(free_bytes, "the disk is nearly full: writes are refused until there is space again");
        } else {
            tracing::info!(free_bytes, "there is space again: writes are accepted");
        }
    }
    shared.inbox.put(|input| input.space = Some(space));
    if let Err(error) = shared.store.renew_reserve(&space) {
        tracing::warn!(%error, "cannot set space aside for a full disk");
    }
    space.is_low
}

/// The files of a directory that is gone can still be written to, and nobody will ever read them.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

fn purge(shared: &Shared) {
    let retain = shared.config.autopurge.snap_retain_count as usize;
    match shared.store.purge(retain, &|| shared.is_stopping()) {
        Ok(purged) => tracing::info!(?purged, "Purge task completed"),
        Err(Error::PurgeStopped) => (),
        Err(error) => tracing::error!(%error, "purge failed; nothing needed was removed"),
    }
}
