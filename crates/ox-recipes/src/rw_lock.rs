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
//! A writer waits for everybody before it, a reader for writers only. When a node goes, those who wake up can go on, or
//! wait for one other node; nobody wakes up in vain but where somebody gave up waiting.

use crate::error::Error;
use crate::guard::Held;
use crate::nodes::name_of;
use crate::wait_queue::{Line, Rule, one_by_one};
use ox_client::{Client, CreateMode};
use std::time::Duration;
use tokio::time::timeout;

const READ: &str = "__READ__";
const WRITE: &str = "__WRIT__";

/// A reader waits for the last writer before it: those before that one are waited for by it.
fn last_writer(ahead: &[String]) -> Option<&String> {
    ahead.iter().rev().find(|name| name.contains(WRITE))
}

/// A lock that many readers or one writer can hold, first come, first served: a writer that waits holds up later readers, so
/// that it gets its turn.
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
    line: Line,
    label: Vec<u8>,
}

impl RwLock {
    /// The lock at a path. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { line: Line::new(client, path, &[READ, WRITE]), label: Vec::new() }
    }

    /// What the node of an owner holds, for people to read.
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

    /// Waits until no writer is before us. Dropping the future gives up the place in the line.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// lock.read().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read(&self) -> Result<Held, Error> {
        self.wait(READ, last_writer).await
    }

    /// Waits until nobody is before us. Dropping the future gives up the place in the line.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// lock.write().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write(&self) -> Result<Held, Error> {
        self.wait(WRITE, one_by_one).await
    }

    /// [`RwLock::read`], but not longer. `None` when it was not free in time.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// let reader = lock.read_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_within(&self, limit: Duration) -> Result<Option<Held>, Error> {
        timeout(limit, self.read()).await.ok().transpose()
    }

    /// [`RwLock::write`], but not longer. `None` when it was not free in time.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// let writer = lock.write_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_within(&self, limit: Duration) -> Result<Option<Held>, Error> {
        timeout(limit, self.write()).await.ok().transpose()
    }

    /// Reads if no writer is before us.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// let reader = lock.try_read().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_read(&self) -> Result<Option<Held>, Error> {
        self.attempt(READ, last_writer).await
    }

    /// Writes if nobody is before us.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::rw_lock::RwLock;
    /// let lock = RwLock::new(&client, "/table");
    /// let writer = lock.try_write().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_write(&self) -> Result<Option<Held>, Error> {
        self.attempt(WRITE, one_by_one).await
    }

    /// Turns a writer into a reader, without a moment in which another writer could come between. Later readers can
    /// go on then, unless a writer is before them.
    ///
    /// There is no way back: two readers that wait to become the writer would wait for each other.
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
    pub async fn downgrade(&self, writer: Held) -> Result<Held, Error> {
        let lost = || Error::Lost { path: writer.path().to_owned() };
        let number = self.line.number(name_of(writer.path())).ok_or_else(lost)?;
        let mut reader = self.line.join_as(&format!("{READ}{number}"), &self.label, CreateMode::Ephemeral).await?;
        reader.token = writer.token(); // those who wait have larger ones, although their nodes are older
        writer.release().await?;
        Ok(Held::new(reader))
    }

    async fn wait(&self, name: &str, rule: Rule) -> Result<Held, Error> {
        let seat = self.line.join(name, &self.label).await?;
        seat.await_turn(rule).await?;
        Ok(Held::new(seat))
    }

    async fn attempt(&self, name: &str, rule: Rule) -> Result<Option<Held>, Error> {
        let seat = self.line.join(name, &self.label).await?;
        if seat.obstacle(rule).await?.is_none() {
            return Ok(Some(Held::new(seat)));
        }
        seat.leave().await?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_wait_for_the_last_writer() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(last_writer(&names(&[])), None);
        assert_eq!(last_writer(&names(&["__READ__1", "__READ__2"])), None);
        let ahead = names(&["__WRIT__1", "__READ__2", "__WRIT__3", "__READ__4"]);
        assert_eq!(last_writer(&ahead), Some(&ahead[2]));
    }
}
