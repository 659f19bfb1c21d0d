//! After an error the log accepts nothing more, even if the disk works again (P59).

use super::Finding;
use crate::env::Env;
use crate::outcome::FailureKind;
use ox_driver::log_writer::LogWriter;
use ox_store::StoreError;

pub(crate) fn check(log: &mut LogWriter, _: &Env) -> Result<(), Finding> {
    match log.sync() {
        Err(StoreError::LogFailed) => Ok(()),
        other => {
            let other = other.map(|durable| durable.synced);
            Err(Finding::new(FailureKind::AckAfterDiskError, format!("a failed log was synced again: {other:?}")))
        }
    }
}
