//! A server in a directory of its own on a free port, and a client that speaks bytes.

use ox_config::{Config, FourLetterWords};
use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::reply::ReplyHeader;
use ox_proto::request::{CreateRequest, PathVersion, PathWatch, SetDataRequest, put_bare_request, put_request, xid};
use ox_proto::{Jute, OpCode, RawAcls, Reader, SessionId, Zxid};
use ox_server::Server;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing in a test takes that long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; it stops when dropped.
pub(crate) struct Running {
    server: Server,
    dir: TempDir,
}

impl Running {
    /// With all words enabled.
    pub(crate) fn start() -> Self {
        Self::start_with(|config| config.four_letter_words = FourLetterWords::All)
    }

    pub(crate) fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default_standalone();
        config.data_dir = dir.path().to_owned();
        config.data_log_dir = dir.path().to_owned();
        config.client_port = Some(0);
        config.storage.pre_alloc_bytes = 1 << 20;
        change(&mut config);
        Self { server: Server::start(config).unwrap(), dir }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let mut address = self.server.address().unwrap();
        address.set_ip([127, 0, 0, 1].into());
        address
    }

    pub(crate) fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Sends bytes on a connection of their own and reads to the end.
    pub(crate) fn ask(&self, bytes: &[u8]) -> String {
        ask_on(self.open(), bytes)
    }

    /// A four-letter word.
    pub(crate) fn word(&self, word: &str) -> String {
        self.ask(word.as_bytes())
    }

    pub(crate) fn open(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A session with a timeout of 30 s.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.open(), 30_000, None)
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, name: &str) -> String {
        find_metric(&self.word("mntr"), name).unwrap_or_else(|| panic!("{name} is not there"))
    }

    /// Asks again until a metric has a value: threads tell what they counted when they are done.
    pub(crate) fn await_metric(&self, name: &str, expected: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self.metric(name);
            if found == expected {
                return;
            }
            assert!(Instant::now() < until, "{name} is {found}, not {expected}");
        }
    }
}

/// Sends bytes and reads to the end.
pub(crate) fn ask_on(mut stream: TcpStream, bytes: &[u8]) -> String {
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(crate) fn find_metric(mntr: &str, name: &str) -> Option<String> {
    let mut pairs = mntr.lines().filter_map(|line| line.strip_prefix("zk_")?.split_once('\t'));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

/// A client with one session.
pub(crate) struct Client {
    stream: TcpStream,
    pub(crate) session: SessionId,
    pub(crate) timeout_ms: i32,
    password: [u8; 16],
    last_xid: i32,
    /// Events received on the way, as path and type.
    pub(crate) events: Vec<(String, i32)>,
}

impl Client {
    /// A new session, or one that `of` had.
    pub(crate) fn connect(mut stream: TcpStream, timeout_ms: i32, of: Option<&Client>) -> Self {
        let (session, password) = of.map_or((SessionId::NONE, [0; 16]), |of| (of.session, of.password));
        let mut out = Vec::new();
        let last_zxid_seen = Zxid::ZERO;
        let password = Some(&password[..]);
        ConnectRequest { last_zxid_seen, timeout_ms, session, password, read_only: Some(false) }.put_frame(&mut out);
        stream.write_all(&out).unwrap();
        let response = ConnectResponse::decode(&read_frame(&mut stream).expect("a response")).unwrap();
        let ConnectResponse { timeout_ms, session, password, .. } = response;
        Self { stream, session, timeout_ms, password, last_xid: 0, events: Vec::new() }
    }

    /// The other end, as status commands show it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Sends a request and does not wait. Returns its xid.
    pub(crate) fn send<'a>(&mut self, op: OpCode, body: &impl Jute<'a>) -> i32 {
        self.last_xid += 1;
        let mut out = Vec::new();
        put_request(&mut out, self.last_xid, op.code(), body);
        self.stream.write_all(&out).unwrap();
        self.last_xid
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next answer; events before it are kept.
    pub(crate) fn receive(&mut self) -> ReplyHeader {
        loop {
            let frame = read_frame(&mut self.stream).expect("an answer");
            let mut from = Reader::new(&frame);
            let header: ReplyHeader = from.get().unwrap();
            if header.xid != xid::NOTIFICATION {
                return header;
            }
            self.note_event(from.rest());
        }
    }

    /// Waits for an event.
    pub(crate) fn await_event(&mut self) -> (String, i32) {
        while self.events.is_empty() {
            let frame = read_frame(&mut self.stream).expect("an event");
            assert!(frame.starts_with(&[0xff; 4]), "an event, not {frame:?}");
            self.note_event(&frame[16..]);
        }
        self.events.remove(0)
    }

    fn note_event(&mut self, body: &[u8]) {
        let mut from = Reader::new(body);
        let (kind, _state): (i32, i32) = (from.get().unwrap(), from.get().unwrap());
        let path: Option<std::borrow::Cow<'_, str>> = from.get().unwrap();
        self.events.push((path.unwrap_or_default().into_owned(), kind));
    }

    pub(crate) fn call<'a>(&mut self, op: OpCode, body: &impl Jute<'a>) -> ReplyHeader {
        let xid = self.send(op, body);
        let reply = self.receive();
        assert_eq!(reply.xid, xid);
        reply
    }

    pub(crate) fn create(&mut self, path: &str, data: &[u8], flags: i32) -> ReplyHeader {
        let request = CreateRequest { path: Some(path.into()), data: Some(data), acl: RawAcls::OPEN, flags };
        self.done(OpCode::Create, &request)
    }

    pub(crate) fn set(&mut self, path: &str, data: &[u8]) -> ReplyHeader {
        self.done(OpCode::SetData, &SetDataRequest { path: Some(path.into()), data: Some(data), version: -1 })
    }

    pub(crate) fn delete(&mut self, path: &str) -> ReplyHeader {
        self.done(OpCode::Delete, &PathVersion { path: Some(path.into()), version: -1 })
    }

    pub(crate) fn get(&mut self, path: &str, watch: bool) -> ReplyHeader {
        self.done(OpCode::GetData, &PathWatch { path: Some(path.into()), watch })
    }

    /// Succeeds for missing nodes too.
    pub(crate) fn exists(&mut self, path: &str, watch: bool) -> ReplyHeader {
        self.call(OpCode::Exists, &PathWatch { path: Some(path.into()), watch })
    }

    pub(crate) fn children(&mut self, path: &str, watch: bool) -> ReplyHeader {
        self.done(OpCode::GetChildren, &PathWatch { path: Some(path.into()), watch })
    }

    pub(crate) fn ping(&mut self) -> ReplyHeader {
        let mut out = Vec::new();
        put_bare_request(&mut out, xid::PING, OpCode::Ping.code());
        self.stream.write_all(&out).unwrap();
        self.receive()
    }

    /// Ends the session, and sees the connection closed.
    pub(crate) fn close(mut self) {
        self.last_xid += 1;
        let mut out = Vec::new();
        put_bare_request(&mut out, self.last_xid, OpCode::CloseSession.code());
        self.stream.write_all(&out).unwrap();
        assert_eq!(self.receive().err, 0);
        assert_eq!(self.stream.read(&mut [0; 1]).unwrap(), 0);
    }

    /// Ends the connection and leaves the session.
    pub(crate) fn drop_connection(&self) {
        self.stream.shutdown(Shutdown::Both).unwrap();
    }

    fn done<'a>(&mut self, op: OpCode, body: &impl Jute<'a>) -> ReplyHeader {
        let reply = self.call(op, body);
        assert_eq!(reply.err, 0, "{op:?}");
        reply
    }
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}
