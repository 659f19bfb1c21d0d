//! Servers with their disks, the links between them, and a clock. Nothing happens by itself: packets, disk work and time
//! wait for the commands of a script, or for `zab_cluster`, which decides at random. Inputs and effects can be recorded
//! as lines of text.

use crate::checks::Checks;
use crate::describe;
use crate::reconfig_txn::config_of;
use bytes::Bytes;
use ox_proto::Zxid;
use ox_proto::ensemble::Ensemble;
use ox_zab::{
    ConfigPair, DiskDone, DiskJob, Effect, Effects, ElectionConnection, ElectionSettings, Eligibility, EncodedTxn,
    Epoch, Epochs, Input, LinkId, LogDiffRange, Message, PeerOptions, PeerSettings, PeerState, QuorumPeer, RecentLog,
    Recovered, ServerId, Timing, VoteNotification,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What survives a crash, and the settings of a server.
pub(crate) struct Server {
    pub(crate) log: Vec<EncodedTxn>,
    pub(crate) epochs: Epochs,
    pub(crate) eligibility: Eligibility,
    pub(crate) committed: Ensemble,
    pub(crate) proposed: Option<Ensemble>,
    pub(crate) is_dynamic: bool,
    pub(crate) options: PeerOptions,
    /// Transactions that the recent log holds.
    pub(crate) recent_max: usize,
    /// Bytes of applied transactions that it keeps for slow learners.
    pub(crate) pinned_bytes_max: usize,
    /// The follower that an observer connects to instead of the leader.
    pub(crate) observer_master: Option<ServerId>,
    pub(crate) is_disk_low: bool,
    pub(crate) process: Option<Process>,
    pub(crate) was_killed: bool,
}

impl Server {
    /// Removes the data of a server that is down.
    pub(crate) fn wipe(&mut self) -> Result<(), String> {
        if self.process.is_some() {
            return Err("the server runs".to_owned());
        }
        self.log.clear();
        self.epochs = Epochs { accepted: Epoch::ZERO, current: Epoch::ZERO };
        self.eligibility = Eligibility::Empty;
        Ok(())
    }
}

pub(crate) struct Process {
    pub(crate) peer: QuorumPeer,
    pub(crate) work: VecDeque<Work>,
    pub(crate) dials: Option<ServerId>,
    /// Everything that was given to the disk.
    pub(crate) logged: Vec<EncodedTxn>,
    committed: Zxid,
    pub(crate) applied: Zxid,
    /// A snapshot that is being received.
    pub(crate) snapshot: Vec<EncodedTxn>,
    /// Whether clients are served.
    pub(crate) is_serving: bool,
}

impl Process {
    /// The transactions that are applied.
    pub(crate) fn state(&self) -> &[EncodedTxn] {
        &self.logged[..self.logged.partition_point(|txn| txn.zxid <= self.applied)]
    }
}

/// Work of the disk that is not done.
pub(crate) enum Work {
    Append(EncodedTxn),
    /// A job, with the snapshot that it installs.
    Job(DiskJob, Vec<EncodedTxn>),
    ReadLog(LinkId, LogDiffRange),
    Proposed(Arc<Ensemble>),
    Committed(Arc<Ensemble>),
}

enum Packet {
    Message(Message),
    Snapshot(Vec<EncodedTxn>),
    End,
}

/// A connection of a learner to a leader or to an observer master.
struct Link {
    learner: ServerId,
    server: ServerId,
    /// Packets in flight, by the server that receives them.
    queues: BTreeMap<ServerId, VecDeque<Packet>>,
    log_diff: Option<LogDiffRange>,
    /// An end whose process was killed.
    killed: Option<ServerId>,
    /// Ends that have lost packets, so that nothing more arrives there.
    lossy: BTreeSet<ServerId>,
}

impl Link {
    fn other(&self, id: ServerId) -> ServerId {
        if self.learner == id { self.server } else { self.learner }
    }

    fn is_between(&self, a: ServerId, b: ServerId) -> bool {
        [(a, b), (b, a)].contains(&(self.learner, self.server))
    }
}

pub(crate) struct SteppedEnsemble {
    pub(crate) now_ms: i64,
    pub(crate) timing: Timing,
    pub(crate) election: ElectionSettings,
    pub(crate) servers: BTreeMap<ServerId, Server>,
    /// The newest notification from one server to another that is not delivered.
    pub(crate) notes: BTreeMap<(ServerId, ServerId), VoteNotification>,
    /// Whether notifications bring the configuration of their sender.
    pub(crate) notes_have_configs: bool,
    links: BTreeMap<LinkId, Link>,
    /// Directions in which everything is lost.
    pub(crate) cut: BTreeSet<(ServerId, ServerId)>,
    /// Directions in which the socket accepts nothing, with the bytes that it has not accepted.
    pub(crate) full: BTreeMap<(ServerId, ServerId), usize>,
    next_link: u64,
    /// Whether pings and the replies to them are recorded.
    pub(crate) shows_pings: bool,
    /// The most transactions that one fsync makes durable.
    pub(crate) fsync_max: usize,
    /// Whether the on-disk log can be read for learners.
    pub(crate) is_log_readable: bool,
    /// Properties that random runs check.
    pub(crate) checks: Option<Checks>,
    /// Whether inputs and effects are recorded.
    pub(crate) is_recorded: bool,
    /// The input that the next effects belong to.
    heading: Option<String>,
    lines: Vec<String>,
}

impl Default for SteppedEnsemble {
    fn default() -> Self {
        Self {
            now_ms: 0,
            timing: Timing { tick_ms: 1_000, init_ticks: 10, sync_ticks: 5 },
            election: ElectionSettings::default(),
            servers: BTreeMap::new(),
            notes: BTreeMap::new(),
            notes_have_configs: false,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            full: BTreeMap::new(),
            next_link: 0,
            shows_pings: false,
            fsync_max: usize::MAX,
            is_log_readable: true,
            checks: None,
            is_recorded: true,
            heading: None,
            lines: Vec::new(),
        }
    }
}

/// Stores a configuration that was proposed or committed.
fn store_config(committed: &mut Ensemble, proposed: &mut Option<Ensemble>, work: Work) {
    if let Work::Proposed(config) = &work {
        *proposed = Some(Ensemble::clone(config));
    } else if let Work::Committed(config) = &work {
        assert!(committed.version() < config.version(), "a configuration went back");
        *committed = Ensemble::clone(config);
    }
    *proposed = proposed.take().filter(|new| committed.version() < new.version());
}

pub(crate) fn last(log: &[EncodedTxn]) -> Zxid {
    log.last().map_or(Zxid::ZERO, |txn| txn.zxid)
}

fn is_ping(message: &Message) -> bool {
    matches!(message, Message::Ping(_) | Message::Pong(..))
}

impl SteppedEnsemble {
    pub(crate) fn server(&mut self, id: ServerId) -> Result<&mut Server, String> {
        self.servers.get_mut(&id).ok_or_else(|| format!("server {id} does not exist"))
    }

    pub(crate) fn process(&mut self, id: ServerId) -> Result<&mut Process, String> {
        self.server(id)?.process.as_mut().ok_or_else(|| format!("server {id} does not run"))
    }

    pub(crate) fn running(&self) -> Vec<ServerId> {
        self.servers.iter().filter(|(_, server)| server.process.is_some()).map(|(id, _)| *id).collect()
    }

    /// Names the input whose effects follow.
    fn begin(&mut self, heading: impl FnOnce() -> String) {
        self.heading = self.is_recorded.then(heading);
    }

    pub(crate) fn report(&mut self, line: String) {
        self.lines.push(line);
    }

    /// What was recorded since the last call.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.heading = None;
        std::mem::take(&mut self.lines)
    }

    fn print(&mut self, line: &str) {
        self.lines.extend(self.heading.take());
        self.lines.push(format!("  {line}"));
    }

    /// Passes one input to a server and executes the effects. What they lead to immediately follows: sockets accept
    /// packets, the state applies transactions, and pings get their reply.
    pub(crate) fn step(&mut self, id: ServerId, input: Input) -> Result<(), String> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let (now_ms, mut out) = (self.now_ms, Effects::new());
            self.process(id)?.peer.step(now_ms, input, &mut out);
            if self.is_recorded {
                self.record(id, &out);
            }
            for effect in out {
                if let Some(checks) = &mut self.checks {
                    checks.on_effect(id, &self.servers[&id], &effect);
                }
                inputs.extend(self.perform(id, effect)?);
            }
        }
        if let Some(checks) = &mut self.checks {
            checks.on_state(id, &self.servers[&id]);
        }
        Ok(())
    }

    /// Records effects. The same packet to several servers is one line.
    fn record(&mut self, id: ServerId, effects: &Effects) {
        let mut lines: Vec<(&str, Vec<ServerId>, String)> = Vec::new();
        for effect in effects {
            let (verb, to) = match effect {
                Effect::Send(_, message) | Effect::FromLearner(_, _, message) | Effect::FromLeader(message)
                    if is_ping(message) && !self.shows_pings =>
                {
                    continue;
                }
                Effect::Notify(to, _) => ("notify", Some(*to)),
                Effect::Send(link, _) | Effect::SendSnapshot(link) | Effect::SendLogDiff(link) => {
                    ("send to", Some(self.other_end(*link, id)))
                }
                Effect::ReadLog(link, _) => ("for", Some(self.other_end(*link, id))),
                Effect::Close(link) => ("close the link to", Some(self.other_end(*link, id))),
                Effect::FromLearner(_, server, _) => ("from", Some(*server)),
                _ => ("", None),
            };
            let text = describe::effect(effect);
            match (lines.last_mut(), to) {
                (Some((before, others, same)), Some(to))
                    if (*before, &*same) == (verb, &text) && !others.contains(&to) =>
                {
                    others.push(to);
                }
                (_, to) => lines.push((verb, to.into_iter().collect(), text)),
            }
        }
        for (verb, to, text) in lines {
            let to = if to.is_empty() { None } else { Some(format!("{verb} {}", describe::ids(to))) };
            let text = Some(text).filter(|text| !text.is_empty());
            self.print(&to.into_iter().chain(text).collect::<Vec<_>>().join(": "));
        }
    }

    fn other_end(&self, link: LinkId, id: ServerId) -> ServerId {
        self.links.get(&link).map_or(ServerId(i64::MIN), |link| link.other(id))
    }

    /// Executes an effect. Returns the input that follows from it.
    fn perform(&mut self, id: ServerId, effect: Effect) -> Result<Option<Input>, String> {
        match effect {
            Effect::Notify(to, note) => {
                self.notes.insert((id, to), note);
            }
            Effect::Dial(leader) => self.process(id)?.dials = Some(leader),
            Effect::Send(link, message) => {
                let (bytes, to) = (message.flow_bytes(), self.other_end(link, id));
                self.post(id, link, Packet::Message(message));
                match self.full.get_mut(&(id, to)) {
                    Some(unsent) => *unsent += bytes,
                    None => return Ok(Some(Input::Sent(link, bytes))),
                }
            }
            Effect::SendSnapshot(link) => {
                let process = self.process(id)?;
                let applied = process.applied;
                let state = process.logged.iter().filter(|txn| txn.zxid <= applied).cloned().collect();
                self.post(id, link, Packet::Message(Message::Snap(applied)));
                self.post(id, link, Packet::Snapshot(state));
            }
            Effect::ReadLog(link, range) => self.process(id)?.work.push_back(Work::ReadLog(link, range)),
            Effect::SendLogDiff(link) => {
                let Some(range) = self.links.get_mut(&link).and_then(|link| link.log_diff.take()) else {
                    return Err("a log diff is sent that was not read".to_owned());
                };
                let is_in = |txn: &&EncodedTxn| range.after < txn.zxid && txn.zxid < range.below;
                let txns: Vec<EncodedTxn> = self.server(id)?.log.iter().filter(is_in).cloned().collect();
                for txn in txns {
                    let zxid = txn.zxid;
                    self.post(id, link, Packet::Message(Message::Proposal(txn)));
                    self.post(id, link, Packet::Message(Message::Commit(zxid)));
                }
            }
            Effect::Close(link) => self.close(id, link),
            Effect::Disk(job) => self.start_job(id, job)?,
            Effect::Append(txn) => self.append(id, txn)?,
            Effect::Commit(zxid) => {
                let process = self.process(id)?;
                process.committed = process.committed.max(zxid);
                return self.apply(id);
            }
            Effect::ApplyToSnapshot(txn) => {
                let process = self.process(id)?;
                if last(&process.snapshot) < txn.zxid {
                    process.snapshot.push(txn);
                }
            }
            Effect::ConfigProposed(config) => self.process(id)?.work.push_back(Work::Proposed(config)),
            Effect::ActivateConfig(config, _) => self.process(id)?.work.push_back(Work::Committed(config)),
            Effect::Established(_) | Effect::UpToDate(_) => {
                self.process(id)?.is_serving = true;
                return self.apply(id);
            }
            Effect::StepDown(_) => {
                let process = self.process(id)?;
                (process.is_serving, process.snapshot) = (false, Vec::new());
            }
            Effect::FromLeader(Message::Ping(zxid)) => {
                if let Some(link) = self.process(id)?.peer.role().learner().map(|learner| learner.link()) {
                    return Ok(Some(Input::Send(link, Message::Pong(zxid, Bytes::new()))));
                }
            }
            _ => (),
        }
        Ok(None)
    }

    /// Queues a packet for the other end of a link, unless it is lost.
    fn post(&mut self, from: ServerId, link: LinkId, packet: Packet) {
        let Some(link) = self.links.get_mut(&link) else { return };
        let to = link.other(from);
        if !self.cut.contains(&(from, to))
            && self.servers.contains_key(&to)
            && link.killed != Some(to)
            && !link.lossy.contains(&to)
        {
            link.queues.entry(to).or_default().push_back(packet);
        }
    }

    /// Closes one end of a link. The other end receives what is in flight, and then the end of the connection.
    fn close(&mut self, id: ServerId, link: LinkId) {
        self.post(id, link, Packet::End);
        if let Some(link) = self.links.get_mut(&link) {
            link.queues.remove(&id);
            self.full.remove(&(id, link.other(id)));
        }
    }

    pub(crate) fn append(&mut self, id: ServerId, txn: EncodedTxn) -> Result<(), String> {
        let process = self.process(id)?;
        process.logged.push(txn.clone());
        process.work.push_back(Work::Append(txn));
        Ok(())
    }

    fn start_job(&mut self, id: ServerId, job: DiskJob) -> Result<(), String> {
        let process = self.process(id)?;
        let mut snapshot = Vec::new();
        match job {
            DiskJob::Install(zxid) => {
                snapshot = std::mem::take(&mut process.snapshot);
                (process.logged, process.committed, process.applied) = (snapshot.clone(), zxid, zxid);
            }
            DiskJob::Truncate(zxid) => {
                process.logged.retain(|txn| txn.zxid <= zxid);
                (process.committed, process.applied) = (process.committed.min(zxid), process.applied.min(zxid));
            }
            DiskJob::AcceptedEpoch(_) | DiskJob::CurrentEpoch(_) | DiskJob::InitializeLog => (),
        }
        process.work.push_back(Work::Job(job, snapshot));
        Ok(())
    }

    /// The disk finishes its next work: one job, or all transactions before the next job. False if there is none.
    pub(crate) fn work(&mut self, id: ServerId) -> Result<bool, String> {
        let (fsync_max, is_log_readable) = (self.fsync_max, self.is_log_readable);
        let server = self.server(id)?;
        let Some(process) = &mut server.process else { return Ok(false) };
        let Some(work) = process.work.pop_front() else { return Ok(false) };
        match work {
            Work::Append(txn) => {
                server.log.push(txn);
                // One fsync covers the configurations between the transactions, too.
                let is_small = |work: &mut Work| !matches!(work, Work::Job(..) | Work::ReadLog(..));
                let mut left = fsync_max - 1;
                while let Some(work) = process.work.pop_front_if(|work| 0 < left && is_small(work)) {
                    match work {
                        Work::Append(txn) => (server.log.push(txn), left -= 1).1,
                        other => store_config(&mut server.committed, &mut server.proposed, other),
                    }
                }
                let durable = last(&server.log);
                self.begin(|| format!("{id}: the log is durable up to {}", describe::zxid(durable)));
                self.step(id, Input::Durable(durable))?;
                if let Some(applied) = self.apply(id)? {
                    self.step(id, applied)?;
                }
            }
            Work::Proposed(_) | Work::Committed(_) => store_config(&mut server.committed, &mut server.proposed, work),
            Work::Job(job, snapshot) => {
                let before = server.epochs;
                match job {
                    DiskJob::AcceptedEpoch(epoch) => server.epochs.accepted = epoch,
                    DiskJob::CurrentEpoch(epoch) => {
                        server.epochs.current = epoch;
                        server.eligibility = Eligibility::HasHistory;
                    }
                    DiskJob::Truncate(zxid) => server.log.retain(|txn| txn.zxid <= zxid),
                    DiskJob::Install(_) => server.log = snapshot,
                    DiskJob::InitializeLog => server.eligibility = Eligibility::HasHistory,
                }
                assert!(before.accepted <= server.epochs.accepted && before.current <= server.epochs.current);
                assert!(server.epochs.current <= server.epochs.accepted);
                let end = last(&server.log);
                self.begin(|| {
                    let done = describe::effect(&Effect::Disk(job)).replace("disk: ", "");
                    format!("{id}: the disk has done: {done}")
                });
                let done = match job {
                    DiskJob::Truncate(zxid) if end != zxid => DiskDone::Truncated(Some(end)),
                    _ => job.done(),
                };
                self.step(id, Input::Done(done))?;
            }
            Work::ReadLog(link, range) => {
                let has = is_log_readable && server.log.iter().any(|txn| txn.zxid == range.after);
                self.begin(|| format!("{id}: the log {} it", if has { "contains" } else { "does not contain" }));
                if let Some(link) = self.links.get_mut(&link).filter(|_| has) {
                    link.log_diff = Some(range);
                }
                self.step(id, Input::LogRead(link, has.then_some(range.below)))?;
            }
        }
        self.lines.extend(self.heading.take());
        Ok(true)
    }

    /// The disk does not truncate its log as requested, which is its next work.
    pub(crate) fn skip_truncation(&mut self, id: ServerId) -> Result<(), String> {
        let server = self.server(id)?;
        let process = server.process.as_mut().ok_or("the server does not run")?;
        let is_truncation = |work: &mut Work| matches!(work, Work::Job(DiskJob::Truncate(_), _));
        process.work.pop_front_if(is_truncation).ok_or("the disk does not truncate")?;
        process.logged.clone_from(&server.log);
        Ok(())
    }

    /// Applies what is committed and durable.
    fn apply(&mut self, id: ServerId) -> Result<Option<Input>, String> {
        let durable = last(&self.server(id)?.log);
        let process = self.process(id)?;
        let end = process.committed.min(durable);
        if process.applied < end {
            process.applied = end;
            return Ok(Some(Input::Applied(end)));
        }
        Ok(None)
    }

    /// Starts a server from its disk. Others notice a server that returns by its new election connections.
    pub(crate) fn start(&mut self, id: ServerId) -> Result<(), String> {
        let server = self.servers.get_mut(&id).ok_or("the server does not exist")?;
        if server.process.is_some() {
            return Err(format!("server {id} runs already"));
        }
        let mut history =
            RecentLog::new(Zxid::ZERO, server.recent_max, 1 << 20).with_pinned_max(server.pinned_bytes_max);
        let skip = server.log.len().saturating_sub(server.recent_max);
        history.restart(last(&server.log[..skip]));
        server.log[skip..].iter().for_each(|txn| history.push(txn.clone()));
        let logged = server.log.iter().filter_map(config_of);
        let proposed = logged.chain(server.proposed.clone()).max_by_key(Ensemble::version);
        let configs = match server.is_dynamic {
            true => ConfigPair::dynamic(server.committed.clone(), proposed),
            false => ConfigPair::fixed(server.committed.clone()),
        };
        let (timing, election, options) = (self.timing, self.election, server.options);
        let settings = PeerSettings { server: id, configs, timing, election, options };
        let recovered = Recovered { epochs: server.epochs, history, eligibility: server.eligibility };
        let applied = last(&server.log);
        server.process = Some(Process {
            peer: QuorumPeer::new(settings, recovered),
            work: VecDeque::new(),
            dials: None,
            logged: server.log.clone(),
            committed: applied,
            applied,
            snapshot: Vec::new(),
            is_serving: false,
        });
        let (returns, is_disk_low) = (std::mem::take(&mut server.was_killed), server.is_disk_low);
        // A server that has a leader by now no longer sends its votes.
        let servers = &self.servers;
        let is_looking = |id: &ServerId| {
            let process = servers.get(id).and_then(|server| server.process.as_ref());
            process.is_some_and(|process| process.peer.status().state == PeerState::Looking)
        };
        self.notes.retain(|(from, to), _| *to != id || is_looking(from));
        self.begin(|| format!("{id}: start"));
        self.step(id, Input::DiskLow(is_disk_low))?;
        self.step(id, Input::Start)?;
        for other in self.running().into_iter().filter(|other| returns && *other != id) {
            if self.is_cut(id, other) {
                continue;
            }
            for (at, of) in [(other, id), (id, other)] {
                self.begin(|| format!("{at}: the election connection to {of} is up"));
                self.step(at, Input::ElectionLink(of, ElectionConnection::Up))?;
            }
        }
        Ok(())
    }

    /// Ends the process of a server. The others notice that by their connections to it.
    pub(crate) fn kill(&mut self, id: ServerId) -> Result<(), String> {
        self.process(id)?;
        let server = self.server(id)?;
        (server.process, server.was_killed) = (None, true);
        self.notes.retain(|(from, to), _| *from != id && *to != id);
        let links: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, link)| [link.learner, link.server].contains(&id))
            .map(|(id, _)| *id)
            .collect();
        for link in links {
            self.close(id, link);
            self.links.get_mut(&link).expect("it exists").killed = Some(id);
        }
        for other in self.running().into_iter().filter(|other| !self.is_cut(id, *other)).collect::<Vec<_>>() {
            self.begin(|| format!("{other}: the election connection to {id} is down"));
            self.step(other, Input::ElectionLink(id, ElectionConnection::Down))?;
        }
        Ok(())
    }

    /// Whether anything between two servers is lost.
    pub(crate) fn is_cut(&self, a: ServerId, b: ServerId) -> bool {
        [(a, b), (b, a)].iter().any(|direction| self.cut.contains(direction))
    }

    /// Loses everything from one server to another from now on.
    pub(crate) fn cut(&mut self, from: ServerId, to: ServerId) {
        self.cut.insert((from, to));
        self.lose(from, to);
        for link in self.links.values_mut().filter(|link| link.is_between(from, to)) {
            link.lossy.insert(to);
        }
    }

    /// Closes all links between two servers at both ends.
    pub(crate) fn close_links(&mut self, a: ServerId, b: ServerId) -> Result<(), String> {
        let between = |(id, link): (&LinkId, &Link)| link.is_between(a, b).then_some(*id);
        for link in self.links.iter().filter_map(between).collect::<Vec<_>>() {
            for end in [a, b].into_iter().filter(|end| self.servers[end].process.is_some()).collect::<Vec<_>>() {
                self.step(end, Input::LinkClosed(link))?;
            }
            self.full.retain(|(from, to), _| ![(a, b), (b, a)].contains(&(*from, *to)));
            self.links.remove(&link);
        }
        Ok(())
    }

    /// The directions in which something is in flight.
    pub(crate) fn in_flight(&self) -> BTreeSet<(ServerId, ServerId)> {
        let queues = |link: &Link| {
            let queued = link.queues.iter().filter(|(_, queue)| !queue.is_empty());
            queued.map(|(to, _)| (link.other(*to), *to)).collect::<Vec<_>>()
        };
        self.links.values().flat_map(queues).chain(self.notes.keys().copied()).collect()
    }

    /// Opens a link without telling its ends.
    pub(crate) fn open_link(&mut self, learner: ServerId, server: ServerId) -> LinkId {
        self.next_link += 1;
        let link = LinkId(self.next_link);
        self.links.insert(
            link,
            Link { learner, server, queues: BTreeMap::new(), log_diff: None, killed: None, lossy: BTreeSet::new() },
        );
        link
    }

    /// The newest link between two servers.
    pub(crate) fn link(&self, a: ServerId, b: ServerId) -> Result<LinkId, String> {
        let newest = self.links.iter().rev().find(|(_, link)| link.is_between(a, b));
        newest.map(|(id, _)| *id).ok_or_else(|| format!("servers {a} and {b} have no link"))
    }

    /// A server that dials its leader reaches it or not. False if it does not dial.
    pub(crate) fn connect(&mut self, id: ServerId) -> Result<bool, String> {
        let Some(process) = &mut self.server(id)?.process else { return Ok(false) };
        let Some(leader) = process.dials else { return Ok(false) };
        let to = self.server(id)?.observer_master.unwrap_or(leader);
        let Some(target) = self.servers.get(&to) else { return Ok(false) };
        let accepts = target.process.as_ref().map(|process| process.peer.role());
        let accepts = accepts.is_some_and(|role| role.leader().is_some() || role.observer_master().is_some());
        self.process(id)?.dials = None;
        if self.is_cut(id, to) {
            self.lines.push(format!("{id}: no reply to the dial of {to}"));
            return Ok(true);
        }
        if !accepts {
            self.begin(|| format!("{id}: {to} refuses the connection"));
            self.step(id, Input::Dialed(leader, None))?;
        } else {
            let link = self.open_link(id, to);
            self.begin(|| format!("{id}: connected to {to}"));
            self.step(to, Input::LinkOpened(link))?;
            self.step(id, Input::Dialed(leader, Some(link)))?;
        }
        self.lines.extend(self.heading.take());
        Ok(true)
    }

    /// Delivers the next packet or notification from one server to another. False if there is none, or the receiver
    /// waits for its disk.
    pub(crate) fn deliver(&mut self, from: ServerId, to: ServerId) -> Result<bool, String> {
        if self.servers.get(&to).is_none_or(|server| server.process.is_none()) {
            return Ok(false);
        }
        if let Some(note) = self.notes.remove(&(from, to)) {
            if !self.cut.contains(&(from, to)) {
                if self.notes_have_configs {
                    let config = self.server(from)?.committed.clone();
                    self.receive_config(to, from, config)?;
                }
                self.begin(|| format!("{to} <- {from}: {}", describe::notification(&note)));
                self.step(to, Input::Notification(from, note))?;
                self.lines.extend(self.heading.take());
            }
            return Ok(true);
        }
        let peer = &self.servers[&to].process.as_ref().expect("the server runs").peer;
        let is_receiving = peer.role().learner().is_some_and(|learner| learner.is_receiving_snapshot());
        let is_taken = |link: LinkId, packet: &Packet| match packet {
            Packet::Message(_) => peer.takes_packets(link),
            Packet::Snapshot(_) => is_receiving,
            Packet::End => true,
        };
        for (id, link) in &mut self.links {
            let id = *id;
            let is_between = link.other(to) == from && [link.learner, link.server].contains(&to);
            let queue = link.queues.get_mut(&to).filter(|_| is_between);
            let Some(packet) = queue.and_then(|queue| queue.pop_front_if(|packet| is_taken(id, packet))) else {
                continue;
            };
            match packet {
                Packet::Message(message) => {
                    let is_hidden = is_ping(&message) && !self.shows_pings;
                    self.begin(|| format!("{to} <- {from}: {}", describe::message(&message)));
                    self.step(to, Input::Packet(id, message))?;
                    self.heading = self.heading.take().filter(|_| !is_hidden);
                }
                Packet::Snapshot(state) => {
                    self.process(to)?.snapshot = state;
                    self.begin(|| format!("{to} <- {from}: the snapshot"));
                    self.step(to, Input::SnapshotReceived)?;
                }
                Packet::End => {
                    self.begin(|| format!("{to}: the link to {from} is closed"));
                    self.full.remove(&(to, from));
                    self.step(to, Input::LinkClosed(id))?;
                    self.links.retain(|at, link| *at != id || link.queues.values().any(|queue| !queue.is_empty()));
                }
            }
            self.lines.extend(self.heading.take());
            return Ok(true);
        }
        Ok(false)
    }

    /// Drops the packets and the notification from one server to another.
    pub(crate) fn lose(&mut self, from: ServerId, to: ServerId) {
        self.notes.remove(&(from, to));
        for link in self.links.values_mut().filter(|link| link.other(to) == from) {
            link.queues.remove(&to);
        }
    }

    /// Lets these servers finish everything that needs no time: disk work, connections and packets.
    pub(crate) fn stabilize(&mut self, ids: &[ServerId]) -> Result<(), String> {
        for _ in 0..10_000 {
            let mut has_worked = false;
            for id in ids {
                while self.work(*id)? {
                    has_worked = true;
                }
                has_worked |= self.connect(*id)?;
                for from in ids {
                    while self.deliver(*from, *id)? {
                        has_worked = true;
                    }
                }
            }
            if !has_worked {
                return Ok(());
            }
        }
        Err("the servers never finish".to_owned())
    }

    /// Lets time pass for these servers, from deadline to deadline. `works`: everything else goes on meanwhile.
    pub(crate) fn pass(&mut self, ms: i64, ids: &[ServerId], works: bool) -> Result<(), String> {
        let until_ms = self.now_ms + ms;
        let mut earliest_ms: BTreeMap<ServerId, i64> = BTreeMap::new();
        loop {
            if works {
                self.stabilize(ids)?;
            }
            let due = ids.iter().filter_map(|id| {
                let deadline_ms = self.servers.get(id)?.process.as_ref()?.peer.deadline()?;
                Some((deadline_ms.max(earliest_ms.get(id).copied().unwrap_or(self.now_ms)), *id))
            });
            let Some((at_ms, id)) = due.min().filter(|(at_ms, _)| *at_ms <= until_ms) else { break };
            earliest_ms.insert(id, at_ms + 1);
            let now_ms = self.now_ms.max(at_ms);
            self.now_ms = now_ms;
            self.begin(|| format!("{id}: time {now_ms} ms"));
            self.step(id, Input::Time)?;
            self.heading = None;
        }
        self.now_ms = until_ms;
        Ok(())
    }

    pub(crate) fn status(&mut self, id: ServerId) -> Result<String, String> {
        let server = self.server(id)?;
        let log = describe::zxids(server.log.iter().map(|txn| txn.zxid));
        let Epochs { accepted, current } = server.epochs;
        let disk = format!("accepted={accepted} current={current} log={log}");
        let Some(process) = &server.process else { return Ok(format!("{id}: down {disk}")) };
        let (status, role) = (process.peer.status(), process.peer.role());
        let leader = status.leader.map_or_else(String::new, |leader| format!(" leader={leader}"));
        let phase = match (role.leader(), role.learner()) {
            (Some(leader), _) if leader.is_established() => " established",
            (_, Some(learner)) if learner.is_active() => " active",
            _ => "",
        };
        let eligibility = match status.eligibility {
            Eligibility::HasHistory => "",
            Eligibility::Empty => " empty",
            Eligibility::Quarantined => " quarantined",
        };
        let applied = describe::zxid(process.applied);
        let state = describe::state(status.state);
        Ok(format!("{id}: {state}{leader}{phase}{eligibility} {disk} applied={applied}"))
    }

    pub(crate) fn configs(&mut self, id: ServerId) -> Result<String, String> {
        let configs = self.process(id)?.peer.configs();
        let proposed = configs.proposed().map(|config| format!("; proposed {}", describe::config(config)));
        Ok(format!("{id}: active {}{}", describe::config(configs.committed()), proposed.unwrap_or_default()))
    }

    pub(crate) fn all(&self) -> Vec<ServerId> {
        self.servers.keys().copied().collect()
    }

    /// Reports that the socket has accepted everything in one direction.
    pub(crate) fn drain_socket(&mut self, from: ServerId, to: ServerId) -> Result<(), String> {
        let bytes = self.full.remove(&(from, to)).ok_or("the socket is not full")?;
        let link = self.link(from, to)?;
        self.step(from, Input::Sent(link, bytes))
    }

    /// A configuration that arrives with a notification.
    pub(crate) fn receive_config(&mut self, to: ServerId, from: ServerId, config: Ensemble) -> Result<(), String> {
        self.step(to, Input::Config(from, Arc::new(config)))
    }
}
