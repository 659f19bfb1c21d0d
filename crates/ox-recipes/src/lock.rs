//! An exclusive lock, in the layout of Curator's `InterProcessMutex`.
//!
//! ```text
//! /lock                                                            a container
//!  ├─ _c_1a4ad27c-8f18-4e3b-9d84-4ee3a3bd94d0-lock-0000000007      the owner; "__REVOKE__" in it asks it to let go
//!  └─ _c_f2d1b6a0-53c9-4b0e-a6f4-0c5f8f0d7c11-lock-0000000008      waits, watching 7
//! ```

use crate::error::Error;
use crate::guard::{self, Held};
use crate::nodes::child;
use crate::wait_queue::{Line, one_by_one};
use ox_client::Client;
use std::time::Duration;
use tokio::time::timeout;

const NAME: &str = "lock-";

/// A lock that one owner at a time can hold, first come, first served. Owners can be tasks of one program or programs of
/// any machine, Curator's `InterProcessMutex` among them.
///
/// Every acquisition is one owner, also within a client; clone the [`Held`] to pass a lock on. A lost connection changes
/// nothing; the end of the session ends waiting and holding. See [`Held`] for the limits and the fencing token.
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
    line: Line,
    label: Vec<u8>,
}

impl Lock {
    /// The lock at a path. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { line: Line::new(client, path, &[NAME]), label: Vec::new() }
    }

    /// What the node of an owner holds, for people to read.
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

    /// Where it is.
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
        &self.line.path
    }

    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    /// Waits for the lock. Dropping the future gives up the place in the line.
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
    pub async fn acquire(&self) -> Result<Held, Error> {
        let seat = self.line.join(NAME, &self.label).await?;
        seat.await_turn(one_by_one).await?;
        Ok(Held::new(seat))
    }

    /// Waits for the lock, but not longer. `None` when it was not free in time.
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
    pub async fn acquire_within(&self, limit: Duration) -> Result<Option<Held>, Error> {
        timeout(limit, self.acquire()).await.ok().transpose()
    }

    /// Takes the lock if it is free.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// if lock.try_acquire().await?.is_none() {
    ///     println!("somebody has it");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Held>, Error> {
        let seat = self.line.join(NAME, &self.label).await?;
        if seat.obstacle(one_by_one).await?.is_none() {
            return Ok(Some(Held::new(seat)));
        }
        seat.leave().await?;
        Ok(None)
    }

    /// The nodes of the owner and those who wait, in order.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::lock::Lock;
    /// let lock = Lock::new(&client, "/lock");
    /// println!("{} wait or hold it", lock.participants().await?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        let members = self.line.members().await?;
        Ok(members.iter().map(|name| child(self.path(), name)).collect())
    }

    /// Asks the owner to let go: see [`Held::asked_to_release`]. False when nobody has the lock.
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
    /// held.asked_to_release().await?;
    /// held.release().await?;
    /// assert!(!lock.revoke().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revoke(&self) -> Result<bool, Error> {
        loop {
            let Some(owner) = self.participants().await?.into_iter().next() else { return Ok(false) };
            match guard::revoke(&self.line.client, &owner).await {
                Ok(()) => return Ok(true),
                // The owner has changed meanwhile, or the answer is lost: asking twice is as good as once.
                Err(Error::Client(error)) if error.is_retriable() => (),
                Err(Error::Client(error)) if error.code() == Some(ox_client::ErrorCode::NoNode) => (),
                Err(error) => return Err(error),
            }
        }
    }
}
