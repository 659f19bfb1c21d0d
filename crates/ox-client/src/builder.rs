//! Settings of a client, and how it is started.

use crate::client::{Client, Receiver, Shared, chroot};
use crate::core::{Session, SessionCredentials, Settings};
use crate::driver::{self, Driver};
use crate::error::{Error, ErrorKind};
use crate::retry::RetryPolicy;
#[cfg(feature = "security")]
use crate::sasl::SaslLogin;
use crate::sasl::SaslSource;
use crate::server_list::{self, ServerAddress, ServerList};
use crate::state::SessionTicket;
#[cfg(feature = "security")]
use crate::tls::{TlsDialer, TlsOption, TlsSettings};
use crate::transport::Dialer;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Settings of a new client; [`Builder::connect`] or [`Builder::start`] creates it.
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
    servers: Vec<ServerAddress>,
    chroot: String,
    creates_chroot: bool,
    session_timeout: Duration,
    connect_timeout: Duration,
    credentials: Vec<(String, Secret)>,
    read_only: bool,
    retry: RetryPolicy,
    resume: Option<SessionTicket>,
    is_shuffled: bool,
    seed: Option<u64>,
    max_in_flight: Option<usize>,
    max_request_bytes: Option<usize>,
    #[cfg(feature = "security")]
    tls: Option<TlsOption>,
    #[cfg(feature = "security")]
    sasl: Option<SaslLogin>,
}

/// Credentials, which `Debug` hides so that they do not end up in logs.
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
            creates_chroot: false,
            session_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
            credentials: Vec::new(),
            read_only: false,
            retry: RetryPolicy::default(),
            resume: None,
            is_shuffled: true,
            seed: None,
            max_in_flight: None,
            max_request_bytes: None,
            #[cfg(feature = "security")]
            tls: None,
            #[cfg(feature = "security")]
            sasl: None,
        }
    }

    /// The servers as a connection string, `host:port,host:port/chroot`. The default port is 2181; IPv6 addresses are
    /// written in brackets.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().servers("zk1:2181,zk2,[::1]:2182/app")?;
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn servers(mut self, servers: &str) -> Result<Self, Error> {
        let (servers, chroot_path) = server_list::parse(servers)?;
        self.servers = servers;
        if !chroot_path.is_empty() {
            self.chroot = chroot(&chroot_path)?;
        }
        Ok(self)
    }

    /// Prefixes all paths of this client with `path`, instead of the chroot of the connection string. The node must
    /// exist, or be created by [`Builder::create_chroot`]; until then operations fail with `NoNode`, and the error names
    /// the chroot.
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

    /// Whether [`Builder::connect`] creates the chroot and its ancestors if they do not exist; off by default, so that a
    /// misspelt chroot is an error. [`Builder::start`] does not wait for a session and leaves it to
    /// [`Client::create_chroot`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ox_server::Server::ephemeral()?;
    /// use ox_client::Client;
    /// let servers = format!("{}/apps/mail", server.address());
    /// let client = Client::builder().servers(&servers)?.create_chroot(true).connect().await?;
    /// client.ensure_path("/queue").await?; // /apps/mail/queue
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_chroot(mut self, create: bool) -> Self {
        self.creates_chroot = create;
        self
    }

    /// The session timeout to request, 30 seconds by default: servers expire the session of a client that is silent for
    /// longer. Servers enforce limits of their own; [`SessionTicket::timeout`] is what they granted.
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

    /// How long [`Builder::connect`] waits for the session, 30 seconds by default. Each connection attempt may take the
    /// session timeout divided by the number of servers.
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

    /// Authenticates every connection; see [`Client::add_auth`]. If a server rejects the credentials or does not know the
    /// scheme, [`Builder::connect`] fails.
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

    /// Whether the client accepts a read-only server, which is partitioned from the quorum and answers reads only.
    /// While connected to one, the client keeps searching for a read-write server.
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

    /// When operations are retried after a connection loss, and for how long.
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

    /// Resumes an existing session instead of creating a new one.
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

    /// Whether the servers are tried in random order (the default) or in the order of the connection string.
    ///
    /// ```
    /// use ox_client::Client;
    /// let builder = Client::builder().servers("near,far")?.shuffle(false);
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.is_shuffled = shuffle;
        self
    }

    /// Seeds the random order of servers and the random pauses between attempts, to make tests reproducible.
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

    /// How many requests may be in flight, 32768 by default. Further requests wait.
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

    /// The largest request that the servers accept (their `jute.maxbuffer`), 1048575 bytes by default. The client
    /// rejects larger requests itself, because a server would close the connection.
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

    /// Connects with TLS, by the stores and rules of the settings. The connection string names the host that the server's
    /// certificate must be valid for. Changed stores are used for new connections.
    ///
    /// ```
    /// use ox_client::{Client, tls::TlsSettings};
    /// let mut settings = TlsSettings::new(ox_client::tls::SettingsGroup::Client);
    /// settings.trust_store.location = Some("ca.pem".into());
    /// settings.key_store.location = Some("client.pem".into()); // for servers that require a certificate
    /// let builder = Client::builder().servers("zk1:2281")?.tls(settings);
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    #[cfg(feature = "security")]
    pub fn tls(mut self, settings: TlsSettings) -> Self {
        self.tls = Some(TlsOption::Settings(Box::new(settings)));
        self
    }

    /// Connects with TLS, by a configuration of rustls, which decides what is verified.
    ///
    /// ```no_run
    /// # fn example(config: std::sync::Arc<rustls::ClientConfig>) -> Result<(), ox_client::Error> {
    /// let builder = ox_client::Client::builder().servers("zk1:2281")?.tls_config(config);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "security")]
    pub fn tls_config(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.tls = Some(TlsOption::Config(config));
        self
    }

    /// Authenticates every connection by SASL, before anything else is sent.
    ///
    /// ```
    /// use ox_client::{Client, SaslLogin};
    /// let builder = Client::builder().servers("zk1")?.sasl(SaslLogin::digest("bob", "secret"));
    /// # Ok::<(), ox_client::Error>(())
    /// ```
    #[cfg(feature = "security")]
    pub fn sasl(mut self, login: SaslLogin) -> Self {
        self.sasl = Some(login);
        self
    }

    #[cfg(feature = "security")]
    fn protection(&mut self) -> Result<(Dialer, Option<SaslSource>), Error> {
        let bad = |text: String| Error::connect(ErrorKind::BadSecurity(text));
        let tls = self.tls.take().map(TlsDialer::new).transpose().map_err(|error| bad(error.to_string()))?;
        Ok((Dialer { tls }, self.sasl.take().map(SaslSource::new)))
    }

    #[cfg(not(feature = "security"))]
    fn protection(&mut self) -> Result<(Dialer, Option<SaslSource>), Error> {
        Ok((Dialer::default(), None))
    }

    /// Connects, and returns when the session is established. The client runs in a task of the current tokio runtime, and
    /// is closed when that runtime is dropped.
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
        let (limit, creates_chroot) = (self.connect_timeout, self.creates_chroot);
        let (client, credentials) = self.launch()?;
        client.await_session(limit, credentials).await?;
        if creates_chroot {
            client.create_chroot().await?;
        }
        Ok(client)
    }

    /// Starts connecting in the background and returns immediately. Operations wait for the session if the
    /// [`RetryPolicy`] allows it.
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
    /// Outside of a tokio runtime. Like `connect`, it needs one with I/O and time (`enable_all`).
    pub fn start(self) -> Result<Client, Error> {
        Ok(self.launch()?.0)
    }

    /// Starts connecting; also returns what will receive the result of each authentication.
    fn launch(mut self) -> Result<(Client, Vec<Receiver>), Error> {
        if self.servers.is_empty() {
            let unset = Error::connect(ErrorKind::BadConnectString(String::new()));
            return Err(unset.with_detail("Builder::servers was not called"));
        }
        let (dialer, sasl) = self.protection()?;
        let millis = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX).max(1);
        let mut settings = Settings::new(millis(self.session_timeout));
        settings.read_only = self.read_only;
        settings.requests_max = self.max_in_flight.unwrap_or(settings.requests_max);
        settings.frame_bytes_max = self.max_request_bytes.unwrap_or(settings.frame_bytes_max);
        settings.resume = self.resume.map(|ticket| SessionCredentials {
            id: ticket.id,
            password: ticket.password,
            timeout_ms: millis(ticket.timeout),
            last_zxid: ticket.last_zxid,
        });
        let servers = ServerList::new(self.servers, self.is_shuffled, self.seed.unwrap_or_else(rand::random));
        let mut session = Session::new(settings, servers);
        let mut replies = Vec::new();
        for (scheme, Secret(auth)) in &self.credentials {
            let (waiter, reply) = oneshot::channel();
            let _ = session.add_auth(0, scheme, Some(auth), Some(waiter)); // cannot fail: the session has not ended
            replies.push(reply);
        }
        let shared = Arc::new(Shared::new(session, self.chroot, dialer));
        tokio::spawn(driver::run(Driver(Arc::clone(&shared)), sasl));
        Ok((Client::new(shared, self.retry), replies))
    }
}
