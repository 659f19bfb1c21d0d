//! What servers say is agreed on is on the disks of a quorum (P3, P20): a leader is established by voters whose disks
//! have its epoch, and nothing is shown that a quorum of voters does not hold.
//!
//! Looked at by who sees all disks at once, behind the step that said so.

use super::Finding;
use crate::env::Env;
use crate::event::Who;
use crate::outcome::Kind;
use crate::server::Server;
use crate::server::member::number;
use crate::world::World;
use ox_proto::{ServerId, Zxid};
use ox_zab::{Epoch, Quorum};

/// Something that servers have agreed on, as one of them says.
#[derive(Clone, Debug)]
pub(crate) enum Agreed {
    /// It leads this epoch.
    Leader(Who, Epoch, Quorum),
    /// This transaction, and all before it.
    Shown(Zxid, Quorum),
}

/// Judges everything that was said since the last time.
pub(crate) fn check(world: &mut World) {
    let World { env, servers, .. } = world;
    for agreed in std::mem::take(&mut env.agreed) {
        if let Err(finding) = judge(env, servers, &agreed) {
            return finding.report(env);
        }
    }
}

fn judge(env: &Env, servers: &[Server], agreed: &Agreed) -> Result<(), Finding> {
    match agreed {
        Agreed::Leader(who, epoch, quorum) => {
            let has = |server: &Server| epoch.0 <= i64::from(server.track.epochs.current);
            if is_reached(servers, quorum, has) {
                return Ok(());
            }
            let detail = format!("server {} leads epoch {epoch}, which is not that of a quorum", who.server);
            Err(Finding::new(Kind::NoQuorum, detail))
        }
        Agreed::Shown(zxid, quorum) => {
            let has = |server: &Server| {
                let track = &server.track;
                let holds = *zxid <= track.synced && env.journal.contains(track.last, *zxid);
                // Where a history begins with the start of an epoch, what is before it is not known.
                holds || (track.last.counter() == 0 && *zxid <= track.last)
            };
            if is_reached(servers, quorum, has) {
                return Ok(());
            }
            Err(Finding::new(Kind::NoQuorum, format!("{zxid} is shown, and not held by a quorum")))
        }
    }
}

/// Whether a quorum agrees. Who has lost what it had is believed to have had it.
fn is_reached(servers: &[Server], quorum: &Quorum, has: impl Fn(&Server) -> bool) -> bool {
    let agrees = |id: ServerId| servers.get(number(id)).is_none_or(|server| server.was_lost || has(server));
    quorum.is_reached(agrees)
}
