//! Events that watches deliver.

use ox_proto::Zxid;
use ox_proto::event::EventType;

/// The type of an [`Event`].
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::{EventKind, AddWatchMode};
/// let mut events = client.watch("/app", AddWatchMode::PersistentRecursive).await?;
/// while let Some(event) = events.next().await {
///     match event.kind {
///         EventKind::Missed => println!("read everything again"),
///         EventKind::NodeDeleted => println!("{} was deleted", event.path),
///         kind => println!("{kind:?} {}", event.path),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The watched node was created.
    NodeCreated,
    /// The watched node was deleted.
    NodeDeleted,
    /// The data of the node changed.
    NodeDataChanged,
    /// A child of the node was created or deleted.
    NodeChildrenChanged,
    /// Streams only: events may be missing at this point, because the connection was lost or because the stream was not
    /// read for too long. Applications that keep a copy read everything again; later changes are delivered as events
    /// again.
    Missed,
    /// The watch was removed by [`remove_watches`](crate::Client::remove_watches). This is its last event.
    WatchRemoved,
    /// The session has ended. This is the last event.
    SessionEnded,
}

/// A change of a watched node, or the end of the watch.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// let (_, watch) = client.exists_and_watch("/a").await?;
/// let created = client.create("/a", b"", ox_client::CreateMode::Persistent).await?;
/// let event = watch.await;
/// assert_eq!((event.path.as_str(), event.zxid), ("/a", Some(created.stat.czxid)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The type of the change.
    pub kind: EventKind,
    /// The node that changed, which a recursive watch may cover as a descendant. Empty for kinds that do not concern a
    /// node.
    pub path: String,
    /// The transaction that made the change. Servers report it since 3.9, except for changes made while the client was
    /// disconnected.
    pub zxid: Option<Zxid>,
}

impl Event {
    /// An event that does not concern a node.
    pub(crate) fn bare(kind: EventKind) -> Self {
        Self { kind, path: String::new(), zxid: None }
    }
}

impl From<EventType> for EventKind {
    fn from(kind: EventType) -> Self {
        match kind {
            EventType::NodeCreated => Self::NodeCreated,
            EventType::NodeDeleted => Self::NodeDeleted,
            EventType::NodeDataChanged => Self::NodeDataChanged,
            EventType::NodeChildrenChanged => Self::NodeChildrenChanged,
        }
    }
}
