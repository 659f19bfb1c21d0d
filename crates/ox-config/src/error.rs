//! Configuration errors: the location, the cause, and what was expected.
//!
//! Each text says what is wrong, and what is expected or what to do.

use ox_proto::ensemble::EnsembleError;
use std::{fmt, io};

/// Why the server refuses a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub place: Place,
    pub cause: Cause,
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The first error in the order of Apache's checks.
    first: Box<ConfigError>,
    /// All errors by file and line; those without a line are last. Never empty.
    all: Vec<ConfigError>,
}

/// Collects the errors of a configuration, so that an operator can correct all of them before the next start.
#[derive(Default)]
pub(crate) struct ErrorCollector(Vec<ConfigError>);

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
    #[error("{0} arguments; expected a configuration file, or port datadir [ticktime] [maxcnxns]")]
    Arguments(usize),
    /// Several arguments, of which the first is not a port.
    #[error("\"{0}\" is not a port; expected a configuration file alone, or port datadir [ticktime] [maxcnxns]")]
    FirstNotAPort(String),
    #[error("{0} does not exist; give the path of a configuration file")]
    FileMissing(String),
    #[error("cannot read {path}: {why}")]
    Unreadable {
        path: String,
        /// The operating system's error, and what to do.
        why: String,
    },
    /// A `\u` escape without four hexadecimal digits.
    #[error("malformed escape: four hexadecimal digits must follow \\u; write a backslash as \\\\")]
    MalformedEscape,
    /// The value does not parse.
    #[error("\"{text}\" is not {expected}{}", comment_hint(text))]
    NotANumber { text: String, expected: String },
    #[error("{text} is not a valid value for {key}; expected true or false{}", comment_hint(text))]
    NotTrueOrFalse { key: &'static str, text: String },
    /// A value out of range for its key.
    #[error("{text} is not a valid value for {key}; expected {expected}{}", comment_hint(text))]
    BadValue { key: &'static str, text: String, expected: String },
    /// Levels of the log that cannot be used; names the part that is wrong.
    #[error("{0}")]
    LogLevels(String),
    #[error("electionAlg must be 3, the only election algorithm since ZooKeeper 3.5; remove the line")]
    ElectionAlg,
    /// Members in `zoo.cfg` although a dynamic configuration file is named.
    #[error("{0} must be in the file that dynamicConfigFile names; move the line there")]
    BesideDynamicFile(String),
    /// A dynamic configuration file that contains a version.
    #[error(
        "a dynamic configuration file must not contain a version; remove the line: the version is the suffix of the file name"
    )]
    VersionInDynamicFile,
    /// A dynamic configuration file with lines other than members.
    #[error("Unrecognised parameter: {0}; expected server.N, group.N or weight.N")]
    NotDynamic(String),
    /// The dynamic configuration file is empty.
    #[error("{0} has no server.N line: it is empty or incomplete; restore it, or copy it from another member")]
    NoMembersInDynamicFile(String),
    #[error("{key} is not set; add a line such as {key}={}", example(.0), key = .0)]
    NotSet(&'static str),
    /// An empty path would mean the working directory, which is hardly intended.
    #[error("{0} is not set: its path is empty")]
    EmptyPath(&'static str),
    #[error("{0} is not set: 0 counts as unset; expected a positive number")]
    Zero(&'static str),
    #[error("{port}Address is set but {port} is not; add a line {port}=...")]
    AddressWithoutPort { port: &'static str },
    #[error("unknown host {0}: correct the name, or add it to the DNS or to /etc/hosts")]
    UnknownHost(String),
    /// Two settings of one server open the same port.
    #[error("{other} opens port {port} too, so that one of them cannot be opened; give each a port of its own")]
    PortUsedTwice { port: u16, other: String },
    #[error("port {0} is out of range; expected 0 to 65535")]
    PortOutOfRange(i32),
    /// SASL between servers is required but not enabled.
    #[error("{on} requires {off}; set {off}=true")]
    SaslOff {
        off: &'static str,
        /// The key that requires the other.
        on: &'static str,
    },
    #[error("there is no authProvider line for the scheme {0}; add one, or correct the scheme")]
    NoSslAuthProvider(String),
    /// A port that uses TLS, without a store that it needs.
    #[error("{port} needs {key}, which is not set; name a PEM, PKCS12 or JKS file")]
    StoreNotSet { port: &'static str, key: &'static str },
    #[error("minSessionTimeout must not be larger than maxSessionTimeout ({min} and {max} ms)")]
    SessionTimeouts { min: i32, max: i32 },
    #[error("the Prometheus provider has no port; set metricsProvider.httpPort or metricsProvider.httpsPort")]
    NoMetricsPort,
    /// A metrics provider that does not ship with Apache.
    #[error("{0} is not a metrics provider of Apache; expected its default, null or Prometheus provider")]
    MetricsProvider(String),
    /// An invalid `server.N`, `group.N` or `weight.N` line, or role.
    #[error("{}", in_plain_words(.0))]
    Ensemble(#[from] EnsembleError),
    #[error("standaloneEnabled=false requires an ensemble; add server.N lines, at least one of them a participant")]
    NoParticipants,
    #[error("all servers are observers; add server.N lines of participants")]
    ObserversAlone,
    #[error(
        "observers need an ensemble, but there is one participant only; set standaloneEnabled=false, or add participants"
    )]
    ObserversOfOne,
    #[error("myid is missing: write {} into {path}{}", one_of(.ids), .data_dir.cause())]
    MyIdMissing {
        path: String,
        /// Why there is none.
        data_dir: Box<DataDirState>,
        /// Ids of the configured servers.
        ids: Vec<i64>,
    },
    #[error("{path} contains \"{text}\", which is not a number; write the N of this server's server.N line into it")]
    MyIdNotANumber {
        /// First line of the file.
        text: String,
        path: String,
    },
    /// A removed member that is started again must not take the id of another member.
    #[error("{}", not_a_member(.path, *.id))]
    NotAMember { path: String, id: i64 },
    /// `zoo.cfg` and `server.N` set different client addresses.
    #[error(
        "the client address of server {id} is {fixed} by clientPort, but {dynamic} in the line server.{id}; make them \
         equal, or remove clientPort"
    )]
    ClientAddressesDiffer {
        id: i64,
        /// From `clientPort` in `zoo.cfg`.
        fixed: String,
        /// From the `server.N` line.
        dynamic: String,
    },
    #[error("enforce.auth.enabled is true, but enforce.auth.schemes is not set; set it to the required schemes")]
    EnforcedSchemesMissing,
    #[error(
        "the authentication scheme {0} is not available; add its authProvider line, or remove it from enforce.auth.schemes"
    )]
    SchemeNotAvailable(String),
    #[error("{0} cannot be loaded: Java classes do not run here; remove the line")]
    AuditLoggerClass(String),
    /// The section was asked for by name, or the file cannot be read.
    #[error("No JAAS configuration section named '{section}' was found in {file}")]
    JaasSectionMissing {
        section: String,
        /// The name of the file in quotes, and why it cannot be used.
        file: String,
    },
    /// SASL between servers is on, and there is no section for it.
    #[error(
        "SASL-authentication failed because the specified JAAS configuration section '{section}' could not be found; \
         add it to the file that -D{property} names"
    )]
    QuorumJaasSectionMissing { section: String, property: &'static str },
    /// What is wrong with a JAAS file; names the file and the line.
    #[error("{0}")]
    Jaas(String),
    /// Rules that cannot be read.
    #[error("{0}; expected RULE:[n:format](regex)s/from/to/ or DEFAULT")]
    AuthToLocal(String),
    #[error("DIGEST-MD5 is not allowed in FIPS mode; set fips-mode=false, or use Kerberos")]
    DigestMd5InFipsMode,
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

fn not_a_member(path: &str, id: i64) -> String {
    if id < 1 {
        return format!(
            "{path} contains {id}, which is no id of a server; write the N of this server's server.N line into it"
        );
    }
    format!(
        "server {id} is not a member: it was removed by reconfig, or its line server.{id} is missing; correct {path} only \
         if {id} is not the id of this server"
    )
}

/// Whether `dataDir` can contain `myid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataDirState {
    Exists,
    Missing(String),
    NotADirectory(String),
}

impl DataDirState {
    fn cause(&self) -> String {
        match self {
            Self::Exists => String::new(),
            Self::Missing(dir) => format!("; dataDir {dir} does not exist: correct it, or create it first"),
            Self::NotADirectory(dir) => format!("; dataDir {dir} is not a directory: correct it first"),
        }
    }
}

/// Why a file cannot be read, and what to do.
pub(crate) fn unreadable(path: String, error: &io::Error) -> Cause {
    let known = [
        (
            io::ErrorKind::PermissionDenied,
            "permission denied; let the user of the server read it, or start the server as another user",
        ),
        (io::ErrorKind::NotFound, "it does not exist"),
        (io::ErrorKind::IsADirectory, "it is a directory; expected a file"),
    ];
    let known = known.iter().find(|(kind, _)| *kind == error.kind());
    Cause::Unreadable { path, why: known.map_or_else(|| error.to_string(), |(_, text)| (*text).to_owned()) }
}

/// A usual value of a setting that is required.
fn example(key: &str) -> &'static str {
    match key {
        "initLimit" => "10",
        "syncLimit" => "5",
        _ => "/var/lib/zookeeper",
    }
}

/// The error in a member line without Java's phrases.
#[expect(clippy::wildcard_enum_match_arm, reason = "the texts of the others are plain")]
fn in_plain_words(error: &EnsembleError) -> String {
    match error {
        EnsembleError::NotANumber { text, expected } => format!("\"{text}\" is not {expected}"),
        EnsembleError::Form(text) => {
            format!("\"{text}\" is not a member; expected server.N=host:2888:3888[:role][;clientPort]")
        }
        other => other.to_string(),
    }
}

/// What to add to the text about a value that seems to end with a comment: Java's properties have none there.
pub(crate) fn comment_hint(value: &str) -> &'static str {
    match value.split_whitespace().skip(1).any(|word| word.starts_with('#')) {
        true => "; a comment cannot follow a value: write it on a line of its own",
        false => "",
    }
}

/// `1, 2 or 3`.
fn one_of(ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    match ids.as_slice() {
        [some @ .., last] if !some.is_empty() => format!("{} or {last}", some.join(", ")),
        ids => ids.concat(),
    }
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

/// One error per line.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.all.iter().enumerate() {
            write!(f, "{}{error}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self { first: Box::new(error.clone()), all: vec![error] }
    }
}

impl ConfigErrors {
    /// The error that Apache would report.
    pub fn first(&self) -> &ConfigError {
        &self.first
    }

    /// All errors by file and line; those without a line are last.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.all.iter()
    }

    pub fn exit_code(&self) -> u8 {
        self.first().exit_code()
    }
}

impl ErrorCollector {
    /// Keeps the error, unless a setting at the same place is wrong already: the second error follows from the first.
    pub(crate) fn add(&mut self, error: ConfigError) {
        if error.cause.concerns_whole_config() || !self.has(&error.place) {
            self.0.push(error);
        }
    }

    /// The value, or `None` after its error was kept.
    pub(crate) fn check<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// Whether a setting at this place is wrong.
    pub(crate) fn has(&self, place: &Place) -> bool {
        place.setting().is_some() && self.0.iter().any(|error| error.place == *place)
    }

    pub(crate) fn finish(self) -> Result<(), ConfigErrors> {
        let Self(mut all) = self;
        let Some(first) = all.first().cloned() else { return Ok(()) };
        all.sort_by(|one, other| one.place.in_file_order().cmp(&other.place.in_file_order()));
        Err(ConfigErrors { first: Box::new(first), all })
    }
}

impl Cause {
    /// Whether no single line is wrong, even if the error names one.
    pub(crate) fn concerns_whole_config(&self) -> bool {
        use Cause::{MyIdMissing, MyIdNotANumber, NoParticipants, NotAMember, ObserversAlone, ObserversOfOne};
        matches!(
            self,
            MyIdMissing { .. }
                | MyIdNotANumber { .. }
                | NotAMember { .. }
                | NoParticipants
                | ObserversAlone
                | ObserversOfOne
        )
    }
}

impl ConfigError {
    pub fn exit_code(&self) -> u8 {
        // Compat: Apache reads the JAAS file after it has accepted the configuration (`recorded_configs_match_apache`).
        // It also checks its own id then; here that is an ordinary error, because a restart does not help.
        let is_late = matches!(
            self.cause,
            Cause::JaasSectionMissing { .. } | Cause::QuorumJaasSectionMissing { .. } | Cause::Jaas(_)
        );
        if is_late { 1 } else { 2 }
    }
}

impl Place {
    pub fn line(&self) -> Option<u32> {
        match self {
            Place::File { line, .. } => *line,
            Place::Argument(_) | Place::Property(_) => None,
        }
    }

    /// Sorts by file and line; places without a line are last.
    fn in_file_order(&self) -> (bool, Option<&str>, Option<u32>) {
        (self.line().is_none(), self.file(), self.line())
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
