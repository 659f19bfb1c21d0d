//! Several locks that are acquired together.

use crate::error::{LossCause, RecipeError};
use crate::guard::LockGuard;
use crate::lock::Lock;
use ox_client::Client;
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;

/// Several [locks](Lock) that are acquired together. They are acquired in the order of their paths, whatever the order
/// of the arguments, so that two multi-locks cannot deadlock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::{lock::Lock, multi_lock::MultiLock};
/// let both = MultiLock::new(&client, ["/from", "/to"]);
/// let held = both.acquire().await?;
/// assert!(Lock::new(&client, "/to").try_acquire().await?.is_none());
/// held.release().await?;
/// assert!(Lock::new(&client, "/to").try_acquire().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MultiLock(Vec<Lock>);

/// All locks of a [`MultiLock`]; dropping it releases them.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::multi_lock::MultiLock;
/// let both = MultiLock::new(&client, ["/from", "/to"]);
/// let held = both.acquire().await?;
/// held.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiLockGuard(Vec<LockGuard>);

impl MultiLock {
    /// Creates a handle to the locks at these paths, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new<P: Into<String>>(client: &Client, paths: impl IntoIterator<Item = P>) -> Self {
        let mut paths: Vec<String> = paths.into_iter().map(Into::into).collect();
        paths.sort();
        paths.dedup();
        Self(paths.iter().map(|path| Lock::new(client, path)).collect())
    }

    /// Waits for all locks. Dropping the future releases those already acquired.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// let held = both.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<MultiLockGuard, RecipeError> {
        let mut held = MultiLockGuard(Vec::new());
        for lock in &self.0 {
            held.0.push(lock.acquire().await?);
        }
        Ok(held)
    }

    /// Waits for all locks for at most `limit`. Returns `None` if they were not acquired in time.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// let held = both.acquire_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<Option<MultiLockGuard>, RecipeError> {
        timeout(limit, self.acquire()).await.ok().transpose()
    }
}

impl MultiLockGuard {
    /// The guards of the single locks, in the order of their paths.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// for held in both.acquire().await?.guards() {
    ///     println!("{} with token {}", held.path(), held.token());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn guards(&self) -> &[LockGuard] {
        &self.0
    }

    /// Waits until one of the locks can no longer be relied on, and returns why; see [`LockGuard::lost`].
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// both.acquire().await?.lost().await; // valid until then
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LossCause {
        let mut waiting: Vec<_> = self.0.iter().map(|held| Box::pin(held.lost())).collect();
        std::future::poll_fn(|cx| {
            let mut polled = waiting.iter_mut().map(|lost| lost.as_mut().poll(cx));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// Releases all locks in reverse order and returns when that is confirmed.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// both.acquire().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(mut self) -> Result<(), RecipeError> {
        while let Some(held) = self.0.pop() {
            held.release().await?;
        }
        Ok(())
    }
}
