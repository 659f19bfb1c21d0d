//! A semaphore, in the layout of Curator's `InterProcessSemaphoreV2`.
//!
//! ```text
//! /pool
//!  ├─ locks                               whoever wants a lease takes this lock first
//!  │   └─ _c_<uuid>-lock-0000000012       watches the list of leases
//!  └─ leases                              never more than agreed on
//!      ├─ _c_<uuid>-lease-0000000004      held
//!      └─ _c_<uuid>-lease-0000000005      held
//! ```
//!
//! Only the owner of the lock watches the leases, so one client wakes up when a lease is given back.

use crate::error::Error;
use crate::guard::Held;
use crate::lock::Lock;
use crate::nodes::{child, name_of};
use crate::wait_queue::{Line, Seat};
use ox_client::Client;
use std::time::Duration;
use tokio::time::timeout;

const LEASE: &str = "lease-";

/// So many leases, given out first come, first served. All clients must agree on the number.
///
/// The tokens of leases grow in the order in which they were asked for. See [`Held`] for the limits: a lease whose session
/// expired goes to the next client.
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
    leases: Line,
    count: usize,
}

impl Semaphore {
    /// The semaphore at a path, with so many leases. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::semaphore::Semaphore;
    /// let pool = Semaphore::new(&client, "/pool", 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str, count: usize) -> Self {
        let leases = Line::new(client, &child(path, "leases"), &[LEASE]);
        Self { lock: Lock::new(client, &child(path, "locks")), leases, count }
    }

    /// Waits for a lease. Dropping the future gives up the place in the line.
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
    pub async fn acquire(&self) -> Result<Held, Error> {
        let turn = self.lock.acquire().await?;
        let lease = self.next().await?;
        turn.release().await?;
        Ok(lease)
    }

    /// One more lease, for the owner of the lock.
    async fn next(&self) -> Result<Held, Error> {
        let seat = self.leases.join(LEASE, b"").await?;
        self.await_room(&seat).await?;
        Ok(Held::new(seat))
    }

    /// Waits for a lease, but not longer. `None` when there was none in time.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::semaphore::Semaphore;
    /// let pool = Semaphore::new(&client, "/pool", 3);
    /// let lease = pool.acquire_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_within(&self, limit: Duration) -> Result<Option<Held>, Error> {
        timeout(limit, self.acquire()).await.ok().transpose()
    }

    /// Waits for several leases, and takes all or none. The others wait meanwhile, so that two clients that want many do not
    /// wait for each other's. Whoever asks for more leases than there are waits for ever.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::semaphore::Semaphore;
    /// let pool = Semaphore::new(&client, "/pool", 3);
    /// let leases = pool.acquire_many(2).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_many(&self, count: usize) -> Result<Vec<Held>, Error> {
        let turn = self.lock.acquire().await?;
        let mut leases = Vec::new();
        for _ in 0..count {
            leases.push(self.next().await?);
        }
        turn.release().await?;
        Ok(leases)
    }

    /// The nodes of the leases that are given out, and at most one that is asked for.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::semaphore::Semaphore;
    /// let pool = Semaphore::new(&client, "/pool", 3);
    /// println!("{} are given out", pool.leases().await?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leases(&self) -> Result<Vec<String>, Error> {
        let members = self.leases.members().await?;
        Ok(members.iter().map(|name| child(&self.leases.path, name)).collect())
    }

    async fn await_room(&self, seat: &Seat) -> Result<(), Error> {
        loop {
            let (names, changed) = self.leases.client.children_and_watch(&self.leases.path).await?;
            if !names.iter().any(|name| name == name_of(seat.path())) {
                return Err(seat.lost());
            }
            if names.len() <= self.count {
                return Ok(());
            }
            changed.await;
        }
    }
}
