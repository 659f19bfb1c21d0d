//! Ensembles of quorum peers on a minimal network, with minimal disks and states, driven by a seed.
//!
//! A disk stores the whole history as one list. Jobs and appended transactions reach it one after another, each after
//! some time; a crash loses those that have not. A state is the list of applied transactions, so that two states can be
//! compared completely.

mod free_space;
mod network;
mod reconfigs;

use bytes::Bytes;
use ox_proto::ensemble::{Addresses, Change, ChangeRules, Ensemble};
use ox_proto::txn::{Record, Txn as Body, TxnHeader};
use ox_proto::{SessionId, Zxid};
use ox_testkit::Rng;
use ox_zab::{
    ConfigPair, DiskDone, DiskJob, Effect, Effects, ElectionConnection, ElectionSettings, Eligibility, EncodedTxn,
    Epoch, Epochs, Input, LinkId, Message, PeerOptions, PeerSettings, PeerState, QuorumPeer, Reason, RecentLog,
    Recovered, ServerId, Timing, Vote, VoteNotification,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Transactions in the recent log: few, so that snapshots are needed.
const RECENT_LOG_MAX: usize = 8;

/// What survives a crash.
#[derive(Clone, Debug)]
struct Disk {
    /// Whether the data directory contains a history.
    is_initialized: bool,
    log: Vec<EncodedTxn>,
    epochs: Epochs,
    config: Ensemble,
    proposed: Option<Ensemble>,
}

/// Work of the disk that is not done.
#[derive(Debug)]
enum Work {
    Append(EncodedTxn),
    Job(DiskJob, Vec<EncodedTxn>),
    Proposed(Arc<Ensemble>),
    Committed(Arc<Ensemble>),
}

struct Server {
    disk: Disk,
    is_low: bool,
    process: Option<Process>,
    boot: u64,
}

struct Process {
    peer: QuorumPeer,
    work: VecDeque<Work>,
    is_working: bool,
    state: Vec<EncodedTxn>,
    /// The last committed transaction, which may not be durable here.
    committed: Zxid,
    snapshot: Option<Vec<EncodedTxn>>,
    /// Everything that was given to the disk; transactions are applied from it.
    logged: Vec<EncodedTxn>,
    is_serving: bool,
    /// Length of the prefix of the state that was compared with the served history.
    checked: usize,
    /// Log diffs that were read for learners.
    found: BTreeMap<LinkId, Vec<EncodedTxn>>,
    /// Packets that wait until the peer takes them.
    waiting: VecDeque<(LinkId, Packet)>,
}

#[derive(Clone, Debug)]
enum Packet {
    Message(Message),
    State(Vec<EncodedTxn>),
    End,
}

enum Event {
    Note(ServerId, VoteNotification, Arc<Ensemble>),
    ElectionLink(ServerId, ElectionConnection),
    Dial(ServerId),
    /// A dial has timed out.
    NotReached(ServerId),
    Packet(LinkId, Packet),
    Sent(LinkId, usize),
    Worked,
    LogRead(LinkId, Option<Zxid>),
    Tick,
    Start,
    Write,
}

struct Wire {
    ends: [(ServerId, u64); 2],
    is_cut: bool,
    /// Ends that no longer receive what the other end sends.
    cut_directions: Vec<ServerId>,
}

pub(crate) struct ZabCluster {
    pub(crate) now_ms: i64,
    pub(crate) rng: Rng,
    ensemble: Ensemble,
    servers: BTreeMap<ServerId, Server>,
    wires: BTreeMap<LinkId, Wire>,
    events: BTreeMap<(i64, u64), (ServerId, u64, Event)>,
    last: BTreeMap<(u64, ServerId), i64>,
    cut_pairs: Vec<(ServerId, ServerId)>,
    /// Directions in which everything is lost, from the first server to the second.
    cut_directions: BTreeSet<(ServerId, ServerId)>,
    next: u64,
    pub(crate) delay_ms: i64,
    pub(crate) disk_ms: i64,
    /// Send windows, and the limit of applied bytes that slow learners may pin.
    pub(crate) windows: (usize, usize),
    /// The history that any server has served; no server may disagree.
    served: Vec<EncodedTxn>,
    leaders: BTreeMap<i64, ServerId>,
    next_value: u64,
    pub(crate) writes: bool,
    /// Whether random reconfigurations are proposed.
    pub(crate) changes: bool,
    pub(crate) is_dynamic: bool,
    /// Every configuration that was ever proposed, by version.
    configs: BTreeMap<i64, Arc<Ensemble>>,
    pub(crate) coverage: BTreeMap<&'static str, usize>,
    pub(crate) verbose: bool,
}

pub(crate) fn ensemble(
    version: i64,
    voters: impl Iterator<Item = i64>,
    observers: impl Iterator<Item = i64>,
) -> Ensemble {
    Ensemble::of_numbers(version, voters.map(ServerId), observers.map(ServerId)).unwrap()
}

pub(crate) fn record_of(config: &Ensemble, zxid: Zxid) -> Bytes {
    let text = config.to_string();
    let txn = Body::Reconfig { path: "/zookeeper/config".into(), data: Some(text.as_bytes()), version: -1 };
    let header = TxnHeader { session: SessionId(1), cxid: 1, zxid, time_ms: 1, kind: txn.kind().code() };
    let mut out = Vec::new();
    Record { header, txn, digest: None }.put(&mut out);
    out.into()
}

pub(crate) fn config_of(txn: &EncodedTxn) -> Option<Ensemble> {
    let Body::Reconfig { data: Some(text), .. } = Record::decode(&txn.record).ok()?.txn else { return None };
    Ensemble::parse(std::str::from_utf8(text).ok()?, Addresses::One).ok()
}

impl ZabCluster {
    /// The same with dynamic configurations.
    pub(crate) fn dynamic(seed: u64, voters: i64, observers: i64) -> Self {
        Self { is_dynamic: true, changes: true, ..Self::new(seed, voters, observers) }
    }

    pub(crate) fn new(seed: u64, voters: i64, observers: i64) -> Self {
        let mut cluster = Self {
            now_ms: 0,
            rng: Rng::new(seed),
            ensemble: ensemble(0, 1..=voters, voters + 1..=voters + observers),
            servers: BTreeMap::new(),
            wires: BTreeMap::new(),
            events: BTreeMap::new(),
            last: BTreeMap::new(),
            cut_pairs: Vec::new(),
            cut_directions: BTreeSet::new(),
            next: 0,
            delay_ms: 5,
            disk_ms: 5,
            windows: (1 << 20, 1 << 20),
            served: Vec::new(),
            leaders: BTreeMap::new(),
            next_value: 0,
            writes: true,
            changes: false,
            is_dynamic: false,
            configs: BTreeMap::new(),
            coverage: BTreeMap::new(),
            verbose: false,
        };
        for id in 1..=voters + observers {
            let disk = Disk {
                is_initialized: false,
                log: Vec::new(),
                epochs: Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO },
                config: cluster.ensemble.clone(),
                proposed: None,
            };
            cluster.servers.insert(ServerId(id), Server { disk, is_low: false, process: None, boot: 0 });
            cluster.plan(0, ServerId(id), Event::Start);
        }
        cluster
    }

    fn cover(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    fn plan(&mut self, in_ms: i64, to: ServerId, event: Event) {
        self.next += 1;
        let boot = self.servers[&to].boot;
        self.events.insert((self.now_ms + in_ms, self.next), (to, boot, event));
    }

    /// Schedules an arrival after everything that was sent to the same server on the same path.
    fn post(&mut self, way: u64, to: ServerId, event: Event) {
        let earliest = self.last.get(&(way, to)).copied().unwrap_or(0);
        let at_ms = earliest.max(self.now_ms + self.rng.between(1, self.delay_ms.max(1)));
        self.last.insert((way, to), at_ms);
        self.plan(at_ms - self.now_ms, to, event);
    }

    fn works(&self, a: ServerId, b: ServerId) -> bool {
        !self.cut_pairs.contains(&(a.min(b), a.max(b)))
    }

    pub(crate) fn up(&self) -> Vec<i64> {
        self.servers.iter().filter(|(_, server)| server.process.is_some()).map(|(id, _)| id.0).collect()
    }

    pub(crate) fn server_ids(&self) -> Vec<i64> {
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
                self.post(u64::MAX, other, Event::ElectionLink(id, ElectionConnection::Down));
            }
        }
    }

    /// Removes the data of a server that is down.
    pub(crate) fn wipe(&mut self, id: i64) {
        let server = self.servers.get_mut(&ServerId(id)).unwrap();
        assert!(server.process.is_none());
        let epochs = Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO };
        let Disk { config, proposed, .. } = server.disk.clone();
        server.disk = Disk { is_initialized: false, log: Vec::new(), epochs, config, proposed };
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
            // A configuration may be proposed by the log or by the file.
            let logged = log.iter().filter_map(config_of);
            let proposed = logged.chain(server.disk.proposed.clone()).max_by_key(Ensemble::version);
            ConfigPair::dynamic(server.disk.config.clone(), proposed)
        } else {
            ConfigPair::fixed(self.ensemble.clone())
        };
        let mut history = RecentLog::new(Zxid::ZERO, RECENT_LOG_MAX, 1 << 20).with_pinned_max(self.windows.1);
        let skip = log.len().saturating_sub(RECENT_LOG_MAX);
        history.restart(skip.checked_sub(1).map_or(Zxid::ZERO, |at| log[at].zxid));
        log[skip..].iter().for_each(|txn| history.push(txn.clone()));
        let options = PeerOptions { serves_observers: true, observer_delay_ms: 50, ..PeerOptions::default() };
        let settings = PeerSettings {
            server: id,
            configs,
            timing: Timing { tick_ms: 100, init_ticks: 20, sync_ticks: 10 },
            election: ElectionSettings { max_notification_ms: 2_000, ..ElectionSettings::default() },
            options: PeerOptions { learner_window_bytes: self.windows.0, ..options },
        };
        let eligibility = if server.disk.is_initialized { Eligibility::HasHistory } else { Eligibility::Empty };
        let recovered = Recovered { epochs: server.disk.epochs, history, eligibility };
        let last = log.last().map_or(Zxid::ZERO, |txn| txn.zxid);
        server.process = Some(Process {
            peer: QuorumPeer::new(settings, recovered),
            work: VecDeque::new(),
            is_working: false,
            state: log.clone(),
            committed: last,
            snapshot: None,
            logged: log,
            is_serving: false,
            checked: 0,
            found: BTreeMap::new(),
            waiting: VecDeque::new(),
        });
        self.step(id, Input::DiskLow(is_low));
        self.step(id, Input::Start);
        for other in self.servers.keys().copied().collect::<Vec<_>>() {
            if other != id {
                self.join(id, other);
            }
        }
        self.plan(1, id, Event::Tick);
        self.plan(1, id, Event::Write);
    }

    fn join(&mut self, a: ServerId, b: ServerId) {
        let is_cut = [(a, b), (b, a)].iter().any(|way| self.cut_directions.contains(way));
        if !is_cut && self.works(a, b) && self.servers[&a].process.is_some() && self.servers[&b].process.is_some() {
            self.post(u64::MAX, a, Event::ElectionLink(b, ElectionConnection::Up));
            self.post(u64::MAX, b, Event::ElectionLink(a, ElectionConnection::Up));
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
        // Packets are lost from now on. At random, the ends also learn that the connection is closed.
        let tells = self.rng.below(2) == 0;
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

    /// Closes a connection: packets in flight may still arrive, then both ends learn of it.
    fn cut(&mut self, link: LinkId) {
        let Some(wire) = self.wires.remove(&link) else { return };
        for (id, boot) in wire.ends {
            if self.servers[&id].boot == boot {
                self.post(link.0, id, Event::Packet(link, Packet::End));
            }
        }
    }

    fn step(&mut self, id: ServerId, input: Input) {
        let Some(process) = self.servers.get_mut(&id).and_then(|server| server.process.as_mut()) else { return };
        let mut out = Effects::new();
        process.peer.step(self.now_ms, input, &mut out);
        for effect in out {
            self.perform(id, effect);
        }
    }

    fn process(&mut self, id: ServerId) -> &mut Process {
        self.servers.get_mut(&id).unwrap().process.as_mut().unwrap()
    }

    fn trace(&self, id: ServerId, what: &dyn std::fmt::Debug) {
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
            self.trace(id, &effect);
        }
        match effect {
            Effect::Notify(to, _) if self.cut_directions.contains(&(id, to)) => (),
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
                self.cover("snapshots");
                let state = self.process(id).state.clone();
                let zxid = state.last().map_or(Zxid::ZERO, |txn| txn.zxid);
                self.send(id, link, Packet::Message(Message::Snap(zxid)));
                self.send(id, link, Packet::State(state));
            }
            Effect::ReadLog(link, search) => {
                self.cover(if search.continues { "continued from disk" } else { "log reads" });
                self.plan_log_read(id, link, search.after, search.below);
            }
            Effect::SendLogDiff(link) => {
                self.cover("log diffs");
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
            Effect::ApplyToSnapshot(txn) => {
                let snapshot = self.process(id).snapshot.as_mut().expect("a state has come");
                snapshot.retain(|old| old.zxid < txn.zxid); // the snapshot may contain it
                snapshot.push(txn);
            }
            Effect::Established(epoch) => {
                self.cover("established");
                let other = self.leaders.insert(epoch.0, id);
                assert_eq!(other, None, "two leaders of epoch {epoch}");
                self.serve(id);
            }
            Effect::UpToDate(_) => {
                self.cover("joined");
                self.serve(id);
            }
            Effect::StepDown(ref reason) => {
                match reason {
                    Reason::HandedOver(_) => self.cover("handed over"),
                    Reason::DiskLow => self.cover("stepped down for low disk"),
                    _ => (),
                }
                let process = self.process(id);
                (process.is_serving, process.snapshot, process.checked) = (false, None, 0);
            }
            Effect::ConfigProposed(config) => self.save(id, Work::Proposed(config)),
            Effect::ActivateConfig(config, _) => self.save(id, Work::Committed(config)),
            Effect::FromLeader(Message::Ping(zxid)) => {
                let link = self.process(id).peer.role().learner().unwrap().link();
                self.step(id, Input::Send(link, Message::Pong(zxid, Bytes::new())));
            }
            _ => (),
        }
    }

    /// Appends a configuration to the work of the disk.
    fn save(&mut self, id: ServerId, work: Work) {
        if let Work::Proposed(config) | Work::Committed(config) = &work {
            self.note_config(config);
        }
        if let Work::Committed(config) = &work {
            let is_first = Zxid(config.version()).counter() == 0;
            self.cover(if is_first { "numbered" } else { "changed" });
        }
        self.process(id).work.push_back(work);
        self.work(id);
    }

    fn plan_log_read(&mut self, id: ServerId, link: LinkId, peer: Zxid, below: Zxid) {
        let log = &self.servers[&id].disk.log;
        let found: Vec<EncodedTxn> = log.iter().filter(|txn| peer < txn.zxid && txn.zxid < below).cloned().collect();
        let has = log.iter().any(|txn| txn.zxid == peer) && self.rng.below(3) != 0;
        if has {
            self.process(id).found.insert(link, found);
        }
        let in_ms = self.rng.between(1, self.disk_ms.max(1));
        self.plan(in_ms, id, Event::LogRead(link, has.then_some(below)));
    }

    fn on_job(&mut self, id: ServerId, job: DiskJob) {
        let process = self.process(id);
        let mut content = Vec::new();
        match job {
            DiskJob::Install(zxid) => {
                content = process.snapshot.take().expect("a state has come");
                assert_eq!(content.last().map_or(Zxid::ZERO, |txn| txn.zxid), zxid);
                (process.state, process.logged) = (content.clone(), content.clone());
                process.committed = zxid;
            }
            DiskJob::Truncate(zxid) => {
                process.logged.retain(|txn| txn.zxid <= zxid);
                process.state.retain(|txn| txn.zxid <= zxid);
                process.committed = process.committed.min(zxid);
                self.cover("truncations");
            }
            DiskJob::AcceptedEpoch(_) | DiskJob::CurrentEpoch(_) | DiskJob::InitializeLog => (),
        }
        self.process(id).work.push_back(Work::Job(job, content));
        self.work(id);
    }

    fn append(&mut self, id: ServerId, txn: EncodedTxn) {
        let process = self.process(id);
        assert!(txn.zxid.follows(process.logged.last().map_or(Zxid::ZERO, |last| last.zxid)));
        process.logged.push(txn.clone());
        process.work.push_back(Work::Append(txn));
        self.work(id);
    }

    fn work(&mut self, id: ServerId) {
        let in_ms = self.rng.between(1, self.disk_ms.max(1));
        let process = self.process(id);
        if !process.is_working && !process.work.is_empty() {
            process.is_working = true;
            self.plan(in_ms, id, Event::Worked);
        }
    }

    /// The disk has done the first of its work, and sometimes more.
    fn on_worked(&mut self, id: ServerId) {
        self.process(id).is_working = false;
        let mut durable = None;
        while let Some(work) = self.process(id).work.pop_front() {
            let disk = &mut self.servers.get_mut(&id).unwrap().disk;
            match work {
                Work::Append(txn) => {
                    durable = Some(txn.zxid);
                    disk.log.push(txn);
                    if self.rng.below(4) == 0 {
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
                        DiskJob::Install(_) => (disk.log, disk.is_initialized) = (content, true),
                        DiskJob::InitializeLog => disk.is_initialized = true,
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
                    self.step(id, Input::Done(done));
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
        self.step(id, Input::Durable(durable));
        self.apply(id);
    }

    /// Applies transactions that are committed and durable here.
    fn apply(&mut self, id: ServerId) {
        let server = self.servers.get_mut(&id).unwrap();
        let durable = server.disk.log.last().map_or(Zxid::ZERO, |txn| txn.zxid);
        let process = server.process.as_mut().unwrap();
        let end = process.committed.min(durable);
        let applied = process.state.last().map_or(Zxid::ZERO, |txn| txn.zxid);
        let more: Vec<EncodedTxn> =
            process.logged.iter().filter(|txn| applied < txn.zxid && txn.zxid <= end).cloned().collect();
        process.state.extend(more);
        if let Some(last) = process.state.last().map(|txn| txn.zxid) {
            self.step(id, Input::Applied(last));
        }
        self.check(id);
    }

    fn serve(&mut self, id: ServerId) {
        self.process(id).is_serving = true;
        self.apply(id);
    }

    /// A server that serves clients must agree with everything that was ever served.
    fn check(&mut self, id: ServerId) {
        let process = self.servers[&id].process.as_ref().unwrap();
        if !process.is_serving {
            return;
        }
        let common = process.state.len().min(self.served.len());
        for at in process.checked..common {
            assert_eq!(process.state[at], self.served[at], "server {id} at {at}");
        }
        if let Some(leader) =
            process.peer.role().leader().filter(|leader| leader.is_established() && !leader.is_handing_over())
        {
            assert!(self.served.len() <= process.logged.len(), "leader {id} of {:?} lacks history", leader.epoch());
        }
        let more = process.state[common..].to_vec();
        self.served.extend(more);
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
        if !wire.is_cut && !wire.cut_directions.contains(&to) && self.servers[&to].boot == boot {
            self.post(link.0, to, Event::Packet(link, packet));
        }
    }

    /// At random, an observer master that an observer connects to instead of the leader.
    fn random_observer_master(&mut self) -> Option<ServerId> {
        let serves = |server: &Server| {
            server.process.as_ref().is_some_and(|process| process.peer.role().observer_master().is_some())
        };
        let masters: Vec<ServerId> =
            self.servers.iter().filter(|(_, server)| serves(server)).map(|(id, _)| *id).collect();
        let at = self.rng.index(2 * masters.len() + 1);
        masters.get(at).copied()
    }

    /// Passes packets to the peer while it takes them.
    fn drain(&mut self, id: ServerId) {
        loop {
            let Some(process) = self.servers.get_mut(&id).unwrap().process.as_mut() else { return };
            let Some((link, packet)) = process.waiting.front() else { return };
            let is_state = matches!(packet, Packet::State(_))
                && process.peer.role().learner().is_some_and(|l| l.is_receiving_snapshot());
            if !is_state && !matches!(packet, Packet::End) && !process.peer.takes_packets(*link) {
                return;
            }
            let (link, packet) = process.waiting.pop_front().unwrap();
            match packet {
                Packet::Message(message) => {
                    self.step(id, Input::Packet(link, message));
                }
                Packet::State(state) => {
                    let process = self.process(id);
                    let learner = process.peer.role().learner();
                    if learner.is_some_and(|learner| learner.link() == link && learner.is_receiving_snapshot()) {
                        process.snapshot = Some(state);
                        self.step(id, Input::SnapshotReceived);
                    }
                }
                Packet::End => self.step(id, Input::LinkClosed(link)),
            }
        }
    }

    /// Makes all LOOKING servers elect this one. Wrong elections may cost time, and nothing else.
    pub(crate) fn forge_votes(&mut self, leader: i64) {
        self.next += 1;
        let round = 1_000 + i64::try_from(self.next).unwrap();
        let vote = Vote { leader: ServerId(leader), zxid: Zxid(i64::MAX), epoch: i64::from(i32::MAX) };
        let note = VoteNotification { state: PeerState::Looking, vote, round, has_version: true };
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
            let wanted = (self.changes && self.rng.below(12) == 0).then(|| self.random_members());
            let process = self.process(id);
            if process.is_serving
                && let Some(leader) = process.peer.role().leader()
            {
                let zxid = leader.zxid_after(leader.last_proposed()).unwrap();
                let change = wanted.and_then(|members| {
                    let change = Change { members: Some(&members), ..Change::default() };
                    let rules = ChangeRules { standalone_enabled: false, ..ChangeRules::default() };
                    leader.check_reconfig(&change, -1, zxid, rules).ok()
                });
                let record = change.map_or_else(|| Bytes::from(value.to_string()), |change| record_of(&change, zxid));
                let txn = EncodedTxn { zxid, record };
                self.step(id, Input::Propose(vec![txn.clone()]));
                self.append(id, txn);
            }
        }
        let in_ms = self.rng.between(1, 40);
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
                self.step(id, Input::Config(from, config));
                self.step(id, Input::Notification(from, note));
            }
            Event::ElectionLink(server, link) => {
                self.step(id, Input::ElectionLink(server, link));
            }
            Event::Dial(leader) => self.dial(id, leader),
            Event::NotReached(leader) => self.step(id, Input::Dialed(leader, None)),
            Event::Packet(link, packet) => {
                if !self.wires.get(&link).is_some_and(|wire| wire.is_cut) {
                    self.process(id).waiting.push_back((link, packet));
                    self.drain(id);
                }
            }
            Event::Sent(link, bytes) => self.step(id, Input::Sent(link, bytes)),
            Event::Worked => self.on_worked(id),
            Event::LogRead(link, below) => self.step(id, Input::LogRead(link, below)),
            Event::Tick => {
                let now = self.now_ms;
                if self.process(id).peer.deadline().is_some_and(|deadline| deadline <= now) {
                    self.step(id, Input::Time);
                }
                self.plan(10, id, Event::Tick);
            }
            Event::Write => self.write(id),
            Event::Start => (),
        }
    }

    /// Whether all servers are up and have served the same history.
    pub(crate) fn is_converged(&self) -> bool {
        let states = self
            .servers
            .values()
            .map(|server| server.process.as_ref().filter(|process| process.is_serving).map(|process| &process.state));
        states.clone().all(|state| state == Some(&self.served))
    }

    pub(crate) fn states(&self) -> Vec<(i64, Option<PeerState>)> {
        self.servers.iter().map(|(id, server)| (id.0, server.process.as_ref().map(|p| p.peer.status().state))).collect()
    }

    pub(crate) fn served(&self) -> usize {
        self.served.len()
    }
}
