//! Why a configuration is refused: where, and what was expected there.
//!
//! Texts that begin like Apache's are an interface: operators and scripts look for them.

use ox_proto::ensemble::EnsembleError;
use std::fmt;

/// A configuration that the server does not start with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where it is wrong.
    pub place: Place,
    /// What is wrong.
    pub cause: Cause,
}

/// Where a setting stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file: its name, and line and key as far as they are known.
    File {
        /// Name of the file as given.
        name: String,
        /// Natural line, from 1.
        line: Option<u32>,
        /// Key as written.
        key: Option<String>,
    },
    /// On the command line, in place of the named key.
    Argument(&'static str),
    /// Among the system properties.
    Property(String),
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// Neither a file nor `port datadir [ticktime] [maxcnxns]`.
    #[error("Invalid number of arguments: {0}; expected a configuration file, or port datadir [ticktime] [maxcnxns]")]
    Arguments(usize),
    /// The configuration file does not exist.
    #[error("{0} file is missing")]
    FileMissing(String),
    /// A file cannot be read.
    #[error("{path} ({why})")]
    Unreadable {
        /// Its name as given.
        path: String,
        /// What the system says.
        why: String,
    },
    /// `\u` without four hexadecimal digits.
    #[error("Malformed \\uxxxx encoding. Expected four hexadecimal digits after \\u")]
    MalformedEscape,
    /// Not of the form its reader expects.
    #[error("For input string: \"{text}\"; expected {expected}")]
    NotANumber {
        /// The text.
        text: String,
        /// What it should have been.
        expected: String,
    },
    /// Neither `true` nor `false`.
    #[error("Invalid option {text} for {key}. Choose 'true' or 'false.'")]
    NotTrueOrFalse {
        /// The key.
        key: &'static str,
        /// The text.
        text: String,
    },
    /// A value that makes no sense for its key.
    #[error("{text} is not a valid value for {key}; expected {expected}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The text.
        text: String,
        /// What it should have been.
        expected: String,
    },
    /// `electionAlg` is not 3.
    #[error("Invalid electionAlg value. Only 3 is supported.")]
    ElectionAlg,
    /// Members in `zoo.cfg` beside a dynamic configuration file.
    #[error("parameter: {0} must be in a separate dynamic config file")]
    BesideDynamicFile(String),
    /// A dynamic configuration file with a version inside.
    #[error("dynamic file shouldn't have version inside; it stands in the file's name")]
    VersionInDynamicFile,
    /// A dynamic configuration file with something else than members.
    #[error("Unrecognised parameter: {0}; expected server.N, group.N or weight.N")]
    NotDynamic(String),
    /// A required key is missing.
    #[error("{0} is not set")]
    NotSet(&'static str),
    /// A directory without a name. The working directory would be meant, and hardly is.
    #[error("{0} is not set: its path is empty")]
    EmptyPath(&'static str),
    /// A number that must not be zero is.
    #[error("{0} is not set: 0 counts as unset; expected a positive number")]
    Zero(&'static str),
    /// An address without its port.
    #[error("{port}Address is set but {port} is not set")]
    AddressWithoutPort {
        /// Name of the port's key.
        port: &'static str,
    },
    /// A host name that does not resolve.
    #[error("{0}: Name or service not known")]
    UnknownHost(String),
    /// Not a port number.
    #[error("port out of range:{0}; expected 0 to 65535")]
    PortOutOfRange(i32),
    /// SASL between servers is required but not on.
    #[error("{off} is disabled, so cannot enable {on}")]
    SaslOff {
        /// The key that is off.
        off: &'static str,
        /// The key that needs it.
        on: &'static str,
    },
    /// A certificate scheme without a provider.
    #[error("No auth provider configured for the SSL authentication scheme '{0}'.")]
    NoSslAuthProvider(String),
    /// The shortest session timeout is longer than the longest.
    #[error("minSessionTimeout must not be larger than maxSessionTimeout ({min} and {max} ms)")]
    SessionTimeouts {
        /// Shortest.
        min: i32,
        /// Longest.
        max: i32,
    },
    /// A metrics provider that is not one of Apache's.
    #[error("metrics provider class was not found: {0}; expected Apache's default, null or Prometheus provider")]
    MetricsProvider(String),
    /// A `server.N`, `group.N` or `weight.N` line of the wrong form, or a role.
    #[error(transparent)]
    Ensemble(#[from] EnsembleError),
    /// An ensemble without members.
    #[error("standaloneEnabled = false then number of participants should be >0")]
    NoParticipants,
    /// Observers alone.
    #[error("Observers w/o participants is an invalid configuration")]
    ObserversAlone,
    /// Observers of a standalone server.
    #[error("Observers w/o quorum is an invalid configuration; set standaloneEnabled=false to have them")]
    ObserversOfOne,
    /// A member needs `myid`.
    #[error("myid file is missing: {0}")]
    MyIdMissing(String),
    /// `myid` holds something else.
    #[error("serverid {text} is not a number (in {path})")]
    MyIdNotANumber {
        /// First line of the file.
        text: String,
        /// The file.
        path: String,
    },
    /// `myid` names no member.
    #[error("My id {0} not in the peer list")]
    NotAMember(i64),
    /// Two client addresses that contradict each other.
    #[error(
        "client address for this server (id = {id}) in static config file is {fixed} is different from client address \
         found in dynamic file: {dynamic}"
    )]
    ClientAddressesDiffer {
        /// This server.
        id: i64,
        /// From `clientPort`.
        fixed: String,
        /// From `server.N`.
        dynamic: String,
    },
    /// Enforced authentication without schemes.
    #[error("zookeeper.enforce.auth.enabled is true zookeeper.enforce.auth.schemes must be  configured.")]
    EnforcedSchemesMissing,
    /// Enforced authentication with a scheme there is not.
    #[error("Authentication scheme {0} is not available.")]
    SchemeNotAvailable(String),
    /// An authentication class that is not one of Apache's.
    #[error(
        "{0} cannot be loaded: Java classes do not run here, and the server does not start with less protection than \
         asked for; remove the line, or name one of Apache's classes"
    )]
    ForeignAuthProvider(String),
    /// The setting asks for protection that there is not yet, and the server never runs with less than asked for.
    #[error("{feature} is not built yet, and the server does not start with less protection than asked for")]
    ProtectionNotBuilt {
        /// What is missing.
        feature: &'static str,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, cause } = self;
        // A file that cannot be read is the place and the reason.
        let names_it = matches!(
            cause,
            Cause::FileMissing(path) | Cause::Unreadable { path, .. } if place.file() == Some(path)
        );
        if names_it { cause.fmt(f) } else { write!(f, "{place}{cause}") }
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// Exit code of the process.
    pub fn exit_code(&self) -> u8 {
        // Compat: Apache looks for its own id after it has accepted the configuration (`recorded_matrix`).
        if matches!(self.cause, Cause::NotAMember(_)) { 1 } else { 2 }
    }
}

impl Place {
    /// Line of the file, where there is one.
    pub fn line(&self) -> Option<u32> {
        match self {
            Place::File { line, .. } => *line,
            Place::Argument(_) | Place::Property(_) => None,
        }
    }

    /// Name of the file, where it is one.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Place::File { name, .. } => Some(name),
            Place::Argument(_) | Place::Property(_) => None,
        }
    }

    /// Name of the setting, where there is one.
    pub(crate) fn setting(&self) -> Option<&str> {
        match self {
            Place::File { key, .. } => key.as_deref(),
            Place::Argument(key) => Some(key),
            Place::Property(name) => Some(name),
        }
    }

    pub(crate) fn error(&self, cause: Cause) -> ConfigError {
        ConfigError { place: self.clone(), cause }
    }
}

/// Ends with the colon and blank that a message follows.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { name, line, key } => {
                f.write_str(name)?;
                if let Some(line) = line {
                    write!(f, ":{line}")?;
                }
                if let Some(key) = key {
                    write!(f, ": {key}")?;
                }
            }
            Place::Argument(key) => write!(f, "command line: {key}")?,
            Place::Property(name) => write!(f, "-D{name}")?,
        }
        f.write_str(": ")
    }
}
