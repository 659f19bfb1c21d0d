//! What a client holds: a lock, a lease, leadership.

use crate::error::Error;
use crate::sessions::session_lost;
use crate::wait_queue::Seat;
use ox_client::Zxid;
use std::sync::Arc;
use std::time::Instant;

/// What the data of a node says when its owner is asked to let go, as in Curator.
const REVOKE: &[u8] = b"__REVOKE__";

/// A lock, a lease or leadership that this client holds. It is given back with the last clone: clones are how code that holds
/// something lets code that it calls hold the same (a re-entrant lock).
///
/// **Limits.** No client can know for certain that it holds something *now*: it may be asleep while its session expires and somebody
/// else gets its turn. Two things help, and careful programs use both. [`Held::lost`] and [`Held::run`] stop the work before a
/// server can give the session away, as long as this program's clock and threads run, and its server is not itself cut off from
/// its leader without knowing it yet (`syncLimit` ticks). [`Held::token`] protects what is written: it
/// grows from owner to owner, so a store that remembers the largest token it has seen, and refuses smaller ones, cannot be harmed by
/// an owner that woke up late.
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
#[must_use = "what is dropped is given back"]
pub struct Held(Arc<Seat>);

impl Held {
    pub(crate) fn new(seat: Seat) -> Self {
        Self(Arc::new(seat))
    }

    /// The fencing token: the transaction that created the node. Later owners have larger ones.
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

    /// The node that stands for it.
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

    /// Whether no server can have given the session up yet, as far as this machine's clock tells.
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

    /// Waits until it can no longer be relied on: the session is over or will be soon unless a server is heard of, or
    /// somebody has deleted the node.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// tokio::select! {
    ///     () = held.lost() => println!("stop now"),
    ///     () = tokio::time::sleep(std::time::Duration::from_secs(1)) => println!("done"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) {
        tokio::select! {
            () = session_lost(self.0.client()) => (),
            () = self.deleted() => (),
        }
    }

    /// Does some work as long as it is held. The work is dropped, and the error is [`Error::Lost`], before another client
    /// can hold the same.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// let answer = held.run(async { 6 * 7 }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.lost() => Err(self.0.lost()),
            done = work => Ok(done),
        }
    }

    /// Waits until somebody asks for it with [`Lock::revoke`](crate::lock::Lock::revoke). Whether to let go is up to the owner.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// held.asked_to_release().await?; // somebody wants it
    /// held.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn asked_to_release(&self) -> Result<(), Error> {
        loop {
            let (node, changed) = self.0.client().get_and_watch(self.path()).await?;
            if node.data == REVOKE {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Gives it back, and returns when that is certain. While there are clones, it stays held.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = ox_recipes::lock::Lock::new(&client, "/lock").acquire().await?;
    /// held.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<(), Error> {
        match Arc::into_inner(self.0) {
            Some(seat) => seat.leave().await,
            None => Ok(()),
        }
    }

    async fn deleted(&self) {
        // When the session is over, so is the node.
        while let Ok((Some(_), changed)) = self.0.client().exists_and_watch(self.path()).await {
            changed.await;
        }
    }
}

/// Asks the owner of a node to let go.
pub(crate) async fn revoke(client: &ox_client::Client, path: &str) -> Result<(), Error> {
    client.set(path, REVOKE, ox_client::Version::Any).await?;
    Ok(())
}
