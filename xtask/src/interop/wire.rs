//! A minimal blocking client: sends one request, waits for its reply, and shows all of it.
//!
//! A full client library hides headers, zxids and the exact records. This client sets no watches and sends no pings, so
//! it receives nothing but replies, and its session expires [`SESSION_TIMEOUT_MS`] after the last request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ox_proto::connect::{ConnectRequest, ConnectResponse};
use ox_proto::reply::ReplyHeader;
use ox_proto::request::{AuthPacket, put_bare_request, put_request, xid};
use ox_proto::{Jute, OpCode, Reader, SessionId, Zxid};

/// Requested in every handshake. The server must allow it in `maxSessionTimeout`.
pub(crate) const SESSION_TIMEOUT_MS: i32 = 60_000;
/// Longer than any reply takes.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// The data to open a session, or to resume it on another connection or server.
#[derive(Clone, Debug)]
pub(crate) struct SessionHandle {
    pub(crate) session: SessionId,
    password: Vec<u8>,
    /// The highest zxid that the session has seen. A server with a lower zxid refuses the session.
    pub(crate) last_zxid: Zxid,
    /// Whether the client accepts a read-only server.
    read_only: bool,
}

impl SessionHandle {
    /// The same session, for a client that accepts a read-only server.
    pub(crate) fn allow_read_only(self) -> Self {
        SessionHandle { read_only: true, ..self }
    }

    /// The handle of a session that does not exist yet.
    pub(crate) fn new(read_only: bool) -> Self {
        SessionHandle { session: SessionId::NONE, password: vec![0; 16], last_zxid: Zxid::ZERO, read_only }
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) header: ReplyHeader,
    body: Vec<u8>,
}

impl Reply {
    /// A reader over the body. An error if the reply is one.
    pub(crate) fn body(&self) -> Result<Reader<'_>> {
        ensure!(self.header.err == 0, "error {}", self.header.err);
        Ok(Reader::new(&self.body))
    }
}

/// The server replied that the session does not exist.
#[derive(Debug)]
pub(crate) struct SessionRefused;

impl std::fmt::Display for SessionRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server refused the session")
    }
}

impl std::error::Error for SessionRefused {}

/// A connection with an open session.
#[derive(Debug)]
pub(crate) struct WireClient {
    stream: TcpStream,
    handle: SessionHandle,
    /// Whether the server is read-only.
    pub(crate) is_read_only: bool,
    next_xid: i32,
}

impl WireClient {
    pub(crate) fn connect(address: SocketAddr) -> Result<WireClient> {
        WireClient::resume(address, &SessionHandle::new(false))
    }

    /// Opens or resumes a session. Fails with [`SessionRefused`] if it does not exist.
    pub(crate) fn resume(address: SocketAddr, handle: &SessionHandle) -> Result<WireClient> {
        let mut stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let mut frame = Vec::new();
        let request = ConnectRequest {
            last_zxid_seen: handle.last_zxid,
            timeout_ms: SESSION_TIMEOUT_MS,
            session: handle.session,
            password: Some(&handle.password),
            read_only: Some(handle.read_only),
        };
        request.put_frame(&mut frame);
        stream.write_all(&frame)?;
        let response = ConnectResponse::decode(&read_frame(&mut stream).context("handshake")?)?;
        ensure!(response.session != SessionId::NONE, SessionRefused);
        let password = response.password.to_vec();
        let handle = SessionHandle { session: response.session, password, ..*handle };
        Ok(WireClient { stream, handle, is_read_only: response.read_only == Some(true), next_xid: 1 })
    }

    /// The data to resume this session elsewhere.
    pub(crate) fn session_handle(&self) -> SessionHandle {
        self.handle.clone()
    }

    /// Sends a request and reads its reply. An error code in the reply is no `Err`.
    pub(crate) fn call<'a>(&mut self, op: OpCode, body: &impl Jute<'a>) -> Result<Reply> {
        let xid = self.next_xid;
        self.next_xid += 1;
        let mut frame = Vec::new();
        put_request(&mut frame, xid, op.code(), body);
        self.exchange(op, xid, &frame)
    }

    pub(crate) fn auth(&mut self, scheme: &str, credentials: &str) -> Result<()> {
        let packet = AuthPacket { kind: 0, scheme: Some(scheme.into()), auth: Some(credentials.as_bytes()) };
        let mut frame = Vec::new();
        put_request(&mut frame, xid::AUTH, OpCode::Auth.code(), &packet);
        self.exchange(OpCode::Auth, xid::AUTH, &frame)?.body().map(drop)
    }

    /// Closes the session, then the connection.
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
        self.handle.last_zxid = self.handle.last_zxid.max(header.zxid);
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
