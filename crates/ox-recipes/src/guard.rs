//! Guards for what a client holds: a lock, a lease, leadership.

use crate::error::{LossCause, RecipeError};
use crate::sessions::session_lost;
use crate::wait_queue::WaitNode;
use ox_client::Zxid;
use std::sync::Arc;
use std::time::Instant;

/// Data that asks the owner of a node to release it, as in Curator.
const REVOKE: &[u8] = b"__REVOKE__";

/// A lock, a lease or leadership that this client holds. It is released when the last clone is dropped; code that holds
/// a lock passes a clone to code that needs the same lock (re-entrant locking).
///
/// **Limits.** No client can be certain that it holds something *now*: it may be suspended while its session expires
/// and another client acquires the lock. Two measures help, and careful programs use both. [`LockGuard::lost`] and
/// [`LockGuard::run`] stop the work before a server can expire the session, as long as this program's clock and threads
/// run and its server is not partitioned from the leader without having noticed yet (`syncLimit` ticks).
/// [`LockGuard::token`] is a fencing token: it grows from owner to owner, so a store that remembers the largest token
/// it has seen, and rejects smaller ones, is safe from a late owner.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::lock::Lock;
/// let lock = Lock::new(&client, "/lock");
/// let first = lock.acquire().await?;
/// let answer = first.run(async { 6 * 7 }).await?; // stopped when the lock may be lost
/// assert_eq!(answer, 42);
/// let token = first.token();
/// first.release().await?;
/// assert!(token < lock.acquire().await?.token());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "dropping the guard releases it"]
pub struct LockGuard(Arc<WaitNode>);

impl LockGuard {
    pub(crate) fn new(node: WaitNode) -> Self {
        Self(Arc::new(node))
    }

    /// The fencing token: the zxid of the transaction that created the node. Later owners have larger tokens.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// println!("send {} with everything that is written", held.token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn token(&self) -> Zxid {
        self.0.token
    }

    /// The node that represents the lock, lease or leadership.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// println!("{}", held.path());
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Whether the session cannot have expired yet, by this machine's clock.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// assert!(held.is_safe());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_safe(&self) -> bool {
        let client = self.0.client();
        !client.state().is_final() && Instant::now() < client.session_lost_after()
    }

    /// Waits until the guard can no longer be relied on, and returns why: the session has ended or may expire soon, or the
    /// node was deleted. Drop the guard then: a session that did not expire still holds the node.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// tokio::select! {
    ///     cause = held.lost() => println!("stop now: {cause}"),
    ///     () = tokio::time::sleep(std::time::Duration::from_secs(1)) => println!("done"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LossCause {
        tokio::select! {
            cause = session_lost(self.0.client()) => cause,
            cause = self.deleted() => cause,
        }
    }

    /// Runs `work` as long as the guard is valid. Before another client can acquire the same lock, the work is dropped
    /// and the error is [`RecipeError::Lost`].
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// let answer = held.run(async { 6 * 7 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, RecipeError> {
        tokio::select! {
            biased;
            cause = self.lost() => Err(RecipeError::lost(self.path(), cause)),
            done = work => Ok(done),
        }
    }

    /// Waits until another client asks for release with [`Lock::revoke`](crate::lock::Lock::revoke). The owner decides
    /// whether to comply.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// held.revocation_requested().await?; // another client asks for it
    /// held.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revocation_requested(&self) -> Result<(), RecipeError> {
        loop {
            let (node, changed) = self.0.client().get_and_watch(self.path()).await?;
            if node.data == REVOKE {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Releases the lock and returns when that is confirmed. The lock stays held while clones exist.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// held.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<(), RecipeError> {
        match Arc::into_inner(self.0) {
            Some(node) => node.leave().await,
            None => Ok(()),
        }
    }

    async fn deleted(&self) -> LossCause {
        loop {
            match self.0.client().exists_and_watch(self.path()).await {
                Ok((Some(_), changed)) => drop(changed.await),
                Ok((None, _)) => return LossCause::NodeDeleted,
                Err(_) => return LossCause::SessionEnded, // nothing else ends the retries
            }
        }
    }
}

/// Asks the owner of a node to release it.
pub(crate) async fn revoke(client: &ox_client::Client, path: &str) -> Result<(), RecipeError> {
    client.set(path, REVOKE, ox_client::Version::Any).await?;
    Ok(())
}
