//! Watches as futures and streams of events.

use crate::client::Shared;
use crate::core::{WatchClass, WatchId};
use crate::event::{Event, EventKind};
use crate::limits::EVENTS_MAX;
use crate::reader_queue::ReaderQueue;
use futures_core::Stream;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a persistent watch covers (`AddWatchMode` in Java).
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::AddWatchMode;
/// let one = client.watch("/app", AddWatchMode::Persistent).await?;
/// let all = client.watch("/app", AddWatchMode::PersistentRecursive).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddWatchMode {
    /// The node: creation, data changes, deletion, and its list of children.
    Persistent,
    /// The node and all its descendants: creation, data changes, deletion. Sends no NodeChildrenChanged events.
    PersistentRecursive,
}

impl AddWatchMode {
    pub(crate) fn class(self) -> WatchClass {
        match self {
            Self::Persistent => WatchClass::Persistent,
            Self::PersistentRecursive => WatchClass::Recursive,
        }
    }

    /// The mode as encoded in addWatch.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::PersistentRecursive => 1,
        }
    }
}

/// The type of watches that [`Client::check_watches`](crate::Client::check_watches) and
/// [`Client::remove_watches`](crate::Client::remove_watches) apply to.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::WatcherType;
/// if client.check_watches("/a", WatcherType::Data).await? {
///     client.remove_watches("/a", WatcherType::Data).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatcherType {
    /// Child watches, set by `children_and_watch`.
    Children,
    /// Data watches, set by `get_and_watch` and `exists_and_watch`.
    Data,
    /// All watches of the node.
    Any,
    /// Watches added with [`AddWatchMode::Persistent`]; requires a server of version 3.9 or later.
    Persistent,
    /// Watches added with [`AddWatchMode::PersistentRecursive`]; requires a server of version 3.9 or later.
    PersistentRecursive,
}

impl WatcherType {
    pub(crate) fn classes(self) -> &'static [WatchClass] {
        match self {
            Self::Children => &[WatchClass::Child],
            Self::Data => &[WatchClass::Data],
            Self::Any => &WatchClass::ALL,
            Self::Persistent => &[WatchClass::Persistent],
            Self::PersistentRecursive => &[WatchClass::Recursive],
        }
    }

    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Any => 3,
            Self::Children | Self::Data | Self::Persistent | Self::PersistentRecursive => self.classes()[0].code(),
        }
    }
}

/// The queue into which the driver puts the events of a watcher.
pub(crate) type Sink = Arc<ReaderQueue<Event>>;

/// Appends an event, or `Missed` at the length limit.
pub(crate) fn push_event(sink: &Sink, event: Event) {
    sink.update(|queue| match queue.back() {
        Some(last) if last.kind == EventKind::Missed && event.kind == EventKind::Missed => (),
        Some(last) if EVENTS_MAX <= queue.len() && last.kind == EventKind::Missed => (),
        _ if EVENTS_MAX <= queue.len() => queue.push_back(Event::bare(EventKind::Missed)),
        _ => queue.push_back(event),
    });
}

/// Appends the last event regardless of the length limit, and ends the queue.
pub(crate) fn push_last_event(sink: &Sink, event: Event) {
    sink.update(|queue| queue.push_back(event));
    sink.end();
}

/// The registration that [`Watch`] and [`WatchStream`] share; dropping it removes the watcher.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    pub(crate) id: WatchId,
    pub(crate) class: WatchClass,
    /// The path including the chroot.
    pub(crate) path: Box<str>,
    pub(crate) sink: Sink,
}

impl Watcher {
    pub(crate) fn new(shared: Arc<Shared>, class: WatchClass, path: &str) -> Self {
        let id = shared.next_watch();
        Self { shared, id, class, path: path.into(), sink: Arc::new(ReaderQueue::new()) }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let event = std::task::ready!(self.sink.poll(cx));
        Poll::Ready(event.map(|mut event| {
            event.path = self.shared.client_path(event.path);
            event
        }))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.remove_watcher(self.class, &self.path, self.id);
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("class", &self.class).field("path", &self.path).finish_non_exhaustive()
    }
}

/// A one-shot watch: a future of the next event on a node.
///
/// It survives connection losses: an event that occurred meanwhile is delivered after the reconnect. (Exception: a node
/// that did not exist before and was created and deleted in between.) The event is delivered before any reply that
/// shows the change. Dropping the watch removes it from the server unless another watch of this client shares it.
///
/// If the session ends first, the event is [`EventKind::SessionEnded`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{CreateMode, EventKind};
/// let (stat, watch) = client.exists_and_watch("/a").await?;
/// assert!(stat.is_none());
/// client.create("/a", b"", CreateMode::Persistent).await?;
/// assert_eq!(watch.await.kind, EventKind::NodeCreated);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a watch removes it"]
pub struct Watch(pub(crate) Watcher);

impl Future for Watch {
    type Output = Event;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Event> {
        self.0.poll(cx).map(|event| event.unwrap_or_else(|| Event::bare(EventKind::SessionEnded)))
    }
}

/// A persistent watch: a stream of events in the order of the changes.
///
/// Servers do not send the events that occurred during a disconnect. The stream therefore returns [`EventKind::Missed`]
/// after a reconnect: data read after it is current, and later changes are delivered again. `Missed` also replaces
/// events beyond 4096 unread ones. The stream ends after [`EventKind::SessionEnded`] or [`EventKind::WatchRemoved`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{CreateMode, EventKind, AddWatchMode};
/// let mut events = client.watch("/", AddWatchMode::PersistentRecursive).await?;
/// client.create("/a", b"", CreateMode::Persistent).await?;
/// client.create("/a/b", b"", CreateMode::Persistent).await?;
/// assert_eq!(events.next().await.unwrap().path, "/a");
/// let event = events.next().await.unwrap();
/// assert_eq!((event.kind, event.path.as_str()), (EventKind::NodeCreated, "/a/b"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a watch removes it"]
pub struct WatchStream(pub(crate) Watcher);

impl WatchStream {
    /// Returns the next event, `None` after the last one.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut events = client.watch("/a", ox_client::AddWatchMode::Persistent).await?;
    /// println!("{:?}", events.next().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.0.poll(cx)).await
    }
}

impl Stream for WatchStream {
    type Item = Event;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll(cx)
    }
}
