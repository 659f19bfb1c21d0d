//! A naming service, like a DNS whose changes take effect immediately.
//!
//! ```text
//! /dns
//!  ├─ db.example     10.0.0.1:5432          one address per line
//!  │                 10.0.0.2:5432
//!  └─ web.example    10.0.0.3:80
//! ```

use crate::cache::Cache;
use crate::error::{RecipeError, has_code};
use crate::nodes::{child, with_container, with_session_retries};
use ox_client::{Client, CreateMode, ErrorCode, RequestOutcome};

/// Names and their addresses: the node of a name holds a list of addresses, which several owners change without losing
/// each other's updates.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::naming::{NameRegistry, NameResolver};
/// let records = NameRegistry::new(&client, "/dns");
/// records.add("db.example", "10.0.0.1:5432").await?;
/// records.add("db.example", "10.0.0.2:5432").await?;
/// let mut resolver = NameResolver::start(&client, "/dns").await?;
/// assert_eq!(resolver.resolve("db.example"), ["10.0.0.1:5432", "10.0.0.2:5432"]);
/// records.remove("db.example", "10.0.0.1:5432").await?;
/// while resolver.resolve("db.example").len() == 2 {
///     resolver.changed().await?;
/// }
/// assert_eq!(resolver.resolve("db.example"), ["10.0.0.2:5432"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NameRegistry {
    client: Client,
    path: String,
}

impl NameRegistry {
    /// Creates a handle to the names below a path, without any request.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::NameRegistry;
    /// let records = NameRegistry::new(&client, "/dns");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: with_session_retries(client), path: path.to_owned() }
    }

    /// Adds an address to a name; adding it twice has no effect.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::NameRegistry;
    /// let records = NameRegistry::new(&client, "/dns");
    /// records.add("db.example", "10.0.0.1:5432").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add(&self, name: &str, address: &str) -> Result<(), RecipeError> {
        self.change(name, |addresses| {
            if !addresses.iter().any(|known| known == address) {
                addresses.push(address.to_owned());
            }
        })
        .await
    }

    /// Removes an address from a name; the node of the name remains.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::NameRegistry;
    /// let records = NameRegistry::new(&client, "/dns");
    /// records.remove("db.example", "10.0.0.1:5432").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove(&self, name: &str, address: &str) -> Result<(), RecipeError> {
        self.change(name, |addresses| addresses.retain(|known| known != address)).await
    }

    /// Updates a list by optimistic retries. The changes are idempotent.
    async fn change(&self, name: &str, change: impl Fn(&mut Vec<String>)) -> Result<(), RecipeError> {
        let path = child(&self.path, name);
        loop {
            let node = self.client.get(&path).await;
            let (mut addresses, version) = if has_code(&node, ErrorCode::NoNode) {
                (Vec::new(), None)
            } else {
                let node = node?;
                (addresses(&node.data), Some(node.stat.version))
            };
            let before = addresses.clone();
            change(&mut addresses);
            if addresses == before {
                return Ok(());
            }
            let text = addresses.join("\n");
            let written = match version {
                Some(version) => self.client.set(&path, &text, version).await.map(drop),
                None => {
                    let create = || self.client.create(&path, &text, CreateMode::Persistent);
                    with_container(&self.client, &self.path, create).await.map(drop)
                }
            };
            match written {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retriable() => (),
                Err(error) if error.outcome() == RequestOutcome::NoEffect && is_race(&error, version) => (),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether another client has changed, created or deleted the node that was read with this version.
fn is_race(error: &ox_client::Error, version: Option<i32>) -> bool {
    match version {
        Some(_) => matches!(error.code(), Some(ErrorCode::BadVersion | ErrorCode::NoNode)),
        None => error.code() == Some(ErrorCode::NodeExists),
    }
}

fn addresses(data: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(data).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Resolves names from a local copy that follows the registry. See [`NameRegistry`].
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::naming::NameResolver;
/// let resolver = NameResolver::start(&client, "/dns").await?;
/// println!("{:?}", resolver.resolve("db.example"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct NameResolver(Cache);

impl NameResolver {
    /// Starts a local copy of the names below a path.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::NameResolver;
    /// let resolver = NameResolver::start(&client, "/dns").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Cache::children(client, path).await.map(Self)
    }

    /// Returns the addresses of a name; empty if the name does not exist.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::NameResolver;
    /// let resolver = NameResolver::start(&client, "/dns").await?;
    /// println!("{:?}", resolver.resolve("db.example"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn resolve(&self, name: &str) -> Vec<String> {
        self.0.get(&child(self.0.path(), name)).map(|node| addresses(&node.data)).unwrap_or_default()
    }

    /// Waits for a change. An error means that no further changes follow, usually because the session has ended.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::NameResolver;
    /// let mut resolver = NameResolver::start(&client, "/dns").await?;
    /// while resolver.resolve("db.example").is_empty() {
    ///     resolver.changed().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), RecipeError> {
        self.0.changed().await
    }
}
