//! Watches belong to connections that are there, or whose end is on its way (P53).

use super::Finding;
use crate::outcome::Kind;
use crate::server::process::Process;
use ox_tree::ConnId;
use std::collections::BTreeSet;

/// While the server works: with no connection left, and no news on their way, nobody watches anything.
pub(crate) fn check(process: &Process) -> Result<(), Finding> {
    let live: BTreeSet<ConnId> = connections(process).collect();
    let all_told = process.inbox.submissions.is_empty() && process.has_told_of_all_ends();
    let watches = process.state.watches().lock();
    if live.is_empty() && all_told && !watches.is_empty() {
        return Err(Finding::new(Kind::WatchResidue, format!("{} watches of nobody", watches.total())));
    }
    if !all_told {
        return Ok(());
    }
    let mut residue = None;
    watches.scan_data_watches(0, usize::MAX, |path, watchers| {
        for dead in watchers.filter(|conn| !live.contains(conn)).take(1) {
            residue = Some(format!("{dead:?} still watches {path}"));
        }
    });
    residue.map_or(Ok(()), |text| Err(Finding::new(Kind::WatchResidue, text)))
}

fn connections(process: &Process) -> impl Iterator<Item = ConnId> {
    process.io.iter().flat_map(|io| &io.connections).flatten().map(|connection| connection.core.id())
}
