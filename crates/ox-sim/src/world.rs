//! The world: servers, clients and the network between them.

use crate::checkers::{quorums, timeliness};
use crate::client::Client;
use crate::env::Env;
use crate::event::{End, Event, Job, ProcessId};
use crate::faults::copies::Copying;
use crate::faults::{self, Fault};
use crate::jobs::SUPER;
use crate::link::{Direction, Link, LinkId};
use crate::net::{Side, WireId};
use crate::plan::Plan;
use crate::server::config;
use crate::server::member::server_id;
use crate::server::process::Process;
use crate::server::{ExpectedDisk, Server};
use ox_driver::replica_loop::{LatestVote, PeerEvent};
use ox_history::{HistorySettings, Time};
use ox_proto::ensemble::Ensemble;
use ox_store::disk::KeepUnsynced;
use ox_tree::auth::{DigestHash, digest_id};
use ox_zab::{ElectionConnection as ElectionLink, VoteNotification};
use std::path::Path;
use std::sync::Arc;

/// The longest time between the end of a process and the next start.
const DOWN_MS: i64 = 3_000;

pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<Client>,
    /// A copy of a data directory that is being made.
    pub(crate) copying: Option<Copying>,
}

/// A live process with its surroundings.
pub(crate) struct Alive<'a> {
    pub(crate) process: &'a mut Process,
    pub(crate) expected: &'a mut ExpectedDisk,
    pub(crate) env: &'a mut Env,
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan, is_verbose: bool) -> Self {
        let clients = plan.clients;
        let settings = settings(&plan);
        let mut env = Env::new(seed, plan, is_verbose);
        env.history.settings = settings;
        let servers: Vec<Server> = (0..env.plan.servers()).map(|_| Server::new()).collect();
        let mut world = Self { env, servers, clients: Vec::new(), copying: None };
        world.env.schedule_in(world.env.plan.active_ms * 1000, Event::Heal);
        for (number, server) in world.servers.iter().enumerate() {
            if world.env.plan.is_ensemble() {
                server.disk.install(Path::new("/data/initialize"), b"");
            }
            if world.env.plan.is_dynamic() {
                config::install(&server.disk, &world.env.plan);
            }
            world.env.queue.schedule(Time(0), Event::Job(Job::Start(number)));
        }
        if world.env.plan.is_ensemble() {
            world.env.schedule_in(0, Event::ConnectElections);
            timeliness::schedule_next(&mut world.env);
        }
        for number in 0..clients {
            let client = Client::new(number, &mut world.env);
            world.clients.push(client);
        }
        for fault in Fault::ALL {
            faults::schedule_next(&mut world.env, *fault);
        }
        world
    }

    /// Whether this process is the server's present one. False for all processes after a failure.
    pub(crate) fn is_current(&self, pid: ProcessId) -> bool {
        let goes_on = self.env.failure.is_none() && !self.env.workers.is_over();
        goes_on && self.servers[pid.server].boot == pid.boot
    }

    pub(crate) fn alive(&mut self, pid: ProcessId) -> Option<Alive<'_>> {
        let server = &mut self.servers[pid.server];
        let process = server.process.as_mut().filter(|_| server.boot == pid.boot)?;
        Some(Alive { process, expected: &mut server.expected, env: &mut self.env })
    }

    /// Whether a job may begin now. Only one job at a time may delete files of a server.
    pub(crate) fn may_begin(&mut self, job: Job) -> bool {
        match job {
            Job::Snapshot(pid) | Job::Maintain(pid) if self.is_current(pid) => self.take_files(pid, job),
            _ => true,
        }
    }

    /// Reserves a server's files for a job. Returns false if another job has them.
    pub(crate) fn take_files(&mut self, pid: ProcessId, job: Job) -> bool {
        let files = &mut self.servers[pid.server].files;
        *files.get_or_insert(job) == job
    }

    pub(crate) fn on_job_done(&mut self, job: Job) {
        if let Job::Snapshot(pid) | Job::Maintain(pid) | Job::Log(pid) = job {
            self.servers[pid.server].files.take_if(|holder| *holder == job);
        }
    }

    /// When a process resumes, if it is frozen.
    pub(crate) fn frozen(&self, pid: ProcessId) -> Option<Time> {
        let process = self.servers[pid.server].process.as_ref().filter(|_| self.is_current(pid))?;
        process.frozen(self.env.now)
    }

    /// When an event may happen that a frozen process delays.
    pub(crate) fn waits(&self, event: Event) -> Option<Time> {
        match event {
            Event::Io(pid, _) | Event::Replica(pid) => self.frozen(pid),
            Event::Peers(pid) | Event::SnapshotLoaded(pid, _) => self.frozen(pid),
            Event::Job(Job::Log(pid) | Job::Snapshot(pid) | Job::Maintain(pid) | Job::Stop(pid)) => self.frozen(pid),
            Event::Job(Job::ReadLog(pid, _) | Job::SendLogDiff(pid, _)) => self.frozen(pid),
            Event::Accept(link) => {
                let server = self.env.links[link].server;
                self.frozen(ProcessId { server, boot: self.servers[server].boot })
            }
            Event::Wake(_, pid) => pid.and_then(|pid| self.frozen(pid)),
            Event::Arrive(..) | Event::Client(..) | Event::End(..) | Event::Fault(_) | Event::Heal => None,
            Event::CheckTimeliness | Event::Socket(_) | Event::ClientReads(_) => None,
            Event::Dialed(_)
            | Event::WireArrives(..)
            | Event::Ready(..)
            | Event::NotificationArrives(..)
            | Event::ConnectElections
            | Event::DropElectionLink(..) => None,
            Event::Job(Job::Start(_)) => None,
        }
    }

    pub(crate) fn handle(&mut self, event: Event) {
        match event {
            Event::Accept(link) => self.accept(link),
            Event::Arrive(link, direction) => self.arrive(link, direction),
            Event::Io(pid, thread) => {
                if let Some(Alive { process, env, .. }) = self.alive(pid) {
                    process.io_step(env, pid, thread);
                }
            }
            Event::Replica(pid) => {
                if let Some(Alive { process, expected, env }) = self.alive(pid) {
                    process.replica_step(env, expected, pid);
                    quorums::check(self);
                }
            }
            Event::Peers(pid) => {
                if let Some(Alive { process, env, .. }) = self.alive(pid) {
                    process.peers_step(env, pid);
                }
            }
            Event::SnapshotLoaded(pid, link) => {
                if let Some(Alive { process, env, .. }) = self.alive(pid) {
                    process.on_snapshot_loaded(env, pid, link);
                }
            }
            Event::Socket(link) => self.on_socket(link),
            Event::ClientReads(link) => self.read_at_client(link),
            Event::Client(number, token) => self.clients[number].on_time(&mut self.env, token),
            Event::End(pid, end) => self.end(pid, end),
            Event::Fault(fault) => faults::strike(self, fault),
            Event::CheckTimeliness => timeliness::check(self),
            Event::Heal => faults::heal(self),
            Event::Dialed(wire) => self.on_dialed(wire),
            Event::WireArrives(wire, side) => self.on_wire_arrival(wire, side),
            Event::Ready(wire, side) => self.on_ready(wire, side),
            Event::NotificationArrives(from, to) => {
                if let Some((notification, config)) = self.env.net.take_notification(from, to) {
                    self.pass_vote(to, from, notification, config);
                }
            }
            Event::ConnectElections => self.connect_elections(),
            Event::DropElectionLink(a, b) => {
                if !self.env.net.is_open_both_ways(a, b) {
                    self.disconnect_election(a, b);
                }
            }
            Event::Job(_) | Event::Wake(..) => unreachable!("the engine runs jobs"),
        }
    }

    /// Passes a notification to a member, if its process runs.
    fn pass_vote(&mut self, server: usize, from: usize, note: VoteNotification, config: Option<Arc<Ensemble>>) {
        let pid = ProcessId { server, boot: self.servers[server].boot };
        let config_version = config.as_ref().map_or(0, |config| config.version());
        if let Some(Alive { process, env, .. }) = self.alive(pid) {
            process.on_vote(env, pid, server_id(from), LatestVote { note, config, config_version });
        }
    }

    /// Passes an event of the peers thread to a member, if its process runs.
    fn pass_event(&mut self, server: usize, event: PeerEvent) {
        let pid = ProcessId { server, boot: self.servers[server].boot };
        if let Some(Alive { process, env, .. }) = self.alive(pid) {
            process.on_peer(env, pid, event);
        }
    }

    /// A learner's dial reaches its target, or fails.
    fn on_dialed(&mut self, wire: WireId) {
        let [from, ProcessId { server, .. }] = self.env.net.wires[wire].ends;
        let leader = self.env.net.wires[wire].leader;
        let is_open = self.env.net.is_open_both_ways(from.server, server);
        if !is_open && !std::mem::replace(&mut self.env.net.wires[wire].has_waited, true) {
            let patience_us = self.env.rng.between(100_000, 3_000_000);
            return self.env.schedule_in(patience_us, Event::Dialed(wire));
        }
        if !self.is_current(from) {
            return;
        }
        let to = ProcessId { server, boot: self.servers[server].boot };
        let listens = self.alive(to).is_some_and(|alive| alive.process.member.is_listening);
        if !listens || !is_open {
            return self.pass_event(from.server, PeerEvent::Dialed(server_id(leader), None));
        }
        let wired = &mut self.env.net.wires[wire];
        (wired.ends[1], wired.is_up) = (to, true);
        if let Some(Alive { process, env, .. }) = self.alive(to) {
            process.on_accepted(env, to, wire);
        }
        if let Some(Alive { process, env, .. }) = self.alive(from) {
            process.on_dialed(env, from, leader, wire);
        }
    }

    /// Bytes or the end of a stream arrive on a wire.
    fn on_wire_arrival(&mut self, wire: WireId, side: Side) {
        let now = self.env.now;
        self.env.net.wires[wire].pipes[side].arrive(now);
        let to = self.env.net.wires[wire].ends[1 - side];
        if let Some(Alive { process, env, .. }) = self.alive(to) {
            process.on_wire_ready(env, to, wire);
        }
    }

    fn on_ready(&mut self, wire: WireId, side: Side) {
        let to = self.env.net.wires[wire].ends[side];
        if let Some(Alive { process, env, .. }) = self.alive(to) {
            process.on_wire_ready(env, to, wire);
        }
    }

    /// Opens missing election connections.
    fn connect_elections(&mut self) {
        for a in 0..self.servers.len() {
            for b in a + 1..self.servers.len() {
                let are_up = [a, b].iter().all(|server| self.servers[*server].process.is_some());
                if are_up && !self.env.net.has_election_link(a, b) && self.env.net.is_open_both_ways(a, b) {
                    self.env.net.open_election_link(a, b);
                    self.pass_event(a, PeerEvent::Election(server_id(b), ElectionLink::Up));
                    self.pass_event(b, PeerEvent::Election(server_id(a), ElectionLink::Up));
                }
            }
        }
        let pause_us = self.env.rng.between(10_000, 200_000);
        self.env.schedule_in(pause_us, Event::ConnectElections);
    }

    fn disconnect_election(&mut self, a: usize, b: usize) {
        if self.env.net.close_election_link(a, b) {
            self.pass_event(a, PeerEvent::Election(server_id(b), ElectionLink::Down));
            self.pass_event(b, PeerEvent::Election(server_id(a), ElectionLink::Down));
        }
    }

    /// A client's connection reaches its server. It is cut if no process accepts it.
    fn accept(&mut self, link: LinkId) {
        let server = self.env.links[link].server;
        let pid = ProcessId { server, boot: self.servers[server].boot };
        match self.alive(pid) {
            Some(Alive { process, env, .. }) if !process.is_stopping => process.accept(env, pid, link),
            _ => self.env.cut(link),
        }
    }

    fn arrive(&mut self, link: LinkId, direction: Direction) {
        let now = self.env.now;
        self.env.links[link].pipe(direction).arrive(now);
        match direction {
            Direction::ToServer => self.on_socket(link),
            Direction::ToClient => self.read_at_client(link),
        }
    }

    /// The server's end of a link can be read or written again.
    fn on_socket(&mut self, link: LinkId) {
        let pid = ProcessId { server: self.env.links[link].server, boot: self.env.links[link].boot };
        if let Some(Alive { process, env, .. }) = self.alive(pid) {
            process.on_socket(env, pid, link);
        }
    }

    fn read_at_client(&mut self, link: LinkId) {
        let client = self.env.links[link].client;
        self.clients[client].on_readable(&mut self.env, link);
        let Link { down, is_full, .. } = &mut self.env.links[link];
        if *is_full && down.unread() < self.env.plan.window_bytes {
            *is_full = false;
            self.on_socket(link);
        }
    }

    /// A paused client resumes and reads what has arrived.
    pub(crate) fn resume_client(&mut self, number: usize) {
        for link in self.clients[number].links() {
            self.read_at_client(link);
        }
    }

    /// Ends a process and schedules the next start.
    pub(crate) fn end(&mut self, pid: ProcessId, end: End) {
        if self.servers[pid.server].boot != pid.boot {
            return;
        }
        let server = &mut self.servers[pid.server];
        self.env.timeliness.excused_until = self.env.timeliness.excused_until.max(Some(self.env.now));
        let coverage = &mut self.env.coverage;
        match end {
            End::Killed => coverage.kills += 1,
            End::PowerCut => coverage.power_cuts += 1,
            End::Stopped => coverage.clean_stops += 1,
        }
        if let Some(process) = server.process.take() {
            coverage.kills_in_log += u64::from(process.log.is_none() && end != End::Stopped);
            coverage.kills_in_snapshot += u64::from(process.replica_thread.is_writing_snapshot());
        }
        coverage.kills_in_recovery += u64::from(std::mem::replace(&mut server.is_starting, false));
        server.boot += 1;
        server.files = None;
        match end {
            End::Killed | End::Stopped => server.disk.restart_process(),
            End::PowerCut => {
                let keep = draw_keep(&mut self.env, server.disk.unsynced_pieces());
                server.disk.power_on(keep);
                self.env.note(format_args!("server {} keeps {keep:?} of the unsynced data", pid.server));
            }
        }
        self.env.note(format_args!("server {} process {} ended: {end:?}", pid.server, pid.boot));
        for link in 0..self.env.links.len() {
            if self.env.links[link].server == pid.server && self.env.links[link].boot == pid.boot {
                self.env.links[link].place = None;
                self.env.cut(link);
            }
        }
        for wire in 0..self.env.net.wires.len() {
            if self.env.net.wires[wire].is_up && self.env.net.wires[wire].ends.contains(&pid) {
                self.env.net.wires[wire].is_up = false;
                self.env.wire_cut(wire);
            }
        }
        for other in 0..self.servers.len() {
            self.disconnect_election(pid.server, other);
        }
        let down_ms = if self.env.is_healed { 20 } else { self.env.rng.skewed(DOWN_MS) };
        self.env.schedule_in(down_ms * 1000, Event::Job(Job::Start(pid.server)));
    }
}

/// What clients can expect of servers with this plan.
fn settings(plan: &Plan) -> HistorySettings {
    let mut slowest_us = plan.net_delay_us * 20 + plan.thread_delay_us * 50 + 2_000_000;
    if plan.throttle_max.is_some() || plan.outstanding_max < 100 || plan.memory_budget_bytes < 1 << 20 {
        // A request may have to wait until the requests of all other clients are durable.
        let requests = plan.requests.min(plan.pipeline as u64) * plan.clients as u64;
        let sync_us = if plan.slow_disk_ms == 0 { plan.sync_us } else { 2_000_000 };
        slowest_us += i64::try_from(requests).unwrap_or(i64::MAX).saturating_mul(sync_us);
    }
    HistorySettings {
        enforce_quota: false,
        extended_types: plan.extended_types,
        tick_ms: i64::from(plan.tick_ms),
        may_refuse_writes: plan.full_ms != 0 || plan.throttled_wait_ms != 0,
        never_used_ms: plan.never_used_ms,
        delay_max_ms: slowest_us / 1000 + report_max_ms(plan),
        touch_loss_max_ms: if plan.is_ensemble() { touch_loss_max_ms(plan, slowest_us) } else { 0 },
        is_dynamic: plan.is_dynamic(),
        local_sessions: plan.local_sessions,
        reconfig_enabled: plan.is_dynamic(),
        super_id: plan.is_dynamic().then(|| digest_id(DigestHash::Sha1, SUPER)),
        is_ensemble: plan.is_ensemble(),
        has_observer_masters: plan.observer_masters && plan.is_ensemble(),
    }
}

/// A learner reports its touches when it is pinged; the leader closes its link if that takes too long.
fn touch_loss_max_ms(plan: &Plan, slowest_us: i64) -> i64 {
    i64::from(plan.tick_ms) * (plan.sync_ticks + 2) + slowest_us / 1000
}

/// How late a leader may learn of touches at its learners when paths between servers are slow or cut. The leader
/// counts from the arrival of the report and closes links that are later. Reports of observers behind a follower
/// travel two paths.
fn report_max_ms(plan: &Plan) -> i64 {
    let ways_suffer =
        plan.is_ensemble() && [plan.slow_path_ms, plan.depose_ms, plan.partition_ms, plan.one_way_ms] != [0; 4];
    let ways = i64::from(ways_suffer) * if plan.observer_masters { 2 } else { 1 };
    ways * i64::from(plan.tick_ms) * (plan.sync_ticks + 1)
}

fn draw_keep(env: &mut Env, pieces: usize) -> KeepUnsynced {
    match env.rng.below(8) {
        0 => KeepUnsynced::Nothing,
        1 => KeepUnsynced::Everything,
        2 => KeepUnsynced::Only(env.rng.index(pieces)),
        3 | 4 => KeepUnsynced::AllBut(env.rng.index(pieces)),
        _ => KeepUnsynced::Random(env.rng.next_u64()),
    }
}
