//! Reads what a server sends on one connection and matches it with the requests.
//!
//! Replies arrive in the order of the requests, except those of the connection layer, which are matched by xid;
//! notifications arrive at any position.

use crate::normalize::{self, ReplyFacts, SessionNames};
use crate::request::ScriptRequest;
use crate::script::{Action, Batch, HandshakeSession, SessionName};
use crate::stream::{ItemKind, Stream, StreamEnd, StreamItem};
use crate::target::ScriptClient;
use crate::value::hex;
use ox_proto::connect::ConnectResponse;
use ox_proto::jute::Reader;
use ox_proto::password::session_password;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid;
use ox_proto::{OpCode, Zxid};
use ox_testkit::{FrameRead, RawConnection};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time for the server to close the connection after a reply such as AuthFailed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time to wait for output after raw bytes if the server leaves the connection open.
const RAW_TIMEOUT: Duration = Duration::from_millis(1200);
/// Time to wait for more events once an awaited event has arrived.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(300);

/// What a connection still has to receive.
#[derive(Default)]
pub(crate) struct Expected<'a> {
    /// Index of the line whose handshake was sent.
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
    pub(crate) request: &'a ScriptRequest,
}

/// Reads from one connection until everything expected has arrived.
pub(crate) struct ReplyMatcher<'s> {
    pub(crate) client: &'s mut ScriptClient,
    pub(crate) names: &'s mut SessionNames,
    pub(crate) items: Vec<StreamItem>,
    /// Timeout of a reply.
    pub(crate) timeout: Duration,
    /// When the batch was sent.
    pub(crate) since: Instant,
}

impl ReplyMatcher<'_> {
    /// Returns everything received and how the stream ended.
    pub(crate) fn run(mut self, name: SessionName, batch: &Batch, mut expected: Expected<'_>) -> Stream {
        let end = match self.client.connection.take() {
            None => StreamEnd::Absent,
            Some(mut connection) => {
                let mut end = self.replies(name, batch, &mut expected, &mut connection);
                if let (StreamEnd::Open, Some((line, action))) = (end, expected.special) {
                    end = self.special(line, action, &mut connection);
                }
                self.client.connection = Some(connection);
                end
            }
        };
        if let Some(mut replaced) = self.client.replaced.take() {
            let (bytes, closed) = replaced.drain(CLOSE_TIMEOUT);
            let fate = if closed { "closed" } else { "left open" };
            self.items.push(StreamItem::plain(
                ItemKind::Other,
                None,
                format!("replaced connection {fate} {}", hex(&bytes)),
                bytes,
            ));
        }
        Stream { items: self.items, end }
    }

    fn special(&mut self, line: usize, action: &Action, connection: &mut RawConnection) -> StreamEnd {
        let (timeout, after) = match action {
            // Both servers get the same time, although they are read one after the other.
            Action::Wait(ms) => (Duration::from_millis(*ms).saturating_sub(self.since.elapsed()), SETTLE_TIMEOUT),
            Action::Drop => {
                connection.finish();
                (self.timeout, self.timeout)
            }
            Action::Raw(_) | Action::Connect(_) | Action::Request(_) => {
                let (bytes, closed) = connection.drain(RAW_TIMEOUT);
                self.items.push(StreamItem::plain(
                    ItemKind::Other,
                    Some(line),
                    format!("bytes={}", hex(&bytes)),
                    bytes,
                ));
                // The server may be waiting for the rest of a frame, so the connection cannot be used again either way.
                if !closed {
                    self.items.push(StreamItem::plain(ItemKind::Other, Some(line), "left open".to_owned(), Vec::new()));
                }
                return StreamEnd::Closed;
            }
        };
        let mut timeout = timeout;
        loop {
            match connection.frame_within(timeout) {
                FrameRead::Frame(payload) => self.push_unmatched(payload),
                FrameRead::Closed => return StreamEnd::Closed,
                FrameRead::Silence => return if *action == Action::Drop { StreamEnd::Silent } else { StreamEnd::Open },
            }
            timeout = after;
        }
    }

    fn replies(
        &mut self,
        name: SessionName,
        batch: &Batch,
        expected: &mut Expected<'_>,
        connection: &mut RawConnection,
    ) -> StreamEnd {
        if let Some(line) = expected.handshake {
            match connection.frame_within(self.timeout) {
                FrameRead::Frame(payload) => self.handshake(name, batch, line, payload),
                FrameRead::Closed => return StreamEnd::Closed,
                FrameRead::Silence => return StreamEnd::Silent,
            }
        }
        while !expected.replies.is_empty() && !self.closes_connection() {
            match connection.frame_within(self.timeout) {
                FrameRead::Frame(payload) => self.frame(payload, &mut expected.replies),
                FrameRead::Closed => return StreamEnd::Closed,
                FrameRead::Silence => return StreamEnd::Silent,
            }
        }
        if !self.closes_connection() {
            return StreamEnd::Open;
        }
        loop {
            match connection.frame_within(CLOSE_TIMEOUT) {
                FrameRead::Frame(payload) => self.frame(payload, &mut expected.replies),
                FrameRead::Closed => return StreamEnd::Closed,
                FrameRead::Silence => return StreamEnd::Open,
            }
        }
    }

    /// Whether the server closes the connection after the last frame.
    fn closes_connection(&self) -> bool {
        self.items.last().is_some_and(|item| match &item.facts {
            Some(facts) => {
                matches!(facts.err, -115 | -124 | -112)
                    || (facts.err == -6 && item.zxid == Some(-1))
                    || item.text.starts_with("session-closed")
            }
            None => item.kind == ItemKind::Handshake && item.text.contains("refused"),
        })
    }

    fn handshake(&mut self, name: SessionName, batch: &Batch, line: usize, payload: Vec<u8>) {
        let text = match ConnectResponse::decode(&payload) {
            Err(error) => format!("undecodable ({error}) {}", hex(&payload)),
            Ok(response) => {
                let session = response.session.0;
                let right = session == 0 || response.password == session_password(response.session);
                let known = self.names.sessions.get(&session).map_or(String::new(), |name| format!(" of {name}"));
                if session != 0 {
                    self.client.session = session;
                    self.client.is_over = false;
                    self.client.password = response.password.to_vec();
                    self.names.sessions.entry(session).or_insert(name);
                }
                let kind = if session == 0 { "refused" } else { "session" };
                let is_new =
                    matches!(&batch.0[line].action, Action::Connect(sent) if sent.target == HandshakeSession::New);
                let new = if is_new { "new " } else { "" };
                format!(
                    "{new}{kind}{known} timeout={} password={} readonly={:?} bytes={}",
                    response.timeout_ms,
                    if right { "right" } else { "wrong" },
                    response.read_only,
                    payload.len()
                )
            }
        };
        self.items.push(StreamItem::plain(ItemKind::Handshake, Some(line), text, payload));
    }

    fn frame(&mut self, payload: Vec<u8>, awaited: &mut VecDeque<Awaited<'_>>) {
        let Ok(header) = Reader::new(&payload).get::<ReplyHeader>() else { return self.push_unmatched(payload) };
        let position = match awaited.front() {
            _ if header.xid == xid::NOTIFICATION => None,
            Some(first) if first.is_reply_xid(header.xid) => Some(0),
            _ => awaited.iter().position(|next| next.request.is_out_of_band() && next.xid == header.xid),
        };
        let Some(awaited) = position.and_then(|position| awaited.remove(position)) else {
            return self.push_unmatched(payload);
        };
        let normalized = normalize::reply(awaited.request, header, &payload[16..], self.names);
        let kind = if awaited.request.is_out_of_band() { ItemKind::OutOfBand } else { ItemKind::Reply };
        let mut text =
            format!("xid={} err={} {}", self.plain_xid(header.xid, awaited.request), header.err, normalized.text);
        if awaited.request.known() == Some(OpCode::CloseSession) && header.err == 0 {
            text.insert_str(0, "session-closed ");
            self.client.is_over = true;
        }
        if 0 < header.zxid.0 {
            self.client.last_zxid = self.client.last_zxid.max(header.zxid.0);
        }
        self.push(kind, Some(awaited.line), header.zxid, text, payload, Some(normalized.facts));
    }

    /// Counted xids depend on the number of earlier requests and carry no information; explicit ones do.
    fn plain_xid(&self, xid: i32, request: &ScriptRequest) -> String {
        if request.xid.is_none() && 0 < xid { "next".to_owned() } else { xid.to_string() }
    }

    fn push_unmatched(&mut self, payload: Vec<u8>) {
        match Reader::new(&payload).get::<ReplyHeader>() {
            Ok(header) if header.xid == xid::NOTIFICATION => {
                let normalized = normalize::event(&payload[16..], self.names);
                let text = format!("err={} {}", header.err, normalized.text);
                self.push(ItemKind::Event, None, header.zxid, text, payload, None);
            }
            _ => self.items.push(StreamItem::plain(ItemKind::Stray, None, hex(&payload), payload)),
        }
    }

    fn push(
        &mut self,
        kind: ItemKind,
        line: Option<usize>,
        Zxid(zxid): Zxid,
        text: String,
        payload: Vec<u8>,
        facts: Option<ReplyFacts>,
    ) {
        self.items.push(StreamItem { kind, line, zxid: Some(zxid), text, payload, facts });
    }
}

impl Awaited<'_> {
    fn is_reply_xid(&self, received: i32) -> bool {
        // The reply to a successful ping has the ping xid, whatever xid the request had.
        self.xid == received || (self.request.known() == Some(OpCode::Ping) && received == xid::PING)
    }
}
