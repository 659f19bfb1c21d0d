//! Leader election, in the layouts of Curator's `LeaderLatch` and `LeaderSelector`.
//!
//! ```text
//! /latch                                  a container          /selector
//!  ├─ _c_<uuid>-latch-0000000000  "a"     leads                 ├─ _c_<uuid>-lock-0000000000  "a"
//!  └─ _c_<uuid>-latch-0000000001  "b"     watches 0             └─ _c_<uuid>-lock-0000000001  "b"
//! ```
//!
//! The data of a node is the name of its client. When the leader leaves, only the next candidate wakes up.

use crate::error::{RecipeError, has_code};
use crate::guard::LockGuard;
use crate::lock::Lock;
use crate::nodes::child;
use crate::wait_queue::{WaitNode, WaitQueue, predecessor};
use ox_client::{Client, ErrorCode};

const LATCH: &str = "latch-";

/// A candidate that leads until it resigns.
///
/// A leader must stop when [`LockGuard::lost`] returns; run its work with [`LockGuard::run`], and protect its writes
/// with [`LockGuard::token`].
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
/// let leadership = alice.await_leadership().await?;
/// leadership.release().await?; // bob is next
/// let leadership = bob.await_leadership().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the latch leaves the election"]
pub struct LeaderLatch {
    queue: WaitQueue,
    node: WaitNode,
}

impl LeaderLatch {
    /// Joins the election under a name.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn join(client: &Client, path: &str, name: &str) -> Result<Self, RecipeError> {
        let queue = WaitQueue::new(client, path, &[LATCH]);
        let node = queue.join(LATCH, name.as_bytes()).await?;
        Ok(Self { queue, node })
    }

    /// Whether this client leads, by the state of the server it is connected to.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// println!("{}", latch.has_leadership().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn has_leadership(&self) -> Result<bool, RecipeError> {
        Ok(self.node.blocker(predecessor).await?.is_none())
    }

    /// Waits until this client leads. Dropping the future leaves the election.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// let leadership = latch.await_leadership().await?;
    /// println!("leads with token {}", leadership.token());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn await_leadership(self) -> Result<LockGuard, RecipeError> {
        self.node.await_turn(predecessor).await?;
        Ok(LockGuard::new(self.node))
    }

    /// Returns the name of the leader; `None` if there are no candidates.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// println!("{:?} leads", latch.leader().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leader(&self) -> Result<Option<String>, RecipeError> {
        leader(&self.queue).await
    }

    /// Returns the names of all candidates, the leader first.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// println!("{:?}", latch.participants().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn participants(&self) -> Result<Vec<String>, RecipeError> {
        participants(&self.queue).await
    }

    /// Leaves the election and returns when that is confirmed.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderLatch;
    /// let latch = LeaderLatch::join(&client, "/election", "alice").await?;
    /// latch.leave().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(self) -> Result<(), RecipeError> {
        self.node.leave().await
    }
}

/// An election for terms of leadership: the leader runs a piece of work and then queues again as the last candidate.
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
///         // Writes carry the fencing token.
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
    /// Creates a handle to the election at a path for a named client, without any request.
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

    /// Waits for leadership and runs `work` as long as it lasts. Leadership ends with the work.
    ///
    /// The work is dropped before the session can expire and another client can lead (as long as this program's clock
    /// and threads run); the error is [`RecipeError::Lost`] then. Dropping the future leaves the election.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderSelector;
    /// let selector = LeaderSelector::new(&client, "/master", "alice");
    /// loop {
    ///     // One term after the other. `RecipeError::Lost` means that the work was stopped and another client may lead.
    ///     selector.run_as_leader(|leadership| async move { println!("token {}", leadership.token()) }).await?;
    /// #   break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_as_leader<T, F: Future<Output = T>>(
        &self,
        work: impl FnOnce(LockGuard) -> F,
    ) -> Result<T, RecipeError> {
        let leadership = self.0.acquire().await?;
        let done = leadership.run(work(leadership.clone())).await?;
        match leadership.release().await {
            // The session ended after the work was done.
            Err(error) if !error.is_session_ended() => Err(error),
            Ok(()) | Err(_) => Ok(done),
        }
    }

    /// Returns the name of the leader; `None` if there are no candidates.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderSelector;
    /// let selector = LeaderSelector::new(&client, "/master", "alice");
    /// println!("{:?} leads", selector.leader().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leader(&self) -> Result<Option<String>, RecipeError> {
        leader(self.0.queue()).await
    }

    /// Returns the names of all candidates, the leader first.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderSelector;
    /// let selector = LeaderSelector::new(&client, "/master", "alice");
    /// println!("{:?}", selector.participants().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn participants(&self) -> Result<Vec<String>, RecipeError> {
        participants(self.0.queue()).await
    }

    /// Asks the leader to resign; see [`LockGuard::revocation_requested`]. Returns false if there is no leader.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::leader::LeaderSelector;
    /// let selector = LeaderSelector::new(&client, "/master", "alice");
    /// let is_asked = selector.revoke().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revoke(&self) -> Result<bool, RecipeError> {
        self.0.revoke().await
    }
}

async fn leader(queue: &WaitQueue) -> Result<Option<String>, RecipeError> {
    for name in queue.members().await? {
        if let Some(name) = label(queue, &name).await? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

async fn participants(queue: &WaitQueue) -> Result<Vec<String>, RecipeError> {
    let mut names = Vec::new();
    for name in queue.members().await? {
        names.extend(label(queue, &name).await?);
    }
    Ok(names)
}

/// The name of a candidate; `None` if it has left.
async fn label(queue: &WaitQueue, name: &str) -> Result<Option<String>, RecipeError> {
    let node = queue.client.get(&child(&queue.path, name)).await;
    if has_code(&node, ErrorCode::NoNode) {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&node?.data).into_owned()))
}
