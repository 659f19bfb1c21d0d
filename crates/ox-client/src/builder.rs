//! Settings of a client.

use crate::client::{Client, Shared, chroot};
use crate::core::{Identity, Session, Settings};
use crate::driver;
use crate::error::{Error, ErrorKind};
use crate::retry::RetryPolicy;
use crate::server_list::{self, Server, Servers};
use crate::state::SessionTicket;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a client that is about to be.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ox_server::Server::ephemeral()?;
/// # let servers = server.address().to_string();
/// use ox_client::{Client, RetryPolicy};
/// use std::time::Duration;
/// let client = Client::builder()
///     .servers(&servers)?
///     .session_timeout(Duration::from_secs(10))
///     .auth("digest", b"bob:secret")
///     .retry(RetryPolicy::times(5))
///     .connect()
///     .await?;
/// assert_eq!(client.session().unwrap().timeout, Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `connect`"]
pub struct Builder {
    servers: Vec<Server>,
    chroot: String,
    session_timeout: Duration,
    connect_timeout: Duration,
    credentials: Vec<(String, Secret)>,
    read_only: bool,
    retry: RetryPolicy,
    resume: Option<SessionTicket>,
    shuffles: bool,
    seed: Option<u64>,
    max_in_flight: Option<usize>,
    max_request_bytes: Option<usize>,
}

/// Not for logs.
#[derive(Clone)]
struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            servers: Vec::new(),
            chroot: String::new(),
            session_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
            credentials: Vec::new(),
            read_only: false,
            retry: RetryPolicy::default(),
            resume: None,
            shuffles: true,
            seed: None,
            max_in_flight: None,
            max_request_bytes: None,
        }
    }

    /// The servers, `host:port,host:port/chroot`. The port is 2181 where none is named; addresses of IPv6 stand in brackets.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().servers("zk1:2181,zk2,[::1]:2182/app")?;
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn servers(mut self, servers: &str) -> Result<Self, Error> {
        let (servers, below) = server_list::parse(servers)?;
        self.servers = servers;
        if !below.is_empty() {
            self.chroot = chroot(&below)?;
        }
        Ok(self)
    }

    /// A path that is put before all others. It must exist when it is used.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().servers("zk1")?.chroot("/app")?;
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn chroot(mut self, path: &str) -> Result<Self, Error> {
        self.chroot = chroot(path)?;
        Ok(self)
    }

    /// How long servers wait for a silent client, 30 seconds unless told. They have limits of their own: see
    /// [`SessionTicket::timeout`] for what was granted.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().session_timeout(std::time::Duration::from_secs(10));
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long [`Builder::connect`] waits for the first session, 30 seconds unless told. A single server gets its
    /// share of the session timeout.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().connect_timeout(std::time::Duration::from_secs(5));
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Proves an identity on every connection; see [`Client::add_auth`].
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().auth("digest", "bob:secret");
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn auth(mut self, scheme: &str, auth: impl AsRef<[u8]>) -> Self {
        self.credentials.push((scheme.to_owned(), Secret(auth.as_ref().to_vec())));
        self
    }

    /// Whether a server will do that lost the others and only answers reads. The client goes on looking for one that
    /// takes writes.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().servers("zk1,zk2,zk3")?.read_only(true);
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// What to do about lost connections.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().retry(ox_client::RetryPolicy::times(3));
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Goes on with a session instead of beginning one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let servers = server.address().to_string();
    /// use ox_client::{Client, CreateMode};
    /// let first = Client::connect(&servers).await?;
    /// first.create("/mine", b"", CreateMode::Ephemeral).await?;
    /// let ticket = first.detach().expect("a session");
    /// let second = Client::builder().servers(&servers)?.resume(ticket).connect().await?;
    /// assert_eq!(second.exists("/mine").await?.unwrap().ephemeral_owner, ticket.id.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(mut self, ticket: SessionTicket) -> Self {
        self.resume = Some(ticket);
        self
    }

    /// Whether the servers are tried in random order, as they are unless told otherwise.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().servers("near,far")?.shuffle(false);
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffles = shuffle;
        self
    }

    /// Makes the order of servers and the pauses between attempts the same in every run, for tests.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().servers("zk1,zk2,zk3")?.seed(7);
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many requests may be under way, 32768 unless told. More wait their turn.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().max_in_flight(1000);
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn max_in_flight(mut self, requests: usize) -> Self {
        self.max_in_flight = Some(requests.max(1));
        self
    }

    /// The largest request that servers take (their `jute.maxbuffer`), 1048575 bytes unless told. A larger one is refused
    /// here: a server would drop the connection for it.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().max_request_bytes(4 << 20);
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = Some(bytes);
        self
    }

    /// Connects, and waits for the session.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let servers = server.address().to_string();
    /// let client = ox_client::Client::builder().servers(&servers)?.connect().await?;
    /// assert!(client.state().is_connected());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(self) -> Result<Client, Error> {
        let limit = self.connect_timeout;
        let client = self.start()?;
        client.await_session(limit).await?;
        Ok(client)
    }

    /// Begins to connect without waiting for it. What is asked for meanwhile waits, if the [`RetryPolicy`] lets it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// # let servers = server.address().to_string();
    /// let client = ox_client::Client::builder().servers(&servers)?.start()?;
    /// client.exists("/").await?; // waits for the session
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(self) -> Result<Client, Error> {
        if self.servers.is_empty() {
            return Err(Error::connect(ErrorKind::BadConnectString(String::new())));
        }
        let millis = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX).max(1);
        let mut settings = Settings::new(millis(self.session_timeout));
        settings.read_only = self.read_only;
        settings.requests_max = self.max_in_flight.unwrap_or(settings.requests_max);
        settings.frame_bytes_max = self.max_request_bytes.unwrap_or(settings.frame_bytes_max);
        settings.resume = self.resume.map(|ticket| Identity {
            id: ticket.id,
            password: ticket.password,
            timeout_ms: millis(ticket.timeout),
            last_zxid: ticket.last_zxid,
        });
        let servers = Servers::new(self.servers, self.shuffles, self.seed.unwrap_or_else(rand::random));
        let mut session = Session::new(settings, servers);
        for (scheme, Secret(auth)) in &self.credentials {
            let _ = session.add_auth(0, scheme, Some(auth), None); // a session that begins is not over
        }
        let shared = Arc::new(Shared::new(session, self.chroot));
        tokio::spawn(driver::run(Arc::clone(&shared)));
        Ok(Client::new(shared, self.retry))
    }
}
