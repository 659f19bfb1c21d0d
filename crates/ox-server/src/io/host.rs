//! What the client I/O iteration (`ox-driver/src/client_io.rs`) needs from the server: sockets on mio, the shared state,
//! and records for metrics, four-letter commands and the log.

use super::auth_log::AuthLog;
use super::in_flight::InFlight;
use super::iteration_stats::IterationStats;
use super::stream::StreamRead;
use super::transport::Transport;
use crate::io::client_sasl::conn_auth;
use crate::io::connection_table::ConnStats;
use crate::io::mailbox::AcceptedClient;
use crate::limits::LOG_LINES_BURST;
use crate::log_limit::LogLimit;
use crate::shared::Shared;
use crate::status::four_letter::{self, CommandQueue, Parsed};
use crate::status::java_text;
use mio::{Interest, Registry, Token};
use ox_driver::client_io::{
    ClientHost, ClientNote, ClientSockets, CloseReason, FirstBytes, GlobalLimits, Mail, SaslTurn,
};
use ox_driver::sockets::{SocketRead, SocketWrite, Sockets};
use ox_proto::SessionId;
use ox_replica::{AuthEvent, Conn, ConnId, HandshakeKind, Now, SaslOutcome, Submission};
use ox_tree::State;
use ox_tree::auth::EnsembleName;
use parking_lot::RwLockReadGuard;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Tokens of lingering sockets start here; those of connections are smaller.
pub(super) const LINGERING_TOKENS: usize = usize::MAX / 2;

/// What is recorded about one connection.
#[derive(Debug)]
pub(super) struct ClientRecord {
    pub(super) stats: Arc<ConnStats>,
    /// Requests at the replica, for their latency and operation.
    pub(super) requests_in_flight: InFlight,
}

/// What an I/O thread records, and what other threads have passed to it besides mail for its connections.
pub(super) struct ThreadRecords {
    number: u8,
    commands: CommandQueue,
    stats: IterationStats,
    /// Warnings about connections closed for what their clients sent or did not read.
    close_log: LogLimit,
    /// Lines about clients that disconnected without closing their session.
    disconnect_log: LogLimit,
    /// Lines about slow reads.
    slow_log: LogLimit,
    auth_log: AuthLog,
    /// Connections that another thread has accepted for this one.
    pub(super) accepted: Vec<AcceptedClient>,
    /// New address of the client port.
    pub(super) relisten: Option<SocketAddr>,
    /// Ciphertext that is being decrypted. Empty without TLS.
    ciphertext: Vec<u8>,
    /// Tokens of sockets whose transport has more to read, which no event of the kernel announces.
    pub(super) readable: Vec<Token>,
}

impl ThreadRecords {
    pub(super) fn new(number: u8, commands: CommandQueue) -> Self {
        Self {
            number,
            commands,
            stats: IterationStats::default(),
            close_log: LogLimit::new(LOG_LINES_BURST),
            disconnect_log: LogLimit::new(LOG_LINES_BURST),
            slow_log: LogLimit::new(LOG_LINES_BURST),
            auth_log: AuthLog::new(),
            accepted: Vec::new(),
            relisten: None,
            ciphertext: Vec::new(),
            readable: Vec::new(),
        }
    }
}

/// The surroundings of an iteration.
pub(super) struct Host<'a> {
    pub(super) shared: &'a Shared,
    pub(super) registry: &'a Registry,
    pub(super) records: &'a mut ThreadRecords,
}

impl Sockets for Host<'_> {
    type Socket = Transport;

    fn receive(&mut self, socket: &mut Transport, buffer: &mut [u8]) -> SocketRead {
        let StreamRead { read, is_unfinished } = socket.receive(buffer, &mut self.records.ciphertext);
        if is_unfinished {
            self.records.readable.push(socket.token);
        }
        read
    }

    fn send(&mut self, socket: &mut Transport, bytes: &[u8]) -> SocketWrite {
        socket.send(bytes)
    }

    fn close(&mut self, mut socket: Transport) {
        socket.end_output();
    }
}

impl ClientSockets for Host<'_> {
    fn register(&mut self, socket: &mut Transport, slot: usize) -> bool {
        socket.token = Token(slot);
        if socket.is_tls() {
            self.records.readable.push(socket.token); // requests may have arrived together with the handshake
        }
        self.registry.register(socket.tcp(), Token(slot), Interest::READABLE | Interest::WRITABLE).is_ok()
    }

    fn shut_down(&mut self, socket: &mut Transport, index: usize) -> bool {
        socket.end_output();
        socket.token = Token(LINGERING_TOKENS + index);
        let (token, tcp) = (socket.token, socket.tcp());
        let _ = self.registry.deregister(tcp); // registering it again fails if it is dead
        tcp.shutdown(Shutdown::Write).is_ok() && self.registry.register(tcp, token, Interest::READABLE).is_ok()
    }
}

impl<'a> ClientHost for Host<'a> {
    type Record = ClientRecord;
    type StateGuard = RwLockReadGuard<'a, State>;

    fn lock_state(&mut self) -> RwLockReadGuard<'a, State> {
        let state = self.shared.state.read();
        self.records.stats.on_state(self.shared.clock.mono_ms(), state.last_zxid());
        state
    }

    fn limits(&self) -> &GlobalLimits {
        &self.shared.global_limits
    }

    fn take_mail(&mut self) -> Option<Mail> {
        let mail = self.shared.mailboxes[usize::from(self.records.number)].take()?;
        self.records.accepted.extend(mail.accepted);
        self.records.relisten = mail.relisten.or(self.records.relisten);
        Some(mail.for_connections)
    }

    fn submit(&mut self, mut submission: Submission) {
        submission.submitted_ms = self.shared.clock.mono_ms();
        self.shared.inbox.submit(submission);
    }

    fn admits(&self, now: Now, kind: HandshakeKind) -> bool {
        self.shared.admit(now, kind)
    }

    fn on_open(&mut self, id: ConnId, socket: &Transport, address: SocketAddr, now: Now) -> ClientRecord {
        let stats = self.shared.connections.add(id, address, socket.port, now.wall_ms, now.mono_ms);
        ClientRecord { stats, requests_in_flight: InFlight::default() }
    }

    fn on_removed(&mut self, core: &Conn, record: ClientRecord) {
        self.records.stats.on_removed(core);
        self.shared.connections.remove(core.id(), &record.stats);
    }

    fn take_command(&mut self, id: ConnId, record: &ClientRecord, bytes: &[u8]) -> FirstBytes {
        match four_letter::parse(bytes, &self.shared.live().four_letter_whitelist) {
            Parsed::Command(command) if self.records.commands.enqueue(self.shared, id, &record.stats, command) => {
                FirstBytes::Command
            }
            Parsed::Command(_) => FirstBytes::Refused,
            Parsed::Incomplete => FirstBytes::Incomplete,
            Parsed::NotACommand => FirstBytes::Frame,
        }
    }

    fn continue_command(&mut self, id: ConnId) {
        self.records.commands.continue_listing(id);
    }

    fn cancel_command(&mut self, id: ConnId) {
        self.records.commands.cancel(id);
    }

    fn note(&mut self, note: ClientNote) {
        let metrics = &self.shared.metrics;
        match note {
            ClientNote::LargeRefused => metrics.large_requests_rejected.add(1),
            ClientNote::Stalled => metrics.request_throttle_wait_count.add(1),
            ClientNote::StaleDropped => {
                metrics.stale_requests.add(1);
                metrics.stale_requests_dropped.add(1);
            }
            ClientNote::Throttled => metrics.throttled_ops.add(1),
            ClientNote::HiddenEvent
            | ClientNote::OnePerConnection
            | ClientNote::FollowsInFlight
            | ClientNote::PausedReader
            | ClientNote::FrameWaits
            | ClientNote::ArenaFull
            | ClientNote::BudgetSpent => (),
        }
    }

    fn step_sasl(&mut self, turn: SaslTurn<'_, ClientRecord>) {
        let SaslTurn { core, record, auth, now, out, submission } = turn;
        let Some(sasl) = &self.shared.sasl else { return };
        let (before, in_flight) = (out.len(), core.in_flight());
        let session = core.session().unwrap_or(SessionId::NONE); // a failure ends it
        let Some(outcome) = sasl.step(now, |service| core.step_sasl(auth, service, out, submission)) else { return };
        let reply = (core.in_flight() == in_flight).then(|| &out[before..]);
        self.records.stats.on_sasl_reply(core, record, reply, now);
        if matches!(outcome, SaslOutcome::Failed(_) | SaslOutcome::Kept(_)) {
            self.shared.failed_logins.note(record.stats.address.ip(), now.mono_ms);
        }
        self.records.auth_log.on_sasl(session, record.stats.address, &outcome, now);
    }

    fn on_auth_event(&mut self, core: &Conn, record: &ClientRecord, event: AuthEvent, now: Now) {
        if matches!(
            event,
            AuthEvent::Failed | AuthEvent::WrongSuperPassword | AuthEvent::Ensemble(EnsembleName::Differs)
        ) {
            self.shared.failed_logins.note(record.stats.address.ip(), now.mono_ms);
        }
        let enforced = conn_auth(&self.shared.config).enforced;
        let context = (&*self.shared.metrics, enforced, now);
        self.records.auth_log.on_event(core, record.stats.address, event, context);
    }

    fn on_close(&mut self, core: &Conn, record: &ClientRecord, reason: CloseReason<'_>, now: Now) {
        let records = &mut *self.records;
        let address = record.stats.address;
        if reason == CloseReason::Idle {
            tracing::debug!(%address, "connection closed: no traffic within the timeout");
            return records.stats.on_idle_close();
        }
        records.stats.on_dropped();
        if reason == CloseReason::Disconnected {
            return log_disconnect(core, address, &mut records.disconnect_log, now);
        }
        if let Some(suppressed) = records.close_log.allow(now.mono_ms) {
            let reason = close_text(reason);
            tracing::warn!(%address, suppressed, "connection closed: {reason}");
        }
    }

    fn on_io(&mut self, record: &ClientRecord, now_ms: i64) {
        record.stats.last_io_ms.store(now_ms, Relaxed);
    }

    fn on_interest(&mut self, record: &ClientRecord, bits: u8) {
        record.stats.interest.store(bits, Relaxed);
    }

    fn on_frame(&mut self, core: &Conn, record: &mut ClientRecord, frame: &[u8], reply: Option<&[u8]>, now: Now) {
        self.records.stats.on_frame(core, record, frame, reply, now);
    }

    fn on_served(&mut self, core: &Conn, record: &ClientRecord, now: Now) {
        self.records.stats.on_served(core, record, now);
    }

    fn on_event(&mut self, record: &ClientRecord, bytes: &[u8]) {
        self.records.stats.on_event(record, bytes);
    }

    fn on_replies(&mut self, core: &Conn, record: &mut ClientRecord, bytes: &[u8], count: u32) {
        self.records.stats.on_replies(core, record, bytes, count);
    }

    fn on_attached(&mut self, record: &mut ClientRecord, session: SessionId, timeout_ms: i32) {
        self.records.stats.on_attached(record, session, timeout_ms);
    }

    fn on_final_reply(&mut self, record: &mut ClientRecord, bytes: &[u8]) {
        self.records.stats.on_final_reply(record, bytes);
    }

    fn on_text(&mut self, record: &ClientRecord, text: &str) {
        self.records.stats.on_text(record, text);
    }

    fn on_lingering(&mut self, lingers: bool) {
        if lingers {
            self.shared.connections.start_lingering();
        } else {
            self.shared.connections.end_lingering();
        }
    }

    fn publish(&mut self) {
        self.records.stats.publish(self.shared);
        self.records.stats.log_slow_reads(&mut self.records.slow_log);
    }
}

/// What the log says about a connection that the server closes.
fn close_text(reason: CloseReason<'_>) -> &str {
    match reason {
        CloseReason::Refused(reason) => reason,
        CloseReason::Disconnected => "the client closed it",
        CloseReason::Idle => "no traffic within the timeout",
        CloseReason::Stuck => "the client does not read",
        CloseReason::SlowReader => "the client reads too slowly while memory is short",
        CloseReason::SlowRequest => "the client did not complete a request in time",
        CloseReason::NoMemory => "no memory for the next reply; raise oxkeeper.memoryBudget",
    }
}

/// Logs that a client has closed its connection without closing its session.
fn log_disconnect(core: &Conn, address: SocketAddr, lines: &mut LogLimit, now: Now) {
    if let Some(session) = core.session()
        && let Some(suppressed) = lines.allow(now.mono_ms)
    {
        let address = java_text::address(address);
        tracing::info!(
            suppressed,
            "Unable to read additional data from client, it probably closed the socket: address = {address}, session \
             = {session}"
        );
    }
}
