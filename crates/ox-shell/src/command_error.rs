//! Errors of commands, with the texts and exit codes of `zkCli`.

use ox_client::{Error, ErrorCode, ErrorKind};
use std::fmt;

/// Exit code of a command that succeeded.
pub const OK: u8 = 0;
/// Exit code of a command that failed.
pub const FAILED: u8 = 1;
/// Exit code of an unknown command.
pub const NOT_FOUND: u8 = 127;

/// What to do without the permission for a node.
pub(crate) const NO_AUTH_HINT: &str =
    "\nhint: `getAcl` shows whose identity has it (`addauth`, `whoami`); the super user has every permission";

/// The reason why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// Wrong usage; the syntax is printed.
    Usage,
    /// No session is open. Compat: reported on standard output, and not a failure of the program.
    NotConnected,
    /// The command is unknown; holds its name.
    NotFound(String),
    /// A message for the user.
    Message(String),
    /// The root of all paths does not exist, which is a chroot.
    MissingRoot,
    /// The parent of a new node does not exist; holds its path.
    MissingParent(String),
    /// An error of the client or the server.
    Client(Error),
    /// Wrong options: the Java class of the exception, which scripts know, and what is wrong.
    Options(&'static str, String),
    /// Everything is reported already; holds the exit code.
    Silent(u8),
    /// A message for the user, after which a script must not continue: an argument is certainly wrong.
    Fatal(String),
    /// The user interrupted the command.
    Interrupted,
}

impl CommandError {
    /// Creates a message for the user.
    pub fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }

    /// Wrong options; `kind` is a class of commons-cli.
    pub fn parse(kind: &'static str, text: impl Into<String>) -> Self {
        Self::Options(kind, text.into())
    }

    /// The exit code of the program if this is the last command.
    pub fn status(&self, is_zkcli: bool) -> u8 {
        match self {
            Self::NotConnected if is_zkcli => OK,
            Self::NotFound(_) => NOT_FOUND,
            Self::Silent(status) => *status,
            Self::NotConnected
            | Self::Usage
            | Self::MissingRoot
            | Self::MissingParent(_)
            | Self::Message(_)
            | Self::Client(_)
            | Self::Options(..)
            | Self::Fatal(_)
            | Self::Interrupted => FAILED,
        }
    }

    /// The text in the native style; `Display` has that of `zkCli`.
    pub fn native_text(&self) -> String {
        match self {
            Self::NotConnected => "Not connected; `connect` opens a session".to_owned(),
            Self::NotFound(name) if name.is_empty() => "The command is empty".to_owned(),
            Self::NotFound(name) => format!("Unknown command: {name}"),
            Self::Client(error) if error.code() == Some(ErrorCode::NoAuth) => native_text(error) + NO_AUTH_HINT,
            Self::Client(error) => native_text(error),
            Self::Options(_, text) => text.clone(),
            Self::Usage
            | Self::MissingRoot
            | Self::MissingParent(_)
            | Self::Message(_)
            | Self::Fatal(_)
            | Self::Silent(_)
            | Self::Interrupted => self.to_string(),
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage => f.write_str("usage"),
            Self::NotConnected => f.write_str("Not connected"),
            Self::MissingRoot => f.write_str("Node does not exist: /"),
            Self::MissingParent(parent) => {
                write!(f, "Parent node does not exist: {parent}\nhint: create -p creates it")
            }
            Self::NotFound(name) => write!(f, "Command not found: Command not found {name}"),
            Self::Message(text) | Self::Fatal(text) => f.write_str(text),
            Self::Client(error) => f.write_str(&text(error)),
            Self::Options(kind, text) => write!(f, "org.apache.commons.cli.{kind}Exception: {text}"),
            Self::Silent(_) => Ok(()),
            Self::Interrupted => f.write_str("Interrupted"),
        }
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

/// Formats a client error in the native style, as one line, with a second one for a hint.
pub fn native_text(error: &Error) -> String {
    let path = error.path().unwrap_or_default();
    match error.code() {
        Some(ErrorCode::NotReadOnly) => format!("The server is read-only and rejects writes: {path}"),
        Some(ErrorCode::InvalidAcl) => {
            format!("The server refuses the ACL of {path}: unknown scheme, wrong id, or auth without addauth")
        }
        Some(ErrorCode::NoAuth) => format!("No permission: {path}"),
        Some(ErrorCode::BadVersion) => format!("Version does not match: {path}"),
        Some(ErrorCode::QuotaExceeded) => format!("Quota exceeded: {path}"),
        Some(ErrorCode::BadArguments) if error.operation() == "delete" && is_protected(path) => {
            format!("{path} is protected: servers need it")
        }
        Some(ErrorCode::BadArguments) => error.to_string(),
        Some(ErrorCode::ReconfigDisabled) => {
            "Reconfiguration is off\nhint: set reconfigEnabled=true in the configuration of all servers".to_owned()
        }
        Some(ErrorCode::Unimplemented) if error.detail().is_some_and(|text| text.contains("extendedTypesEnabled")) => {
            format!("{error}\nhint: without a zoo.cfg, start the server with -Dzookeeper.extendedTypesEnabled=true")
        }
        Some(ErrorCode::ReconfigInProgress) => "Another reconfiguration is in progress".to_owned(),
        Some(ErrorCode::NewConfigNoQuorum) => {
            "The new configuration has no quorum: start the new servers first, then repeat the command".to_owned()
        }
        Some(ErrorCode::NoNode | ErrorCode::NodeExists | ErrorCode::NotEmpty | ErrorCode::NoChildrenForEphemerals) => {
            text(error)
        }
        _ => error.to_string(),
    }
}

/// Whether a node belongs to the server itself, which refuses to delete it.
pub(crate) fn is_protected(path: &str) -> bool {
    path == "/" || path == "/zookeeper" || path.starts_with("/zookeeper/")
}

/// Formats a client error as one line, as `zkCli` does.
pub fn text(error: &Error) -> String {
    let path = error.path().unwrap_or_default();
    let plain = |before: &str| format!("{before}{path}");
    match error.code() {
        Some(ErrorCode::NoNode) => plain("Node does not exist: "),
        Some(ErrorCode::NodeExists) => plain("Node already exists: "),
        Some(ErrorCode::NotEmpty) => plain("Node not empty: "),
        Some(ErrorCode::NoChildrenForEphemerals) => plain("Ephemerals cannot have children: "),
        Some(ErrorCode::NotReadOnly) => plain("Not a read-only call: "),
        Some(ErrorCode::InvalidAcl) => plain("Acl is not valid : "),
        Some(ErrorCode::NoAuth) => plain("Insufficient permission : "),
        Some(ErrorCode::BadArguments) => plain("Arguments are not valid : "),
        Some(ErrorCode::BadVersion) => plain("version No is not valid : "),
        Some(ErrorCode::QuotaExceeded) => plain("Quota has exceeded : "),
        Some(ErrorCode::ReconfigInProgress) => {
            "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)".to_owned()
        }
        Some(ErrorCode::NewConfigNoQuorum) => "No quorum of new config is connected and up-to-date with the leader of \
             last commmitted config - try invoking reconfiguration after new servers are connected and synced"
            .to_owned(),
        _ => coded(error),
    }
}

/// The general format: `KeeperErrorCode = ConnectionLoss for /a`.
pub fn coded(error: &Error) -> String {
    let name = match error.kind() {
        ErrorKind::Server(code) => code_name(*code).to_owned(),
        ErrorKind::UnknownCode(code) => format!("Unknown error {code}"),
        ErrorKind::SessionExpired | ErrorKind::Closed => "Session expired".to_owned(),
        ErrorKind::AuthFailed => "AuthFailed".to_owned(),
        ErrorKind::ConnectionLoss | ErrorKind::NoServer(_) => "ConnectionLoss".to_owned(),
        ErrorKind::BadReply => "MarshallingError".to_owned(),
        ErrorKind::TooLarge
        | ErrorKind::InvalidPath
        | ErrorKind::InvalidArgument(_)
        | ErrorKind::BadConnectString(_)
        | _ => return error.to_string(),
    };
    match error.path() {
        Some(path) => format!("KeeperErrorCode = {name} for {path}"),
        None => format!("KeeperErrorCode = {name}"),
    }
}

fn code_name(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::RuntimeInconsistency => "RuntimeInconsistency",
        ErrorCode::MarshallingError => "MarshallingError",
        ErrorCode::Unimplemented => "Unimplemented",
        ErrorCode::BadArguments => "BadArguments",
        ErrorCode::UnknownSession => "Unknown error -12",
        ErrorCode::NewConfigNoQuorum => "NewConfigNoQuorum",
        ErrorCode::ReconfigInProgress => "ReconfigInProgress",
        ErrorCode::NoNode => "NoNode",
        ErrorCode::NoAuth => "NoAuth",
        ErrorCode::BadVersion => "BadVersion",
        ErrorCode::NoChildrenForEphemerals => "NoChildrenForEphemerals",
        ErrorCode::NodeExists => "NodeExists",
        ErrorCode::NotEmpty => "Directory not empty",
        ErrorCode::SessionExpired => "Session expired",
        ErrorCode::InvalidAcl => "InvalidACL",
        ErrorCode::AuthFailed => "AuthFailed",
        ErrorCode::SessionMoved => "Session moved",
        ErrorCode::NotReadOnly => "Not a read-only call",
        ErrorCode::EphemeralOnLocalSession => "Ephemeral node on local session",
        ErrorCode::NoWatcher => "No such watcher",
        ErrorCode::ReconfigDisabled => "Reconfig is disabled",
        ErrorCode::SessionClosedRequireSaslAuth => "Session closed because client failed to authenticate",
        ErrorCode::QuotaExceeded => "Quota has exceeded",
        ErrorCode::ThrottledOp => "Op throttled due to high load",
    }
}
