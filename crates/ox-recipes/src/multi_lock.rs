//! Several locks as one.

use crate::error::Error;
use crate::guard::Held;
use crate::lock::Lock;
use ox_client::Client;
use std::time::Duration;
use tokio::time::timeout;

/// Several [locks](Lock) that are taken together. They are taken in the order of their paths, whatever the order they are
/// named in, so that two multi-locks never wait for each other.
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

/// All locks of a [`MultiLock`]. They are given back when it is dropped.
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
#[must_use = "what is dropped is given back"]
pub struct MultiHeld(Vec<Held>);

impl MultiLock {
    /// The locks at these paths. Nothing happens yet.
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

    /// Waits for all locks. Dropping the future gives back those that it has.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// let held = both.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<MultiHeld, Error> {
        let mut held = MultiHeld(Vec::new());
        for lock in &self.0 {
            held.0.push(lock.acquire().await?);
        }
        Ok(held)
    }

    /// Waits for all locks, but not longer. `None` when they were not free in time.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// let held = both.acquire_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<Option<MultiHeld>, Error> {
        timeout(limit, self.acquire()).await.ok().transpose()
    }
}

impl MultiHeld {
    /// Each lock, in the order of the paths.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// for held in both.acquire().await?.each() {
    ///     println!("{} with token {}", held.path(), held.token());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn each(&self) -> &[Held] {
        &self.0
    }

    /// Waits until one of the locks can no longer be relied on: see [`Held::lost`].
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// both.acquire().await?.lost().await; // until then it can be relied on
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) {
        let mut waiting: Vec<_> = self.0.iter().map(|held| Box::pin(held.lost())).collect();
        std::future::poll_fn(|cx| {
            let is_lost = waiting.iter_mut().any(|lost| lost.as_mut().poll(cx).is_ready());
            if is_lost { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    /// Gives all locks back, the last one first, and returns when that is certain.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::multi_lock::MultiLock;
    /// let both = MultiLock::new(&client, ["/from", "/to"]);
    /// both.acquire().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(mut self) -> Result<(), Error> {
        while let Some(held) = self.0.pop() {
            held.release().await?;
        }
        Ok(())
    }
}
