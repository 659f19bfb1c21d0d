//! Nothing is part of the state, and so nothing can be shown to anybody, before the disk holds it (P13, P54).

use super::Finding;
use crate::outcome::Kind;
use crate::server::Track;
use crate::server::process::Process;

pub(crate) fn check(process: &Process, track: &Track) -> Result<(), Finding> {
    let shown = process.state.last_zxid();
    if shown <= track.synced {
        return Ok(());
    }
    Err(Finding::new(Kind::AckedNotDurable, format!("{shown} is applied, the disk holds {}", track.synced)))
}
