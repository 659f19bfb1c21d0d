//! A client that sends exactly the bytes that a test chooses, over a plain socket.

use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::event::WatcherEvent;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::multi::{MultiHeader, MultiOp};
use ox_proto::reply::ReplyHeader;
use ox_proto::request::{
    AuthPacket, CreateRequest, CreateTtlRequest, PathKind, PathRequest, PathVersion, PathWatch, SetDataRequest,
    put_bare_request, put_request, xid,
};
use ox_proto::{Jute, OpCode, RawAcls, Reader, SessionId, Stat, Zxid};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any wait of a test that succeeds.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A socket, and the bytes read from it after the last frame.
pub(crate) struct Raw {
    stream: TcpStream,
    received: Vec<u8>,
    at: usize,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("the server listens"))
    }

    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(READ_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new(), at: 0 }
    }

    /// A second handle on the socket, to write while another thread reads.
    pub(crate) fn writer(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads its input");
    }

    /// Sends to a server that may have closed the connection meanwhile.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Shuts the socket down for writing.
    pub(crate) fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write); // the server may have closed it already
    }

    /// Shuts the connection down, including handles of other threads.
    pub(crate) fn shut_down(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both); // the server may have closed it already
    }

    /// The next frame; `None` when the server has closed the connection.
    pub(crate) fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            let pending = &self.received[self.at..];
            if let Some((prefix, rest)) = pending.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*prefix) as usize;
                if let Some(payload) = rest.get(..length) {
                    let payload = payload.to_vec();
                    self.at += 4 + length;
                    return Some(payload);
                }
            }
            if !self.read_more() {
                return None;
            }
        }
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.read_more() {}
        self.received.split_off(self.at)
    }

    /// Expects the server to close the connection without sending anything.
    pub(crate) fn expect_closed(&mut self) {
        assert_eq!(self.rest(), [] as [u8; 0], "closed without a reply");
    }

    fn read_more(&mut self) -> bool {
        self.received.drain(..self.at);
        self.at = 0;
        let start = self.received.len();
        self.received.resize(start + (64 << 10), 0);
        let count = match self.stream.read(&mut self.received[start..]) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("nothing received for {READ_TIMEOUT:?}")
            }
            Err(_) => 0, // a reset closes the connection, too
        };
        self.received.truncate(start + count);
        count != 0
    }

    /// Sends a handshake and waits for the reply; `None` when the server closes the connection instead.
    pub(crate) fn handshake(&mut self, hello: &Hello) -> Option<ConnectResponse> {
        self.send(&hello.frame());
        self.frame().map(|payload| ConnectResponse::decode(&payload).expect("a reply to a handshake"))
    }
}

/// The fields of a handshake.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    pub(crate) last_zxid_seen: i64,
    pub(crate) timeout_ms: i32,
    pub(crate) session: SessionId,
    pub(crate) password: Option<Vec<u8>>,
    pub(crate) read_only: Option<bool>,
}

impl Hello {
    /// A handshake for a new session.
    pub(crate) fn new(timeout_ms: i32) -> Self {
        Self {
            last_zxid_seen: 0,
            timeout_ms,
            session: SessionId::NONE,
            password: Some(vec![0; 16]),
            read_only: Some(false),
        }
    }

    /// A handshake that resumes a session.
    pub(crate) fn again(response: &ConnectResponse) -> Self {
        let password = Some(response.password.to_vec());
        Self { session: response.session, password, ..Self::new(response.timeout_ms) }
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ConnectRequest {
            last_zxid_seen: Zxid(self.last_zxid_seen),
            timeout_ms: self.timeout_ms,
            session: self.session,
            password: self.password.as_deref(),
            read_only: self.read_only,
        }
        .put_frame(&mut out);
        out
    }
}

/// A reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) err: i32,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn decode(payload: &[u8]) -> Self {
        let mut from = Reader::new(payload);
        let ReplyHeader { xid, zxid, err } = from.get().expect("every frame has a header");
        Self { xid, zxid: zxid.0, err, body: from.rest().to_vec() }
    }

    /// The data of a getData reply.
    pub(crate) fn data(&self) -> Option<Vec<u8>> {
        assert_eq!(self.err, 0, "{self:?}");
        Reader::new(&self.body).get::<Option<&[u8]>>().unwrap().map(<[u8]>::to_vec)
    }

    /// The path of a create reply.
    pub(crate) fn path(&self) -> String {
        assert_eq!(self.err, 0, "{self:?}");
        Reader::new(&self.body).text().unwrap().into_owned()
    }

    /// The names of a getChildren reply, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        assert_eq!(self.err, 0, "{self:?}");
        let mut from = Reader::new(&self.body);
        let count = from.count().unwrap().unwrap();
        let mut names: Vec<_> = (0..count).map(|_| from.text().unwrap().into_owned()).collect();
        names.sort();
        names
    }

    /// The stat at the end of the body.
    pub(crate) fn stat(&self) -> Stat {
        assert_eq!(self.err, 0, "{self:?}");
        Reader::new(&self.body[self.body.len() - 68..]).get().unwrap()
    }
}

/// A watch event: type, path and zxid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: i32,
    pub(crate) path: String,
    pub(crate) zxid: i64,
}

/// A frame from the server after the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Reply(Reply),
    Event(Event),
}

/// A buffer to which requests are appended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packet(pub(crate) Vec<u8>);

impl Packet {
    pub(crate) fn request<'a>(mut self, xid: i32, op: OpCode, body: &impl Jute<'a>) -> Self {
        put_request(&mut self.0, xid, op.code(), body);
        self
    }

    /// A request with any opcode and body.
    pub(crate) fn raw(mut self, xid: i32, op: i32, body: &[u8]) -> Self {
        let mark = begin_frame(&mut self.0);
        xid.put(&mut self.0);
        op.put(&mut self.0);
        self.0.extend_from_slice(body);
        end_frame(&mut self.0, mark);
        self
    }

    pub(crate) fn create(self, xid: i32, path: &str, data: &[u8], flags: i32) -> Self {
        let body = CreateRequest { path: Some(path.into()), data: Some(data), acl: RawAcls::OPEN, flags };
        self.request(xid, OpCode::Create, &body)
    }

    pub(crate) fn create_with_acl(self, xid: i32, path: &str, acl: &[u8]) -> Self {
        let acl = RawAcls::from_encoded(acl).unwrap();
        self.request(xid, OpCode::Create, &CreateRequest { path: Some(path.into()), data: Some(b""), acl, flags: 0 })
    }

    pub(crate) fn create_ttl(self, xid: i32, path: &str, flags: i32, ttl_ms: i64) -> Self {
        let path = Some(path.into());
        self.request(xid, OpCode::CreateTtl, &CreateTtlRequest { path, data: None, acl: RawAcls::OPEN, flags, ttl_ms })
    }

    pub(crate) fn set(self, xid: i32, path: &str, data: &[u8]) -> Self {
        let body = SetDataRequest { path: Some(path.into()), data: Some(data), version: -1 };
        self.request(xid, OpCode::SetData, &body)
    }

    pub(crate) fn delete(self, xid: i32, path: &str) -> Self {
        self.request(xid, OpCode::Delete, &PathVersion { path: Some(path.into()), version: -1 })
    }

    /// An exists, getData or getChildren request.
    pub(crate) fn read(self, xid: i32, op: OpCode, path: &str, watch: bool) -> Self {
        self.request(xid, op, &PathWatch { path: Some(path.into()), watch })
    }

    pub(crate) fn get(self, xid: i32, path: &str) -> Self {
        self.read(xid, OpCode::GetData, path, false)
    }

    /// A getACL, sync, getEphemerals or getAllChildrenNumber request.
    pub(crate) fn of_path(self, xid: i32, op: OpCode, path: &str) -> Self {
        self.request(xid, op, &PathRequest { path: Some(path.into()) })
    }

    pub(crate) fn add_watch(self, xid: i32, path: &str, kind: i32) -> Self {
        self.request(xid, OpCode::AddWatch, &PathKind { path: Some(path.into()), kind })
    }

    pub(crate) fn auth(self, xid: i32, scheme: &str, auth: &[u8]) -> Self {
        self.request(xid, OpCode::Auth, &AuthPacket { kind: 0, scheme: Some(scheme.into()), auth: Some(auth) })
    }

    pub(crate) fn ping(mut self) -> Self {
        put_bare_request(&mut self.0, xid::PING, OpCode::Ping.code());
        self
    }

    pub(crate) fn close(mut self, xid: i32) -> Self {
        put_bare_request(&mut self.0, xid, OpCode::CloseSession.code());
        self
    }

    pub(crate) fn multi(self, xid: i32, elements: &[MultiOp<'_>]) -> Self {
        let mut body = Vec::new();
        for element in elements {
            let mut put = |op: OpCode, put_body: &dyn Fn(&mut Vec<u8>)| {
                MultiHeader { op: op.code(), done: false, err: -1 }.put(&mut body);
                put_body(&mut body);
            };
            match element {
                MultiOp::Create(op, request) => put(*op, &|out| request.put(out)),
                MultiOp::CreateTtl(request) => put(OpCode::CreateTtl, &|out| request.put(out)),
                MultiOp::Delete(request) => put(OpCode::Delete, &|out| request.put(out)),
                MultiOp::SetData(request) => put(OpCode::SetData, &|out| request.put(out)),
                MultiOp::Check(request) => put(OpCode::Check, &|out| request.put(out)),
                MultiOp::GetData(request) => put(OpCode::GetData, &|out| request.put(out)),
                MultiOp::GetChildren(request) => put(OpCode::GetChildren, &|out| request.put(out)),
            }
        }
        MultiHeader::END.put(&mut body);
        self.raw(xid, OpCode::Multi.code(), &body)
    }
}

/// A client with a session.
pub(crate) struct Client {
    pub(crate) raw: Raw,
    pub(crate) hello: ConnectResponse,
    pub(crate) events: VecDeque<Event>,
    xid: i32,
}

impl Client {
    /// Opens a new session.
    pub(crate) fn open(address: SocketAddr, timeout_ms: i32) -> Self {
        Self::try_open(address, &Hello::new(timeout_ms)).expect("a session")
    }

    /// Opens or resumes a session; `None` when it is refused.
    pub(crate) fn try_open(address: SocketAddr, hello: &Hello) -> Option<Self> {
        Self::try_open_over(Raw::connect(address), hello)
    }

    pub(crate) fn try_open_over(mut raw: Raw, hello: &Hello) -> Option<Self> {
        let hello = raw.handshake(hello)?;
        let client = Self { raw, hello, events: VecDeque::new(), xid: 0 };
        (hello.session != SessionId::NONE).then_some(client)
    }

    pub(crate) fn session(&self) -> SessionId {
        self.hello.session
    }

    pub(crate) fn send(&mut self, packet: &Packet) {
        self.raw.send(&packet.0);
    }

    /// The next frame from the server; `None` when it has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Received> {
        let payload = self.raw.frame()?;
        let reply = Reply::decode(&payload);
        if reply.xid != xid::NOTIFICATION {
            return Some(Received::Reply(reply));
        }
        let event = WatcherEvent::get(&mut Reader::new(&reply.body)).expect("an event");
        Some(Received::Event(Event { kind: event.kind, path: event.path.into_owned(), zxid: reply.zxid }))
    }

    /// The next reply; `None` when the server has closed the connection. Events are kept.
    pub(crate) fn try_reply(&mut self) -> Option<Reply> {
        loop {
            match self.receive()? {
                Received::Reply(reply) => return Some(reply),
                Received::Event(event) => self.events.push_back(event),
            }
        }
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("a reply")
    }

    /// The next event, kept or still to be received.
    pub(crate) fn event(&mut self) -> Event {
        if let Some(event) = self.events.pop_front() {
            return event;
        }
        match self.receive() {
            Some(Received::Event(event)) => event,
            other => panic!("an event, not {other:?}"),
        }
    }

    /// Sends one request with a new xid, and waits for its reply.
    pub(crate) fn ask(&mut self, request: impl FnOnce(Packet, i32) -> Packet) -> Reply {
        self.xid += 1;
        let packet = request(Packet::default(), self.xid);
        self.send(&packet);
        let reply = self.reply();
        assert!(reply.xid == self.xid || reply.xid == xid::PING, "{reply:?} answers {}", self.xid);
        reply
    }

    pub(crate) fn create(&mut self, path: &str, data: &[u8]) -> Reply {
        self.ask(|packet, xid| packet.create(xid, path, data, 0))
    }

    pub(crate) fn create_as(&mut self, path: &str, flags: i32) -> Reply {
        self.ask(|packet, xid| packet.create(xid, path, b"", flags))
    }

    pub(crate) fn set(&mut self, path: &str, data: &[u8]) -> Reply {
        self.ask(|packet, xid| packet.set(xid, path, data))
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.ask(|packet, xid| packet.get(xid, path))
    }

    pub(crate) fn exists(&mut self, path: &str) -> Reply {
        self.ask(|packet, xid| packet.read(xid, OpCode::Exists, path, false))
    }

    pub(crate) fn watch(&mut self, op: OpCode, path: &str) -> Reply {
        self.ask(|packet, xid| packet.read(xid, op, path, true))
    }

    pub(crate) fn children(&mut self, path: &str) -> Vec<String> {
        self.ask(|packet, xid| packet.read(xid, OpCode::GetChildren, path, false)).names()
    }

    pub(crate) fn ping(&mut self) -> Reply {
        self.ask(|packet, _| packet.ping())
    }

    /// Closes the session; the server closes the connection after its reply.
    pub(crate) fn close(mut self) -> Reply {
        let reply = self.ask(Packet::close);
        assert_eq!(self.try_reply(), None);
        reply
    }
}
