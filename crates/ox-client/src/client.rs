//! The client handle, and the state it shares with the driver.

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
pub(crate) use shared::{Receiver, Shared};

use crate::builder::Builder;
use crate::connect_failure::ConnectFailure;
use crate::error::{Error, ErrorKind, RequestOutcome};
use crate::reader_queue::ReaderQueue;
use crate::retry::RetryPolicy;
use crate::server_list;
use crate::session_events::SessionEvents;
use crate::state::{SessionState, SessionStates, SessionTicket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A session with a ZooKeeper ensemble.
///
/// Clones are cheap and share the session. [`Client::close`] ends it; dropping the last clone ends it in the
/// background.
///
/// Requests are sent in the order in which their futures are first polled, without waiting for each other's replies,
/// and replies are received in that order. Dropping a future is safe at any time: a request that is not sent yet is
/// cancelled; a request that is already sent is executed and its reply is discarded.
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

/// Closes the session when the last client is dropped.
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.change(|session, now_ms, effects| session.close(now_ms, None, effects));
    }
}

impl Client {
    /// Connects to an ensemble with default settings. `servers` is a connection string, `host:port,host:port/chroot`.
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

    /// Returns the default settings for a new client.
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

    /// Returns a handle to the same session with another retry policy.
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

    /// Returns the current session state.
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
    pub fn state(&self) -> SessionState {
        self.shared().state()
    }

    /// Returns a stream of session states: the current state first, then every transition.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use ox_client::SessionState;
    /// let mut states = client.states();
    /// while let Some(state) = states.next().await {
    ///     match state {
    ///         SessionState::Suspended { lost_after } => println!("stop before {lost_after:?}"),
    ///         state => println!("{state:?}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn states(&self) -> SessionStates {
        let queue = Arc::new(ReaderQueue::new());
        self.shared().subscribe_states(&queue);
        SessionStates::new(queue)
    }

    /// Returns a stream of everything the session receives, states and events in one order, the current state first.
    /// Meant for tools that display or log all of it; applications should use their watches.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// use ox_client::{Client, CreateMode, EventKind, SessionEvent, SessionState};
    /// let client = Client::connect(&server.address().to_string()).await?;
    /// let mut events = client.session_events();
    /// assert_eq!(events.next().await, Some(SessionEvent::State(SessionState::Connected)));
    /// let (_, watch) = client.exists_and_watch("/a").await?;
    /// client.create("/a", b"", CreateMode::Persistent).await?;
    /// let Some(SessionEvent::Event(event)) = events.next().await else { panic!("expected an event") };
    /// assert_eq!((event.kind, event.path.as_str()), (EventKind::NodeCreated, "/a"));
    /// # drop(watch);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session_events(&self) -> SessionEvents {
        SessionEvents::new(Arc::clone(self.shared()))
    }

    /// The moment after which the session must be assumed expired, unless the client hears from a server before. Every
    /// reply of a read-write server moves it forward.
    ///
    /// **Limits.** A follower replies on its own and reports the touched sessions to its leader with the next leader
    /// ping. A follower that is partitioned from its leader takes up to `syncLimit` ticks to notice; the leader does
    /// not learn of the replies it sends meanwhile. Applications that need certainty protect their writes with a
    /// fencing token, for example the `czxid` of a lock node.
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

    /// Id, password and granted timeout of the session; `None` before the session is established.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let session = client.session().expect("connected");
    /// println!("{} expires after {:?} of silence", session.id, session.timeout);
    /// # Ok(())
    /// # }
    /// ```
    pub fn session(&self) -> Option<SessionTicket> {
        self.shared().ticket()
    }

    /// Why each server established no session, by the last attempt; a server that has not replied yet counts as
    /// [`ConnectCause::Timeout`](crate::ConnectCause::Timeout). Empty while the client is connected.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// for failure in client.connect_failures() {
    ///     println!("{failure}"); // zk1:2181: connection refused
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_failures(&self) -> Vec<ConnectFailure> {
        self.shared().connect_failures()
    }

    /// Why SASL authentication failed, which has ended the session with
    /// [`SessionState::AuthFailed`]; `None` if it has not.
    ///
    /// ```no_run
    /// # async fn example(client: ox_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(reason) = client.sasl_failure() {
    ///     println!("the server does not accept this client: {reason}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn sasl_failure(&self) -> Option<String> {
        self.shared().sasl_failure()
    }

    /// Ends the session and its ephemeral nodes, after all earlier requests. All clones are closed.
    ///
    /// Without a connection it waits for a server, for the session timeout and at most 10 seconds. Then the client is closed
    /// nevertheless, and the error is [`ErrorKind::CloseUnconfirmed`]: the session expires by itself.
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
            Ok(Err(_)) | Err(_) => {
                let lost = Error::new("close", None, ErrorKind::CloseUnconfirmed, RequestOutcome::Unknown);
                Err(self.shared().explain(lost))
            }
        }
    }

    /// Ends the client but not the session: another client can [resume](Builder::resume) it with the returned ticket
    /// before it expires. `None` when no session is established.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let client = ox_client::Client::connect(&server.address().to_string()).await?;
    /// let ticket = client.detach().expect("the session is established");
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

    /// Replaces the list of servers, `host:port,host:port`. The client may move to another server, so that many clients
    /// with the same new list are balanced evenly.
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
        const NAME: &str = "update servers";
        let (servers, chroot) = server_list::parse(servers).map_err(|error| error.with_operation(NAME))?;
        if !chroot.is_empty() {
            let kind = ErrorKind::InvalidArgument("the chroot cannot change; omit it from the list of servers");
            return Err(Error::early(NAME, None, kind));
        }
        self.shared().change(|session, _, _| session.update_servers(servers));
        Ok(())
    }

    /// Waits for the first session and until a server has accepted the credentials, at most `limit`.
    pub(crate) async fn await_session(&self, limit: Duration, credentials: Vec<Receiver>) -> Result<(), Error> {
        let mut states = self.states();
        let reached = tokio::time::timeout(limit, async {
            while let Some(state) = states.next().await {
                if state.is_connected() || state.is_final() {
                    break;
                }
            }
            for reply in credentials {
                drop(reply.await); // a refusal ends the session
            }
            self.state()
        });
        let kind = match reached.await {
            Ok(SessionState::Expired) => ErrorKind::SessionExpired,
            Ok(SessionState::AuthFailed) => {
                self.shared().sasl_failure().map_or(ErrorKind::AuthFailed, ErrorKind::SaslFailed)
            }
            Ok(SessionState::Closed) => ErrorKind::Closed,
            Ok(_) => return Ok(()),
            Err(_) => ErrorKind::NoServer(self.shared().connect_failures()),
        };
        Err(self.shared().explain(Error::connect(kind)))
    }
}
