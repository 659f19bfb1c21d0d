//! Servers, clients, and what lies between them.

use crate::checkers::{timeliness, quorums};
use crate::client::Client;
use crate::env::Env;
use crate::event::{End, Event, Job, Who};
use crate::faults::copies::Copying;
use crate::faults::{self, Fault};
use crate::jobs::SUPER;
use crate::link::{LinkId, Way};
use crate::net::{Side, WireId};
use crate::plan::Plan;
use crate::server::config;
use crate::server::member::PeerInput;
use crate::server::process::Process;
use crate::server::{Server, Track};
use ox_history::{HistorySettings, Time};
use ox_store::disk::Keep;
use ox_tree::auth::digest_id;
use ox_zab::Link as ElectionLink;
use std::path::Path;

/// How long a server stays down after its process ended, at most.
const DOWN_MS: i64 = 3_000;

pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<Client>,
    /// A copy of a directory that is being made.
    pub(crate) copying: Option<Copying>,
}

/// A live process with what it works on.
pub(crate) struct Alive<'a> {
    pub(crate) process: &'a mut Process,
    pub(crate) track: &'a mut Track,
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
        world.env.plan_in(world.env.plan.active_ms * 1000, Event::Heal);
        for (number, server) in world.servers.iter().enumerate() {
            if world.env.plan.is_ensemble() {
                server.disk.install(Path::new("/data/initialize"), b"");
            }
            if world.env.plan.is_dynamic() {
                config::install(&server.disk, &world.env.plan);
            }
            world.env.queue.plan(Time(0), Event::Job(Job::Start(number)));
        }
        if world.env.plan.is_ensemble() {
            world.env.plan_in(0, Event::Mesh);
            timeliness::plan_next(&mut world.env);
        }
        for number in 0..clients {
            let client = Client::new(number, &mut world.env);
            world.clients.push(client);
        }
        for fault in Fault::ALL {
            faults::plan_next(&mut world.env, *fault);
        }
        world
    }

    /// Whether this run of the server goes on. After a failure nothing does.
    pub(crate) fn is_current(&self, who: Who) -> bool {
        let goes_on = self.env.failure.is_none() && !self.env.hands.is_over();
        goes_on && self.servers[who.server].boot == who.boot
    }

    pub(crate) fn alive(&mut self, who: Who) -> Option<Alive<'_>> {
        let server = &mut self.servers[who.server];
        let process = server.process.as_mut().filter(|_| server.boot == who.boot)?;
        Some(Alive { process, track: &mut server.track, env: &mut self.env })
    }

    /// Whether a job may begin now. The files of a server are for one at a time of those that remove some.
    pub(crate) fn may_begin(&mut self, job: Job) -> bool {
        match job {
            Job::Snapshot(who) | Job::Maintain(who) if self.is_current(who) => self.take_files(who, job),
            _ => true,
        }
    }

    /// Takes a server's files for a job; false if another one has them.
    pub(crate) fn take_files(&mut self, who: Who, job: Job) -> bool {
        let files = &mut self.servers[who.server].files;
        *files.get_or_insert(job) == job
    }

    /// A job has ended.
    pub(crate) fn on_job_done(&mut self, job: Job) {
        if let Job::Snapshot(who) | Job::Maintain(who) | Job::Log(who) = job {
            self.servers[who.server].files.take_if(|holder| *holder == job);
        }
    }

    /// When a run of a server goes on, if it is frozen.
    pub(crate) fn frozen(&self, who: Who) -> Option<Time> {
        let process = self.servers[who.server].process.as_ref().filter(|_| self.is_current(who))?;
        process.frozen(self.env.now)
    }

    /// When an event happens that has to wait for a frozen process.
    pub(crate) fn waits(&self, event: Event) -> Option<Time> {
        match event {
            Event::Io(who, _) | Event::Replica(who) | Event::Idle(who) => self.frozen(who),
            Event::Job(Job::Log(who) | Job::Snapshot(who) | Job::Maintain(who) | Job::Stop(who)) => self.frozen(who),
            Event::Job(Job::LookUp(who, _) | Job::SendStored(who, _)) => self.frozen(who),
            Event::Accept(link) => {
                let server = self.env.links[link].server;
                self.frozen(Who { server, boot: self.servers[server].boot })
            }
            Event::Wake(_, who) => who.and_then(|who| self.frozen(who)),
            Event::Arrive(..) | Event::Client(..) | Event::End(..) | Event::Fault(_) | Event::Heal => None,
            Event::Look => None,
            Event::Dialed(_)
            | Event::Wired(..)
            | Event::Ready(..)
            | Event::Noted(..)
            | Event::Mesh
            | Event::Unmesh(..) => None,
            Event::Job(Job::Start(_)) => None,
        }
    }

    pub(crate) fn handle(&mut self, event: Event) {
        match event {
            Event::Accept(link) => self.accept(link),
            Event::Arrive(link, way) => self.arrive(link, way),
            Event::Io(who, thread) => {
                if let Some(Alive { process, env, .. }) = self.alive(who) {
                    process.io_step(env, who, thread);
                }
            }
            Event::Replica(who) => {
                if let Some(Alive { process, track, env }) = self.alive(who) {
                    process.replica_step(env, track, who);
                    quorums::check(self);
                }
            }
            Event::Idle(who) => {
                if let Some(Alive { process, env, .. }) = self.alive(who) {
                    process.look_for_idle(env, who);
                }
            }
            Event::Client(number, token) => self.clients[number].on_time(&mut self.env, token),
            Event::End(who, end) => self.end(who, end),
            Event::Fault(fault) => faults::strike(self, fault),
            Event::Look => timeliness::look(self),
            Event::Heal => faults::heal(self),
            Event::Dialed(wire) => self.on_dialed(wire),
            Event::Wired(wire, side) => self.on_wired(wire, side),
            Event::Ready(wire, side) => self.on_ready(wire, side),
            Event::Noted(from, to) => {
                if let Some((note, config)) = self.env.net.take_note(from, to) {
                    self.tell(to, PeerInput::Note(from, note, config));
                }
            }
            Event::Mesh => self.mesh(),
            Event::Unmesh(a, b) => {
                if !self.env.net.is_open_both_ways(a, b) {
                    self.unmesh(a, b);
                }
            }
            Event::Job(_) | Event::Wake(..) => unreachable!("the engine runs jobs"),
        }
    }

    /// Gives a member something from its peers, if it is there.
    fn tell(&mut self, server: usize, input: PeerInput) {
        let who = Who { server, boot: self.servers[server].boot };
        if let Some(Alive { process, env, .. }) = self.alive(who) {
            process.on_peer(env, who, input);
        }
    }

    /// A learner's connection reaches the server it wants, or not.
    fn on_dialed(&mut self, wire: WireId) {
        let [from, Who { server, .. }] = self.env.net.wires[wire].ends;
        let leader = self.env.net.wires[wire].leader;
        let is_open = self.env.net.is_open_both_ways(from.server, server);
        if !is_open && !std::mem::replace(&mut self.env.net.wires[wire].has_waited, true) {
            let patience_us = self.env.dice.between(100_000, 3_000_000);
            return self.env.plan_in(patience_us, Event::Dialed(wire));
        }
        if !self.is_current(from) {
            return;
        }
        let to = Who { server, boot: self.servers[server].boot };
        let listens = self.alive(to).is_some_and(|alive| alive.process.member.is_listening);
        if !listens || !is_open {
            return self.tell(from.server, PeerInput::Dialed(leader, None));
        }
        let wired = &mut self.env.net.wires[wire];
        (wired.ends[1], wired.is_up) = (to, true);
        self.tell(server, PeerInput::Link(wire));
        self.tell(from.server, PeerInput::Dialed(leader, Some(wire)));
    }

    /// Bytes, or the end, of one side of a wire arrive at the other.
    fn on_wired(&mut self, wire: WireId, side: Side) {
        let now = self.env.now;
        self.env.net.wires[wire].pipes[side].arrive(now);
        let to = self.env.net.wires[wire].ends[1 - side];
        if let Some(Alive { process, env, .. }) = self.alive(to) {
            process.on_peer(env, to, PeerInput::Readable(wire));
        }
    }

    fn on_ready(&mut self, wire: WireId, side: Side) {
        let to = self.env.net.wires[wire].ends[side];
        if let Some(Alive { process, env, .. }) = self.alive(to) {
            process.on_peer(env, to, PeerInput::Writable(wire));
            process.on_peer(env, to, PeerInput::Readable(wire));
        }
    }

    /// Tries the election connections that are missing.
    fn mesh(&mut self) {
        for a in 0..self.servers.len() {
            for b in a + 1..self.servers.len() {
                let are_up = [a, b].iter().all(|server| self.servers[*server].process.is_some());
                if are_up && !self.env.net.is_meshed(a, b) && self.env.net.is_open_both_ways(a, b) {
                    self.env.net.mesh(a, b);
                    self.tell(a, PeerInput::Election(b, ElectionLink::Up));
                    self.tell(b, PeerInput::Election(a, ElectionLink::Up));
                }
            }
        }
        let pause_us = self.env.dice.between(10_000, 200_000);
        self.env.plan_in(pause_us, Event::Mesh);
    }

    fn unmesh(&mut self, a: usize, b: usize) {
        if self.env.net.unmesh(a, b) {
            self.tell(a, PeerInput::Election(b, ElectionLink::Down));
            self.tell(b, PeerInput::Election(a, ElectionLink::Down));
        }
    }

    /// A connection reaches its server, if that is there.
    fn accept(&mut self, link: LinkId) {
        let server = self.env.links[link].server;
        let who = Who { server, boot: self.servers[server].boot };
        match self.alive(who) {
            Some(Alive { process, env, .. }) if !process.is_stopping => process.accept(env, who, link),
            _ => self.env.cut(link),
        }
    }

    fn arrive(&mut self, link: LinkId, way: Way) {
        let now = self.env.now;
        self.env.links[link].pipe(way).arrive(now);
        let (client, server, boot) = {
            let link = &self.env.links[link];
            (link.client, link.server, link.boot)
        };
        match way {
            Way::Up => {
                let who = Who { server, boot };
                if let Some(Alive { process, env, .. }) = self.alive(who) {
                    process.on_readable(env, who, link);
                }
            }
            Way::Down => {
                self.clients[client].on_readable(&mut self.env, link);
                self.on_drained(link);
            }
        }
    }

    /// The client may have made room for more.
    fn on_drained(&mut self, link: LinkId) {
        let (server, boot) = (self.env.links[link].server, self.env.links[link].boot);
        let who = Who { server, boot };
        if let Some(Alive { process, env, .. }) = self.alive(who) {
            process.on_writable(env, who, link);
        }
    }

    /// A client wakes up and reads what has come meanwhile.
    pub(crate) fn wake_client(&mut self, number: usize) {
        for link in self.clients[number].links() {
            self.clients[number].on_readable(&mut self.env, link);
            self.on_drained(link);
        }
    }

    /// A run of a server ends.
    pub(crate) fn end(&mut self, who: Who, end: End) {
        if self.servers[who.server].boot != who.boot {
            return;
        }
        let server = &mut self.servers[who.server];
        self.env.looks.excused_until = self.env.looks.excused_until.max(Some(self.env.now));
        let marks = &mut self.env.marks;
        match end {
            End::Killed => marks.kills += 1,
            End::PowerCut => marks.power_cuts += 1,
            End::Stopped => marks.clean_stops += 1,
        }
        if let Some(process) = server.process.take() {
            marks.kills_in_log += u64::from(process.log.is_none() && end != End::Stopped);
            marks.kills_in_snapshot += u64::from(process.is_snapshotting);
        }
        marks.kills_in_recovery += u64::from(std::mem::replace(&mut server.is_starting, false));
        server.boot += 1;
        server.files = None;
        match end {
            End::Killed | End::Stopped => server.disk.restart_process(),
            End::PowerCut => {
                let keep = draw_keep(&mut self.env, server.disk.unsynced_pieces());
                server.disk.power_on(keep);
                self.env.note(format_args!("server {} comes back with {keep:?} of what was unsynced", who.server));
            }
        }
        self.env.note(format_args!("server {} run {} ended: {end:?}", who.server, who.boot));
        for link in 0..self.env.links.len() {
            if self.env.links[link].server == who.server && self.env.links[link].boot == who.boot {
                self.env.links[link].place = None;
                self.env.cut(link);
            }
        }
        for wire in 0..self.env.net.wires.len() {
            if self.env.net.wires[wire].is_up && self.env.net.wires[wire].ends.contains(&who) {
                self.env.net.wires[wire].is_up = false;
                self.env.wire_cut(wire);
            }
        }
        for other in 0..self.servers.len() {
            self.unmesh(who.server, other);
        }
        let down_ms = if self.env.is_healed { 20 } else { self.env.dice.skewed(DOWN_MS) };
        self.env.plan_in(down_ms * 1000, Event::Job(Job::Start(who.server)));
    }
}

/// What clients can expect of servers that follow the plan.
fn settings(plan: &Plan) -> HistorySettings {
    let mut slowest_us = plan.net_delay_us * 20 + plan.thread_delay_us * 50 + 2_000_000;
    if plan.throttle_max.is_some() || plan.outstanding_max < 100 || plan.memory_budget_bytes < 1 << 20 {
        // Requests that have come may be looked at when everybody else's are on disk.
        let requests = plan.requests.min(plan.pipeline as u64) * plan.clients as u64;
        let sync_us = if plan.slow_disk_ms == 0 { plan.sync_us } else { 2_000_000 };
        slowest_us += i64::try_from(requests).unwrap_or(i64::MAX).saturating_mul(sync_us);
    }
    HistorySettings {
        extended_types: plan.extended_types,
        tick_ms: i64::from(plan.tick_ms),
        may_refuse_writes: plan.full_ms != 0 || plan.throttled_wait_ms != 0,
        never_used_ms: plan.never_used_ms,
        delay_max_ms: slowest_us / 1000 + report_max_ms(plan),
        touch_loss_max_ms: if plan.is_ensemble() { touch_loss_max_ms(plan, slowest_us) } else { 0 },
        is_dynamic: plan.is_dynamic(),
        local_sessions: plan.local_sessions,
        reconfig_enabled: plan.is_dynamic(),
        super_id: plan.is_dynamic().then(|| digest_id(SUPER)),
        is_ensemble: plan.is_ensemble(),
        has_observer_masters: plan.observer_masters && plan.is_ensemble(),
    }
}

/// A learner reports its clients when it is pinged, and is given up when that takes too long.
fn touch_loss_max_ms(plan: &Plan, slowest_us: i64) -> i64 {
    i64::from(plan.tick_ms) * (plan.sync_ticks + 2) + slowest_us / 1000
}

/// How late a leader may hear of a learner's clients where ways between servers are slow or cut for a while: it counts from
/// then on, since it cannot know when they spoke, and gives up who is later. What observers of followers say goes two ways.
fn report_max_ms(plan: &Plan) -> i64 {
    let ways_suffer =
        plan.is_ensemble() && [plan.slow_way_ms, plan.depose_ms, plan.partition_ms, plan.one_way_ms] != [0; 4];
    let ways = i64::from(ways_suffer) * if plan.observer_masters { 2 } else { 1 };
    ways * i64::from(plan.tick_ms) * (plan.sync_ticks + 1)
}

fn draw_keep(env: &mut Env, pieces: usize) -> Keep {
    match env.dice.below(8) {
        0 => Keep::Nothing,
        1 => Keep::Everything,
        2 => Keep::Only(env.dice.index(pieces)),
        3 | 4 => Keep::AllBut(env.dice.index(pieces)),
        _ => Keep::Random(env.dice.next()),
    }
}
