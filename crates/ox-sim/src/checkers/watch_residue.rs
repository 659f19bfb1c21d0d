//! Watches belong to open connections, or to closed ones that the replica has not processed yet (P53).

use super::Finding;
use crate::outcome::FailureKind;
use crate::server::process::Process;
use ox_replica::ConnId;
use std::collections::BTreeSet;

/// Called while the server runs. Without connections and unprocessed closes, no watch may exist.
pub(crate) fn check(process: &Process) -> Result<(), Finding> {
    let live: BTreeSet<ConnId> = connections(process).collect();
    let all_told = process.inbox.submissions.is_empty() && process.has_reported_all_closes();
    let watches = process.state.watches().lock();
    if live.is_empty() && all_told && !watches.is_empty() {
        return Err(Finding::new(
            FailureKind::WatchResidue,
            format!("{} watches without a connection", watches.total()),
        ));
    }
    if !all_told {
        return Ok(());
    }
    let mut residue = None;
    watches.scan_data_watches(0, usize::MAX, |path, watchers| {
        for dead in watchers.map(ConnId::from).filter(|conn| !live.contains(conn)).take(1) {
            residue = Some(format!("closed connection {dead:?} watches {path}"));
        }
    });
    residue.map_or(Ok(()), |text| Err(Finding::new(FailureKind::WatchResidue, text)))
}

fn connections(process: &Process) -> impl Iterator<Item = ConnId> {
    process.io.iter().flat_map(|io| io.connections.connections()).map(|connection| connection.core().id())
}
