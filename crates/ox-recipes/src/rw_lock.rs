//! A lock for many readers or one writer, in the layout of Curator's `InterProcessReadWriteLock`.
//!
//! ```text
//! /lock                                  a container
//!  ├─ _c_<uuid>-__READ__0000000003       reads
//!  ├─ _c_<uuid>-__READ__0000000004       reads
//!  ├─ _c_<uuid>-__WRIT__0000000005       waits, watching 4: the node before it
//!  ├─ _c_<uuid>-__READ__0000000006       waits, watching 5: the last writer before it
//!  └─ _c_<uuid>-__READ__0000000007       waits, watching 5
//! ```
//!
//! A writer waits for every node before it, a reader for writers only. A deleted node wakes up clients that can then
//! proceed, or that wait for one other node; a client is woken up in vain only if another client has left the queue.

use crate::error::RecipeError;
use crate::guard::LockGuard;
use crate::nodes::name_of;
use crate::wait_queue::{WaitQueue, WaitRule, predecessor};
use ox_client::{Client, CreateMode};
use std::time::Duration;
use tokio::time::timeout;

const READ: &str = "__READ__";
const WRITE: &str = "__WRIT__";

/// A reader waits for the last writer before it, which in turn waits for all nodes before it.
fn last_writer(ahead: &[String]) -> Option<&String> {
    ahead.iter().rev().find(|name| name.contains(WRITE))
}

/// A lock for many readers or one writer, granted in the order of requests: a waiting writer blocks later readers, so
/// that it is not starved.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::rw_lock::RwLock;
/// let lock = RwLock::new(&client, "/table");
/// let (one, other) = (lock.read().await?, lock.read().await?);
/// assert!(lock.try_write().await?.is_none());
/// drop((one, other));
/// let writer = lock.write().await?;
/// let reader = lock.downgrade(writer).await?;
/// assert!(lock.try_read().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    queue: WaitQueue,
    label: Vec<u8>,
}

impl RwLock {
    /// Creates a handle to the lock at a path, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { queue: WaitQueue::new(client, path, &[READ, WRITE]), label: Vec::new() }
    }

    /// Sets the data of the owners' nodes, for people who inspect them.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table").with_label("host 7");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_label(mut self, label: impl AsRef<[u8]>) -> Self {
        self.label = label.as_ref().to_vec();
        self
    }

    /// Waits for the read lock. Dropping the future leaves the wait queue.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// lock.read().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(&self) -> Result<LockGuard, RecipeError> {
        self.wait(READ, last_writer).await
    }

    /// Waits for the write lock. Dropping the future leaves the wait queue.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// lock.write().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write(&self) -> Result<LockGuard, RecipeError> {
        self.wait(WRITE, predecessor).await
    }

    /// Waits for the read lock for at most `limit`. Returns `None` if it was not acquired in time.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// let reader = lock.read_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_within(&self, limit: Duration) -> Result<Option<LockGuard>, RecipeError> {
        timeout(limit, self.read()).await.ok().transpose()
    }

    /// Waits for the write lock for at most `limit`. Returns `None` if it was not acquired in time.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// let writer = lock.write_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_within(&self, limit: Duration) -> Result<Option<LockGuard>, RecipeError> {
        timeout(limit, self.write()).await.ok().transpose()
    }

    /// Acquires the read lock if no writer holds it or waits for it.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// let reader = lock.try_read().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_read(&self) -> Result<Option<LockGuard>, RecipeError> {
        self.attempt(READ, last_writer).await
    }

    /// Acquires the write lock if it is free.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// let writer = lock.try_write().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_write(&self) -> Result<Option<LockGuard>, RecipeError> {
        self.attempt(WRITE, predecessor).await
    }

    /// Turns a write lock into a read lock without releasing it in between. Later readers can then proceed unless
    /// another writer is before them.
    ///
    /// An upgrade does not exist: two readers waiting to become the writer would deadlock.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// let writer = lock.write().await?;
    /// let reader = lock.downgrade(writer).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn downgrade(&self, writer: LockGuard) -> Result<LockGuard, RecipeError> {
        let foreign = || RecipeError::InvalidArgument {
            path: self.queue.path.clone(),
            reason: format!("{} is not a writer of this lock", writer.path()),
        };
        let number = self.queue.number(name_of(writer.path())).ok_or_else(foreign)?;
        let mut reader = self.queue.join_as(&format!("{READ}{number}"), &self.label, CreateMode::Ephemeral).await?;
        reader.token = writer.token(); // waiting clients have larger tokens although their nodes are older
        writer.release().await?;
        Ok(LockGuard::new(reader))
    }

    async fn wait(&self, name: &str, rule: WaitRule) -> Result<LockGuard, RecipeError> {
        let node = self.queue.join(name, &self.label).await?;
        node.await_turn(rule).await?;
        Ok(LockGuard::new(node))
    }

    async fn attempt(&self, name: &str, rule: WaitRule) -> Result<Option<LockGuard>, RecipeError> {
        let node = self.queue.join(name, &self.label).await?;
        if node.blocker(rule).await?.is_none() {
            return Ok(Some(LockGuard::new(node)));
        }
        node.leave().await?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_waits_for_last_writer_ahead() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(last_writer(&names(&[])), None);
        assert_eq!(last_writer(&names(&["__READ__1", "__READ__2"])), None);
        let ahead = names(&["__WRIT__1", "__READ__2", "__WRIT__3", "__READ__4"]);
        assert_eq!(last_writer(&ahead), Some(&ahead[2]));
    }
}
