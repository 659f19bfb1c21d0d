//! What can go wrong, and what that means for the caller.

use ox_proto::ErrorCode;
use std::fmt;

/// Why an operation failed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{ErrorCode, Outcome, Version};
/// let error = client.delete("/nothing", Version::Any).await.unwrap_err();
/// assert_eq!(error.code(), Some(ErrorCode::NoNode));
/// assert_eq!(error.outcome(), Outcome::DidNotHappen);
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
    outcome: Outcome,
    /// The place in a multi.
    at: Option<usize>,
}

/// The cause of an [`Error`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{ErrorCode, ErrorKind};
/// let error = client.get("/nothing").await.unwrap_err();
/// assert_eq!(error.kind(), &ErrorKind::Refused(ErrorCode::NoNode));
/// assert_eq!(client.get("no path").await.unwrap_err().kind(), &ErrorKind::InvalidPath);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server refused.
    #[error("{0}")]
    Refused(ErrorCode),
    /// The server refused with a code that this client does not know.
    #[error("error {0}")]
    UnknownCode(i32),
    /// The connection was lost before there was an answer.
    #[error("connection lost")]
    ConnectionLoss,
    /// The session is over, and everything that was bound to it.
    #[error("session expired")]
    SessionExpired,
    /// The server did not accept the credentials. The session is given up.
    #[error("authentication failed")]
    AuthFailed,
    /// The client was closed.
    #[error("client is closed")]
    Closed,
    /// The request is larger than a server takes.
    #[error("request is too large")]
    TooLarge,
    /// The path is none.
    #[error("invalid path")]
    InvalidPath,
    /// What was asked for makes no sense.
    #[error("{0}")]
    InvalidArgument(&'static str),
    /// Not `host:port,host:port/chroot`.
    #[error("invalid connection string `{0}`")]
    BadConnectString(String),
    /// No server gave the client a session in time.
    #[error("no server answers")]
    NoServer,
    /// The answer cannot be understood.
    #[error("the answer cannot be understood")]
    BadReply,
}

/// What became of an operation that failed.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::{Outcome, Version};
/// match client.set("/n", b"1", Version::Any).await {
///     Err(error) if error.outcome() == Outcome::Unknown => {
///         client.settle().await?; // what is read now is final
///         println!("{:?}", client.get("/n").await?.data);
///     }
///     done => drop(done?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It had no effect, and never will have one.
    DidNotHappen,
    /// It may have been executed, or still be: the answer is lost. What is read behind [`Client::settle`](crate::Client::settle) is
    /// final.
    Unknown,
}

impl Error {
    pub(crate) fn new(op: &'static str, path: Option<&str>, kind: ErrorKind, outcome: Outcome) -> Self {
        Self(Box::new(Inner { op, path: path.map(str::to_owned), kind, outcome, at: None }))
    }

    /// An error before anything was sent.
    pub(crate) fn early(op: &'static str, path: Option<&str>, kind: ErrorKind) -> Self {
        Self::new(op, path, kind, Outcome::DidNotHappen)
    }

    pub(crate) fn connect(kind: ErrorKind) -> Self {
        Self::early("connect", None, kind)
    }

    /// What the server answered.
    pub(crate) fn refused(op: &'static str, path: Option<&str>, code: i32) -> Self {
        let kind = match ErrorCode::try_from(code) {
            Ok(ErrorCode::SessionExpired) => ErrorKind::SessionExpired,
            Ok(ErrorCode::AuthFailed) => ErrorKind::AuthFailed,
            Ok(code) => ErrorKind::Refused(code),
            Err(code) => ErrorKind::UnknownCode(code),
        };
        Self::early(op, path, kind)
    }

    /// The operation was part of a multi.
    pub(crate) fn in_multi(mut self, at: usize) -> Self {
        self.0.at = Some(at);
        self
    }

    /// The cause.
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

    /// The code of the protocol, where there is one.
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
            ErrorKind::Refused(code) => Some(*code),
            ErrorKind::SessionExpired => Some(ErrorCode::SessionExpired),
            ErrorKind::AuthFailed => Some(ErrorCode::AuthFailed),
            ErrorKind::InvalidPath | ErrorKind::InvalidArgument(_) => Some(ErrorCode::BadArguments),
            ErrorKind::UnknownCode(_)
            | ErrorKind::ConnectionLoss
            | ErrorKind::Closed
            | ErrorKind::TooLarge
            | ErrorKind::BadConnectString(_)
            | ErrorKind::NoServer
            | ErrorKind::BadReply => None,
        }
    }

    /// Whether the same operation may succeed later, in the same session. A write whose [`Error::outcome`] is unknown
    /// may have happened already.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let error = client.get("/nothing").await.unwrap_err();
    /// assert!(!error.is_retriable());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_retriable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::ConnectionLoss | ErrorKind::Refused(ErrorCode::ThrottledOp))
    }

    /// Whether the session is gone, so that only a new client helps.
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
        matches!(self.0.kind, ErrorKind::SessionExpired | ErrorKind::AuthFailed | ErrorKind::Closed)
    }

    /// What became of the operation.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_client::Outcome;
    /// let error = client.get("/nothing").await.unwrap_err();
    /// assert_eq!(error.outcome(), Outcome::DidNotHappen);
    /// # Ok(())
    /// # }
    /// ```
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Which operation of a [`Multi`](crate::Multi) failed, counted from 0.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let mut multi = client.multi();
    /// multi.check("/", ox_client::Version::Any);
    /// multi.check("/nothing", ox_client::Version::Any);
    /// assert_eq!(multi.commit().await.unwrap_err().failed_at(), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn failed_at(&self) -> Option<usize> {
        self.0.at
    }

    /// The node it was about.
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

    /// The operation.
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
        let Inner { op, path, kind, outcome, at } = &*self.0;
        if at.is_some() {
            f.write_str("multi: ")?;
        }
        match path {
            Some(path) => write!(f, "{op} {path}: {kind}")?,
            None => write!(f, "{op}: {kind}")?,
        }
        match outcome {
            Outcome::DidNotHappen => Ok(()),
            Outcome::Unknown => write!(f, "; it may have happened"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}
