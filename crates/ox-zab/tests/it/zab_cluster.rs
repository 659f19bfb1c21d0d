//! Whole ensembles of peers with the plainest possible network, disks and states, driven by a seed.
//!
//! A disk keeps the whole history as one list; jobs and appended transactions reach it one after the other, each
//! after some time, and a crash loses what has not. A state is the list of applied transactions, so that two of them
//! are compared whole.

mod free_space;
mod network;
mod reconfigs;

use crate::election_cluster::Dice;
use bytes::Bytes;
use ox_proto::ensemble::{Addresses, Change, ChangeRules, Ensemble};
use ox_proto::txn::{Record, Txn as Body, TxnHeader};
use ox_proto::{SessionId, Zxid};
use ox_zab::{
    Configs, DiskDone, DiskJob, Effect, Effects, ElectionSettings, Epoch, Epochs, History, Link, LinkId, Message,
    Notification, Peer, PeerOptions, PeerSettings, PeerState, Reason, Recovered, ServerId, Standing, Timing, Txn, Vote,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How many transactions peers keep in memory: few, so that snapshots are needed.
const KEPT_MAX: usize = 8;

/// What outlives a process.
#[derive(Clone, Debug)]
struct Disk {
    /// Whether there is a history at all.
    is_founded: bool,
    log: Vec<Txn>,
    epochs: Epochs,
    /// The configuration in force, and one that may follow.
    config: Ensemble,
    proposed: Option<Ensemble>,
}

/// Work that has been given to a disk and is not done.
#[derive(Debug)]
enum Work {
    Append(Txn),
    Job(DiskJob, Vec<Txn>),
    Proposed(Arc<Ensemble>),
    Committed(Arc<Ensemble>),
}

struct Server {
    disk: Disk,
    /// Nearly full.
    is_low: bool,
    process: Option<Process>,
    boot: u64,
}

struct Process {
    peer: Peer,
    work: VecDeque<Work>,
    is_working: bool,
    state: Vec<Txn>,
    /// Committed, and maybe not durable here.
    committed: Zxid,
    staged: Option<Vec<Txn>>,
    /// Everything given to the disk: what the state is made from.
    logged: Vec<Txn>,
    is_serving: bool,
    /// How much of the state is known to agree with what was served.
    checked: usize,
    /// Stored history for learners.
    found: BTreeMap<LinkId, Vec<Txn>>,
    /// Packets that wait until they are taken.
    waiting: VecDeque<(LinkId, Packet)>,
}

#[derive(Clone, Debug)]
enum Packet {
    Message(Message),
    State(Vec<Txn>),
    End,
}

enum Event {
    Note(ServerId, Notification, Arc<Ensemble>),
    ElectionLink(ServerId, Link),
    Dial(ServerId),
    /// A dial has failed because nothing came back.
    NotReached(ServerId),
    Packet(LinkId, Packet),
    Sent(LinkId, usize),
    Worked,
    LookedUp(LinkId, Option<Zxid>),
    Tick,
    Start,
    Write,
}

struct Wire {
    ends: [(ServerId, u64); 2],
    is_cut: bool,
    /// Servers that do not receive what the other end sends any more.
    cut_ways: Vec<ServerId>,
}

pub(crate) struct Realm {
    pub(crate) now_ms: i64,
    pub(crate) dice: Dice,
    ensemble: Ensemble,
    servers: BTreeMap<ServerId, Server>,
    wires: BTreeMap<LinkId, Wire>,
    events: BTreeMap<(i64, u64), (ServerId, u64, Event)>,
    last: BTreeMap<(u64, ServerId), i64>,
    cut_pairs: Vec<(ServerId, ServerId)>,
    /// Ways on which everything is lost, from the first to the second.
    cut_ways: BTreeSet<(ServerId, ServerId)>,
    next: u64,
    pub(crate) delay_ms: i64,
    pub(crate) disk_ms: i64,
    /// The send windows, and the applied bytes that are kept for slow learners.
    pub(crate) windows: (usize, usize),
    /// What has been served anywhere, in order: no server may ever disagree.
    truth: Vec<Txn>,
    leaders: BTreeMap<i64, ServerId>,
    next_value: u64,
    pub(crate) writes: bool,
    /// Whether the ensemble changes too.
    pub(crate) changes: bool,
    pub(crate) is_dynamic: bool,
    /// Every configuration that was ever heard of.
    configs: BTreeMap<i64, Arc<Ensemble>>,
    pub(crate) marks: BTreeMap<&'static str, usize>,
    pub(crate) verbose: bool,
}

fn ensemble(version: i64, voters: impl Iterator<Item = i64>, observers: impl Iterator<Item = i64>) -> Ensemble {
    Ensemble::of_numbers(version, voters.map(ServerId), observers.map(ServerId)).unwrap()
}

/// A transaction that brings a configuration.
fn record_of(config: &Ensemble, zxid: Zxid) -> Bytes {
    let text = config.to_string();
    let txn = Body::Reconfig { path: "/zookeeper/config".into(), data: Some(text.as_bytes()), version: -1 };
    let header = TxnHeader { session: SessionId(1), cxid: 1, zxid, time_ms: 1, kind: txn.kind().code() };
    let mut out = Vec::new();
    Record { header, txn, digest: None }.put(&mut out);
    out.into()
}

fn config_of(txn: &Txn) -> Option<Ensemble> {
    let Body::Reconfig { data: Some(text), .. } = Record::decode(&txn.record).ok()?.txn else { return None };
    Ensemble::parse(std::str::from_utf8(text).ok()?, Addresses::One).ok()
}

impl Realm {
    /// The same, of servers that take new configurations.
    pub(crate) fn dynamic(seed: u64, voters: i64, observers: i64) -> Self {
        Self { is_dynamic: true, changes: true, ..Self::new(seed, voters, observers) }
    }

    pub(crate) fn new(seed: u64, voters: i64, observers: i64) -> Self {
        let mut realm = Self {
            now_ms: 0,
            dice: Dice::new(seed),
            ensemble: ensemble(0, 1..=voters, voters + 1..=voters + observers),
            servers: BTreeMap::new(),
            wires: BTreeMap::new(),
            events: BTreeMap::new(),
            last: BTreeMap::new(),
            cut_pairs: Vec::new(),
            cut_ways: BTreeSet::new(),
            next: 0,
            delay_ms: 5,
            disk_ms: 5,
            windows: (1 << 20, 1 << 20),
            truth: Vec::new(),
            leaders: BTreeMap::new(),
            next_value: 0,
            writes: true,
            changes: false,
            is_dynamic: false,
            configs: BTreeMap::new(),
            marks: BTreeMap::new(),
            verbose: false,
        };
        for id in 1..=voters + observers {
            let disk = Disk {
                is_founded: false,
                log: Vec::new(),
                epochs: Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO },
                config: realm.ensemble.clone(),
                proposed: None,
            };
            realm.servers.insert(ServerId(id), Server { disk, is_low: false, process: None, boot: 0 });
            realm.plan(0, ServerId(id), Event::Start);
        }
        realm
    }

    fn mark(&mut self, what: &'static str) {
        *self.marks.entry(what).or_default() += 1;
    }

    fn plan(&mut self, in_ms: i64, to: ServerId, event: Event) {
        self.next += 1;
        let boot = self.servers[&to].boot;
        self.events.insert((self.now_ms + in_ms, self.next), (to, boot, event));
    }

    /// Plans the arrival of something that must not overtake what the same way carries.
    fn post(&mut self, way: u64, to: ServerId, event: Event) {
        let earliest = self.last.get(&(way, to)).copied().unwrap_or(0);
        let at_ms = earliest.max(self.now_ms + self.dice.below(self.delay_ms.max(1)) + 1);
        self.last.insert((way, to), at_ms);
        self.plan(at_ms - self.now_ms, to, event);
    }

    fn works(&self, a: ServerId, b: ServerId) -> bool {
        !self.cut_pairs.contains(&(a.min(b), a.max(b)))
    }

    pub(crate) fn up(&self) -> Vec<i64> {
        self.servers.iter().filter(|(_, server)| server.process.is_some()).map(|(id, _)| id.0).collect()
    }

    pub(crate) fn everybody(&self) -> Vec<i64> {
        self.servers.keys().map(|id| id.0).collect()
    }

    pub(crate) fn kill(&mut self, id: i64) {
        let id = ServerId(id);
        let server = self.servers.get_mut(&id).unwrap();
        if server.process.take().is_none() {
            return;
        }
        server.boot += 1;
        let links: Vec<LinkId> =
            self.wires.iter().filter(|(_, w)| w.ends.iter().any(|e| e.0 == id)).map(|(l, _)| *l).collect();
        for link in links {
            self.cut(link);
        }
        for other in self.servers.keys().copied().collect::<Vec<_>>() {
            if other != id && self.works(id, other) {
                self.post(u64::MAX, other, Event::ElectionLink(id, Link::Down));
            }
        }
    }

    /// The disk of a server is lost while it is down.
    pub(crate) fn wipe(&mut self, id: i64) {
        let server = self.servers.get_mut(&ServerId(id)).unwrap();
        assert!(server.process.is_none());
        let epochs = Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO };
        let Disk { config, proposed, .. } = server.disk.clone();
        server.disk = Disk { is_founded: false, log: Vec::new(), epochs, config, proposed };
    }

    pub(crate) fn start(&mut self, id: i64) {
        let id = ServerId(id);
        let is_dynamic = self.is_dynamic;
        let server = self.servers.get_mut(&id).unwrap();
        if server.process.is_some() {
            return;
        }
        let (log, is_low) = (server.disk.log.clone(), server.is_low);
        let configs = if is_dynamic {
            // What the log says counts as much as the file.
            let logged = log.iter().filter_map(config_of);
            let proposed = logged.chain(server.disk.proposed.clone()).max_by_key(Ensemble::version);
            Configs::dynamic(server.disk.config.clone(), proposed)
        } else {
            Configs::fixed(self.ensemble.clone())
        };
        let mut history = History::new(Zxid::ZERO, KEPT_MAX, 1 << 20).with_pinned_max(self.windows.1);
        let skip = log.len().saturating_sub(KEPT_MAX);
        history.restart(skip.checked_sub(1).map_or(Zxid::ZERO, |at| log[at].zxid));
        log[skip..].iter().for_each(|txn| history.push(txn.clone()));
        let options = PeerOptions { serves_observers: true, observer_rest_ms: 50, ..PeerOptions::default() };
        let settings = PeerSettings {
            server: id,
            configs,
            timing: Timing { tick_ms: 100, init_ticks: 20, sync_ticks: 10 },
            election: ElectionSettings { longest_wait_ms: 2_000, ..ElectionSettings::default() },
            options: PeerOptions { learner_window_bytes: self.windows.0, ..options },
        };
        let standing = if server.disk.is_founded { Standing::History } else { Standing::Empty };
        let recovered = Recovered { epochs: server.disk.epochs, history, standing };
        let last = log.last().map_or(Zxid::ZERO, |txn| txn.zxid);
        server.process = Some(Process {
            peer: Peer::new(settings, recovered),
            work: VecDeque::new(),
            is_working: false,
            state: log.clone(),
            committed: last,
            staged: None,
            logged: log,
            is_serving: false,
            checked: 0,
            found: BTreeMap::new(),
            waiting: VecDeque::new(),
        });
        self.step(id, |peer, now, out| {
            peer.on_room(now, is_low, out);
            peer.start(now, out);
        });
        for other in self.servers.keys().copied().collect::<Vec<_>>() {
            if other != id {
                self.join(id, other);
            }
        }
        self.plan(1, id, Event::Tick);
        self.plan(1, id, Event::Write);
    }

    fn join(&mut self, a: ServerId, b: ServerId) {
        let is_cut = [(a, b), (b, a)].iter().any(|way| self.cut_ways.contains(way));
        if !is_cut && self.works(a, b) && self.servers[&a].process.is_some() && self.servers[&b].process.is_some() {
            self.post(u64::MAX, a, Event::ElectionLink(b, Link::Up));
            self.post(u64::MAX, b, Event::ElectionLink(a, Link::Up));
        }
    }

    pub(crate) fn set_link(&mut self, a: i64, b: i64, works: bool) {
        let (a, b) = (ServerId(a.min(b)), ServerId(a.max(b)));
        if works == self.works(a, b) || a == b {
            return;
        }
        if works {
            self.cut_pairs.retain(|pair| *pair != (a, b));
            return self.join(a, b);
        }
        self.cut_pairs.push((a, b));
        // Silence: nothing arrives any more; whether anybody is told is another matter.
        let tells = self.dice.below(2) == 0;
        let links: Vec<LinkId> = self
            .wires
            .iter()
            .filter(|(_, wire)| [a, b].iter().all(|id| wire.ends.iter().any(|end| end.0 == *id)))
            .map(|(link, _)| *link)
            .collect();
        for link in links {
            if tells {
                self.cut(link);
            } else {
                self.wires.get_mut(&link).unwrap().is_cut = true;
                self.events.retain(|_, (_, _, event)| !matches!(event, Event::Packet(of, _) if *of == link));
            }
        }
    }

    /// Ends a connection: what is on its way may still arrive, then both ends hear of it.
    fn cut(&mut self, link: LinkId) {
        let Some(wire) = self.wires.remove(&link) else { return };
        for (id, boot) in wire.ends {
            if self.servers[&id].boot == boot {
                self.post(link.0, id, Event::Packet(link, Packet::End));
            }
        }
    }

    fn step(&mut self, id: ServerId, step: impl FnOnce(&mut Peer, i64, &mut Effects)) {
        let Some(process) = self.servers.get_mut(&id).and_then(|server| server.process.as_mut()) else { return };
        let mut out = Effects::new();
        step(&mut process.peer, self.now_ms, &mut out);
        process.peer.flush(self.now_ms, &mut out);
        for effect in out {
            self.perform(id, effect);
        }
    }

    fn process(&mut self, id: ServerId) -> &mut Process {
        self.servers.get_mut(&id).unwrap().process.as_mut().unwrap()
    }

    fn say(&self, id: ServerId, what: &dyn std::fmt::Debug) {
        if self.verbose {
            println!("{:6} {id}: {what:?}", self.now_ms);
        }
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
    fn perform(&mut self, id: ServerId, effect: Effect) {
        if !matches!(
            effect,
            Effect::Send(_, Message::Ping(_) | Message::Pong(..)) | Effect::FromLeader(Message::Ping(_))
        ) {
            self.say(id, &effect);
        }
        match effect {
            Effect::Notify(to, _) if self.cut_ways.contains(&(id, to)) => (),
            Effect::Notify(to, note) if self.works(id, to) && self.servers[&to].process.is_some() => {
                let config = Arc::clone(self.process(id).peer.configs().committed());
                self.post(u64::MAX, to, Event::Note(id, note, config));
            }
            Effect::Dial(leader) => self.post(u64::MAX - 1, id, Event::Dial(leader)),
            Effect::Send(link, message) => {
                let bytes = message.flow_bytes();
                self.send(id, link, Packet::Message(message));
                self.post(link.0, id, Event::Sent(link, bytes));
            }
            Effect::SendSnapshot(link) => {
                self.mark("snapshots");
                let state = self.process(id).state.clone();
                let zxid = state.last().map_or(Zxid::ZERO, |txn| txn.zxid);
                self.send(id, link, Packet::Message(Message::Snap(zxid)));
                self.send(id, link, Packet::State(state));
            }
            Effect::LookUp(link, search) => {
                self.mark(if search.continues { "continued from disk" } else { "looked up" });
                self.plan_look_up(id, link, search.after, search.below);
            }
            Effect::SendStored(link) => {
                self.mark("stored histories");
                for txn in self.process(id).found.remove(&link).expect("it was found") {
                    let zxid = txn.zxid;
                    self.send(id, link, Packet::Message(Message::Proposal(txn)));
                    self.send(id, link, Packet::Message(Message::Commit(zxid)));
                }
            }
            Effect::Close(link) => self.cut(link),
            Effect::Disk(job) => self.on_job(id, job),
            Effect::Append(txn) => self.append(id, txn),
            Effect::Commit(zxid) => {
                let process = self.process(id);
                process.committed = zxid.max(process.committed);
                self.apply(id);
            }
            Effect::Stage(txn) => {
                let staged = self.process(id).staged.as_mut().expect("a state has come");
                staged.retain(|old| old.zxid < txn.zxid); // replay of what is in it already
                staged.push(txn);
            }
            Effect::Established(epoch) => {
                self.mark("established");
                let other = self.leaders.insert(epoch.0, id);
                assert_eq!(other, None, "two leaders of epoch {epoch}");
                self.serve(id);
            }
            Effect::UpToDate(_) => {
                self.mark("joined");
                self.serve(id);
            }
            Effect::Leave(ref reason) => {
                match reason {
                    Reason::HandedOver(_) => self.mark("handed over"),
                    Reason::NoRoom => self.mark("gave way"),
                    _ => (),
                }
                let process = self.process(id);
                (process.is_serving, process.staged, process.checked) = (false, None, 0);
            }
            Effect::Seen(config) => self.save(id, Work::Proposed(config)),
            Effect::Activate(config, _) => self.save(id, Work::Committed(config)),
            Effect::FromLeader(Message::Ping(zxid)) => {
                self.step(id, |peer, _, out| {
                    let link = peer.learner().unwrap().link();
                    peer.send(link, Message::Pong(zxid, Bytes::new()), out);
                });
            }
            _ => (),
        }
    }

    /// A configuration goes to the disk, behind everything else.
    fn save(&mut self, id: ServerId, work: Work) {
        if let Work::Proposed(config) | Work::Committed(config) = &work {
            self.hear_of(config);
        }
        if let Work::Committed(config) = &work {
            let is_first = Zxid(config.version()).counter() == 0;
            self.mark(if is_first { "numbered" } else { "changed" });
        }
        self.process(id).work.push_back(work);
        self.work(id);
    }

    fn plan_look_up(&mut self, id: ServerId, link: LinkId, peer: Zxid, below: Zxid) {
        let log = &self.servers[&id].disk.log;
        let found: Vec<Txn> = log.iter().filter(|txn| peer < txn.zxid && txn.zxid < below).cloned().collect();
        let has = log.iter().any(|txn| txn.zxid == peer) && self.dice.below(3) != 0;
        if has {
            self.process(id).found.insert(link, found);
        }
        let in_ms = self.dice.below(self.disk_ms.max(1)) + 1;
        self.plan(in_ms, id, Event::LookedUp(link, has.then_some(below)));
    }

    fn on_job(&mut self, id: ServerId, job: DiskJob) {
        let process = self.process(id);
        let mut content = Vec::new();
        match job {
            DiskJob::Install(zxid) => {
                content = process.staged.take().expect("a state has come");
                assert_eq!(content.last().map_or(Zxid::ZERO, |txn| txn.zxid), zxid);
                (process.state, process.logged) = (content.clone(), content.clone());
                process.committed = zxid;
            }
            DiskJob::Truncate(zxid) => {
                process.logged.retain(|txn| txn.zxid <= zxid);
                process.state.retain(|txn| txn.zxid <= zxid);
                process.committed = process.committed.min(zxid);
                self.mark("truncations");
            }
            DiskJob::AcceptedEpoch(_) | DiskJob::CurrentEpoch(_) | DiskJob::Found => (),
        }
        self.process(id).work.push_back(Work::Job(job, content));
        self.work(id);
    }

    fn append(&mut self, id: ServerId, txn: Txn) {
        let process = self.process(id);
        assert!(txn.zxid.follows(process.logged.last().map_or(Zxid::ZERO, |last| last.zxid)));
        process.logged.push(txn.clone());
        process.work.push_back(Work::Append(txn));
        self.work(id);
    }

    fn work(&mut self, id: ServerId) {
        let in_ms = self.dice.below(self.disk_ms.max(1)) + 1;
        let process = self.process(id);
        if !process.is_working && !process.work.is_empty() {
            process.is_working = true;
            self.plan(in_ms, id, Event::Worked);
        }
    }

    /// The disk has done what was first, and sometimes more.
    fn on_worked(&mut self, id: ServerId) {
        self.process(id).is_working = false;
        let mut durable = None;
        while let Some(work) = self.process(id).work.pop_front() {
            let disk = &mut self.servers.get_mut(&id).unwrap().disk;
            match work {
                Work::Append(txn) => {
                    durable = Some(txn.zxid);
                    disk.log.push(txn);
                    if self.dice.below(4) == 0 {
                        break;
                    }
                    continue;
                }
                Work::Proposed(config) => {
                    disk.proposed = Some(Ensemble::clone(&config)).filter(|new| disk.config.version() < new.version());
                    continue;
                }
                Work::Committed(config) => {
                    assert!(disk.config.version() < config.version(), "a configuration went back");
                    disk.config = Ensemble::clone(&config);
                    disk.proposed = disk.proposed.take().filter(|new| disk.config.version() < new.version());
                    continue;
                }
                Work::Job(job, content) => {
                    let before = disk.epochs;
                    match job {
                        DiskJob::AcceptedEpoch(epoch) => disk.epochs.accepted = epoch,
                        DiskJob::CurrentEpoch(epoch) => disk.epochs.current = epoch,
                        DiskJob::Truncate(zxid) => disk.log.retain(|txn| txn.zxid <= zxid),
                        DiskJob::Install(_) => (disk.log, disk.is_founded) = (content, true),
                        DiskJob::Found => disk.is_founded = true,
                    }
                    assert!(before.accepted <= disk.epochs.accepted && before.current <= disk.epochs.current);
                    assert!(disk.epochs.current <= disk.epochs.accepted);
                    if let Some(durable) = durable.take() {
                        self.on_durable(id, durable);
                    }
                    let end = self.servers[&id].disk.log.last().map_or(Zxid::ZERO, |txn| txn.zxid);
                    let done = match job {
                        DiskJob::Truncate(zxid) if end != zxid => DiskDone::Truncated(Some(end)),
                        _ => job.done(),
                    };
                    self.step(id, |peer, now, out| peer.on_done(now, done, out));
                    break;
                }
            }
        }
        if let Some(durable) = durable {
            self.on_durable(id, durable);
        }
        self.drain(id);
        self.work(id);
    }

    fn on_durable(&mut self, id: ServerId, durable: Zxid) {
        self.step(id, |peer, now, out| peer.on_durable(now, durable, out));
        self.apply(id);
    }

    /// Applies what is committed and durable here.
    fn apply(&mut self, id: ServerId) {
        let server = self.servers.get_mut(&id).unwrap();
        let durable = server.disk.log.last().map_or(Zxid::ZERO, |txn| txn.zxid);
        let process = server.process.as_mut().unwrap();
        let end = process.committed.min(durable);
        let applied = process.state.last().map_or(Zxid::ZERO, |txn| txn.zxid);
        let more: Vec<Txn> =
            process.logged.iter().filter(|txn| applied < txn.zxid && txn.zxid <= end).cloned().collect();
        process.state.extend(more);
        if let Some(last) = process.state.last().map(|txn| txn.zxid) {
            process.peer.on_applied(last);
        }
        self.check(id);
    }

    fn serve(&mut self, id: ServerId) {
        self.process(id).is_serving = true;
        self.apply(id);
    }

    /// Whoever serves agrees with everything that was ever served.
    fn check(&mut self, id: ServerId) {
        let process = self.servers[&id].process.as_ref().unwrap();
        if !process.is_serving {
            return;
        }
        let common = process.state.len().min(self.truth.len());
        for at in process.checked..common {
            assert_eq!(process.state[at], self.truth[at], "server {id} at {at}");
        }
        if let Some(leader) = process.peer.leader().filter(|leader| leader.is_established() && !leader.is_leaving()) {
            assert!(self.truth.len() <= process.logged.len(), "leader {id} of {:?} lacks history", leader.epoch());
        }
        let more = process.state[common..].to_vec();
        self.truth.extend(more);
        let process = self.process(id);
        process.checked = process.state.len();
    }

    fn send(&mut self, id: ServerId, link: LinkId, packet: Packet) {
        let Some(wire) = self.wires.get(&link) else { return };
        if let Packet::Message(Message::Ack(zxid)) = &packet {
            let disk = &self.servers[&id].disk;
            if zxid.counter() == 0 {
                assert_eq!(disk.epochs.current, Epoch::of(*zxid), "acknowledged before it was durable");
            } else {
                assert!(disk.log.last().is_some_and(|last| *zxid <= last.zxid), "acknowledged before it was durable");
            }
        }
        if let Packet::Message(Message::AckEpoch { last, current: Some(current) }) = &packet {
            let disk = &self.servers[&id].disk;
            assert_eq!(*last, disk.log.last().map_or(Zxid::ZERO, |txn| txn.zxid));
            assert_eq!(*current, disk.epochs.current);
        }
        let (to, boot) = if wire.ends[0].0 == id { wire.ends[1] } else { wire.ends[0] };
        if !wire.is_cut && !wire.cut_ways.contains(&to) && self.servers[&to].boot == boot {
            self.post(link.0, to, Event::Packet(link, packet));
        }
    }

    /// A follower that an observer goes to instead of the leader, now and then.
    fn master(&mut self) -> Option<ServerId> {
        let serves = |server: &Server| server.process.as_ref().is_some_and(|process| process.peer.master().is_some());
        let masters: Vec<ServerId> =
            self.servers.iter().filter(|(_, server)| serves(server)).map(|(id, _)| *id).collect();
        let at = usize::try_from(self.dice.below(2 * masters.len() as i64 + 1)).unwrap();
        masters.get(at).copied()
    }

    /// Gives a peer the packets that it takes.
    fn drain(&mut self, id: ServerId) {
        loop {
            let Some(process) = self.servers.get_mut(&id).unwrap().process.as_mut() else { return };
            let Some((link, packet)) = process.waiting.front() else { return };
            let is_state = matches!(packet, Packet::State(_)) && process.peer.learner().is_some_and(|l| l.is_loading());
            if !is_state && !matches!(packet, Packet::End) && !process.peer.takes_packets(*link) {
                return;
            }
            let (link, packet) = process.waiting.pop_front().unwrap();
            match packet {
                Packet::Message(message) => {
                    self.step(id, |peer, now, out| peer.on_message(now, link, message, out));
                }
                Packet::State(state) => {
                    let now = self.now_ms;
                    let process = self.process(id);
                    if process.peer.learner().is_some_and(|learner| learner.link() == link && learner.is_loading()) {
                        process.staged = Some(state);
                        process.peer.on_loaded(now);
                    }
                }
                Packet::End => self.step(id, |peer, now, out| peer.on_link_gone(now, link, out)),
            }
        }
    }

    /// Makes everybody who looks for a leader believe that this one is elected. Elections may go wrong in any way; only
    /// time may be lost.
    pub(crate) fn lie(&mut self, leader: i64) {
        self.next += 1;
        let round = 1_000 + i64::try_from(self.next).unwrap();
        let vote = Vote { leader: ServerId(leader), zxid: Zxid(i64::MAX), epoch: i64::from(i32::MAX) };
        let note = Notification { state: PeerState::Looking, vote, round, has_version: true };
        for to in self.servers.keys().copied().collect::<Vec<_>>() {
            for from in self.ensemble.voters().collect::<Vec<_>>() {
                if self.servers[&to].process.is_some() {
                    let config = Arc::new(self.ensemble.clone());
                    self.post(u64::MAX, to, Event::Note(from, note, config));
                }
            }
        }
    }

    fn write(&mut self, id: ServerId) {
        if self.writes && !self.servers[&id].is_low {
            self.next_value += 1;
            let value = self.next_value;
            let wanted = (self.changes && self.dice.below(12) == 0).then(|| self.some_members());
            let process = self.process(id);
            if process.is_serving
                && let Some(leader) = process.peer.leader()
            {
                let zxid = leader.next().unwrap();
                let change = wanted.and_then(|members| {
                    let change = Change { members: Some(&members), ..Change::default() };
                    let rules = ChangeRules { standalone_enabled: false, ..ChangeRules::default() };
                    leader.judge_change(&change, -1, zxid, rules).ok()
                });
                let record = change.map_or_else(|| Bytes::from(value.to_string()), |change| record_of(&change, zxid));
                let txn = Txn { zxid, record };
                self.step(id, |peer, now, out| peer.propose(now, [txn.clone()], out));
                self.append(id, txn);
            }
        }
        let in_ms = self.dice.below(40) + 1;
        self.plan(in_ms, id, Event::Write);
    }

    pub(crate) fn run(&mut self, ms: i64) {
        let until_ms = self.now_ms + ms;
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= until_ms) {
            let ((at_ms, _), (id, boot, event)) = entry.remove_entry();
            self.now_ms = at_ms;
            let server = &self.servers[&id];
            let is_start = matches!(event, Event::Start);
            if is_start {
                self.start(id.0);
            } else if server.boot == boot && server.process.is_some() {
                self.handle(id, event);
            }
        }
        self.now_ms = until_ms;
    }

    fn handle(&mut self, id: ServerId, event: Event) {
        match event {
            Event::Note(from, note, config) => {
                self.step(id, |peer, now, out| peer.on_config(now, from, config, out));
                self.step(id, |peer, now, out| peer.on_notification(now, from, note, out));
            }
            Event::ElectionLink(server, link) => {
                self.step(id, |peer, now, out| peer.on_election_link(now, server, link, out));
            }
            Event::Dial(leader) => self.dial(id, leader),
            Event::NotReached(leader) => self.step(id, |peer, now, out| peer.on_dialed(now, leader, None, out)),
            Event::Packet(link, packet) => {
                if !self.wires.get(&link).is_some_and(|wire| wire.is_cut) {
                    self.process(id).waiting.push_back((link, packet));
                    self.drain(id);
                }
            }
            Event::Sent(link, bytes) => self.step(id, |peer, now, out| peer.on_sent(now, link, bytes, out)),
            Event::Worked => self.on_worked(id),
            Event::LookedUp(link, below) => self.step(id, |peer, now, out| peer.on_looked_up(now, link, below, out)),
            Event::Tick => {
                let now = self.now_ms;
                if self.process(id).peer.deadline().is_some_and(|deadline| deadline <= now) {
                    self.step(id, |peer, now, out| peer.on_time(now, out));
                }
                self.step(id, |_, _, _| ()); // who waits for what is applied looks
                self.plan(10, id, Event::Tick);
            }
            Event::Write => self.write(id),
            Event::Start => (),
        }
    }

    /// Everybody serves the same.
    pub(crate) fn is_whole(&self) -> bool {
        let states = self
            .servers
            .values()
            .map(|server| server.process.as_ref().filter(|process| process.is_serving).map(|process| &process.state));
        states.clone().all(|state| state == Some(&self.truth))
    }

    pub(crate) fn states(&self) -> Vec<(i64, Option<PeerState>)> {
        self.servers.iter().map(|(id, server)| (id.0, server.process.as_ref().map(|p| p.peer.state()))).collect()
    }

    pub(crate) fn served(&self) -> usize {
        self.truth.len()
    }
}
