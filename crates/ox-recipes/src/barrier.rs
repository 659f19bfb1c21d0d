//! Barriers, in the layouts of Curator's `DistributedBarrier` and `DistributedDoubleBarrier`.
//!
//! ```text
//! /gate                                       there: everybody waits. Gone: everybody goes on.
//!
//! /crew                                       a container
//!  ├─ ready                                   there: enough have come
//!  ├─ 1a4ad27c-8f18-4e3b-9d84-4ee3a3bd94d0    ephemeral: one that has come and not left
//!  └─ f2d1b6a0-53c9-4b0e-a6f4-0c5f8f0d7c11
//! ```

use crate::error::{Error, says};
use crate::nodes::{Owned, child, delete, ensure_containers, in_container, name_of, parent_of, patient, uuid};
use crate::wait_queue::await_end;
use ox_client::{Client, CreateMode, ErrorCode, EventKind};

const READY: &str = "ready";

/// A gate: who comes while it is closed waits until it is opened.
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
    /// The barrier at a path. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::Barrier;
    /// let gate = Barrier::new(&client, "/gate");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: patient(client), path: path.to_owned() }
    }

    /// Makes everybody wait who comes from now on.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::Barrier;
    /// let gate = Barrier::new(&client, "/gate");
    /// gate.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) -> Result<(), Error> {
        let create = || create(&self.client, &self.path);
        Ok(in_container(&self.client, parent_of(&self.path), create).await?)
    }

    /// Lets everybody go on.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::Barrier;
    /// let gate = Barrier::new(&client, "/gate");
    /// gate.open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(&self) -> Result<(), Error> {
        Ok(delete(&self.client, &self.path).await?)
    }

    /// Waits until the barrier is open, or was open in the meantime: one that is opened and closed again at once lets those
    /// go on who waited.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::Barrier;
    /// let gate = Barrier::new(&client, "/gate");
    /// gate.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self) -> Result<(), Error> {
        self.client.sync(&self.path).await?; // a server that is behind may not know that it is closed
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

/// Creates a node that stays; it is no error when it is there already.
async fn create(client: &Client, path: &str) -> Result<(), ox_client::Error> {
    loop {
        match client.create(path, b"", CreateMode::Persistent).await {
            Err(error) if error.is_retriable() => (),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(()),
            made => return made.map(drop),
        }
    }
}

/// A meeting: so many begin together, and end together.
///
/// Nobody wakes up before all have come: the last one tells the others by a node that all of them watch. Somebody who dies on
/// the way in makes the others wait for one more; who dies inside has left.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::barrier::DoubleBarrier;
/// let barrier = DoubleBarrier::new(&client, "/crew", 2);
/// let (one, other) = tokio::join!(barrier.enter(), barrier.enter()); // neither returns before both have come
/// let (one, other) = tokio::join!(one?.leave(), other?.leave()); // neither returns before both are done
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
    /// The barrier at a path, for so many. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::DoubleBarrier;
    /// let barrier = DoubleBarrier::new(&client, "/crew", 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str, count: usize) -> Self {
        Self { client: patient(client), path: path.to_owned(), count }
    }

    /// Waits until enough have come. Dropping the future leaves.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::DoubleBarrier;
    /// let barrier = DoubleBarrier::new(&client, "/crew", 3);
    /// let entered = barrier.enter().await?; // all three are there
    /// entered.leave().await?; // all three are done
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enter(&self) -> Result<Entered, Error> {
        ensure_containers(&self.client, &self.path).await?;
        self.client.sync(&self.path).await?; // a server that is behind may show the meeting before
        let ready = child(&self.path, READY);
        if self.members().await?.is_empty() {
            delete(&self.client, &ready).await?; // left by those who all died inside
        }
        let (is_ready, mut changed) = self.client.exists_and_watch(&ready).await?;
        let path = child(&self.path, &uuid());
        let lost = || Error::Lost { path: path.clone() };
        let node = Owned::claim(&self.client, path.clone()).await?.ok_or_else(lost)?;
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

    async fn members(&self) -> Result<Vec<String>, Error> {
        let names = self.client.children(&self.path).await;
        if says(&names, ErrorCode::NoNode) {
            return Ok(Vec::new());
        }
        let mut names = names?;
        names.retain(|name| name != READY);
        names.sort();
        Ok(names)
    }
}

/// One that is inside of a [`DoubleBarrier`]. Dropping it leaves without waiting for the others.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::barrier::DoubleBarrier;
/// let barrier = DoubleBarrier::new(&client, "/crew", 3);
/// let entered = barrier.enter().await?;
/// drop(entered); // the others need not wait for this one
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "who drops it has left"]
pub struct Entered {
    barrier: DoubleBarrier,
    node: Owned,
}

impl Entered {
    /// Leaves, and waits until all others have left.
    ///
    /// The first by name stays until all others are gone, and they watch it; so every departure wakes up one.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::barrier::DoubleBarrier;
    /// let barrier = DoubleBarrier::new(&client, "/crew", 3);
    /// barrier.enter().await?.leave().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leave(self) -> Result<(), Error> {
        let Self { barrier, node } = self;
        let mut node = Some(node);
        let mut crew = None;
        loop {
            let mut others = barrier.members().await?;
            // Who has left may come for the next meeting while others still leave this one.
            let crew = crew.get_or_insert_with(|| others.clone());
            let own = node.as_ref().map(|node| name_of(node.path()));
            others.retain(|name| crew.contains(name) && Some(name.as_str()) != own);
            let (Some(first), Some(last)) = (others.first(), others.last()) else { break };
            let stays = own.is_some_and(|own| own < first.as_str());
            if !stays && let Some(node) = node.take() {
                node.delete().await?;
            }
            await_end(&barrier.client, &child(&barrier.path, if stays { last } else { first })).await?;
        }
        if let Some(node) = node {
            node.delete().await?;
        }
        Ok(delete(&barrier.client, &child(&barrier.path, READY)).await?)
    }
}
