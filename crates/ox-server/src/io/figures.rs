//! What a turn of an I/O thread adds to the figures of its connections and of the server.
//!
//! The server's figures are shared by all threads: they are counted here in plain fields and told once per turn,
//! before the answers leave, so that whoever has got an answer finds it counted.

use super::connection::Connection;
use super::waiting::Run;
use crate::register::Answered;
use crate::shared::Shared;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid::{AUTH, NOTIFICATION, PING};
use ox_proto::{OpCode, Reader, SessionId, Zxid};
use ox_replica::{NamespaceTraffic, Now, Runs};
use ox_tree::MetricSummary;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a frame's length, and of a four-letter word.
const PREFIX_BYTES: usize = 4;

/// Counts of one thread.
#[derive(Debug, Default)]
pub(super) struct TurnFigures {
    /// When the state was last taken: direct answers are of that moment.
    at_ms: i64,
    /// The last transaction in it.
    zxid: i64,
    received: u64,
    sent: u64,
    bytes_received: u64,
    bytes_answered: u64,
    bytes_of_events: u64,
    handshakes: u64,
    dropped: u64,
    idle_closed: u64,
    outstanding: i64,
    reads: Runs,
    updates: Runs,
    sizes: MetricSummary,
    last_size: i64,
    traffic: NamespaceTraffic,
    /// Of the connection being served.
    serving: Serving,
}

/// Requests of one connection, served in one go.
#[derive(Debug, Default)]
struct Serving {
    requests: u64,
    direct: u64,
    sent: u64,
    last: Option<(i32, i32, i64)>,
}

/// What was found in some frames for a client.
#[derive(Clone, Copy, Default)]
struct Frames {
    count: u64,
    /// Zxid of the last one that is not an event.
    zxid: i64,
    /// Its error code.
    err: i32,
}

impl TurnFigures {
    /// The state was taken, at that time and with that last transaction.
    pub(super) fn on_state(&mut self, at_ms: i64, zxid: Zxid) {
        self.at_ms = at_ms;
        self.zxid = zxid.0;
    }

    /// A frame was taken; its answer stands in the output from `before` on, unless it went to the replica.
    pub(super) fn on_frame(&mut self, conn: &mut Connection, frame: &[u8], before: usize, in_flight: u32, now: Now) {
        self.serving.requests += 1;
        self.bytes_received += (PREFIX_BYTES + frame.len()) as u64;
        let (op, xid) = (conn.core.last_op(), conn.core.last_xid());
        let code = op.map_or(OpCode::Error.code(), OpCode::code);
        if in_flight < conn.core.in_flight() {
            self.outstanding += 1;
            conn.waiting.push(now.mono_ms, code, xid);
        } else if conn.core.session().is_none() {
            self.handshakes += 1;
            if op == Some(OpCode::CreateSession) {
                conn.waiting.push(now.mono_ms, code, 0);
            }
        } else if before < conn.output.len() {
            let reply = &conn.output[before..];
            let frames = self.note_frames(reply);
            self.serving.sent += frames.count;
            if let Some(op) = op.filter(|op| !matches!(op, OpCode::Auth | OpCode::Sasl)) {
                self.serving.direct += 1;
                self.serving.last = Some((code, xid, frames.zxid));
                self.traffic.note_read(op, frame.get(8..).unwrap_or_default(), reply);
            }
        }
    }

    /// All frames of a connection that could be taken were.
    pub(super) fn on_served(&mut self, conn: &Connection, now: Now) {
        let Serving { requests, direct, sent, last } = std::mem::take(&mut self.serving);
        if requests == 0 {
            return;
        }
        let (figures, latency_ms) = (&conn.figures, self.at_ms - now.mono_ms);
        self.received += requests;
        self.sent += sent;
        self.reads.note(latency_ms, direct);
        figures.received.fetch_add(requests, Relaxed);
        figures.queued.store(conn.core.in_flight(), Relaxed);
        if 0 < sent {
            figures.sent.fetch_add(sent, Relaxed);
        }
        if let Some((op, xid, zxid)) = last {
            figures.latency.note(latency_ms, direct);
            figures.note_answer(Answered { op, xid, zxid, at_ms: self.at_ms, latency_ms });
        }
    }

    pub(super) fn on_event(&mut self, conn: &Connection, bytes: &[u8]) {
        self.note_frames(bytes);
        self.note_sent(conn, 1);
    }

    /// The replica answered `count` requests.
    pub(super) fn on_answers(&mut self, conn: &mut Connection, bytes: &[u8], count: u32, now_ms: i64) {
        let frames = self.note_frames(bytes);
        self.note_sent(conn, frames.count);
        self.outstanding -= i64::from(count);
        self.note_answered(conn, count, frames, now_ms);
        conn.figures.queued.store(conn.core.in_flight(), Relaxed);
    }

    pub(super) fn on_attached(&mut self, conn: &mut Connection, session: SessionId, timeout_ms: i32, now_ms: i64) {
        conn.figures.attach(session, timeout_ms);
        self.note_sent(conn, 1);
        // A session that is resumed is no operation.
        if conn.waiting.next_op() == Some(OpCode::CreateSession.code()) {
            self.note_answered(conn, 1, Frames { zxid: self.zxid, ..Frames::default() }, now_ms);
        }
    }

    /// The last bytes for a connection: the answer to its last request, or a refused handshake.
    pub(super) fn on_last(&mut self, conn: &mut Connection, bytes: &[u8], now_ms: i64) {
        if bytes.is_empty() {
            return;
        }
        self.note_sent(conn, 1);
        if conn.waiting.next_op().is_some_and(|op| op != OpCode::CreateSession.code()) {
            let frames = self.note_frames(bytes);
            self.note_answered(conn, 1, frames, now_ms);
        }
    }

    /// A piece of the answer to a four-letter word.
    pub(super) fn on_text(&mut self, conn: &Connection, text: &str) {
        if !text.is_empty() {
            self.note_sent(conn, 1);
        }
    }

    /// A connection is closed before its session.
    pub(super) fn on_dropped(&mut self) {
        self.dropped += 1;
    }

    pub(super) fn on_idle(&mut self) {
        self.idle_closed += 1;
    }

    pub(super) fn on_close(&mut self, conn: &Connection) {
        self.outstanding -= i64::from(conn.core.in_flight());
    }

    fn note_sent(&mut self, conn: &Connection, frames: u64) {
        self.sent += frames;
        conn.figures.sent.fetch_add(frames, Relaxed);
    }

    fn note_answered(&mut self, conn: &mut Connection, count: u32, last_frame: Frames, now_ms: i64) {
        let (figures, mut last) = (&conn.figures, None);
        let (reads, updates) = (&mut self.reads, &mut self.updates);
        conn.waiting.pop(count, |Run { since_ms, op, xid, count }| {
            let latency_ms = now_ms - since_ms;
            let runs = if is_update(op) { &mut *updates } else { &mut *reads };
            runs.note(latency_ms, u64::from(count));
            figures.latency.note(latency_ms, u64::from(count));
            last = Some(Answered { op, xid, zxid: last_frame.zxid, at_ms: now_ms, latency_ms });
        });
        if let Some(mut last) = last {
            // Compat: a refused write is not named (`a_refused_write_has_no_name`).
            if last_frame.err != 0 && is_update(last.op) && last.op != OpCode::Multi.code() {
                last.op = OpCode::Error.code();
            }
            figures.note_answer(last);
        }
    }

    fn note_frames(&mut self, bytes: &[u8]) -> Frames {
        let (mut rest, mut found) = (bytes, Frames::default());
        while let Some((length, behind)) = rest.split_first_chunk::<PREFIX_BYTES>() {
            let length = u32::from_be_bytes(*length) as usize;
            let Some((frame, behind)) = behind.split_at_checked(length) else { break };
            rest = behind;
            found.count += 1;
            self.last_size = i64::try_from(length).unwrap_or(i64::MAX);
            self.sizes.record(self.last_size);
            let mut header = Reader::new(frame);
            let Ok(ReplyHeader { xid, zxid, err }) = header.get() else { break };
            match xid {
                NOTIFICATION => self.bytes_of_events += length as u64,
                PING | AUTH => (), // Compat: Apache does not count them
                _ => self.bytes_answered += length as u64,
            }
            if xid != NOTIFICATION {
                (found.zxid, found.err) = (zxid.0, err);
            }
        }
        found
    }

    /// Tells everything counted since the last call.
    pub(super) fn publish(&mut self, shared: &Shared) {
        use std::mem::take;
        let (stats, metrics) = (&shared.stats, &shared.metrics);
        stats.received.add(take(&mut self.received));
        stats.sent.add(take(&mut self.sent));
        metrics.bytes_received_count.add(take(&mut self.bytes_received));
        metrics.response_bytes.add(take(&mut self.bytes_answered));
        metrics.watch_bytes.add(take(&mut self.bytes_of_events));
        metrics.connection_request_count.add(take(&mut self.handshakes));
        metrics.connection_drop_count.add(take(&mut self.dropped));
        metrics.sessionless_connections_expired.add(take(&mut self.idle_closed));
        stats.responses.note(self.last_size, &take(&mut self.sizes));
        if self.outstanding != 0 {
            stats.outstanding.fetch_add(take(&mut self.outstanding), Relaxed);
        }
        for (runs, percentiles) in
            [(&mut self.reads, &metrics.readlatency), (&mut self.updates, &metrics.updatelatency)]
        {
            for (latency_ms, count) in runs.drain() {
                percentiles.note(latency_ms, count);
                stats.latency.note(latency_ms, count);
            }
        }
        metrics.read_per_namespace.merge(&mut self.traffic);
    }
}

/// Whether an operation makes a transaction.
fn is_update(op: i32) -> bool {
    OpCode::try_from(op).is_ok_and(|op| !ox_tree::read::is_read(op) && op != OpCode::Error)
}
