//! Everything a session learns, in one stream.

use crate::client::Shared;
use crate::event::{Event, EventKind};
use crate::limits::EVENTS_MAX;
use crate::reader_queue::Feed;
use crate::state::State;
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a session has learned.
///
/// ```no_run
/// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use ox_client::Notice;
/// let mut notices = client.notices();
/// while let Some(notice) = notices.next().await {
///     match notice {
///         Notice::State(state) => println!("{state:?}"),
///         Notice::Event(event) => println!("{:?} {}", event.kind, event.path),
///         notice => println!("{notice:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// It is in another state.
    State(State),
    /// A server has told of an event that at least one watch of this session waited for; told once, however many did.
    Event(Event),
    /// Every server was tried, and none gave it a session. It goes on trying.
    NoServer,
}

/// Everything a session learns, in the order in which it learned it, beginning with the state it was in when
/// [`Client::notices`](crate::Client::notices) was called. It ends behind a final state.
///
/// A reader that lets 4096 notices wait misses some: an event [`EventKind::Missed`] stands in their place.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
/// use ox_client::{Notice, State};
/// let mut notices = client.notices();
/// client.close().await?;
/// assert_eq!(notices.next().await, Some(Notice::State(State::Connected)));
/// assert_eq!(notices.next().await, Some(Notice::State(State::Closed)));
/// assert_eq!(notices.next().await, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Notices {
    shared: Arc<Shared>,
    feed: Arc<Feed<Notice>>,
}

impl Notices {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let feed = Arc::new(Feed::new());
        shared.listen(&feed);
        Self { shared, feed }
    }

    /// The next one, `None` behind a final state.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// println!("{:?}", client.notices().next().await);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<Notice> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        self.feed.poll(cx).map(|notice| match notice {
            Some(Notice::Event(event)) => {
                let path = self.shared.outer(event.path);
                Some(Notice::Event(Event { path, ..event }))
            }
            other => other,
        })
    }
}

impl Stream for Notices {
    type Item = Notice;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        self.poll(cx)
    }
}

/// Tells a reader.
pub(crate) fn tell(feed: &Feed<Notice>, notice: Notice) {
    let is_final = matches!(notice, Notice::State(state) if state.is_final());
    let missed = || Notice::Event(Event::bare(EventKind::Missed));
    feed.put(|queue| match queue.back() {
        _ if is_final || queue.len() < EVENTS_MAX => queue.push_back(notice),
        Some(last) if *last == missed() => (),
        _ => queue.push_back(missed()),
    });
    if is_final {
        feed.end();
    }
}
