//! After all faults have ended, every request gets a reply and the servers become idle.

use super::Finding;
use crate::jobs::is_quiet;
use crate::outcome::FailureKind;
use crate::world::World;

/// Whether all clients have their replies and all servers are idle.
pub(crate) fn is_settled(world: &World) -> bool {
    let served = world.clients.iter().all(|client| client.is_done());
    let quiet = world.servers.iter().all(|server| {
        server.process.as_ref().is_some_and(|process| is_quiet(process, &world.env) && process.replica_thread.is_idle())
    });
    let open = world.env.links.iter().filter(|link| link.place.is_some());
    let delivered = open.into_iter().all(|link| link.up.unread() == 0 && link.down.unread() == 0);
    served && quiet && delivered && is_whole(world)
}

/// Whether all servers serve and are at the same zxid (P64, P71).
fn is_whole(world: &World) -> bool {
    let processes = world.servers.iter().filter_map(|server| server.process.as_ref());
    let last = processes.clone().map(|process| process.state.last_zxid()).max();
    processes.into_iter().all(|process| process.status().is_serving() && Some(process.state.last_zxid()) == last)
}

pub(crate) fn report(world: &World) -> Finding {
    let clients: Vec<String> = world.clients.iter().map(|client| client.describe()).collect();
    let servers: Vec<String> = world
        .servers
        .iter()
        .map(|server| match &server.process {
            None => "down".to_owned(),
            Some(process) => format!(
                "up, {:?}, serves {}, at {}, {} outstanding, {} batches waiting, {} submissions, stopping {}",
                process.status().peer_state(),
                process.status().is_serving(),
                process.state.last_zxid(),
                process.status().outstanding(),
                process.log_queue.len(),
                process.inbox.submissions.len(),
                process.is_stopping
            ),
        })
        .collect();
    Finding::new(FailureKind::Liveness, format!("servers: {servers:?}; clients: {clients:?}"))
}
