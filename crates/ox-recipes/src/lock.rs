//! An exclusive lock, in the layout of Curator's `InterProcessMutex`.
//!
//! ```text
//! /lock                                                            a container
//!  ├─ _c_1a4ad27c-8f18-4e3b-9d84-4ee3a3bd94d0-lock-0000000007      the owner; "__REVOKE__" in it asks it to let go
//!  └─ _c_f2d1b6a0-53c9-4b0e-a6f4-0c5f8f0d7c11-lock-0000000008      waits, watching 7
//! ```

use crate::error::RecipeError;
use crate::guard::{self, LockGuard};
use crate::nodes::child;
use crate::wait_queue::{WaitQueue, predecessor};
use ox_client::Client;
use std::time::Duration;
use tokio::time::timeout;

const NAME: &str = "lock-";

/// A lock with one owner at a time, granted in the order of requests. Owners can be tasks of one program or programs on
/// any machine, including Curator's `InterProcessMutex`.
///
/// Every acquisition is a separate owner, also within one client; clone the [`LockGuard`] to share a lock. A connection
/// loss changes nothing; the end of the session ends waiting and holding. See [`LockGuard`] for the limits and the
/// fencing token.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::lock::Lock;
/// use std::time::Duration;
/// let lock = Lock::new(&client, "/jobs/nightly");
/// let held = lock.acquire().await?;
/// assert!(lock.try_acquire().await?.is_none());
/// assert!(lock.acquire_within(Duration::from_millis(10)).await?.is_none());
/// held.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lock {
    queue: WaitQueue,
    label: Vec<u8>,
}

impl Lock {
    /// Creates a handle to the lock at a path, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { queue: WaitQueue::new(client, path, &[NAME]), label: Vec::new() }
    }

    /// Sets the data of the owners' nodes, for people who inspect them.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock").with_label("host 7");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_label(mut self, label: impl AsRef<[u8]>) -> Self {
        self.label = label.as_ref().to_vec();
        self
    }

    /// The parent node of the lock.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// assert_eq!(lock.path(), "/lock");
    /// # Ok(())
    /// # }
    /// ```
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    pub(crate) fn queue(&self) -> &WaitQueue {
        &self.queue
    }

    /// Waits for the lock. Dropping the future leaves the wait queue.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// let held = lock.acquire().await?;
    /// held.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<LockGuard, RecipeError> {
        let node = self.queue.join(NAME, &self.label).await?;
        node.await_turn(predecessor).await?;
        Ok(LockGuard::new(node))
    }

    /// Waits for the lock for at most `limit`. Returns `None` if it was not acquired in time.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// use std::time::Duration;
    /// if let Some(held) = lock.acquire_within(Duration::from_secs(5)).await? {
    ///     held.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<Option<LockGuard>, RecipeError> {
        timeout(limit, self.acquire()).await.ok().transpose()
    }

    /// Acquires the lock if it is free.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// if lock.try_acquire().await?.is_none() {
    ///     println!("the lock is held");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, RecipeError> {
        let node = self.queue.join(NAME, &self.label).await?;
        if node.blocker(predecessor).await?.is_none() {
            return Ok(Some(LockGuard::new(node)));
        }
        node.leave().await?;
        Ok(None)
    }

    /// Returns the nodes of the owner and of waiting clients, in order.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// println!("{} wait or hold it", lock.participants().await?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn participants(&self) -> Result<Vec<String>, RecipeError> {
        let members = self.queue.members().await?;
        Ok(members.iter().map(|name| child(self.path(), name)).collect())
    }

    /// Asks the owner to release the lock; see [`LockGuard::revocation_requested`]. Returns false if the lock is free.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// let held = lock.acquire().await?;
    /// assert!(lock.revoke().await?);
    /// held.revocation_requested().await?;
    /// held.release().await?;
    /// assert!(!lock.revoke().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revoke(&self) -> Result<bool, RecipeError> {
        loop {
            let Some(owner) = self.participants().await?.into_iter().next() else { return Ok(false) };
            match guard::revoke(&self.queue.client, &owner).await {
                Ok(()) => return Ok(true),
                // The owner has changed, or the reply is lost: asking again is harmless.
                Err(RecipeError::Client(error)) if error.is_retriable() => (),
                Err(RecipeError::Client(error)) if error.code() == Some(ox_client::ErrorCode::NoNode) => (),
                Err(error) => return Err(error),
            }
        }
    }
}
