//! The server of a test: one in the process, or the one that `OX_TEST_SERVER` names, whoever runs it.
//!
//! The latter is reached through a proxy that listens to the handshakes, so that it can do from outside what the server in the process does
//! by itself: drop the connection of a session, end a session, be away. Every test has a part of the tree to itself.

use ox_client::SessionId;
use ox_server::{Ephemeral, Server};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the server of somebody else is.
const SERVER: &str = "OX_TEST_SERVER";

/// Tries to end a session that its client takes back meanwhile.
const TRIES: usize = 100;

/// Zxid, time-out and the like before the session in a request to connect, and between length and session in the answer.
const REQUEST_BEFORE_SESSION: usize = 16;
const ANSWER_BEFORE_SESSION: usize = 8;
const PASSWORD_BYTES: usize = 16;

/// A server that a test can disturb.
pub(crate) enum Stage {
    /// In the process.
    Own(Box<Ephemeral>),
    /// Somewhere else.
    Foreign(Foreign),
}

impl Stage {
    /// A server of the test's own, or its part of another.
    pub(crate) fn start() -> Self {
        match std::env::var(SERVER) {
            Ok(address) => Self::Foreign(Foreign::start(address.parse().unwrap())),
            Err(_) => Self::Own(Box::new(Server::ephemeral().unwrap())),
        }
    }

    /// Whether the test has the whole server to itself.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    /// What clients are told to connect to.
    pub(crate) fn servers(&self) -> String {
        format!("{}{}", self.address(), self.root())
    }

    /// The path that all clients of the test have before their own.
    pub(crate) fn root(&self) -> &str {
        match self {
            Self::Own(_) => "",
            Self::Foreign(foreign) => &foreign.root,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Own(server) => server.address(),
            Self::Foreign(foreign) => foreign.address,
        }
    }

    /// Sessions of this test that have a connection now.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        match self {
            Self::Own(server) => server.sessions(),
            Self::Foreign(foreign) => foreign.book.lock().open.values().filter_map(|open| open.session).collect(),
        }
    }

    /// See [`Ephemeral::expire`].
    pub(crate) fn expire(&self, session: SessionId) -> io::Result<()> {
        match self {
            Self::Own(server) => server.expire(session),
            Self::Foreign(foreign) => foreign.expire(session),
        }
    }

    /// See [`Ephemeral::drop_connection`].
    pub(crate) fn drop_connection(&self, session: SessionId) -> bool {
        match self {
            Self::Own(server) => server.drop_connection(session),
            Self::Foreign(foreign) => foreign.book.lock().cut(|open| open.session == Some(session)),
        }
    }

    /// See [`Ephemeral::drop_connections`].
    pub(crate) fn drop_connections(&self) {
        match self {
            Self::Own(server) => _ = server.drop_connections(),
            Self::Foreign(foreign) => _ = foreign.book.lock().cut(|_| true),
        }
    }

    /// Nobody can connect any more, and nobody is connected.
    pub(crate) fn stop(&mut self) {
        match self {
            Self::Own(server) => server.stop().unwrap(),
            Self::Foreign(foreign) => {
                let mut book = foreign.book.lock();
                book.is_away = true;
                book.cut(|_| true);
            }
        }
    }

    /// Ends [`Stage::stop`].
    pub(crate) fn restart(&mut self) {
        match self {
            Self::Own(server) => server.restart().unwrap(),
            Self::Foreign(foreign) => foreign.book.lock().is_away = false,
        }
    }
}

/// A part of a server's tree behind a proxy. The proxy's threads live as long as the process.
pub(crate) struct Foreign {
    server: SocketAddr,
    address: SocketAddr,
    root: String,
    book: Arc<Mutex<Book>>,
}

/// What the proxy knows.
#[derive(Default)]
struct Book {
    is_away: bool,
    next: u64,
    open: BTreeMap<u64, Open>,
    passwords: BTreeMap<SessionId, [u8; PASSWORD_BYTES]>,
}

struct Open {
    ends: [TcpStream; 2],
    session: Option<SessionId>,
}

impl Book {
    /// Cuts some connections; whether there were any.
    fn cut(&mut self, which: impl Fn(&Open) -> bool) -> bool {
        let chosen: Vec<&Open> = self.open.values().filter(|open| which(open)).collect();
        chosen.iter().flat_map(|open| &open.ends).for_each(|end| _ = end.shutdown(Shutdown::Both));
        !chosen.is_empty()
    }
}

impl Foreign {
    fn start(server: SocketAddr) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let root = format!("/test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let book = Arc::<Mutex<Book>>::default();
        let accepting = Arc::clone(&book);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // One that cannot be passed on is closed, which is what its client sees.
                pass_on(&accepting, client, server).ok();
            }
        });
        let path = root.clone();
        // Tests may be on a runtime, where nothing may block but a thread of its own.
        let making = std::thread::spawn(move || {
            let client = ox_client::blocking::Client::connect(&server.to_string()).unwrap();
            client.create(&path, b"", ox_client::CreateMode::Persistent).unwrap();
            client.close().unwrap();
        });
        making.join().unwrap();
        Self { server, address, root, book }
    }

    /// Takes the session and closes it.
    fn expire(&self, session: SessionId) -> io::Result<()> {
        let password = self.book.lock().passwords[&session];
        for _ in 0..TRIES {
            if close_session(self.server, session, password)? {
                self.book.lock().cut(|open| open.session == Some(session));
                return Ok(());
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("session {session} is taken back again and again")))
    }
}

/// Sets up a connection in both directions.
fn pass_on(book: &Arc<Mutex<Book>>, client: TcpStream, server: SocketAddr) -> io::Result<()> {
    if book.lock().is_away {
        return Ok(());
    }
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ends = [client.try_clone()?, server.try_clone()?];
    let number = {
        let mut book = book.lock();
        if book.is_away {
            return Ok(());
        }
        let number = book.next;
        book.next += 1;
        book.open.insert(number, Open { ends, session: None });
        number
    };
    let ways = [(client.try_clone()?, server.try_clone()?, false), (server, client, true)];
    for (mut from, mut to, has_answers) in ways {
        let book = Arc::clone(book);
        std::thread::spawn(move || {
            let welcomed = if has_answers { welcome(&book, number, &mut from, &mut to) } else { Ok(()) };
            _ = welcomed.and_then(|()| io::copy(&mut from, &mut to));
            _ = to.shutdown(Shutdown::Both);
            _ = from.shutdown(Shutdown::Both);
            book.lock().open.remove(&number);
        });
    }
    Ok(())
}

/// Passes the answer to a handshake on, and notes whose connection it is.
fn welcome(book: &Mutex<Book>, number: u64, from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
    let (answer, session, password) = read_welcome(from)?;
    let mut book = book.lock();
    book.passwords.insert(session, password);
    if let Some(open) = book.open.get_mut(&number) {
        open.session = Some(session);
    }
    drop(book);
    to.write_all(&answer)
}

/// The answer to a handshake, with its length, and what it says.
fn read_welcome(from: &mut TcpStream) -> io::Result<(Vec<u8>, SessionId, [u8; PASSWORD_BYTES])> {
    let frame = read_frame(from)?;
    let body = frame.get(4 + ANSWER_BEFORE_SESSION..).ok_or(io::ErrorKind::InvalidData)?;
    let (session, rest) = body.split_first_chunk().ok_or(io::ErrorKind::InvalidData)?;
    let password = rest.get(4..).and_then(|rest| rest.first_chunk()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((frame.clone(), SessionId(i64::from_be_bytes(*session)), *password))
}

/// A frame with its length.
pub(crate) fn read_frame(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame)?;
    let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
    frame.resize(4 + length, 0);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}

/// Takes a session and closes it; false when its client took it back.
fn close_session(server: SocketAddr, session: SessionId, password: [u8; PASSWORD_BYTES]) -> io::Result<bool> {
    let mut stream = TcpStream::connect(server)?;
    let before = [0, 0, 0, 0, /* zxid */ 0, 0, 0, 0, 0, 0, 0, 0, /* ms */ 0, 0, 0x4e, 0x20];
    debug_assert_eq!(before.len(), REQUEST_BEFORE_SESSION);
    let request = [&before[..], &session.0.to_be_bytes(), &[0, 0, 0, 16], &password, &[0]].concat();
    let length = u32::try_from(request.len()).unwrap();
    stream.write_all(&[&length.to_be_bytes()[..], &request].concat())?;
    let Ok((_, SessionId(given), _)) = read_welcome(&mut stream) else { return Ok(false) };
    if given == 0 {
        return Ok(true); // it is over
    }
    let (xid, close) = (1_i32.to_be_bytes(), (-11_i32).to_be_bytes());
    stream.write_all(&[&[0, 0, 0, 8], &xid[..], &close[..]].concat())?;
    Ok(read_frame(&mut stream).is_ok())
}
