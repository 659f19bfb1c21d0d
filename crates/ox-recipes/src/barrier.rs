//! Barriers, in the layouts of Curator's `DistributedBarrier` and `DistributedDoubleBarrier`.
//!
//! ```text
//! /gate                                       exists: clients wait; deleted: they continue
//!
//! /round                                       a container
//!  ├─ ready                                   exists: enough members have entered
//!  ├─ 1a4ad27c-8f18-4e3b-9d84-4ee3a3bd94d0    ephemeral: a member that has entered and not left
//!  └─ f2d1b6a0-53c9-4b0e-a6f4-0c5f8f0d7c11
//! ```

use crate::error::{RecipeError, has_code};
use crate::nodes::{
    OwnedNode, child, delete, ensure_containers, name_of, parent_of, uuid, with_container, with_session_retries,
};
use crate::wait_queue::await_change;
use ox_client::{Client, CreateMode, ErrorCode, EventKind};

const READY: &str = "ready";

/// A barrier that clients wait on until it is removed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::barrier::Barrier;
/// let gate = Barrier::new(&client, "/gate");
/// gate.close().await?;
/// let (waited, opened) = tokio::join!(gate.wait(), gate.open());
/// waited.and(opened)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// Creates a handle to the barrier at a path, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::Barrier;
    /// let gate = Barrier::new(&client, "/gate");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: with_session_retries(client), path: path.to_owned() }
    }

    /// Sets the barrier: clients that call [`Barrier::wait`] from now on wait.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::Barrier;
    /// let gate = Barrier::new(&client, "/gate");
    /// gate.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) -> Result<(), RecipeError> {
        let create = || create(&self.client, &self.path);
        Ok(with_container(&self.client, parent_of(&self.path), create).await?)
    }

    /// Removes the barrier: all waiting clients continue.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::Barrier;
    /// let gate = Barrier::new(&client, "/gate");
    /// gate.open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(&self) -> Result<(), RecipeError> {
        Ok(delete(&self.client, &self.path).await?)
    }

    /// Waits until the barrier is removed. Waiting clients also continue if the barrier is removed and set again
    /// immediately.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::Barrier;
    /// let gate = Barrier::new(&client, "/gate");
    /// gate.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self) -> Result<(), RecipeError> {
        self.client.sync(&self.path).await?; // a lagging server may not have the barrier yet
        let mut waits_for = None;
        loop {
            let (stat, changed) = self.client.exists_and_watch(&self.path).await?;
            let Some(stat) = stat else { return Ok(()) };
            if *waits_for.get_or_insert(stat.czxid) != stat.czxid {
                return Ok(());
            }
            if changed.await.kind == EventKind::NodeDeleted {
                return Ok(());
            }
        }
    }
}

/// Creates a persistent node; an existing node is not an error.
async fn create(client: &Client, path: &str) -> Result<(), ox_client::Error> {
    loop {
        match client.create(path, b"", CreateMode::Persistent).await {
            Err(error) if error.is_retriable() => (),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(()),
            made => return made.map(drop),
        }
    }
}

/// A double barrier: a fixed number of members start together and finish together.
///
/// No member wakes up before all have entered: the last to enter creates a node that all others watch. If a member
/// fails while entering, the others wait for another one; a member that fails inside counts as having left.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::barrier::DoubleBarrier;
/// let barrier = DoubleBarrier::new(&client, "/round", 2);
/// let (one, other) = tokio::join!(barrier.enter(), barrier.enter()); // neither returns before both have entered
/// let (one, other) = tokio::join!(one?.leave(), other?.leave()); // neither returns before both have left
/// one.and(other)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    client: Client,
    path: String,
    count: usize,
}

impl DoubleBarrier {
    /// Creates a handle to the barrier at a path for `count` members, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::DoubleBarrier;
    /// let barrier = DoubleBarrier::new(&client, "/round", 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str, count: usize) -> Self {
        Self { client: with_session_retries(client), path: path.to_owned(), count }
    }

    /// Waits until `count` members have entered. Dropping the future leaves the barrier.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::DoubleBarrier;
    /// let barrier = DoubleBarrier::new(&client, "/round", 3);
    /// let entered = barrier.enter().await?; // all three have entered
    /// entered.leave().await?; // all three have left
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enter(&self) -> Result<Entered, RecipeError> {
        ensure_containers(&self.client, &self.path).await?;
        self.client.sync(&self.path).await?; // a lagging server may show the previous round
        let ready = child(&self.path, READY);
        if self.members().await?.is_empty() {
            delete(&self.client, &ready).await?; // left over from members that all failed inside
        }
        let (is_ready, mut changed) = self.client.exists_and_watch(&ready).await?;
        let path = child(&self.path, &uuid());
        let lost = || RecipeError::node_deleted(&path);
        let node = OwnedNode::claim(&self.client, path.clone()).await?.ok_or_else(lost)?;
        let entered = Entered { barrier: self.clone(), node };
        if is_ready.is_some() {
            return Ok(entered);
        }
        while self.members().await?.len() < self.count {
            if changed.await.kind == EventKind::NodeCreated {
                return Ok(entered);
            }
            let (is_ready, again) = self.client.exists_and_watch(&ready).await?;
            if is_ready.is_some() {
                return Ok(entered);
            }
            changed = again;
        }
        create(&self.client, &ready).await?;
        Ok(entered)
    }

    async fn members(&self) -> Result<Vec<String>, RecipeError> {
        let names = self.client.children(&self.path).await;
        if has_code(&names, ErrorCode::NoNode) {
            return Ok(Vec::new());
        }
        let mut names = names?;
        names.retain(|name| name != READY);
        names.sort();
        Ok(names)
    }
}

/// A member inside a [`DoubleBarrier`]. Dropping it leaves without waiting for the others.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::barrier::DoubleBarrier;
/// let barrier = DoubleBarrier::new(&client, "/round", 3);
/// let entered = barrier.enter().await?;
/// drop(entered); // the others do not wait for this member
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it leaves the barrier"]
pub struct Entered {
    barrier: DoubleBarrier,
    node: OwnedNode,
}

impl Entered {
    /// Leaves, and waits until all other members have left.
    ///
    /// The member whose name sorts first stays until all others have left, and the others watch its node, so every
    /// departure wakes up one member only.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::DoubleBarrier;
    /// let barrier = DoubleBarrier::new(&client, "/round", 3);
    /// barrier.enter().await?.leave().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(self) -> Result<(), RecipeError> {
        let Self { barrier, node } = self;
        let mut node = Some(node);
        let mut round = None;
        loop {
            let mut others = barrier.members().await?;
            // A member that has left may already enter the next round while others still leave this one.
            let round = round.get_or_insert_with(|| others.clone());
            let own = node.as_ref().map(|node| name_of(node.path()));
            others.retain(|name| round.contains(name) && Some(name.as_str()) != own);
            let (Some(first), Some(last)) = (others.first(), others.last()) else { break };
            let stays = own.is_some_and(|own| own < first.as_str());
            if !stays && let Some(node) = node.take() {
                node.delete().await?;
            }
            await_change(&barrier.client, &child(&barrier.path, if stays { last } else { first })).await?;
        }
        if let Some(node) = node {
            node.delete().await?;
        }
        Ok(delete(&barrier.client, &child(&barrier.path, READY)).await?)
    }
}
