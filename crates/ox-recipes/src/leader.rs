//! Leader election: a latch, in the layout of Curator's `LeaderLatch`, and a selector, in that of its `LeaderSelector`.
//!
//! ```text
//! /latch                                  a container          /selector
//!  ├─ _c_<uuid>-latch-0000000000  "a"     leads                 ├─ _c_<uuid>-lock-0000000000  "a"
//!  └─ _c_<uuid>-latch-0000000001  "b"     watches 0             └─ _c_<uuid>-lock-0000000001  "b"
//! ```
//!
//! The data of a node is the name of its client. When the leader goes, only the next in line wakes up.

use crate::error::{Error, says};
use crate::guard::Held;
use crate::lock::Lock;
use crate::nodes::child;
use crate::wait_queue::{Line, Seat, one_by_one};
use ox_client::{Client, ErrorCode};

const LATCH: &str = "latch-";

/// A place in an election that is kept until it is given up: leadership lasts as long as the leader likes.
///
/// A leader must stop leading when [`Held::lost`] says so; use [`Held::run`] for what it does, and [`Held::token`] to protect
/// what it writes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::leader::LeaderLatch;
/// let alice = LeaderLatch::join(&client, "/election", "alice").await?;
/// let bob = LeaderLatch::join(&client, "/election", "bob").await?;
/// assert_eq!(bob.leader().await?.as_deref(), Some("alice"));
/// let leadership = alice.lead().await?;
/// leadership.release().await?; // bob is the next
/// let leadership = bob.lead().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "who drops the latch leaves the election"]
pub struct LeaderLatch {
    line: Line,
    seat: Seat,
}

impl LeaderLatch {
    /// Stands for election under a name.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn join(client: &Client, path: &str, name: &str) -> Result<Self, Error> {
        let line = Line::new(client, path, &[LATCH]);
        let seat = line.join(LATCH, name.as_bytes()).await?;
        Ok(Self { line, seat })
    }

    /// Whether this client leads now, as far as a server knows.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// println!("{}", latch.leads().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leads(&self) -> Result<bool, Error> {
        Ok(self.seat.obstacle(one_by_one).await?.is_none())
    }

    /// Waits until this client leads. Dropping the future leaves the election.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// let leadership = latch.lead().await?;
    /// println!("leads with token {}", leadership.token());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lead(self) -> Result<Held, Error> {
        self.seat.await_turn(one_by_one).await?;
        Ok(Held::new(self.seat))
    }

    /// The name of the leader; `None` when nobody stands for election.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// println!("{:?} leads", latch.leader().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leader(&self) -> Result<Option<String>, Error> {
        leader(&self.line).await
    }

    /// The names of all who stand for election, the leader first.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// println!("{:?}", latch.participants().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        participants(&self.line).await
    }

    /// Leaves the election, and returns when that is certain.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// latch.leave().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(self) -> Result<(), Error> {
        self.seat.leave().await
    }
}

/// An election for terms of office: the leader does a piece of work, and goes to the end of the line.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::leader::LeaderSelector;
/// let selector = LeaderSelector::new(&client, "/master", "alice");
/// let term = selector
///     .run_as_leader(|leadership| async move {
///         // What is written now carries the fencing token.
///         leadership.token()
///     })
///     .await?;
/// let next = selector.run_as_leader(|leadership| async move { leadership.token() }).await?;
/// assert!(term < next);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LeaderSelector(Lock);

impl LeaderSelector {
    /// The election at a path, for a client with this name. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderSelector;
    /// let selector = LeaderSelector::new(&client, "/master", "alice");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str, name: &str) -> Self {
        Self(Lock::new(client, path).with_label(name))
    }

    /// Waits for leadership, and does some work as long as it lasts. Leadership ends with the work.
    ///
    /// The work is dropped before the session can be lost, and before another client can lead (as long as this program's
    /// clock and threads run); the error is [`Error::Lost`] then. Dropping the future leaves the election.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderSelector;
    /// let selector = LeaderSelector::new(&client, "/master", "alice");
    /// loop {
    ///     // One term after the other. `Error::Lost` says that the work was stopped, and somebody else may lead.
    ///     selector.run_as_leader(|leadership| async move { println!("token {}", leadership.token()) }).await?;
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_as_leader<T, F: Future<Output = T>>(&self, work: impl FnOnce(Held) -> F) -> Result<T, Error> {
        let leadership = self.0.acquire().await?;
        let done = leadership.run(work(leadership.clone())).await?;
        match leadership.release().await {
            // It has ended with the session, and the work was done before.
            Err(error) if !error.is_session_over() => Err(error),
            Ok(()) | Err(_) => Ok(done),
        }
    }

    /// The name of the leader; `None` when nobody stands for election.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderSelector;
    /// let selector = LeaderSelector::new(&client, "/master", "alice");
    /// println!("{:?} leads", selector.leader().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leader(&self) -> Result<Option<String>, Error> {
        leader(self.0.line()).await
    }

    /// The names of all who stand for election, the leader first.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderSelector;
    /// let selector = LeaderSelector::new(&client, "/master", "alice");
    /// println!("{:?}", selector.participants().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        participants(self.0.line()).await
    }

    /// Asks the leader to give way: see [`Held::asked_to_release`]. False when nobody leads.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderSelector;
    /// let selector = LeaderSelector::new(&client, "/master", "alice");
    /// let is_asked = selector.revoke().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revoke(&self) -> Result<bool, Error> {
        self.0.revoke().await
    }
}

async fn leader(line: &Line) -> Result<Option<String>, Error> {
    for name in line.members().await? {
        if let Some(name) = label(line, &name).await? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

async fn participants(line: &Line) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for name in line.members().await? {
        names.extend(label(line, &name).await?);
    }
    Ok(names)
}

/// What a member is called; `None` when it has left.
async fn label(line: &Line, name: &str) -> Result<Option<String>, Error> {
    let node = line.client.get(&child(&line.path, name)).await;
    if says(&node, ErrorCode::NoNode) {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&node?.data).into_owned()))
}
