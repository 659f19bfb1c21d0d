//! A client that shows headers, zxids and the exact records, which a client library hides.

use crate::connection::{FrameRead, RawConnection};
use crate::packet::{RawHandshake, RawPacket};
use crate::tree_walk::{Tree, walk};
use ox_proto::connect::ConnectResponse;
use ox_proto::event::WatcherEvent;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid;
use ox_proto::{Jute, OpCode, Reader, SessionId, Stat};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// A reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawReply {
    pub xid: i32,
    pub zxid: i64,
    pub err: i32,
    pub body: Vec<u8>,
}

impl RawReply {
    pub fn decode(payload: &[u8]) -> Self {
        let mut from = Reader::new(payload);
        let ReplyHeader { xid, zxid, err } = from.get().expect("every frame has a header");
        Self { xid, zxid: zxid.0, err, body: from.rest().to_vec() }
    }

    /// A reader over the body; the error code if the request failed.
    pub fn ok(&self) -> Result<Reader<'_>, i32> {
        if self.err == 0 { Ok(Reader::new(&self.body)) } else { Err(self.err) }
    }

    /// The data of a getData reply.
    pub fn data(&self) -> Option<Vec<u8>> {
        assert_eq!(self.err, 0, "{self:?}");
        Reader::new(&self.body).get::<Option<&[u8]>>().unwrap().map(<[u8]>::to_vec)
    }

    /// The path of a create reply.
    pub fn path(&self) -> String {
        assert_eq!(self.err, 0, "{self:?}");
        Reader::new(&self.body).text().unwrap().into_owned()
    }

    /// The names of a getChildren reply, sorted.
    pub fn names(&self) -> Vec<String> {
        assert_eq!(self.err, 0, "{self:?}");
        let mut from = Reader::new(&self.body);
        let count = from.count().unwrap().unwrap();
        let mut names: Vec<_> = (0..count).map(|_| from.text().unwrap().into_owned()).collect();
        names.sort();
        names
    }

    /// The stat at the end of the body.
    pub fn stat(&self) -> Stat {
        assert_eq!(self.err, 0, "{self:?}");
        Reader::new(&self.body[self.body.len() - 68..]).get().unwrap()
    }
}

/// A watch event: type, path and zxid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEvent {
    pub kind: i32,
    pub path: String,
    pub zxid: i64,
}

/// A frame from the server after the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawReceived {
    Reply(RawReply),
    Event(RawEvent),
}

/// Why a session could not be opened or resumed.
#[derive(Debug)]
pub enum OpenError {
    /// The server does not listen, closed the connection, or sent nothing in time.
    Connection(io::Error),
    /// The session does not exist.
    Refused,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connection(error) => write!(f, "handshake failed: {error}"),
            Self::Refused => f.write_str("the server refused the session"),
        }
    }
}

impl std::error::Error for OpenError {}

/// A client with a session.
#[derive(Debug)]
pub struct RawClient {
    pub raw: RawConnection,
    pub hello: ConnectResponse,
    pub events: VecDeque<RawEvent>,
    xid: i32,
    /// The highest zxid in a reply or handshake.
    last_zxid: i64,
}

impl RawClient {
    /// Opens a new session.
    pub fn open(address: SocketAddr, timeout_ms: i32) -> Self {
        Self::try_open(address, &RawHandshake::new(timeout_ms)).expect("a session")
    }

    /// Opens or resumes a session; `None` when it is refused.
    pub fn try_open(address: SocketAddr, handshake: &RawHandshake) -> Option<Self> {
        Self::try_open_over(RawConnection::connect(address), handshake)
    }

    pub fn try_open_over(raw: RawConnection, handshake: &RawHandshake) -> Option<Self> {
        match Self::open_over(raw, handshake) {
            Ok(client) => Some(client),
            Err(OpenError::Connection(error)) if error.kind() == ErrorKind::TimedOut => panic!("{error}"),
            Err(_) => None,
        }
    }

    /// Opens or resumes a session over a connection.
    pub fn open_over(mut raw: RawConnection, handshake: &RawHandshake) -> Result<Self, OpenError> {
        raw.try_send(&handshake.frame());
        let payload = payload(raw.next_frame()).map_err(OpenError::Connection)?;
        let hello = ConnectResponse::decode(&payload).expect("a reply to a handshake");
        if hello.session == SessionId::NONE {
            return Err(OpenError::Refused);
        }
        Ok(Self { raw, hello, events: VecDeque::new(), xid: 0, last_zxid: handshake.last_zxid_seen })
    }

    /// The handshake that resumes this session on another connection.
    pub fn handshake(&self) -> RawHandshake {
        RawHandshake { last_zxid_seen: self.last_zxid, ..RawHandshake::resume(&self.hello) }
    }

    pub fn session(&self) -> SessionId {
        self.hello.session
    }

    pub fn send(&mut self, packet: &RawPacket) {
        self.raw.send(&packet.0);
    }

    /// The next frame from the server; `None` when it has closed the connection.
    pub fn receive(&mut self) -> Option<RawReceived> {
        let payload = self.raw.frame()?;
        Some(self.decode(&payload))
    }

    fn decode(&mut self, payload: &[u8]) -> RawReceived {
        let reply = RawReply::decode(payload);
        if reply.xid != xid::NOTIFICATION {
            self.last_zxid = self.last_zxid.max(reply.zxid);
            return RawReceived::Reply(reply);
        }
        let event = WatcherEvent::get(&mut Reader::new(&reply.body)).expect("an event");
        RawReceived::Event(RawEvent { kind: event.kind, path: event.path.into_owned(), zxid: reply.zxid })
    }

    /// The next reply; `None` when the server has closed the connection. Events are kept.
    pub fn try_reply(&mut self) -> Option<RawReply> {
        loop {
            match self.receive()? {
                RawReceived::Reply(reply) => return Some(reply),
                RawReceived::Event(event) => self.events.push_back(event),
            }
        }
    }

    pub fn reply(&mut self) -> RawReply {
        self.try_reply().expect("a reply")
    }

    /// The next event, kept or still to be received.
    pub fn event(&mut self) -> RawEvent {
        if let Some(event) = self.events.pop_front() {
            return event;
        }
        match self.receive() {
            Some(RawReceived::Event(event)) => event,
            other => panic!("an event, not {other:?}"),
        }
    }

    /// Sends one request with a new xid, and waits for its reply.
    pub fn ask(&mut self, request: impl FnOnce(RawPacket, i32) -> RawPacket) -> RawReply {
        self.try_ask(request).unwrap_or_else(|error| panic!("no reply: {error}"))
    }

    /// As [`Self::ask`], on a connection that may be lost.
    pub fn try_ask(&mut self, request: impl FnOnce(RawPacket, i32) -> RawPacket) -> io::Result<RawReply> {
        self.xid += 1;
        self.raw.try_send(&request(RawPacket::default(), self.xid).0);
        loop {
            let payload = payload(self.raw.next_frame())?;
            match self.decode(&payload) {
                RawReceived::Event(event) => self.events.push_back(event),
                RawReceived::Reply(reply) => {
                    // The xids of pings and auth packets are fixed.
                    assert!(reply.xid == self.xid || reply.xid < 0, "{reply:?} is not for xid {}", self.xid);
                    return Ok(reply);
                }
            }
        }
    }

    /// Sends any request, on a connection that may be lost.
    pub fn call<'a>(&mut self, op: OpCode, body: &impl Jute<'a>) -> io::Result<RawReply> {
        self.try_ask(|packet, xid| packet.request(xid, op, body))
    }

    pub fn create(&mut self, path: &str, data: &[u8]) -> RawReply {
        self.ask(|packet, xid| packet.create(xid, path, data, 0))
    }

    pub fn create_as(&mut self, path: &str, flags: i32) -> RawReply {
        self.ask(|packet, xid| packet.create(xid, path, b"", flags))
    }

    pub fn set(&mut self, path: &str, data: &[u8]) -> RawReply {
        self.ask(|packet, xid| packet.set(xid, path, data))
    }

    pub fn get(&mut self, path: &str) -> RawReply {
        self.ask(|packet, xid| packet.get(xid, path))
    }

    pub fn exists(&mut self, path: &str) -> RawReply {
        self.ask(|packet, xid| packet.read(xid, OpCode::Exists, path, false))
    }

    pub fn watch(&mut self, op: OpCode, path: &str) -> RawReply {
        self.ask(|packet, xid| packet.read(xid, op, path, true))
    }

    pub fn children(&mut self, path: &str) -> Vec<String> {
        self.ask(|packet, xid| packet.read(xid, OpCode::GetChildren, path, false)).names()
    }

    pub fn ping(&mut self) -> RawReply {
        self.ask(|packet, _| packet.ping())
    }

    /// The whole tree of the server.
    pub fn walk(&mut self) -> Tree {
        walk(|request| self.ask(request))
    }

    /// Closes the session; the server closes the connection after its reply.
    pub fn close(mut self) -> RawReply {
        let reply = self.ask(RawPacket::close);
        assert_eq!(self.try_reply(), None);
        reply
    }
}

fn payload(read: FrameRead) -> io::Result<Vec<u8>> {
    match read {
        FrameRead::Frame(payload) => Ok(payload),
        FrameRead::Closed => Err(io::Error::new(ErrorKind::ConnectionAborted, "the server closed the connection")),
        FrameRead::Silence => Err(io::Error::new(ErrorKind::TimedOut, "the server sent nothing in time")),
    }
}
