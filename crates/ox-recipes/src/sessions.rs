//! Recipes live in sessions: when a session ends, so does what was held in it.

use crate::error::Error;
use ox_client::{Builder, Client, ErrorKind, SessionState};
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// The part of the session timeout that is left for stopping work, before a server can give the session away.
const MARGIN: u32 = 10;

/// The pause before another look for a server.
const PAUSE: Duration = Duration::from_millis(200);

/// Does some work in a session, and again in a new one when the session ends on the way or what is held in it is
/// [lost](Error::Lost), until the work is done or fails for another reason.
///
/// This is how a program takes part for as long as it runs: what it sets up with one client goes with that client's session,
/// and is set up again with the next.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// use ox_recipes::{lock::Lock, sessions::in_sessions};
/// let builder = ox_client::Client::builder().servers(&server.address().to_string())?;
/// let sessions = std::cell::Cell::new(0);
/// let done = in_sessions(&builder, |client| async {
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
pub async fn in_sessions<T, F: Future<Output = Result<T, Error>>>(
    builder: &Builder,
    work: impl Fn(Client) -> F,
) -> Result<T, Error> {
    loop {
        let client = match builder.clone().connect().await {
            Ok(client) => client,
            Err(error) if matches!(error.kind(), ErrorKind::NoServer | ErrorKind::SessionExpired) => {
                tracing::debug!(%error, "no session yet");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let done = work(client.clone()).await;
        let is_expired = client.state() == SessionState::Expired;
        match done {
            Err(Error::Client(_)) if is_expired => tracing::debug!("a new session is needed"),
            Err(error @ Error::Lost { .. }) => {
                tracing::debug!(%error, "a new session is needed");
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// Waits until the session must be assumed lost soon. That can be while there is a connection, too: to a server that lost the
/// others, or one on which events come and requests do not arrive.
pub(crate) async fn session_lost(client: &Client) {
    let mut states = client.states();
    loop {
        tokio::select! {
            state = states.next() => if state.is_none_or(SessionState::is_final) {
                return;
            },
            () = sleep_until(stop_before(client).into()) => if stop_before(client) <= Instant::now() {
                return;
            },
        }
    }
}

fn stop_before(client: &Client) -> Instant {
    let lost_after = client.session_lost_after();
    let margin = client.session().map_or(Duration::ZERO, |session| session.timeout / MARGIN);
    lost_after.checked_sub(margin).unwrap_or(lost_after)
}
