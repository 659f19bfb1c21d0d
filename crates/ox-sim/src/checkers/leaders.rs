//! Each epoch has one established leader (P1). Its history is durable and contains everything of earlier epochs that
//! clients could see (P9, P10).

use super::Finding;
use crate::env::Env;
use crate::event::ProcessId;
use crate::outcome::FailureKind;
use crate::server::ExpectedDisk;
use ox_zab::Epoch;

pub(crate) fn check(env: &mut Env, expected: &ExpectedDisk, pid: ProcessId, epoch: Epoch) -> Result<(), Finding> {
    if let Some(other) = env.leaders.insert(epoch.0, pid) {
        return Err(Finding::new(FailureKind::TwoLeaders, format!("{other:?} and {pid:?} lead epoch {epoch}")));
    }
    // A leader that is established late may lack transactions of a later leader; it will commit nothing.
    let shown = env.reference_log.truncated_end(env.reference_log.shown, epoch.start());
    if !env.reference_log.contains(expected.last, shown) {
        let detail = format!("the leader of epoch {epoch} has a history up to {}, without {shown}", expected.last);
        return Err(Finding::new(FailureKind::LeaderIncomplete, detail));
    }
    if expected.synced < expected.last {
        let detail =
            format!("the leader of epoch {epoch} starts at {}, its disk has {}", expected.last, expected.synced);
        return Err(Finding::new(FailureKind::SentNotDurable, detail));
    }
    Ok(())
}
