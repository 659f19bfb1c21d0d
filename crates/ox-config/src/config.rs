//! The validated configuration of a server: typed values in named units.
//!
//! [`Config::load`] builds it; every default comes from a row of [`crate::keys`].

use std::net::IpAddr;
use std::path::PathBuf;

use crate::address::Address;
use crate::admin::{self, AdminConfig};
use crate::audit::{self, AuditConfig};
use crate::auth::{Auth, FourLetterWhitelist};
use crate::checks;
use crate::diagnostic::Diagnostic;
use crate::ensemble;
use crate::error::{Cause, ConfigErrors, ErrorCollector};
use crate::given::GivenSettings;
use crate::limits::{ConnectionThrottle, Limits, RequestThrottle, Supervision};
use crate::lint;
use crate::log::{self, LogConfig};
use crate::member_config::MemberConfig;
use crate::metrics::{self, MetricsCompatibility, PrometheusConfig};
use crate::ports::{self, OpenPorts};
use crate::published::PublishedSettings;
use crate::quorum_sasl;
use crate::quorum_tls;
use crate::sasl::{self, SaslConfig};
use crate::settings::Settings;
use crate::start_args::{Environment, StartArgs};
use crate::storage::{Containers, Recovery, Storage};
use crate::system_properties::SystemProperties;
use crate::tls::{self, TlsConfig};
use crate::unsupported_protection;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Directory of snapshots, without `version-2`.
    pub data_dir: PathBuf,
    /// Directory of transaction logs, without `version-2`.
    pub data_log_dir: PathBuf,
    /// Client port; 0 picks a free port, `None` opens none.
    pub client_port: Option<u16>,
    /// Address to bind the client port to; `None` means all interfaces.
    pub client_address: Option<IpAddr>,
    /// Listen backlog of the client port; negative uses the platform's default.
    pub listen_backlog: i32,
    /// TCP keep-alive on client sockets.
    pub client_tcp_keep_alive: bool,
    pub tick_ms: u32,
    /// Lower bound for negotiated session timeouts; never above the maximum.
    pub min_session_timeout_ms: i32,
    /// Upper bound for negotiated session timeouts.
    pub max_session_timeout_ms: i32,
    /// Close a connection that has no session after this time.
    pub sessionless_timeout_ms: u32,
    /// Whether clients may run reconfig.
    pub reconfig_enabled: bool,
    /// Whether TTL nodes are enabled.
    pub extended_types: bool,
    /// Decode TTLs as version 3.5.3 encoded them.
    pub emulate_353_ttl: bool,
    /// Refuse writes that exceed a hard quota.
    pub enforce_quota: bool,
    pub storage: Storage,
    pub recovery: Recovery,
    pub autopurge: Autopurge,
    pub containers: Containers,
    pub limits: Limits,
    pub supervision: Supervision,
    pub request_throttle: RequestThrottle,
    pub connection_throttle: ConnectionThrottle,
    pub auth: Auth,
    pub audit: AuditConfig,
    pub log: LogConfig,
    pub sasl: SaslConfig,
    pub four_letter_whitelist: FourLetterWhitelist,
    /// Set unless the AdminServer is disabled.
    pub admin: Option<AdminConfig>,
    /// Set if the metrics provider is Prometheus's.
    pub prometheus: Option<PrometheusConfig>,
    /// The release whose Prometheus page is imitated, on the port of the AdminServer too.
    pub metrics_compatibility: MetricsCompatibility,
    /// Whether Prometheus's page has metrics of single nodes.
    pub metrics_paths: bool,
    pub published: PublishedSettings,
    /// For comparing with a later reading of the configuration.
    pub given: GivenSettings,
    /// Set if a port for clients uses TLS.
    pub tls: Option<TlsConfig>,
    /// Set if the server is a member of an ensemble.
    pub member: Option<MemberConfig>,
}

/// Automatic purging of old snapshots and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autopurge {
    /// Number of snapshots to keep, at least 3.
    pub snap_retain_count: u32,
    /// Time between purges; `None` disables purging.
    pub interval_ms: Option<u64>,
}

impl Config {
    /// Reads and validates everything, and finds all errors. `diagnostics` is filled even if the configuration is
    /// refused.
    pub fn load(
        start: &StartArgs,
        system: &SystemProperties,
        environment: &Environment<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Config, ConfigErrors> {
        let settings = Settings::read(start, system, environment, diagnostics)?;
        lint::lint(&settings, diagnostics);
        let mut errors = ErrorCollector::default();
        checks::check_lines(&settings, &mut errors);
        let (fixed, secure) = checks::check_together(&settings, environment, diagnostics, &mut errors);
        let (client, mut member) = ensemble::read(&settings, fixed, environment, diagnostics, &mut errors);
        checks::check_server(&settings, &mut errors);
        tls::check(&settings, client.is_some(), diagnostics, &mut errors);
        if let Some(member) = &mut member {
            quorum_tls::check(&settings, diagnostics, &mut errors);
            member.sasl = errors.check(quorum_sasl::read(&settings, environment, diagnostics)).flatten();
        }
        unsupported_protection::check(&settings, &mut errors);
        audit::check(&settings, &mut errors);
        log::check(&settings, &mut errors);
        let sasl = sasl::read(&settings, environment, diagnostics, &mut errors);
        let admin = admin::read(&settings, start, environment, diagnostics, &mut errors);
        let prometheus = metrics::read(&settings, environment, &mut errors);
        if let Some(address) = client.as_ref().filter(|address| address.ip.is_none()) {
            errors.add(ensemble::members_place(&settings).error(Cause::UnknownHost(address.host())));
        }
        let open = OpenPorts {
            client: client.as_ref(),
            secure: secure.as_ref(),
            member: member.as_ref(),
            admin: admin.as_ref(),
            prometheus: prometheus.as_ref(),
        };
        let is_without_admin = ports::check(&settings, &open, environment, diagnostics, &mut errors);
        errors.finish()?;
        let admin = admin.filter(|_| !is_without_admin);
        let tls = TlsConfig::from_checked(&settings, secure.as_ref());
        Ok(Config {
            member,
            tls,
            admin,
            prometheus,
            ..Config::from_checked(&settings, client.as_ref(), sasl, diagnostics)
        })
    }

    /// A warning if no client can connect.
    pub fn client_port_warning(&self) -> Option<&'static str> {
        let is_open = self.client_port.is_some() || self.tls.as_ref().is_some_and(|tls| tls.secure_port.is_some());
        (!is_open).then_some(match self.member {
            None => "no client port: clients cannot connect; set clientPort",
            Some(_) => {
                "no client port: clients cannot connect; set clientPort, or add ;PORT to the server.N line of this server"
            }
        })
    }

    /// The configuration of a server started without arguments: standalone on 127.0.0.1:2181, data in
    /// `./oxkeeper-data`.
    pub fn default_standalone() -> Config {
        let environment = Environment { read: &|_| Err(std::io::ErrorKind::NotFound.into()), resolve: &|_| None };
        Config::load(&StartArgs::Nothing, &SystemProperties::default(), &environment, &mut Vec::new())
            .expect("the defaults of the table are valid")
    }

    fn from_checked(
        settings: &Settings,
        client: Option<&Address>,
        sasl: SaslConfig,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Config {
        let data_dir = PathBuf::from(settings.text("dataDir").unwrap_or_default());
        let (min_session_timeout_ms, max_session_timeout_ms) = checks::session_timeouts_ms(settings);
        Config {
            data_log_dir: settings.text("dataLogDir").map_or_else(|| data_dir.clone(), PathBuf::from),
            data_dir,
            client_port: client.map(|address| address.port),
            client_address: client.and_then(Address::bind),
            listen_backlog: settings.int("clientPortListenBacklog"),
            client_tcp_keep_alive: settings.flag("clientTcpKeepAlive"),
            tick_ms: not_negative(settings.int("tickTime")),
            min_session_timeout_ms,
            max_session_timeout_ms,
            sessionless_timeout_ms: not_negative(settings.int("nio.sessionlessCnxnTimeout")),
            reconfig_enabled: settings.flag("reconfigEnabled"),
            extended_types: settings.flag("extendedTypesEnabled"),
            emulate_353_ttl: settings.flag("emulate353TTLNodes"),
            enforce_quota: settings.flag("enforceQuota"),
            storage: Storage::from_checked(settings, diagnostics),
            recovery: Recovery::from_checked(settings, diagnostics),
            autopurge: Autopurge::from_checked(settings, diagnostics),
            containers: Containers::from_checked(settings),
            limits: Limits::from_checked(settings, diagnostics),
            supervision: Supervision::from_checked(settings),
            request_throttle: RequestThrottle::from_checked(settings),
            connection_throttle: ConnectionThrottle::from_checked(settings, diagnostics),
            auth: Auth::from_checked(settings, diagnostics),
            audit: AuditConfig::from_checked(settings),
            log: LogConfig::from_checked(settings, diagnostics),
            sasl,
            four_letter_whitelist: FourLetterWhitelist::from_checked(settings),
            admin: None,
            prometheus: None,
            metrics_compatibility: metrics::compatibility(settings),
            metrics_paths: settings.flag("oxkeeper.metrics.paths"),
            published: PublishedSettings::of(settings),
            given: GivenSettings::of(settings),
            tls: None,
            member: None,
        }
    }
}

const MS_PER_HOUR: u64 = 3_600_000;

impl Autopurge {
    fn from_checked(settings: &Settings, diagnostics: &mut Vec<Diagnostic>) -> Autopurge {
        let key = "autopurge.snapRetainCount";
        let mut keep = settings.int(key);
        if keep < 3 {
            let text = format!("Invalid autopurge.snapRetainCount: {keep}. Defaulting to 3");
            diagnostics.push(Diagnostic::warn(settings.place_of(key), text));
            keep = 3;
        }
        let hours = u64::from(not_negative(settings.int("autopurge.purgeInterval")));
        let interval_ms = (hours != 0).then_some(hours * MS_PER_HOUR);
        Autopurge { snap_retain_count: not_negative(keep), interval_ms }
    }
}

pub(crate) fn not_negative(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

pub(crate) fn long_not_negative(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
