//! A transaction is durable before it is applied, so clients never see a transaction that a crash could lose (P13,
//! P54).

use super::Finding;
use crate::outcome::FailureKind;
use crate::server::ExpectedDisk;
use crate::server::process::Process;

pub(crate) fn check(process: &Process, expected: &ExpectedDisk) -> Result<(), Finding> {
    let shown = process.state.last_zxid();
    if shown <= expected.synced {
        return Ok(());
    }
    Err(Finding::new(FailureKind::AckedNotDurable, format!("{shown} is applied, the disk holds {}", expected.synced)))
}
