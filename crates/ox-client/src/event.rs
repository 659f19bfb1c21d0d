//! What watchers are told.

use ox_proto::Zxid;
use ox_proto::event::EventType;

/// What an [`Event`] is about.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::{EventKind, WatchMode};
/// let mut events = client.watch("/app", WatchMode::PersistentRecursive).await?;
/// while let Some(event) = events.next().await {
///     match event.kind {
///         EventKind::Missed => println!("read everything again"),
///         EventKind::NodeDeleted => println!("{} is gone", event.path),
///         kind => println!("{kind:?} {}", event.path),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The node was created.
    NodeCreated,
    /// The node was deleted.
    NodeDeleted,
    /// The node's data changed.
    NodeDataChanged,
    /// The node's list of children changed.
    NodeChildrenChanged,
    /// Streams only: events may be missing here, because the connection was lost for a while or the stream was not
    /// read for too long. Whoever keeps a copy of something reads it again now; later changes are told again.
    Missed,
    /// The watch was taken away by [`remove_watches`](crate::Client::remove_watches). Nothing follows.
    WatchRemoved,
    /// The session is over. Nothing follows.
    SessionEnded,
}

/// Something happened to a watched node, or to the watch.
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
    /// What happened.
    pub kind: EventKind,
    /// The node; for recursive watches the one that changed. Empty where [`Event::kind`] is not about a node.
    pub path: String,
    /// The change, where the server tells it (since 3.9, and not for what happened while the client was away).
    pub zxid: Option<Zxid>,
}

impl Event {
    /// An event about no node.
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
