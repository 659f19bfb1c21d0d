//! After an error the log takes nothing more, whatever the disk would say now (P59).

use super::Finding;
use crate::env::Env;
use crate::outcome::Kind;
use crate::server::log::Log;
use ox_store::StoreError;

pub(crate) fn check(log: &mut Log, _: &Env) -> Result<(), Finding> {
    match log.sync() {
        Err(StoreError::LogFailed) => Ok(()),
        other => Err(Finding::new(Kind::AckAfterDiskError, format!("a failed log was synced again: {other:?}"))),
    }
}
