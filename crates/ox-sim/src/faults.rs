//! Fault injection: each kind of fault occurs repeatedly until all faults end.
//!
//! To add a fault: a variant, its mean interval in the plan, and an arm in `strike`.

pub(crate) mod copies;
mod damage;
mod empty_joiner;
mod one_way;

use crate::checkers::elections;
use crate::env::Env;
use crate::event::{End, Event, Job, ProcessId};
use crate::link::{Direction, Link};
use crate::plan::{MeanMs, Plan};
use crate::server::peers_thread::SlowRead;
use crate::server::{Server, Unsynced};
use crate::world::{Alive, World};
use ox_history::Time;
use ox_store::disk::{Disk as _, DiskFault};
use ox_zab::{Origin, PeerState};
use std::io::ErrorKind;
use std::path::Path;

/// The capacity of a disk that is not full.
const CAPACITY: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill,
    Power,
    PowerAtCall,
    PowerBeforeSync,
    DiskError,
    LostSync,
    Full,
    /// The end of `Full`: the disk has free space again.
    NotFull,
    SlowDisk,
    Stop,
    Cut,
    /// Paths between servers are cut.
    Partition,
    /// All cut paths are open again.
    Reopen,
    /// The leader is cut off, and receives old messages for a while.
    Depose,
    /// A server is deaf or mute.
    OneWay,
    /// A voter of a proposed configuration loses its disk, and all servers restart.
    EmptyJoiner,
    /// A wire between servers breaks.
    Wire,
    /// A path between servers is slow for a while.
    SlowPath,
    /// An attacker opens silent connections to a quorum port.
    Flood,
    /// A disk completes no call for a while.
    Hang,
    /// Files of one member are damaged or deleted.
    Damage,
    /// A data directory is copied while its server runs, and the copy is used.
    Copy,
    /// The next files of a copy are read.
    ContinueCopy,
    SlowNet,
    Clock,
    Stall,
    Freeze,
    /// A member reads its wires slowly for a while.
    SlowRead,
    PauseClient,
    Abandon,
    /// A client reads slowly for a while.
    SlowClient,
    /// A connection is opened that never sends a complete handshake.
    Silent,
}

impl Fault {
    pub(crate) const ALL: &'static [Self] = &[
        Self::Kill,
        Self::Power,
        Self::PowerAtCall,
        Self::PowerBeforeSync,
        Self::DiskError,
        Self::LostSync,
        Self::Full,
        Self::SlowDisk,
        Self::Stop,
        Self::Cut,
        Self::Partition,
        Self::Depose,
        Self::OneWay,
        Self::Wire,
        Self::SlowPath,
        Self::Flood,
        Self::Hang,
        Self::Damage,
        Self::Copy,
        Self::SlowNet,
        Self::Clock,
        Self::Stall,
        Self::Freeze,
        Self::SlowRead,
        Self::PauseClient,
        Self::Abandon,
        Self::SlowClient,
        Self::Silent,
    ];

    fn mean_ms(self, env: &Env) -> MeanMs {
        let plan = &env.plan;
        match self {
            Self::Kill => plan.kill_ms,
            Self::Power => plan.power_ms,
            Self::PowerAtCall => plan.power_at_call_ms,
            Self::PowerBeforeSync => plan.power_before_sync_ms,
            Self::DiskError => plan.disk_error_ms,
            Self::LostSync => plan.lost_sync_ms,
            Self::Full => plan.full_ms,
            Self::NotFull | Self::Reopen | Self::EmptyJoiner | Self::ContinueCopy => 0,
            Self::Partition => plan.partition_ms,
            Self::Depose => plan.depose_ms,
            Self::OneWay => plan.one_way_ms,
            Self::Wire => plan.wire_ms,
            Self::SlowPath => plan.slow_path_ms,
            Self::Flood => plan.flood_ms,
            Self::Hang => plan.hang_ms,
            Self::Damage => plan.damage_ms,
            Self::Copy => plan.copy_ms,
            Self::SlowDisk => plan.slow_disk_ms,
            Self::Stop => plan.stop_ms,
            Self::Cut => plan.cut_ms,
            Self::SlowNet => plan.slow_net_ms,
            Self::Clock => plan.clock_ms,
            Self::Stall => plan.stall_ms,
            Self::Freeze => plan.freeze_ms,
            Self::SlowRead => plan.slow_read_ms,
            Self::PauseClient => plan.client_pause_ms,
            Self::Abandon => plan.abandon_ms,
            Self::SlowClient => plan.slow_client_ms,
            Self::Silent => plan.silent_ms,
        }
    }
}

/// Schedules the next fault of a kind.
pub(crate) fn schedule_next(env: &mut Env, fault: Fault) {
    let mean_ms = fault.mean_ms(env);
    if 0 < mean_ms && !env.is_healed {
        let wait = env.rng.between(mean_ms * 200, mean_ms * 1_800);
        env.schedule_in(wait, Event::Fault(fault));
    }
}

pub(crate) fn strike(world: &mut World, fault: Fault) {
    match fault {
        Fault::NotFull => return empty_disks(world),
        Fault::Reopen => return reopen_paths(world),
        Fault::ContinueCopy => return copies::go_on(world),
        _ => (),
    }
    if world.env.is_healed {
        return;
    }
    let server = world.env.rng.index(world.servers.len());
    let pid = ProcessId { server, boot: world.servers[server].boot };
    world.env.note(format_args!("fault: {fault:?}"));
    elections::on_fault(&mut world.env, fault);
    match fault {
        Fault::Kill => world.end(pid, End::Killed),
        Fault::Power => world.end(pid, End::PowerCut),
        Fault::PowerAtCall => arm(world, server, DiskFault::PowerCut),
        Fault::PowerBeforeSync => {
            let unsynced = *world.env.rng.pick(&[Unsynced::Anything, Unsynced::FirstOfFile]);
            world.servers[server].cuts_before_sync = Some(unsynced);
        }
        Fault::DiskError => {
            let kinds = [ErrorKind::StorageFull, ErrorKind::Other, ErrorKind::PermissionDenied];
            let kind = *world.env.rng.pick(&kinds);
            arm(world, server, DiskFault::Error(kind));
        }
        Fault::LostSync => arm(world, server, DiskFault::LostSync),
        Fault::Full => fill_disk(world, server),
        Fault::NotFull | Fault::ContinueCopy => (),
        Fault::SlowDisk => world.servers[server].slow_disk = slowdown(&mut world.env, 200),
        Fault::Stop => world.env.schedule_in(0, Event::Job(Job::Stop(pid))),
        Fault::Cut => cut_link(world),
        Fault::Partition => partition(world),
        Fault::Reopen => reopen_paths(world),
        Fault::Depose => depose(world),
        Fault::OneWay => one_way::strike(world),
        Fault::EmptyJoiner => empty_joiner::strike(world),
        Fault::Wire => break_wire(world),
        Fault::SlowPath => slow_path(world, server),
        Fault::Flood => flood(world, pid),
        Fault::Hang => hang_disk(world, server),
        Fault::Damage => damage::strike(world),
        Fault::Copy => copies::begin(world),
        Fault::SlowNet => world.env.slow_net = slowdown(&mut world.env, 20),
        Fault::Clock => jump_clock(world, pid),
        Fault::Stall => {
            let (factor, ms) = (world.env.rng.between(10, 5_000), world.env.rng.between(50, 1_500));
            let until = Time(world.env.now.0 + ms * 1000);
            if let Some(Alive { process, .. }) = world.alive(pid) {
                process.stall(factor, until);
            }
        }
        Fault::Freeze => freeze(world, pid),
        Fault::SlowRead => read_slowly(world, pid),
        Fault::PauseClient | Fault::Abandon | Fault::SlowClient => strike_client(world, fault),
        Fault::Silent => open_silent(world, server),
    }
    schedule_next(&mut world.env, fault);
}

fn strike_client(world: &mut World, fault: Fault) {
    let (env, number) = (&mut world.env, world.clients.len());
    let client = &mut world.clients[env.rng.index(number)];
    if fault == Fault::Abandon {
        client.abandon(env);
    } else if fault == Fault::SlowClient {
        let ms = env.rng.between(100, 5_000);
        client.read_slowly(env, ms);
    } else {
        let ms = env.rng.skewed(env.plan.timeouts_ms.1 * 2);
        client.pause(env, ms);
    }
}

/// A factor of up to `factor_max`, and when it ends.
fn slowdown(env: &mut Env, factor_max: i64) -> (i64, Time) {
    let (factor, ms) = (env.rng.between(2, factor_max), env.rng.between(50, 2_000));
    (factor, Time(env.now.0 + ms * 1000))
}

/// Cuts paths between servers: of one server, in one or both directions; of one pair in one direction; between two
/// halves, with or without a server that reaches both; or all but those between neighbours on a ring.
fn partition(world: &mut World) {
    let servers = world.servers.len();
    let env = &mut world.env;
    let kind = env.rng.below(8);
    let (one, sides) = (env.rng.index(servers), env.rng.next_u64());
    let other = (one + 1 + env.rng.index(servers - 1)) % servers;
    let is_cut = |from: usize, to: usize| match kind {
        0 => from == one || to == one,
        1 => (from, to) == (one, other),
        2 => (from, to) == (one, other) || (from, to) == (other, one),
        3 => from == one,
        4 => to == one,
        5 => from != one && to != one && (sides >> from) & 1 != (sides >> to) & 1,
        6 => (from + 1) % servers != to && (to + 1) % servers != from,
        _ => (sides >> from) & 1 != (sides >> to) & 1,
    };
    for from in 0..servers {
        for to in (0..servers).filter(|to| from != *to && is_cut(from, *to)) {
            env.coverage.partitions += 1;
            env.note(format_args!("path from {from} to {to} is cut"));
            env.set_path(from, to, false);
        }
    }
    let ms = env.rng.skewed(8_000) + 50;
    env.schedule_in(ms * 1000, Event::Fault(Fault::Reopen));
}

/// Cuts all paths from the leader and slows those to it, so that it relies on old replies for longer than the others
/// follow it.
fn depose(world: &mut World) {
    let Some(leader) = leader(world) else { return };
    let sync_ms = i64::from(world.env.plan.tick_ms) * world.env.plan.sync_ticks;
    let (late_ms, ms) = (world.env.rng.between(sync_ms / 2, sync_ms * 2), world.env.rng.between(sync_ms, sync_ms * 4));
    let (now, servers) = (world.env.now, world.servers.len());
    world.env.coverage.deposed += 1;
    world.env.note(format_args!("leader {leader} is cut off for {ms} ms, and receives {late_ms} ms late"));
    for other in (0..servers).filter(|other| *other != leader) {
        world.env.net.slow.insert((other, leader), (late_ms * 1000, Time(now.0 + (ms + late_ms) * 1000)));
        world.env.set_path(leader, other, false);
    }
    world.env.schedule_in((ms + late_ms) * 1000, Event::Fault(Fault::Reopen));
}

fn leader(world: &World) -> Option<usize> {
    let leads = |server: &Server| {
        let process = server.process.as_ref();
        process.is_some_and(|process| process.status().peer_state() == Some(PeerState::Leading))
    };
    world.servers.iter().position(leads)
}

fn reopen_paths(world: &mut World) {
    world.env.timeliness.paths_changed = world.env.now;
    let servers = world.servers.len();
    for from in 0..servers {
        for to in 0..servers {
            world.env.set_path(from, to, true);
        }
    }
}

/// Breaks a client's connection, probably one of the newest.
fn cut_link(world: &mut World) {
    let env = &mut world.env;
    if !env.links.is_empty() {
        let link = env.rng.index(env.links.len().min(64)) + env.links.len().saturating_sub(64);
        env.coverage.cut_connections += u64::from(env.links[link].place.is_some());
        env.cut(link);
    }
}

/// Opens a connection that sends nothing, or the beginning of a frame.
fn open_silent(world: &mut World, server: usize) {
    let env = &mut world.env;
    let (link, client) = (env.links.len(), env.rng.index(env.plan.clients));
    env.links.push(Link::new(client, server));
    env.coverage.silent_connections += 1;
    env.schedule_in(0, Event::Accept(link));
    let bytes = env.rng.index(4);
    env.send(link, Direction::ToServer, &[0; 4][..bytes]);
}

fn slow_path(world: &mut World, from: usize) {
    let to = world.env.rng.index(world.servers.len());
    let (delay, ms) = (world.env.rng.between(1_000, 3_000_000), world.env.rng.between(50, 5_000));
    world.env.net.slow.insert((from, to), (delay, Time(world.env.now.0 + ms * 1000)));
}

fn hang_disk(world: &mut World, number: usize) {
    let ms = world.env.rng.between(50, 20_000);
    world.env.note(format_args!("the disk of {number} hangs for {ms} ms"));
    world.env.coverage.hung_disks += 1;
    let server = &mut world.servers[number];
    server.hung_until = Time(world.env.now.0 + ms * 1000);
    server.hangs_end = server.hangs_end.max(server.hung_until);
    let id = u8::try_from(number + 1).unwrap_or(u8::MAX);
    world.env.history.hangs.push((id, server.hangs_end));
}

fn break_wire(world: &mut World) {
    let up: Vec<usize> = (0..world.env.net.wires.len()).filter(|wire| world.env.net.wires[*wire].is_up).collect();
    if !up.is_empty() {
        let wire = *world.env.rng.pick(&up);
        world.env.coverage.wires_cut += 1;
        world.env.wire_cut(wire);
    }
}

/// Opens silent connections to a listening member: many from unknown addresses, or some from a member's address.
fn flood(world: &mut World, pid: ProcessId) {
    let is_of_member = world.env.rng.chance(250);
    let (count, origin) = if is_of_member {
        (world.env.rng.index(40), Origin::Member)
    } else {
        (100 + world.env.rng.index(400), Origin::Other)
    };
    if let Some(Alive { process, env, .. }) = world.alive(pid).filter(|alive| alive.process.member.is_listening) {
        env.coverage.floods += 1;
        process.flood(env, pid, count, origin);
    }
}

/// Injects `fault` into one of the next disk calls.
fn arm(world: &mut World, server: usize, fault: DiskFault) {
    let reach = *world.env.rng.pick(&[5, 40, 300]);
    let ahead = 1 + world.env.rng.below(reach);
    let server = &mut world.servers[server];
    let call = server.disk.calls() + ahead;
    server.disk.set_fault(call, fault);
    server.armed_calls.push(call);
}

fn fill_disk(world: &mut World, number: usize) {
    world.env.coverage.full_disks += 1;
    let server = &mut world.servers[number];
    let copy = server.disk.fork();
    copy.clear_faults();
    let Ok(free) = copy.space(Path::new("/")).map(|space| space.free_bytes.min(CAPACITY)) else { return };
    if server.is_full {
        return;
    }
    // Sometimes the disk is full immediately, sometimes the server uses up the rest. A small volume has a lower
    // low-water mark.
    let low_water = world.env.plan.low_water_bytes.min((CAPACITY - free) / 20);
    let free_space = u64::try_from(world.env.rng.between(0, i64::try_from(low_water * 4).unwrap_or(0))).unwrap_or(0);
    server.disk.set_capacity(CAPACITY - free + free_space);
    (server.is_full, server.was_full) = (true, true);
    // Long enough for another leader to commit transactions meanwhile.
    let longest_ms = if world.env.plan.is_ensemble() { 12_000 } else { 3_000 };
    let ms = world.env.rng.between(100, longest_ms);
    world.env.schedule_in(ms * 1000, Event::Fault(Fault::NotFull));
}

fn empty_disks(world: &mut World) {
    for server in &mut world.servers {
        server.disk.set_capacity(CAPACITY);
        server.is_full = false;
    }
}

fn jump_clock(world: &mut World, pid: ProcessId) {
    const YEAR_MS: i64 = 365 * 24 * 3600 * 1000;
    let sizes = [10, 1_000, 60_000, YEAR_MS, 10 * YEAR_MS];
    let size = *world.env.rng.pick(&sizes);
    let jump = world.env.rng.between(-size, size);
    world.env.coverage.clock_jumps += 1;
    let server = &mut world.servers[pid.server];
    server.wall_ahead_ms = (server.wall_ahead_ms + jump).clamp(-20 * YEAR_MS, 20 * YEAR_MS);
    let ahead = server.wall_ahead_ms;
    if let Some(Alive { process, .. }) = world.alive(pid) {
        process.set_wall_ahead(ahead);
    }
}

/// Stops all threads of a process, as SIGSTOP does, until a later time.
fn freeze(world: &mut World, pid: ProcessId) {
    let ms = match world.env.plan.freeze_per_cent {
        0 => world.env.rng.skewed(world.env.plan.timeouts_ms.1 * 2) + 10,
        most => world.env.rng.between(10, sync_ms(&world.env.plan) * most / 100),
    };
    let (is_short, rest_us) = (world.env.plan.freeze_per_cent != 0, sync_ms(&world.env.plan) * 1_000);
    if is_short && world.env.now.0 < world.env.timeliness.paused_until.0 + rest_us {
        return; // two short pauses would be a long one
    }
    let Some(Alive { process, env, .. }) = world.alive(pid) else { return };
    env.timeliness.paused_until = Time(env.now.0 + ms * 1000);
    let until = Time(env.now.0 + ms * 1000);
    process.freeze(until);
    env.note(format_args!("server {} is frozen for {ms} ms", pid.server));
    env.coverage.freezes += 1;
    env.history.pauses.push(until);
}

fn sync_ms(plan: &Plan) -> i64 {
    i64::from(plan.tick_ms) * plan.sync_ticks
}

/// Makes a member read its wires in small parts, slower than others can send.
fn read_slowly(world: &mut World, pid: ProcessId) {
    let ms = world.env.rng.between(50, 2 * sync_ms(&world.env.plan));
    let (bytes, pause_us) = (*world.env.rng.pick(&[200, 1_000]), world.env.rng.between(1_000, 5_000));
    let Some(Alive { process, env, .. }) = world.alive(pid) else { return };
    env.note(format_args!("server {} reads slowly for {ms} ms", pid.server));
    env.coverage.slow_reads += 1;
    process.peers_thread.slow_read = SlowRead { bytes, pause_us, until: Time(env.now.0 + ms * 1000) };
}

/// Ends all faults for good.
pub(crate) fn heal(world: &mut World) {
    world.env.is_healed = true;
    world.env.timeliness.healed = Some(world.env.now);
    world.env.note(format_args!("healed"));
    empty_disks(world);
    reopen_paths(world);
    for server in &mut world.servers {
        server.disk.clear_faults();
        server.cuts_before_sync = None;
        server.slow_disk = (1, Time(0));
        server.hung_until = Time(0);
        if let Some(process) = &mut server.process {
            process.end_stall();
        }
    }
    world.env.timeliness.in_flight_until = world.env.net.last_arrival();
    world.env.slow_net = (1, Time(0));
    world.env.net.slow.clear();
    let plan = &mut world.env.plan;
    plan.net_delay_us = plan.net_delay_us.min(2_000);
    plan.thread_delay_us = plan.thread_delay_us.min(100);
    plan.sync_us = plan.sync_us.min(5_000);
    for number in 0..world.clients.len() {
        world.clients[number].resume(&mut world.env);
        world.resume_client(number);
    }
}
