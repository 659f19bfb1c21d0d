//! A semaphore, in the layout of Curator's `InterProcessSemaphoreV2`.
//!
//! ```text
//! /pool
//!  ├─ locks                               acquired before a lease
//!  │   └─ _c_<uuid>-lock-0000000012       watches the list of leases
//!  └─ leases                              never more than the limit, plus one that waits
//!      ├─ _c_<uuid>-lease-0000000004      held
//!      └─ _c_<uuid>-lease-0000000005      held
//! ```
//!
//! Only the owner of the lock watches the leases, so a released lease wakes up one client.

use crate::error::RecipeError;
use crate::guard::LockGuard;
use crate::lock::Lock;
use crate::nodes::{child, name_of, parent_of};
use crate::wait_queue::{WaitNode, WaitQueue};
use ox_client::Client;
use std::time::Duration;
use tokio::time::timeout;

const LEASE: &str = "lease-";

/// A fixed number of leases, granted in the order of requests. All clients must use the same number.
///
/// The tokens of leases grow in the order of requests. See [`LockGuard`] for the limits: a lease whose session expired
/// is granted to the next client.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::semaphore::Semaphore;
/// use std::time::Duration;
/// let pool = Semaphore::new(&client, "/pool", 2);
/// let (one, other) = (pool.acquire().await?, pool.acquire().await?);
/// assert!(pool.acquire_within(Duration::from_millis(10)).await?.is_none());
/// one.release().await?;
/// let third = pool.acquire().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    lock: Lock,
    leases: WaitQueue,
    count: usize,
}

impl Semaphore {
    /// Creates a handle to the semaphore at a path with `count` leases, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::semaphore::Semaphore;
    /// let pool = Semaphore::new(&client, "/pool", 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str, count: usize) -> Self {
        let leases = WaitQueue::new(client, &child(path, "leases"), &[LEASE]);
        Self { lock: Lock::new(client, &child(path, "locks")), leases, count }
    }

    /// Waits for a lease. Dropping the future leaves the wait queue.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::semaphore::Semaphore;
    /// let pool = Semaphore::new(&client, "/pool", 3);
    /// let lease = pool.acquire().await?;
    /// lease.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<LockGuard, RecipeError> {
        self.check(1)?;
        let turn = self.lock.acquire().await?;
        let lease = self.next().await?;
        turn.release().await?;
        Ok(lease)
    }

    /// Acquires one lease; the caller holds the lock.
    async fn next(&self) -> Result<LockGuard, RecipeError> {
        let node = self.leases.join(LEASE, b"").await?;
        self.await_lease(&node).await?;
        Ok(LockGuard::new(node))
    }

    /// Waits for a lease for at most `limit`. Returns `None` if none was acquired in time.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::semaphore::Semaphore;
    /// let pool = Semaphore::new(&client, "/pool", 3);
    /// let lease = pool.acquire_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<Option<LockGuard>, RecipeError> {
        timeout(limit, self.acquire()).await.ok().transpose()
    }

    /// Acquires several leases, all or none. Other clients wait meanwhile, so that two clients that want several leases
    /// cannot deadlock. More leases than the semaphore has, and none, are an [error](RecipeError::InvalidArgument).
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::semaphore::Semaphore;
    /// let pool = Semaphore::new(&client, "/pool", 3);
    /// let leases = pool.acquire_many(2).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_many(&self, count: usize) -> Result<Vec<LockGuard>, RecipeError> {
        self.check(count)?;
        let turn = self.lock.acquire().await?;
        let mut leases = Vec::new();
        for _ in 0..count {
            leases.push(self.next().await?);
        }
        turn.release().await?;
        Ok(leases)
    }

    /// Returns the nodes of the granted leases, plus at most one that is waiting.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::semaphore::Semaphore;
    /// let pool = Semaphore::new(&client, "/pool", 3);
    /// println!("{} leases granted", pool.leases().await?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leases(&self) -> Result<Vec<String>, RecipeError> {
        let members = self.leases.members().await?;
        Ok(members.iter().map(|name| child(&self.leases.path, name)).collect())
    }

    /// Fails if so many leases can never be granted.
    fn check(&self, count: usize) -> Result<(), RecipeError> {
        if (1..=self.count).contains(&count) {
            return Ok(());
        }
        let reason = format!("cannot request {count} of {} leases", self.count);
        Err(RecipeError::InvalidArgument { path: parent_of(&self.leases.path).to_owned(), reason })
    }

    async fn await_lease(&self, node: &WaitNode) -> Result<(), RecipeError> {
        loop {
            let (names, changed) = self.leases.client.children_and_watch(&self.leases.path).await?;
            if !names.iter().any(|name| name == name_of(node.path())) {
                return Err(node.deleted());
            }
            if names.len() <= self.count {
                return Ok(());
            }
            changed.await;
        }
    }
}
