//! A configuration centre: one typed value that everybody follows, with its earlier versions.
//!
//! ```text
//! /config
//!  └─ web                              {"version":3,"value":{…}}: what holds now
//!      ├─ v-0000000001                 what held before, the same way
//!      └─ v-0000000002
//! ```

use crate::cache::Cache;
use crate::error::{Error, says};
use crate::nodes::{child, in_container, parent_of, patient};
use ox_client::{Client, CreateMode, ErrorCode, Version};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// A value and the version it has.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::config::Config;
/// let config = Config::<u32>::new(&client, "/config/threads");
/// config.publish(&4).await?;
/// let now = config.get().await?.expect("it was published");
/// assert_eq!((now.version, now.value), (1, 4));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision<T> {
    /// Grows by one with every change, a roll-back included.
    pub version: u32,
    /// The value.
    pub value: T,
}

/// A typed value for many readers, kept as JSON, with all its earlier versions.
///
/// **Limits.** A value and the one before it must fit into one request, so keep values below half a megabyte. Versions are kept until [`Config::forget_before`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::config::Config;
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Web {
///     threads: u32,
/// }
/// let config = Config::<Web>::new(&client, "/config/web");
/// config.publish(&Web { threads: 4 }).await?;
/// let mut reader = config.follow().await?;
/// assert_eq!(reader.current()?.unwrap().value.threads, 4);
///
/// config.publish(&Web { threads: 400 }).await?;
/// config.roll_back(1).await?; // as version 3
/// while reader.current()?.unwrap().version < 3 {
///     reader.changed().await?;
/// }
/// assert_eq!(reader.current()?.unwrap().value.threads, 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Config<T> {
    client: Client,
    path: String,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Config<T> {
    /// The value at a path. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: patient(client), path: path.to_owned(), value: PhantomData }
    }

    /// The value now; `None` before the first was published.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// println!("{:?}", config.get().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self) -> Result<Option<Revision<T>>, Error> {
        Ok(self.read().await?.map(|(revision, _)| revision))
    }

    /// Publishes a value, and gives its version. When somebody else publishes at the same time, one follows the other.
    ///
    /// When the answer is lost and the value has changed since, nobody can tell whether this call did it: the error's outcome is
    /// unknown then.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// let version = config.publish(&8).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn publish(&self, value: &T) -> Result<u32, Error> {
        loop {
            let now = self.read().await?;
            let next = now.as_ref().map_or(1, |(now, _)| now.version + 1);
            if self.replace(now, Revision { version: next, value }).await? {
                return Ok(next);
            }
        }
    }

    /// Publishes a value if the version is still `seen` (0 for none yet). `None` when it is not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// assert_eq!(config.publish_after(0, &4).await?, Some(1));
    /// assert_eq!(config.publish_after(0, &8).await?, None); // somebody was faster
    /// # Ok(())
    /// # }
    /// ```
    pub async fn publish_after(&self, seen: u32, value: &T) -> Result<Option<u32>, Error> {
        loop {
            let now = self.read().await?;
            if now.as_ref().map_or(0, |(now, _)| now.version) != seen {
                return Ok(None);
            }
            if self.replace(now, Revision { version: seen + 1, value }).await? {
                return Ok(Some(seen + 1));
            }
        }
    }

    /// Publishes an earlier version again, as a new one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// config.publish(&4).await?;
    /// config.publish(&400).await?;
    /// assert_eq!(config.roll_back(1).await?, 3);
    /// assert_eq!(config.get().await?.unwrap().value, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn roll_back(&self, version: u32) -> Result<u32, Error> {
        let earlier = self.revision(version).await?;
        let earlier = earlier.ok_or_else(|| Error::bad_data(&self.path, format!("there is no version {version}")))?;
        self.publish(&earlier.value).await
    }

    /// A version, now or earlier.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// config.publish(&4).await?;
    /// config.publish(&8).await?;
    /// assert_eq!(config.revision(1).await?.unwrap().value, 4);
    /// assert!(config.revision(7).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revision(&self, version: u32) -> Result<Option<Revision<T>>, Error> {
        if let Some((now, _)) = self.read().await?.filter(|(now, _)| now.version == version) {
            return Ok(Some(now));
        }
        let path = self.earlier(version);
        let node = self.client.get(&path).await;
        if says(&node, ErrorCode::NoNode) {
            return Ok(None);
        }
        decode(&path, &node?.data).map(Some)
    }

    /// Deletes all earlier versions below this one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// config.publish(&4).await?;
    /// config.publish(&8).await?;
    /// config.forget_before(2).await?;
    /// assert!(config.revision(1).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn forget_before(&self, version: u32) -> Result<(), Error> {
        let names = self.client.children(&self.path).await?;
        for name in names {
            if name
                .strip_prefix("v-")
                .and_then(|number| number.parse::<u32>().ok())
                .is_some_and(|number| number < version)
            {
                crate::nodes::delete(&self.client, &child(&self.path, &name)).await?;
            }
        }
        Ok(())
    }

    /// A copy that follows the value.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// let mut follower = config.follow().await?;
    /// follower.changed().await?;
    /// println!("{:?}", follower.current()?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn follow(&self) -> Result<Follower<T>, Error> {
        let cache = Cache::node(&self.client, &self.path).await?;
        Ok(Follower { cache, value: PhantomData })
    }

    fn earlier(&self, version: u32) -> String {
        child(&self.path, &format!("v-{version:010}"))
    }

    /// The value now and the version of its node.
    async fn read(&self) -> Result<Option<(Revision<T>, i32)>, Error> {
        let node = self.client.get(&self.path).await;
        if says(&node, ErrorCode::NoNode) {
            return Ok(None);
        }
        let node = node?;
        Ok(Some((decode(&self.path, &node.data)?, node.stat.version)))
    }

    /// Puts a value into the place of another and that one among the earlier, both or neither. False when somebody was
    /// faster.
    async fn replace(&self, now: Option<(Revision<T>, i32)>, next: Revision<&T>) -> Result<bool, Error> {
        let text = encode(&self.path, &next)?;
        let written = match &now {
            None => {
                let create = || self.client.create(&self.path, &text, CreateMode::Persistent);
                in_container(&self.client, parent_of(&self.path), create).await.map(drop)
            }
            Some((now, version)) => {
                let mut multi = self.client.multi();
                multi.set(&self.path, &text, Version::Is(*version));
                multi.create(&self.earlier(now.version), encode(&self.path, now)?, CreateMode::Persistent);
                multi.commit().await.map(drop)
            }
        };
        match written {
            Ok(()) => Ok(true),
            // The version was the right one, so nobody was faster.
            Err(error) if error.failed_at() == Some(1) && error.code() == Some(ErrorCode::NodeExists) => {
                let taken = error.path().unwrap_or(&self.path).to_owned();
                Err(Error::bad_data(&taken, "a version that is not over has a copy already"))
            }
            Err(error) if matches!(error.code(), Some(ErrorCode::BadVersion | ErrorCode::NodeExists)) => Ok(false),
            Err(error) if error.is_retriable() => {
                self.client.write_barrier().await?;
                let found = self.read().await?.map_or(0, |(found, _)| found.version);
                if found + 1 == next.version { Ok(false) } else { Err(error.into()) }
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A copy of a [`Config`]'s value that follows its changes.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::config::Config;
/// let config = Config::<u32>::new(&client, "/config/threads");
/// let follower = config.follow().await?;
/// println!("{:?}", follower.current()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Follower<T> {
    cache: Cache,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Follower<T> {
    /// The value as this client knows it; `None` before the first was published. The error says that it cannot be read as a `T`.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// println!("{:?}", config.follow().await?.current()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn current(&self) -> Result<Option<Revision<T>>, Error> {
        self.cache.get(self.cache.path()).map(|node| decode(self.cache.path(), &node.data)).transpose()
    }

    /// Waits for changes. The error is why nothing follows, mostly the end of the session.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::Config;
    /// let config = Config::<u32>::new(&client, "/config/threads");
    /// let mut follower = config.follow().await?;
    /// while follower.current()?.is_none() {
    ///     follower.changed().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), Error> {
        self.cache.changed().await
    }
}

fn decode<T: DeserializeOwned>(path: &str, data: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(data).map_err(|error| Error::bad_data(path, error))
}

fn encode<T: Serialize>(path: &str, value: &T) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| Error::bad_data(path, error))
}
