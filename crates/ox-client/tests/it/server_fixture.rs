//! The server of a test: in process, or an external one named by `OX_TEST_SERVER`.
//!
//! The external server is reached through a proxy that parses the handshakes, so that it can do from outside what the
//! in-process server does itself: drop the connection of a session, expire a session, be unavailable. Every test has
//! its own subtree.

use ox_client::SessionId;
use ox_server::{Server, TestServer};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Environment variable with the address of an external server.
const SERVER: &str = "OX_TEST_SERVER";

/// Attempts to expire a session that its client keeps reclaiming.
const TRIES: usize = 100;

/// Bytes before the session id in the connect request and in its response (after the length).
const REQUEST_BEFORE_SESSION: usize = 16;
const RESPONSE_BEFORE_SESSION: usize = 8;
const PASSWORD_BYTES: usize = 16;

/// A server whose sessions and connections a test can disrupt.
pub(crate) enum ServerFixture {
    /// A server in this process.
    InProcess(Box<TestServer>),
    /// An external server behind a proxy.
    External(External),
}

impl ServerFixture {
    /// Starts a server, or claims a subtree of the external one.
    pub(crate) fn start() -> Self {
        match std::env::var(SERVER) {
            Ok(address) => Self::External(External::start(address.parse().unwrap())),
            Err(_) => Self::InProcess(Box::new(Server::ephemeral().unwrap())),
        }
    }

    /// Whether the test has a server of its own.
    pub(crate) fn is_in_process(&self) -> bool {
        matches!(self, Self::InProcess(_))
    }

    /// The connection string for clients.
    pub(crate) fn servers(&self) -> String {
        format!("{}{}", self.address(), self.root())
    }

    /// The chroot of all clients of the test.
    pub(crate) fn root(&self) -> &str {
        match self {
            Self::InProcess(_) => "",
            Self::External(foreign) => &foreign.root,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::InProcess(server) => server.address(),
            Self::External(foreign) => foreign.address,
        }
    }

    /// Sessions of this test that are connected.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        match self {
            Self::InProcess(server) => server.sessions(),
            Self::External(foreign) => {
                foreign.proxy_state.lock().open.values().filter_map(|open| open.session).collect()
            }
        }
    }

    /// Expires a session; see [`TestServer::expire`].
    pub(crate) fn expire(&self, session: SessionId) -> io::Result<()> {
        match self {
            Self::InProcess(server) => server.expire(session),
            Self::External(foreign) => foreign.expire(session),
        }
    }

    /// Closes the connection of a session; see [`TestServer::drop_connection`].
    pub(crate) fn drop_connection(&self, session: SessionId) -> bool {
        match self {
            Self::InProcess(server) => server.drop_connection(session),
            Self::External(foreign) => foreign.proxy_state.lock().close_matching(|open| open.session == Some(session)),
        }
    }

    /// Closes all client connections; see [`TestServer::drop_connections`].
    pub(crate) fn drop_connections(&self) {
        match self {
            Self::InProcess(server) => _ = server.drop_connections(),
            Self::External(foreign) => _ = foreign.proxy_state.lock().close_matching(|_| true),
        }
    }

    /// Closes all connections and rejects new ones.
    pub(crate) fn stop(&mut self) {
        match self {
            Self::InProcess(server) => server.stop().unwrap(),
            Self::External(foreign) => {
                let mut proxy_state = foreign.proxy_state.lock();
                proxy_state.is_away = true;
                proxy_state.close_matching(|_| true);
            }
        }
    }

    /// Accepts connections again after [`ServerFixture::stop`].
    pub(crate) fn restart(&mut self) {
        match self {
            Self::InProcess(server) => server.restart().unwrap(),
            Self::External(foreign) => foreign.proxy_state.lock().is_away = false,
        }
    }
}

/// A subtree of an external server behind a proxy. The proxy's threads live as long as the process.
pub(crate) struct External {
    server: SocketAddr,
    address: SocketAddr,
    root: String,
    proxy_state: Arc<Mutex<ProxyState>>,
}

/// Connections and sessions that the proxy has seen.
#[derive(Default)]
struct ProxyState {
    is_away: bool,
    next: u64,
    open: BTreeMap<u64, Open>,
    passwords: BTreeMap<SessionId, [u8; PASSWORD_BYTES]>,
}

struct Open {
    ends: [TcpStream; 2],
    session: Option<SessionId>,
}

impl ProxyState {
    /// Closes the selected connections; returns whether any matched.
    fn close_matching(&mut self, which: impl Fn(&Open) -> bool) -> bool {
        let chosen: Vec<&Open> = self.open.values().filter(|open| which(open)).collect();
        chosen.iter().flat_map(|open| &open.ends).for_each(|end| _ = end.shutdown(Shutdown::Both));
        !chosen.is_empty()
    }
}

impl External {
    fn start(server: SocketAddr) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let root = format!("/test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let proxy_state = Arc::<Mutex<ProxyState>>::default();
        let accepting = Arc::clone(&proxy_state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A connection that cannot be forwarded is closed, which its client notices.
                forward(&accepting, client, server).ok();
            }
        });
        let path = root.clone();
        // Tests may run on an async runtime, which must not be blocked.
        let making = std::thread::spawn(move || {
            let client = ox_client::BlockingClient::connect(&server.to_string()).unwrap();
            client.create(&path, b"", ox_client::CreateMode::Persistent).unwrap();
            client.close().unwrap();
        });
        making.join().unwrap();
        Self { server, address, root, proxy_state }
    }

    /// Reclaims the session and closes it.
    fn expire(&self, session: SessionId) -> io::Result<()> {
        let password = self.proxy_state.lock().passwords[&session];
        for _ in 0..TRIES {
            if close_session(self.server, session, password)? {
                self.proxy_state.lock().close_matching(|open| open.session == Some(session));
                return Ok(());
            }
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("session {session} is reclaimed by its client again and again"),
        ))
    }
}

/// Connects a client to the server, one thread per direction.
fn forward(proxy_state: &Arc<Mutex<ProxyState>>, client: TcpStream, server: SocketAddr) -> io::Result<()> {
    if proxy_state.lock().is_away {
        return Ok(());
    }
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ends = [client.try_clone()?, server.try_clone()?];
    let number = {
        let mut proxy_state = proxy_state.lock();
        if proxy_state.is_away {
            return Ok(());
        }
        let number = proxy_state.next;
        proxy_state.next += 1;
        proxy_state.open.insert(number, Open { ends, session: None });
        number
    };
    let ways = [(client.try_clone()?, server.try_clone()?, false), (server, client, true)];
    for (mut from, mut to, is_from_server) in ways {
        let proxy_state = Arc::clone(proxy_state);
        std::thread::spawn(move || {
            let welcomed = if is_from_server {
                forward_connect_response(&proxy_state, number, &mut from, &mut to)
            } else {
                Ok(())
            };
            _ = welcomed.and_then(|()| io::copy(&mut from, &mut to));
            _ = to.shutdown(Shutdown::Both);
            _ = from.shutdown(Shutdown::Both);
            proxy_state.lock().open.remove(&number);
        });
    }
    Ok(())
}

/// Forwards the connect response and records the session of the connection.
fn forward_connect_response(
    proxy_state: &Mutex<ProxyState>,
    number: u64,
    from: &mut TcpStream,
    to: &mut TcpStream,
) -> io::Result<()> {
    let (reply, session, password) = read_connect_response(from)?;
    let mut proxy_state = proxy_state.lock();
    proxy_state.passwords.insert(session, password);
    if let Some(open) = proxy_state.open.get_mut(&number) {
        open.session = Some(session);
    }
    drop(proxy_state);
    to.write_all(&reply)
}

/// Reads a connect response: the frame, the session id, the password.
fn read_connect_response(from: &mut TcpStream) -> io::Result<(Vec<u8>, SessionId, [u8; PASSWORD_BYTES])> {
    let frame = read_frame(from)?;
    let body = frame.get(4 + RESPONSE_BEFORE_SESSION..).ok_or(io::ErrorKind::InvalidData)?;
    let (session, rest) = body.split_first_chunk().ok_or(io::ErrorKind::InvalidData)?;
    let password = rest.get(4..).and_then(|rest| rest.first_chunk()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((frame.clone(), SessionId(i64::from_be_bytes(*session)), *password))
}

/// Reads a frame including its length prefix.
pub(crate) fn read_frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame)?;
    let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
    frame.resize(4 + length, 0);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// Reclaims a session and closes it. Returns false if its client reclaimed it first.
fn close_session(server: SocketAddr, session: SessionId, password: [u8; PASSWORD_BYTES]) -> io::Result<bool> {
    let mut stream = TcpStream::connect(server)?;
    let before = [0, 0, 0, 0, /* zxid */ 0, 0, 0, 0, 0, 0, 0, 0, /* ms */ 0, 0, 0x4e, 0x20];
    debug_assert_eq!(before.len(), REQUEST_BEFORE_SESSION);
    let request = [&before[..], &session.0.to_be_bytes(), &[0, 0, 0, 16], &password, &[0]].concat();
    let length = u32::try_from(request.len()).unwrap();
    stream.write_all(&[&length.to_be_bytes()[..], &request].concat())?;
    let Ok((_, SessionId(given), _)) = read_connect_response(&mut stream) else { return Ok(false) };
    if given == 0 {
        return Ok(true); // the session has ended
    }
    let (xid, close) = (1_i32.to_be_bytes(), (-11_i32).to_be_bytes());
    stream.write_all(&[&[0, 0, 0, 8], &xid[..], &close[..]].concat())?;
    Ok(read_frame(&mut stream).is_ok())
}
