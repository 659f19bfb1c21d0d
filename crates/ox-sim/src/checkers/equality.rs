//! Servers at the same zxid have equal states (P19): data, stats, ACLs, sessions and digest.

use super::Finding;
use crate::outcome::FailureKind;
use crate::server::dump::dump;
use crate::world::World;
use ox_history::Dump;
use ox_history::model::{CONFIG, is_kept_by_server};

pub(crate) fn check(world: &World) -> Result<(), Finding> {
    let fail = |detail: String| Err(Finding::new(FailureKind::Unequal, detail));
    let mut first: Option<(Dump, i64)> = None;
    for (number, server) in world.servers.iter().enumerate() {
        let Some(process) = &server.process else { continue };
        let (state, name) = (&process.state, format!("server {number}"));
        let own = (dump(state, name), state.digest());
        let Some((other, digest)) = &first else {
            first = Some(own);
            continue;
        };
        let at = own.0.zxid;
        if other.zxid != at || *digest != own.1 || other.sessions != own.0.sessions {
            return fail(format!("{} at {} and {} at {at} differ", other.name, other.zxid, own.0.name));
        }
        // The usage of quotas may be counted again when a state is loaded.
        let is_compared =
            |path: &&String| !(is_kept_by_server(path) || (world.env.plan.is_dynamic() && *path == CONFIG));
        let paths = other.nodes.keys().chain(own.0.nodes.keys()).filter(is_compared);
        if let Some(path) = paths.into_iter().find(|path| other.nodes.get(*path) != own.0.nodes.get(*path)) {
            let (one, two) = (other.nodes.get(path), own.0.nodes.get(path));
            return fail(format!("{path} at {at}: {one:?} on {}, {two:?} on {}", other.name, own.0.name));
        }
    }
    Ok(())
}
