//! The handle that applications hold, and what it shares with its driver.

mod call;
mod chroot;
mod node_ops;
mod protected_create;
mod server_ops;
mod shared;
mod watch_ops;

pub(crate) use call::{Call, Kind};
pub(crate) use chroot::chroot;
pub(crate) use node_ops::{names, node, put_create};
pub(crate) use shared::Shared;

use crate::builder::Builder;
use crate::error::{Error, ErrorKind, Outcome};
use crate::reader_queue::Feed;
use crate::retry::RetryPolicy;
use crate::server_list;
use crate::session_events::Notices;
use crate::state::{SessionTicket, State, States};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A session with an ensemble.
///
/// Clones are cheap and share the session. [`Client::close`] ends it; so does, in the background, dropping the last clone.
///
/// Requests are sent in the order in which their futures are first polled, without waiting for each other's answers, and
/// answered in that order. Dropping a future is safe at any time: a request that is not sent yet is taken back, one that is sent
/// is executed without anybody learning what became of it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let servers = server.address().to_string();
/// use ox_client::{Client, CreateMode};
/// let client = Client::connect(&servers).await?; // for example "zk1:2181,zk2:2181,zk3:2181/app"
/// client.create("/greeting", b"hello", CreateMode::Persistent).await?;
/// let node = client.get("/greeting").await?;
/// assert_eq!(node.data, b"hello");
/// client.set("/greeting", b"hello again", node.stat.version).await?;
/// client.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
    retry: RetryPolicy,
}

/// Closes the session behind the last client.
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.change(|session, now_ms, effects| session.close(now_ms, None, effects));
    }
}

impl Client {
    /// Connects to one of the servers of a connection string, `host:port,host:port/chroot`, with default settings.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let servers = server.address().to_string();
    /// let client = ox_client::Client::connect(&servers).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(servers: &str) -> Result<Self, Error> {
        Self::builder().servers(servers)?.connect().await
    }

    /// Settings for a new client.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().servers("zk1:2181")?;
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(shared: Arc<Shared>, retry: RetryPolicy) -> Self {
        Self { handle: Arc::new(Handle(shared)), retry }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.0
    }

    /// The same session with another way to deal with lost connections.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let impatient = client.with_retry(ox_client::RetryPolicy::None);
    /// impatient.exists("/").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_retry(&self, retry: RetryPolicy) -> Self {
        Self { handle: Arc::clone(&self.handle), retry }
    }

    /// Where the client stands now.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// assert!(client.state().is_connected());
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> State {
        self.shared().state()
    }

    /// All states from now on, beginning with the current one.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_client::State;
    /// let mut states = client.states();
    /// while let Some(state) = states.next().await {
    ///     match state {
    ///         State::Suspended { lost_after } => println!("stop before {lost_after:?}"),
    ///         state => println!("{state:?}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn states(&self) -> States {
        let feed = Arc::new(Feed::new());
        self.shared().subscribe(&feed);
        States::new(feed)
    }

    /// Everything the session learns from now on, states and events in one order, beginning with the current state. For
    /// tools that show or log it; applications are better off with the watches they have set.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// use ox_client::{Client, CreateMode, EventKind, Notice, State};
    /// let client = Client::connect(&server.address().to_string()).await?;
    /// let mut notices = client.notices();
    /// assert_eq!(notices.next().await, Some(Notice::State(State::Connected)));
    /// let (_, watch) = client.exists_and_watch("/a").await?;
    /// client.create("/a", b"", CreateMode::Persistent).await?;
    /// let Some(Notice::Event(event)) = notices.next().await else { panic!("an event") };
    /// assert_eq!((event.kind, event.path.as_str()), (EventKind::NodeCreated, "/a"));
    /// # drop(watch);
    /// # Ok(())
    /// # }
    /// ```
    pub fn notices(&self) -> Notices {
        Notices::new(Arc::clone(self.shared()))
    }

    /// The moment from which the session must be assumed lost unless the client hears from a server again. It moves on
    /// with every answer of a server that takes writes.
    ///
    /// **Limits.** A follower answers by itself, and tells its leader with the next ping of theirs. One that is cut off from its
    /// leader needs up to `syncLimit` ticks to notice; what it answers meanwhile, the leader does not know. Whoever must
    /// be certain protects what is written by a fencing token, such as the `czxid` of a node that is held.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// assert!(std::time::Instant::now() < client.session_lost_after());
    /// # Ok(())
    /// # }
    /// ```
    pub fn session_lost_after(&self) -> Instant {
        self.shared().lost_after()
    }

    /// The session; `None` before there is one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let session = client.session().expect("it is connected");
    /// println!("{} may be silent for {:?}", session.id, session.timeout);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(&self) -> Option<SessionTicket> {
        self.shared().ticket()
    }

    /// Ends the session, with its ephemeral nodes, behind everything that was asked before. All clones are closed.
    ///
    /// An error says that no server could be told: the session will expire by itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.close().await?;
    /// assert!(client.get("/").await.unwrap_err().is_final());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) -> Result<(), Error> {
        let (waiter, done) = oneshot::channel();
        self.shared().change(|session, now_ms, effects| session.close(now_ms, Some(waiter), effects));
        match done.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::new("close", None, ErrorKind::ConnectionLoss, Outcome::Unknown)),
        }
    }

    /// Ends the client, but not the session: whoever gets the ticket can [go on](Builder::resume) with it before it
    /// expires. `None` when there is no session.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let ticket = client.detach().expect("there is a session");
    /// assert!(client.exists("/").await.unwrap_err().is_final());
    /// let again = ox_client::Client::builder().servers(&server.address().to_string())?.resume(ticket).connect().await?;
    /// assert_eq!(again.session().unwrap().id, ticket.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(&self) -> Option<SessionTicket> {
        let ticket = self.session();
        self.shared().change(|session, _, effects| session.abandon(effects));
        ticket
    }

    /// Takes another list of servers, `host:port,host:port`. The client may go to another server, so that many clients with
    /// the same new list spread evenly over it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// client.update_servers("zk1:2181,zk2:2181,zk3:2181")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_servers(&self, servers: &str) -> Result<(), Error> {
        let (servers, chroot) = server_list::parse(servers)?;
        if !chroot.is_empty() {
            return Err(Error::connect(ErrorKind::InvalidArgument("the chroot cannot change")));
        }
        self.shared().change(|session, _, _| session.update_servers(servers));
        Ok(())
    }

    /// Waits for the first session.
    pub(crate) async fn await_session(&self, limit: Duration) -> Result<(), Error> {
        let mut states = self.states();
        let reached = tokio::time::timeout(limit, async {
            while let Some(state) = states.next().await {
                if state.is_connected() || state.is_final() {
                    return state;
                }
            }
            State::Closed
        });
        let kind = match reached.await {
            Ok(State::Expired) => ErrorKind::SessionExpired,
            Ok(State::AuthFailed) => ErrorKind::AuthFailed,
            Ok(State::Closed) => ErrorKind::Closed,
            Ok(_) => return Ok(()),
            Err(_) => ErrorKind::NoServer,
        };
        Err(Error::connect(kind))
    }
}
