//! Why servers established no session, one cause per server.

use crate::server_list::ServerAddress;
use crate::tls_failure::TlsFailure;
use std::fmt;
use std::io;

/// Why the last attempt to open a session with one server failed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::{Client, ConnectCause, ErrorKind};
/// # let closed = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
/// let builder = Client::builder().servers(&closed.to_string())?; // no server listens there
/// let error = builder.connect_timeout(std::time::Duration::from_millis(200)).connect().await.unwrap_err();
/// let ErrorKind::NoServer(failures) = error.kind() else { panic!("{error}") };
/// assert_eq!(failures[0].cause, ConnectCause::Refused);
/// assert_eq!(error.to_string(), format!("connect: no server established a session: {closed}: connection refused"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectFailure {
    /// The server that the client tried.
    pub server: ServerAddress,
    /// Why that server established no session.
    pub cause: ConnectCause,
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.cause)
    }
}

/// The cause of a [`ConnectFailure`].
///
/// ```
/// assert_eq!(ox_client::ConnectCause::UnknownHost.to_string(), "unknown host");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectCause {
    /// The host name cannot be resolved.
    #[error("unknown host")]
    UnknownHost,
    /// The host runs, but no process listens on the port.
    #[error("connection refused")]
    Refused,
    /// The host did not accept the connection in time.
    #[error("timeout: the host does not answer")]
    Timeout,
    /// The server closed the connection instead of opening a session. A member without a quorum does that, a server
    /// with too many connections, and a server whose data is older than what the client has seen. Many other services do
    /// it as well when they do not understand the handshake.
    #[error(
        "the server does not serve: it has no quorum, or too many connections, or this is not a ZooKeeper client port"
    )]
    NotServing,
    /// The server accepted the connection and did not answer the handshake in time.
    #[error("timeout: the server accepts connections but does not answer")]
    NoReply,
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(#[from] TlsFailure),
    /// The client speaks plain text, and the server TLS.
    #[error("the server speaks TLS on this port, and the client does not")]
    ServerSpeaksTls,
    /// The client has no ticket or secret to authenticate with; the text says why.
    #[error("SASL: {0}")]
    SaslLogin(String),
    /// The reply to the handshake is not one of a ZooKeeper server: the port belongs to another service.
    #[error("not a client port of ZooKeeper: the reply to the handshake is malformed")]
    NotZooKeeper,
    /// Another error of the operating system.
    #[error("{0}")]
    Io(io::ErrorKind),
}

impl From<io::Error> for ConnectCause {
    fn from(error: io::Error) -> Self {
        #[expect(clippy::wildcard_enum_match_arm, reason = "all other kinds are reported as they are")]
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::Timeout,
            other => Self::Io(other),
        }
    }
}

/// Formats failures as one line.
pub(crate) fn list(failures: &[ConnectFailure]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
