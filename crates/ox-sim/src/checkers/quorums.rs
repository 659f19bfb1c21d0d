//! What a server treats as decided is on the disks of a quorum (P3, P20): the voters that establish a leader have
//! stored its epoch, and clients see only transactions that a quorum has stored.
//!
//! The check reads all disks after the step that made the decision.

use super::Finding;
use crate::env::Env;
use crate::event::ProcessId;
use crate::outcome::FailureKind;
use crate::server::Server;
use crate::server::member::number;
use crate::world::World;
use ox_proto::{ServerId, Zxid};
use ox_zab::{Epoch, Quorum};

/// Something that a server treats as decided.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// The process leads this epoch.
    Leader(ProcessId, Epoch, Quorum),
    /// Clients may see this transaction and all before it.
    Visible(Zxid, Quorum),
}

/// Checks all decisions since the last call.
pub(crate) fn check(world: &mut World) {
    let World { env, servers, .. } = world;
    for decision in std::mem::take(&mut env.decisions) {
        if let Err(finding) = judge(env, servers, &decision) {
            return finding.report(env);
        }
    }
}

fn judge(env: &Env, servers: &[Server], decision: &Decision) -> Result<(), Finding> {
    match decision {
        Decision::Leader(pid, epoch, quorum) => {
            let has = |server: &Server| epoch.0 <= i64::from(server.expected.epochs.current);
            if is_reached(servers, quorum, has) {
                return Ok(());
            }
            let detail = format!("server {} leads epoch {epoch}, but no quorum has stored it", pid.server);
            Err(Finding::new(FailureKind::NoQuorum, detail))
        }
        Decision::Visible(zxid, quorum) => {
            let has = |server: &Server| {
                let expected = &server.expected;
                let holds = *zxid <= expected.synced && env.reference_log.contains(expected.last, *zxid);
                // In a history that begins with the start of an epoch, earlier transactions are unknown.
                holds || (expected.last.counter() == 0 && *zxid <= expected.last)
            };
            if is_reached(servers, quorum, has) {
                return Ok(());
            }
            Err(Finding::new(FailureKind::NoQuorum, format!("{zxid} is visible, but no quorum has stored it")))
        }
    }
}

/// Whether a quorum satisfies `has`. A server that has lost its disk counts, since it may have had the data.
fn is_reached(servers: &[Server], quorum: &Quorum, has: impl Fn(&Server) -> bool) -> bool {
    let agrees = |id: ServerId| servers.get(number(id)).is_none_or(|server| server.was_lost || has(server));
    quorum.is_reached(agrees)
}
