//! Starting, stopping and watching over a server's threads.

use crate::descriptors::{TooFewDescriptors, connections_max};
use crate::io::{IoThread, WAKER, bind};
use crate::log_writer::{self, Log, LogQueue};
use crate::mailbox::Mailbox;
use crate::maintenance;
use crate::member;
use crate::metrics::Metrics;
use crate::options::{replica_settings, store_options, tree_options};
use crate::peers::{Orders, Peers};
use crate::reconfig::ConfigChange;
use crate::replica_loop::ReplicaLoop;
use crate::shared::{Essential, Fatal, Shared};
use crate::snapshotter::Snapshotter;
use crate::start_log;
use crate::watchdog::{Turns, Watchdog};
use crate::words;
use mio::net::TcpListener;
use mio::{Poll, Waker};
use ox_config::{Config, MemberConfig};
use ox_replica::Replica;
use ox_store::disk::{Disk, RealDisk};
use ox_store::{RecoveryReport, StartSnapshot, Store};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data cannot be used.
    #[error("{0}")]
    Store(#[from] ox_store::Error),
    /// The client port is taken, or not ours to take.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// What was asked for.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// The system has no threads or descriptors left.
    #[error("cannot set up the I/O threads: {0}")]
    Setup(#[source] io::Error),
    /// The system lets this process open too few files.
    #[error("{0}")]
    Descriptors(#[from] TooFewDescriptors),
}

impl StartError {
    /// What an operator can do about it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => error.remedy(),
            Self::Bind { .. } | Self::Setup(_) => None,
            Self::Descriptors(_) => Some("ulimit -n"),
        }
    }

    /// The disk has no space left.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_full())
    }

    /// Another process, or an earlier server of this one that is about to end, uses the directories.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Store(ox_store::Error::Locked(_)))
    }

    /// The exit code that Apache uses for the same.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Store(error) => error.exit_code(),
            Self::Bind { .. } | Self::Setup(_) | Self::Descriptors(_) => 1,
        }
    }
}

/// How long threads may take to end while one of them stands still.
const LEAVE_BEHIND: Duration = Duration::from_secs(2);

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<(&'static str, JoinHandle<()>)>,
}

/// What the replica and the log thread begin with.
struct Core {
    replica: Replica,
    log: Log,
    orders: Option<Arc<Orders>>,
    peers: Option<Peers>,
}

/// Stops a server from anywhere, a signal handler's thread for example.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Asks the server to stop. [`Server::wait`] returns when it has.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Server {
    /// Recovers the data, opens the port and starts to serve.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::start_on(Arc::new(RealDisk), config)
    }

    /// The same, with files on any disk.
    pub fn start_on(disk: Arc<dyn Disk>, config: Config) -> Result<Self, StartError> {
        start_log::starting(&config);
        if let Some(member) = config.member.clone() {
            return Self::start_member(disk, config, member);
        }
        let started = Instant::now();
        let (hash_seed, log_seed) = (rand::random(), rand::random());
        let opened = Store::open(disk, &store_options(&config), &tree_options(&config, hash_seed), log_seed)?;
        let total_ms = millis(started.elapsed());
        start_log::recovered(&opened.report, total_ms);
        let listener = bind_client_port(&config)?;
        let start_snapshot = opened.report.start_snapshot;
        let threads = io_threads();
        let (polls, mailboxes) = polls(threads).map_err(StartError::Setup)?;
        let connections_max = connections_max(false)?;
        let space = opened.store.space()?;
        let shared = Arc::new(Shared::new(config, opened.state, opened.store, mailboxes));
        shared.inbox.put(|input| input.space = Some(space)); // known before the first request
        note_recovery(&shared.metrics, &opened.report, total_ms);
        let mut server = Self { shared, threads: Vec::new() };
        let settings = replica_settings(&server.shared.config, polls.len(), opened.session_clock_ms);
        let listener = listener.map(|listener| (listener, connections_max));
        let shared = &server.shared;
        let replica = Replica::standalone(settings, &shared.state.read(), shared.clock.now());
        let core = Core { replica, log: Log::Alone(Box::new(opened.log)), orders: None, peers: None };
        server.launch(polls, listener, core, start_snapshot).map_err(StartError::Setup)?;
        Ok(server)
    }

    fn start_member(disk: Arc<dyn Disk>, config: Config, member: MemberConfig) -> Result<Self, StartError> {
        let started = Instant::now();
        let config_files = member::config_files(&disk, &config, &member);
        let opened = member::open(disk, &config, &member)?;
        let total_ms = millis(started.elapsed());
        if let Some(report) = &opened.loaded {
            start_log::recovered(report, total_ms);
        }
        let listener = bind_client_port(&config)?;
        let (polls, mailboxes) = polls(io_threads()).map_err(StartError::Setup)?;
        let connections_max = connections_max(true)?;
        let space = opened.store.space()?;
        let mut shared = Shared::new(config, opened.state, opened.store, mailboxes);
        shared.config_files = config_files;
        // It may stand in the log only, and the log goes with the snapshots.
        let pending = opened.peer.configs().proposed();
        if let Some(pending) = pending.filter(|pending| member.proposed.as_ref() != Some(&***pending)) {
            ConfigChange::Proposed(Arc::clone(pending)).save(&shared);
        }
        let shared = Arc::new(shared);
        member::show_config(&shared, &mut shared.state.write());
        let mut server = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        let mut settings = replica_settings(&shared.config, polls.len(), opened.session_clock_ms);
        settings.change_rules = member.change_rules;
        settings.server = u8::try_from(member.server.0).unwrap_or(u8::MAX);
        let poll = Poll::new().map_err(StartError::Setup)?;
        let orders = Arc::new(Orders::new(Waker::new(poll.registry(), WAKER).map_err(StartError::Setup)?));
        let member = Arc::new(member);
        let peers = Peers::new(Arc::clone(&shared), Arc::clone(&member), poll, Arc::clone(&orders));
        let peers = peers.map_err(|source| StartError::Bind { address: "the election port".to_owned(), source })?;
        start_log::listening(&member, &peers.election_binds());
        let mut replica = Replica::member(settings, opened.peer, &shared.state.read(), shared.clock.now());
        replica.limit_epochs(member.epoch_txns);
        // Known before it looks for a leader: who has no room stands back.
        replica.on_space(shared.clock.now(), space.usable_bytes(), space.low_water_bytes);
        let core = Core { replica, log: Log::Member(Box::new(opened.log)), orders: Some(orders), peers: Some(peers) };
        let listener = listener.map(|listener| (listener, connections_max));
        server.launch(polls, listener, core, StartSnapshot::NotNeeded).map_err(StartError::Setup)?;
        Ok(server)
    }

    fn launch(
        &mut self,
        polls: Vec<Poll>,
        listener: Option<(TcpListener, usize)>,
        core: Core,
        start_snapshot: StartSnapshot,
    ) -> io::Result<()> {
        let shared = &Arc::clone(&self.shared);
        let Core { mut replica, log, orders, peers } = core;
        replica.limit_sessions_per_address(shared.config.limits.sessions_per_address as usize);
        let (word_queue, word_thread) = words::queue();
        let mut io = Vec::new();
        for (number, poll) in (0..).zip(polls) {
            io.push(IoThread::new(number, poll, Arc::clone(shared), word_queue.clone()));
        }
        if let Some((listener, connections_max)) = listener {
            let address = listener.local_addr()?;
            *self.shared.address.lock() = Some(address);
            io[0].listen(listener, connections_max)?;
        }
        start_log::serving(shared, io.len(), self.address());
        let mut snapshotter = Snapshotter::new(Arc::clone(shared));
        if start_snapshot == StartSnapshot::Due {
            snapshotter.start(shared.state.read().freeze());
        }
        let queue = Arc::new(LogQueue::default());
        let replica_loop = ReplicaLoop::new(Arc::clone(shared), replica, Arc::clone(&queue), snapshotter, orders);
        let for_log = Arc::clone(shared);
        let supervision = &shared.config.supervision;
        let mut dog = Watchdog::new(supervision.warn_after_ms, supervision.exit_after_ms);
        self.spawn_watched(&mut dog, "log", None, move |turns| log_writer::run(&for_log, &queue, log, turns))?;
        self.spawn_watched(&mut dog, "replica", None, move |turns| replica_loop.run(turns))?;
        let (for_words, for_space, for_purge) = (Arc::clone(shared), Arc::clone(shared), Arc::clone(shared));
        self.spawn_watched(&mut dog, "words", None, move |turns| word_thread.run(&for_words, turns))?;
        self.spawn_watched(&mut dog, "space", None, move |turns| maintenance::look_every_second(&for_space, turns))?;
        if let Some(pause) = shared.config.autopurge.interval_ms.map(Duration::from_millis) {
            self.spawn("purge", None, move || maintenance::purge_every(&for_purge, pause))?;
        }
        if let Some(peers) = peers {
            self.spawn_watched(&mut dog, "peers", None, move |turns| peers.run(turns))?;
        }
        for (number, thread) in io.into_iter().enumerate() {
            self.spawn_watched(&mut dog, "io", Some(number), move |turns| {
                if let Err(error) = thread.run(turns) {
                    tracing::error!(%error, "an I/O thread failed");
                }
            })?;
        }
        let for_dog = Arc::clone(shared);
        self.spawn("watchdog", None, move || dog.run(&for_dog))
    }

    /// Starts a thread whose end means the end of the server, and which must come around all the time.
    fn spawn_watched(
        &mut self,
        dog: &mut Watchdog,
        name: &'static str,
        number: Option<usize>,
        run: impl FnOnce(&Turns) + Send + 'static,
    ) -> io::Result<()> {
        let turns = dog.watch(name, &label(name, number));
        self.spawn(name, number, move || run(&turns))
    }

    /// Starts a thread whose end means the end of the server.
    fn spawn(
        &mut self,
        name: &'static str,
        number: Option<usize>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(label(name, number)).spawn(move || {
            let _essential = Essential { shared, name, only_panics: false };
            run();
        })?;
        self.threads.push((name, thread));
        Ok(())
    }

    /// The address of the client port, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        *self.shared.address.lock()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Waits until the server has stopped and everything acknowledged is on disk.
    pub fn wait(mut self) -> Result<(), Fatal> {
        for name in self.join() {
            self.shared.fail(Fatal::Thread(name));
        }
        self.shared.take_fatal().map_or(Ok(()), Err)
    }

    /// Waits for the end of all threads, and names those that panicked. When one of them stands still, it and those that
    /// wait for it are left behind: nothing they do is acknowledged any more.
    fn join(&mut self) -> Vec<&'static str> {
        let may_hang = self.shared.await_stop();
        let until = Instant::now() + LEAVE_BEHIND;
        let mut panicked = Vec::new();
        for (name, thread) in std::mem::take(&mut self.threads) {
            while may_hang && !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(LEAVE_BEHIND / 100);
            }
            if (!may_hang || thread.is_finished()) && thread.join().is_err() {
                panicked.push(name);
            }
        }
        panicked
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop();
        self.join(); // what went wrong is told by `wait`, which nobody called
    }
}

/// Whether a server that ended because its disk was full can begin again. Where nobody knows, the attempt will tell.
pub fn has_room(config: &Config) -> bool {
    ox_store::has_room(&RealDisk, &store_options(config)).unwrap_or(true)
}

/// How a thread is called where people look.
fn label(name: &str, number: Option<usize>) -> String {
    number.map_or_else(|| name.to_owned(), |number| format!("{name} {number}"))
}

/// I/O threads for this machine: the replica and the log need cores too.
fn io_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, 8)
}

fn polls(count: usize) -> io::Result<(Vec<Poll>, Vec<Mailbox>)> {
    let (mut polls, mut mailboxes) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let poll = Poll::new()?;
        mailboxes.push(Mailbox::new(Waker::new(poll.registry(), WAKER)?));
        polls.push(poll);
    }
    Ok((polls, mailboxes))
}

fn bind_client_port(config: &Config) -> Result<Option<TcpListener>, StartError> {
    let Some(port) = config.client_port else { return Ok(None) };
    let bound = bind(config.client_address, port, config.listen_backlog);
    bound.map(Some).map_err(|source| {
        let host = config.client_address.map_or_else(|| "*".to_owned(), |ip| ip.to_string());
        StartError::Bind { address: format!("{host}:{port}"), source }
    })
}

fn note_recovery(metrics: &Metrics, report: &RecoveryReport, total_ms: i64) {
    metrics.dbinittime.note(total_ms, 1);
    metrics.startup_snap_load_time.note(millis(report.snapshot_took), 1);
    if report.replayed != 0 {
        metrics.startup_txns_load_time.note(millis(report.replay_took), 1);
        metrics.startup_txns_loaded.note(report.replayed.cast_signed(), 1);
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> (Server, tempfile::TempDir) {
        start_with(|_| ())
    }

    fn start_with(change: impl FnOnce(&mut Config)) -> (Server, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default_standalone();
        change(&mut config);
        (config.data_dir, config.data_log_dir) = (dir.path().to_owned(), dir.path().to_owned());
        config.client_port = None;
        config.storage.pre_alloc_bytes = 1 << 20;
        (Server::start(config).unwrap(), dir)
    }

    #[test]
    fn a_stop_is_no_failure() {
        let (server, _dir) = start();
        server.stopper().stop();
        assert!(server.wait().is_ok());
    }

    /// R27: whichever thread ends, the server ends, and says so.
    #[test]
    fn a_thread_that_ends_takes_the_server_with_it() {
        let (mut server, _dir) = start();
        server.spawn("returns", None, || ()).unwrap();
        assert!(matches!(server.wait(), Err(Fatal::Thread("returns"))));
        let (mut server, _dir) = start();
        server.spawn("panics", None, || panic!("as the test wants it")).unwrap();
        assert!(matches!(server.wait(), Err(Fatal::Thread("panics"))));
    }

    #[test]
    fn the_replica_does_not_end_alone() {
        let (server, _dir) = start();
        server.shared.inbox.put(|input| input.questions.push(Box::new(|_, _| panic!("as the test wants it"))));
        assert!(matches!(server.wait(), Err(Fatal::Thread("replica"))), "and the log thread does not wait for ever");
    }

    /// R27: a thread that hangs is found, the idle ones beside it are not accused, and nobody waits for it.
    #[test]
    fn a_thread_that_hangs_ends_the_server_where_that_is_asked_for() {
        let (server, _dir) = start_with(|config| {
            (config.supervision.warn_after_ms, config.supervision.exit_after_ms) = (3_000, 4_000);
        });
        let shared = Arc::clone(&server.shared);
        let (release, hung) = std::sync::mpsc::channel::<()>();
        shared.inbox.put(|input| input.questions.push(Box::new(move |_, _| _ = hung.recv())));
        assert!(matches!(server.wait(), Err(Fatal::Stalled("replica"))));
        assert_eq!(shared.metrics.thread_stalls.get(), 1, "it alone");
        drop(release);
    }
}
