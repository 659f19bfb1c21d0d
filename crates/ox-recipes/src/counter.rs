//! Counters, in the layouts of Curator's `SharedCount` and `DistributedAtomicLong`, and unique ids.
//!
//! ```text
//! /count     four bytes: the number, the highest byte first     (SharedCount)
//! /total     eight bytes: the number, the highest byte first    (AtomicLong)
//! /ids       persistent, empty but for moments                  (UniqueIds)
//!  └─ _c_<uuid>-id-0000000042
//! ```

use crate::error::{RecipeError, has_code};
use crate::nodes::{name_of, parent_of, with_container, with_session_retries};
use crate::wait_queue::WaitQueue;
use ox_client::{Client, CreateMode, ErrorCode, Node, RequestOutcome};

/// A number that all clients share, whose changes can be waited for.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::counter::SharedCount;
/// let count = SharedCount::open(&client, "/workers-wanted", 3).await?; // 3 unless the node exists
/// let seen = count.get().await?;
/// assert_eq!(seen.value, 3);
/// assert!(count.try_set(seen, 5).await?);
/// assert!(!count.try_set(seen, 7).await?, "another client set it first");
/// assert_eq!(count.changed(seen).await?.value, 5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedCount {
    client: Client,
    path: String,
}

/// A value of a [`SharedCount`] and its version.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::counter::SharedCount;
/// let count = SharedCount::open(&client, "/count", 0).await?;
/// let seen = count.get().await?;
/// println!("{}, set {} times", seen.value, seen.version);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The value of the counter.
    pub value: i32,
    /// The version of the node: how often the value was set before.
    pub version: i32,
}

impl SharedCount {
    /// Opens the counter at a path, and creates it with `seed` if it does not exist. A node whose data is not a counter
    /// is [`RecipeError::BadData`].
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::SharedCount;
    /// let count = SharedCount::open(&client, "/count", 0).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(client: &Client, path: &str, seed: i32) -> Result<Self, RecipeError> {
        let client = with_session_retries(client);
        create_with(&client, path, &seed.to_be_bytes()).await?;
        let count = Self { client, path: path.to_owned() };
        count.get().await?;
        Ok(count)
    }

    /// Reads the current value and its version.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::SharedCount;
    /// let count = SharedCount::open(&client, "/count", 0).await?;
    /// println!("{}", count.get().await?.value);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self) -> Result<Versioned, RecipeError> {
        self.read(&self.client.get(&self.path).await?)
    }

    /// Sets the value unconditionally.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::counter::SharedCount;
    /// let count = SharedCount::open(&client, "/count", 0).await?;
    /// count.set(7).await?;
    /// assert_eq!(count.get().await?.value, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set(&self, value: i32) -> Result<(), RecipeError> {
        loop {
            match self.client.set(&self.path, value.to_be_bytes(), ox_client::Version::Any).await {
                Err(error) if error.is_retriable() => (), // setting it twice has the same effect
                set => return Ok(set.map(drop)?),
            }
        }
    }

    /// Sets the value if it was not set since `seen` was read. If the reply is lost, the outcome of the error is
    /// unknown.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::SharedCount;
    /// let count = SharedCount::open(&client, "/count", 0).await?;
    /// let seen = count.get().await?;
    /// let was_first = count.try_set(seen, seen.value + 1).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_set(&self, seen: Versioned, value: i32) -> Result<bool, RecipeError> {
        let set = self.client.set(&self.path, value.to_be_bytes(), seen.version).await;
        if has_code(&set, ErrorCode::BadVersion) {
            return Ok(false);
        }
        set?;
        Ok(true)
    }

    /// Waits until the value is set again after `seen` was read, and returns the newest one.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::SharedCount;
    /// let count = SharedCount::open(&client, "/count", 0).await?;
    /// let seen = count.get().await?;
    /// println!("{}", count.changed(seen).await?.value);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&self, seen: Versioned) -> Result<Versioned, RecipeError> {
        loop {
            let (node, changed) = self.client.get_and_watch(&self.path).await?;
            let now = self.read(&node)?;
            if now.version != seen.version {
                return Ok(now);
            }
            changed.await;
        }
    }

    fn read(&self, node: &Node) -> Result<Versioned, RecipeError> {
        let bytes = node.data.as_slice().try_into().map_err(|_| RecipeError::bad_data(&self.path, "not four bytes"))?;
        Ok(Versioned { value: i32::from_be_bytes(bytes), version: node.stat.version })
    }
}

/// A number with atomic updates by optimistic retries: an update that loses a race is retried with the new value.
///
/// **Limits.** Many concurrent updates make each other retry. Values wrap around at the limits of `i64`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::counter::AtomicLong;
/// let total = AtomicLong::new(&client, "/total"); // 0 while the node does not exist
/// assert_eq!(total.add(5).await?, 5);
/// assert_eq!(total.add(-2).await?, 3);
/// assert_eq!(total.get().await?, 3);
/// assert!(total.compare_and_set(3, 10).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AtomicLong {
    client: Client,
    path: String,
}

impl AtomicLong {
    /// Creates a handle to the number at a path, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::AtomicLong;
    /// let total = AtomicLong::new(&client, "/total");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: with_session_retries(client), path: path.to_owned() }
    }

    /// Reads the current value.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::AtomicLong;
    /// let total = AtomicLong::new(&client, "/total");
    /// println!("{}", total.get().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self) -> Result<i64, RecipeError> {
        let node = self.client.get(&self.path).await;
        if has_code(&node, ErrorCode::NoNode) {
            return Ok(0);
        }
        self.read(&node?)
    }

    /// Adds `amount` and returns the sum.
    ///
    /// If the reply is lost and the value has changed since, it is impossible to tell whether this call changed it; the
    /// outcome of the error is unknown then.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::AtomicLong;
    /// let total = AtomicLong::new(&client, "/total");
    /// println!("{}", total.add(5).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add(&self, amount: i64) -> Result<i64, RecipeError> {
        let changed = self.update(|value| Some(value.wrapping_add(amount))).await?;
        Ok(changed.unwrap_or_default())
    }

    /// Sets the value if it is `expected`. Errors are those of [`AtomicLong::add`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::counter::AtomicLong;
    /// let total = AtomicLong::new(&client, "/total");
    /// assert!(total.compare_and_set(0, 7).await?);
    /// assert!(!total.compare_and_set(0, 8).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn compare_and_set(&self, expected: i64, value: i64) -> Result<bool, RecipeError> {
        Ok(self.update(|now| (now == expected).then_some(value)).await?.is_some())
    }

    /// Replaces the value by the result of `change`, or leaves it if that is `None`. Returns what was set.
    async fn update(&self, change: impl Fn(i64) -> Option<i64>) -> Result<Option<i64>, RecipeError> {
        loop {
            create_with(&self.client, &self.path, &0_i64.to_be_bytes()).await?;
            let node = self.client.get(&self.path).await?;
            let Some(value) = change(self.read(&node)?) else { return Ok(None) };
            let set = self.client.set(&self.path, value.to_be_bytes(), node.stat.version).await;
            match set {
                Ok(_) => return Ok(Some(value)),
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => (),
                Err(error) if error.is_retriable() && error.outcome() == RequestOutcome::Unknown => {
                    self.client.write_barrier().await?;
                    if self.client.get(&self.path).await?.stat.version != node.stat.version {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read(&self, node: &Node) -> Result<i64, RecipeError> {
        if node.data.is_empty() {
            return Ok(0); // the node was created without a value
        }
        let bytes =
            node.data.as_slice().try_into().map_err(|_| RecipeError::bad_data(&self.path, "not eight bytes"))?;
        Ok(i64::from_be_bytes(bytes))
    }
}

/// Unique numbers and names from sequential nodes: each is larger than those before.
///
/// **Limits.** The counter of a node ends at 2147483647. A number is skipped if the client fails before it is returned.
/// Numbering restarts if the node at the path is deleted.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::counter::UniqueIds;
/// let ids = UniqueIds::new(&client, "/orders");
/// assert_eq!(ids.next().await?, 0);
/// assert_eq!(ids.next_name("order-").await?, "order-0000000001");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct UniqueIds(WaitQueue);

impl UniqueIds {
    /// Creates a handle to the numbers of a path, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::UniqueIds;
    /// let ids = UniqueIds::new(&client, "/ids");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self(WaitQueue::persistent(client, path, &["id-"]))
    }

    /// Takes the next number.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::UniqueIds;
    /// let ids = UniqueIds::new(&client, "/ids");
    /// assert!(ids.next().await? < ids.next().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&self) -> Result<u32, RecipeError> {
        let node = self.0.join("id-", b"").await?;
        let number = self.0.number(name_of(node.path())).and_then(|number| number.parse().ok());
        let number =
            number.ok_or_else(|| RecipeError::bad_data(node.path(), "the counter of the node is exhausted"))?;
        node.leave().await?;
        Ok(number)
    }

    /// Takes the next number and returns `prefix` followed by the number in ten digits.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::UniqueIds;
    /// let ids = UniqueIds::new(&client, "/ids");
    /// println!("{}", ids.next_name("order-").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_name(&self, prefix: &str) -> Result<String, RecipeError> {
        Ok(format!("{prefix}{:010}", self.next().await?))
    }
}

/// Creates a persistent node unless it exists.
async fn create_with(client: &Client, path: &str, data: &[u8]) -> Result<(), RecipeError> {
    if client.exists(path).await?.is_some() {
        return Ok(());
    }
    let create = || client.create(path, data, CreateMode::Persistent);
    loop {
        match with_container(client, parent_of(path), create).await {
            Err(error) if error.is_retriable() => (),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(()),
            made => return Ok(made.map(drop)?),
        }
    }
}
