//! Dynamic names, as in a DNS whose records follow at once.
//!
//! ```text
//! /dns
//!  ├─ db.example     10.0.0.1:5432          one address per line
//!  │                 10.0.0.2:5432
//!  └─ web.example    10.0.0.3:80
//! ```

use crate::cache::Cache;
use crate::error::{Error, says};
use crate::nodes::{child, in_container, patient};
use ox_client::{Client, CreateMode, ErrorCode, RequestOutcome};

/// Records of names: each name's node holds its list of addresses, which owners change without losing each other's changes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_recipes::naming::{Records, Resolver};
/// let records = Records::new(&client, "/dns");
/// records.add("db.example", "10.0.0.1:5432").await?;
/// records.add("db.example", "10.0.0.2:5432").await?;
/// let mut resolver = Resolver::start(&client, "/dns").await?;
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
pub struct Records {
    client: Client,
    path: String,
}

impl Records {
    /// The records below a path. Nothing happens yet.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::Records;
    /// let records = Records::new(&client, "/dns");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: patient(client), path: path.to_owned() }
    }

    /// Adds an address to a name.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::Records;
    /// let records = Records::new(&client, "/dns");
    /// records.add("db.example", "10.0.0.1:5432").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add(&self, name: &str, address: &str) -> Result<(), Error> {
        self.change(name, |addresses| {
            if !addresses.iter().any(|known| known == address) {
                addresses.push(address.to_owned());
            }
        })
        .await
    }

    /// Takes an address from a name.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::Records;
    /// let records = Records::new(&client, "/dns");
    /// records.remove("db.example", "10.0.0.1:5432").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remove(&self, name: &str, address: &str) -> Result<(), Error> {
        self.change(name, |addresses| addresses.retain(|known| known != address)).await
    }

    /// Changes a list until nobody else was faster. The changes are such that twice is as good as once.
    async fn change(&self, name: &str, change: impl Fn(&mut Vec<String>)) -> Result<(), Error> {
        let path = child(&self.path, name);
        loop {
            let node = self.client.get(&path).await;
            let (mut addresses, version) = if says(&node, ErrorCode::NoNode) {
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
                    in_container(&self.client, &self.path, create).await.map(drop)
                }
            };
            match written {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retriable() => (),
                Err(error) if error.outcome() == RequestOutcome::NoEffect && is_race(&error) => (),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_race(error: &ox_client::Error) -> bool {
    matches!(error.code(), Some(ErrorCode::BadVersion | ErrorCode::NodeExists | ErrorCode::NoNode))
}

fn addresses(data: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(data).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Resolves names from a local copy that follows the records. See [`Records`].
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_recipes::naming::Resolver;
/// let resolver = Resolver::start(&client, "/dns").await?;
/// println!("{:?}", resolver.resolve("db.example"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Resolver(Cache);

impl Resolver {
    /// Follows the records below a path.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::Resolver;
    /// let resolver = Resolver::start(&client, "/dns").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(client: &Client, path: &str) -> Result<Self, Error> {
        Cache::children(client, path).await.map(Self)
    }

    /// The addresses of a name; none when it has no record.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::Resolver;
    /// let resolver = Resolver::start(&client, "/dns").await?;
    /// println!("{:?}", resolver.resolve("db.example"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn resolve(&self, name: &str) -> Vec<String> {
        self.0.get(&child(self.0.path(), name)).map(|node| addresses(&node.data)).unwrap_or_default()
    }

    /// Waits for changes. The error is why nothing follows, mostly the end of the session.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_recipes::naming::Resolver;
    /// let mut resolver = Resolver::start(&client, "/dns").await?;
    /// while resolver.resolve("db.example").is_empty() {
    ///     resolver.changed().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), Error> {
        self.0.changed().await
    }
}
