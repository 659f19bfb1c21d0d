//! After an error the log accepts nothing more, even if the disk works again (P59).

use super::Finding;
use crate::env::Env;
use crate::outcome::FailureKind;
use crate::server::log::Log;
use ox_store::StoreError;

pub(crate) fn check(log: &mut Log, _: &Env) -> Result<(), Finding> {
    match log.sync() {
        Err(StoreError::LogFailed) => Ok(()),
        other => Err(Finding::new(FailureKind::AckAfterDiskError, format!("a failed log was synced again: {other:?}"))),
    }
}
