//! A blocking session for everything except the load itself: handshakes, set-up, clean-up, single requests.

use crate::failure::{self, ClosedConnection};
use crate::limits::{BULK_WINDOW, HANDSHAKE_TIMEOUT, HANDSHAKES_MAX, REPLY_BYTES_MAX, REPLY_TIMEOUT};
use crate::load_stream::LoadStream;
use crate::security::BenchSecurity;
use anyhow::{Context, Result, bail};
use ox_proto::acl::RawAcls;
use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::frame::split_frame;
use ox_proto::jute::Jute;
use ox_proto::limits::PASSWORD_BYTES;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::{
    CreateRequest, PathVersion, PathWatch, SaslToken, SetDataRequest, put_bare_request, put_request, xid,
};
use ox_proto::{OpCode, Reader, SessionId, Zxid};
use ox_sasl::digest_md5::CLIENT_PORT;
use ox_sasl::digest_md5::initiator::DigestInitiator;
use ox_sasl::jaas::modules::DigestCredentials;
use rand::Rng;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The first two bytes of an alert, which a server that speaks TLS sends to a client that does not.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// Address and session timeout of a server.
#[derive(Clone, Copy, Debug)]
pub struct BenchTarget {
    pub address: SocketAddr,
    /// The session timeout to request.
    pub session_timeout_ms: u32,
    /// Set if TLS or SASL is used. It lives as long as the process, so that targets can be copied.
    pub security: Option<&'static BenchSecurity>,
}

impl BenchTarget {
    /// A connection, with TLS if the server has it.
    pub fn secure<S>(&self, socket: S) -> Result<LoadStream<S>> {
        let tls = self.security.map(BenchSecurity::tls).transpose()?.flatten();
        Ok(LoadStream::new(socket, tls))
    }

    /// The frame that opens a session.
    pub fn connect_frame(&self) -> Vec<u8> {
        self.resume_frame(SessionCredentials { session: SessionId::NONE, password: [0; PASSWORD_BYTES] })
    }

    fn resume_frame(&self, SessionCredentials { session, password }: SessionCredentials) -> Vec<u8> {
        let mut out = Vec::new();
        ConnectRequest {
            last_zxid_seen: Zxid::ZERO,
            timeout_ms: i32::try_from(self.session_timeout_ms).unwrap_or(i32::MAX),
            session,
            password: Some(&password),
            read_only: Some(false),
        }
        .put_frame(&mut out);
        out
    }
}

/// Id and password to resume a session on another connection.
#[derive(Clone, Copy, Debug)]
pub struct SessionCredentials {
    session: SessionId,
    password: [u8; PASSWORD_BYTES],
}

#[derive(Debug)]
pub struct SessionReply {
    pub header: ReplyHeader,
    pub body: Vec<u8>,
}

/// An open session on a blocking socket.
#[derive(Debug)]
pub struct Session {
    target: BenchTarget,
    stream: LoadStream<TcpStream>,
    /// How long a reply may take.
    limit: Duration,
    input: Vec<u8>,
    /// Bytes of `input` already consumed.
    used: usize,
    next_xid: i32,
    timeout: Duration,
}

impl Session {
    pub fn open(target: BenchTarget) -> Result<Self> {
        Self::open_within(target, REPLY_TIMEOUT)
    }

    /// Opens a session with a server that may be silent; each wait ends after `limit`.
    pub fn open_within(target: BenchTarget, limit: Duration) -> Result<Self> {
        let mut session = Self::begin(target, limit, &target.connect_frame())?;
        session.finish()?;
        Ok(session)
    }

    /// Opens a session, or resumes one; an expired session is an error.
    pub fn resume(
        target: BenchTarget,
        limit: Duration,
        resumed: Option<SessionCredentials>,
    ) -> Result<(Self, SessionCredentials)> {
        let frame = resumed.map_or_else(|| target.connect_frame(), |resumed| target.resume_frame(resumed));
        let mut session = Self::begin(target, limit, &frame)?;
        let granted = session.finish()?;
        Ok((session, granted))
    }

    /// Opens `count` sessions, spread over the servers, several handshakes at a time; `each` receives the number of
    /// open ones.
    pub fn open_many(targets: &[BenchTarget], count: usize, mut each: impl FnMut(usize)) -> Result<Vec<Self>> {
        let mut sessions: Vec<Self> = Vec::with_capacity(count);
        let mut open = 0;
        while open < count {
            if let Err(error) = Self::open_some(targets, count, &mut sessions, &mut open) {
                if error.downcast_ref().is_some_and(ClosedConnection::is_before_session) {
                    // The server works but accepts no more: its log need not report clients that just vanish.
                    sessions.drain(..open).for_each(|session| drop(session.close()));
                }
                return Err(error);
            }
            each(open);
        }
        Ok(sessions)
    }

    /// Opens some more of `count` sessions. `open` counts those whose handshake is complete.
    fn open_some(targets: &[BenchTarget], count: usize, sessions: &mut Vec<Self>, open: &mut usize) -> Result<()> {
        let next = targets.iter().cycle().skip(*open % targets.len());
        for target in next.take(HANDSHAKES_MAX.min(count - *open)) {
            sessions.push(Self::begin(*target, REPLY_TIMEOUT, &target.connect_frame())?);
        }
        for session in &mut sessions[*open..] {
            session.finish()?;
            *open += 1;
        }
        Ok(())
    }

    /// Connects and sends the handshake.
    fn begin(target: BenchTarget, limit: Duration, handshake: &[u8]) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&target.address, limit)
            .map_err(|error| failure::cannot_connect(target.address, &error))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(limit.min(HANDSHAKE_TIMEOUT)))?;
        stream.set_write_timeout(Some(limit))?;
        let stream = target.secure(stream)?;
        let mut session =
            Self { target, stream, limit, input: Vec::new(), used: 0, next_xid: 1, timeout: Duration::default() };
        session.send_for(handshake, failure::OPENING)?;
        Ok(session)
    }

    /// Reads the reply to the handshake.
    fn finish(&mut self) -> Result<SessionCredentials> {
        let server = self.target.address;
        let payload = self.frame(failure::OPENING)?;
        let response = ConnectResponse::decode(&payload).with_context(|| {
            format!("unexpected reply to the handshake from {server}\nhint: is this a ZooKeeper server?")
        })?;
        if response.session == SessionId::NONE {
            bail!("the server at {server} refused a session\nhint: see its log");
        }
        self.timeout = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0));
        self.stream.socket().set_read_timeout(Some(self.limit))?;
        if let Some(credentials) = self.target.security.and_then(BenchSecurity::sasl) {
            self.authenticate(credentials)?;
        }
        Ok(SessionCredentials { session: response.session, password: response.password })
    }

    fn authenticate(&mut self, credentials: &DigestCredentials) -> Result<()> {
        let mut initiator = DigestInitiator::new(CLIENT_PORT, credentials.clone());
        let mut token = Vec::new();
        loop {
            let reply = self.call(OpCode::Sasl, &SaslToken { token: Some(&token) })?;
            if reply.header.err != 0 {
                return Err(failure::refused("authenticate by SASL", reply.header.err));
            }
            let SaslToken { token: challenge } = Reader::new(&reply.body).get().context("decode a SASL token")?;
            let challenge = challenge.context("the server does not offer SASL, or does not accept this client")?;
            match initiator.step(challenge, &mut |bytes| rand::rng().fill_bytes(bytes))?.token {
                Some(next) => token = next,
                None => return Ok(()),
            }
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.target.address
    }

    /// The session timeout that the server granted.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Releases the socket; the next xid is 1.
    pub fn into_stream(self) -> LoadStream<TcpStream> {
        self.stream
    }

    /// Creates a node and returns the error code.
    pub fn create(&mut self, path: &str, data: &[u8]) -> Result<i32> {
        let create = CreateRequest { path: Some(path.into()), data: Some(data), acl: RawAcls::OPEN, flags: 0 };
        Ok(self.call(OpCode::Create, &create)?.header.err)
    }

    /// Sets a node's data and returns the error code.
    pub fn set(&mut self, path: &str, data: &[u8]) -> Result<i32> {
        let set = SetDataRequest { path: Some(path.into()), data: Some(data), version: -1 };
        Ok(self.call(OpCode::SetData, &set)?.header.err)
    }

    /// A node's data, or the error code.
    pub fn data(&mut self, path: &str) -> Result<std::result::Result<Vec<u8>, i32>> {
        let reply = self.call(OpCode::GetData, &PathWatch { path: Some(path.into()), watch: false })?;
        if reply.header.err != 0 {
            return Ok(Err(reply.header.err));
        }
        let data = Reader::new(&reply.body).get::<Option<&[u8]>>().context("decode the reply to a getData")?;
        Ok(Ok(data.unwrap_or_default().to_vec()))
    }

    /// The names of a node's children, or the error code.
    pub fn children(&mut self, path: &str) -> Result<std::result::Result<Vec<String>, i32>> {
        let reply = self.call(OpCode::GetChildren, &PathWatch { path: Some(path.into()), watch: false })?;
        if reply.header.err != 0 {
            return Ok(Err(reply.header.err));
        }
        let names = Reader::new(&reply.body)
            .get::<Option<Vec<Option<std::borrow::Cow<'_, str>>>>>()
            .context("decode the reply to a getChildren")?;
        Ok(Ok(names.unwrap_or_default().into_iter().flatten().map(std::borrow::Cow::into_owned).collect()))
    }

    /// Sends one request and waits for its reply; skips notifications.
    pub fn call<'a>(&mut self, op: OpCode, body: &impl Jute<'a>) -> Result<SessionReply> {
        let (mut out, xid) = (Vec::new(), self.take_xid());
        put_request(&mut out, xid, op.code(), body);
        self.send(&out)?;
        self.reply(xid)
    }

    /// Sends many requests, a window at a time. `each` receives the index of a request and its error code.
    pub fn bulk(
        &mut self,
        count: usize,
        mut request: impl FnMut(usize, i32, &mut Vec<u8>),
        mut each: impl FnMut(usize, i32) -> Result<()>,
    ) -> Result<()> {
        let (mut sent, mut done, mut out) = (0, 0, Vec::new());
        while done < count {
            out.clear();
            while sent < count && sent - done < BULK_WINDOW {
                request(sent, self.take_xid(), &mut out);
                sent += 1;
            }
            self.send(&out)?;
            // Half a window stays in flight, so that the server is never idle.
            let until = if sent == count { count } else { sent - BULK_WINDOW / 2 };
            while done < until {
                let due = self.next_xid - i32::try_from(sent - done).expect("a window is small");
                let reply = self.reply(due)?;
                each(done, reply.header.err)?;
                done += 1;
            }
        }
        Ok(())
    }

    /// Appends a create request for [`Self::bulk`].
    pub fn put_create(path: &str, data: &[u8], xid: i32, out: &mut Vec<u8>) {
        let create = CreateRequest { path: Some(path.into()), data: Some(data), acl: RawAcls::OPEN, flags: 0 };
        put_request(out, xid, OpCode::Create.code(), &create);
    }

    /// Appends a delete request for [`Self::bulk`].
    pub fn put_delete(path: &str, xid: i32, out: &mut Vec<u8>) {
        put_request(out, xid, OpCode::Delete.code(), &PathVersion { path: Some(path.into()), version: -1 });
    }

    /// Sends a ping and waits for its reply.
    pub fn ping(&mut self) -> Result<()> {
        let mut out = Vec::new();
        put_bare_request(&mut out, xid::PING, OpCode::Ping.code());
        self.send(&out)?;
        self.reply(xid::PING).map(drop)
    }

    pub fn close(mut self) -> Result<()> {
        let (mut out, xid) = (Vec::new(), self.take_xid());
        put_bare_request(&mut out, xid, OpCode::CloseSession.code());
        self.send(&out)?;
        self.reply(xid).map(drop)
    }

    fn take_xid(&mut self) -> i32 {
        let xid = self.next_xid;
        self.next_xid += 1;
        xid
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send_for(bytes, "sending a request")
    }

    fn send_for(&mut self, bytes: &[u8], doing: &str) -> Result<()> {
        let server = self.target.address;
        self.stream
            .write_all(bytes)
            .and_then(|()| self.stream.flush())
            .map_err(|error| failure::broken(server, &error, doing))
    }

    fn reply(&mut self, due: i32) -> Result<SessionReply> {
        loop {
            let payload = self.frame("waiting for a reply")?;
            let mut from = Reader::new(&payload);
            let header: ReplyHeader = from.get().context("decode a reply header")?;
            if header.xid == due {
                return Ok(SessionReply { header, body: from.rest().to_vec() });
            }
            if header.xid != xid::NOTIFICATION {
                return Err(failure::out_of_order(self.target.address, Some(due), header.xid));
            }
        }
    }

    fn frame(&mut self, doing: &str) -> Result<Vec<u8>> {
        let server = self.target.address;
        let is_alert = |input: &[u8]| doing == failure::OPENING && input.starts_with(&TLS_ALERT);
        loop {
            let split = split_frame(&self.input[self.used..], REPLY_BYTES_MAX).with_context(|| {
                format!("unexpected bytes from {server}\nhint: is this the client port of a ZooKeeper server?")
            })?;
            if let Some((payload, _)) = split {
                let payload = payload.to_vec();
                self.used += 4 + payload.len();
                return Ok(payload);
            }
            self.input.drain(..self.used);
            self.used = 0;
            let mut chunk = [0; 64 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) if is_alert(&self.input) => return Err(failure::needs_tls(server)),
                Ok(0) => return Err(failure::closed(server, doing)),
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(_) if is_alert(&self.input) => return Err(failure::needs_tls(server)),
                Err(error) => return Err(failure::broken(server, &error, doing)),
            }
        }
    }
}
