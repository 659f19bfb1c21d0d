//! Hears what a server sends on one connection and matches it with what was asked.
//!
//! Replies come in the order of the requests, except those of the connection layer, which are found by their xid;
//! notifications come anywhere.

use crate::connection::{Connection, Heard};
use crate::normalize::{self, Naming, Outcome};
use crate::request::Request;
use crate::script::{Action, Batch, Name, Target};
use crate::stream::{End, Item, Kind, Stream};
use crate::target::Client;
use crate::value::hex;
use ox_proto::connect::ConnectResponse;
use ox_proto::jute::Reader;
use ox_proto::password::session_password;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid;
use ox_proto::{OpCode, Zxid};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long the close may take that follows a reply like AuthFailed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);
/// How long to listen after raw bytes when the server leaves the connection open.
const RAW_PATIENCE: Duration = Duration::from_millis(1200);
/// How long to listen for more once a waited-for event is there.
const SETTLE_PATIENCE: Duration = Duration::from_millis(300);

/// What a connection still has to hear.
#[derive(Default)]
pub(crate) struct Expected<'a> {
    /// The line of a handshake that was sent.
    pub(crate) handshake: Option<usize>,
    /// Requests in the order sent.
    pub(crate) replies: VecDeque<Awaited<'a>>,
    /// A line that is neither: raw bytes, a drop, a wait.
    pub(crate) special: Option<(usize, &'a Action)>,
}

/// A request without its reply.
pub(crate) struct Awaited<'a> {
    pub(crate) line: usize,
    pub(crate) xid: i32,
    pub(crate) request: &'a Request,
}

/// Listens on one connection until everything expected is there.
pub(crate) struct Listener<'s> {
    pub(crate) client: &'s mut Client,
    pub(crate) naming: &'s mut Naming,
    pub(crate) items: Vec<Item>,
    /// How long a reply may take.
    pub(crate) patience: Duration,
    /// When the batch was sent.
    pub(crate) since: Instant,
}

impl Listener<'_> {
    /// Everything heard, and how it ended.
    pub(crate) fn run(mut self, name: Name, batch: &Batch, mut expected: Expected<'_>) -> Stream {
        let end = match self.client.connection.take() {
            None => End::Absent,
            Some(mut connection) => {
                let mut end = self.replies(name, batch, &mut expected, &mut connection);
                if let (End::Open, Some((line, action))) = (end, expected.special) {
                    end = self.special(line, action, &mut connection);
                }
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
            // Both servers are given the same time, although they are listened to one after the other.
            Action::Wait(ms) => (Duration::from_millis(*ms).saturating_sub(self.since.elapsed()), SETTLE_PATIENCE),
            Action::Drop => {
                connection.half_close();
                (self.patience, self.patience)
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
            match connection.frame(self.patience) {
                Heard::Frame(payload) => self.handshake(name, batch, line, payload),
                Heard::Closed => return End::Closed,
                Heard::Silence => return End::Silent,
            }
        }
        while !expected.replies.is_empty() && !self.last_words() {
            match connection.frame(self.patience) {
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
                let right = session == 0 || response.password == session_password(response.session);
                let known = self.naming.sessions.get(&session).map_or(String::new(), |name| format!(" of {name}"));
                if session != 0 {
                    self.client.session = session;
                    self.client.is_over = false;
                    self.client.password = response.password.to_vec();
                    self.naming.sessions.entry(session).or_insert(name);
                }
                let kind = if session == 0 { "refused" } else { "session" };
                let is_new = matches!(&batch.0[line].action, Action::Connect(asked) if asked.target == Target::New);
                let asked = if is_new { "new " } else { "" };
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
        let canon = normalize::reply(awaited.request, header, &payload[16..], self.naming);
        let kind = if awaited.request.is_out_of_band() { Kind::OutOfBand } else { Kind::Reply };
        let mut text = format!("xid={} err={} {}", self.plain_xid(header.xid, awaited.request), header.err, canon.text);
        if awaited.request.known() == Some(OpCode::CloseSession) && header.err == 0 {
            text.insert_str(0, "goodbye ");
            self.client.is_over = true;
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
                let canon = normalize::event(&payload[16..], self.naming);
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
        self.items.push(Item { kind, line, zxid: Some(zxid), text, payload, outcome });
    }
}

impl Awaited<'_> {
    fn answered_by(&self, heard: i32) -> bool {
        // A successful ping is answered with the ping's xid whatever it was sent with.
        self.xid == heard || (self.request.known() == Some(OpCode::Ping) && heard == xid::PING)
    }
}
