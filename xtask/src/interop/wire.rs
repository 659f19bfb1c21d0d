//! A blocking client of a few lines: one request, one reply, every byte known.
//!
//! Where a test wants to see headers, zxids and exact records, a full client library is in the way. This one leaves no
//! watches and sends no pings, so the only frames it ever gets are replies, and its session lives [`SESSION_TIMEOUT_MS`]
//! after the last request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::reply::ReplyHeader;
use ox_proto::request::{AuthPacket, put_bare_request, put_request, xid};
use ox_proto::{Jute, OpCode, Reader, SessionId, Zxid};

/// Asked for at every handshake; servers grant it when their `maxSessionTimeout` allows.
pub(crate) const SESSION_TIMEOUT_MS: i32 = 60_000;
/// No reply takes longer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// What resumes a session on another connection or server.
#[derive(Clone, Debug)]
pub(crate) struct SessionHandle {
    /// The session.
    pub(crate) session: SessionId,
    password: Vec<u8>,
    /// Highest zxid the session has seen; a server behind it refuses the session.
    pub(crate) last_zxid: Zxid,
    /// Whether its client could do with reads.
    read_only: bool,
}

impl SessionHandle {
    /// The same for a client that could do with reads.
    pub(crate) fn allow_read_only(self) -> Self {
        SessionHandle { read_only: true, ..self }
    }

    /// Asks for a new session.
    pub(crate) fn new(read_only: bool) -> Self {
        SessionHandle { session: SessionId::NONE, password: vec![0; 16], last_zxid: Zxid::ZERO, read_only }
    }
}

/// A reply frame.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Its header.
    pub(crate) header: ReplyHeader,
    body: Vec<u8>,
}

impl Reply {
    /// A reader over the body of a reply without an error.
    pub(crate) fn body(&self) -> Result<Reader<'_>> {
        ensure!(self.header.err == 0, "error {}", self.header.err);
        Ok(Reader::new(&self.body))
    }
}

/// The server says that there is no such session.
#[derive(Debug)]
pub(crate) struct SessionRefused;

impl std::fmt::Display for SessionRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server refused the session")
    }
}

impl std::error::Error for SessionRefused {}

/// An open session.
#[derive(Debug)]
pub(crate) struct WireClient {
    stream: TcpStream,
    session_handle: SessionHandle,
    /// Whether the server only lets it read.
    pub(crate) is_read_only: bool,
    next_xid: i32,
}

impl WireClient {
    /// Opens a new session.
    pub(crate) fn connect(address: SocketAddr) -> Result<WireClient> {
        WireClient::resume(address, &SessionHandle::new(false))
    }

    /// Resumes a session; an error when the server refuses it.
    pub(crate) fn resume(address: SocketAddr, session_handle: &SessionHandle) -> Result<WireClient> {
        let mut stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let mut frame = Vec::new();
        let request = ConnectRequest {
            last_zxid_seen: session_handle.last_zxid,
            timeout_ms: SESSION_TIMEOUT_MS,
            session: session_handle.session,
            password: Some(&session_handle.password),
            read_only: Some(session_handle.read_only),
        };
        request.put_frame(&mut frame);
        stream.write_all(&frame)?;
        let response = ConnectResponse::decode(&read_frame(&mut stream).context("handshake")?)?;
        ensure!(response.session != SessionId::NONE, SessionRefused);
        let password = response.password.to_vec();
        let session_handle = SessionHandle { session: response.session, password, ..*session_handle };
        Ok(WireClient { stream, session_handle, is_read_only: response.read_only == Some(true), next_xid: 1 })
    }

    /// What resumes this session elsewhere.
    pub(crate) fn session_handle(&self) -> SessionHandle {
        self.session_handle.clone()
    }

    /// Sends a request and reads its reply, which may be an error.
    pub(crate) fn call<'a>(&mut self, op: OpCode, body: &impl Jute<'a>) -> Result<Reply> {
        let xid = self.next_xid;
        self.next_xid += 1;
        let mut frame = Vec::new();
        put_request(&mut frame, xid, op.code(), body);
        self.exchange(op, xid, &frame)
    }

    /// Adds an identity.
    pub(crate) fn auth(&mut self, scheme: &str, credentials: &str) -> Result<()> {
        let packet = AuthPacket { kind: 0, scheme: Some(scheme.into()), auth: Some(credentials.as_bytes()) };
        let mut frame = Vec::new();
        put_request(&mut frame, xid::AUTH, OpCode::Auth.code(), &packet);
        self.exchange(OpCode::Auth, xid::AUTH, &frame)?.body().map(drop)
    }

    /// Ends the session.
    pub(crate) fn close(mut self) -> Result<()> {
        let mut frame = Vec::new();
        put_bare_request(&mut frame, self.next_xid, OpCode::CloseSession.code());
        self.exchange(OpCode::CloseSession, self.next_xid, &frame)?.body().map(drop)
    }

    fn exchange(&mut self, op: OpCode, xid: i32, frame: &[u8]) -> Result<Reply> {
        let reply = self.stream.write_all(frame).map_err(Into::into).and_then(|()| read_frame(&mut self.stream));
        let payload = reply.with_context(|| format!("no reply to {}", op.name()))?;
        let mut reader = Reader::new(&payload);
        let header: ReplyHeader = reader.get()?;
        ensure!(header.xid == xid, "reply to {} has xid {}, not {xid}", op.name(), header.xid);
        self.session_handle.last_zxid = self.session_handle.last_zxid.max(header.zxid);
        Ok(Reply { header, body: reader.rest().to_vec() })
    }
}

fn read_frame(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let mut payload = vec![0; usize::try_from(i32::from_be_bytes(prefix)).context("negative frame length")?];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}
