//! The iteration of an I/O thread that serves client connections.
//!
//! An I/O thread owns its connections from accept to close. One iteration, step by step ([`ClientIo::step`]):
//!
//! | step | file | |
//! |---|---|---|
//! | [`IoStage::Receive`] | `receive.rs` | reads every ready socket once, into one arena |
//! | [`IoStage::Serve`] | `deliver.rs`, `serve.rs` | locks the state for reading, delivers the outboxes of the replica, serves complete frames until a budget is spent; repeated while frames are left |
//! | [`IoStage::Submit`] | | passes the writes to the replica |
//! | [`IoStage::Flush`] | `flush.rs`, `idle.rs` | writes every socket once; closes connections that are done, silent, slow or stuck |
//! | [`IoStage::SubmitCloses`] | | tells the replica about closed connections |
//!
//! The state is locked during `Serve` only, and released between two budgets. SASL tokens are processed at the end of
//! `Serve`, after the release. No socket is read or written meanwhile,
//! except to a client with too many unsent events.
//!
//! The invariant that keeps a connection from hanging: a connection with work to do that is not in the ready list will
//! be put there by another event. That is a reply of the replica, free space in the socket or, for a connection that is
//! stalled or paused because memory is short, the clock.

mod buffer_pool;
mod connection;
mod deliver;
#[cfg(test)]
mod fake;
mod flush;
mod global_limits;
mod host;
mod idle;
mod limits;
mod linger;
mod receive;
mod serve;
mod settings;
mod stalled;
#[cfg(test)]
mod tests;

pub use connection::Connection;
pub use global_limits::{BufferGrowth, GlobalLimits};
pub use host::{
    ClientHost, ClientNote, ClientSockets, CloseReason, CommandText, FirstBytes, Mail, Readiness, SaslTurn, memory_of,
};
pub use idle::closes_at_ms;
pub use settings::{ClientIoSettings, ClientIoSizes};

use buffer_pool::BufferPool;
use linger::Lingering;
use ox_proto::OpCode;
use ox_replica::{Admission, ClientInput, Conn, ConnId, Now, PauseDetector, Pressure, Shortage, Submission};
use ox_tree::auth::Identity;
use stalled::{Stall, Stalled};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;

/// The next step of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoStage {
    /// The next step begins an iteration.
    #[default]
    Receive,
    Serve,
    Submit,
    Flush,
    /// Connections that the iteration has closed are reported to the replica.
    SubmitCloses,
}

/// The connections of one I/O thread. `S` is the type of their sockets, `R` what the host records about each.
#[derive(Debug)]
pub struct ClientIo<S, R> {
    settings: ClientIoSettings,
    stage: IoStage,
    /// When the present iteration began. All its steps count with this time: a request that waits for a step of its
    /// own iteration has not been kept waiting.
    now: Now,
    conns: Vec<Option<Connection<S, R>>>,
    free: Vec<usize>,
    generation: u64,
    /// Sockets of closed connections whose clients have not read the last reply yet.
    lingering: Lingering<S>,
    /// Connections with work in this iteration.
    ready: Vec<usize>,
    /// Connections with a SASL token to process as soon as the state is released.
    sasl_steps: Vec<usize>,
    stalled: Stalled,
    /// Connections with work and unsent replies, paused while the unsent replies of all connections use much memory.
    paused: BTreeSet<usize>,
    /// When the sessions of stalled connections are touched next.
    next_touch_ms: i64,
    /// The admission when the iteration began, or at its last submission.
    admission: Admission,
    /// How much of the memory share of replies and events is used.
    pressure: Pressure,
    /// Back-pressure: the server does not read from a connection with more unsent bytes than this.
    pause_bytes: usize,
    /// Bytes per read from a connection without a reservation.
    read_bytes: usize,
    arena: Vec<u8>,
    /// Received bytes in the arena, by slot. Those before `served` are served.
    received: Vec<(usize, Range<usize>)>,
    served: usize,
    /// The next entry of `ready` whose input buffer is served.
    next_waiting: usize,
    submission: Submission,
    /// Bytes of events in buffers that [`GlobalLimits`] does not count yet.
    delivered_bytes: usize,
    /// Bytes of outboxes that this iteration has delivered. [`GlobalLimits`] counts them until the end of the
    /// iteration, and from then on the buffers that received them.
    delivered_mail: usize,
    pool: BufferPool,
    next_idle_check_ms: i64,
    /// Detects pauses between two checks for idle connections.
    pulse: PauseDetector,
}

impl<S, R> ClientIo<S, R> {
    pub fn new(settings: ClientIoSettings, now: Now) -> Self {
        Self {
            stage: IoStage::Receive,
            now,
            conns: Vec::new(),
            free: Vec::new(),
            generation: 0,
            lingering: Lingering::default(),
            ready: Vec::new(),
            sasl_steps: Vec::new(),
            stalled: Stalled::default(),
            paused: BTreeSet::new(),
            next_touch_ms: 0,
            admission: Admission::Open,
            pressure: Pressure::Low,
            pause_bytes: 0,
            read_bytes: settings.sizes.read_bytes,
            arena: vec![0; settings.sizes.arena_bytes],
            received: Vec::new(),
            served: 0,
            next_waiting: 0,
            submission: Submission::default(),
            delivered_bytes: 0,
            delivered_mail: 0,
            pool: BufferPool::default(),
            next_idle_check_ms: now.mono_ms,
            pulse: PauseDetector::new(settings.tick_ms, now.mono_ms),
            settings,
        }
    }

    /// Takes the next step, and returns the one after it. An iteration is over when that is [`IoStage::Receive`]. The
    /// time of its first step counts for the whole iteration.
    pub fn step<H: ClientHost<Socket = S, Record = R>>(&mut self, now: Now, host: &mut H) -> IoStage {
        self.stage = match self.stage {
            IoStage::Receive => {
                self.now = now;
                self.check_admission(host);
                self.drain_lingering(host);
                self.receive(host);
                IoStage::Serve
            }
            IoStage::Serve => {
                let is_left = self.serve(host);
                if is_left { IoStage::Serve } else { IoStage::Submit }
            }
            IoStage::Submit => {
                self.submit(host);
                host.publish();
                IoStage::Flush
            }
            IoStage::Flush => {
                self.flush(host);
                if self.next_idle_check_ms <= self.now.mono_ms {
                    self.check_idle(host);
                }
                IoStage::SubmitCloses
            }
            IoStage::SubmitCloses => {
                self.submit(host);
                IoStage::Receive
            }
        };
        self.stage
    }

    /// Whether the next iteration has work that no event announces.
    pub fn is_busy(&self) -> bool {
        !self.ready.is_empty() || self.stalled.flows()
    }

    /// When the thread has work even if no event arrives.
    pub fn wake_ms(&self, now_ms: i64) -> i64 {
        if self.stalled.is_empty() && self.paused.is_empty() {
            return self.next_idle_check_ms;
        }
        self.next_idle_check_ms.min(now_ms + self.settings.stall_time_ms.max(1))
    }

    /// Adds a connection with the identities that its transport has proven. Returns its socket if it cannot be
    /// registered.
    pub fn add<H>(
        &mut self,
        mut socket: S,
        address: SocketAddr,
        proven: Vec<Identity>,
        now: Now,
        host: &mut H,
    ) -> Result<(), S>
    where
        H: ClientHost<Socket = S, Record = R>,
    {
        let slot = self.free.pop().unwrap_or(self.conns.len());
        if ConnId::SLOTS_MAX <= slot {
            return Err(socket);
        }
        let id = ConnId::new(self.settings.thread, slot, self.generation + 1);
        let mut core = Conn::new(id, address.ip());
        if !core.prove(proven) || !host.register(&mut socket, slot) {
            if slot < self.conns.len() {
                self.free.push(slot);
            }
            return Err(socket);
        }
        self.generation += 1;
        let record = host.on_open(id, &socket, address, now);
        let conn = Connection::new(socket, record, core, now.mono_ms);
        if slot == self.conns.len() {
            self.conns.push(Some(conn));
        } else {
            self.conns[slot] = Some(conn);
        }
        Ok(())
    }

    /// Records what the socket of a connection is ready for. The socket reports each change once (edge-triggered).
    pub fn on_ready(&mut self, slot: usize, readiness: Readiness) {
        if let Some(conn) = self.conns.get_mut(slot).and_then(Option::as_mut) {
            conn.on_ready(readiness);
            self.mark_ready(slot);
        }
    }

    /// Input has arrived at a lingering socket.
    pub fn on_lingering_ready(&mut self, index: usize) {
        self.lingering.on_ready(index);
    }

    /// All connections that are open.
    pub fn connections(&self) -> impl Iterator<Item = &Connection<S, R>> {
        self.conns.iter().flatten()
    }

    /// Whether a connection is not read because its client does not read.
    pub fn is_held_back(&self, conn: &Connection<S, R>) -> bool {
        self.pause_bytes < conn.unsent()
    }

    /// Whether the replica knows of every connection that is closed.
    pub fn has_reported_all_closes(&self) -> bool {
        self.submission.is_empty()
    }

    fn mark_ready(&mut self, slot: usize) {
        if let Some(conn) = self.conns[slot].as_mut().filter(|conn| !conn.ready) {
            conn.ready = true;
            self.ready.push(slot);
        }
    }

    fn submit<H: ClientHost<Socket = S, Record = R>>(&mut self, host: &mut H) {
        if !self.submission.is_empty() {
            host.limits().on_submitted(self.submission.load());
            let next = self.submission.like();
            host.submit(std::mem::replace(&mut self.submission, next));
        }
    }

    /// Sets a connection aside until the server has memory for its next request. After a retry it keeps its place in
    /// the queue.
    fn stall(&mut self, slot: usize, shortage: Shortage) {
        let Some(conn) = self.conns[slot].as_mut().filter(|conn| conn.stalled.is_none()) else { return };
        if let Some(before) = conn.was_stalled.filter(|before| before.shortage == shortage) {
            conn.stalled = Some(before);
            self.stalled.add_again(shortage, slot);
        } else {
            conn.stalled = Some(Stall { shortage, since_ms: self.now.mono_ms });
            self.stalled.add(shortage, slot, self.now.mono_ms);
        }
    }

    fn close<H: ClientHost<Socket = S, Record = R>>(&mut self, slot: usize, host: &mut H) {
        if let Some(socket) = self.remove_conn(slot, host) {
            host.close(socket);
        }
    }

    /// Closes a connection after its last reply. The socket stays open until the client has read that reply.
    fn linger<H: ClientHost<Socket = S, Record = R>>(&mut self, slot: usize, host: &mut H) {
        // closeSession is the last request of a client, so no input can follow that would reset the connection.
        let is_done_sending =
            |conn: &Connection<S, R>| conn.core.last_op() == Some(OpCode::CloseSession) && !conn.readable;
        let is_done_sending = self.conns[slot].as_ref().is_some_and(is_done_sending);
        let Some(socket) = self.remove_conn(slot, host) else { return };
        if is_done_sending {
            host.close(socket);
        } else {
            self.lingering.add(socket, self.now.mono_ms, host);
        }
    }

    /// Removes a connection and returns its socket.
    fn remove_conn<H: ClientHost<Socket = S, Record = R>>(&mut self, slot: usize, host: &mut H) -> Option<S> {
        let mut conn = self.conns[slot].take()?;
        let id = conn.core.id();
        self.paused.remove(&slot);
        if let Some(stall) = conn.stalled {
            self.stalled.remove(stall.shortage, slot);
        }
        if conn.is_command {
            host.cancel_command(id);
        }
        (conn.input, conn.reserved) = (Vec::new(), 0);
        conn.drop_output();
        let limits = host.limits();
        conn.waiting_for_frame.into_iter().for_each(|bytes| limits.stop_waiting_for_frame(bytes));
        limits.on_buffers_grown(conn.growth());
        limits.release_large(conn.large.iter().map(|(_, bytes)| bytes).sum());
        if !conn.core.is_new() {
            self.submission.push(id, ClientInput::Gone, &[]); // the replica knows the connection
        }
        self.free.push(slot);
        host.on_removed(&conn.core, conn.record);
        Some(conn.socket)
    }
}
