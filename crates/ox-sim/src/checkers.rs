//! Invariants that hold at every step, one per file. What clients observe is checked at the end, by `ox-history`.

pub(crate) mod acked_is_durable;
pub(crate) mod apply_order;
pub(crate) mod configs;
pub(crate) mod digest;
pub(crate) mod disk_error;
pub(crate) mod elections;
pub(crate) mod ephemerals;
pub(crate) mod equality;
pub(crate) mod leaders;
pub(crate) mod liveness;
pub(crate) mod log_on_disk;
pub(crate) mod memory_residue;
pub(crate) mod no_false_expiry;
pub(crate) mod outage;
pub(crate) mod quorums;
pub(crate) mod restorable;
pub(crate) mod sent_is_durable;
pub(crate) mod timeliness;
pub(crate) mod watch_residue;

use crate::env::Env;
use crate::outcome::FailureKind;
use crate::server::ExpectedDisk;
use crate::server::process::Process;
use ox_proto::Zxid;

#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: FailureKind,
    pub(crate) detail: String,
}

impl Finding {
    pub(crate) fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    pub(crate) fn report(self, env: &mut Env) {
        env.fail(self.kind, self.detail);
    }
}

/// Checks after each batch of applied transactions.
pub(crate) fn after_apply(process: &Process, env: &mut Env, expected: &ExpectedDisk, before: Zxid, applied: usize) {
    let thorough = process.state.node_count() < 100 || env.rng.chance(100);
    let checked = acked_is_durable::check(process, expected)
        .and_then(|()| apply_order::check(process, &env.reference_log, before, applied))
        .and_then(|()| if thorough { ephemerals::check(process) } else { Ok(()) })
        .and_then(|()| if thorough { digest::check(process) } else { Ok(()) })
        .and_then(|()| watch_residue::check(process));
    if let Err(finding) = checked {
        finding.report(env);
    }
}
