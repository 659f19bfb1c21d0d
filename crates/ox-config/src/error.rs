//! Configuration errors: the location, the cause, and what was expected.
//!
//! Texts that begin like Apache's are an interface: operators and scripts search for them.

use ox_proto::ensemble::EnsembleError;
use std::fmt;

/// Why the server refuses a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub place: Place,
    pub cause: Cause,
}

/// Where a setting was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file, with line and key as far as known.
    File {
        /// Path of the file as given.
        name: String,
        /// Natural line, from 1.
        line: Option<u32>,
        key: Option<String>,
    },
    /// A command-line argument that sets the named key.
    Argument(&'static str),
    /// A system property, by name.
    Property(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// Neither a file nor `port datadir [ticktime] [maxcnxns]`.
    #[error("Invalid number of arguments: {0}; expected a configuration file, or port datadir [ticktime] [maxcnxns]")]
    Arguments(usize),
    #[error("{0} file is missing")]
    FileMissing(String),
    #[error("{path} ({why})")]
    Unreadable {
        path: String,
        /// The operating system's error.
        why: String,
    },
    /// A `\u` escape without four hexadecimal digits.
    #[error("Malformed \\uxxxx encoding. Expected four hexadecimal digits after \\u")]
    MalformedEscape,
    /// The value does not parse.
    #[error("For input string: \"{text}\"; expected {expected}")]
    NotANumber { text: String, expected: String },
    #[error("Invalid option {text} for {key}. Choose 'true' or 'false.'")]
    NotTrueOrFalse { key: &'static str, text: String },
    /// A value out of range for its key.
    #[error("{text} is not a valid value for {key}; expected {expected}")]
    BadValue { key: &'static str, text: String, expected: String },
    #[error("Invalid electionAlg value. Only 3 is supported.")]
    ElectionAlg,
    /// Members in `zoo.cfg` although a dynamic configuration file is named.
    #[error("parameter: {0} must be in a separate dynamic config file")]
    BesideDynamicFile(String),
    /// A dynamic configuration file that contains a version.
    #[error("dynamic file shouldn't have version inside; the version is the suffix of the file name")]
    VersionInDynamicFile,
    /// A dynamic configuration file with lines other than members.
    #[error("Unrecognised parameter: {0}; expected server.N, group.N or weight.N")]
    NotDynamic(String),
    #[error("{0} is not set")]
    NotSet(&'static str),
    /// An empty path would mean the working directory, which is hardly intended.
    #[error("{0} is not set: its path is empty")]
    EmptyPath(&'static str),
    #[error("{0} is not set: 0 counts as unset; expected a positive number")]
    Zero(&'static str),
    #[error("{port}Address is set but {port} is not set")]
    AddressWithoutPort { port: &'static str },
    #[error("{0}: Name or service not known")]
    UnknownHost(String),
    #[error("port out of range:{0}; expected 0 to 65535")]
    PortOutOfRange(i32),
    /// SASL between servers is required but not enabled.
    #[error("{off} is disabled, so cannot enable {on}")]
    SaslOff {
        off: &'static str,
        /// The key that requires the other.
        on: &'static str,
    },
    #[error("No auth provider configured for the SSL authentication scheme '{0}'.")]
    NoSslAuthProvider(String),
    #[error("minSessionTimeout must not be larger than maxSessionTimeout ({min} and {max} ms)")]
    SessionTimeouts { min: i32, max: i32 },
    /// A metrics provider that does not ship with Apache.
    #[error("metrics provider class was not found: {0}; expected Apache's default, null or Prometheus provider")]
    MetricsProvider(String),
    /// An invalid `server.N`, `group.N` or `weight.N` line, or role.
    #[error(transparent)]
    Ensemble(#[from] EnsembleError),
    #[error("standaloneEnabled = false then number of participants should be >0")]
    NoParticipants,
    #[error("Observers w/o participants is an invalid configuration")]
    ObserversAlone,
    #[error("Observers w/o quorum is an invalid configuration; set standaloneEnabled=false to have them")]
    ObserversOfOne,
    #[error("myid file is missing: {0}")]
    MyIdMissing(String),
    #[error("serverid {text} is not a number (in {path})")]
    MyIdNotANumber {
        /// First line of the file.
        text: String,
        path: String,
    },
    /// The id in `myid` is not in the member list.
    #[error("My id {0} not in the peer list")]
    NotAMember(i64),
    /// `zoo.cfg` and `server.N` set different client addresses.
    #[error(
        "client address for this server (id = {id}) in static config file is {fixed} is different from client address \
         found in dynamic file: {dynamic}"
    )]
    ClientAddressesDiffer {
        id: i64,
        /// From `clientPort` in `zoo.cfg`.
        fixed: String,
        /// From the `server.N` line.
        dynamic: String,
    },
    #[error("zookeeper.enforce.auth.enabled is true zookeeper.enforce.auth.schemes must be  configured.")]
    EnforcedSchemesMissing,
    #[error("Authentication scheme {0} is not available.")]
    SchemeNotAvailable(String),
    /// An authentication class that does not ship with Apache.
    #[error(
        "{0} cannot be loaded: Java classes do not run here, and the server does not start with less protection than \
         configured; remove the line, or use one of Apache's classes"
    )]
    ForeignAuthProvider(String),
    /// A security feature that is configured but not implemented yet. The server never runs with less protection than
    /// configured.
    #[error("{feature} is not implemented yet, and the server does not start with less protection than configured")]
    ProtectionNotBuilt { feature: &'static str },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, cause } = self;
        // An unreadable file is both place and cause; name it once.
        let names_it = matches!(
            cause,
            Cause::FileMissing(path) | Cause::Unreadable { path, .. } if place.file() == Some(path)
        );
        if names_it { cause.fmt(f) } else { write!(f, "{place}{cause}") }
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    pub fn exit_code(&self) -> u8 {
        // Compat: Apache checks its own id after it has accepted the configuration (`recorded_configs_match_apache`).
        if matches!(self.cause, Cause::NotAMember(_)) { 1 } else { 2 }
    }
}

impl Place {
    pub fn line(&self) -> Option<u32> {
        match self {
            Place::File { line, .. } => *line,
            Place::Argument(_) | Place::Property(_) => None,
        }
    }

    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Place::File { name, .. } => Some(name),
            Place::Argument(_) | Place::Property(_) => None,
        }
    }

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

/// Ends with a colon and a blank; the message follows.
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
