//! Errors that recipes return.

use ox_client::ErrorCode;
use std::fmt;

/// The reason why a recipe failed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::lock::Lock;
/// client.close().await?;
/// let error = Lock::new(&client, "/lock").acquire().await.unwrap_err();
/// assert!(error.is_session_ended());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// A request of the client failed.
    #[error(transparent)]
    Client(#[from] ox_client::Error),
    /// The lock, lease or leadership is lost or about to be: no server replied for too long, or the node was deleted.
    #[error("{path} is no longer held: {cause}")]
    Lost {
        /// The node that represented it.
        path: String,
        /// Why it is no longer held.
        cause: LossCause,
    },
    /// The recipe cannot do this, whatever the servers reply.
    #[error("{path}: {reason}")]
    InvalidArgument {
        /// The path of the recipe.
        path: String,
        /// The rule that the arguments break.
        reason: String,
    },
    /// A node has data that this recipe cannot decode.
    #[error("{path}: {reason}")]
    BadData {
        /// The path of the node.
        path: String,
        /// Why the data cannot be decoded.
        reason: String,
    },
    /// A [`SharedConfig`](crate::config::SharedConfig) has no such version: it was never published, or it is deleted.
    #[error("{path}: version {version} does not exist; revision() reads the versions that do")]
    NoVersion {
        /// The path of the configuration.
        path: String,
        /// The version that was requested.
        version: u32,
    },
}

/// Why something is no longer held.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::LossCause;
/// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
/// if held.lost().await == LossCause::NodeDeleted {
///     println!("{} was deleted by hand", held.path());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LossCause {
    /// The session has ended, and its ephemeral nodes and watches with it.
    #[error("the session has ended")]
    SessionEnded,
    /// A server may expire the session soon, or has already done so. If it has not, the node still exists.
    #[error("no server has replied for so long that the session may expire")]
    NoReply,
    /// The node was deleted, or another owner has replaced it.
    #[error("its node was deleted or replaced")]
    NodeDeleted,
    /// The watch that followed the nodes was removed from the server.
    #[error("its watch was removed")]
    WatchRemoved,
}

/// The same text as `Display`: a `main` that returns this error prints it by `Debug`.
impl fmt::Debug for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl RecipeError {
    /// Whether the session has ended, so that the program needs a new client, for example by
    /// [`run_in_sessions`](crate::sessions::run_in_sessions).
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// if let Err(error) = Lock::new(&client, "/lock").acquire().await
    ///     && error.is_session_ended()
    /// {
    ///     println!("connect again");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_session_ended(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_final())
    }

    pub(crate) fn lost(path: &str, cause: LossCause) -> Self {
        Self::Lost { path: path.to_owned(), cause }
    }

    pub(crate) fn node_deleted(path: &str) -> Self {
        Self::lost(path, LossCause::NodeDeleted)
    }

    pub(crate) fn bad_data(path: &str, reason: impl ToString) -> Self {
        Self::BadData { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// Whether a request failed with this error code.
pub(crate) fn has_code<T>(result: &Result<T, ox_client::Error>, code: ErrorCode) -> bool {
    matches!(result, Err(error) if error.code() == Some(code))
}
