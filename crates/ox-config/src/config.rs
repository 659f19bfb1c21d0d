//! The checked configuration of a single server: typed, in named units, nothing left to interpret.
//!
//! [`Config::load`] is the way from what was given to this; every number in it comes from a row of [`crate::keys`].

use std::net::IpAddr;
use std::path::PathBuf;

use crate::address::Address;
use crate::auth::{Auth, FourLetterWords};
use crate::checks;
use crate::diagnostic::Notice;
use crate::ensemble;
use crate::error::{Cause, ConfigError};
use crate::limits::{ConnectionThrottle, Limits, RequestThrottle, Supervision};
use crate::lint;
use crate::member_config::MemberConfig;
use crate::settings::Settings;
use crate::start_args::{Outside, Start};
use crate::storage::{Containers, Recovery, Storage};
use crate::system_properties::SystemProperties;
use crate::unsupported_protection;

/// Settings of a single server.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Directory of snapshots, without `version-2`.
    pub data_dir: PathBuf,
    /// Directory of transaction logs, without `version-2`.
    pub data_log_dir: PathBuf,
    /// Client port; 0 is any free one, `None` opens none.
    pub client_port: Option<u16>,
    /// Address to bind the client port to; `None` is every interface.
    pub client_address: Option<IpAddr>,
    /// Listen backlog of the client port; negative is the platform's.
    pub listen_backlog: i32,
    /// Keep-alive on client sockets.
    pub client_tcp_keep_alive: bool,
    /// Length of a tick.
    pub tick_ms: u32,
    /// Shortest session timeout a client can get; never above the longest.
    pub min_session_timeout_ms: i32,
    /// Longest session timeout a client can get.
    pub max_session_timeout_ms: i32,
    /// Time after which a connection without a session is closed.
    pub sessionless_timeout_ms: u32,
    /// Whether clients may change the members.
    pub reconfig_enabled: bool,
    /// Nodes with a time to live.
    pub extended_types: bool,
    /// Read the times to live of 3.5.3.
    pub emulate_353_ttl: bool,
    /// Refuse writes beyond a hard quota.
    pub enforce_quota: bool,
    /// Files.
    pub storage: Storage,
    /// Damaged files.
    pub recovery: Recovery,
    /// Purging of old files.
    pub autopurge: Autopurge,
    /// Containers and nodes with a time to live.
    pub containers: Containers,
    /// Sizes and counts.
    pub limits: Limits,
    /// Threads that do not get on.
    pub supervision: Supervision,
    /// Waiting room for requests.
    pub request_throttle: RequestThrottle,
    /// Tokens for new sessions.
    pub connection_throttle: ConnectionThrottle,
    /// Who may do what.
    pub auth: Auth,
    /// Four-letter words that are answered.
    pub four_letter_words: FourLetterWords,
    /// The ensemble that the server is a member of.
    pub member: Option<MemberConfig>,
}

/// Purging of old snapshots and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autopurge {
    /// Snapshots to keep, at least 3.
    pub snap_retain_count: u32,
    /// Time between purges; `None` is never.
    pub interval_ms: Option<u64>,
}

impl Config {
    /// Reads and checks everything. `notices` gets the remarks, also when the configuration is refused.
    pub fn load(
        start: &Start,
        system: &SystemProperties,
        outside: &Outside<'_>,
        notices: &mut Vec<Notice>,
    ) -> Result<Config, ConfigError> {
        let settings = Settings::read(start, system, outside, notices)?;
        lint::lint(&settings, notices);
        checks::check_lines(&settings)?;
        let fixed = checks::check_together(&settings, outside, notices)?;
        let (client, member) = ensemble::read(&settings, fixed, outside, notices)?;
        checks::check_server(&settings)?;
        unsupported_protection::check(&settings)?;
        if let Some(address) = client.as_ref().filter(|address| address.ip.is_none()) {
            return Err(ensemble::members_place(&settings).error(Cause::UnknownHost(address.host())));
        }
        Ok(Config { member, ..Config::from_checked(&settings, client.as_ref(), notices) })
    }

    /// What a server runs with that was given nothing: standalone on 127.0.0.1:2181, data in `./oxkeeper-data`.
    pub fn default_standalone() -> Config {
        let outside = Outside { read: &|_| Err(std::io::ErrorKind::NotFound.into()), resolve: &|_| None };
        Config::load(&Start::Nothing, &SystemProperties::default(), &outside, &mut Vec::new())
            .expect("the defaults of the table are valid")
    }

    fn from_checked(settings: &Settings, client: Option<&Address>, notices: &mut Vec<Notice>) -> Config {
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
            storage: Storage::from_checked(settings, notices),
            recovery: Recovery::from_checked(settings),
            autopurge: Autopurge::from_checked(settings, notices),
            containers: Containers::from_checked(settings),
            limits: Limits::from_checked(settings, notices),
            supervision: Supervision::from_checked(settings),
            request_throttle: RequestThrottle::from_checked(settings),
            connection_throttle: ConnectionThrottle::from_checked(settings, notices),
            auth: Auth::from_checked(settings, notices),
            four_letter_words: FourLetterWords::from_checked(settings),
            member: None,
        }
    }
}

const MS_PER_HOUR: u64 = 3_600_000;

impl Autopurge {
    fn from_checked(settings: &Settings, notices: &mut Vec<Notice>) -> Autopurge {
        let key = "autopurge.snapRetainCount";
        let mut keep = settings.int(key);
        if keep < 3 {
            let text = format!("Invalid autopurge.snapRetainCount: {keep}. Defaulting to 3");
            notices.push(Notice::warn(settings.place_of(key), text));
            keep = 3;
        }
        let hours = u64::from(not_negative(settings.int("autopurge.purgeInterval")));
        let interval_ms = (hours != 0).then_some(hours * MS_PER_HOUR);
        Autopurge { snap_retain_count: not_negative(keep), interval_ms }
    }
}

/// Zero for a negative number.
pub(crate) fn not_negative(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Zero for a negative number.
pub(crate) fn long_not_negative(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
