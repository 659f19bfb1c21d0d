//! What goes wrong, in the words and with the exit codes that scripts know.

use ox_client::{Error, ErrorCode, ErrorKind};
use std::fmt;

/// A command did what it was asked to.
pub const OK: u8 = 0;
/// It did not.
pub const FAILED: u8 = 1;
/// Nobody knows the command.
pub const NOT_FOUND: u8 = 127;

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The command is used otherwise; its syntax is shown.
    Usage,
    /// There is no session. Compat: that is said on standard output, and is no failure of the program.
    NotConnected,
    /// No such command.
    NotFound(String),
    /// A line for the user.
    Told(String),
    /// Everything is said already; what the program exits with.
    Silent(u8),
    /// A line for the user, behind which a script must not go on: an argument cannot be what was meant.
    Fatal(String),
    /// The user has stopped it.
    Interrupted,
}

impl Failure {
    /// A line for the user.
    pub fn told(text: impl Into<String>) -> Self {
        Self::Told(text.into())
    }

    /// Options that cannot be understood. Compat: with the name of the Java class that says so, which scripts have seen.
    pub fn parse(kind: &str, text: &str) -> Self {
        Self::Told(format!("org.apache.commons.cli.{kind}Exception: {text}"))
    }

    /// What the program exits with, were this the last command.
    pub fn status(&self) -> u8 {
        match self {
            Self::NotConnected => OK,
            Self::NotFound(_) => NOT_FOUND,
            Self::Silent(status) => *status,
            Self::Usage | Self::Told(_) | Self::Fatal(_) | Self::Interrupted => FAILED,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage => f.write_str("usage"),
            Self::NotConnected => f.write_str("Not connected"),
            Self::NotFound(name) => write!(f, "Command not found: Command not found {name}"),
            Self::Told(text) | Self::Fatal(text) => f.write_str(text),
            Self::Silent(_) => Ok(()),
            Self::Interrupted => f.write_str("Interrupted"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Told(text(&error))
    }
}

/// An error about a node, in one line.
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

/// The general form: `KeeperErrorCode = ConnectionLoss for /a`.
pub fn coded(error: &Error) -> String {
    let name = match error.kind() {
        ErrorKind::Server(code) => code_name(*code).to_owned(),
        ErrorKind::UnknownCode(code) => format!("Unknown error {code}"),
        ErrorKind::SessionExpired | ErrorKind::Closed => "Session expired".to_owned(),
        ErrorKind::AuthFailed => "AuthFailed".to_owned(),
        ErrorKind::ConnectionLoss | ErrorKind::NoServer => "ConnectionLoss".to_owned(),
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
