//! Counters, in the layouts of Curator's `SharedCount` and `DistributedAtomicLong`, and numbers that nobody else has.
//!
//! ```text
//! /count     four bytes: the number, the highest byte first     (SharedCount)
//! /total     eight bytes: the number, the highest byte first    (AtomicLong)
//! /ids       persistent, empty but for moments                  (UniqueIds)
//!  └─ _c_<uuid>-id-0000000042
//! ```

use crate::error::{Error, says};
use crate::nodes::{in_container, name_of, parent_of, patient};
use crate::wait_queue::Line;
use ox_client::{Client, CreateMode, ErrorCode, Node, RequestOutcome};

/// A number that all clients share, with a look at its changes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::counter::SharedCount;
/// let count = SharedCount::open(&client, "/workers-wanted", 3).await?; // 3 unless it is there already
/// let seen = count.get().await?;
/// assert_eq!(seen.value, 3);
/// assert!(count.try_set(seen, 5).await?);
/// assert!(!count.try_set(seen, 7).await?, "somebody was faster");
/// assert_eq!(count.changed(seen).await?.value, 5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SharedCount {
    client: Client,
    path: String,
}

/// A number as it was at some time.
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
    /// The number.
    pub value: i32,
    /// How often it was set before.
    pub version: i32,
}

impl SharedCount {
    /// The number at a path, which begins with `seed` if it is not there.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::SharedCount;
    /// let count = SharedCount::open(&client, "/count", 0).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(client: &Client, path: &str, seed: i32) -> Result<Self, Error> {
        let client = patient(client);
        create_with(&client, path, &seed.to_be_bytes()).await?;
        Ok(Self { client, path: path.to_owned() })
    }

    /// The number now.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::SharedCount;
    /// let count = SharedCount::open(&client, "/count", 0).await?;
    /// println!("{}", count.get().await?.value);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self) -> Result<Versioned, Error> {
        self.read(&self.client.get(&self.path).await?)
    }

    /// Sets the number, whatever it is.
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
    pub async fn set(&self, value: i32) -> Result<(), Error> {
        loop {
            match self.client.set(&self.path, value.to_be_bytes(), ox_client::Version::Any).await {
                Err(error) if error.is_retriable() => (), // twice is as good as once
                set => return Ok(set.map(drop)?),
            }
        }
    }

    /// Sets the number if nobody has set it since it was `seen`. When the answer is lost, the error's outcome is unknown.
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
    pub async fn try_set(&self, seen: Versioned, value: i32) -> Result<bool, Error> {
        let set = self.client.set(&self.path, value.to_be_bytes(), seen.version).await;
        if says(&set, ErrorCode::BadVersion) {
            return Ok(false);
        }
        set?;
        Ok(true)
    }

    /// Waits until somebody has set the number since it was `seen`, and gives the newest.
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
    pub async fn changed(&self, seen: Versioned) -> Result<Versioned, Error> {
        loop {
            let (node, changed) = self.client.get_and_watch(&self.path).await?;
            let now = self.read(&node)?;
            if now.version != seen.version {
                return Ok(now);
            }
            changed.await;
        }
    }

    fn read(&self, node: &Node) -> Result<Versioned, Error> {
        let bytes = node.data.as_slice().try_into().map_err(|_| Error::bad_data(&self.path, "not four bytes"))?;
        Ok(Versioned { value: i32::from_be_bytes(bytes), version: node.stat.version })
    }
}

/// A number to add to, with optimistic retries: whoever finds that somebody was faster tries again with the new value.
///
/// **Limits.** Many clients that add at the same time make each other try again. Numbers wrap around at the ends of `i64`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::counter::AtomicLong;
/// let total = AtomicLong::new(&client, "/total"); // 0 while it is not there
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
    /// The number at a path. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::AtomicLong;
    /// let total = AtomicLong::new(&client, "/total");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: patient(client), path: path.to_owned() }
    }

    /// The number now.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::AtomicLong;
    /// let total = AtomicLong::new(&client, "/total");
    /// println!("{}", total.get().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self) -> Result<i64, Error> {
        let node = self.client.get(&self.path).await;
        if says(&node, ErrorCode::NoNode) {
            return Ok(0);
        }
        self.read(&node?)
    }

    /// Adds, and gives the sum.
    ///
    /// When the answer is lost and the number has changed since, nobody can tell whether this call did it: the error's outcome
    /// is unknown then.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::AtomicLong;
    /// let total = AtomicLong::new(&client, "/total");
    /// println!("{}", total.add(5).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add(&self, amount: i64) -> Result<i64, Error> {
        let changed = self.update(|value| Some(value.wrapping_add(amount))).await?;
        Ok(changed.unwrap_or_default())
    }

    /// Sets the number if it is `expected`. Errors are as for [`AtomicLong::add`].
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
    pub async fn compare_and_set(&self, expected: i64, value: i64) -> Result<bool, Error> {
        Ok(self.update(|now| (now == expected).then_some(value)).await?.is_some())
    }

    /// Replaces the number by what is made of it, or leaves it if that is `None`. Gives what was set.
    async fn update(&self, change: impl Fn(i64) -> Option<i64>) -> Result<Option<i64>, Error> {
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

    fn read(&self, node: &Node) -> Result<i64, Error> {
        if node.data.is_empty() {
            return Ok(0); // somebody has made the node, and not begun to count
        }
        let bytes = node.data.as_slice().try_into().map_err(|_| Error::bad_data(&self.path, "not eight bytes"))?;
        Ok(i64::from_be_bytes(bytes))
    }
}

/// Numbers and names that no other client gets, by sequence nodes: each is larger than those before.
///
/// **Limits.** A parent counts to 2147483647. A number that a client asked for and never got is skipped. The numbers
/// begin again when somebody deletes the node at the path.
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
pub struct UniqueIds(Line);

impl UniqueIds {
    /// The numbers of a path. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::UniqueIds;
    /// let ids = UniqueIds::new(&client, "/ids");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self(Line::lasting(client, path, &["id-"]))
    }

    /// The next number.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::UniqueIds;
    /// let ids = UniqueIds::new(&client, "/ids");
    /// assert!(ids.next().await? < ids.next().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&self) -> Result<u32, Error> {
        let seat = self.0.join("id-", b"").await?;
        let number = self.0.number(name_of(seat.path())).and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| Error::bad_data(seat.path(), "the numbers are used up"))?;
        seat.leave().await?;
        Ok(number)
    }

    /// The next number with something before it, ten digits long.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::counter::UniqueIds;
    /// let ids = UniqueIds::new(&client, "/ids");
    /// println!("{}", ids.next_name("order-").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_name(&self, prefix: &str) -> Result<String, Error> {
        Ok(format!("{prefix}{:010}", self.next().await?))
    }
}

/// Creates a node that stays, unless it is there.
async fn create_with(client: &Client, path: &str, data: &[u8]) -> Result<(), Error> {
    if client.exists(path).await?.is_some() {
        return Ok(());
    }
    let create = || client.create(path, data, CreateMode::Persistent);
    loop {
        match in_container(client, parent_of(path), create).await {
            Err(error) if error.is_retriable() => (),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(()),
            made => return Ok(made.map(drop)?),
        }
    }
}
