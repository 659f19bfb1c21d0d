//! Parses and validates `zoo.cfg`, system properties and arguments into a [`Config`].
//!
//! [`SECTIONS`] is the single table of settings; parser, effective values, warnings and the page `docs/reference/config.md` are
//! derived from it. A configuration is refused exactly where Apache ZooKeeper refuses it, and also where it requires
//! something whose silent absence would do harm: protection, or an ensemble. `testdata/validation.txt` records Apache's
//! behaviour.
//!
//! ```text
//!  StartArgs (file, arguments, none)     SystemProperties (-D, SERVER_JVMFLAGS)
//!          \                              /
//!           Settings::read: all given settings, by precedence
//!                     |
//!     lint -> check lines -> check together -> ensemble -> check server -> unsupported protection
//!       |                                                                    |
//!   Vec<Diagnostic>                                      Config, or ConfigErrors (places, causes)
//! ```
//!
//! Pure: files and host names are read through the closures of [`Environment`]. Read on in `settings.rs` for precedence
//! and in `checks.rs` for the order of checks.

mod address;
mod admin;
mod audit;
mod auth;
mod checks;
mod config;
mod diagnostic;
mod docs;
mod ensemble;
mod error;
mod explain;
mod given;
mod java_values;
mod key;
mod keys;
mod limits;
mod lint;
mod listen;
mod log;
mod member_config;
mod metrics;
mod ports;
mod providers;
mod published;
mod quorum_sasl;
mod quorum_tls;
mod sasl;
mod server_lines;
mod settings;
mod spelling;
mod start_args;
mod storage;
mod system_properties;
mod tls;
mod unsupported_protection;
mod weak_settings;

pub use admin::{AdminConfig, AdminTls, AllowedHosts};
pub use audit::{AuditConfig, AuditFormat};
pub use auth::{Auth, DigestHashSetting, FourLetterWhitelist, Secret};
pub use config::{Autopurge, Config};
pub use diagnostic::{Diagnostic, Level};
pub use docs::config_page;
pub use error::{Cause, ConfigError, ConfigErrors, DataDirState, Place};
pub use explain::{Explained, ExplainedSetting, SettingEffect, explain};
pub use given::{GivenSettings, SettingChanges};
pub use key::{Class, Key, OnBadText, Section, Source, Status, Value, ValueReader};
pub use keys::{SECTIONS, find, keys};
pub use limits::{ConnectionThrottle, Limits, RequestThrottle, SessionWeights, Supervision};
pub use lint::FOUR_LETTER_COMMANDS;
pub use listen::ListenAddress;
pub use log::{LogConfig, LogFileConfig, LogLevel, check_log_levels};
pub use member_config::{MemberConfig, MemberFiles};
pub use metrics::{MetricsCompatibility, PrometheusConfig};
pub use published::PublishedSettings;
pub use quorum_sasl::QuorumSaslConfig;
pub use quorum_tls::QuorumTlsConfig;
pub use sasl::SaslConfig;
pub use settings::{Effective, Settings};
pub use start_args::{Environment, StartArgs};
pub use storage::{CompressionSetting, Containers, OnDamageSetting, Recovery, Storage, TornTailSetting};
pub use system_properties::SystemProperties;
pub use tls::{SslKeys, StoreKeys, TlsConfig};
pub use weak_settings::{WeakSetting, weak_settings};
