//! Start and stop of a server and its threads.

use crate::audit;
use crate::clock::wall_ms;
use crate::io::client_port_tls::{self, ClientPortTls, ClientStores};
use crate::io::client_sasl::{ClientSasl, SaslSetupError};
use crate::io::connection_table::ClientPort;
use crate::io::fd_limit::{TooFewDescriptors, connections_max};
use crate::io::mailbox::Mailbox;
use crate::io::{HandshakeThread, IoThread, WAKER, bind};
use crate::live_settings;
use crate::maintenance;
use crate::member_setup;
use crate::options::{replica_settings, store_options, tree_options};
use crate::peers::config_activation::save_config;
use crate::peers::port_tls::{self, PeerPortTls, PeerStores};
use crate::peers::quorum_sasl::{QuorumSasl, QuorumSaslError};
use crate::peers::security::PeerSecurity;
use crate::peers::tls_workers::worker_count;
use crate::peers::{PeerCommands, Peers};
use crate::replica_thread::ReplicaThread;
use crate::replica_thread::log_writer::{self, SharedLogQueue};
use crate::shared::{EssentialThread, Fatal, Shared};
use crate::status::four_letter;
use crate::status::metrics::Metrics;
use crate::status::protection;
use crate::status::server_mode::ServerMode;
use crate::status::startup_banner;
use crate::status::state_dump;
use crate::status::tree_usage;
use crate::status::version::Build;
use crate::watchdog::{Heartbeat, Watchdog};
use mio::net::TcpListener;
use mio::{Poll, Waker};
use ox_config::{Config, MemberConfig};
use ox_driver::config_change::ConfigChange;
use ox_driver::replica_loop::show_config;
use ox_driver::server_log::ServerLog;
use ox_proto::ensemble::Address;
use ox_proto::{ServerId, Zxid};
use ox_replica::{AuditEvent, AuditResult, Replica};
use ox_store::disk::{Disk, RealDisk};
use ox_store::names::{Dirs, VERSION_DIR};
use ox_store::start_preview::check_owner;
use ox_store::{FreeSpace, RecoveryReport, StartSnapshot, Store};
use ox_tls::TlsError;
use ox_zab::QuorumPeer;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data directories cannot be used.
    #[error("{0}")]
    Store(#[from] ox_store::StoreError),
    /// The client port or the election port cannot be bound.
    #[error("cannot listen on {address}, the {purpose} port: {source}")]
    Bind {
        /// What the port is for: `client`, `secure client` or `election`.
        purpose: &'static str,
        /// The address as it is configured.
        address: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// A file of SASL cannot be used.
    #[error("{0}")]
    Sasl(#[from] SaslSetupError),
    /// A file of SASL between servers cannot be used.
    #[error("{0}")]
    QuorumSasl(#[from] QuorumSaslError),
    /// The file of the audit log cannot be written.
    #[error("cannot write the audit log {}: {source}", path.display())]
    Audit { path: PathBuf, source: io::Error },
    /// A file of the data directories is a symbolic link.
    #[error("{} is a symbolic link: files of the data directory must not be links; replace it by its target", .0.display())]
    Link(PathBuf),
    /// No threads or descriptors are available.
    #[error("cannot set up the I/O threads: {0}")]
    Setup(#[source] io::Error),
    /// The limit of open files is too low.
    #[error("{0}")]
    Descriptors(#[from] TooFewDescriptors),
    /// A store, or a setting of TLS, cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
}

impl StartError {
    /// What an operator can do about the error, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => error.remedy(),
            Self::Audit { .. } => {
                Some("create its directory, let the user of the server write there, or change oxkeeper.audit.file")
            }
            Self::Bind { .. } | Self::Setup(_) | Self::Sasl(_) | Self::QuorumSasl(_) => None,
            Self::Tls(_) | Self::Link(_) => None, // their texts contain the remedy
            Self::Descriptors(_) => Some("raise the limit of open files (ulimit -n)"),
        }
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_full())
    }

    /// Whether another process, or an earlier server of this one that is about to end, uses the directories.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Store(ox_store::StoreError::Locked(_)))
    }

    /// Apache's exit code for the same error; 2 if the configuration names a file that cannot be used.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Store(error) => error.exit_code(),
            Self::Bind { .. } | Self::Setup(_) | Self::Descriptors(_) | Self::Sasl(_) | Self::QuorumSasl(_) => 1,
            Self::Audit { .. } | Self::Tls(_) => 2, // as other errors of the configuration
            Self::Link(_) => 3,                     // as other errors of the directories
        }
    }
}

/// How long threads may take to end while one of them hangs.
const HUNG_THREAD_WAIT: Duration = Duration::from_secs(2);

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<(&'static str, JoinHandle<()>)>,
    has_audit_thread: bool,
}

/// What was read for TLS and SASL before the data.
struct Protection {
    client_stores: Option<ClientStores>,
    client_sasl: Option<ClientSasl>,
    peer_stores: Option<PeerStores>,
    peer_sasl: Option<QuorumSasl>,
}

impl Protection {
    fn read(config: &Config) -> Result<Self, StartError> {
        Ok(Self {
            client_stores: client_port_tls::load(config)?,
            client_sasl: ClientSasl::open(&config.sasl)?,
            peer_stores: port_tls::load(config)?,
            peer_sasl: QuorumSasl::open(config.member.as_ref().and_then(|member| member.sasl.as_ref()))?,
        })
    }
}

/// What the replica and the log thread start with.
struct Core {
    replica: Replica,
    space: FreeSpace,
    log: ServerLog,
    commands: Option<Arc<PeerCommands>>,
    peers: Option<PeersStart>,
}

/// What the threads for other servers start with.
struct PeersStart {
    peers: Peers,
    security: Arc<PeerSecurity>,
    stores: Option<PeerStores>,
}

/// The ports for clients.
struct ClientListeners {
    plain: Option<TcpListener>,
    secure: Option<TcpListener>,
    /// Connections allowed on both together.
    connections_max: usize,
    /// Set if one of them uses TLS.
    stores: Option<ClientStores>,
    /// Polls of the handshake threads.
    handshake_polls: Vec<Poll>,
}

/// Stops and observes a server from any thread, such as that of a signal handler.
#[derive(Clone)]
pub struct ServerHandle(Arc<Shared>);

/// The contents of a server, and whether it serves clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSummary {
    /// The mode that `srvr` shows; `None` while the server serves no clients.
    pub mode: Option<&'static str>,
    pub nodes: usize,
    pub last_zxid: Zxid,
}

impl ServerHandle {
    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Requests the stop. [`Server::wait`] returns when the server has stopped.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Whether the server was requested to stop, or stops because of an error.
    pub fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }

    /// May wait for the replica thread.
    pub fn summary(&self) -> ServerSummary {
        let mode = ServerMode::query(&self.0).map(ServerMode::name);
        let state = self.0.state.read();
        ServerSummary { mode, nodes: state.node_count(), last_zxid: state.last_zxid() }
    }

    /// Number of checks, about one per second, at which every thread of the server made progress. It does not grow while
    /// one hangs, or while the threads that check do not run.
    pub fn healthy_checks(&self) -> u64 {
        self.0.healthy_checks.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Logs threads and statistics of the server. May wait for the replica thread.
    pub fn log_state(&self) {
        state_dump::log(&self.0);
    }
}

impl Server {
    /// Recovers the data, opens the client port and starts to serve.
    pub fn start(build: Build, config: Config) -> Result<Self, StartError> {
        Self::start_on(Arc::new(RealDisk), build, config)
    }

    /// The same, with files on any [`Disk`].
    pub fn start_on(disk: Arc<dyn Disk>, build: Build, config: Config) -> Result<Self, StartError> {
        let config_of_audit = config.audit.clone();
        let started = Self::start_with(disk, build, config);
        let is_audit = matches!(started, Err(StartError::Audit { .. })); // it would fail again
        if started.is_err() && !is_audit && config_of_audit.enabled {
            audit::note_failed_start(&config_of_audit, &audit::server_user(None));
        }
        started
    }

    /// Checks that the directories are those of this server, and that the ports for clients are free, without keeping
    /// them.
    pub fn check_owner_and_client_ports(config: &Config) -> Result<(), StartError> {
        check_owner_and_client_ports(&RealDisk, config)
    }

    fn start_with(disk: Arc<dyn Disk>, build: Build, config: Config) -> Result<Self, StartError> {
        // Reported before the data is read, which may take long; another process may take the port meanwhile.
        check_owner_and_client_ports(&*disk, &config)?;
        if let Some(link) = protection::find_link(&config)? {
            return Err(StartError::Link(link));
        }
        if let Some(member) = &config.member {
            crate::peers::check_election_port(member).map_err(|source| election_error(member, source))?;
        }
        startup_banner::starting(build, &config);
        let protection = Protection::read(&config)?;
        audit::check(&config.audit).map_err(|source| {
            let path = config.audit.file.clone().unwrap_or_default();
            StartError::Audit { path, source }
        })?;
        if let Some(member) = config.member.clone() {
            return Self::start_member(disk, build, config, member, protection);
        }
        let Protection { client_stores: stores, client_sasl: sasl, .. } = protection;
        let started = Instant::now();
        let (hash_seed, log_seed) = (rand::random(), rand::random());
        let opened = Store::open(disk, &store_options(&config), &tree_options(&config, hash_seed), log_seed)?;
        let total_ms = millis(started.elapsed());
        startup_banner::recovered(&opened.report, total_ms);
        let mut listeners = ClientListeners::bind(&config, stores)?;
        let start_snapshot = opened.report.start_snapshot;
        let threads = io_threads();
        let (polls, mailboxes) = polls(threads).map_err(StartError::Setup)?;
        let tls = listeners.set_up_tls(&config).map_err(StartError::Setup)?;
        listeners.connections_max = connections_max(false)?;
        let space = opened.store.space()?;
        let mut shared = Shared::new(build, config, opened.state, opened.store, mailboxes);
        (shared.tls, shared.sasl) = (tls, sasl);
        let shared = Arc::new(shared);
        note_recovery(&shared.metrics, &opened.report, total_ms);
        let mut server = Self { shared, threads: Vec::new(), has_audit_thread: false };
        let settings = replica_settings(&server.shared.config, polls.len(), opened.session_clock_ms);
        let shared = &server.shared;
        let replica = {
            let state = shared.state.read();
            let peer = QuorumPeer::standalone(ServerId(i64::from(settings.server)), state.last_zxid());
            Replica::new(settings, peer, &state, shared.clock.now())
        };
        let log = ServerLog::Standalone(Box::new(opened.log), shared.store.clone());
        let core = Core { replica, space, log, commands: None, peers: None };
        server.launch(polls, listeners, core, start_snapshot).map_err(StartError::Setup)?;
        Ok(server)
    }

    fn start_member(
        disk: Arc<dyn Disk>,
        build: Build,
        config: Config,
        member: MemberConfig,
        protection: Protection,
    ) -> Result<Self, StartError> {
        let started = Instant::now();
        let Protection { client_stores: stores, client_sasl: sasl, peer_stores, peer_sasl } = protection;
        let config_files = member_setup::config_files(&disk, &config, &member);
        let opened = member_setup::open(disk, &config, &member)?;
        let total_ms = millis(started.elapsed());
        if let Some(report) = &opened.loaded {
            startup_banner::recovered(report, total_ms);
        }
        let mut listeners = ClientListeners::bind(&config, stores)?;
        let (polls, mailboxes) = polls(io_threads()).map_err(StartError::Setup)?;
        let tls = listeners.set_up_tls(&config).map_err(StartError::Setup)?;
        listeners.connections_max = connections_max(true)?;
        let space = opened.store.space()?;
        let mut shared = Shared::new(build, config, opened.state, opened.store, mailboxes);
        (shared.config_files, shared.tls, shared.sasl) = (config_files, tls, sasl);
        // It may be in the log only, and logs are purged with their snapshots.
        let pending = opened.peer.configs().proposed();
        if let Some(pending) = pending.filter(|pending| member.proposed.as_ref() != Some(&***pending)) {
            save_config(&shared, &ConfigChange::Proposed(Arc::clone(pending)));
        }
        let shared = Arc::new(shared);
        if let Some(ensemble) = &*shared.ensemble.read() {
            show_config(&mut shared.state.write(), ensemble, shared.clock.now().wall_ms);
        }
        let mut server = Self { shared: Arc::clone(&shared), threads: Vec::new(), has_audit_thread: false };
        let mut settings = replica_settings(&shared.config, polls.len(), opened.session_clock_ms);
        settings.change_rules = member.change_rules;
        settings.server = u8::try_from(member.server.0).unwrap_or(u8::MAX);
        let poll = Poll::new().map_err(StartError::Setup)?;
        let commands = Arc::new(PeerCommands::new(Waker::new(poll.registry(), WAKER).map_err(StartError::Setup)?));
        let member = Arc::new(member);
        let security = peer_security(&member, peer_stores.as_ref(), peer_sasl, &commands, &shared);
        let peers =
            Peers::new(Arc::clone(&shared), Arc::clone(&member), poll, Arc::clone(&commands), Arc::clone(&security));
        let peers = peers.map_err(|source| election_error(&member, source))?;
        startup_banner::listening(&member, &peers.election_binds());
        let replica = Replica::new(settings, opened.peer, &shared.state.read(), shared.clock.now());
        let log = ServerLog::Member(Box::new(opened.log));
        let peers = Some(PeersStart { peers, security, stores: peer_stores });
        let core = Core { replica, space, log, commands: Some(commands), peers };
        server.launch(polls, listeners, core, StartSnapshot::NotNeeded).map_err(StartError::Setup)?;
        Ok(server)
    }

    fn launch(
        &mut self,
        polls: Vec<Poll>,
        listeners: ClientListeners,
        core: Core,
        start_snapshot: StartSnapshot,
    ) -> io::Result<()> {
        let shared = &Arc::clone(&self.shared);
        live_settings::apply(shared, &shared.config);
        let Core { replica, space, log, commands, peers } = core;
        let (command_queue, command_thread) = four_letter::queue();
        let mut io = Vec::new();
        for (number, poll) in (0..).zip(polls) {
            io.push(IoThread::new(number, poll, Arc::clone(shared), command_queue.clone()));
        }
        let ClientListeners { plain, secure, connections_max, stores, handshake_polls } = listeners;
        if let Some(listener) = plain {
            *self.shared.address.lock() = Some(listener.local_addr()?);
            io[0].listen(ClientPort::Client, listener, connections_max)?;
        }
        if let (Some(listener), Some(tls)) = (secure, &shared.tls) {
            *tls.secure_address.lock() = Some(listener.local_addr()?);
            io[0].listen(ClientPort::Secure, listener, connections_max)?;
        }
        shared.stats.weak_settings.add(protection::report(&shared.config));
        startup_banner::serving(shared, io.len(), [self.address(), self.secure_address()]);
        let queue = Arc::new(SharedLogQueue::default());
        let (for_replica, log_queue) = (Arc::clone(shared), Arc::clone(&queue));
        let replica_thread =
            ReplicaThread { shared: for_replica, replica, log: log_queue, commands, space, start_snapshot };
        let for_log = Arc::clone(shared);
        let supervision = &shared.config.supervision;
        let mut dog = Watchdog::new(supervision.warn_after_ms, supervision.exit_after_ms);
        self.spawn_watched(&mut dog, "log", None, move |heartbeat| log_writer::run(&for_log, &queue, log, heartbeat))?;
        self.spawn_watched(&mut dog, "replica", None, move |heartbeat| replica_thread.run(heartbeat))?;
        let (for_commands, for_maintenance, for_purge) = (Arc::clone(shared), Arc::clone(shared), Arc::clone(shared));
        self.spawn_watched(&mut dog, "commands", None, move |heartbeat| command_thread.run(&for_commands, heartbeat))?;
        self.spawn_watched(&mut dog, "maintenance", None, move |heartbeat| {
            maintenance::run_checks(&for_maintenance, heartbeat)
        })?;
        if let Some(pause) = shared.config.autopurge.interval_ms.map(Duration::from_millis) {
            self.spawn("purge", None, move || maintenance::purge_every(&for_purge, pause))?;
        }
        if shared.config.metrics_paths {
            let for_usage = Arc::clone(shared);
            self.spawn("usage", None, move || tree_usage::measure_forever(&for_usage))?;
        }
        if let (Some(stores), Some(tls)) = (stores, &shared.tls) {
            self.spawn_tls(&mut dog, tls, stores, handshake_polls)?;
        }
        if let Some(peers) = peers {
            self.spawn_peers(&mut dog, peers)?;
        }
        for (number, thread) in io.into_iter().enumerate() {
            self.spawn_watched(&mut dog, "io", Some(number), move |heartbeat| {
                if let Err(error) = thread.run(heartbeat) {
                    tracing::error!(%error, "I/O thread failed");
                }
            })?;
        }
        let for_dog = Arc::clone(shared);
        self.spawn("watchdog", None, move || dog.run(&for_dog))?;
        self.start_audit()
    }

    /// Starts the audit thread, whose first event is the start of the server.
    fn start_audit(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let Some(queue) = &self.shared.audit else { return Ok(()) };
        queue.push(wall_ms(), [AuditEvent::of_server("serverStart", AuditResult::Success)]);
        let user = audit::server_user(shared.sasl.as_ref().and_then(ClientSasl::principal));
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || {
            let essential = EssentialThread { shared, name: "audit", only_panics: true };
            if let Some(queue) = &essential.shared.audit {
                audit::run(&essential.shared, queue, &user);
            }
        })?;
        self.has_audit_thread = true;
        Ok(())
    }

    /// Records the stop of the server, and waits for the audit thread, but not for a file that hangs.
    fn stop_audit(&mut self) {
        let Some(queue) = self.shared.audit.as_ref().filter(|_| self.has_audit_thread) else { return };
        queue.push(wall_ms(), [AuditEvent::of_server("serverStop", AuditResult::Invoked)]);
        queue.close();
        queue.await_end(HUNG_THREAD_WAIT);
        self.has_audit_thread = false;
    }

    fn spawn_tls(
        &mut self,
        dog: &mut Watchdog,
        tls: &Arc<ClientPortTls>,
        stores: ClientStores,
        polls: Vec<Poll>,
    ) -> io::Result<()> {
        for (number, poll) in polls.into_iter().enumerate() {
            let (shared, max) = (Arc::clone(&self.shared), tls.handshakes_per_thread());
            let thread = HandshakeThread::new(number, poll, shared, Arc::clone(tls), max);
            self.spawn_watched(dog, "handshake", Some(number), move |heartbeat| {
                if let Err(error) = thread.run(heartbeat) {
                    tracing::error!(%error, "handshake thread failed");
                }
            })?;
        }
        let (shared, tls) = (Arc::clone(&self.shared), Arc::clone(tls));
        self.spawn_watched(dog, "certificates", None, move |heartbeat| {
            client_port_tls::watch_stores(&shared, &tls, stores, heartbeat);
        })
    }

    fn spawn_peers(&mut self, dog: &mut Watchdog, start: PeersStart) -> io::Result<()> {
        let PeersStart { peers, security, stores } = start;
        if let Some(stores) = stores {
            for number in 0..worker_count() {
                let (shared, security) = (Arc::clone(&self.shared), Arc::clone(&security));
                self.spawn_watched(dog, "peer handshake", Some(number), move |heartbeat| {
                    security.workers.run(&shared, heartbeat);
                })?;
            }
            let shared = Arc::clone(&self.shared);
            self.spawn_watched(dog, "peer certificates", None, move |heartbeat| {
                if let Some(tls) = &security.tls {
                    port_tls::watch_stores(&shared, tls, stores, heartbeat);
                }
            })?;
        }
        self.spawn_watched(dog, "peers", None, move |heartbeat| peers.run(heartbeat))
    }

    /// Starts a thread whose end means the end of the server, and whose heartbeat the watchdog checks.
    fn spawn_watched(
        &mut self,
        dog: &mut Watchdog,
        name: &'static str,
        number: Option<usize>,
        run: impl FnOnce(&Heartbeat) + Send + 'static,
    ) -> io::Result<()> {
        let heartbeat = dog.watch(name, &label(name, number));
        self.spawn(name, number, move || run(&heartbeat))
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
            let _essential = EssentialThread { shared, name, only_panics: false };
            run();
        })?;
        self.threads.push((name, thread));
        Ok(())
    }

    /// The address of the client port, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        *self.shared.address.lock()
    }

    /// The address of the secure client port, if there is one.
    pub fn secure_address(&self) -> Option<SocketAddr> {
        self.shared.tls.as_ref().and_then(|tls| *tls.secure_address.lock())
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub fn handle(&self) -> ServerHandle {
        ServerHandle(Arc::clone(&self.shared))
    }

    /// Waits until the server has stopped and everything acknowledged is on disk.
    pub fn wait(mut self) -> Result<(), Fatal> {
        for name in self.join() {
            self.shared.fail(Fatal::Thread(name));
        }
        self.shared.take_fatal().map_or(Ok(()), Err)
    }

    /// Waits for the end of all threads, and returns those that panicked. If a thread hangs, it and those that wait for
    /// it are left running: nothing that they do is acknowledged any more.
    fn join(&mut self) -> Vec<&'static str> {
        let may_hang = self.shared.await_stop();
        let until = Instant::now() + HUNG_THREAD_WAIT;
        let mut panicked = Vec::new();
        for (name, thread) in std::mem::take(&mut self.threads) {
            while may_hang && !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(HUNG_THREAD_WAIT / 100);
            }
            if (!may_hang || thread.is_finished()) && thread.join().is_err() {
                panicked.push(name);
            }
        }
        self.stop_audit();
        panicked
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop();
        self.join(); // errors are returned by `wait`, which was not called
    }
}

fn peer_security(
    member: &MemberConfig,
    stores: Option<&PeerStores>,
    sasl: Option<QuorumSasl>,
    commands: &Arc<PeerCommands>,
    shared: &Shared,
) -> Arc<PeerSecurity> {
    let tls = member.tls.as_ref().zip(stores).map(|(config, stores)| PeerPortTls::new(config, stores));
    let security = PeerSecurity::new(tls, sasl, Arc::clone(commands), Arc::clone(&shared.metrics));
    Arc::clone(shared.peer_security.get_or_init(|| Arc::new(security)))
}

/// The bytes that must be free on the volumes of `dataDir` and `dataLogDir` for [`has_disk_space`]; `None` where free
/// space cannot be measured.
pub fn disk_space_needed(config: &Config) -> Option<[u64; 2]> {
    ox_store::free_space_needed(&RealDisk, &store_options(config)).ok()
}

/// Whether a server that ended because of a full disk can start again. True where free space cannot be measured.
pub fn has_disk_space(config: &Config) -> bool {
    ox_store::has_free_space(&RealDisk, &store_options(config)).unwrap_or(true)
}

/// The name of a thread in the log and in tools.
fn label(name: &str, number: Option<usize>) -> String {
    number.map_or_else(|| name.to_owned(), |number| format!("{name} {number}"))
}

/// Number of I/O threads: the replica and the log need cores too.
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

impl ClientListeners {
    fn bind(config: &Config, stores: Option<ClientStores>) -> Result<Self, StartError> {
        let bind = |address: Option<ClientAddress>| {
            let bound = address.map(|address| {
                let bound = bind(address.ip, address.port, config.listen_backlog);
                bound.map_err(|source| address.error(source))
            });
            bound.transpose()
        };
        let [plain, secure] = client_addresses(config);
        let (plain, secure) = (bind(plain)?, bind(secure)?);
        Ok(Self { plain, secure, connections_max: 0, stores, handshake_polls: Vec::new() })
    }

    /// Opens the descriptors of the handshake threads.
    fn set_up_tls(&mut self, config: &Config) -> io::Result<Option<Arc<ClientPortTls>>> {
        let (Some(config), Some(stores)) = (&config.tls, &self.stores) else { return Ok(None) };
        let (tls, polls) = ClientPortTls::new(config, stores)?;
        self.handshake_polls = polls;
        Ok(Some(Arc::new(tls)))
    }
}

/// A port for clients, as it is configured.
#[derive(Clone, Copy)]
struct ClientAddress {
    purpose: &'static str,
    ip: Option<IpAddr>,
    port: u16,
}

impl ClientAddress {
    fn error(self, source: io::Error) -> StartError {
        let host = self.ip.map_or_else(|| "*".to_owned(), |ip| ip.to_string());
        StartError::Bind { purpose: self.purpose, address: format!("{host}:{}", self.port), source }
    }
}

/// The client port and the secure client port.
fn client_addresses(config: &Config) -> [Option<ClientAddress>; 2] {
    let plain = config.client_port.map(|port| ClientAddress { purpose: "client", ip: config.client_address, port });
    let secure = config.tls.as_ref().and_then(|tls| {
        Some(ClientAddress { purpose: "secure client", ip: tls.secure_address, port: tls.secure_port? })
    });
    [plain, secure]
}

/// With a wrong myid, the ports are those of another server, whose process must not be blamed.
fn check_owner_and_client_ports(disk: &dyn Disk, config: &Config) -> Result<(), StartError> {
    if let Some(member) = &config.member {
        let [snapshots, logs] = [&config.data_dir, &config.data_log_dir].map(|dir| dir.join(VERSION_DIR));
        check_owner(disk, &Dirs { snapshots, logs }, member.server.0)?;
    }
    check_client_ports(config)
}

/// Binds the client ports for a moment, without listening: clients are refused until the server serves.
fn check_client_ports(config: &Config) -> Result<(), StartError> {
    for client in client_addresses(config).into_iter().flatten().filter(|client| client.port != 0) {
        let address = SocketAddr::new(client.ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), client.port);
        let bound = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).and_then(|socket| {
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())
        });
        bound.map_err(|source| client.error(source))?;
    }
    Ok(())
}

fn election_error(member: &MemberConfig, source: io::Error) -> StartError {
    StartError::Bind { purpose: "election", address: election_addresses(member), source }
}

fn election_addresses(member: &MemberConfig) -> String {
    let own = member.ensemble.members().get(&member.server);
    let addresses = own.map(|own| own.election.iter().map(Address::to_string).collect::<Vec<_>>());
    addresses.unwrap_or_default().join(" and ")
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
        (Server::start(Build::UNKNOWN, config).unwrap(), dir)
    }

    #[test]
    fn requested_stop_is_no_error() {
        let (server, _dir) = start();
        server.handle().stop();
        assert!(server.wait().is_ok());
    }

    /// A server ends with an error when any of its threads ends (R27).
    #[test]
    fn end_of_a_thread_stops_the_server() {
        let (mut server, _dir) = start();
        server.spawn("returns", None, || ()).unwrap();
        assert!(matches!(server.wait(), Err(Fatal::Thread("returns"))));
        let (mut server, _dir) = start();
        server.spawn("panics", None, || panic!("panic of the test")).unwrap();
        assert!(matches!(server.wait(), Err(Fatal::Thread("panics"))));
    }

    #[test]
    fn panic_of_the_replica_stops_the_server() {
        let (server, _dir) = start();
        server.shared.inbox.query(|_, _| panic!("panic of the test"));
        assert!(matches!(server.wait(), Err(Fatal::Thread("replica"))), "and the log thread ends, too");
    }

    /// The watchdog finds a thread that hangs and no idle one, and the server does not wait for it (R27).
    #[test]
    fn hanging_thread_stops_the_server_after_exit_after() {
        let (server, _dir) = start_with(|config| {
            (config.supervision.warn_after_ms, config.supervision.exit_after_ms) = (3_000, 4_000);
        });
        let shared = Arc::clone(&server.shared);
        let (release, hung) = std::sync::mpsc::channel::<()>();
        shared.inbox.query(move |_, _| _ = hung.recv());
        assert!(matches!(server.wait(), Err(Fatal::Stalled("replica"))));
        assert_eq!(shared.metrics.thread_stalls.get(), 1, "it alone");
        drop(release);
    }

    /// A service manager is told to restart the server if this counter stands still.
    #[test]
    fn healthy_checks_stop_while_a_thread_hangs() {
        let (server, _dir) = start_with(|config| config.supervision.warn_after_ms = 3_000);
        let (handle, shared) = (server.handle(), Arc::clone(&server.shared));
        while handle.healthy_checks() == 0 {
            std::thread::yield_now();
        }
        let (release, hung) = std::sync::mpsc::channel::<()>();
        shared.inbox.query(move |_, _| _ = hung.recv());
        while shared.metrics.thread_stalls.get() == 0 {
            std::thread::yield_now();
        }
        let checks = handle.healthy_checks();
        shared.sleep(4 * crate::watchdog::CHECK_INTERVAL);
        assert_eq!(handle.healthy_checks(), checks);
        drop(release);
        while handle.healthy_checks() == checks {
            std::thread::yield_now();
        }
        handle.stop();
        assert!(server.wait().is_ok());
    }
}
