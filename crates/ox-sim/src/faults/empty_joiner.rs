//! A voter that only the proposed configuration contains loses its disk, and all servers restart.
//!
//! Only where no committed transaction can be lost: the other voters of the proposed configuration that have their
//! files intersect every quorum of it.

use super::copies::end_copy;
use crate::event::{End, ProcessId};
use crate::server::Server;
use crate::server::member::{number, server_id};
use crate::world::World;
use ox_proto::ServerId;
use ox_proto::ensemble::Ensemble;
use ox_zab::{ConfigPair, Quorum};
use std::path::PathBuf;

/// The configurations that running servers know.
fn known(world: &World) -> impl Iterator<Item = &ConfigPair> {
    let processes = world.servers.iter().filter_map(|server| server.process.as_ref());
    processes.filter_map(|process| process.status().peer()).map(ox_zab::QuorumPeer::configs)
}

/// A server that votes only in the proposed configuration and is not needed there.
fn victim(world: &World) -> Option<usize> {
    let has_files = |server: ServerId| world.servers.get(number(server)).is_some_and(|server| !was_struck(server));
    let can_spare = |config: &Ensemble, joiner: ServerId| {
        !Quorum::of(config).is_reached(|server| server == joiner || !has_files(server))
    };
    let pending = || known(world).filter_map(ConfigPair::proposed);
    (0..world.servers.len()).find(|server| {
        let joiner = server_id(*server);
        let votes = |config: &Ensemble| config.voters().any(|voter| voter == joiner);
        !known(world).any(|configs| votes(configs.committed()))
            && pending().any(|config| votes(config))
            && pending().all(|config| can_spare(config, joiner))
    })
}

fn was_struck(server: &Server) -> bool {
    server.was_damaged || server.was_lost
}

pub(super) fn strike(world: &mut World) {
    // Without its record of session ids, only the clock keeps the ids distinct.
    let has_clock = !world.env.plan.resets_clock && world.env.plan.clock_ms == 0;
    let is_whole = world.servers.iter().all(|server| server.process.is_some());
    let Some(joiner) = victim(world).filter(|_| has_clock && is_whole) else { return };
    world.env.note(format_args!("all files of {joiner} are lost, and all servers restart"));
    world.env.coverage.empty_joiners += 1;
    let server = &mut world.servers[joiner];
    server.was_damaged = true;
    let files: Vec<PathBuf> = server.disk.files().into_iter().filter(|path| !path.starts_with("/conf")).collect();
    files.iter().for_each(|path| server.disk.lose(path));
    end_copy(world, joiner);
    for number in 0..world.servers.len() {
        let pid = ProcessId { server: number, boot: world.servers[number].boot };
        world.end(pid, End::Killed);
    }
}
