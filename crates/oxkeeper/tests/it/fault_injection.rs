//! Ensembles under faults while clients write: members are killed, stopped, cut off, wiped, and run out of disk space.
//! The history checker compares what the clients saw with the logs of the members.
//!
//! `OXKEEPER_SEED` selects the faults, `OXKEEPER_SECONDS` the duration. Real processes are not deterministic; the seed
//! repeats the order of the faults.

mod clients;
mod logs;

use crate::members;
use clients::{RandomClient, Scene};
use ox_history::{History, HistorySettings, LoggedTxn, Op, RecordedConnection, Time};
use ox_proto::{SessionId, Zxid};
use ox_testkit::{LinkState, Network, Rng, SmallDisk, TestEnsemble, wait_until};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
/// Duration of the faults in a short run.
const SECONDS: u64 = 14;

/// A fault of one or more members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillLeader,
    KillOne,
    KillAll,
    StopLeader,
    StopOne,
    Terminate,
    Wipe,
    SilenceLeader,
    CutOne,
    OneWay,
    Split,
    Flap,
    FillDisk,
}

const FAULTS: [Fault; 12] = [
    Fault::KillLeader,
    Fault::KillOne,
    Fault::KillAll,
    Fault::StopLeader,
    Fault::StopOne,
    Fault::Terminate,
    Fault::Wipe,
    Fault::SilenceLeader,
    Fault::CutOne,
    Fault::OneWay,
    Fault::Split,
    Fault::Flap,
];

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

struct Run {
    home: PathBuf,
    /// The last member is an observer without faults: its log contains the whole history.
    ensemble: TestEnsemble,
    voters: usize,
    network: Network,
    scene: Arc<Scene>,
    rng: Rng,
    disk: Option<SmallDisk>,
    begun: Instant,
    clients: Vec<JoinHandle<Vec<RecordedConnection>>>,
    seen: Vec<RecordedConnection>,
}

impl Run {
    fn start(home: &std::path::Path, voters: usize, seed: u64, disk: Option<SmallDisk>) -> Self {
        println!("OXKEEPER_SEED={seed}, {voters} voters");
        if let Some(disk) = &disk {
            std::os::unix::fs::symlink(disk.path(), home.join(voters.to_string())).unwrap();
        }
        let network = Network::new(voters + 1);
        // A member that has lost nothing gets no snapshot, so that the observer's log contains the whole history.
        let settings = "snapCount=3000\ncommitLogCount=50000\nmaxSessionTimeout=600000";
        let ensemble = members::start_on(members::prepare_in(home, voters, 1, settings, &[]), &network);
        let scene = Scene::new(ensemble.addresses.clone());
        let mut first = RandomClient::new(&scene, CLIENTS, seed);
        first.prepare();
        let seen = first.close();
        let clients = (0..CLIENTS).map(|number| {
            let client = RandomClient::new(&scene, number, seed * 31 + number as u64 + 1);
            std::thread::spawn(move || client.run())
        });
        let (clients, rng, home) = (clients.collect(), Rng::new(seed), home.to_owned());
        Self { home, ensemble, voters, network, scene, rng, disk, begun: Instant::now(), clients, seen }
    }

    fn say(&self, text: impl std::fmt::Display) {
        println!("{:>6} ms: {text}", self.begun.elapsed().as_millis());
    }

    fn pause(&mut self, least_ms: usize, most_ms: usize) {
        let ms = least_ms + self.rng.index(most_ms - least_ms);
        std::thread::sleep(Duration::from_millis(ms as u64));
    }

    fn others(&self, but: usize) -> Vec<usize> {
        (0..self.voters).filter(|at| *at != but).collect()
    }

    fn happens(&mut self, blow: Fault) {
        let leader = self.ensemble.leader();
        let one = self.rng.index(self.voters);
        self.say(format_args!("{blow:?}, {} leads, {}", leader + 1, one + 1));
        match blow {
            Fault::KillLeader => self.restart(&[leader]),
            Fault::KillOne => self.restart(&[one]),
            Fault::KillAll => self.restart(&(0..self.voters).collect::<Vec<_>>()),
            Fault::StopLeader => self.stop(leader),
            Fault::StopOne => self.stop(one),
            Fault::Terminate => {
                let process = self.ensemble.take(one);
                process.signal("TERM");
                let ended = process.end();
                assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
                self.ensemble.launch(one);
            }
            Fault::Wipe => {
                self.ensemble.kill(one);
                let (data, at) = (self.home.join(format!("{}/data", one + 1)), self.begun.elapsed().as_millis());
                std::fs::rename(data.join("version-2"), data.join(format!("wiped-{at}"))).unwrap();
                self.pause(100, 1000);
                self.ensemble.launch(one);
            }
            Fault::SilenceLeader => self.part(&[leader], LinkState::Silent),
            Fault::CutOne => self.part(&[one], LinkState::Cut),
            Fault::Split => self.part(&(0..self.voters / 2).collect::<Vec<_>>(), LinkState::Silent),
            Fault::OneWay => {
                for other in self.others(one) {
                    self.network.set(one, other, LinkState::Silent);
                }
                self.pause(1000, 4000);
            }
            Fault::Flap => {
                for _ in 0..5 {
                    self.network.part(&[one], &self.others(one), LinkState::Cut);
                    self.pause(20, 300);
                    self.network.heal();
                    self.pause(20, 600);
                }
            }
            Fault::FillDisk => self.fill(),
        }
        self.network.heal();
    }

    fn restart(&mut self, victims: &[usize]) {
        victims.iter().for_each(|at| self.ensemble.kill(*at));
        self.pause(50, 1500);
        victims.iter().for_each(|at| self.ensemble.launch(*at));
    }

    fn stop(&mut self, at: usize) {
        let signal = |run: &Self, name| run.ensemble.process(at).signal(name);
        signal(self, "STOP");
        self.pause(300, 4000);
        signal(self, "CONT");
    }

    fn part(&mut self, some: &[usize], way: LinkState) {
        let others: Vec<usize> = (0..self.voters).filter(|at| !some.contains(at)).collect();
        self.network.part(some, &others, way);
        self.pause(500, 4000);
    }

    /// The disk of the last voter, which is often elected, is full for a while; another member leads, and its process
    /// survives.
    fn fill(&mut self) {
        let Some(disk) = &self.disk else { return };
        let at = self.voters - 1;
        let filler = disk.fill_up();
        self.pause(1500, 3000);
        std::fs::remove_file(filler).unwrap();
        let process = self.ensemble.process_mut(at);
        assert!(!process.has_ended(), "{:?}", process.said);
    }

    /// Waits until all members serve.
    fn recover(&self) {
        for at in 0..self.ensemble.len() {
            wait_until(&format!("server {} serves again", at + 1), || self.ensemble.mode(at).is_some());
        }
        let writes = self.scene.writes.load(Ordering::Relaxed);
        wait_until("writes succeed", || writes + 20 <= self.scene.writes.load(Ordering::Relaxed));
    }

    /// Ends a member that runs, by a signal.
    fn end(&mut self, at: usize, signal: &str) {
        if let Some(process) = self.ensemble.servers[at].process.take() {
            process.signal(signal);
            process.end();
        }
    }

    /// Ends the load and checks the recorded history.
    fn judge(mut self) {
        self.scene.stop.store(true, Ordering::Relaxed);
        for client in std::mem::take(&mut self.clients) {
            self.seen.extend(client.join().unwrap());
        }
        let ended = self.scene.now();
        let tree = self.ensemble.check_equal();
        for at in 0..self.ensemble.len() {
            let mntr = self.ensemble.four_letter(at, "mntr");
            assert!(mntr.contains("zk_digest_mismatches_count\t0\n"), "{} finds wrong digests\n{mntr}", at + 1);
        }
        for at in 0..self.ensemble.len() {
            self.end(at, "TERM");
        }
        let history = self.history(ended);
        let begun = Instant::now();
        let summary = ox_history::check(&history).unwrap_or_else(|violation| panic!("{violation}"));
        println!(
            "{} connections, {} requests, {} answers, {} events, {} transactions, {} nodes, longest pause of writes {} \
             ms, checked in {} ms",
            summary.connections,
            summary.requests,
            summary.replies,
            summary.events,
            summary.transactions,
            tree.len(),
            self.scene.longest_pause_us.load(Ordering::Relaxed) / 1000,
            begun.elapsed().as_millis()
        );
    }

    fn history(&mut self, ended: Time) -> History {
        let mut connections = std::mem::take(&mut self.seen);
        connections.sort_by_key(|connection| connection.opened);
        let last = connections.iter().flat_map(|connection| &connection.received).filter_map(|frame| match frame {
            ox_history::ReceivedFrame::Reply { zxid, .. } => Some(*zxid),
            ox_history::ReceivedFrame::Event { .. } => None,
        });
        let last = last.max().unwrap_or(Zxid::ZERO);
        let log = logs::history(&self.home, last); // later transactions come from reading the trees
        let sessions: BTreeSet<SessionId> = connections.iter().filter_map(RecordedConnection::session).collect();
        let asked: BTreeSet<SessionId> = connections
            .iter()
            .filter(|connection| connection.requests.iter().any(|sent| sent.op == Op::CloseSession))
            .filter_map(RecordedConnection::session)
            .collect();
        for entry in log.iter().filter(|entry| matches!(entry.txn, LoggedTxn::CloseSession { .. })) {
            let is_right = !sessions.contains(&entry.session) || asked.contains(&entry.session);
            assert!(is_right, "session {} was ended by the servers at {}", entry.session, entry.zxid);
        }
        let settings =
            HistorySettings { tick_ms: 500, may_refuse_writes: self.disk.is_some(), ..HistorySettings::default() };
        History { settings, connections, log, ended, ..History::default() }
    }
}

/// A failed run keeps its files; so does any run with `OXKEEPER_KEEP`.
impl Drop for Run {
    fn drop(&mut self) {
        if !std::thread::panicking() && std::env::var_os("OXKEEPER_KEEP").is_none() {
            return;
        }
        self.scene.stop.store(true, Ordering::Relaxed);
        (0..self.ensemble.len()).for_each(|at| self.end(at, "KILL"));
        let Ok(kept) = tempfile::Builder::new().prefix("oxkeeper-fault-injection-").tempdir() else { return };
        let kept = kept.keep();
        let copied = std::process::Command::new("cp").arg("-rL").arg(&self.home).arg(&kept).status();
        println!("files kept in {} ({copied:?})", kept.display());
    }
}

fn check(voters: usize, seed: u64, blows: &[Fault], disk: Option<SmallDisk>) {
    let (seed, seconds) = (number("OXKEEPER_SEED", seed), number("OXKEEPER_SECONDS", SECONDS));
    let home = tempfile::tempdir().unwrap();
    let mut run = Run::start(home.path(), voters, seed, disk);
    // Each fault once in random order, before any is repeated.
    let mut left = Vec::new();
    while run.begun.elapsed() < Duration::from_secs(seconds) {
        if left.is_empty() {
            left = blows.to_vec();
        }
        let at = run.rng.index(left.len());
        run.happens(left.swap_remove(at));
        run.recover();
    }
    run.judge();
}

#[test]
fn three_servers_survive_faults() {
    check(3, 1, &FAULTS, None);
}

#[test]
fn five_servers_survive_faults() {
    check(5, 2, &FAULTS, None);
}

#[test]
fn k52_member_with_full_disk_loses_nothing() {
    let Some(disk) = SmallDisk::mount(100) else { return };
    check(3, 3, &[Fault::FillDisk, Fault::FillDisk, Fault::FillDisk, Fault::KillLeader], Some(disk));
}
