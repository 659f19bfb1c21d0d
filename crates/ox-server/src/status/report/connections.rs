//! Reports about the client connections.

use super::{ServerHandle, Visit};
use crate::io::connection_table::{ClientPort, ConnStats};
use crate::limits::LISTING_BATCH_MAX;
use crate::status::four_letter::reset_connections;
use ox_proto::SessionId;
use ox_replica::outbox::{Outboxes, PartKind};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

/// A connection of a client port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionReport {
    pub address: SocketAddr,
    /// Whether it was accepted by `secureClientPort`.
    pub is_secure: bool,
    /// As in Java's selectors: 1 to read, 4 to write.
    pub interest_ops: u8,
    pub outstanding: u32,
    pub received: u64,
    pub sent: u64,
    /// Set if the connection has a session.
    pub session: Option<SessionReport>,
}

/// The session of a connection, and its last reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionReport {
    pub id: i64,
    pub last_operation: &'static str,
    pub established_ms: i64,
    pub timeout_ms: i32,
    pub last_xid: i32,
    pub last_zxid: i64,
    /// By the monotonic clock.
    pub last_response_ms: i64,
    pub last_latency_ms: i64,
    pub min_latency_ms: i64,
    pub avg_latency_ms: i64,
    pub max_latency_ms: i64,
}

impl ServerHandle {
    /// Calls `visit` with each connection of both client ports, ordered by id.
    pub fn connections(&self, visit: &mut dyn FnMut(&ConnectionReport) -> Visit) {
        let mut after = None;
        loop {
            let conns = self.shared().connections.list_after(after, LISTING_BATCH_MAX);
            let Some((last, _)) = conns.last() else { return };
            after = Some(*last);
            if conns.iter().any(|(_, stats)| visit(&report(stats)) == Visit::Stop) {
                return;
            }
        }
    }

    /// Closes each connection of both client ports with the probability `percentage`, and returns how many. Sessions stay
    /// open, so that clients continue on another server.
    pub fn shed_connections(&self, percentage: u8) -> usize {
        let shared = self.shared();
        let mut closes = Outboxes::new(shared.mailboxes.len());
        let (mut after, mut count) = (None, 0);
        loop {
            let conns = shared.connections.list_after(after, LISTING_BATCH_MAX);
            let Some((last, _)) = conns.last() else { break };
            after = Some(*last);
            for (conn, _) in conns.iter().filter(|_| rand::random_range(0..100) < percentage) {
                closes.of(*conn).push(*conn, PartKind::Close, |_| ());
                count += 1;
            }
        }
        for (thread, outbox) in closes.0.into_iter().enumerate().filter(|(_, outbox)| !outbox.is_empty()) {
            shared.post(thread, outbox);
        }
        count
    }

    /// Resets the statistics of the connections of the plain client port, as `crst` does.
    pub fn reset_connection_stats(&self) {
        reset_connections(self.shared(), ClientPort::Client);
    }
}

fn report(conn: &ConnStats) -> ConnectionReport {
    ConnectionReport {
        address: conn.address,
        is_secure: conn.port == ClientPort::Secure,
        interest_ops: conn.interest.load(Relaxed),
        outstanding: conn.queued.load(Relaxed),
        received: conn.received.load(Relaxed),
        sent: conn.sent.load(Relaxed),
        session: (conn.session() != SessionId::NONE).then(|| session(conn)),
    }
}

fn session(conn: &ConnStats) -> SessionReport {
    let (last, latency) = (conn.last_reply(), conn.latency.totals());
    SessionReport {
        id: conn.session().0,
        last_operation: last.op_text(),
        established_ms: conn.established_ms,
        timeout_ms: conn.timeout_ms(),
        last_xid: last.xid,
        last_zxid: last.zxid,
        last_response_ms: last.at_ms,
        last_latency_ms: last.latency_ms,
        min_latency_ms: latency.min,
        avg_latency_ms: latency.sum.checked_div(latency.count.cast_signed()).unwrap_or(0),
        max_latency_ms: latency.max,
    }
}
