//! Makes a server deaf or mute for longer than `syncLimit`.

use super::{Fault, leader, reopen_paths};
use crate::event::Event;
use crate::world::World;

pub(super) fn strike(world: &mut World) {
    reopen_paths(world);
    let servers = world.servers.len();
    let random = world.env.rng.index(servers);
    let victim = leader(world).filter(|_| world.env.rng.chance(800)).unwrap_or(random);
    let env = &mut world.env;
    let (kind, spared) = (env.rng.below(3), (victim + 1 + env.rng.index(servers.max(2) - 1)) % servers);
    let sync_ms = i64::from(env.plan.tick_ms) * env.plan.sync_ticks;
    let ms = env.rng.between(2 * sync_ms, 5 * sync_ms);
    let what = ["is deaf", "is mute", "is deaf to all but one"][usize::try_from(kind).unwrap_or(0)];
    env.note(format_args!("server {victim} {what} for {ms} ms"));
    env.coverage.one_way += 1;
    for other in (0..servers).filter(|other| *other != victim) {
        match kind {
            1 => env.set_path(victim, other, false),
            2 if other == spared => (),
            _ => env.set_path(other, victim, false),
        }
    }
    env.schedule_in(ms * 1000, Event::Fault(Fault::Reopen));
}
