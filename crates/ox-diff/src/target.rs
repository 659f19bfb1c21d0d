//! One server under test with the script's sessions on it.

use crate::normalize::SessionNames;
use crate::reply_matcher::{Awaited, Expected, ReplyMatcher};
use crate::request::ScriptRequest;
use crate::script::{Action, Batch, Handshake, HandshakeSession, Line, Password, SessionName};
use crate::stream::{Stream, StreamEnd};
use anyhow::{Context as _, Result};
use ox_proto::OpCode;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{Jute as _, put_buffer};
use ox_proto::limits::PASSWORD_BYTES;
use ox_proto::request::xid;
use ox_testkit::RawConnection;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Far above the time that any server needs for a reply, even on a busy machine.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// A session of the script on this server.
#[derive(Debug, Default)]
pub(crate) struct ScriptClient {
    pub(crate) connection: Option<RawConnection>,
    /// A connection that a later handshake of the same name replaced; the server should close it.
    pub(crate) replaced: Option<RawConnection>,
    /// The last session id; 0 if it never had one.
    pub(crate) session: i64,
    /// Whether it has closed that session. A handshake that requests it again must be refused.
    pub(crate) is_over: bool,
    pub(crate) password: Vec<u8>,
    pub(crate) last_zxid: i64,
    next_xid: i32,
}

#[derive(Debug)]
pub struct TargetServer {
    address: String,
    clients: BTreeMap<SessionName, ScriptClient>,
    /// Names of the server's session ids.
    pub names: SessionNames,
    /// Timeout of a reply.
    pub timeout: Duration,
}

/// A batch that was sent and whose replies are outstanding.
pub struct SentBatch<'a> {
    expected: Vec<(SessionName, Expected<'a>)>,
    since: Instant,
}

impl TargetServer {
    /// A server at `host:port`, without any session.
    pub fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            clients: BTreeMap::new(),
            names: SessionNames::default(),
            timeout: REPLY_TIMEOUT,
        }
    }

    /// Names with an open connection.
    pub fn connected(&self) -> Vec<SessionName> {
        self.clients.iter().filter(|(_, client)| client.connection.is_some()).map(|(&name, _)| name).collect()
    }

    /// Names with a session, connected or not.
    pub fn sessions(&self) -> Vec<SessionName> {
        let lives = |client: &ScriptClient| client.session != 0 && !client.is_over;
        self.clients.iter().filter(|(_, client)| lives(client)).map(|(&name, _)| name).collect()
    }

    /// The highest zxid that `name` has seen.
    pub fn last_zxid(&self, name: SessionName) -> i64 {
        self.clients.get(&name).map_or(0, |client| client.last_zxid)
    }

    /// Sends all lines of a batch, those of each session in one write.
    pub fn send<'a>(&mut self, batch: &'a Batch) -> Result<SentBatch<'a>> {
        let mut sent = Vec::new();
        for name in batch.actors() {
            let mut expected = Expected::default();
            let mut bytes = Vec::new();
            for (index, line) in batch.0.iter().enumerate().filter(|(_, line)| line.session == name) {
                self.prepare(index, line, &mut bytes, &mut expected)?;
            }
            if let Some(connection) = self.clients.get_mut(&name).and_then(|client| client.connection.as_mut()) {
                connection.try_send(&bytes); // a closed connection is reported by the next read
            }
            sent.push((name, expected));
        }
        Ok(SentBatch { expected: sent, since: Instant::now() })
    }

    fn prepare<'a>(
        &mut self,
        index: usize,
        line: &'a Line,
        bytes: &mut Vec<u8>,
        expected: &mut Expected<'a>,
    ) -> Result<()> {
        let name = line.session;
        match &line.action {
            Action::Connect(handshake) => {
                let payload = self.handshake_payload(name, handshake);
                let client = self.clients.entry(name).or_default();
                let connection = connect(&self.address)?;
                let old = client.connection.replace(connection);
                if handshake.target == HandshakeSession::New {
                    *client = ScriptClient { connection: client.connection.take(), ..ScriptClient::default() };
                } else {
                    client.replaced = old;
                }
                let mark = begin_frame(bytes);
                bytes.extend_from_slice(&payload);
                end_frame(bytes, mark);
                expected.handshake = Some(index);
            }
            Action::Raw(raw) => {
                let client = self.clients.entry(name).or_default();
                if client.connection.is_none() {
                    client.connection = Some(connect(&self.address)?);
                }
                bytes.extend_from_slice(raw);
                expected.special = Some((index, &line.action));
            }
            Action::Drop | Action::Wait(_) => expected.special = Some((index, &line.action)),
            Action::Request(request) => {
                let client = self.clients.entry(name).or_default();
                let xid = client.xid(request);
                request.put_frame(bytes, xid, client.last_zxid);
                expected.replies.push_back(Awaited { line: index, xid, request });
            }
        }
        Ok(())
    }

    fn handshake_payload(&self, name: SessionName, handshake: &Handshake) -> Vec<u8> {
        let none = (0, vec![0; PASSWORD_BYTES]);
        let (session, password) = match handshake.target {
            HandshakeSession::New => none,
            HandshakeSession::Of(of) => {
                self.clients.get(&of).map_or(none, |client| (client.session, client.password.clone()))
            }
            HandshakeSession::Id(id) => (id, vec![0; PASSWORD_BYTES]),
        };
        let password = match &handshake.password {
            Password::Right => Some(password),
            Password::Wrong => Some(password.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 3)).collect()),
            Password::Bytes(bytes) => bytes.0.clone(),
        };
        let last = self.last_zxid(match handshake.target {
            HandshakeSession::Of(of) => of,
            HandshakeSession::New | HandshakeSession::Id(_) => name,
        });
        let mut out = Vec::new();
        handshake.version.put(&mut out);
        handshake.seen.resolve(last).put(&mut out);
        handshake.timeout_ms.put(&mut out);
        session.put(&mut out);
        put_buffer(&mut out, password.as_deref());
        out.extend(handshake.read_only);
        if let Some(cut) = handshake.cut {
            out.truncate(cut);
        }
        out.extend_from_slice(&handshake.tail);
        out
    }

    /// Reads until every sent request has its reply.
    pub fn collect(&mut self, batch: &Batch, sent: SentBatch<'_>) -> BTreeMap<SessionName, Stream> {
        let mut streams = BTreeMap::new();
        for (name, expected) in sent.expected {
            let mut client = self.clients.remove(&name).unwrap_or_default();
            let stream = ReplyMatcher {
                client: &mut client,
                names: &mut self.names,
                items: Vec::new(),
                timeout: self.timeout,
                since: sent.since,
            }
            .run(name, batch, expected);
            if stream.end != StreamEnd::Open {
                client.connection = None;
            }
            self.clients.insert(name, client);
            streams.insert(name, stream);
        }
        streams
    }
}

impl ScriptClient {
    fn xid(&mut self, request: &ScriptRequest) -> i32 {
        if let Some(xid) = request.xid {
            return xid;
        }
        match request.known() {
            Some(OpCode::Ping) => xid::PING,
            Some(OpCode::Auth) => xid::AUTH,
            Some(OpCode::SetWatches | OpCode::SetWatches2) => xid::SET_WATCHES,
            _ => {
                self.next_xid += 1;
                self.next_xid
            }
        }
    }
}

fn connect(address: &str) -> Result<RawConnection> {
    RawConnection::try_connect(address).with_context(|| format!("connect to {address}"))
}
