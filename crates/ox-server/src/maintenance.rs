//! Periodic work: free disk space and refused watches every second, and old files on a thread of their own.

use crate::shared::{Fatal, Shared};
use crate::watchdog::{CHECK_INTERVAL, Heartbeat};
use ox_store::StoreError;
use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

/// Measures free space and reports refused watches, until the server stops. Between two measurements the replica
/// subtracts what it logs; snapshots and other programs use space, too.
pub(crate) fn run_checks(shared: &Shared, heartbeat: &Heartbeat) {
    let (mut was_low, mut reported) = (false, 0);
    while !shared.is_stopping() {
        heartbeat.beat();
        was_low = check_space(shared, was_low);
        reported = log_refused_watches(shared, reported);
        shared.sleep(CHECK_INTERVAL);
    }
}

/// Removes old files until the server stops. That may take long: the files to keep are read first.
pub(crate) fn purge_every(shared: &Shared, pause: Duration) {
    while !shared.is_stopping() {
        purge(shared);
        shared.sleep(pause);
    }
}

/// Below the low-water mark the server refuses writes; above it, it accepts them again.
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
            tracing::error!(
                free_bytes,
                "disk space is low: this member does not lead; free some space in dataDir and dataLogDir"
            );
        } else if space.is_low {
            tracing::error!(
                free_bytes,
                "disk space is low: writes are refused; free some space in dataDir and dataLogDir"
            );
        } else {
            tracing::info!(free_bytes, "disk space is sufficient again");
        }
    }
    if let Err(error) = shared.store.renew_reserve(&space) {
        tracing::warn!(%error, "cannot renew the disk space reserve");
    }
    space.is_low
}

/// Logs one line for all watches refused since the last call. Returns the number refused since the start.
fn log_refused_watches(shared: &Shared, reported: u64) -> u64 {
    let (refused, address) = shared.state.read().watches().lock().refused();
    if let Some(address) = address.filter(|_| reported < refused) {
        let (max, suppressed) = (shared.config.limits.watches_per_address, NonZeroU64::new(refused - reported - 1));
        tracing::warn!(suppressed, "Too many watches from /{address} - max is {max}");
    }
    refused
}

/// Files in a removed directory can still be written to, but no later start would find them.
fn is_gone(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

fn purge(shared: &Shared) {
    let retain = shared.config.autopurge.snap_retain_count as usize;
    match shared.store.purge(retain, &|| shared.is_stopping()) {
        Ok(purged) => tracing::info!(?purged, "Purge task completed"),
        Err(StoreError::PurgeStopped) => (),
        Err(error) => tracing::error!(%error, "purge failed; files that are still needed were kept"),
    }
}
