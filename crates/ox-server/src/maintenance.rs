//! Periodic work: free disk space, refused watches and the keytabs every second, and old files on a thread of their own.

use crate::shared::{Fatal, Shared};
use crate::status::prometheus::ROTATION;
use crate::watchdog::{CHECK_INTERVAL, Heartbeat};
use ox_driver::space_check::{SpaceCheck, SpaceError};
use ox_store::StoreError;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Measures free space and reports refused watches, until the server stops.
pub(crate) fn run_checks(shared: &Shared, heartbeat: &Heartbeat) {
    let (mut space_check, mut reported) = (SpaceCheck::new(shared.config.member.is_some()), 0);
    let mut rotated = Instant::now();
    while !shared.is_stopping() {
        heartbeat.beat();
        check_space(shared, &mut space_check);
        if let Some(sasl) = &shared.sasl {
            sasl.refresh_keytab();
        }
        if let Some(sasl) = shared.peer_security.get().and_then(|security| security.sasl.as_ref()) {
            sasl.refresh_keytab();
        }
        reported = log_refused_watches(shared, reported);
        if ROTATION <= rotated.elapsed() {
            rotated = Instant::now();
            shared.quantile_windows.lock().rotate(&shared.metrics);
        }
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

fn check_space(shared: &Shared, check: &mut SpaceCheck) {
    let space = match SpaceCheck::measure(&shared.store) {
        Ok(space) => space,
        Err(SpaceError::Gone(error)) => return shared.fail(Fatal::Gone(error)),
        Err(SpaceError::Failed(error)) => return tracing::warn!(%error, "cannot measure free space"),
    };
    shared.disk_trend.lock().note(shared.clock.elapsed(), space.free_bytes);
    shared.inbox.put(|input| input.space = Some(space));
    check.log_change(&space);
    if let Err(error) = shared.store.renew_reserve(&space) {
        tracing::warn!(%error, "cannot renew the disk space reserve");
    }
}

/// Logs one line for all watches refused since the last call. Returns the number refused since the start.
fn log_refused_watches(shared: &Shared, reported: u64) -> u64 {
    let watches_max = shared.live().watches_per_address;
    let (refused, address) = {
        let state = shared.state.read();
        let mut watches = state.watches().lock();
        watches.set_address_limit(watches_max as usize); // a state that a snapshot has replaced has the limit of the start
        watches.refused()
    };
    if let Some(address) = address.filter(|_| reported < refused) {
        let (max, suppressed) = (watches_max, NonZeroU64::new(refused - reported - 1));
        tracing::warn!(%address, max, suppressed, "watch refused: too many watches from one address");
    }
    refused
}

fn purge(shared: &Shared) {
    let retain = shared.config.autopurge.snap_retain_count as usize;
    match shared.store.purge(retain, &|| shared.is_stopping()) {
        Ok(purged) => {
            for (file, error) in &purged.failed {
                tracing::warn!(file = %file.display(), %error, "cannot remove a file; the next purge tries again");
            }
            tracing::info!(removed = purged.removed.len(), failed = purged.failed.len(), "Purge task completed");
        }
        Err(StoreError::PurgeStopped) => (),
        Err(error) => tracing::error!(%error, "purge failed; files that are still needed were kept"),
    }
}
