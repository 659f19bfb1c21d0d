//! The table of client connections, for limits per address and for four-letter commands.

use crate::status::metrics::Summary;
use ox_driver::client_io::closes_at_ms;
use ox_proto::{OpCode, SessionId};
use ox_replica::ConnId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// The listener that has accepted a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientPort {
    /// `clientPort`, with or without TLS.
    Client,
    /// `secureClientPort`, always with TLS.
    Secure,
}

impl ClientPort {
    pub(crate) const ALL: [Self; 2] = [Self::Client, Self::Secure];
}

/// Statistics of one connection. Its I/O thread writes them, four-letter commands read them.
#[derive(Debug)]
pub(crate) struct ConnStats {
    pub(crate) address: SocketAddr,
    pub(crate) port: ClientPort,
    pub(crate) established_ms: i64,
    session: AtomicI64,
    timeout_ms: AtomicI32,
    /// Interest bits as in Java's selectors: 1 to read, 4 to write, 0 while a four-letter command runs.
    pub(crate) interest: AtomicU8,
    /// Packets received from the client.
    pub(crate) received: AtomicU64,
    /// Packets sent to the client.
    pub(crate) sent: AtomicU64,
    /// Requests submitted to the replica that have no reply yet.
    pub(crate) queued: AtomicU32,
    last_op: AtomicI32,
    last_xid: AtomicI32,
    last_zxid: AtomicI64,
    last_response_ms: AtomicI64,
    last_latency_ms: AtomicI64,
    pub(crate) last_io_ms: AtomicI64,
    /// From request to reply, ms.
    pub(crate) latency: Summary,
}

/// The last reply on a connection, as `cons` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastReply {
    /// Code of the operation.
    pub(crate) op: i32,
    /// Xid of the request. Reserved xids, such as that of pings, leave the previous one in place.
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    /// When the reply was created.
    pub(crate) at_ms: i64,
    pub(crate) latency_ms: i64,
}

/// A code that no operation has.
const NO_OP: i32 = i32::MIN;

impl ConnStats {
    fn new(address: SocketAddr, port: ClientPort, established_ms: i64, now_ms: i64) -> Self {
        Self {
            address,
            port,
            established_ms,
            session: AtomicI64::new(0),
            timeout_ms: AtomicI32::new(0),
            interest: AtomicU8::new(1),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            queued: AtomicU32::new(0),
            last_op: AtomicI32::new(NO_OP),
            last_xid: AtomicI32::new(0),
            last_zxid: AtomicI64::new(0),
            last_response_ms: AtomicI64::new(0),
            last_latency_ms: AtomicI64::new(0),
            last_io_ms: AtomicI64::new(now_ms),
            latency: Summary::default(),
        }
    }

    /// Records the session of the connection.
    pub(crate) fn attach(&self, session: SessionId, timeout_ms: i32) {
        self.timeout_ms.store(timeout_ms, Relaxed);
        self.session.store(session.0, Relaxed);
    }

    /// The session, 0 before the handshake.
    pub(crate) fn session(&self) -> SessionId {
        SessionId(self.session.load(Relaxed))
    }

    pub(crate) fn timeout_ms(&self) -> i32 {
        self.timeout_ms.load(Relaxed)
    }

    /// Records the last of several replies.
    pub(crate) fn record_reply(&self, last: LastReply) {
        self.last_op.store(last.op, Relaxed);
        if 0 <= last.xid {
            self.last_xid.store(last.xid, Relaxed);
        }
        self.last_zxid.store(last.zxid, Relaxed);
        self.last_response_ms.store(last.at_ms, Relaxed);
        self.last_latency_ms.store(last.latency_ms, Relaxed);
    }

    pub(crate) fn last_reply(&self) -> LastReply {
        LastReply {
            op: self.last_op.load(Relaxed),
            xid: self.last_xid.load(Relaxed),
            zxid: self.last_zxid.load(Relaxed),
            at_ms: self.last_response_ms.load(Relaxed),
            latency_ms: self.last_latency_ms.load(Relaxed),
        }
    }

    /// When the connection is closed if nothing is sent or received before, rounded up to `step_ms`.
    pub(crate) fn closes_at_ms(&self, step_ms: i64) -> i64 {
        let timeout_ms = if self.session() == SessionId::NONE { step_ms } else { i64::from(self.timeout_ms()) };
        closes_at_ms(self.last_io_ms.load(Relaxed), timeout_ms, step_ms)
    }

    /// Resets what `crst` resets.
    pub(crate) fn reset(&self) {
        self.received.store(0, Relaxed);
        self.sent.store(0, Relaxed);
        self.record_reply(LastReply { op: OpCode::Error.code(), xid: -1, zxid: -1, at_ms: 0, latency_ms: 0 });
        self.last_xid.store(-1, Relaxed);
        self.latency.reset();
    }
}

impl LastReply {
    /// What `cons` shows as the last operation.
    pub(crate) fn op_text(&self) -> &'static str {
        match OpCode::try_from(self.op) {
            Ok(op) => op.short(),
            Err(NO_OP) => "null",
            Err(_) => "NA",
        }
    }
}

#[derive(Default)]
struct Inner {
    conns: BTreeMap<ConnId, Arc<ConnStats>>,
    /// Apache counts the addresses of each port separately.
    per_address: HashMap<(ClientPort, IpAddr), u32>,
    total: u32,
    /// Connections that were added since the start.
    opened: u64,
    /// Sockets without a connection that are not closed yet.
    lingering: u32,
}

impl Inner {
    fn release(&mut self, port: ClientPort, address: IpAddr) {
        self.total -= 1;
        if let Some(count) = self.per_address.get_mut(&(port, address)) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&(port, address));
            }
        }
    }
}

/// All connections of the client ports.
#[derive(Default)]
pub(crate) struct ConnectionTable(Mutex<Inner>);

/// The limit that refused a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The limit `maxCnxns` on all connections.
    Total,
    /// The limit `maxClientCnxns` per address.
    Address,
}

impl ConnectionTable {
    /// Counts a new connection, unless a limit is reached. It has no id yet.
    pub(crate) fn admit(
        &self,
        port: ClientPort,
        address: IpAddr,
        max_total: u32,
        max_per_address: u32,
    ) -> Result<(), Refused> {
        let mut inner = self.0.lock();
        if max_total != 0 && max_total <= inner.total {
            return Err(Refused::Total);
        }
        let count = inner.per_address.get(&(port, address)).copied().unwrap_or(0);
        if max_per_address != 0 && max_per_address <= count {
            return Err(Refused::Address);
        }
        inner.per_address.insert((port, address), count + 1);
        inner.total += 1;
        Ok(())
    }

    /// Adds an admitted connection under its id.
    pub(crate) fn add(
        &self,
        conn: ConnId,
        address: SocketAddr,
        port: ClientPort,
        established_ms: i64,
        now_ms: i64,
    ) -> Arc<ConnStats> {
        let stats = Arc::new(ConnStats::new(address, port, established_ms, now_ms));
        let mut inner = self.0.lock();
        inner.opened += 1;
        inner.conns.insert(conn, Arc::clone(&stats));
        drop(inner);
        stats
    }

    pub(crate) fn remove(&self, conn: ConnId, stats: &ConnStats) {
        let mut inner = self.0.lock();
        inner.conns.remove(&conn);
        inner.release(stats.port, stats.address.ip());
    }

    /// Uncounts an admitted connection that was closed before it had an id.
    pub(crate) fn abandon(&self, port: ClientPort, address: IpAddr) {
        self.0.lock().release(port, address);
    }

    /// Counts a socket that stays open for a moment after its connection is removed.
    pub(crate) fn start_lingering(&self) {
        self.0.lock().lingering += 1;
    }

    /// Uncounts a lingering socket that is closed.
    pub(crate) fn end_lingering(&self) {
        self.0.lock().lingering -= 1;
    }

    /// Descriptors of all connections, with or without an id, and of lingering sockets.
    pub(crate) fn descriptors(&self) -> usize {
        let inner = self.0.lock();
        (inner.total + inner.lingering) as usize
    }

    /// Connections that were opened since the start, and those of them that are closed.
    pub(crate) fn opened_and_closed(&self) -> (u64, u64) {
        let inner = self.0.lock();
        (inner.opened, inner.opened.saturating_sub(inner.conns.len() as u64))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().conns.len()
    }

    /// At most `max` connections after `after`, ordered by id.
    pub(crate) fn list_after(&self, after: Option<ConnId>, max: usize) -> Vec<(ConnId, Arc<ConnStats>)> {
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        let inner = self.0.lock();
        let conns = inner.conns.range((lower, Bound::Unbounded)).take(max);
        conns.map(|(conn, stats)| (*conn, Arc::clone(stats))).collect()
    }

    pub(crate) fn find(&self, conn: ConnId) -> Option<Arc<ConnStats>> {
        self.0.lock().conns.get(&conn).cloned()
    }
}
