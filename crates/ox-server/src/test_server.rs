//! A server for tests: real sockets and files, a free port, and a directory that is removed at the end.

use crate::io::connection_table::ConnStats;
use crate::server::{Server, ServerHandle, StartError};
use crate::shared::Fatal;
use crate::status::version::Build;
use ox_config::{Config, FourLetterWhitelist};
use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::frame::split_frame;
use ox_proto::limits::FRAME_BYTES_MAX_DEFAULT;
use ox_proto::password::session_password;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::put_bare_request;
use ox_proto::{OpCode, Reader, SessionId, Zxid};
use ox_replica::ConnId;
use ox_replica::outbox::{Outbox, PartKind};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Short, so that tests of expiring sessions are short.
const TICK_MS: u32 = 50;
const MIN_SESSION_TIMEOUT_MS: i32 = 100;
const MAX_SESSION_TIMEOUT_MS: i32 = 60_000;

/// The longest time to wait for the reply to closeSession.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often `expire` takes over a session whose client reconnects meanwhile.
const ATTEMPTS_MAX: usize = 100;

/// Connections listed under one lock.
const CONNS_PER_LOCK: usize = 256;

impl Server {
    /// Starts a standalone server for tests, on a free port of the loopback interface, with a directory that is removed
    /// when the returned handle is dropped.
    ///
    /// Session timeouts from 100 ms are granted, all four-letter commands are enabled, the number of connections per
    /// address is unlimited, and the log is not fsynced: the data survives [`TestServer::restart`], but not a crash of
    /// the machine. Everything else is as on a server with default settings; TTL nodes, for example, are off unless
    /// [`TestServer::start`] sets `extended_types`.
    ///
    /// ```
    /// let mut server = ox_server::Server::ephemeral()?;
    /// let stream = std::net::TcpStream::connect(server.address())?;
    /// server.restart()?; // same port, same data
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ephemeral() -> Result<TestServer, StartError> {
        TestServer::start(|_| ())
    }
}

/// A server for tests, with methods to cause the usual failures. See [`Server::ephemeral`].
pub struct TestServer {
    server: Option<Server>,
    config: Config,
    address: SocketAddr,
    /// Removed after the server has stopped.
    _dir: Directory,
}

impl TestServer {
    /// Starts a server; `change` adapts the settings of [`Server::ephemeral`].
    ///
    /// ```
    /// use ox_server::TestServer;
    /// let server = TestServer::start(|config| config.extended_types = true)?; // with TTL nodes
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start(change: impl FnOnce(&mut Config)) -> Result<Self, StartError> {
        let dir = Directory::new().map_err(StartError::Setup)?;
        let mut config = Config::default_standalone();
        config.data_dir = dir.0.clone();
        config.data_log_dir = dir.0.clone();
        config.client_port = Some(0);
        config.client_address = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        config.tick_ms = TICK_MS;
        config.min_session_timeout_ms = MIN_SESSION_TIMEOUT_MS;
        config.max_session_timeout_ms = MAX_SESSION_TIMEOUT_MS;
        config.limits.max_client_cnxns = 0;
        config.storage.force_sync = false;
        config.storage.pre_alloc_bytes = 0;
        config.four_letter_whitelist = FourLetterWhitelist::All;
        change(&mut config);
        let server = Server::start(Build::UNKNOWN, config.clone())?;
        let address = server.address().ok_or_else(|| StartError::Setup(io::ErrorKind::AddrNotAvailable.into()))?;
        config.client_port = Some(address.port());
        Ok(Self { server: Some(server), config, address, _dir: dir })
    }

    /// The address of the client port, which [`TestServer::restart`] does not change.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The handle of the running server.
    ///
    /// # Panics
    ///
    /// Panics if the server is stopped.
    pub fn handle(&self) -> ServerHandle {
        self.server.as_ref().expect("the server runs").handle()
    }

    /// Sessions that have a connection at present.
    pub fn sessions(&self) -> Vec<SessionId> {
        let mut sessions = Vec::new();
        self.each_connection(|_, stats| sessions.push(stats.session()));
        sessions.retain(|session| *session != SessionId::NONE);
        sessions
    }

    /// Ends a session as if its timeout had passed, and returns when its ephemeral nodes are deleted. The client
    /// receives SessionExpired when it reconnects. Does nothing if the session is already closed.
    pub fn expire(&self, session: SessionId) -> io::Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            if self.take_and_close(session)? {
                return Ok(());
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("the client of session {session} always reconnects first")))
    }

    /// Closes the connection of a session; the session stays. Existing replies are still sent; requests in flight are
    /// executed, and their replies are lost. Returns whether there was a connection.
    pub fn drop_connection(&self, session: SessionId) -> bool {
        let mut found = false;
        self.each_connection(|conn, stats| {
            if stats.session() == session {
                self.close(conn);
                found = true;
            }
        });
        found
    }

    /// Closes all connections, including those without a session. Returns their number.
    pub fn drop_connections(&self) -> usize {
        let mut count = 0;
        self.each_connection(|conn, _| {
            self.close(conn);
            count += 1;
        });
        count
    }

    /// Stops the server and returns how it ended. The port refuses connections until [`TestServer::restart`].
    pub fn stop(&mut self) -> Result<(), Fatal> {
        let Some(server) = self.server.take() else { return Ok(()) };
        server.handle().stop();
        server.wait()
    }

    /// Starts the server again on the same port and data. A running server is stopped first.
    pub fn restart(&mut self) -> Result<(), StartError> {
        drop(self.server.take());
        self.server = Some(Server::start(Build::UNKNOWN, self.config.clone())?);
        Ok(())
    }

    fn each_connection(&self, mut visit: impl FnMut(ConnId, &Arc<ConnStats>)) {
        let Some(server) = &self.server else { return };
        let mut after = None;
        loop {
            let conns = server.shared().connections.list_after(after, CONNS_PER_LOCK);
            let Some((last, _)) = conns.last() else { return };
            after = Some(*last);
            conns.iter().for_each(|(conn, stats)| visit(*conn, stats));
        }
    }

    fn close(&self, conn: ConnId) {
        let Some(server) = &self.server else { return };
        let mut outbox = Outbox::default();
        outbox.push(conn, PartKind::Close, |_| ());
        server.shared().post(conn.thread(), outbox);
    }

    /// Takes over the session and closes it. False when the client reconnected first.
    fn take_and_close(&self, session: SessionId) -> io::Result<bool> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(CLOSE_TIMEOUT))?;
        let password = session_password(session);
        let mut out = Vec::new();
        let hello = ConnectRequest {
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: MAX_SESSION_TIMEOUT_MS,
            session,
            password: Some(&password),
            read_only: Some(false),
        };
        hello.put_frame(&mut out);
        put_bare_request(&mut out, 1, OpCode::CloseSession.code());
        stream.write_all(&out)?;
        let Some(welcome) = frame(&mut stream)? else { return Ok(false) };
        let welcome = ConnectResponse::decode(&welcome).map_err(io::Error::other)?;
        if welcome.session == SessionId::NONE {
            return Ok(true);
        }
        let Some(reply) = frame(&mut stream)? else { return Ok(false) };
        let reply: ReplyHeader = Reader::new(&reply).get().map_err(io::Error::other)?;
        Ok(reply.err == 0)
    }
}

/// The next frame, `None` at the end of the stream.
fn frame(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    loop {
        if let Some((payload, _)) = split_frame(&bytes, FRAME_BYTES_MAX_DEFAULT).map_err(io::Error::other)? {
            return Ok(Some(payload.to_vec()));
        }
        let wanted = bytes.first_chunk::<4>().map_or(4, |prefix| 4 + u32::from_be_bytes(*prefix) as usize);
        let mut piece = vec![0; wanted - bytes.len()];
        match stream.read(&mut piece) {
            Ok(0) => return Ok(None),
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// A directory that is removed with its owner.
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("oxkeeper-{:016x}", rand::random::<u64>()));
        create_private(&path)?;
        Ok(Self(path))
    }
}

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "cannot remove the temporary directory");
        }
    }
}
