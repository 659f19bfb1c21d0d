//! TLS handshakes, on threads of their own: their public-key operations take a millisecond of CPU time and must not
//! delay established connections.
//!
//! ```text
//! I/O thread 0 --accept--> HandshakeQueue --> HandshakeThread --Transport--> mailbox of an I/O thread
//! ```
//!
//! A thread runs many handshakes at a time. On a port that accepts plain text too, the first byte decides whether there
//! is one. Each handshake has a deadline and a limit of bytes. A handshake that fails costs its own connection only.
//!
//! The first flight of a client costs it nothing, and the server a public-key operation. So handshakes whose first flight
//! is answered come first, and then a few first flights, the newest: of a flood that exceeds the capacity, the oldest are
//! closed before they are answered. If too many handshakes are in progress, the oldest unanswered one is closed, or the
//! oldest of the answered ones where these are most: those of working clients take a few round trips, those of silent
//! clients stay. Waiting would serve no more of them: the backlog of the kernel is served oldest first, so that clients
//! of a flood would fill it, and others would be refused by silence, for seconds; a client that is reset can try again
//! immediately. Clients without TLS would wait, too.

use super::io_thread::WAKER;
use super::stream::{FlushOutcome, flush};
use super::transport::Transport;
use crate::io::client_port_tls::ClientPortTls;
use crate::io::connection_table::ClientPort;
use crate::io::mailbox::AcceptedClient;
use crate::io::reverse_lookups::ReverseName;
use crate::limits::{LOG_LINES_BURST, TLS_DISCARD_BYTES_MAX, TLS_HANDSHAKE_BYTES_MAX, TLS_HANDSHAKE_MS};
use crate::log_limit::LogLimit;
use crate::shared::Shared;
use crate::watchdog::Heartbeat;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use ox_replica::Now;
use ox_tls::{CertificateInfo, FirstByte, PeerDecision, PeerEndpoint, ServerTls};
use ox_tree::auth::{Identity, X509_SCHEME};
use parking_lot::Mutex;
use rustls::{Connection, ServerConnection};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How often deadlines are checked while handshakes are in progress.
const DEADLINE_CHECK: Duration = Duration::from_millis(250);
/// The longest wait without any.
const IDLE_WAIT: Duration = Duration::from_secs(1);
const MS_PER_SECOND: i64 = 1000;
/// First flights that are answered in one iteration: some milliseconds.
const FIRST_FLIGHTS_PER_ITERATION: usize = 8;

/// An accepted connection whose handshake has not begun. It is counted in the connection table.
#[derive(Debug)]
pub(crate) struct WaitingClient {
    pub(crate) tcp: TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) port: ClientPort,
}

/// Accepted connections for one thread. Their number is bounded by the descriptors that clients may use.
#[derive(Debug)]
pub(crate) struct HandshakeQueue {
    waiting: Mutex<Vec<WaitingClient>>,
    waker: Waker,
}

impl HandshakeQueue {
    pub(crate) fn new(poll: &Poll) -> io::Result<Self> {
        Ok(Self { waiting: Mutex::default(), waker: Waker::new(poll.registry(), WAKER)? })
    }

    pub(crate) fn put(&self, client: WaitingClient) {
        self.waiting.lock().push(client);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake a handshake thread");
        }
    }
}

enum Stage {
    /// Plain text and TLS are both possible.
    FirstByte,
    /// The configuration with which the handshake began decides about the certificate, too.
    Tls { server: Arc<ServerTls>, tls: Box<Connection> },
    /// The handshake is complete, and the name of the client's address is looked up.
    AwaitsName { server: Arc<ServerTls>, tls: Box<Connection> },
}

struct Handshake {
    tcp: TcpStream,
    address: SocketAddr,
    port: ClientPort,
    stage: Stage,
    deadline_ms: i64,
    received: usize,
    /// The first flight of the client was valid, and has been answered.
    is_answered: bool,
    /// Orders handshakes by age.
    number: u64,
}

/// What a handshake needs next.
enum HandshakeStep {
    /// An event of the socket.
    Wait,
    Done,
    /// The client uses no TLS, and may do so.
    Plain,
    Failed(HandshakeFailure),
}

enum HandshakeFailure {
    /// The client has closed the connection, perhaps without sending anything.
    Disconnected,
    Late,
    Oversized,
    Io(io::Error),
    Tls(rustls::Error),
    /// The certificate is valid, but not for this client.
    Certificate(String),
}

impl std::fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Disconnected => f.write_str("the client closed the connection"),
            Self::Late => f.write_str("it took too long"),
            Self::Oversized => write!(f, "the client sent more than {TLS_HANDSHAKE_BYTES_MAX} bytes"),
            Self::Io(error) => write!(f, "{error}"),
            Self::Tls(error) => f.write_str(&ox_tls::describe_handshake_error(error)),
            Self::Certificate(reason) => f.write_str(reason),
        }
    }
}

/// Runs handshakes until the server stops.
pub(crate) struct HandshakeThread {
    number: usize,
    poll: Poll,
    shared: Arc<Shared>,
    tls: Arc<ClientPortTls>,
    slots: Vec<Option<Handshake>>,
    free: Vec<usize>,
    /// Slots by the number of their handshake, the oldest first.
    by_age: BTreeMap<u64, usize>,
    /// Those whose first flight is not answered.
    unanswered: BTreeMap<u64, usize>,
    /// Those of them that have sent something.
    ready: BTreeMap<u64, usize>,
    next_number: u64,
    handshakes_max: usize,
    next_io_thread: usize,
    failure_log: LogLimit,
    identity_log: LogLimit,
}

impl HandshakeThread {
    /// `handshakes_max` is the limit of this thread.
    pub(crate) fn new(
        number: usize,
        poll: Poll,
        shared: Arc<Shared>,
        tls: Arc<ClientPortTls>,
        handshakes_max: usize,
    ) -> Self {
        Self {
            number,
            poll,
            shared,
            tls,
            slots: Vec::new(),
            free: Vec::new(),
            by_age: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            ready: BTreeMap::new(),
            next_number: 0,
            handshakes_max: handshakes_max.max(1),
            next_io_thread: number,
            failure_log: LogLimit::new(LOG_LINES_BURST),
            identity_log: LogLimit::new(LOG_LINES_BURST),
        }
    }

    pub(crate) fn run(mut self, heartbeat: &Heartbeat) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        while !self.shared.is_stopping() {
            heartbeat.beat();
            let timeout = match (self.ready.is_empty(), self.by_age.is_empty()) {
                (false, _) => Duration::ZERO,
                (true, false) => DEADLINE_CHECK,
                (true, true) => IDLE_WAIT,
            };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Ok(()) | Err(_) => (),
            }
            for event in events.iter().filter(|event| event.token() != WAKER) {
                self.on_ready(event.token().0);
            }
            let waiting = std::mem::take(&mut *self.tls.queue(self.number).waiting.lock());
            waiting.into_iter().for_each(|client| self.begin(client));
            let mut left = FIRST_FLIGHTS_PER_ITERATION;
            while 0 < left
                && let Some((_, slot)) = self.ready.pop_last()
            {
                left -= usize::from(self.advance(slot));
            }
            self.continue_with_names();
            self.close_late();
        }
        Ok(())
    }

    fn begin(&mut self, WaitingClient { mut tcp, address, port }: WaitingClient) {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut tcp, Token(slot), interest).is_err() {
            self.free.push(slot);
            return self.tls.end_handshake(&self.shared, port, address.ip());
        }
        let now_ms = self.shared.clock.mono_ms();
        let (stage, time_ms) = match port {
            ClientPort::Client => (Stage::FirstByte, self.tls.detection_ms().min(TLS_HANDSHAKE_MS)),
            ClientPort::Secure => match Stage::tls(&self.tls) {
                Ok(stage) => (stage, TLS_HANDSHAKE_MS),
                Err(error) => {
                    self.free.push(slot);
                    tracing::error!(%error, "cannot begin a TLS handshake");
                    return self.tls.end_handshake(&self.shared, port, address.ip());
                }
            },
        };
        let (number, deadline_ms) = (self.next_number, now_ms + time_ms);
        self.next_number += 1;
        self.by_age.insert(number, slot);
        self.unanswered.insert(number, slot);
        let (received, is_answered) = (0, false);
        self.slots[slot] = Some(Handshake { tcp, address, port, stage, deadline_ms, received, is_answered, number });
        if self.handshakes_max < self.by_age.len()
            && let Some(excess) = self.excess()
            && let Some(handshake) = self.remove(excess)
        {
            self.shared.metrics.tls_handshake_exceeded.add(1);
            self.tls.end_handshake(&self.shared, handshake.port, handshake.address.ip());
        }
        self.on_ready(slot); // the first bytes may have arrived
    }

    /// The handshake that is closed if there are too many. Unanswered ones have a quarter of the places at least.
    fn excess(&self) -> Option<usize> {
        let is_answered = |(number, _): &(&u64, &usize)| !self.unanswered.contains_key(number);
        let answered = self.by_age.len() - self.unanswered.len();
        if self.handshakes_max - self.handshakes_max.div_ceil(4) < answered {
            return self.by_age.iter().find(is_answered).map(|(_, slot)| *slot);
        }
        self.unanswered.first_key_value().map(|(_, slot)| *slot)
    }

    /// Continues a handshake whose socket is ready, unless that may cost a public-key operation for a new client.
    fn on_ready(&mut self, slot: usize) {
        let Some(handshake) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        if handshake.is_answered || handshake.is_plain() {
            self.advance(slot);
        } else {
            self.ready.insert(handshake.number, slot);
        }
    }

    /// Continues a handshake as far as its input permits. Returns whether there was any.
    fn advance(&mut self, slot: usize) -> bool {
        let Some(handshake) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return false };
        let before = handshake.received;
        let step = handshake.advance(&self.tls);
        let has_input = before < handshake.received;
        if handshake.is_answered {
            self.unanswered.remove(&handshake.number);
        }
        match step {
            HandshakeStep::Wait => (),
            HandshakeStep::Done | HandshakeStep::Plain => self.complete(slot),
            HandshakeStep::Failed(failure) => self.fail(slot, &failure),
        }
        has_input
    }

    /// Continues with handshakes whose client has a name by now.
    fn continue_with_names(&mut self) {
        let awaits = |slot: &usize| {
            self.slots[*slot].as_ref().is_some_and(|handshake| matches!(handshake.stage, Stage::AwaitsName { .. }))
        };
        let slots: Vec<usize> =
            if self.tls.looks_up_names() { self.by_age.values().copied().filter(awaits).collect() } else { Vec::new() };
        slots.into_iter().for_each(|slot| self.complete(slot));
    }

    /// Decides about a client whose handshake is complete.
    fn complete(&mut self, slot: usize) {
        let Some(mut handshake) = self.slots[slot].take() else { return };
        let identities = match &handshake.stage {
            Stage::FirstByte => Ok(Some(Vec::new())),
            Stage::Tls { server, tls } | Stage::AwaitsName { server, tls } => {
                let server = Arc::clone(server);
                self.identify(&server, tls, handshake.address)
            }
        };
        handshake.stage = match handshake.stage {
            Stage::Tls { server, tls } if matches!(identities, Ok(None)) => Stage::AwaitsName { server, tls },
            stage @ (Stage::FirstByte | Stage::Tls { .. } | Stage::AwaitsName { .. }) => stage,
        };
        self.slots[slot] = Some(handshake);
        match identities {
            Ok(None) => (),
            Ok(Some(identities)) => {
                if let Some(handshake) = self.remove(slot) {
                    self.hand_over(handshake, identities);
                }
            }
            Err(failure) => self.fail(slot, &failure),
        }
    }

    /// Passes a connection to an I/O thread.
    fn hand_over(&mut self, mut handshake: Handshake, identities: Vec<Identity>) {
        if self.poll.registry().deregister(&mut handshake.tcp).is_err() {
            return self.tls.end_handshake(&self.shared, handshake.port, handshake.address.ip());
        }
        let Handshake { tcp, address, port, stage, .. } = handshake;
        let transport = match stage {
            Stage::FirstByte => Transport::plain(tcp, port),
            Stage::Tls { tls, .. } | Stage::AwaitsName { tls, .. } => Transport::tls(tcp, *tls, port),
        };
        self.tls.leave_handshake();
        let thread = self.next_io_thread % self.shared.mailboxes.len();
        self.next_io_thread = thread + 1;
        let client = AcceptedClient { transport, address, identities };
        self.shared.mailboxes[thread].put(|mail| mail.accepted.push(client));
    }

    /// The identities that a client's certificate proves; `None` if that depends on a name that is not known yet.
    fn identify(
        &mut self,
        server: &ServerTls,
        tls: &Connection,
        address: SocketAddr,
    ) -> Result<Option<Vec<Identity>>, HandshakeFailure> {
        let Some(certificate) = tls.peer_certificates().and_then(<[_]>::first) else { return Ok(Some(Vec::new())) };
        let info = CertificateInfo::parse(certificate)
            .map_err(|problem| HandshakeFailure::Certificate(problem.to_string()))?;
        let now = self.shared.clock.now();
        let seconds = now.wall_ms.div_euclid(MS_PER_SECOND);
        let mut endpoint = PeerEndpoint::new(address.ip(), []);
        let mut decision = server.check_peer(&info, &endpoint, seconds);
        if let PeerDecision::LookUpName(_) = decision {
            match self.tls.reverse_name(address.ip(), now.mono_ms, self.number) {
                ReverseName::Known(name) => endpoint = endpoint.looked_up(name),
                ReverseName::Pending => return Ok(None),
                ReverseName::Refused => {
                    return Err(HandshakeFailure::Certificate("too many reverse lookups are in progress".to_owned()));
                }
            }
            decision = server.check_peer(&info, &endpoint, seconds);
        }
        match decision {
            PeerDecision::Accept | PeerDecision::AcceptMismatch(_) => (),
            PeerDecision::Refuse(mismatch) => return Err(HandshakeFailure::Certificate(mismatch.to_string())),
            PeerDecision::LookUpName(_) => {
                return Err(HandshakeFailure::Certificate("the name of the client is unknown".to_owned()));
            }
            PeerDecision::RefuseExpired => {
                return Err(HandshakeFailure::Certificate("the certificate has expired".to_owned()));
            }
        }
        Ok(Some(self.proven_by(info.subject, now)))
    }

    /// The identities of a certificate's subject.
    fn proven_by(&mut self, subject: String, now: Now) -> Vec<Identity> {
        let is_super = self.tls.super_user() == Some(subject.as_str());
        if let Some(suppressed) = self.identity_log.allow(now.mono_ms) {
            if is_super {
                tracing::info!(suppressed, "Authenticated Id '{subject}' as super user");
            }
            tracing::info!(suppressed, "Authenticated Id '{subject}' for scheme '{X509_SCHEME}'");
        }
        let of = |scheme: &'static str| Identity { scheme: scheme.into(), id: subject.clone() };
        is_super.then(|| of("super")).into_iter().chain([of(X509_SCHEME)]).collect()
    }

    fn fail(&mut self, slot: usize, failure: &HandshakeFailure) {
        let Some(mut handshake) = self.remove(slot) else { return };
        handshake.send_alert();
        self.report(handshake.address, failure);
        self.tls.end_handshake(&self.shared, handshake.port, handshake.address.ip());
    }

    fn report(&mut self, address: SocketAddr, reason: &HandshakeFailure) {
        self.shared.metrics.unsuccessful_handshake.add(1);
        self.shared.stats.auth_failed.add(1);
        if let HandshakeFailure::Disconnected = reason {
            return tracing::debug!(%address, "TLS handshake ended: {reason}"); // probes of load balancers
        }
        if let Some(suppressed) = self.failure_log.allow(self.shared.clock.mono_ms()) {
            tracing::error!(%address, suppressed, "Unsuccessful handshake with session 0x0: {reason}");
        }
    }

    fn close_late(&mut self) {
        let now_ms = self.shared.clock.mono_ms();
        let late = |slot: &usize| self.slots[*slot].as_ref().is_some_and(|handshake| handshake.deadline_ms <= now_ms);
        let late: Vec<usize> = self.by_age.values().copied().filter(late).collect();
        late.into_iter().for_each(|slot| self.fail(slot, &HandshakeFailure::Late));
    }

    fn remove(&mut self, slot: usize) -> Option<Handshake> {
        let handshake = self.slots[slot].take()?;
        self.by_age.remove(&handshake.number);
        self.unanswered.remove(&handshake.number);
        self.ready.remove(&handshake.number);
        self.free.push(slot);
        Some(handshake)
    }
}

impl Stage {
    fn tls(port: &ClientPortTls) -> Result<Self, rustls::Error> {
        let server = port.current();
        let tls = Box::new(ServerConnection::new(Arc::clone(server.config()))?.into());
        Ok(Self::Tls { server, tls })
    }
}

impl Handshake {
    /// Whether the client has begun with plain text.
    fn is_plain(&mut self) -> bool {
        let mut first = [0];
        matches!(self.stage, Stage::FirstByte)
            && uninterrupted(|| self.tcp.peek(&mut first)).is_ok_and(|count| 0 < count)
            && FirstByte::classify(first[0]) == FirstByte::Plain
    }

    fn advance(&mut self, port: &ClientPortTls) -> HandshakeStep {
        if let Stage::FirstByte = self.stage {
            let mut first = [0];
            match uninterrupted(|| self.tcp.peek(&mut first)) {
                Ok(0) => return HandshakeStep::Failed(HandshakeFailure::Disconnected),
                Ok(_) => (),
                Err(error) => return on_io_error(error),
            }
            match FirstByte::classify(first[0]) {
                FirstByte::Plain => return HandshakeStep::Plain,
                FirstByte::Tls => match Stage::tls(port) {
                    Ok(stage) => {
                        self.stage = stage;
                        self.deadline_ms += TLS_HANDSHAKE_MS - port.detection_ms().min(TLS_HANDSHAKE_MS);
                    }
                    Err(error) => return HandshakeStep::Failed(HandshakeFailure::Tls(error)),
                },
            }
        }
        self.advance_tls()
    }

    fn advance_tls(&mut self) -> HandshakeStep {
        let Stage::Tls { tls, .. } = &mut self.stage else { return HandshakeStep::Wait };
        loop {
            match flush(tls, &mut self.tcp) {
                Ok(FlushOutcome::Empty) if !tls.is_handshaking() => return HandshakeStep::Done,
                Ok(FlushOutcome::Empty) => (),
                Ok(FlushOutcome::Full) => return HandshakeStep::Wait,
                Err(error) => return HandshakeStep::Failed(HandshakeFailure::Io(error)),
            }
            match uninterrupted(|| tls.read_tls(&mut self.tcp)) {
                Ok(0) => return HandshakeStep::Failed(HandshakeFailure::Disconnected),
                Ok(count) => self.received += count,
                Err(error) => return on_io_error(error),
            }
            if TLS_HANDSHAKE_BYTES_MAX < self.received {
                return HandshakeStep::Failed(HandshakeFailure::Oversized);
            }
            if let Err(error) = tls.process_new_packets() {
                return HandshakeStep::Failed(HandshakeFailure::Tls(error));
            }
            self.is_answered |= tls.wants_write();
        }
    }

    /// Sends the alert that rustls has prepared, and discards input, which would reset the connection before the client
    /// has read the alert.
    fn send_alert(&mut self) {
        if let Stage::Tls { tls, .. } = &mut self.stage {
            let _ = flush(tls, &mut self.tcp); // the connection is closed anyway
            let (mut scratch, mut left) = ([0; 4096], TLS_DISCARD_BYTES_MAX);
            let _ = self.tcp.shutdown(std::net::Shutdown::Write);
            while let Ok(count) = self.tcp.read(&mut scratch)
                && 0 < count
                && 0 < left
            {
                left = left.saturating_sub(count);
            }
        }
    }
}

/// Repeats a call that a signal has interrupted.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => return result,
        }
    }
}

fn on_io_error(error: io::Error) -> HandshakeStep {
    if error.kind() == io::ErrorKind::WouldBlock {
        HandshakeStep::Wait
    } else if error.kind() == io::ErrorKind::ConnectionReset {
        HandshakeStep::Failed(HandshakeFailure::Disconnected)
    } else {
        HandshakeStep::Failed(HandshakeFailure::Io(error))
    }
}
