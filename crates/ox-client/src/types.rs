//! Arguments and results of operations.

use crate::acl::explain_acl;
use crate::error::Error;
use ox_proto::acl::Acl;
use ox_proto::{ErrorCode, OpCode, Stat};
use std::sync::Arc;
use std::time::Duration;

/// Lifetime and naming of a new node.
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
    /// Persistent: exists until it is deleted.
    #[default]
    Persistent,
    /// Deleted when the session ends; cannot have children.
    Ephemeral,
    /// Persistent; the server appends a ten-digit counter to the name, which grows with every child of the parent.
    PersistentSequential,
    /// Deleted when the session ends; the server appends a counter to the name.
    EphemeralSequential,
    /// Deleted by the server some time after its last child was deleted; a container that never had a child stays.
    Container,
    /// Deleted by the server when it has no children and was not modified for this long. All servers must have TTL nodes
    /// enabled (`extendedTypesEnabled=true`); they are off by default.
    PersistentWithTtl(Duration),
    /// Like [`CreateMode::PersistentWithTtl`]; the server appends a counter to the name.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    /// Whether the server appends a counter to the name.
    ///
    /// ```
    /// use ox_client::CreateMode;
    /// assert!(CreateMode::EphemeralSequential.is_sequential() && !CreateMode::Ephemeral.is_sequential());
    /// ```
    pub fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential | Self::PersistentSequentialWithTtl(_))
    }

    /// Whether the node is deleted when the session ends.
    ///
    /// ```
    /// use ox_client::CreateMode;
    /// assert!(CreateMode::EphemeralSequential.is_ephemeral() && !CreateMode::Container.is_ephemeral());
    /// ```
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Opcode, flags and TTL in milliseconds, as encoded in the create request.
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

/// Mode and ACL of a new node. A bare [`CreateMode`] converts into options with the open ACL.
///
/// ```
/// use ox_client::{CreateMode, CreateOptions, acl};
/// let options = CreateOptions::new(CreateMode::Ephemeral).with_acl(acl::creator());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Lifetime and naming of the node.
    pub mode: CreateMode,
    /// `None` is the open ACL, whose encoding is a constant.
    pub(crate) acl: Option<Arc<[Acl]>>,
}

impl CreateOptions {
    /// Options with the open ACL.
    ///
    /// ```
    /// use ox_client::{CreateMode, CreateOptions};
    /// let options = CreateOptions::new(CreateMode::Ephemeral);
    /// ```
    pub fn new(mode: CreateMode) -> Self {
        Self { mode, acl: None }
    }

    /// Replaces the ACL; see [`acl`](crate::acl).
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

    /// Adds to the error of a create what the code does not say.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match error.code() {
            Some(ErrorCode::Unimplemented) if self.mode.wire().0 == OpCode::CreateTtl => {
                error.with_detail("TTL nodes are off; set extendedTypesEnabled=true on all servers")
            }
            Some(ErrorCode::BadArguments) if self.mode.wire().0 == OpCode::CreateTtl && error.detail().is_none() => {
                error.with_detail("a TTL is at least a millisecond, and less than 2^40 ms (34 years)")
            }
            Some(ErrorCode::NoNode) if error.detail().is_none() => {
                error.with_detail("its parent does not exist; create_all and ensure_path create parents")
            }
            Some(ErrorCode::InvalidAcl) => explain_acl(error, self.acl.as_deref().unwrap_or_default()),
            _ => error,
        }
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

/// The version that a node must have for a write to succeed. Operations take `None`, a number, an `Option` or this.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// # client.create("/a", b"0", ox_client::CreateMode::Persistent).await?;
/// client.set("/a", b"1", None).await?; // whatever its version
/// client.set("/a", b"2", 1).await?; // only if no other client has changed it since
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// Any version: the check is skipped.
    #[default]
    Any,
    /// Exactly this version: of the data, or of the ACL for [`set_acl`](crate::Client::set_acl).
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

impl From<Option<i32>> for Version {
    fn from(version: Option<i32>) -> Self {
        version.map_or(Self::Any, Self::Is)
    }
}

impl From<i32> for Version {
    fn from(version: i32) -> Self {
        Self::Is(version)
    }
}

/// Data of a node: anything that converts to bytes, or [`Null`].
///
/// ```
/// use ox_client::{NodeData, Null};
/// assert_eq!(NodeData::bytes("text"), Some(&b"text"[..]));
/// assert_eq!((NodeData::bytes(&vec![1, 2]), Null.bytes()), (Some(&[1, 2][..]), None));
/// ```
pub trait NodeData: Sync {
    /// Returns the bytes, `None` for null.
    fn bytes(&self) -> Option<&[u8]>;
}

impl<T: AsRef<[u8]> + Sync + ?Sized> NodeData for T {
    fn bytes(&self) -> Option<&[u8]> {
        Some(self.as_ref())
    }
}

/// Null data, which servers distinguish from empty data.
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

impl NodeData for Null {
    fn bytes(&self) -> Option<&[u8]> {
        None
    }
}

/// Data and metadata of a node, returned by [`get`](crate::Client::get).
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
    /// The data; empty if it is [`Null`].
    pub data: Vec<u8>,
    /// Whether the data is [`Null`] rather than empty.
    pub is_null: bool,
    /// Versions, zxids and counters of the node.
    pub stat: Stat,
}

/// Path and metadata of a new node, returned by [`create`](crate::Client::create).
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
    /// The actual path, including the counter of a sequential node.
    pub path: String,
    /// Metadata of the new node. Its `czxid` can serve as a fencing token.
    pub stat: Stat,
}

/// An authenticated identity of a connection, returned by [`who_am_i`](crate::Client::who_am_i).
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
pub struct AuthInfo {
    /// The authentication scheme, for example `digest` or `ip`.
    pub scheme: String,
    /// The identity within the scheme, without secrets.
    pub id: String,
}

/// A change of the ensemble membership for [`reconfig`](crate::Client::reconfig).
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::MembershipChange;
/// let leave = MembershipChange::Incremental { joining: Vec::new(), leaving: vec!["4".to_owned()] };
/// println!("{}", String::from_utf8_lossy(&client.reconfig(&leave, None).await?.data));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// Adds and removes members; the others stay.
    Incremental {
        /// Servers to add, as `server.3=host:2888:3888;2181`.
        joining: Vec<String>,
        /// Ids of the servers to remove.
        leaving: Vec<String>,
    },
    /// Replaces all members by these, as `server.3=host:2888:3888;2181`.
    Full(Vec<String>),
}
