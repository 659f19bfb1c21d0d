//! Ensembles of quorum peers in which a seed decides when packets arrive, how fast disks are and what clients write.
//!
//! The servers, their disks and links are those of the scripts (`stepped_ensemble`). A crash loses the work that the
//! disk has not done.

use crate::checks::Checks;
use crate::reconfig_txn::record_of;
use crate::stepped_ensemble::{Server, SteppedEnsemble, last};
use bytes::Bytes;
use ox_proto::Zxid;
use ox_proto::ensemble::{Change, ChangeRules, Ensemble};
use ox_testkit::Rng;
use ox_zab::{
    ConfigPair, ElectionConnection, Eligibility, EncodedTxn, Epoch, Epochs, Input, Leader, LearnerKind, PeerOptions,
    PeerState, ServerId, Timing, Vote, VoteNotification,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Transactions in the recent log: few, so that snapshots are needed.
const RECENT_LOG_MAX: usize = 8;

/// How long a dial takes if no reply arrives.
const CONNECT_MS: i64 = 3_000;

/// The longest pause between two writes at a leader.
const WRITE_MS: i64 = 40;

/// What happens next to a server, or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Todo {
    Time(ServerId),
    Deliver(ServerId, ServerId),
    Drain(ServerId, ServerId),
    Work(ServerId),
    Dial(ServerId, ServerId),
    NoReply(ServerId, ServerId),
    Write(ServerId),
}

pub(crate) struct ZabCluster {
    pub(crate) rng: Rng,
    ensemble: SteppedEnsemble,
    /// When everything happens that can happen now.
    plan: BTreeMap<Todo, i64>,
    has_started: bool,
    pub(crate) delay_ms: i64,
    pub(crate) disk_ms: i64,
    /// Send windows, and the limit of applied bytes that slow learners may pin.
    pub(crate) windows: (usize, usize),
    next_value: u64,
    pub(crate) writes: bool,
    /// Whether random reconfigurations are proposed.
    pub(crate) changes: bool,
    pub(crate) is_dynamic: bool,
}

fn numbered(version: i64, voters: &[i64], observers: &[i64]) -> Ensemble {
    let ids = |ids: &[i64]| ids.iter().copied().map(ServerId).collect::<Vec<_>>();
    Ensemble::of_numbers(version, ids(voters), ids(observers)).unwrap()
}

impl ZabCluster {
    /// The same with dynamic configurations.
    pub(crate) fn dynamic(seed: u64, voters: i64, observers: i64) -> Self {
        let mut cluster = Self { is_dynamic: true, changes: true, ..Self::new(seed, voters, observers) };
        cluster.ensemble.servers.values_mut().for_each(|server| server.is_dynamic = true);
        cluster
    }

    /// Servers without data, which start with the first `run`.
    pub(crate) fn new(seed: u64, voters: i64, observers: i64) -> Self {
        let (voters, observers): (Vec<_>, Vec<_>) = (1..=voters + observers).partition(|id| *id <= voters);
        let config = numbered(0, &voters, &observers);
        let ids = config.members().keys().copied().collect::<Vec<_>>();
        let mut ensemble = SteppedEnsemble::default();
        ensemble.timing = Timing { tick_ms: 100, init_ticks: 20, sync_ticks: 10 };
        ensemble.election.max_notification_ms = 2_000;
        ensemble.servers = ids.into_iter().map(|id| (id, empty_server(config.clone()))).collect();
        (ensemble.notes_have_configs, ensemble.is_recorded) = (true, false);
        ensemble.checks = Some(Checks::default());
        Self {
            rng: Rng::new(seed),
            ensemble,
            plan: BTreeMap::new(),
            has_started: false,
            delay_ms: 5,
            disk_ms: 5,
            windows: (1 << 20, 1 << 20),
            next_value: 0,
            writes: true,
            changes: false,
            is_dynamic: false,
        }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.ensemble.now_ms
    }

    /// Records every input and effect, and prints them.
    pub(crate) fn print(&mut self) {
        self.ensemble.is_recorded = true;
    }

    fn server(&mut self, id: ServerId) -> &mut Server {
        self.ensemble.server(id).unwrap()
    }

    fn is_up(&self, id: ServerId) -> bool {
        self.ensemble.servers[&id].process.is_some()
    }

    pub(crate) fn up(&self) -> Vec<i64> {
        self.ensemble.running().into_iter().map(|id| id.0).collect()
    }

    pub(crate) fn server_ids(&self) -> Vec<i64> {
        self.ensemble.servers.keys().map(|id| id.0).collect()
    }

    pub(crate) fn kill(&mut self, id: i64) {
        let id = ServerId(id);
        if self.is_up(id) {
            self.ensemble.kill(id).unwrap();
        }
    }

    /// Removes the data of a server that is down.
    pub(crate) fn wipe(&mut self, id: i64) {
        self.server(ServerId(id)).wipe().unwrap();
    }

    pub(crate) fn start(&mut self, id: i64) {
        let id = ServerId(id);
        if self.is_up(id) {
            return;
        }
        let (window_bytes, pinned_bytes) = self.windows;
        let server = self.server(id);
        server.options.learner_window_bytes = window_bytes;
        (server.pinned_bytes_max, server.was_killed) = (pinned_bytes, true);
        self.ensemble.start(id).unwrap();
    }

    pub(crate) fn set_link(&mut self, a: i64, b: i64, works: bool) {
        let (a, b) = (ServerId(a), ServerId(b));
        if a == b || works != self.ensemble.is_cut(a, b) {
            return;
        }
        if !works {
            self.ensemble.cut(a, b);
            self.ensemble.cut(b, a);
            // At random, the ends also learn that their connection is closed.
            if self.rng.below(2) == 0 {
                self.ensemble.close_links(a, b).unwrap();
            }
            return;
        }
        self.ensemble.cut.retain(|way| ![(a, b), (b, a)].contains(way));
        if self.is_up(a) && self.is_up(b) {
            self.ensemble.step(a, Input::ElectionLink(b, ElectionConnection::Up)).unwrap();
            self.ensemble.step(b, Input::ElectionLink(a, ElectionConnection::Up)).unwrap();
        }
    }

    /// Cuts or restores one direction between two servers. Election connections survive it. Open connections to a
    /// leader stay broken in that direction, and new ones cannot be opened meanwhile.
    pub(crate) fn set_direction(&mut self, from: i64, to: i64, is_open: bool) {
        if is_open {
            self.ensemble.cut.remove(&(ServerId(from), ServerId(to)));
        } else {
            self.ensemble.cut(ServerId(from), ServerId(to));
        }
    }

    /// A leader whose disk is nearly full refuses writes.
    pub(crate) fn set_low(&mut self, id: i64, is_low: bool) {
        let id = ServerId(id);
        self.server(id).is_disk_low = is_low;
        if self.is_up(id) {
            self.ensemble.step(id, Input::DiskLow(is_low)).unwrap();
        }
    }

    /// Makes all LOOKING servers elect this one. Wrong elections may cost time, and nothing else.
    pub(crate) fn forge_votes(&mut self, leader: i64) {
        self.next_value += 1;
        let round = 1_000 + i64::try_from(self.next_value).unwrap();
        let vote = Vote { leader: ServerId(leader), zxid: Zxid(i64::MAX), epoch: i64::from(i32::MAX) };
        let note = VoteNotification { state: PeerState::Looking, vote, round, has_version: true };
        let voters: Vec<_> = self.ensemble.servers[&ServerId(1)].committed.voters().collect();
        for to in self.ensemble.running() {
            voters.iter().for_each(|from| self.ensemble.step(to, Input::Notification(*from, note)).unwrap());
        }
    }

    /// Adds a server without data that was never started and is to join the voters.
    pub(crate) fn add_joiner(&mut self, id: i64) {
        let voters = [self.server_ids(), vec![id]].concat();
        let server = Server { is_dynamic: self.is_dynamic, ..empty_server(numbered(0, &voters, &[])) };
        // The other servers start first.
        self.start_all();
        self.ensemble.servers.insert(ServerId(id), server);
    }

    /// While these servers are down, a configuration with these voters is appended to their logs.
    pub(crate) fn log_proposed(&mut self, servers: &[i64], voters: &[i64]) {
        let ends = servers.iter().map(|id| last(&self.ensemble.servers[&ServerId(*id)].log)).collect::<Vec<_>>();
        assert!(ends.windows(2).all(|pair| pair[0] == pair[1]), "their logs are equal");
        let zxid = Zxid(ends[0].0 + 1);
        let record = record_of(&numbered(zxid.0, voters, &[]), zxid);
        for id in servers {
            self.server(ServerId(*id)).log.push(EncodedTxn { zxid, record: record.clone() });
        }
    }

    /// While a server is down, its accepted epoch is raised above any leader's.
    pub(crate) fn accept_later_epoch(&mut self, id: i64, jump: i64) {
        let epochs = &mut self.server(ServerId(id)).epochs;
        epochs.accepted = Epoch(epochs.accepted.0 + jump);
    }

    fn start_all(&mut self) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.server_ids().into_iter().for_each(|id| self.start(id));
        }
    }

    pub(crate) fn run(&mut self, ms: i64) {
        self.start_all();
        let until_ms = self.now_ms() + ms;
        loop {
            self.make_plan();
            let next = self.plan.iter().map(|(todo, at_ms)| (*at_ms, *todo)).min();
            let Some((at_ms, todo)) = next.filter(|(at_ms, _)| *at_ms <= until_ms) else { break };
            self.plan.remove(&todo);
            self.ensemble.now_ms = at_ms.max(self.now_ms());
            self.perform(todo);
            self.ensemble.take_lines().iter().for_each(|line| println!("{at_ms:6} {line}"));
        }
        self.ensemble.now_ms = until_ms;
    }

    /// Plans everything that can happen and has no time yet.
    fn make_plan(&mut self) {
        let (now_ms, delay_ms) = (self.now_ms(), self.delay_ms);
        let mut new = Vec::new();
        for (from, to) in self.ensemble.in_flight().into_iter().filter(|(_, to)| self.is_up(*to)) {
            new.push((Todo::Deliver(from, to), delay_ms));
        }
        new.extend(self.ensemble.full.keys().map(|(from, to)| (Todo::Drain(*from, *to), delay_ms)));
        for (id, server) in &self.ensemble.servers {
            let Some(process) = &server.process else { continue };
            new.extend((!process.work.is_empty()).then_some((Todo::Work(*id), self.disk_ms)));
            new.extend(process.dials.map(|leader| (Todo::Dial(*id, leader), delay_ms)));
            new.extend(process.peer.role().leader().map(|_| (Todo::Write(*id), WRITE_MS)));
            // A deadline may be later by now, or sooner.
            let deadline_ms = process.peer.deadline().map(|deadline_ms| deadline_ms.max(now_ms + 1));
            match deadline_ms {
                Some(at_ms) => drop(self.plan.insert(Todo::Time(*id), at_ms)),
                None => drop(self.plan.remove(&Todo::Time(*id))),
            }
        }
        for (todo, max_ms) in new {
            if !self.plan.contains_key(&todo) {
                self.plan.insert(todo, now_ms + self.rng.between(1, max_ms.max(1)));
            }
        }
    }

    fn perform(&mut self, todo: Todo) {
        match todo {
            Todo::Time(id) | Todo::Work(id) | Todo::Dial(id, _) | Todo::NoReply(id, _) | Todo::Write(id)
                if !self.is_up(id) => {}
            Todo::Time(id) => self.ensemble.step(id, Input::Time).unwrap(),
            Todo::Deliver(from, to) => {
                // Sometimes the receiver is slow to read, which fills the socket of the sender.
                if self.rng.below(20) == 0 && self.windows.0 < 1 << 20 {
                    self.ensemble.full.entry((from, to)).or_insert(0);
                }
                while self.ensemble.deliver(from, to).unwrap() && self.rng.below(16) != 0 {}
            }
            Todo::Drain(from, to) => {
                if self.is_up(from) && self.ensemble.full.contains_key(&(from, to)) {
                    // The link may be closed by now.
                    let _ = self.ensemble.drain_socket(from, to);
                }
            }
            Todo::Work(id) => {
                self.ensemble.fsync_max = 1 + self.rng.index(8);
                self.ensemble.is_log_readable = self.rng.below(3) != 0;
                self.ensemble.work(id).unwrap();
            }
            Todo::Dial(id, _) => self.dial(id),
            Todo::NoReply(id, leader) => self.ensemble.step(id, Input::Dialed(leader, None)).unwrap(),
            Todo::Write(id) => self.write(id),
        }
    }

    /// A learner connects to its leader, or at random to an observer master.
    fn dial(&mut self, id: ServerId) {
        let process = self.ensemble.process(id).unwrap();
        let Some(leader) = process.dials else { return };
        let observes = process.peer.configs().kind_of(id) == LearnerKind::Observer;
        let serves = |server: &Server| {
            server.process.as_ref().is_some_and(|process| process.peer.role().observer_master().is_some())
        };
        let masters = self.ensemble.servers.iter().filter(|(_, server)| observes && serves(server));
        let masters: Vec<ServerId> = masters.map(|(id, _)| *id).collect();
        let master = masters.get(self.rng.index(2 * masters.len() + 1)).copied();
        self.server(id).observer_master = master;
        if self.ensemble.is_cut(id, master.unwrap_or(leader)) {
            self.ensemble.process(id).unwrap().dials = None;
            self.plan.insert(Todo::NoReply(id, leader), self.now_ms() + CONNECT_MS);
            return;
        }
        self.ensemble.connect(id).unwrap();
    }

    /// A random configuration: each server is a voter, an observer or not a member.
    fn random_members(&mut self) -> String {
        let (mut voters, mut observers) = (Vec::new(), Vec::new());
        for id in self.server_ids() {
            match self.rng.below(5) {
                0 => observers.push(id),
                1 => (),
                _ => voters.push(id),
            }
        }
        let voters = if voters.is_empty() { vec![1] } else { voters };
        observers.retain(|id| !voters.contains(id));
        numbered(0, &voters, &observers).to_string().replace("\nversion=0", "")
    }

    fn write(&mut self, id: ServerId) {
        if !self.writes || self.server(id).is_disk_low {
            return;
        }
        self.next_value += 1;
        let record = Bytes::from(self.next_value.to_string());
        let wanted = (self.changes && self.rng.below(12) == 0).then(|| self.random_members());
        let process = self.ensemble.process(id).unwrap();
        let Some(leader) = process.peer.role().leader().filter(|_| process.is_serving) else { return };
        let zxid = leader.zxid_after(leader.last_proposed()).unwrap();
        let change = wanted.and_then(|members| {
            let change = Change { members: Some(&members), ..Change::default() };
            let rules = ChangeRules { standalone_enabled: false, ..ChangeRules::default() };
            leader.check_reconfig(&change, -1, zxid, rules).ok()
        });
        let txn = EncodedTxn { zxid, record: change.map_or(record, |change| record_of(&change, zxid)) };
        self.ensemble.step(id, Input::Propose(vec![txn.clone()])).unwrap();
        self.ensemble.append(id, txn).unwrap();
    }

    /// The established leader, if there is one.
    pub(crate) fn leader(&self) -> Option<i64> {
        let mut servers = self.ensemble.servers.iter();
        let leads = |server: &Server| server.process.as_ref()?.peer.role().leader().map(Leader::is_established);
        servers.find(|(_, server)| leads(server) == Some(true)).map(|(id, _)| id.0)
    }

    /// Whether all servers are up and have served the same history.
    pub(crate) fn is_converged(&self) -> bool {
        let served = &self.checks().served;
        let agrees = |server: &Server| {
            server.process.as_ref().is_some_and(|process| process.is_serving && process.state() == served)
        };
        self.ensemble.servers.values().all(agrees)
    }

    /// The configuration that all servers have; none if they differ.
    pub(crate) fn config(&self) -> Option<Arc<Ensemble>> {
        let mut all = self.ensemble.servers.values().map(|server| server.process.as_ref().map(|it| it.peer.configs()));
        let first = all.next()??;
        let same = |configs: Option<&ConfigPair>| {
            configs.is_some_and(|configs| configs.proposed().is_none() && configs.committed() == first.committed())
        };
        (first.proposed().is_none() && all.all(same)).then(|| Arc::clone(first.committed()))
    }

    pub(crate) fn states(&self) -> Vec<(i64, Option<PeerState>)> {
        let state = |server: &Server| server.process.as_ref().map(|process| process.peer.status().state);
        self.ensemble.servers.iter().map(|(id, server)| (id.0, state(server))).collect()
    }

    fn checks(&self) -> &Checks {
        self.ensemble.checks.as_ref().expect("a random run is checked")
    }

    pub(crate) fn coverage(&self) -> &BTreeMap<&'static str, usize> {
        &self.checks().coverage
    }

    pub(crate) fn served(&self) -> usize {
        self.checks().served.len()
    }
}

/// A server that was never started.
fn empty_server(committed: Ensemble) -> Server {
    Server {
        log: Vec::new(),
        epochs: Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO },
        eligibility: Eligibility::Empty,
        committed,
        proposed: None,
        is_dynamic: false,
        options: PeerOptions { serves_observers: true, observer_delay_ms: 50, ..PeerOptions::default() },
        recent_max: RECENT_LOG_MAX,
        pinned_bytes_max: 0,
        observer_master: None,
        is_disk_low: false,
        process: None,
        was_killed: false,
    }
}
