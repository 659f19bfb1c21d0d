//! A server that is at rest counts no memory for its clients, except for incomplete requests.

use super::Finding;
use crate::outcome::FailureKind;
use crate::server::process::Process;

/// Called while the server is idle.
pub(crate) fn check(process: &Process) -> Result<(), Finding> {
    if process.io.iter().any(|io| io.is_running()) {
        return Ok(()); // growth is counted at the end of an iteration
    }
    let incomplete = process.io.iter().flat_map(|io| io.connections.connections()).map(|conn| conn.received()).sum();
    if process.limits.is_at_rest(incomplete) {
        return Ok(());
    }
    let detail = format!("{incomplete} bytes of incomplete requests, but {:?}", process.limits);
    Err(Finding::new(FailureKind::MemoryResidue, detail))
}
