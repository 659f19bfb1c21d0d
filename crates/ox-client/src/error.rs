//! Errors, and what they mean for the outcome of the request.

use crate::connect_failure::{self, ConnectFailure};
use ox_proto::ErrorCode;
use std::fmt;

/// The operation that failed, its path, the cause, and whether it may have had an effect.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{ErrorCode, RequestOutcome};
/// let error = client.delete("/nothing", None).await.unwrap_err();
/// assert_eq!(error.code(), Some(ErrorCode::NoNode));
/// assert_eq!(error.outcome(), RequestOutcome::NoEffect);
/// assert!(!error.is_retriable());
/// assert_eq!(error.to_string(), "delete /nothing: no such node");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    op: &'static str,
    path: Option<String>,
    kind: ErrorKind,
    outcome: RequestOutcome,
    /// The index of the operation in a multi.
    at: Option<usize>,
    /// What the error code does not say: the rule that was broken, what is missing, or why no server could be reached.
    detail: Option<Box<str>>,
}

/// The cause of an [`Error`], as the server or the client reports it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{ErrorCode, ErrorKind};
/// let error = client.get("/nothing").await.unwrap_err();
/// assert_eq!(error.kind(), &ErrorKind::Server(ErrorCode::NoNode));
/// assert_eq!(client.get("no path").await.unwrap_err().kind(), &ErrorKind::InvalidPath);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server replied with an error code.
    #[error("{0}")]
    Server(ErrorCode),
    /// The server replied with an error code that this client does not know.
    #[error("error {0}")]
    UnknownCode(i32),
    /// The connection was lost before the reply was received.
    #[error("connection lost")]
    ConnectionLoss,
    /// The session expired, with its ephemeral nodes and watches.
    #[error("session expired")]
    SessionExpired,
    /// The server rejected the credentials, which ends the session.
    #[error("authentication failed")]
    AuthFailed,
    /// The server rejected the client during SASL authentication, or the client the server; the text says why. This ends
    /// the session.
    #[error("SASL authentication failed: {0}")]
    SaslFailed(String),
    /// The settings of TLS or SASL cannot be used; the text names the setting or the file, and the remedy.
    #[error("{0}")]
    BadSecurity(String),
    /// No server confirmed [`Client::close`](crate::Client::close). The client is closed; the session and its ephemeral
    /// nodes exist until it expires.
    #[error("no server confirmed it, so the session ends when it expires")]
    CloseUnconfirmed,
    /// The client was closed by [`Client::close`](crate::Client::close) or is being closed.
    #[error("client is closed")]
    Closed,
    /// The request exceeds the limit of [`Builder::max_request_bytes`](crate::Builder::max_request_bytes).
    #[error("request is too large")]
    TooLarge,
    /// The path is not a valid node path.
    #[error("invalid path")]
    InvalidPath,
    /// An argument is invalid; the text says which.
    #[error("{0}")]
    InvalidArgument(&'static str),
    /// The connection string is not of the form `host:port,host:port/chroot`; [`Error::detail`] has the rule that it breaks.
    #[error("invalid connection string `{0}`")]
    BadConnectString(String),
    /// No server established a session within the time limit; holds the last failure of each server.
    #[error("no server established a session: {}", connect_failure::list(.0))]
    NoServer(Vec<ConnectFailure>),
    /// The reply could not be decoded.
    #[error("malformed reply")]
    BadReply,
}

/// Whether an operation that failed may still have had an effect.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::RequestOutcome;
/// match client.set("/n", b"1", None).await {
///     Err(error) if error.outcome() == RequestOutcome::Unknown => {
///         client.write_barrier().await?; // later reads show the final state
///         println!("{:?}", client.get("/n").await?.data);
///     }
///     done => drop(done?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// The operation had no effect, and will not have one.
    NoEffect,
    /// The reply is lost: the operation may have been executed, or still be in flight. Reads after
    /// [`Client::write_barrier`](crate::Client::write_barrier) show which.
    Unknown,
}

impl Error {
    pub(crate) fn new(op: &'static str, path: Option<&str>, kind: ErrorKind, outcome: RequestOutcome) -> Self {
        Self(Box::new(Inner { op, path: path.map(str::to_owned), kind, outcome, at: None, detail: None }))
    }

    /// An error of the client, before the request was sent.
    pub(crate) fn early(op: &'static str, path: Option<&str>, kind: ErrorKind) -> Self {
        Self::new(op, path, kind, RequestOutcome::NoEffect)
    }

    pub(crate) fn connect(kind: ErrorKind) -> Self {
        Self::early("connect", None, kind)
    }

    /// An error code from a reply.
    pub(crate) fn refused(op: &'static str, path: Option<&str>, code: i32) -> Self {
        let kind = match ErrorCode::try_from(code) {
            Ok(ErrorCode::SessionExpired) => ErrorKind::SessionExpired,
            Ok(ErrorCode::AuthFailed) => ErrorKind::AuthFailed,
            Ok(code) => ErrorKind::Server(code),
            Err(code) => ErrorKind::UnknownCode(code),
        };
        Self::early(op, path, kind)
    }

    /// Marks the operation as number `at` of a multi.
    pub(crate) fn in_multi(mut self, at: usize) -> Self {
        self.0.at = Some(at);
        self
    }

    pub(crate) fn with_operation(mut self, op: &'static str) -> Self {
        self.0.op = op;
        self
    }

    /// Adds what the error code does not say.
    pub(crate) fn with_detail(mut self, detail: impl Into<Box<str>>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Reports the path that the application passed, not the one that was made of it.
    pub(crate) fn with_path(mut self, path: &str) -> Self {
        self.0.path = Some(path.to_owned());
        self
    }

    /// Returns the cause of the failure.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let error = client.get("/nothing").await.unwrap_err();
    /// println!("{:?}", error.kind());
    /// # Ok(())
    /// # }
    /// ```
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the error code of the protocol, for errors that have one.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_client::ErrorCode;
    /// let error = client.get("/nothing").await.unwrap_err();
    /// assert_eq!(error.code(), Some(ErrorCode::NoNode));
    /// # Ok(())
    /// # }
    /// ```
    pub fn code(&self) -> Option<ErrorCode> {
        match &self.0.kind {
            ErrorKind::Server(code) => Some(*code),
            ErrorKind::SessionExpired => Some(ErrorCode::SessionExpired),
            ErrorKind::AuthFailed | ErrorKind::SaslFailed(_) => Some(ErrorCode::AuthFailed),
            ErrorKind::InvalidPath | ErrorKind::InvalidArgument(_) => Some(ErrorCode::BadArguments),
            ErrorKind::UnknownCode(_)
            | ErrorKind::ConnectionLoss
            | ErrorKind::CloseUnconfirmed
            | ErrorKind::Closed
            | ErrorKind::TooLarge
            | ErrorKind::BadSecurity(_)
            | ErrorKind::BadConnectString(_)
            | ErrorKind::NoServer(_)
            | ErrorKind::BadReply => None,
        }
    }

    /// Whether the operation may succeed later in the same session. If [`Error::outcome`] is unknown, a write may have
    /// been executed already.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let error = client.get("/nothing").await.unwrap_err();
    /// assert!(!error.is_retriable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_retriable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::ConnectionLoss | ErrorKind::Server(ErrorCode::ThrottledOp))
    }

    /// Whether the session has ended, so that the application needs a new client.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.close().await?;
    /// let error = client.get("/nothing").await.unwrap_err();
    /// assert!(error.is_final());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_final(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::SessionExpired
                | ErrorKind::AuthFailed
                | ErrorKind::SaslFailed(_)
                | ErrorKind::CloseUnconfirmed
                | ErrorKind::Closed
        )
    }

    /// Whether the operation may have had an effect.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_client::RequestOutcome;
    /// let error = client.get("/nothing").await.unwrap_err();
    /// assert_eq!(error.outcome(), RequestOutcome::NoEffect);
    /// # Ok(())
    /// # }
    /// ```
    pub fn outcome(&self) -> RequestOutcome {
        self.0.outcome
    }

    /// The index of the operation of a [`Multi`](crate::Multi) that failed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let mut multi = client.multi();
    /// multi.check("/", None);
    /// multi.check("/nothing", None);
    /// assert_eq!(multi.commit().await.unwrap_err().failed_at(), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn failed_at(&self) -> Option<usize> {
        self.0.at
    }

    /// The path that the operation was called with.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let error = client.get("/nothing").await.unwrap_err();
    /// assert_eq!(error.path(), Some("/nothing"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// What the [kind](Error::kind) does not say, for people: the rule that a path breaks, a chroot that does not exist, a
    /// setting that the servers need, or why no server can be reached.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let error = client.get("a").await.unwrap_err();
    /// assert_eq!(error.detail(), Some("it must start with /"));
    /// assert_eq!(error.to_string(), "get a: invalid path: it must start with /");
    /// # Ok(())
    /// # }
    /// ```
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// The name of the operation, for example `create`.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let error = client.get("/nothing").await.unwrap_err();
    /// assert_eq!(error.operation(), "get");
    /// # Ok(())
    /// # }
    /// ```
    pub fn operation(&self) -> &'static str {
        self.0.op
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { op, path, kind, outcome, at, detail } = &*self.0;
        if at.is_some() {
            f.write_str("multi: ")?;
        }
        match path.as_deref() {
            Some("") => write!(f, "{op} \"\": {kind}")?,
            Some(path) => write!(f, "{op} {path}: {kind}")?,
            None => write!(f, "{op}: {kind}")?,
        }
        if let Some(detail) = detail {
            write!(f, ": {detail}")?;
        }
        match outcome {
            RequestOutcome::NoEffect => Ok(()),
            RequestOutcome::Unknown => write!(f, "; the request may have been executed"),
        }
    }
}

/// The same text as `Display`: a `main` that returns this error prints it by `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
