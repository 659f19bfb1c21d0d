//! The server's end of one client connection: handshake, authentication, and the order of requests.
//!
//! A request is answered here, from the state, unless earlier requests of the same connection are still on their
//! way through the replica; then it follows them, so that a client's requests take effect and are answered in the
//! order it sent them.
//!
//! ```text
//! Handshake --connect request--> Connecting --attached--> Serving --close--> Closing
//! ```

use crate::admission::{Room, SMALL_BYTES, Shortage};
use crate::clock::Now;
use crate::limits::{
    BYTES_IN_FLIGHT_MAX, EXPECTED_ANSWER_BYTES_MAX, FIRST_ANSWER_BYTES, IDENTITIES_MAX, ITEM_BYTES,
    REQUESTS_IN_FLIGHT_MAX,
};
use crate::sessions::Touch;
use crate::submission::{Ask, Submission};
use crate::throttle::Newcomer;
use ox_proto::connect::ConnectRequest;
use ox_proto::password::password_matches;
use ox_proto::reply::{ReplyHeader, put_bare_reply, put_reply};
use ox_proto::request::{AuthPacket, RequestHeader, SaslToken};
use ox_proto::{ErrorCode, OpCode, Reader, SessionId, Zxid};
use ox_tree::auth::{Identities, Identity, authenticate};
use ox_tree::read::{self, AfterReply, ReadRequest, Requester};
use ox_tree::{ConnId, State};
use std::net::IpAddr;
use std::sync::Arc;

/// What the server grants its clients.
#[derive(Clone, Copy, Debug)]
pub struct ConnSettings {
    /// Shortest session timeout.
    pub min_timeout_ms: i32,
    /// Longest session timeout.
    pub max_timeout_ms: i32,
    /// A request that had to wait longer than this before it was looked at is refused; 0 is off.
    pub throttled_op_wait_ms: i64,
    /// A connection whose request had to wait longer than its session's timeout is closed.
    pub drop_late: bool,
    /// In an ensemble the leader is asked whether there is anything newer.
    pub syncs_travel: bool,
}

/// What the I/O thread does next with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// On to the next frame.
    Continue,
    /// The frame was not taken: there is no memory for it now.
    Wait(Shortage),
    /// Close at once; nothing more is owed.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    Connecting,
    Serving(SessionId),
    Closing,
}

/// What a frame is served with.
pub struct Service<'a> {
    /// The clocks.
    pub now: Now,
    /// The state, held for reading. Events that were fired before it was taken have been delivered.
    pub state: &'a State,
    /// What clients are granted.
    pub settings: ConnSettings,
    /// What the server can take on.
    pub room: Room,
    /// Whether only small replies ([`SMALL_BYTES`]) may be made now.
    pub small_replies_only: bool,
    /// How long the frame has been lying here.
    pub waited_ms: i64,
    /// Whether another session may begin or come back.
    pub admit: &'a dyn Fn(Newcomer) -> bool,
    /// Bytes for the client.
    pub out: &'a mut Vec<u8>,
    /// Items for the replica.
    pub submission: &'a mut Submission,
}

/// One connection.
#[derive(Debug)]
pub struct Conn {
    id: ConnId,
    address: IpAddr,
    ids: Arc<Identities>,
    phase: Phase,
    timeout_ms: i32,
    in_flight: u32,
    bytes_in_flight: usize,
    /// What the next answer is expected to have: the largest of late, slowly forgotten.
    answer_bytes: usize,
    touch: Touch,
    last_op: Option<OpCode>,
    last_xid: i32,
}

impl Conn {
    /// A connection that was just accepted.
    pub fn new(id: ConnId, address: IpAddr) -> Self {
        Self {
            id,
            address,
            ids: Arc::new(Identities::of_address(address)),
            phase: Phase::Handshake,
            timeout_ms: 0,
            in_flight: 0,
            bytes_in_flight: 0,
            answer_bytes: FIRST_ANSWER_BYTES,
            touch: Touch::default(),
            last_op: None,
            last_xid: 0,
        }
    }

    /// Its name.
    pub fn id(&self) -> ConnId {
        self.id
    }

    /// What it has proven.
    pub fn ids(&self) -> &Identities {
        &self.ids
    }

    /// The session, once there is one.
    pub fn session(&self) -> Option<SessionId> {
        if let Phase::Serving(session) = self.phase { Some(session) } else { None }
    }

    /// The negotiated timeout, 0 before the handshake is done.
    pub fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    /// The last operation; a handshake counts as one when it asks for a new session.
    pub fn last_op(&self) -> Option<OpCode> {
        self.last_op
    }

    /// The last request's xid.
    pub fn last_xid(&self) -> i32 {
        self.last_xid
    }

    /// Requests handed to the replica and not answered yet.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// True before the first frame: four-letter words are possible.
    pub fn is_new(&self) -> bool {
        self.phase == Phase::Handshake
    }

    /// True while the handshake waits for its reply, perhaps for the next leader.
    pub fn is_connecting(&self) -> bool {
        self.phase == Phase::Connecting
    }

    /// Whether another frame may be taken now. Not during the handshake, and not while too much is on its way; one
    /// request is always let in, so that every connection gets on. When this turns true again, answers have come.
    pub fn may_take(&self, room: Room) -> bool {
        match self.phase {
            Phase::Handshake => true,
            Phase::Connecting | Phase::Closing => false,
            Phase::Serving(_) => self.in_flight == 0 || (room == Room::Plenty && self.has_room()),
        }
    }

    fn has_room(&self) -> bool {
        self.in_flight < REQUESTS_IN_FLIGHT_MAX
            && self.bytes_in_flight < BYTES_IN_FLIGHT_MAX
            && (self.in_flight as usize).saturating_mul(self.answer_bytes) < EXPECTED_ANSWER_BYTES_MAX
    }

    /// Takes one complete frame.
    pub fn on_frame(&mut self, payload: &[u8], service: &mut Service<'_>) -> Verdict {
        match self.phase {
            Phase::Handshake => self.on_connect_request(payload, service),
            Phase::Serving(session) => self.on_request(session, payload, service),
            Phase::Connecting | Phase::Closing => Verdict::Continue,
        }
    }

    /// The server still has no room for the frame it was shown: until then its client is not silent.
    pub fn on_no_room(&self, now: Now) {
        self.touch.note(now.mono_ms);
    }

    /// The replica has given the connection its session.
    pub fn on_attached(&mut self, session: SessionId, timeout_ms: i32) {
        self.phase = Phase::Serving(session);
        self.timeout_ms = timeout_ms;
    }

    /// The replica has answered so many requests with so many bytes.
    pub fn on_answers(&mut self, count: u32, bytes: usize) {
        // Which requests they were is not kept: they take their share of the bytes with them.
        self.bytes_in_flight -= (self.bytes_in_flight / self.in_flight as usize) * count as usize;
        self.in_flight -= count;
        if self.in_flight == 0 {
            self.bytes_in_flight = 0;
        }
        self.expect_answers_of(bytes / count as usize);
    }

    fn expect_answers_of(&mut self, bytes: usize) {
        self.answer_bytes = bytes.max(self.answer_bytes - self.answer_bytes / 8);
    }

    /// No frame is taken any more.
    pub fn start_closing(&mut self) {
        self.phase = Phase::Closing;
    }

    fn on_connect_request(&mut self, payload: &[u8], service: &mut Service<'_>) -> Verdict {
        let Ok(request) = ConnectRequest::decode(payload) else { return Verdict::Close };
        let newcomer = if request.session == SessionId::NONE { Newcomer::New } else { Newcomer::Renewed };
        if !(service.admit)(newcomer) {
            return Verdict::Close;
        }
        let ConnSettings { min_timeout_ms, max_timeout_ms, .. } = service.settings;
        let timeout_ms = request.timeout_ms.clamp(min_timeout_ms, max_timeout_ms);
        let ask = Ask::Connect {
            session: request.session,
            last_zxid_seen: request.last_zxid_seen,
            proven: password_matches(request.session, request.password.unwrap_or_default()),
            timeout_ms,
            patience_ms: i64::from(request.timeout_ms.min(timeout_ms)) / 4,
            read_only: request.read_only,
            address: self.address,
            ids: Arc::clone(&self.ids),
            touch: self.touch.clone(),
        };
        service.submission.push(self.id, ask, &[]);
        self.last_op = (request.session == SessionId::NONE).then_some(OpCode::CreateSession);
        self.phase = Phase::Connecting;
        Verdict::Continue
    }

    fn on_request(&mut self, session: SessionId, payload: &[u8], service: &mut Service<'_>) -> Verdict {
        let mut from = Reader::new(payload);
        let Ok(RequestHeader { xid, op }) = from.get() else { return Verdict::Close };
        let known = OpCode::try_from(op).ok();
        self.touch.note(service.now.mono_ms);
        if self.in_flight == 0
            && let Some(shortage) = known.and_then(|op| shortage(op, payload.len(), from.rest(), service))
        {
            return Verdict::Wait(shortage);
        }
        self.last_xid = xid;
        self.last_op = known;
        if let Some(op) = known.filter(|op| !matches!(op, OpCode::Ping | OpCode::CloseSession))
            && let Some(verdict) = self.on_late_request(xid, op, service)
        {
            return verdict;
        }
        let body = from.rest();
        match known {
            Some(op) if read::is_read(op) => {
                if self.in_flight == 0 && !(op == OpCode::Sync && service.settings.syncs_travel) {
                    let asker = Requester { conn: self.id, session, ids: &self.ids };
                    let before = service.out.len();
                    let then = read::put_reply(service.state, asker, ReadRequest { xid, op, body }, service.out);
                    if then == AfterReply::Close {
                        return Verdict::Close;
                    }
                    self.expect_answers_of(service.out.len() - before);
                } else {
                    self.submit(Ask::Request { xid, op }, body, service);
                }
            }
            Some(op) if is_write(op) => self.submit(Ask::Request { xid, op }, body, service),
            Some(OpCode::Auth) => return self.on_auth(xid, body, service),
            Some(OpCode::Sasl) => return self.on_sasl(xid, body, service),
            _ => {
                let err = ErrorCode::Unimplemented.code();
                self.answer_and_close(ReplyHeader { xid, zxid: Zxid(-1), err }, service);
            }
        }
        Verdict::Continue
    }

    /// What becomes of a request that lay here for too long, if it did. Authentication is never refused for it.
    fn on_late_request(&mut self, xid: i32, op: OpCode, service: &mut Service<'_>) -> Option<Verdict> {
        let ConnSettings { throttled_op_wait_ms, drop_late, .. } = service.settings;
        if drop_late && i64::from(self.timeout_ms) < service.waited_ms {
            return Some(Verdict::Close);
        }
        let is_throttled = 0 < throttled_op_wait_ms && throttled_op_wait_ms < service.waited_ms;
        if !is_throttled || !(read::is_read(op) || is_write(op)) {
            return None;
        }
        if self.in_flight == 0 {
            let err = ErrorCode::ThrottledOp.code();
            put_bare_reply(service.out, ReplyHeader { xid, zxid: service.state.last_zxid(), err });
        } else {
            self.submit(Ask::Throttled { xid }, &[], service);
        }
        Some(Verdict::Continue)
    }

    fn on_auth(&mut self, xid: i32, body: &[u8], service: &mut Service<'_>) -> Verdict {
        let Ok(packet) = Reader::new(body).get::<AuthPacket<'_>>() else { return Verdict::Close };
        let proven = authenticate(service.state, packet.scheme.as_deref(), packet.auth);
        if proven.is_some_and(|proven| self.add_identities(proven, service)) {
            self.answer(ReplyHeader { xid, zxid: Zxid::ZERO, err: 0 }, |_| (), service);
        } else {
            let err = ErrorCode::AuthFailed.code();
            self.answer_and_close(ReplyHeader { xid, zxid: Zxid::ZERO, err }, service);
        }
        Verdict::Continue
    }

    /// Adds what was proven and tells the replica; false when there is no room for more.
    fn add_identities(&mut self, proven: Vec<Identity>, service: &mut Service<'_>) -> bool {
        // Whoever proves the same over and over is not copied over and over.
        if proven.iter().all(|proven| self.ids.iter().any(|known| known == proven)) {
            return true;
        }
        if IDENTITIES_MAX <= self.ids.iter().count() || !Arc::make_mut(&mut self.ids).add(proven) {
            return false;
        }
        // The replica keeps every version that a request was sent with.
        self.bytes_in_flight += self.ids.iter().map(|identity| identity.id.len()).sum::<usize>();
        service.submission.push(self.id, Ask::Identified(Arc::clone(&self.ids)), &[]);
        true
    }

    /// Without a SASL configuration every token is answered with a null one.
    fn on_sasl(&mut self, xid: i32, body: &[u8], service: &mut Service<'_>) -> Verdict {
        let header = |err| ReplyHeader { xid, zxid: Zxid::ZERO, err };
        match Reader::new(body).get::<SaslToken<'_>>() {
            Ok(SaslToken { token: Some(_) }) => {
                self.answer(header(0), |out| ox_proto::jute::put_buffer(out, None), service);
                Verdict::Continue
            }
            _ => Verdict::Close,
        }
    }

    fn submit(&mut self, ask: Ask, bytes: &[u8], service: &mut Service<'_>) {
        self.in_flight += 1;
        self.bytes_in_flight += bytes.len() + ITEM_BYTES;
        service.submission.push(self.id, ask, bytes);
    }

    /// Answers at once, or behind what is on its way.
    fn answer(&mut self, header: ReplyHeader, put_body: impl FnOnce(&mut Vec<u8>), service: &mut Service<'_>) {
        if self.in_flight == 0 {
            put_reply(service.out, header, put_body);
        } else {
            let mut frame = Vec::new();
            put_reply(&mut frame, header, put_body);
            self.submit(Ask::Answered, &frame, service);
        }
    }

    /// The last answer goes through the replica, so that it and the close that follows stay in order.
    fn answer_and_close(&mut self, header: ReplyHeader, service: &mut Service<'_>) {
        let mut frame = Vec::new();
        put_bare_reply(&mut frame, header);
        self.submit(Ask::AnsweredAndClose, &frame, service);
        self.phase = Phase::Closing;
    }
}

/// What a request waits for, if the server has no memory for it, or for its reply, now.
fn shortage(op: OpCode, bytes: usize, body: &[u8], service: &Service<'_>) -> Option<Shortage> {
    if is_write(op) {
        return service.room.shortage(bytes);
    }
    let is_large = || SMALL_BYTES < read::reply_bytes(service.state, op, body);
    (service.small_replies_only && is_large()).then_some(Shortage::Replies)
}

fn is_write(op: OpCode) -> bool {
    use OpCode as O;
    matches!(
        op,
        O::Create
            | O::Create2
            | O::CreateContainer
            | O::CreateTtl
            | O::Delete
            | O::SetData
            | O::SetAcl
            | O::Multi
            | O::Reconfig
            | O::CloseSession
    )
}
