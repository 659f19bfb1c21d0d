//! What operations take and give.

use ox_proto::acl::Acl;
use ox_proto::{OpCode, Stat};
use std::sync::Arc;
use std::time::Duration;

/// The kinds of nodes.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::CreateMode;
/// use std::time::Duration;
/// client.create("/stays", b"", CreateMode::Persistent).await?;
/// client.create("/mine", b"", CreateMode::Ephemeral).await?;
/// client.create("/n-", b"", CreateMode::PersistentSequential).await?;
/// client.create("/cached", b"", CreateMode::PersistentWithTtl(Duration::from_secs(60))).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CreateMode {
    /// Stays until it is deleted.
    #[default]
    Persistent,
    /// Goes with the session, and has no children.
    Ephemeral,
    /// Stays; the server appends a number of ten digits to the name, which grows with every child of the parent.
    PersistentSequential,
    /// Goes with the session; the server appends a number to the name.
    EphemeralSequential,
    /// Stays until its last child is gone for a while.
    Container,
    /// Stays until nobody has changed it for so long and it has no children. Servers must be told to allow it.
    PersistentWithTtl(Duration),
    /// The same, with a number at the end of the name.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    /// Whether the server appends a number to the name.
    ///
    /// ```
    /// use ox_client::CreateMode;
    /// assert!(CreateMode::EphemeralSequential.is_sequential() && !CreateMode::Ephemeral.is_sequential());
    /// ```
    pub fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential | Self::PersistentSequentialWithTtl(_))
    }

    /// Whether the node goes with the session.
    ///
    /// ```
    /// use ox_client::CreateMode;
    /// assert!(CreateMode::EphemeralSequential.is_ephemeral() && !CreateMode::Container.is_ephemeral());
    /// ```
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Operation, flags and time to live, as the protocol has them.
    pub(crate) fn wire(self) -> (OpCode, i32, Option<i64>) {
        let ms = |ttl: Duration| Some(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        match self {
            Self::Persistent => (OpCode::Create2, 0, None),
            Self::Ephemeral => (OpCode::Create2, 1, None),
            Self::PersistentSequential => (OpCode::Create2, 2, None),
            Self::EphemeralSequential => (OpCode::Create2, 3, None),
            Self::Container => (OpCode::CreateContainer, 4, None),
            Self::PersistentWithTtl(ttl) => (OpCode::CreateTtl, 5, ms(ttl)),
            Self::PersistentSequentialWithTtl(ttl) => (OpCode::CreateTtl, 6, ms(ttl)),
        }
    }
}

/// How a node is created: its mode, and who may do what with it. A [`CreateMode`] alone leaves the node open to everybody.
///
/// ```
/// use ox_client::{CreateMode, CreateOptions, acl};
/// let options = CreateOptions::new(CreateMode::Ephemeral).with_acl(acl::creator());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// The mode.
    pub mode: CreateMode,
    /// `None` is the open list, which needs not be encoded again and again.
    pub(crate) acl: Option<Arc<[Acl]>>,
}

impl CreateOptions {
    /// A node that is open to everybody.
    ///
    /// ```
    /// use ox_client::{CreateMode, CreateOptions};
    /// let options = CreateOptions::new(CreateMode::Ephemeral);
    /// ```
    pub fn new(mode: CreateMode) -> Self {
        Self { mode, acl: None }
    }

    /// Another access control list; see [`acl`](crate::acl).
    ///
    /// ```
    /// use ox_client::{CreateMode, CreateOptions, acl};
    /// let options = CreateOptions::new(CreateMode::Persistent).with_acl(acl::read_only());
    /// ```
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.acl = Some(acl.into().into());
        self
    }
}

impl From<CreateMode> for CreateOptions {
    fn from(mode: CreateMode) -> Self {
        Self::new(mode)
    }
}

impl From<&CreateOptions> for CreateOptions {
    fn from(options: &CreateOptions) -> Self {
        options.clone()
    }
}

/// The version a node must have for a write to succeed.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::Version;
/// client.set("/a", b"1", Version::Any).await?;
/// client.set("/a", b"2", 1).await?; // if nobody has changed it since
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// Whatever it is.
    #[default]
    Any,
    /// Exactly this one: of the data, or of the ACL for [`set_acl`](crate::Client::set_acl).
    Is(i32),
}

impl Version {
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Any => -1,
            Self::Is(version) => version,
        }
    }
}

impl From<i32> for Version {
    fn from(version: i32) -> Self {
        Self::Is(version)
    }
}

/// Data of a node: anything that is bytes, or [`Null`].
///
/// ```
/// use ox_client::{Data, Null};
/// assert_eq!(Data::bytes("text"), Some(&b"text"[..]));
/// assert_eq!((Data::bytes(&vec![1, 2]), Null.bytes()), (Some(&[1, 2][..]), None));
/// ```
pub trait Data: Sync {
    /// The bytes, `None` for null.
    fn bytes(&self) -> Option<&[u8]>;
}

impl<T: AsRef<[u8]> + Sync + ?Sized> Data for T {
    fn bytes(&self) -> Option<&[u8]> {
        Some(self.as_ref())
    }
}

/// No data at all, which servers tell from empty data.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{CreateMode, Null};
/// client.create("/n", Null, CreateMode::Persistent).await?;
/// assert!(client.get("/n").await?.is_null);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Null;

impl Data for Null {
    fn bytes(&self) -> Option<&[u8]> {
        None
    }
}

/// What [`get`](crate::Client::get) gives.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// let node = client.get("/").await?;
/// assert_eq!((node.data.as_slice(), node.stat.num_children), (&b""[..], 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The data; empty for [`Null`], too.
    pub data: Vec<u8>,
    /// The data is [`Null`].
    pub is_null: bool,
    /// The metadata.
    pub stat: Stat,
}

/// What [`create`](crate::Client::create) gives.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::CreateMode;
/// let created = client.create("/n-", b"", CreateMode::EphemeralSequential).await?;
/// assert_eq!((created.path.as_str(), created.stat.version), ("/n-0000000000", 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The final name, with its number if it has one.
    pub path: String,
    /// The new node. Its `czxid` is a good fencing token.
    pub stat: Stat,
}

/// An identity of a connection, as [`who_am_i`](crate::Client::who_am_i) tells it.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// for identity in client.who_am_i().await? {
///     println!("{}:{}", identity.scheme, identity.id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Authentication scheme.
    pub scheme: String,
    /// Identity within the scheme.
    pub id: String,
}

/// A change of the ensemble's members, for [`reconfig`](crate::Client::reconfig).
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::Reconfig;
/// let leave = Reconfig::Change { joining: Vec::new(), leaving: vec!["4".to_owned()] };
/// println!("{}", String::from_utf8_lossy(&client.reconfig(&leave, None).await?.data));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconfig {
    /// Some come, some go.
    Change {
        /// Servers that join, as `server.3=host:2888:3888;2181`.
        joining: Vec<String>,
        /// Ids of those that leave.
        leaving: Vec<String>,
    },
    /// Exactly these, as `server.3=host:2888:3888;2181`.
    Members(Vec<String>),
}
