//! The connections there are: for limits per address, and for the commands that list them.

use ox_proto::{OpCode, SessionId};
use ox_tree::ConnId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};

/// Figures of one connection. Written by its I/O thread, read by status commands.
#[derive(Debug)]
pub(crate) struct ConnFigures {
    pub(crate) address: SocketAddr,
    pub(crate) established_ms: i64,
    pub(crate) session: AtomicI64,
    pub(crate) timeout_ms: AtomicI32,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) queued: AtomicU64,
    /// Opcode of the last request; [`NO_OP`] before the first.
    pub(crate) last_op: AtomicI32,
    pub(crate) last_xid: AtomicI32,
    pub(crate) last_zxid: AtomicI64,
    pub(crate) last_response_ms: AtomicI64,
    pub(crate) last_io_ms: AtomicI64,
    pub(crate) latency: Latency,
}

/// No operation has this code.
pub(crate) const NO_OP: i32 = i32::MIN;

/// Latencies in milliseconds.
#[derive(Debug)]
pub(crate) struct Latency {
    pub(crate) last: AtomicI64,
    min: AtomicI64,
    pub(crate) max: AtomicI64,
    pub(crate) total: AtomicI64,
    pub(crate) count: AtomicI64,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            last: AtomicI64::new(0),
            min: AtomicI64::new(i64::MAX),
            max: AtomicI64::new(0),
            total: AtomicI64::new(0),
            count: AtomicI64::new(0),
        }
    }
}

impl Latency {
    /// Notes `count` requests that took `each_ms`.
    pub(crate) fn note(&self, each_ms: i64, count: i64) {
        self.last.store(each_ms, Ordering::Relaxed);
        if each_ms < self.min.load(Ordering::Relaxed) {
            self.min.store(each_ms, Ordering::Relaxed);
        }
        if self.max.load(Ordering::Relaxed) < each_ms {
            self.max.store(each_ms, Ordering::Relaxed);
        }
        self.total.fetch_add(each_ms * count, Ordering::Relaxed);
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    /// Notes requests that were answered in the turn that received them.
    pub(crate) fn note_instant(&self, count: u64) {
        if 0 < count {
            self.note(0, i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// The smallest, 0 when there was none.
    pub(crate) fn min(&self) -> i64 {
        let min = self.min.load(Ordering::Relaxed);
        if min == i64::MAX { 0 } else { min }
    }

    pub(crate) fn reset(&self) {
        let fresh = Self::default();
        for (to, from) in [
            (&self.min, &fresh.min),
            (&self.max, &fresh.max),
            (&self.total, &fresh.total),
            (&self.count, &fresh.count),
            (&self.last, &fresh.last),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl ConnFigures {
    fn new(address: SocketAddr, established_ms: i64, now_ms: i64) -> Self {
        Self {
            address,
            established_ms,
            session: AtomicI64::new(0),
            timeout_ms: AtomicI32::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            last_op: AtomicI32::new(NO_OP),
            last_xid: AtomicI32::new(0),
            last_zxid: AtomicI64::new(0),
            last_response_ms: AtomicI64::new(0),
            last_io_ms: AtomicI64::new(now_ms),
            latency: Latency::default(),
        }
    }

    pub(crate) fn session(&self) -> Option<SessionId> {
        Some(SessionId(self.session.load(Ordering::Relaxed))).filter(|session| *session != SessionId::NONE)
    }

    /// What `cons` shows as the last operation.
    pub(crate) fn last_op(&self) -> &'static str {
        match OpCode::try_from(self.last_op.load(Ordering::Relaxed)) {
            Ok(op) => op.short(),
            Err(NO_OP) => "null",
            Err(_) => "NA",
        }
    }

    /// The figures that `crst` resets.
    pub(crate) fn reset(&self) {
        self.received.store(0, Ordering::Relaxed);
        self.sent.store(0, Ordering::Relaxed);
        self.latency.reset();
    }
}

#[derive(Default)]
struct Inner {
    conns: BTreeMap<ConnId, Arc<ConnFigures>>,
    per_address: HashMap<IpAddr, u32>,
    total: u32,
    rejected: u64,
}

impl Inner {
    fn leave(&mut self, address: IpAddr) {
        self.total -= 1;
        if let Some(count) = self.per_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&address);
            }
        }
    }
}

/// All connections of the client port.
#[derive(Default)]
pub(crate) struct Register(Mutex<Inner>);

/// Why a connection was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// `maxCnxns`.
    Total,
    /// `maxClientCnxns`.
    Address,
}

impl Register {
    /// Counts a new connection, unless that would be too many. It has no name yet.
    pub(crate) fn admit(&self, address: IpAddr, max_total: u32, max_per_address: u32) -> Result<(), Refused> {
        let mut inner = self.0.lock();
        if max_total != 0 && max_total <= inner.total {
            inner.rejected += 1;
            return Err(Refused::Total);
        }
        let count = inner.per_address.get(&address).copied().unwrap_or(0);
        if max_per_address != 0 && max_per_address <= count {
            inner.rejected += 1;
            return Err(Refused::Address);
        }
        inner.per_address.insert(address, count + 1);
        inner.total += 1;
        Ok(())
    }

    /// Names an admitted connection.
    pub(crate) fn add(&self, conn: ConnId, address: SocketAddr, wall_ms: i64, now_ms: i64) -> Arc<ConnFigures> {
        let figures = Arc::new(ConnFigures::new(address, wall_ms, now_ms));
        self.0.lock().conns.insert(conn, Arc::clone(&figures));
        figures
    }

    pub(crate) fn remove(&self, conn: ConnId, address: IpAddr) {
        let mut inner = self.0.lock();
        inner.conns.remove(&conn);
        inner.leave(address);
    }

    /// An admitted connection went before it got a name.
    pub(crate) fn abandon(&self, address: IpAddr) {
        self.0.lock().leave(address);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().conns.len()
    }

    pub(crate) fn rejected(&self) -> u64 {
        self.0.lock().rejected
    }

    /// All connections, in no order that means anything.
    pub(crate) fn list(&self) -> Vec<(ConnId, Arc<ConnFigures>)> {
        self.0.lock().conns.iter().map(|(conn, figures)| (*conn, Arc::clone(figures))).collect()
    }

    pub(crate) fn find(&self, conn: ConnId) -> Option<Arc<ConnFigures>> {
        self.0.lock().conns.get(&conn).cloned()
    }
}
