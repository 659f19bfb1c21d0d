//! Watches as futures and streams.

use crate::client::Shared;
use crate::core::{Class, WatchId};
use crate::event::{Event, EventKind};
use crate::limits::EVENTS_MAX;
use crate::reader_queue::Feed;
use futures_core::Stream;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a persistent watch covers.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::WatchMode;
/// let one = client.watch("/app", WatchMode::Persistent).await?;
/// let all = client.watch("/app", WatchMode::PersistentRecursive).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchMode {
    /// The node: its creation, its data, its end, and its list of children.
    Persistent,
    /// The node and everything below: creations, data and ends. Lists of children are not told, their members are.
    PersistentRecursive,
}

impl WatchMode {
    pub(crate) fn class(self) -> Class {
        match self {
            Self::Persistent => Class::Persistent,
            Self::PersistentRecursive => Class::Recursive,
        }
    }

    /// The number of addWatch.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::PersistentRecursive => 1,
        }
    }
}

/// Which watches [`Client::check_watches`](crate::Client::check_watches) and
/// [`Client::remove_watches`](crate::Client::remove_watches) are about.
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
    /// Left by `children_and_watch`.
    Children,
    /// Left by `get_and_watch` and `exists_and_watch`.
    Data,
    /// All of a node.
    Any,
    /// [`WatchMode::Persistent`]; servers since 3.9 know it.
    Persistent,
    /// [`WatchMode::PersistentRecursive`]; servers since 3.9 know it.
    PersistentRecursive,
}

impl WatcherType {
    pub(crate) fn classes(self) -> &'static [Class] {
        match self {
            Self::Children => &[Class::Child],
            Self::Data => &[Class::Data],
            Self::Any => &Class::ALL,
            Self::Persistent => &[Class::Persistent],
            Self::PersistentRecursive => &[Class::Recursive],
        }
    }

    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Any => 3,
            Self::Children | Self::Data | Self::Persistent | Self::PersistentRecursive => self.classes()[0].code(),
        }
    }
}

/// Where the driver puts events.
pub(crate) type Sink = Arc<Feed<Event>>;

/// Adds an event, unless too many wait: then one more says that some are missing.
pub(crate) fn tell(sink: &Sink, event: Event) {
    sink.put(|queue| match queue.back() {
        Some(last) if last.kind == EventKind::Missed && event.kind == EventKind::Missed => (),
        Some(last) if EVENTS_MAX <= queue.len() && last.kind == EventKind::Missed => (),
        _ if EVENTS_MAX <= queue.len() => queue.push_back(Event::bare(EventKind::Missed)),
        _ => queue.push_back(event),
    });
}

/// The last event. It is told even when too many wait.
pub(crate) fn tell_last(sink: &Sink, event: Event) {
    sink.put(|queue| queue.push_back(event));
    sink.end();
}

/// What a watch and a stream have in common.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    pub(crate) id: WatchId,
    pub(crate) class: Class,
    /// As the server knows it.
    pub(crate) path: Box<str>,
    pub(crate) sink: Sink,
}

impl Watcher {
    pub(crate) fn new(shared: Arc<Shared>, class: Class, path: &str) -> Self {
        let id = shared.next_watch();
        Self { shared, id, class, path: path.into(), sink: Arc::new(Feed::new()) }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let event = std::task::ready!(self.sink.poll(cx));
        Poll::Ready(event.map(|mut event| {
            event.path = self.shared.outer(event.path);
            event
        }))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.forget(self.class, &self.path, self.id);
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("class", &self.class).field("path", &self.path).finish_non_exhaustive()
    }
}

/// A one-shot watch: a future of the next event of a node.
///
/// It survives lost connections: what happened meanwhile is told when the client is back (but for a node that was
/// created and deleted again between, if it did not exist before). The event comes before any answer that shows what it
/// announces. Dropping the watch takes it from the server, too, when nobody else in this client waits for the same.
///
/// When the session ends first, the event is [`EventKind::SessionEnded`].
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
#[must_use = "a watch that is dropped is taken back"]
pub struct Watch(pub(crate) Watcher);

impl Future for Watch {
    type Output = Event;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Event> {
        self.0.poll(cx).map(|event| event.unwrap_or_else(|| Event::bare(EventKind::SessionEnded)))
    }
}

/// A persistent watch: a stream of events, in the order in which the changes happened.
///
/// Servers do not tell what happened while the client was away, so the stream says [`EventKind::Missed`] when it is back:
/// what is read after that is up to date, and later changes are told again. The same event takes the place of those that come while
/// 4096 events wait to be read. The stream ends behind [`EventKind::SessionEnded`] or [`EventKind::WatchRemoved`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{CreateMode, EventKind, WatchMode};
/// let mut events = client.watch("/", WatchMode::PersistentRecursive).await?;
/// client.create("/a", b"", CreateMode::Persistent).await?;
/// client.create("/a/b", b"", CreateMode::Persistent).await?;
/// assert_eq!(events.next().await.unwrap().path, "/a");
/// let event = events.next().await.unwrap();
/// assert_eq!((event.kind, event.path.as_str()), (EventKind::NodeCreated, "/a/b"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a watch that is dropped is taken back"]
pub struct WatchStream(pub(crate) Watcher);

impl WatchStream {
    /// The next event, `None` when nothing follows.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut events = client.watch("/a", ox_client::WatchMode::Persistent).await?;
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
