//! One server under test: the script's sessions on it, and what is sent to them.

use crate::connection::Connection;
use crate::normalize::Naming;
use crate::reply_matcher::{Awaited, Expected, Listener};
use crate::request::Request;
use crate::script::{Action, Batch, Handshake, Line, Name, Password, Target};
use crate::stream::{End, Stream};
use anyhow::Result;
use ox_proto::OpCode;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{Jute as _, put_buffer};
use ox_proto::limits::PASSWORD_BYTES;
use ox_proto::request::xid;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Far above what any server needs for a reply, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A session of the script on this server.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) connection: Option<Connection>,
    /// A connection that a handshake of the same name has replaced; the server should close it.
    pub(crate) replaced: Option<Connection>,
    /// The last session it had; 0 when it never had one.
    pub(crate) session: i64,
    /// Whether it has closed that session. Asking for it again is a handshake that must be refused.
    pub(crate) is_over: bool,
    pub(crate) password: Vec<u8>,
    pub(crate) last_zxid: i64,
    next_xid: i32,
}

/// One server and the script's sessions on it.
#[derive(Debug)]
pub struct Side {
    address: String,
    clients: BTreeMap<Name, Client>,
    /// Names of the server's numbers.
    pub naming: Naming,
    /// How long a reply may take.
    pub patience: Duration,
}

/// What was sent for a batch and is not answered yet.
pub struct Sent<'a> {
    expected: Vec<(Name, Expected<'a>)>,
    since: Instant,
}

impl Side {
    /// A server at `host:port`, without any session.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), clients: BTreeMap::new(), naming: Naming::default(), patience: PATIENCE }
    }

    /// Names with an open connection.
    pub fn connected(&self) -> Vec<Name> {
        self.clients.iter().filter(|(_, client)| client.connection.is_some()).map(|(&name, _)| name).collect()
    }

    /// Names with a session, connected or not.
    pub fn sessions(&self) -> Vec<Name> {
        let lives = |client: &Client| client.session != 0 && !client.is_over;
        self.clients.iter().filter(|(_, client)| lives(client)).map(|(&name, _)| name).collect()
    }

    /// The highest zxid that `name` has seen.
    pub fn last_zxid(&self, name: Name) -> i64 {
        self.clients.get(&name).map_or(0, |client| client.last_zxid)
    }

    /// Sends all lines of a batch, each session's in one write.
    pub fn send<'a>(&mut self, batch: &'a Batch) -> Result<Sent<'a>> {
        let mut sent = Vec::new();
        for name in batch.actors() {
            let mut expected = Expected::default();
            let mut bytes = Vec::new();
            for (index, line) in batch.0.iter().enumerate().filter(|(_, line)| line.session == name) {
                self.prepare(index, line, &mut bytes, &mut expected)?;
            }
            if let Some(connection) = self.clients.get_mut(&name).and_then(|client| client.connection.as_mut()) {
                connection.send(&bytes);
            }
            sent.push((name, expected));
        }
        Ok(Sent { expected: sent, since: Instant::now() })
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
                let connection = Connection::open(&self.address)?;
                let old = client.connection.replace(connection);
                if handshake.target == Target::New {
                    *client = Client { connection: client.connection.take(), ..Client::default() };
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
                    client.connection = Some(Connection::open(&self.address)?);
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

    fn handshake_payload(&self, name: Name, handshake: &Handshake) -> Vec<u8> {
        let none = (0, vec![0; PASSWORD_BYTES]);
        let (session, password) = match handshake.target {
            Target::New => none,
            Target::Of(of) => self.clients.get(&of).map_or(none, |client| (client.session, client.password.clone())),
            Target::Id(id) => (id, vec![0; PASSWORD_BYTES]),
        };
        let password = match &handshake.password {
            Password::Right => Some(password),
            Password::Wrong => Some(password.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 3)).collect()),
            Password::Bytes(bytes) => bytes.0.clone(),
        };
        let last = self.last_zxid(match handshake.target {
            Target::Of(of) => of,
            Target::New | Target::Id(_) => name,
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

    /// Listens until everything sent is answered.
    pub fn collect(&mut self, batch: &Batch, sent: Sent<'_>) -> BTreeMap<Name, Stream> {
        let mut streams = BTreeMap::new();
        for (name, expected) in sent.expected {
            let mut client = self.clients.remove(&name).unwrap_or_default();
            let stream = Listener {
                client: &mut client,
                naming: &mut self.naming,
                items: Vec::new(),
                patience: self.patience,
                since: sent.since,
            }
            .run(name, batch, expected);
            if stream.end != End::Open {
                client.connection = None;
            }
            self.clients.insert(name, client);
            streams.insert(name, stream);
        }
        streams
    }
}

impl Client {
    fn xid(&mut self, request: &Request) -> i32 {
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
