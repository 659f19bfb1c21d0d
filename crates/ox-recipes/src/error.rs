//! What can go wrong in a recipe.

use ox_client::ErrorCode;

/// Why a recipe failed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::lock::Lock;
/// client.close().await?;
/// let error = Lock::new(&client, "/lock").acquire().await.unwrap_err();
/// assert!(error.is_session_over());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client failed.
    #[error(transparent)]
    Client(#[from] ox_client::Error),
    /// What was held is held no more, or may be lost any moment: the session was not heard of for too long, or somebody deleted the node.
    #[error("{path} is lost")]
    Lost {
        /// The node that stood for it.
        path: String,
    },
    /// A node holds what this recipe does not understand.
    #[error("{path}: {reason}")]
    BadData {
        /// The node.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Whether the session is gone: begin again with a new client, for example by
    /// [`in_sessions`](crate::sessions::in_sessions).
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// if let Err(error) = Lock::new(&client, "/lock").acquire().await
    ///     && error.is_session_over()
    /// {
    ///     println!("connect again");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_final())
    }

    pub(crate) fn bad_data(path: &str, reason: impl ToString) -> Self {
        Self::BadData { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// Whether a server answered so.
pub(crate) fn says<T>(result: &Result<T, ox_client::Error>, code: ErrorCode) -> bool {
    matches!(result, Err(error) if error.code() == Some(code))
}
