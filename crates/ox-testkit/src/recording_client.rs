//! A client that records everything it sends and receives, for `ox_history::check`.

use crate::connection::RawConnection;
use crate::packet::RawHandshake;
use ox_history::{HandshakeReply, Op, ReceivedFrame, RecordedConnection, ReplyBody, SentRequest, Time, wire};
use ox_proto::connect::ConnectResponse;
use ox_proto::event::WatcherEvent;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid::NOTIFICATION;
use ox_proto::{Reader, SessionId, Zxid};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The client leaves a server that does not reply within this time.
const PATIENCE: Duration = Duration::from_millis(2500);

/// A reply to a request.
#[derive(Clone, Debug)]
pub struct RecordedReply {
    pub op: Op,
    pub err: i32,
    pub body: ReplyBody,
}

/// A client that keeps its session when it changes servers.
#[derive(Debug)]
pub struct RecordingClient {
    /// The start of the recorded time, the same for all clients of a history.
    begun: Instant,
    handshake: RawHandshake,
    xid: i32,
    stream: Option<RawConnection>,
    recorded: Vec<RecordedConnection>,
}

impl RecordingClient {
    pub fn new(begun: Instant, session_ms: i32) -> Self {
        Self { begun, handshake: RawHandshake::new(session_ms), xid: 0, stream: None, recorded: Vec::new() }
    }

    fn now(&self) -> Time {
        recorded_time(self.begun)
    }

    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// The number of requests so far.
    pub fn sent(&self) -> i32 {
        self.xid
    }

    /// All connections so far.
    pub fn into_recorded(self) -> Vec<RecordedConnection> {
        self.recorded
    }

    pub fn disconnect(&mut self) {
        self.stream = None;
        let now = self.now();
        if let Some(last) = self.recorded.last_mut() {
            last.closed.get_or_insert(now);
        }
    }

    /// Opens or resumes the session on a server; `None` if the connection fails. Panics if the session is lost.
    pub fn connect(&mut self, servers: &[SocketAddr], server: usize) -> Option<()> {
        let mut stream = RawConnection::try_connect(servers[server]).ok()?.with_timeout(PATIENCE);
        self.recorded.push(RecordedConnection {
            server: u32::try_from(server).unwrap(),
            address: "127.0.0.1".to_owned(),
            opened: self.now(),
            requested_session: self.handshake.session,
            requested_timeout_ms: self.handshake.timeout_ms,
            has_valid_password: true,
            last_zxid_seen: Zxid(self.handshake.last_zxid_seen),
            granted: None,
            is_read_only: false,
            requests: Vec::new(),
            received: Vec::new(),
            closed: None,
        });
        let answer = stream.try_send(&self.handshake.frame()).then(|| stream.try_frame()).flatten();
        let (at, last) = (self.now(), self.recorded.last_mut()?);
        let Some(payload) = answer else {
            last.closed = Some(at);
            return None;
        };
        let answer = ConnectResponse::decode(&payload).expect("an answer to a handshake");
        let (session, timeout_ms) = (answer.session, answer.timeout_ms);
        if session == SessionId::NONE {
            last.granted = Some(HandshakeReply::Refused { at });
            last.closed = Some(at);
            panic!("server {} says that session {} is gone", server + 1, self.handshake.session);
        }
        last.granted = Some(HandshakeReply::Session { at, session, timeout_ms });
        let last_zxid_seen = self.handshake.last_zxid_seen;
        self.handshake =
            RawHandshake { last_zxid_seen, timeout_ms: self.handshake.timeout_ms, ..RawHandshake::resume(&answer) };
        self.stream = Some(stream);
        Some(())
    }

    /// Sends requests together and passes their replies to `each`; `None` if the connection is lost before the last.
    pub fn exchange(&mut self, ops: Vec<Op>, mut each: impl FnMut(&RecordedReply)) -> Option<()> {
        let (mut bytes, now) = (Vec::new(), self.now());
        let connection = self.recorded.last_mut()?;
        for op in &ops {
            self.xid += 1;
            wire::put_request(&mut bytes, self.xid, op);
            connection.requests.push(SentRequest { at: now, xid: self.xid, op: op.clone() });
        }
        self.stream.as_mut()?.try_send(&bytes).then_some(())?;
        let mut pending = ops.into_iter();
        while pending.len() != 0 {
            let payload = self.stream.as_mut()?.try_frame()?;
            if let Some(reply) = self.on_frame(&payload, &mut pending) {
                each(&reply);
            }
        }
        Some(())
    }

    fn on_frame(&mut self, payload: &[u8], pending: &mut impl Iterator<Item = Op>) -> Option<RecordedReply> {
        let (at, mut from) = (self.now(), Reader::new(payload));
        let ReplyHeader { xid, zxid, err } = from.get().expect("a header");
        let (received, reply) = if xid == NOTIFICATION {
            let event = WatcherEvent::get(&mut from).expect("an event");
            (ReceivedFrame::Event { at, zxid, kind: event.kind, path: event.path.into_owned() }, None)
        } else {
            let op = pending.next().expect("an answer to a request");
            let body = wire::decode_body(&op, err, from.rest());
            self.handshake.last_zxid_seen = self.handshake.last_zxid_seen.max(zxid.0);
            let frame = ReceivedFrame::Reply { at, xid, zxid, err, body: body.clone() };
            (frame, Some(RecordedReply { op, err, body }))
        };
        self.recorded.last_mut()?.received.push(received);
        reply
    }
}

/// The time since `begun`, as histories record it.
pub fn recorded_time(begun: Instant) -> Time {
    Time(i64::try_from(begun.elapsed().as_micros()).unwrap())
}
