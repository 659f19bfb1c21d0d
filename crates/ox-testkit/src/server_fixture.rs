//! The server of a test of clients: in process, or an external one named by `OX_TEST_SERVER`.
//!
//! The external server is reached through a proxy, which does from outside what the in-process server does itself: drop
//! the connection of a session, expire a session, be unavailable. Every test has its own subtree.

use crate::client_proxy::ClientProxy;
use crate::connection::RawConnection;
use crate::packet::{RawHandshake, RawPacket};
use crate::raw_client::{OpenError, RawClient};
use ox_proto::SessionId;
use ox_server::TestServer;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Environment variable with the address of an external server.
const SERVER: &str = "OX_TEST_SERVER";

/// Attempts to expire a session that its client keeps reclaiming.
const TRIES: usize = 100;

const TIMEOUT_MS: i32 = 20_000;

/// A server whose sessions and connections a test can disrupt.
pub enum ServerFixture {
    /// A server in this process.
    InProcess(Box<TestServer>),
    /// An external server behind a proxy.
    External(ExternalServer),
}

impl ServerFixture {
    /// Starts a server, or claims a subtree of the external one.
    pub fn start() -> Self {
        match std::env::var(SERVER) {
            Ok(address) => Self::External(ExternalServer::start(address.parse().unwrap())),
            Err(_) => Self::InProcess(Box::new(TestServer::start(|config| config.extended_types = true).unwrap())),
        }
    }

    /// Whether the test has a server of its own.
    pub fn is_in_process(&self) -> bool {
        matches!(self, Self::InProcess(_))
    }

    /// The connection string for clients.
    pub fn servers(&self) -> String {
        format!("{}{}", self.address(), self.root())
    }

    /// The chroot of all clients of the test.
    pub fn root(&self) -> &str {
        match self {
            Self::InProcess(_) => "",
            Self::External(external) => &external.root,
        }
    }

    pub fn address(&self) -> SocketAddr {
        match self {
            Self::InProcess(server) => server.address(),
            Self::External(external) => external.proxy.address(),
        }
    }

    /// Sessions of this test that are connected.
    pub fn sessions(&self) -> Vec<SessionId> {
        match self {
            Self::InProcess(server) => server.sessions(),
            Self::External(external) => external.proxy.sessions(),
        }
    }

    /// Expires a session; see [`TestServer::expire`].
    pub fn expire(&self, session: SessionId) -> io::Result<()> {
        match self {
            Self::InProcess(server) => server.expire(session),
            Self::External(external) => external.expire(session),
        }
    }

    /// Closes the connection of a session; see [`TestServer::drop_connection`].
    pub fn drop_connection(&self, session: SessionId) -> bool {
        match self {
            Self::InProcess(server) => server.drop_connection(session),
            Self::External(external) => external.proxy.close_session_connection(session),
        }
    }

    /// Closes all client connections; see [`TestServer::drop_connections`].
    pub fn drop_connections(&self) {
        match self {
            Self::InProcess(server) => _ = server.drop_connections(),
            Self::External(external) => external.proxy.proxy().close_all(),
        }
    }

    /// Closes all connections and rejects new ones.
    pub fn stop(&mut self) {
        match self {
            Self::InProcess(server) => server.stop().unwrap(),
            Self::External(external) => external.proxy.proxy().block(),
        }
    }

    /// Accepts connections again after [`ServerFixture::stop`].
    pub fn restart(&mut self) {
        match self {
            Self::InProcess(server) => server.restart().unwrap(),
            Self::External(external) => external.proxy.proxy().open(),
        }
    }
}

/// A subtree of an external server behind a proxy.
#[derive(Debug)]
pub struct ExternalServer {
    server: SocketAddr,
    root: String,
    proxy: ClientProxy,
}

impl ExternalServer {
    fn start(server: SocketAddr) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let root = format!("/test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut client = RawClient::open(server, TIMEOUT_MS);
        assert_eq!(client.create(&root, b"").err, 0);
        client.close();
        Self { server, root, proxy: ClientProxy::start(server) }
    }

    /// Reclaims the session and closes it.
    fn expire(&self, session: SessionId) -> io::Result<()> {
        let handshake = RawHandshake::resume(&self.proxy.handshake_of(session).expect("a session of this test"));
        for _ in 0..TRIES {
            if self.close_session(&handshake)? {
                self.proxy.close_session_connection(session);
                return Ok(());
            }
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("session {session} is reclaimed by its client again and again"),
        ))
    }

    /// Reclaims a session and closes it. Returns false if its client reclaimed it first.
    fn close_session(&self, handshake: &RawHandshake) -> io::Result<bool> {
        match RawClient::open_over(RawConnection::try_connect(self.server)?, handshake) {
            Ok(mut client) => Ok(client.try_ask(RawPacket::close).is_ok()),
            Err(OpenError::Refused) => Ok(true), // the session has ended
            Err(OpenError::Connection(_)) => Ok(false),
        }
    }
}
