//! The server's end of one client connection: handshake, authentication, and the order of requests.
//!
//! Reads are replied to here, from the state. Writes are added to the [`Submission`] for the replica. If earlier
//! requests of the connection are still in flight there, a read follows them, so that a client's requests take effect
//! and are replied to in the order in which it sent them.
//!
//! ```text
//! Handshake --connect request--> Connecting --attached--> Serving --close--> Closing
//! ```

use crate::ConnId;
use crate::admission::{Admission, SMALL_BYTES, Shortage};
use crate::clock::Now;
use crate::enforced_schemes::EnforcedSchemes;
use crate::limits::{
    BYTES_IN_FLIGHT_MAX, ENTRY_BYTES, EXPECTED_REPLY_BYTES_MAX, FIRST_REPLY_BYTES, IDENTITIES_MAX,
    REQUESTS_IN_FLIGHT_MAX,
};
use crate::sasl::{SaslExchange, SaslFailure, SaslOutcome, SaslProgress, SaslService};
use crate::sessions::LastSeen;
use crate::submission::{ClientInput, Submission};
use crate::throttle::HandshakeKind;
use ox_proto::connect::ConnectRequest;
use ox_proto::jute::put_buffer;
use ox_proto::password::password_matches;
use ox_proto::reply::{ReplyHeader, put_bare_reply, put_reply};
use ox_proto::request::{AuthPacket, RequestHeader, SaslToken};
use ox_proto::{ErrorCode, OpCode, Reader, SessionId, Zxid};
use ox_tree::State;
use ox_tree::auth::{AuthOutcome, EnsembleName, Identities, Identity, X509_SCHEME, authenticate, names_super_user};
use ox_tree::read::{self, AfterReply, ReadRequest, Requester};
use std::net::IpAddr;
use std::sync::Arc;

/// Settings for all client connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnSettings {
    pub min_timeout_ms: i32,
    pub max_timeout_ms: i32,
    /// A request that waited longer than this before it was processed is refused; 0 turns this off.
    pub throttled_op_wait_ms: i64,
    /// Whether a connection is closed if its request waited longer than its session timeout.
    pub drop_late: bool,
    /// Whether `sync` goes through the leader, as it does in an ensemble.
    pub syncs_travel: bool,
    pub auth: ConnAuth,
}

/// How connections authenticate, and whether they must.
#[derive(Clone, Copy, Debug)]
pub struct ConnAuth {
    /// Whether a SASL login is configured.
    pub has_sasl: bool,
    /// Whether a connection stays open if its SASL exchange fails, unless SASL is enforced.
    pub keeps_failed_sasl: bool,
    pub enforced: EnforcedSchemes,
}

impl ConnAuth {
    /// Neither SASL nor enforced authentication.
    pub const NONE: Self = Self { has_sasl: false, keeps_failed_sasl: false, enforced: EnforcedSchemes::NONE };
}

/// Something about authentication that operators want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthEvent {
    /// An auth packet was refused.
    Failed,
    /// An auth packet named the super user, with a wrong password.
    WrongSuperPassword,
    /// The client has named its ensemble.
    Ensemble(EnsembleName),
    /// A request without the identity that is enforced.
    NotEnforced,
}

/// What the I/O thread does with the connection after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOutcome {
    /// Continue with the next frame.
    Continue,
    /// The frame was not accepted: the server has no memory for it now.
    Wait(Shortage),
    /// Close the connection without sending anything more.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    Connecting,
    Serving(SessionId),
    Closing,
}

/// What a connection needs to process a frame.
pub struct Service<'a> {
    pub now: Now,
    /// The state, under a read lock. Events fired before the lock was taken have been delivered.
    pub state: &'a State,
    pub settings: ConnSettings,
    pub admission: Admission,
    /// Whether only small replies ([`SMALL_BYTES`]) may be created now.
    pub small_replies_only: bool,
    /// How long the frame has waited in the input buffer.
    pub waited_ms: i64,
    /// Whether the session throttle admits the handshake.
    pub admit: &'a dyn Fn(HandshakeKind) -> bool,
    /// Output buffer of the client.
    pub out: &'a mut Vec<u8>,
    /// Requests for the replica.
    pub submission: &'a mut Submission,
}

#[derive(Debug)]
pub struct Conn {
    id: ConnId,
    address: IpAddr,
    ids: Arc<Identities>,
    phase: Phase,
    timeout_ms: i32,
    in_flight: u32,
    bytes_in_flight: usize,
    /// Expected size of the next reply: the largest of the recent ones, which decays slowly.
    reply_bytes_expected: usize,
    last_seen: LastSeen,
    last_op: Option<OpCode>,
    last_xid: i32,
    /// Present from the first SASL token on.
    sasl: Option<Box<SaslExchange>>,
    auth_event: Option<AuthEvent>,
}

impl Conn {
    pub fn new(id: ConnId, address: IpAddr) -> Self {
        Self {
            id,
            address,
            ids: Arc::new(Identities::of_address(address)),
            phase: Phase::Handshake,
            timeout_ms: 0,
            in_flight: 0,
            bytes_in_flight: 0,
            reply_bytes_expected: FIRST_REPLY_BYTES,
            last_seen: LastSeen::default(),
            last_op: None,
            last_xid: 0,
            sasl: None,
            auth_event: None,
        }
    }

    /// Adds identities that the transport has proven, before the first frame. False if they are too large.
    pub fn prove(&mut self, identities: Vec<Identity>) -> bool {
        identities.is_empty() || Arc::make_mut(&mut self.ids).add(identities)
    }

    pub fn id(&self) -> ConnId {
        self.id
    }

    pub fn ids(&self) -> &Identities {
        &self.ids
    }

    pub fn session(&self) -> Option<SessionId> {
        if let Phase::Serving(session) = self.phase { Some(session) } else { None }
    }

    /// 0 before the handshake is complete.
    pub fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    /// The last operation. A handshake counts as createSession if it requests a new session.
    pub fn last_op(&self) -> Option<OpCode> {
        self.last_op
    }

    pub fn last_xid(&self) -> i32 {
        self.last_xid
    }

    /// Number of requests that were submitted and not replied to.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// True before the first frame, when a four-letter command is still possible.
    pub fn is_new(&self) -> bool {
        self.phase == Phase::Handshake
    }

    /// True while the handshake waits for its reply, perhaps for the next leader.
    pub fn is_connecting(&self) -> bool {
        self.phase == Phase::Connecting
    }

    /// Whether another frame may be processed now: not during the handshake, and not while too much is in flight. One
    /// request is always admitted, so that every connection makes progress. This can become true again only after
    /// replies.
    pub fn may_take(&self, admission: Admission) -> bool {
        match self.phase {
            Phase::Handshake => true,
            Phase::Connecting | Phase::Closing => false,
            Phase::Serving(_) => {
                let is_below = self.in_flight == 0 || (admission == Admission::Open && self.is_below_limits());
                is_below && !self.has_sasl_token()
            }
        }
    }

    fn is_below_limits(&self) -> bool {
        self.in_flight < REQUESTS_IN_FLIGHT_MAX
            && self.bytes_in_flight < BYTES_IN_FLIGHT_MAX
            && (self.in_flight as usize).saturating_mul(self.reply_bytes_expected) < EXPECTED_REPLY_BYTES_MAX
    }

    pub fn on_frame(&mut self, payload: &[u8], service: &mut Service<'_>) -> FrameOutcome {
        match self.phase {
            Phase::Handshake => self.on_connect_request(payload, service),
            Phase::Serving(session) => self.on_request(session, payload, service),
            Phase::Connecting | Phase::Closing => FrameOutcome::Continue,
        }
    }

    /// The server still has no memory for the next frame. Until it has, the client counts as alive.
    pub fn on_refused(&self, now: Now) {
        self.last_seen.note(now.mono_ms);
    }

    /// The replica has attached the connection to its session.
    pub fn on_attached(&mut self, session: SessionId, timeout_ms: i32) {
        self.phase = Phase::Serving(session);
        self.timeout_ms = timeout_ms;
    }

    /// The replica has sent `count` replies with `bytes` together.
    pub fn on_replies(&mut self, count: u32, bytes: usize) {
        // Sizes of single requests are not stored: each counts with the average.
        self.bytes_in_flight -= (self.bytes_in_flight / self.in_flight as usize) * count as usize;
        self.in_flight -= count;
        if self.in_flight == 0 {
            self.bytes_in_flight = 0;
        }
        self.expect_replies_of(bytes / count as usize);
    }

    fn expect_replies_of(&mut self, bytes: usize) {
        self.reply_bytes_expected = bytes.max(self.reply_bytes_expected - self.reply_bytes_expected / 8);
    }

    /// Whether a SASL token waits for [`step_sasl`](Self::step_sasl). Until then no frame is processed.
    pub fn has_sasl_token(&self) -> bool {
        self.sasl.as_ref().is_some_and(|sasl| sasl.has_token())
    }

    /// What the last frame has done to the authentication of the client.
    pub fn take_auth_event(&mut self) -> Option<AuthEvent> {
        self.auth_event.take()
    }

    /// From now on frames are ignored.
    pub fn start_closing(&mut self) {
        self.phase = Phase::Closing;
    }

    fn on_connect_request(&mut self, payload: &[u8], service: &mut Service<'_>) -> FrameOutcome {
        let Ok(request) = ConnectRequest::decode(payload) else { return FrameOutcome::Close };
        let kind = if request.session == SessionId::NONE { HandshakeKind::New } else { HandshakeKind::Renewed };
        if !(service.admit)(kind) {
            return FrameOutcome::Close;
        }
        let ConnSettings { min_timeout_ms, max_timeout_ms, .. } = service.settings;
        let timeout_ms = request.timeout_ms.clamp(min_timeout_ms, max_timeout_ms);
        let input = ClientInput::Connect {
            session: request.session,
            last_zxid_seen: request.last_zxid_seen,
            proven: password_matches(request.session, request.password.unwrap_or_default()),
            timeout_ms,
            patience_ms: i64::from(request.timeout_ms.min(timeout_ms)) / 4,
            read_only: request.read_only,
            address: self.address,
            ids: Arc::clone(&self.ids),
            last_seen: self.last_seen.clone(),
        };
        service.submission.push(self.id, input, &[]);
        self.last_op = (request.session == SessionId::NONE).then_some(OpCode::CreateSession);
        self.phase = Phase::Connecting;
        FrameOutcome::Continue
    }

    fn on_request(&mut self, session: SessionId, payload: &[u8], service: &mut Service<'_>) -> FrameOutcome {
        let mut from = Reader::new(payload);
        let Ok(RequestHeader { xid, op }) = from.get() else { return FrameOutcome::Close };
        let known = OpCode::try_from(op).ok();
        self.last_seen.note(service.now.mono_ms);
        if self.in_flight == 0
            && let Some(shortage) = known.and_then(|op| shortage(op, payload.len(), from.rest(), service))
        {
            return FrameOutcome::Wait(shortage);
        }
        self.last_xid = xid;
        self.last_op = known;
        if !matches!(known, Some(OpCode::Auth | OpCode::Sasl)) && !service.settings.auth.enforced.admit(&self.ids) {
            self.auth_event = Some(AuthEvent::NotEnforced);
            self.refuse(xid, ErrorCode::SessionClosedRequireSaslAuth, service);
            return FrameOutcome::Continue;
        }
        if let Some(op) = known.filter(|op| !matches!(op, OpCode::Ping | OpCode::CloseSession))
            && let Some(verdict) = self.on_late_request(xid, op, service)
        {
            return verdict;
        }
        let body = from.rest();
        match known {
            Some(op) if read::is_read(op) => {
                if self.in_flight == 0 && !(op == OpCode::Sync && service.settings.syncs_travel) {
                    let requester = Requester { watcher: self.id.into(), session, ids: &self.ids };
                    let before = service.out.len();
                    let then = read::put_reply(service.state, requester, ReadRequest { xid, op, body }, service.out);
                    if then == AfterReply::Close {
                        return FrameOutcome::Close;
                    }
                    self.expect_replies_of(service.out.len() - before);
                } else {
                    self.submit(ClientInput::Request { xid, op }, body, service.submission);
                }
            }
            Some(op) if is_write(op) => self.submit(ClientInput::Request { xid, op }, body, service.submission),
            Some(OpCode::Auth) => return self.on_auth(xid, body, service),
            Some(OpCode::Sasl) => return self.on_sasl(xid, body, service),
            _ => {
                let err = ErrorCode::Unimplemented.code();
                self.reply_and_close(ReplyHeader { xid, zxid: Zxid(-1), err }, |_| (), service.submission);
            }
        }
        FrameOutcome::Continue
    }

    /// Refuses a request that waited too long, if it did. Authentication is never refused for this.
    fn on_late_request(&mut self, xid: i32, op: OpCode, service: &mut Service<'_>) -> Option<FrameOutcome> {
        let ConnSettings { throttled_op_wait_ms, drop_late, .. } = service.settings;
        if drop_late && i64::from(self.timeout_ms) < service.waited_ms {
            return Some(FrameOutcome::Close);
        }
        let is_throttled = 0 < throttled_op_wait_ms && throttled_op_wait_ms < service.waited_ms;
        if !is_throttled || !(read::is_read(op) || is_write(op)) {
            return None;
        }
        if self.in_flight == 0 {
            let err = ErrorCode::ThrottledOp.code();
            put_bare_reply(service.out, ReplyHeader { xid, zxid: service.state.last_zxid(), err });
        } else {
            self.submit(ClientInput::Throttled { xid }, &[], service.submission);
        }
        Some(FrameOutcome::Continue)
    }

    fn on_auth(&mut self, xid: i32, body: &[u8], service: &mut Service<'_>) -> FrameOutcome {
        let Ok(packet) = Reader::new(body).get::<AuthPacket<'_>>() else { return FrameOutcome::Close };
        let mut outcome = authenticate(service.state, packet.scheme.as_deref(), packet.auth);
        if packet.scheme.as_deref() == Some(X509_SCHEME) && self.ids.has_scheme(X509_SCHEME) {
            outcome = AuthOutcome::Proven(Vec::new()); // the certificate has proven the identity already
        }
        if let AuthOutcome::Ensemble(name) = outcome {
            self.auth_event = Some(AuthEvent::Ensemble(name));
            if name == EnsembleName::Differs {
                return FrameOutcome::Close;
            }
        }
        let proven = outcome.proven().filter(|proven| self.admits_super_attempt(proven, service));
        if proven.is_some_and(|proven| self.add_identities(proven, service.submission)) {
            self.reply(ReplyHeader { xid, zxid: Zxid::ZERO, err: 0 }, |_| (), service.out, service.submission);
        } else {
            self.auth_event.get_or_insert(AuthEvent::Failed);
            self.refuse(xid, ErrorCode::AuthFailed, service);
        }
        FrameOutcome::Continue
    }

    /// False if the packet is a second wrong password of the super user: a connection has one attempt (S16).
    fn admits_super_attempt(&mut self, proven: &[Identity], service: &Service<'_>) -> bool {
        let settings = &service.state.options().schemes;
        let is_super = proven.iter().any(|identity| identity.scheme == "super");
        let Some(wrong) = proven.iter().find(|identity| !is_super && names_super_user(settings, identity)) else {
            return true;
        };
        self.auth_event = Some(AuthEvent::WrongSuperPassword);
        self.ids.iter().all(|known| known == wrong || !names_super_user(settings, known))
    }

    /// Adds authenticated identities and submits them to the replica. False if there are too many.
    fn add_identities(&mut self, proven: Vec<Identity>, submission: &mut Submission) -> bool {
        // Authenticating again with the same identity does not copy the list.
        if proven.iter().all(|proven| self.ids.iter().any(|known| known == proven)) {
            return true;
        }
        if IDENTITIES_MAX <= self.ids.iter().count() || !Arc::make_mut(&mut self.ids).add(proven) {
            return false;
        }
        // The replica keeps every version of the list that a request was submitted with.
        self.bytes_in_flight += self.ids.iter().map(|identity| identity.id.len()).sum::<usize>();
        submission.push(self.id, ClientInput::Identified(Arc::clone(&self.ids)), &[]);
        true
    }

    /// Keeps the token for [`step_sasl`](Self::step_sasl). Without a SASL configuration, every token gets a null token as
    /// reply.
    fn on_sasl(&mut self, xid: i32, body: &[u8], service: &mut Service<'_>) -> FrameOutcome {
        let Ok(SaslToken { token: Some(token) }) = Reader::new(body).get() else { return FrameOutcome::Close };
        if service.settings.auth.has_sasl {
            self.sasl.get_or_insert_default().keep_token(xid, token);
        } else {
            let header = ReplyHeader { xid, zxid: Zxid::ZERO, err: 0 };
            self.reply(header, |out| put_buffer(out, None), service.out, service.submission);
        }
        FrameOutcome::Continue
    }

    /// Processes the token that waits, without the state. `None` if there is none.
    pub fn step_sasl(
        &mut self,
        auth: ConnAuth,
        service: &mut SaslService<'_>,
        out: &mut Vec<u8>,
        submission: &mut Submission,
    ) -> Option<SaslOutcome> {
        let mut exchange = self.sasl.take()?;
        let request = exchange.take_token();
        let progress = request.as_ref().map(|request| exchange.step(request, service));
        self.sasl = Some(exchange);
        let header = ReplyHeader { xid: request?.xid, zxid: Zxid::ZERO, err: 0 };
        Some(match progress? {
            Ok(SaslProgress::Challenge(token)) => {
                self.reply(header, |out| put_buffer(out, Some(&token)), out, submission);
                SaslOutcome::Challenged
            }
            Ok(SaslProgress::Complete { peer, id, proven }) => {
                if !self.add_identities(proven, submission) {
                    return Some(self.fail_sasl(auth, header, SaslFailure::TooManyIdentities, out, submission));
                }
                self.reply(header, |out| put_buffer(out, peer.token.as_deref()), out, submission);
                SaslOutcome::Authenticated { authentication_id: peer.authentication_id, id }
            }
            Err(failure) => self.fail_sasl(auth, header, failure, out, submission),
        })
    }

    fn fail_sasl(
        &mut self,
        auth: ConnAuth,
        header: ReplyHeader,
        failure: SaslFailure,
        out: &mut Vec<u8>,
        submission: &mut Submission,
    ) -> SaslOutcome {
        let is_required = auth.enforced.requires_sasl();
        if auth.keeps_failed_sasl && !is_required {
            self.reply(header, |out| put_buffer(out, None), out, submission);
            return SaslOutcome::Kept(failure);
        }
        let code = if is_required { ErrorCode::SessionClosedRequireSaslAuth } else { ErrorCode::AuthFailed };
        let header = ReplyHeader { err: code.code(), ..header };
        self.reply_and_close(header, |out| put_buffer(out, None), submission);
        SaslOutcome::Failed(failure)
    }

    fn submit(&mut self, input: ClientInput, bytes: &[u8], submission: &mut Submission) {
        self.in_flight += 1;
        self.bytes_in_flight += bytes.len() + ENTRY_BYTES;
        submission.push(self.id, input, bytes);
    }

    /// Replies now, or after the requests in flight.
    fn reply(
        &mut self,
        header: ReplyHeader,
        put_body: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
        submission: &mut Submission,
    ) {
        if self.in_flight == 0 {
            put_reply(out, header, put_body);
        } else {
            let mut frame = Vec::new();
            put_reply(&mut frame, header, put_body);
            self.submit(ClientInput::Reply, &frame, submission);
        }
    }

    /// Replies with an error of authentication and closes the connection.
    fn refuse(&mut self, xid: i32, code: ErrorCode, service: &mut Service<'_>) {
        let header = ReplyHeader { xid, zxid: Zxid::ZERO, err: code.code() };
        self.reply_and_close(header, |_| (), service.submission);
    }

    /// The last reply goes through the replica, so that it and the following close stay in order.
    fn reply_and_close(
        &mut self,
        header: ReplyHeader,
        put_body: impl FnOnce(&mut Vec<u8>),
        submission: &mut Submission,
    ) {
        let mut frame = Vec::new();
        put_reply(&mut frame, header, put_body);
        self.submit(ClientInput::ReplyAndClose, &frame, submission);
        self.phase = Phase::Closing;
    }
}

/// Which memory a request lacks, for itself or for its reply; none if it may be processed.
fn shortage(op: OpCode, bytes: usize, body: &[u8], service: &Service<'_>) -> Option<Shortage> {
    if is_write(op) {
        return service.admission.shortage(bytes);
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
