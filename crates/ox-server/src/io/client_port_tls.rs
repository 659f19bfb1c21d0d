//! TLS of the client ports: the present certificates, handshakes in progress, and reload of the stores.

use crate::io::connection_table::ClientPort;
use crate::io::reverse_lookups::{ReverseLookups, ReverseName, system_lookup};
use crate::io::{HandshakeQueue, WaitingClient};
use crate::limits::{EXPIRY_WARN_DAYS, EXPIRY_WARN_INTERVAL, STORE_CHECK_INTERVAL, TLS_HANDSHAKES_MAX};
use crate::shared::Shared;
use crate::store_reloads::{self, StoreFailure, StoreReload, StoreReloads};
use crate::watchdog::Heartbeat;
use mio::Poll;
use ox_config::{Config, SslKeys, StoreKeys, TlsConfig};
use ox_tls::{
    PeerTls, Reloader, ServerTls, SettingsGroup, StorePassword, StoreSettings, TlsError, TlsSettings, TlsWarning,
};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// The stores of the client ports, which may be read again.
pub(crate) type ClientStores = Reloader<ServerTls>;

/// What the threads share about TLS for clients.
pub(crate) struct ClientPortTls {
    config: TlsConfig,
    /// Replaced when stores are reloaded; each handshake uses the one with which it began.
    current: RwLock<Arc<ServerTls>>,
    queues: Vec<HandshakeQueue>,
    next_queue: AtomicUsize,
    in_progress: AtomicUsize,
    /// Set if the settings ask for reverse lookups.
    lookups: Option<ReverseLookups>,
    reloads: StoreReloads,
    /// The address of `secureClientPort`.
    pub(crate) secure_address: Mutex<Option<SocketAddr>>,
}

impl ClientPortTls {
    /// Also returns the polls of the handshake threads.
    pub(crate) fn new(config: &TlsConfig, stores: &ClientStores) -> io::Result<(Self, Vec<Poll>)> {
        let (mut polls, mut queues) = (Vec::new(), Vec::new());
        for _ in 0..handshake_threads() {
            let poll = Poll::new()?;
            queues.push(HandshakeQueue::new(&poll)?);
            polls.push(poll);
        }
        let keys = &config.keys;
        let has_lookups = keys.allow_reverse_dns_lookup && keys.client_hostname_verification;
        let lookups = has_lookups.then(|| ReverseLookups::start(system_lookup)).transpose()?;
        let tls = Self {
            config: config.clone(),
            lookups,
            current: RwLock::new(Arc::clone(stores.current())),
            queues,
            next_queue: AtomicUsize::new(0),
            in_progress: AtomicUsize::new(0),
            reloads: StoreReloads::default(),
            secure_address: Mutex::new(None),
        };
        Ok((tls, polls))
    }

    /// Whether connections to a port may need a handshake.
    pub(crate) fn covers(&self, port: ClientPort) -> bool {
        match port {
            ClientPort::Client => self.config.is_client_port_unified,
            ClientPort::Secure => true,
        }
    }

    /// Reads the stores again, and waits until that is done.
    pub(crate) fn reload(&self) -> StoreReload {
        self.reloads.request()
    }

    /// The certificates for the next handshake.
    pub(crate) fn current(&self) -> Arc<ServerTls> {
        Arc::clone(&self.current.read())
    }

    pub(crate) fn queue(&self, thread: usize) -> &HandshakeQueue {
        &self.queues[thread]
    }

    /// Passes an accepted connection to a handshake thread.
    pub(crate) fn begin_handshake(&self, client: WaitingClient) {
        self.in_progress.fetch_add(1, Relaxed);
        let thread = self.next_queue.fetch_add(1, Relaxed) % self.queues.len();
        self.queues[thread].put(client);
    }

    pub(crate) fn looks_up_names(&self) -> bool {
        self.lookups.is_some()
    }

    /// The name of a client's address. If it is pending, the handshake thread is woken when it is known.
    pub(crate) fn reverse_name(self: &Arc<Self>, address: IpAddr, now_ms: i64, thread: usize) -> ReverseName {
        let (tls, none) = (Arc::clone(self), ReverseName::Known(None));
        self.lookups.as_ref().map_or(none, |names| names.name_of(address, now_ms, move || tls.queues[thread].wake()))
    }

    /// Uncounts a handshake whose connection is passed on.
    pub(crate) fn leave_handshake(&self) {
        self.in_progress.fetch_sub(1, Relaxed);
    }

    /// Uncounts a handshake whose connection is closed.
    pub(crate) fn end_handshake(&self, shared: &Shared, port: ClientPort, address: IpAddr) {
        self.leave_handshake();
        shared.connections.abandon(port, address);
    }

    pub(crate) fn handshakes_in_progress(&self) -> usize {
        self.in_progress.load(Relaxed)
    }

    /// Handshakes that each thread may have in progress.
    pub(crate) fn handshakes_per_thread(&self) -> usize {
        let configured = self.config.handshakes_max.map_or(TLS_HANDSHAKES_MAX, |max| max as usize);
        configured.min(TLS_HANDSHAKES_MAX).div_ceil(self.queues.len())
    }

    pub(crate) fn detection_ms(&self) -> i64 {
        i64::from(self.config.detection_ms)
    }

    /// The certificate subject of the super user.
    pub(crate) fn super_user(&self) -> Option<&str> {
        self.config.super_user.as_deref()
    }

    /// Full days until the first certificate of the key store expires; negative when it has expired.
    pub(crate) fn days_left(&self, wall_ms: i64) -> i64 {
        self.current().days_left(wall_ms.div_euclid(1000)).unwrap_or_default()
    }

    pub(crate) fn wake(&self) {
        self.queues.iter().for_each(HandshakeQueue::wake);
    }
}

/// The public-key operations of one thread serve about a thousand handshakes per second.
fn handshake_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, 4)
}

/// Reads the stores of the client ports; `None` if no port uses TLS.
pub(crate) fn load(config: &Config) -> Result<Option<ClientStores>, TlsError> {
    let Some(tls) = &config.tls else { return Ok(None) };
    let stores = Reloader::new(tls_settings(&tls.keys, SettingsGroup::Client), ServerTls::build)?;
    stores.current().warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(Some(stores))
}

/// Reads the stores and returns what an operator should know about them, or all errors, without starting a server.
pub fn check_stores(config: &Config) -> Result<Vec<TlsWarning>, Vec<TlsError>> {
    let (mut warnings, mut errors) = (Vec::new(), Vec::new());
    if let Some(tls) = &config.tls {
        let settings = tls_settings(&tls.keys, SettingsGroup::Client);
        match Reloader::new(settings, ServerTls::build) {
            Ok(stores) => warnings.extend_from_slice(stores.current().warnings()),
            Err(error) => errors.extend(error.each()),
        }
    }
    if let Some(tls) = config.member.as_ref().and_then(|member| member.tls.as_ref()) {
        let settings = tls_settings(&tls.keys, SettingsGroup::Quorum);
        match Reloader::new(settings, PeerTls::build) {
            Ok(stores) => warnings.extend_from_slice(stores.current().server.warnings()),
            Err(error) => errors.extend(error.each()),
        }
    }
    if errors.is_empty() { Ok(warnings) } else { Err(errors) }
}

/// Reloads the stores when their content changes, and warns of certificates that expire, until the server stops.
pub(crate) fn watch_stores(shared: &Shared, tls: &ClientPortTls, mut stores: ClientStores, heartbeat: &Heartbeat) {
    let (mut warned, mut failure): (Option<Instant>, Option<String>) = (None, None);
    while !shared.is_stopping() {
        heartbeat.beat();
        if warned.is_none_or(|at| EXPIRY_WARN_INTERVAL <= at.elapsed()) {
            warned = Some(Instant::now());
            warn_of_expiry(shared, tls);
        }
        shared.sleep(STORE_CHECK_INTERVAL);
        let requests = tls.reloads.take();
        if tls.config.reloads || !requests.is_empty() {
            let polled = store_reloads::poll(&mut stores, &mut failure, |server| replace(tls, server));
            let outcome = polled.map_err(|failure| {
                let StoreFailure { reason, is_known } = failure;
                if !is_known {
                    tracing::error!("certificates of the client port not reloaded, the old ones stay: {reason}");
                }
                reason
            });
            if outcome == Ok(true) {
                warned = None;
            }
            // Fails when the caller has stopped waiting.
            requests.into_iter().for_each(|request| _ = request.send(outcome.clone()));
        }
    }
}

fn replace(tls: &ClientPortTls, server: &Arc<ServerTls>) {
    server.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let subject = server.certificates().first().map(|certificate| certificate.subject.clone());
    tracing::info!(subject, "certificates of the client port reloaded; open connections keep theirs");
    *tls.current.write() = Arc::clone(server);
}

fn warn_of_expiry(shared: &Shared, tls: &ClientPortTls) {
    let days = tls.days_left(shared.clock.now().wall_ms);
    if tls.current().is_early(shared.clock.now().wall_ms.div_euclid(1000)) {
        tracing::error!("the certificate of the client port is not valid yet; clients refuse it; check the clock");
    } else if days < 0 {
        tracing::error!("the certificate of the client port has expired; clients refuse it; renew it");
    } else if days <= EXPIRY_WARN_DAYS {
        tracing::warn!(days, "the certificate of the client port expires soon; renew it");
    }
}

/// The settings of the keys of one group.
pub fn tls_settings(keys: &SslKeys, group: SettingsGroup) -> TlsSettings {
    let keys = keys.clone();
    TlsSettings {
        group,
        key_store: store(keys.key_store),
        trust_store: store(keys.trust_store),
        protocol: keys.protocol,
        enabled_protocols: keys.enabled_protocols,
        cipher_suites: keys.cipher_suites,
        context_supplier_class: keys.context_supplier_class,
        hostname_verification: keys.hostname_verification,
        client_hostname_verification: keys.client_hostname_verification,
        allow_reverse_dns_lookup: keys.allow_reverse_dns_lookup,
        crl: keys.crl,
        ocsp: keys.ocsp,
        crl_files: keys.crl_files,
        client_auth: keys.client_auth,
        fips_mode: keys.fips_mode,
    }
}

fn store(keys: StoreKeys) -> StoreSettings {
    StoreSettings {
        location: keys.location,
        password: keys.password.map(|secret| StorePassword::new(secret.reveal())),
        password_path: keys.password_path,
        store_type: keys.store_type,
    }
}
