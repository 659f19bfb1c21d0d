//! Housekeeping on slow clocks: free space and refused watches every second, and on a thread of its own old files.

use crate::shared::{Fatal, Shared};
use crate::watchdog::{CHECK_INTERVAL, Heartbeat};
use ox_store::Error;
use std::io;
use std::time::Duration;

/// Measures free space, and tells of watches that were refused, until the server stops. Between two measurements the
/// replica counts what it logs; snapshots and others take space too.
pub(crate) fn run_checks(shared: &Shared, heartbeat: &Heartbeat) {
    let (mut was_low, mut told) = (false, 0);
    while !shared.is_stopping() {
        heartbeat.beat();
        was_low = check_space(shared, was_low);
        told = tell_refused_watches(shared, told);
        shared.sleep(CHECK_INTERVAL);
    }
}

/// Removes old files until the server stops. That may take long: everything that is kept is read first.
pub(crate) fn purge_every(shared: &Shared, pause: Duration) {
    while !shared.is_stopping() {
        purge(shared);
        shared.sleep(pause);
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
    shared.inbox.put(|input| input.space = Some(space));
    if space.is_low != was_low {
        let free_bytes = space.free_bytes;
        if space.is_low && shared.config.member.is_some() {
            tracing::error!(free_bytes, "the disk is nearly full: others shall lead until there is space again");
        } else if space.is_low {
            tracing::error!(free_bytes, "the disk is nearly full: writes are refused until there is space again");
        } else {
            tracing::info!(free_bytes, "there is space again");
        }
    }
    if let Err(error) = shared.store.renew_reserve(&space) {
        tracing::warn!(%error, "cannot set space aside for a full disk");
    }
    space.is_low
}

/// One line for all watches that were refused since the last look. Returns how many there were ever.
fn tell_refused_watches(shared: &Shared, told: u64) -> u64 {
    let (refused, address) = shared.state.read().watches().lock().refused();
    if let Some(address) = address.filter(|_| told < refused) {
        let (max, suppressed) = (shared.config.limits.watches_per_address, refused - told - 1);
        tracing::warn!(suppressed, "Too many watches from /{address} - max is {max}");
    }
    refused
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
