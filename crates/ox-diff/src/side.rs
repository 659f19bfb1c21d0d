//! One server under test: the script's sessions on it, what is sent to them and what is heard.

use crate::canon::{self, Naming, Outcome};
use crate::connection::{Connection, Heard};
use crate::request::Request;
use crate::script::{Action, Batch, Handshake, Line, Name, Password, Target};
use crate::value::hex;
use anyhow::Result;
use ox_proto::connect::ConnectResponse;
use ox_proto::frame::{begin_frame, end_frame};
use ox_proto::jute::{Jute as _, Reader, put_buffer};
use ox_proto::limits::PASSWORD_BYTES;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid;
use ox_proto::{OpCode, Zxid};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long a reply may take. Far above what any server needs, also on a busy machine.
const REPLY_PATIENCE: Duration = Duration::from_secs(20);
/// How long the close may take that follows a reply like AuthFailed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);
/// How long to listen after raw bytes when the server leaves the connection open.
const RAW_PATIENCE: Duration = Duration::from_millis(1200);
/// How long to listen for more once a waited-for event is there.
const SETTLE_PATIENCE: Duration = Duration::from_millis(300);

/// What a heard frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The answer to a handshake.
    Handshake,
    /// The reply to a request.
    Reply,
    /// The reply to a request of the connection layer, which has no place in the order of the others.
    OutOfBand,
    /// A notification.
    Event,
    /// A frame nobody asked for.
    Stray,
    /// Bytes heard after raw bytes, or the end of an older connection of the session.
    Other,
}

/// One thing heard.
#[derive(Clone, Debug)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// The line of the batch it answers.
    pub line: Option<usize>,
    /// Zxid of the header; `None` without a header.
    pub zxid: Option<i64>,
    /// The zxid as it is compared.
    pub zxid_text: String,
    /// Everything else as it is compared.
    pub text: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// What a reply says.
    pub outcome: Option<Outcome>,
}

impl Item {
    fn plain(kind: Kind, line: Option<usize>, text: String, payload: Vec<u8>) -> Self {
        Self { kind, line, zxid: None, zxid_text: String::new(), text, payload, outcome: None }
    }

    /// The item in one line.
    pub fn describe(&self) -> String {
        let zxid = if self.zxid.is_some() { format!(" zxid={}", self.zxid_text) } else { String::new() };
        format!("{:?}{zxid} {}", self.kind, self.text)
    }
}

/// How the listening ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything expected is there; the connection is open.
    Open,
    /// The server closed the connection.
    Closed,
    /// Something expected did not come.
    Silent,
    /// There was no connection to begin with.
    Absent,
}

/// What one connection heard during a batch.
#[derive(Clone, Debug)]
pub struct Stream {
    /// In order of arrival.
    pub items: Vec<Item>,
    /// How it ended.
    pub end: End,
}

impl Stream {
    /// The stream, one item per line.
    pub fn describe(&self) -> Vec<String> {
        self.items.iter().map(Item::describe).chain([format!("{:?}", self.end)]).collect()
    }
}

/// A session of the script on this server.
#[derive(Debug, Default)]
struct Client {
    connection: Option<Connection>,
    /// A connection that a handshake of the same name has replaced; the server should close it.
    replaced: Option<Connection>,
    session: i64,
    password: Vec<u8>,
    last_zxid: i64,
    next_xid: i32,
}

/// What a connection still has to hear.
#[derive(Default)]
struct Expected<'a> {
    handshake: Option<usize>,
    replies: VecDeque<Awaited<'a>>,
    special: Option<(usize, &'a Action)>,
}

struct Awaited<'a> {
    line: usize,
    xid: i32,
    request: &'a Request,
}

/// One server and the script's sessions on it.
#[derive(Debug)]
pub struct Side {
    address: String,
    clients: BTreeMap<Name, Client>,
    /// Names of the server's numbers.
    pub naming: Naming,
}

/// What was sent for a batch and is not answered yet.
pub struct Sent<'a>(Vec<(Name, Expected<'a>)>);

impl Side {
    /// A server at `host:port`, without any session.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), clients: BTreeMap::new(), naming: Naming::default() }
    }

    /// Names with an open connection.
    pub fn connected(&self) -> Vec<Name> {
        self.clients.iter().filter(|(_, client)| client.connection.is_some()).map(|(&name, _)| name).collect()
    }

    /// Names with a session, connected or not.
    pub fn sessions(&self) -> Vec<Name> {
        self.clients.iter().filter(|(_, client)| client.session != 0).map(|(&name, _)| name).collect()
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
        Ok(Sent(sent))
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
        for (name, expected) in sent.0 {
            let mut client = self.clients.remove(&name).unwrap_or_default();
            let stream = Listener { client: &mut client, naming: &mut self.naming, items: Vec::new() }
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

struct Listener<'s> {
    client: &'s mut Client,
    naming: &'s mut Naming,
    items: Vec<Item>,
}

impl Listener<'_> {
    fn run(mut self, name: Name, batch: &Batch, mut expected: Expected<'_>) -> Stream {
        let end = match self.client.connection.take() {
            None => End::Absent,
            Some(mut connection) => {
                let end = match expected.special {
                    Some((line, action)) => self.special(line, action, &mut connection),
                    None => self.replies(name, batch, &mut expected, &mut connection),
                };
                self.client.connection = Some(connection);
                end
            }
        };
        if let Some(mut replaced) = self.client.replaced.take() {
            let (bytes, closed) = replaced.drain(CLOSE_PATIENCE);
            let fate = if closed { "closed" } else { "left open" };
            self.items.push(Item::plain(Kind::Other, None, format!("older connection {fate} {}", hex(&bytes)), bytes));
        }
        Stream { items: self.items, end }
    }

    fn special(&mut self, line: usize, action: &Action, connection: &mut Connection) -> End {
        let (patience, after) = match action {
            Action::Wait(ms) => (Duration::from_millis(*ms), SETTLE_PATIENCE),
            Action::Drop => {
                connection.half_close();
                (REPLY_PATIENCE, REPLY_PATIENCE)
            }
            Action::Raw(_) | Action::Connect(_) | Action::Request(_) => {
                let (bytes, closed) = connection.drain(RAW_PATIENCE);
                self.items.push(Item::plain(Kind::Other, Some(line), format!("bytes={}", hex(&bytes)), bytes));
                // What the server makes of half a frame is not known, so the connection is given up either way.
                if !closed {
                    self.items.push(Item::plain(Kind::Other, Some(line), "left open".to_owned(), Vec::new()));
                }
                return End::Closed;
            }
        };
        let mut patience = patience;
        loop {
            match connection.frame(patience) {
                Heard::Frame(payload) => self.unasked(payload),
                Heard::Closed => return End::Closed,
                Heard::Silence => return if *action == Action::Drop { End::Silent } else { End::Open },
            }
            patience = after;
        }
    }

    fn replies(&mut self, name: Name, batch: &Batch, expected: &mut Expected<'_>, connection: &mut Connection) -> End {
        if let Some(line) = expected.handshake {
            match connection.frame(REPLY_PATIENCE) {
                Heard::Frame(payload) => self.handshake(name, batch, line, payload),
                Heard::Closed => return End::Closed,
                Heard::Silence => return End::Silent,
            }
        }
        while !expected.replies.is_empty() && !self.last_words() {
            match connection.frame(REPLY_PATIENCE) {
                Heard::Frame(payload) => self.frame(payload, &mut expected.replies),
                Heard::Closed => return End::Closed,
                Heard::Silence => return End::Silent,
            }
        }
        if !self.last_words() {
            return End::Open;
        }
        loop {
            match connection.frame(CLOSE_PATIENCE) {
                Heard::Frame(payload) => self.frame(payload, &mut expected.replies),
                Heard::Closed => return End::Closed,
                Heard::Silence => return End::Open,
            }
        }
    }

    /// True when the last frame is one that the server closes the connection after.
    fn last_words(&self) -> bool {
        self.items.last().is_some_and(|item| match &item.outcome {
            Some(outcome) => {
                matches!(outcome.err, -115 | -124 | -112)
                    || (outcome.err == -6 && item.zxid == Some(-1))
                    || item.text.starts_with("goodbye")
            }
            None => item.kind == Kind::Handshake && item.text.contains("refused"),
        })
    }

    fn handshake(&mut self, name: Name, batch: &Batch, line: usize, payload: Vec<u8>) {
        let text = match ConnectResponse::decode(&payload) {
            Err(error) => format!("undecodable ({error}) {}", hex(&payload)),
            Ok(response) => {
                let session = response.session.0;
                let right = session == 0 || response.password == ox_proto::password::session_password(response.session);
                let known = self.naming.sessions.get(&session).map_or(String::new(), |name| format!(" of {name}"));
                if session != 0 {
                    self.client.session = session;
                    self.client.password = response.password.to_vec();
                    self.naming.sessions.entry(session).or_insert(name);
                }
                let kind = if session == 0 { "refused" } else { "session" };
                let asked = match &batch.0[line].action {
                    Action::Connect(handshake) if handshake.target == Target::New => "new ",
                    _ => "",
                };
                format!(
                    "{asked}{kind}{known} timeout={} password={} readonly={:?} bytes={}",
                    response.timeout_ms,
                    if right { "right" } else { "wrong" },
                    response.read_only,
                    payload.len()
                )
            }
        };
        self.items.push(Item::plain(Kind::Handshake, Some(line), text, payload));
    }

    fn frame(&mut self, payload: Vec<u8>, awaited: &mut VecDeque<Awaited<'_>>) {
        let Ok(header) = Reader::new(&payload).get::<ReplyHeader>() else { return self.unasked(payload) };
        let position = match awaited.front() {
            _ if header.xid == xid::NOTIFICATION => None,
            Some(first) if first.answered_by(header.xid) => Some(0),
            _ => awaited.iter().position(|next| next.request.is_out_of_band() && next.xid == header.xid),
        };
        let Some(awaited) = position.and_then(|position| awaited.remove(position)) else {
            return self.unasked(payload);
        };
        let canon = canon::reply(awaited.request, header, &payload[16..], self.naming);
        let kind = if awaited.request.is_out_of_band() { Kind::OutOfBand } else { Kind::Reply };
        let mut text = format!("xid={} err={} {}", self.plain_xid(header.xid, awaited.request), header.err, canon.text);
        if awaited.request.known() == Some(OpCode::CloseSession) {
            text.insert_str(0, "goodbye ");
            self.client.session = 0;
        }
        if 0 < header.zxid.0 {
            self.client.last_zxid = self.client.last_zxid.max(header.zxid.0);
        }
        self.push(kind, Some(awaited.line), header.zxid, text, payload, Some(canon.outcome));
    }

    /// Counted xids depend on how many requests came before and say nothing; chosen ones do.
    fn plain_xid(&self, xid: i32, request: &Request) -> String {
        if request.xid.is_none() && 0 < xid { "next".to_owned() } else { xid.to_string() }
    }

    fn unasked(&mut self, payload: Vec<u8>) {
        match Reader::new(&payload).get::<ReplyHeader>() {
            Ok(header) if header.xid == xid::NOTIFICATION => {
                let canon = canon::event(&payload[16..], self.naming);
                let text = format!("err={} {}", header.err, canon.text);
                self.push(Kind::Event, None, header.zxid, text, payload, None);
            }
            _ => self.items.push(Item::plain(Kind::Stray, None, hex(&payload), payload)),
        }
    }

    fn push(
        &mut self,
        kind: Kind,
        line: Option<usize>,
        Zxid(zxid): Zxid,
        text: String,
        payload: Vec<u8>,
        outcome: Option<Outcome>,
    ) {
        let zxid_text = self.naming.zxid(zxid);
        self.items.push(Item { kind, line, zxid: Some(zxid), zxid_text, text, payload, outcome });
    }
}

impl Awaited<'_> {
    fn answered_by(&self, heard: i32) -> bool {
        // A successful ping is answered with the ping's xid whatever it was sent with.
        self.xid == heard || (self.request.known() == Some(OpCode::Ping) && heard == xid::PING)
    }
}
