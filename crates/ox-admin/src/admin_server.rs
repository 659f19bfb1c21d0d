//! Start and stop of the HTTP listeners and their thread.

use crate::admission::Admission;
use crate::commands::CommandContext;
use crate::control::AdminControl;
use crate::host_header::HostCheck;
use crate::limits::{COMMAND_THREADS, CONNECTIONS_MAX, DESCRIPTORS_DIVISOR, STOP_TIMEOUT};
use crate::listener::{self, Listener};
use crate::open_connections::OpenConnections;
use crate::routes::{self, App, Certificates};
use crate::server_slot::ServerSlot;
use crate::tls::{ListenerTls, Transport};
use ox_config::{AdminConfig, Config, ListenAddress, PrometheusConfig};
use ox_server::{Build, MetricsOptions, ServerHandle};
use ox_tls::TlsError;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// Why the HTTP side did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminStartError {
    #[error("Problem starting AdminServer on address {host}, port {port} and command URL {url}: {source}")]
    Bind { host: String, port: u16, url: String, source: io::Error },
    #[error("Failed to load authentication certificates for admin server. {0}")]
    Stores(#[source] TlsError),
    #[error("Cannot boot MetricsProvider: cannot listen on {host}:{port}: {source}")]
    BindMetrics { host: String, port: u16, source: io::Error },
    #[error("Cannot boot MetricsProvider: {0}")]
    MetricsStores(#[source] TlsError),
    #[error("cannot start the thread of the AdminServer: {0}")]
    Thread(#[source] io::Error),
}

impl AdminStartError {
    /// Apache's exit code for the same error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Bind { .. } | Self::Stores(_) => 4,
            Self::BindMetrics { .. } | Self::MetricsStores(_) | Self::Thread(_) => 1,
        }
    }

    /// What an operator can do about the error, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Bind { .. } => Some("free the port, change admin.serverPort, or set admin.enableServer=false"),
            Self::BindMetrics { .. } => Some("free the port, or change metricsProvider.httpPort"),
            Self::Stores(_) | Self::MetricsStores(_) | Self::Thread(_) => None,
        }
    }
}

/// The running HTTP side. Dropping it stops it.
pub struct AdminServer {
    slot: Arc<ServerSlot>,
    admin_address: Option<SocketAddr>,
    metrics_addresses: Vec<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A bound port and its listener.
type Bound = (TcpListener, Listener);

/// What the listeners share.
struct Parts {
    control: Option<Arc<AdminControl>>,
    slot: Arc<ServerSlot>,
    admission: Arc<Admission>,
    connections: Arc<OpenConnections>,
    metrics: MetricsOptions,
    certificates: Certificates,
}

impl AdminServer {
    /// Binds the configured ports and answers on them, without a server yet. `None` if no port is configured.
    pub fn start(build: Build, config: &Config) -> Result<Option<Self>, AdminStartError> {
        Self::start_with(build, config, None)
    }

    /// The same, with the commands of a program that can change its settings.
    pub fn start_with(
        build: Build,
        config: &Config,
        control: Option<Arc<AdminControl>>,
    ) -> Result<Option<Self>, AdminStartError> {
        let parts = Parts { control, ..Parts::new(config) };
        let (mut bound, mut admin_address) = (Vec::new(), None);
        if let Some(admin) = &config.admin
            && let Some((listener, address)) = parts.bind_admin(build, config, admin)?
        {
            admin_address = Some(address);
            bound.push(listener);
        }
        let mut metrics_addresses = Vec::new();
        if let Some(prometheus) = &config.prometheus {
            for (listener, address) in parts.bind_metrics(prometheus)? {
                metrics_addresses.push(address);
                bound.push(listener);
            }
        }
        if bound.is_empty() {
            return Ok(None);
        }
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || run(bound, stopped));
        let thread = Some(thread.map_err(AdminStartError::Thread)?);
        Ok(Some(Self { slot: parts.slot, admin_address, metrics_addresses, stop: Some(stop), thread }))
    }

    /// Sets the server that is shown, or none between two servers.
    pub fn set_server(&self, server: Option<ServerHandle>) {
        self.slot.set(server);
    }

    /// The address of the AdminServer, if it is enabled.
    pub fn address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The addresses of the metrics provider.
    pub fn metrics_addresses(&self) -> &[SocketAddr] {
        &self.metrics_addresses
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was logged
        }
    }
}

impl Parts {
    fn new(config: &Config) -> Self {
        Self {
            control: None,
            slot: Arc::default(),
            admission: Arc::new(Admission::new()),
            connections: OpenConnections::new(connections_max()),
            metrics: MetricsOptions::of(config),
            certificates: Certificates::default(),
        }
    }

    /// `None` if the port is in use, and the server starts without it.
    fn bind_admin(
        &self,
        build: Build,
        config: &Config,
        admin: &AdminConfig,
    ) -> Result<Option<(Bound, SocketAddr)>, AdminStartError> {
        let (host, url) = (admin.listen.host.clone(), admin.command_url.clone());
        let transport = match &admin.tls {
            None => Transport::Plain,
            Some(tls) => {
                let stores = ListenerTls::new(&tls.keys).map_err(AdminStartError::Stores)?;
                self.certificates.lock().push(("admin", Arc::clone(&stores)));
                if tls.is_unified { Transport::Unified(stores) } else { Transport::Tls(stores) }
            }
        };
        let bound = listener::bind(&admin.listen).and_then(|bound| Ok((bound.local_addr()?, bound)));
        let (address, bound) = match bound {
            Ok(bound) => bound,
            // Compat: members of an ensemble start without the AdminServer (`member_starts_without_admin_port`).
            Err(source) if config.member.is_some() => {
                let error = AdminStartError::Bind { host, port: admin.listen.port, url, source };
                tracing::warn!("{error}; {}", error.remedy().unwrap_or_default());
                return Ok(None);
            }
            Err(source) if !admin.is_required => {
                let port = admin.listen.port;
                tracing::info!(%source, port, "no AdminServer: its default port cannot be bound; set admin.serverPort, in zoo.cfg or as -Dzookeeper.admin.serverPort");
                return Ok(None);
            }
            Err(source) => return Err(AdminStartError::Bind { host, port: admin.listen.port, url, source }),
        };
        let listener = self.admin_listener(build, config, admin, transport);
        let port = address.port();
        tracing::info!("Started AdminServer on address {host}, port {port} and command URL {url}");
        Ok(Some(((bound, listener), address)))
    }

    fn admin_listener(&self, build: Build, config: &Config, admin: &AdminConfig, transport: Transport) -> Listener {
        let context = Arc::new(CommandContext::new(build, config, admin, self.control.clone()));
        Listener {
            transport,
            router: routes::admin(self.app(Some(context)), &admin.command_url),
            hosts: Some(Arc::new(HostCheck::new(config, ox_server::host_name()))),
            idle_timeout: Duration::from_millis(admin.idle_timeout_ms.into()),
            connections: Arc::clone(&self.connections),
            server: Arc::clone(&self.slot),
        }
    }

    fn bind_metrics(&self, config: &PrometheusConfig) -> Result<Vec<(Bound, SocketAddr)>, AdminStartError> {
        let stores = config.keys.as_ref().map(ListenerTls::new).transpose().map_err(AdminStartError::MetricsStores)?;
        self.certificates.lock().extend(stores.iter().map(|stores| ("metrics", Arc::clone(stores))));
        let is_unified = config.http.is_some() && config.http == config.https;
        let https = config.https.as_ref().filter(|_| !is_unified);
        let plain = config.http.as_ref().map(|listen| match &stores {
            Some(stores) if is_unified => (listen, Transport::Unified(Arc::clone(stores))),
            _ => (listen, Transport::Plain),
        });
        let secure = https.zip(stores.clone()).map(|(listen, stores)| (listen, Transport::Tls(stores)));
        let bind = |(listen, transport): (&ListenAddress, Transport)| {
            let bound = listener::bind(listen).and_then(|bound| Ok((bound.local_addr()?, bound)));
            let (address, bound) = bound.map_err(|source| AdminStartError::BindMetrics {
                host: listen.host.clone(),
                port: listen.port,
                source,
            })?;
            tracing::info!(%address, "Started metrics provider: Prometheus's page is /metrics");
            let listener = Listener {
                transport,
                router: routes::prometheus(self.app(None)),
                hosts: None,
                idle_timeout: METRICS_IDLE_TIMEOUT,
                connections: Arc::clone(&self.connections),
                server: Arc::clone(&self.slot),
            };
            Ok(((bound, listener), address))
        };
        plain.into_iter().chain(secure).map(bind).collect()
    }

    fn app(&self, commands: Option<Arc<CommandContext>>) -> Arc<App> {
        let (server, admission) = (Arc::clone(&self.slot), Arc::clone(&self.admission));
        let certificates = Arc::clone(&self.certificates);
        Arc::new(App { server, commands, metrics: self.metrics, certificates, admission })
    }
}

/// Reads the stores of the HTTP ports, without starting anything.
pub fn check_stores(config: &Config) -> Result<(), AdminStartError> {
    if let Some(tls) = config.admin.as_ref().and_then(|admin| admin.tls.as_ref()) {
        ListenerTls::new(&tls.keys).map_err(AdminStartError::Stores)?;
    }
    if let Some(keys) = config.prometheus.as_ref().and_then(|prometheus| prometheus.keys.as_ref()) {
        ListenerTls::new(keys).map_err(AdminStartError::MetricsStores)?;
    }
    Ok(())
}

/// The listener of an AdminServer without its port.
pub(crate) fn listener_of(config: &Config, admin: &AdminConfig, server: ServerHandle) -> Listener {
    let parts = Parts::new(config);
    parts.slot.set(Some(server));
    parts.admin_listener(Build::UNKNOWN, config, admin, Transport::Plain)
}

/// Longer than the usual interval of scrapes, whose connections are kept.
const METRICS_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Connections that HTTP may have open: a small share of the process's descriptors.
fn connections_max() -> usize {
    let share = ox_server::open_files_max() / DESCRIPTORS_DIVISOR;
    usize::try_from(share).unwrap_or(usize::MAX).min(CONNECTIONS_MAX)
}

/// Serves until `stopped` is dropped.
fn run(bound: Vec<Bound>, stopped: oneshot::Receiver<()>) {
    lower_priority();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(COMMAND_THREADS)
        .thread_name("admin command")
        .on_thread_start(lower_priority)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "cannot serve HTTP"),
    };
    runtime.block_on(async {
        for (socket, listener) in bound {
            tokio::spawn(listener.run(socket));
        }
        let _ = stopped.await; // an error means the same
    });
    runtime.shutdown_timeout(STOP_TIMEOUT);
}

/// Lowers the priority below that of the threads that serve clients.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE); // best effort
}

/// The lowest priority: on a busy core, requests of HTTP clients wait rather than those of ZooKeeper clients. A thread
/// that waits for a lock of this one leaves the core to it.
#[cfg(target_os = "linux")]
const NICE: i32 = 19;
