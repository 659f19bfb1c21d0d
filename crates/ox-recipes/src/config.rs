//! A configuration centre: one typed value with its history, followed by any number of readers.
//!
//! ```text
//! /config
//!  └─ web                              {"version":3,"value":{…}}: what holds now
//!      ├─ v-0000000001                 what held before, the same way
//!      └─ v-0000000002
//! ```

use crate::cache::Cache;
use crate::error::{RecipeError, has_code};
use crate::nodes::{child, parent_of, with_container, with_session_retries};
use ox_client::{Client, CreateMode, ErrorCode, Version};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// A value and its version.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::config::SharedConfig;
/// let config = SharedConfig::<u32>::new(&client, "/config/threads");
/// config.publish(&4).await?;
/// let now = config.get().await?.expect("published above");
/// assert_eq!((now.version, now.value), (1, 4));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision<T> {
    /// Incremented by every change, including a rollback.
    pub version: u32,
    /// The published configuration value.
    pub value: T,
}

/// A typed value for many readers, stored as JSON, with all its earlier versions.
///
/// **Limits.** A value and its predecessor must fit into one request, so keep values below half a megabyte. Earlier
/// versions are kept until [`SharedConfig::delete_before`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::config::SharedConfig;
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Web {
///     threads: u32,
/// }
/// let config = SharedConfig::<Web>::new(&client, "/config/web");
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
pub struct SharedConfig<T> {
    client: Client,
    path: String,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> SharedConfig<T> {
    /// Creates a handle to the value at a path, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: with_session_retries(client), path: path.to_owned(), value: PhantomData }
    }

    /// Reads the current value; `None` if none was published yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// println!("{:?}", config.get().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self) -> Result<Option<Revision<T>>, RecipeError> {
        Ok(self.read().await?.map(|(revision, _)| revision))
    }

    /// Publishes a value and returns its version. Concurrent publications are serialised.
    ///
    /// If the reply is lost and the value has changed since, it is impossible to tell whether this call changed it; the
    /// outcome of the error is unknown then.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// let version = config.publish(&8).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn publish(&self, value: &T) -> Result<u32, RecipeError> {
        loop {
            let now = self.read().await?;
            let next = now.as_ref().map_or(1, |(now, _)| now.version + 1);
            if self.replace(now, Revision { version: next, value }).await? {
                return Ok(next);
            }
        }
    }

    /// Publishes a value if the current version is still `seen` (0 if none was published yet). Returns `None` if it is
    /// not.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// assert_eq!(config.publish_after(0, &4).await?, Some(1));
    /// assert_eq!(config.publish_after(0, &8).await?, None); // another client published first
    /// # Ok(())
    /// # }
    /// ```
    pub async fn publish_after(&self, seen: u32, value: &T) -> Result<Option<u32>, RecipeError> {
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

    /// Publishes an earlier version again, as a new version. The first version is 1; a version that does not exist is
    /// [`RecipeError::NoVersion`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// config.publish(&4).await?;
    /// config.publish(&400).await?;
    /// assert_eq!(config.roll_back(1).await?, 3);
    /// assert_eq!(config.get().await?.unwrap().value, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn roll_back(&self, version: u32) -> Result<u32, RecipeError> {
        let missing = || RecipeError::NoVersion { path: self.path.clone(), version };
        let earlier = self.revision(version).await?.ok_or_else(missing)?;
        self.publish(&earlier.value).await
    }

    /// Reads a version, the current or an earlier one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// config.publish(&4).await?;
    /// config.publish(&8).await?;
    /// assert_eq!(config.revision(1).await?.unwrap().value, 4);
    /// assert!(config.revision(7).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revision(&self, version: u32) -> Result<Option<Revision<T>>, RecipeError> {
        if let Some((now, _)) = self.read().await?.filter(|(now, _)| now.version == version) {
            return Ok(Some(now));
        }
        let path = self.earlier(version);
        let node = self.client.get(&path).await;
        if has_code(&node, ErrorCode::NoNode) {
            return Ok(None);
        }
        decode(&path, &node?.data).map(Some)
    }

    /// Deletes all versions before `version`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// config.publish(&4).await?;
    /// config.publish(&8).await?;
    /// config.delete_before(2).await?;
    /// assert!(config.revision(1).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_before(&self, version: u32) -> Result<(), RecipeError> {
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

    /// Starts a local copy that follows the value.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// let mut follower = config.follow().await?;
    /// follower.changed().await?;
    /// println!("{:?}", follower.current()?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn follow(&self) -> Result<ConfigCache<T>, RecipeError> {
        let cache = Cache::node(&self.client, &self.path).await?;
        Ok(ConfigCache { cache, value: PhantomData })
    }

    fn earlier(&self, version: u32) -> String {
        child(&self.path, &format!("v-{version:010}"))
    }

    /// Reads the current value and the version of its node.
    async fn read(&self) -> Result<Option<(Revision<T>, i32)>, RecipeError> {
        let node = self.client.get(&self.path).await;
        if has_code(&node, ErrorCode::NoNode) {
            return Ok(None);
        }
        let node = node?;
        Ok(Some((decode(&self.path, &node.data)?, node.stat.version)))
    }

    /// Replaces the value and archives its predecessor in one transaction. Returns false if another client published
    /// first.
    async fn replace(&self, now: Option<(Revision<T>, i32)>, next: Revision<&T>) -> Result<bool, RecipeError> {
        let text = encode(&self.path, &next)?;
        let written = match &now {
            None => {
                let create = || self.client.create(&self.path, &text, CreateMode::Persistent);
                with_container(&self.client, parent_of(&self.path), create).await.map(drop)
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
            // The version check passed, so no other client has published.
            Err(error) if error.failed_at() == Some(1) && error.code() == Some(ErrorCode::NodeExists) => {
                let taken = error.path().unwrap_or(&self.path).to_owned();
                Err(RecipeError::bad_data(&taken, "the current version is already archived"))
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

/// A local copy of the value of a [`SharedConfig`] that follows its changes.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::config::SharedConfig;
/// let config = SharedConfig::<u32>::new(&client, "/config/threads");
/// let follower = config.follow().await?;
/// println!("{:?}", follower.current()?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ConfigCache<T> {
    cache: Cache,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ConfigCache<T> {
    /// Returns the copy; `None` if no value was published yet. An error means that the data does not decode as a `T`.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// println!("{:?}", config.follow().await?.current()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn current(&self) -> Result<Option<Revision<T>>, RecipeError> {
        self.cache.get(self.cache.path()).map(|node| decode(self.cache.path(), &node.data)).transpose()
    }

    /// Waits for a change. An error means that no further changes follow, usually because the session has ended.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::config::SharedConfig;
    /// let config = SharedConfig::<u32>::new(&client, "/config/threads");
    /// let mut follower = config.follow().await?;
    /// while follower.current()?.is_none() {
    ///     follower.changed().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), RecipeError> {
        self.cache.changed().await
    }
}

fn decode<T: DeserializeOwned>(path: &str, data: &[u8]) -> Result<T, RecipeError> {
    serde_json::from_slice(data).map_err(|error| RecipeError::bad_data(path, error))
}

fn encode<T: Serialize>(path: &str, value: &T) -> Result<Vec<u8>, RecipeError> {
    serde_json::to_vec(value).map_err(|error| RecipeError::bad_data(path, error))
}
