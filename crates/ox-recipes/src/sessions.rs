//! Repeats work in a new session when a session ends, and detects that a session is about to end.

use crate::error::{LossCause, RecipeError};
use ox_client::{Builder, Client, ErrorKind, SessionState};
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// Fraction of the session timeout (one tenth) that is reserved for stopping work before a server can expire the
/// session.
const MARGIN: u32 = 10;

/// The pause before the next attempt to connect.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs `work` in a session, and again in a new session if the session ends, the work fails because the
/// [connection is lost](ErrorKind::ConnectionLoss), or something held is [lost](RecipeError::Lost), until the work
/// completes or fails for another reason.
///
/// This is how a program takes part for as long as it runs: everything it sets up with a client ends with that client's
/// session and is set up again with the next one. The old session is closed first, with all clones of its client, so
/// that the work does not meet ephemeral nodes of its own; in an outage this waits for a server.
///
/// **Limits.** The work may be executed more than once, and so may a write whose reply is lost. Work that must not
/// repeat a write handles errors with the outcome [`Unknown`](ox_client::RequestOutcome::Unknown) itself. The streams of
/// a client end with its session, without an error: work that follows [`Client::watch`] returns [`RecipeError::Lost`] at
/// the end of the stream, because `Ok` would end this function.
///
/// If no server establishes the first session within [`Builder::connect_timeout`], the error of the client is returned
/// ([`ErrorKind::NoServer`], with a cause for each server): the address is probably wrong. Later sessions are retried
/// until a server is back. Each restart and each failed attempt is logged as a warning (`tracing`).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// use ox_recipes::{lock::Lock, sessions::run_in_sessions};
/// let builder = ox_client::Client::builder().servers(&server.address().to_string())?;
/// let sessions = std::cell::Cell::new(0);
/// let done = run_in_sessions(&builder, |client| async {
///     let client = client;
///     sessions.set(sessions.get() + 1);
///     let held = Lock::new(&client, "/lock").acquire().await?;
///     if sessions.get() == 1 {
///         server.expire(client.session().unwrap().id).unwrap();
///     }
///     held.release().await
/// });
/// done.await?;
/// assert_eq!(sessions.get(), 2);
/// # Ok(())
/// # }
/// ```
pub async fn run_in_sessions<T, F: Future<Output = Result<T, RecipeError>>>(
    builder: &Builder,
    work: impl Fn(Client) -> F,
) -> Result<T, RecipeError> {
    let mut if_no_server = IfNoServer::Fail;
    loop {
        let client = connect(builder, if_no_server).await?;
        if_no_server = IfNoServer::Retry;
        let done = work(client.clone()).await;
        let is_expired = client.state() == SessionState::Expired;
        match done {
            Err(RecipeError::Client(error)) if is_expired => {
                tracing::warn!(%error, "the work starts again in a new session");
            }
            Err(error) if is_lost(&error) => {
                tracing::warn!(%error, "the work starts again in a new session");
                end(&client).await;
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

fn is_lost(error: &RecipeError) -> bool {
    match error {
        RecipeError::Client(error) => *error.kind() == ErrorKind::ConnectionLoss,
        RecipeError::Lost { .. } => true,
        RecipeError::InvalidArgument { .. } | RecipeError::BadData { .. } | RecipeError::NoVersion { .. } => false,
    }
}

/// Ends a session, as soon as it is connected again. If the close is not confirmed, the session expires by timeout.
async fn end(client: &Client) {
    let mut states = client.states();
    while states.next().await.is_some_and(|state| !state.is_connected() && !state.is_final()) {}
    if let Err(error) = client.close().await {
        tracing::warn!(%error, "the old session is not closed; its ephemeral nodes remain until it expires");
    }
}

/// What to do when no server establishes a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfNoServer {
    Fail,
    Retry,
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all other errors end the attempts")]
async fn connect(builder: &Builder, if_no_server: IfNoServer) -> Result<Client, RecipeError> {
    loop {
        match builder.clone().connect().await {
            Ok(client) => return Ok(client),
            Err(error) => match error.kind() {
                ErrorKind::SessionExpired => tracing::debug!(%error, "the new session has ended; retrying"),
                ErrorKind::NoServer(_) if if_no_server == IfNoServer::Retry => {
                    tracing::warn!(%error, "cannot establish a new session; retrying");
                }
                _ => return Err(error.into()),
            },
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until the session must be assumed to expire soon. That can happen while connected: to a read-only server, or
/// over a connection that delivers events but loses requests.
pub(crate) async fn session_lost(client: &Client) -> LossCause {
    let mut states = client.states();
    loop {
        tokio::select! {
            state = states.next() => if state.is_none_or(SessionState::is_final) {
                return LossCause::SessionEnded;
            },
            () = sleep_until(stop_before(client).into()) => if stop_before(client) <= Instant::now() {
                return LossCause::NoReply;
            },
        }
    }
}

fn stop_before(client: &Client) -> Instant {
    let lost_after = client.session_lost_after();
    let margin = client.session().map_or(Duration::ZERO, |session| session.timeout / MARGIN);
    lost_after.checked_sub(margin).unwrap_or(lost_after)
}
