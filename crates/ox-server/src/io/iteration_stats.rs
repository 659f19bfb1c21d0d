//! Statistics of one iteration of an I/O thread, for its connections and for the server.
//!
//! All threads share the server's statistics. They are counted here in plain fields and published once per iteration,
//! before the replies are sent, so that a client which has its reply finds it counted.

use super::host::ClientRecord;
use super::in_flight::Run;
use crate::io::connection_table::LastReply;
use crate::log_limit::LogLimit;
use crate::shared::Shared;
use crate::status::op_latency::OpRuns;
use ox_proto::reply::ReplyHeader;
use ox_proto::request::xid::{AUTH, NOTIFICATION, PING};
use ox_proto::{OpCode, Reader, SessionId, Zxid};
use ox_replica::{Conn, NamespaceTraffic, Now, Runs};
use ox_tree::MetricSummary;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a frame's length prefix, and of a four-letter command.
const PREFIX_BYTES: usize = 4;

#[derive(Debug, Default)]
pub(super) struct IterationStats {
    /// When the lock of the state was last taken: replies carry that time.
    at_ms: i64,
    /// Last zxid of the state at that time.
    zxid: i64,
    received: u64,
    sent: u64,
    bytes_received: u64,
    reply_bytes: u64,
    event_bytes: u64,
    handshakes: u64,
    dropped: u64,
    idle_closed: u64,
    outstanding: i64,
    reads: Runs,
    updates: Runs,
    ops: OpRuns,
    sessions_opened: u64,
    sizes: MetricSummary,
    last_size: i64,
    traffic: NamespaceTraffic,
    /// Reads that take at least so long are slow; 0 means none.
    slow_ms: i64,
    /// The last slow read, and the number of all since the last publication.
    slow_read: Option<SlowRead>,
    slow_reads: u64,
    /// The connection that is served at present.
    serving: Serving,
}

/// Requests of one connection served under one lock.
#[derive(Debug, Default)]
struct Serving {
    requests: u64,
    direct: u64,
    sent: u64,
    last: Option<(i32, i32, i64)>,
    /// Requests in `direct` by operation; their latency is known at the end.
    direct_ops: OpRuns,
}

/// A read that waited for earlier requests of its connection.
#[derive(Clone, Copy, Debug)]
struct SlowRead {
    op: i32,
    xid: i32,
    session: SessionId,
    latency_ms: i64,
}

/// What the frames in a client's output contain.
#[derive(Clone, Copy, Default)]
struct Frames {
    count: u64,
    /// Zxid of the last frame that is not an event.
    zxid: i64,
    /// Error code of the same frame.
    err: i32,
}

impl IterationStats {
    /// Records the time and the last zxid at which the state was locked.
    pub(super) fn on_state(&mut self, at_ms: i64, zxid: Zxid) {
        self.at_ms = at_ms;
        self.zxid = zxid.0;
    }

    /// Counts a request and its reply, unless it went to the replica.
    pub(super) fn on_frame(
        &mut self,
        core: &Conn,
        record: &mut ClientRecord,
        frame: &[u8],
        reply: Option<&[u8]>,
        now: Now,
    ) {
        self.serving.requests += 1;
        self.bytes_received += (PREFIX_BYTES + frame.len()) as u64;
        let (op, xid) = (core.last_op(), core.last_xid());
        let code = op.map_or(OpCode::Error.code(), OpCode::code);
        let Some(reply) = reply else {
            self.outstanding += 1;
            return record.requests_in_flight.push(now.mono_ms, code, xid);
        };
        if core.session().is_none() {
            self.handshakes += 1;
            if op == Some(OpCode::CreateSession) {
                record.requests_in_flight.push(now.mono_ms, code, 0);
            }
        } else if !reply.is_empty() {
            let frames = self.note_frames(reply);
            self.serving.sent += frames.count;
            if let Some(op) = op.filter(|op| !matches!(op, OpCode::Auth | OpCode::Sasl)) {
                self.serving.direct += 1;
                self.serving.direct_ops.note(code, 0, 1);
                self.serving.last = Some((code, xid, frames.zxid));
                self.traffic.note_read(op, frame.get(8..).unwrap_or_default(), reply);
            }
        }
    }

    /// Counts the reply to a SASL token, unless it went to the replica.
    pub(super) fn on_sasl_reply(&mut self, core: &Conn, record: &mut ClientRecord, reply: Option<&[u8]>, now: Now) {
        if let Some(reply) = reply {
            self.note_frames(reply);
            self.note_sent(record, 1);
        } else {
            self.outstanding += 1;
            record.requests_in_flight.push(now.mono_ms, OpCode::Sasl.code(), core.last_xid());
        }
    }

    /// Counts the requests of a connection after the last frame that could be served.
    pub(super) fn on_served(&mut self, core: &Conn, record: &ClientRecord, now: Now) {
        let Serving { requests, direct, sent, last, .. } = self.serving;
        if requests == 0 {
            return;
        }
        let (stats, latency_ms) = (&record.stats, self.at_ms - now.mono_ms);
        self.serving.direct_ops.drain_into(&mut self.ops, latency_ms);
        (self.serving.requests, self.serving.direct, self.serving.sent, self.serving.last) = (0, 0, 0, None);
        self.received += requests;
        self.sent += sent;
        self.reads.note(latency_ms, direct);
        stats.received.fetch_add(requests, Relaxed);
        stats.queued.store(core.in_flight(), Relaxed);
        if 0 < sent {
            stats.sent.fetch_add(sent, Relaxed);
        }
        if let Some((op, xid, zxid)) = last {
            stats.latency.note(latency_ms, direct);
            stats.record_reply(LastReply { op, xid, zxid, at_ms: self.at_ms, latency_ms });
        }
    }

    pub(super) fn on_event(&mut self, record: &ClientRecord, bytes: &[u8]) {
        self.note_frames(bytes);
        self.note_sent(record, 1);
    }

    /// Counts `count` replies from the replica.
    pub(super) fn on_replies(&mut self, core: &Conn, record: &mut ClientRecord, bytes: &[u8], count: u32) {
        let frames = self.note_frames(bytes);
        self.note_sent(record, frames.count);
        self.outstanding -= i64::from(count);
        self.record_replies(record, count, frames);
        record.stats.queued.store(core.in_flight(), Relaxed);
    }

    pub(super) fn on_attached(&mut self, record: &mut ClientRecord, session: SessionId, timeout_ms: i32) {
        record.stats.attach(session, timeout_ms);
        self.note_sent(record, 1);
        // Resuming a session is not an operation.
        if record.requests_in_flight.next_op() == Some(OpCode::CreateSession.code()) {
            self.sessions_opened += 1;
            self.record_replies(record, 1, Frames { zxid: self.zxid, ..Frames::default() });
        }
    }

    /// Counts the last bytes for a connection: the reply to its last request, or a refused handshake.
    pub(super) fn on_final_reply(&mut self, record: &mut ClientRecord, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.note_sent(record, 1);
        if record.requests_in_flight.next_op().is_some_and(|op| op != OpCode::CreateSession.code()) {
            let frames = self.note_frames(bytes);
            self.record_replies(record, 1, frames);
        }
    }

    /// Counts a chunk of the reply to a four-letter command.
    pub(super) fn on_text(&mut self, record: &ClientRecord, text: &str) {
        if !text.is_empty() {
            self.note_sent(record, 1);
        }
    }

    /// Counts a connection that was closed before its session.
    pub(super) fn on_dropped(&mut self) {
        self.dropped += 1;
    }

    pub(super) fn on_idle_close(&mut self) {
        self.idle_closed += 1;
    }

    pub(super) fn on_removed(&mut self, core: &Conn) {
        self.outstanding -= i64::from(core.in_flight());
    }

    fn note_sent(&mut self, record: &ClientRecord, frames: u64) {
        self.sent += frames;
        record.stats.sent.fetch_add(frames, Relaxed);
    }

    fn record_replies(&mut self, record: &mut ClientRecord, count: u32, last_frame: Frames) {
        let (stats, now_ms, mut last) = (&record.stats, self.at_ms, None);
        let (reads, updates, ops) = (&mut self.reads, &mut self.updates, &mut self.ops);
        let (slow_ms, slow_read, slow_reads) = (self.slow_ms, &mut self.slow_read, &mut self.slow_reads);
        record.requests_in_flight.pop(count, |Run { since_ms, op, xid, count }| {
            let latency_ms = now_ms - since_ms;
            let runs = if is_update(op) { &mut *updates } else { &mut *reads };
            runs.note(latency_ms, u64::from(count));
            if slow_ms != 0 && slow_ms <= latency_ms && !is_update(op) {
                *slow_read = Some(SlowRead { op, xid, session: stats.session(), latency_ms });
                *slow_reads += u64::from(count);
            }
            ops.note(op, latency_ms, u64::from(count));
            stats.latency.note(latency_ms, u64::from(count));
            last = Some(LastReply { op, xid, zxid: last_frame.zxid, at_ms: now_ms, latency_ms });
        });
        if let Some(mut last) = last {
            // Compat: a refused write is shown without its operation (`refused_write_is_shown_without_its_operation`).
            if last_frame.err != 0 && is_update(last.op) && last.op != OpCode::Multi.code() {
                last.op = OpCode::Error.code();
            }
            stats.record_reply(last);
        }
    }

    fn note_frames(&mut self, bytes: &[u8]) -> Frames {
        let (mut rest, mut found) = (bytes, Frames::default());
        while let Some((length, after)) = rest.split_first_chunk::<PREFIX_BYTES>() {
            let length = u32::from_be_bytes(*length) as usize;
            let Some((frame, after)) = after.split_at_checked(length) else { break };
            rest = after;
            found.count += 1;
            self.last_size = i64::try_from(length).unwrap_or(i64::MAX);
            self.sizes.record(self.last_size);
            let mut header = Reader::new(frame);
            let Ok(ReplyHeader { xid, zxid, err }) = header.get() else { break };
            match xid {
                NOTIFICATION => self.event_bytes += length as u64,
                PING | AUTH => (), // Compat: Apache does not count them
                _ => self.reply_bytes += length as u64,
            }
            if xid != NOTIFICATION {
                (found.zxid, found.err) = (zxid.0, err);
            }
        }
        found
    }

    /// Adds everything counted since the last call to the server's statistics.
    pub(super) fn publish(&mut self, shared: &Shared) {
        use std::mem::take;
        let (stats, metrics) = (&shared.stats, &shared.metrics);
        stats.received.add(take(&mut self.received));
        stats.sent.add(take(&mut self.sent));
        metrics.bytes_received_count.add(take(&mut self.bytes_received));
        metrics.response_bytes.add(take(&mut self.reply_bytes));
        metrics.watch_bytes.add(take(&mut self.event_bytes));
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
        self.ops.publish(&stats.op_latencies);
        stats.sessions_opened.add(take(&mut self.sessions_opened));
        metrics.read_per_namespace.merge(&mut self.traffic);
        self.slow_ms = stats.slow_request_ms.load(Relaxed);
    }

    /// Logs the last slow read since the last call.
    pub(super) fn log_slow_reads(&mut self, lines: &mut LogLimit) {
        let Some(SlowRead { op, xid, session, latency_ms }) = self.slow_read.take() else { return };
        lines.suppress(std::mem::take(&mut self.slow_reads) - 1);
        if let Some(suppressed) = lines.allow(self.at_ms) {
            let operation = OpCode::try_from(op).map_or("unknown", OpCode::name);
            tracing::warn!(operation, %session, cxid = xid, total_ms = latency_ms, suppressed, "slow request");
        }
    }
}

/// Whether an operation creates a transaction.
fn is_update(op: i32) -> bool {
    OpCode::try_from(op).is_ok_and(|op| !ox_tree::read::is_read(op) && op != OpCode::Error)
}
