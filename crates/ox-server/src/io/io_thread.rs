//! The loop of an I/O thread.

use super::accept::{AcceptOutcome, accept, bind};
use super::host::{ClientRecord, Host, LINGERING_TOKENS, ThreadRecords};
use super::tls_handshakes::WaitingClient;
use super::transport::Transport;
use crate::io::connection_table::{ClientPort, Refused};
use crate::io::fd_limit::connections_max;
use crate::io::mailbox::AcceptedClient;
use crate::limits::{ACCEPT_PAUSE_MS, ACCEPTS_PER_ITERATION_MAX, LOG_LINES_BURST};
use crate::log_limit::LogLimit;
use crate::options::client_io_settings;
use crate::shared::Shared;
use crate::status::four_letter::CommandQueue;
use crate::watchdog::Heartbeat;
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use ox_driver::client_io::{ClientIo, IoStage, Readiness};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Token of the waker of each I/O thread.
pub(crate) const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);
const SECURE_LISTENER: Token = Token(usize::MAX - 2);

pub(crate) struct IoThread {
    number: u8,
    poll: Poll,
    listener: Option<TcpListener>,
    secure_listener: Option<TcpListener>,
    /// Connections allowed on all threads together. More would use the descriptors that logs and snapshots need.
    connections_max: usize,
    /// When to accept again, after descriptors have run out.
    accept_retry_ms: Option<i64>,
    /// Accepting is paused, and that has been logged.
    accept_paused: bool,
    shared: Arc<Shared>,
    connections: ClientIo<Transport, ClientRecord>,
    records: ThreadRecords,
    next_thread: usize,
    refusal_log: LogLimit,
    /// Connections from addresses with failed logins, and when they are served. All wait equally long.
    delayed: VecDeque<(i64, WaitingClient)>,
}

impl IoThread {
    pub(crate) fn new(number: u8, poll: Poll, shared: Arc<Shared>, commands: CommandQueue) -> Self {
        Self {
            number,
            poll,
            listener: None,
            secure_listener: None,
            connections_max: usize::MAX,
            accept_retry_ms: None,
            accept_paused: false,
            connections: ClientIo::new(client_io_settings(&shared.config, number), shared.clock.now()),
            records: ThreadRecords::new(number, commands),
            next_thread: 0,
            refusal_log: LogLimit::new(LOG_LINES_BURST),
            delayed: VecDeque::new(),
            shared,
        }
    }

    /// Makes this the thread that accepts connections for all threads, while there are fewer than `connections_max`.
    pub(crate) fn listen(
        &mut self,
        port: ClientPort,
        mut listener: TcpListener,
        connections_max: usize,
    ) -> io::Result<()> {
        let (token, place) = match port {
            ClientPort::Client => (LISTENER, &mut self.listener),
            ClientPort::Secure => (SECURE_LISTENER, &mut self.secure_listener),
        };
        self.poll.registry().register(&mut listener, token, Interest::READABLE)?;
        (*place, self.connections_max) = (Some(listener), connections_max);
        Ok(())
    }

    /// Moves the client port to another address. Open connections stay. If the new address cannot be bound, the old one
    /// stays.
    fn relisten(&mut self, address: SocketAddr) {
        let backlog = self.shared.config.listen_backlog;
        let open =
            |address: SocketAddr| bind(Some(address.ip()).filter(|ip| !ip.is_unspecified()), address.port(), backlog);
        let before = self.listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let opened = open(address).or_else(|_| {
            self.listener = None; // it may use the same port
            open(address)
        });
        let opened =
            opened.inspect_err(|error| tracing::error!(%error, %address, "cannot listen on the new client address"));
        let opened =
            opened.or_else(|error| if self.listener.is_none() { before.map_or(Err(error), open) } else { Err(error) });
        let listening = opened.and_then(|listener| {
            let address = listener.local_addr()?;
            let connections_max = connections_max(true).map_err(io::Error::other)?;
            self.listen(ClientPort::Client, listener, connections_max)?;
            Ok(address)
        });
        if let Ok(address) = listening {
            tracing::info!("binding to port {address}");
            *self.shared.address.lock() = Some(address);
        }
    }

    /// Runs until the server stops.
    pub(crate) fn run(mut self, heartbeat: &Heartbeat) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.shared.is_stopping() {
            heartbeat.beat();
            self.announce_readable();
            self.wait(&mut events, self.shared.clock.mono_ms())?;
            let now = self.shared.clock.now();
            self.on_events(&events, now.mono_ms);
            let Self { shared, poll, connections, records, .. } = &mut self;
            let mut host = Host { shared, registry: poll.registry(), records };
            while connections.step(now, &mut host) != IoStage::Receive {}
            if let Some(address) = self.records.relisten.take() {
                self.relisten(address);
            }
            for client in std::mem::take(&mut self.records.accepted) {
                self.add(client);
            }
        }
        Ok(())
    }

    fn on_events(&mut self, events: &Events, now_ms: i64) {
        let mut accepting = self.accept_retry_ms.is_some_and(|retry_ms| retry_ms <= now_ms);
        for event in events {
            match event.token() {
                WAKER => (),
                LISTENER | SECURE_LISTENER => accepting |= self.accept_retry_ms.is_none(),
                token => self.on_ready(token, readiness(event)),
            }
        }
        if accepting {
            self.accept(now_ms);
        }
        while let Some((_, client)) = self.delayed.pop_front_if(|(at_ms, _)| *at_ms <= now_ms) {
            self.pass_on(client);
        }
    }

    fn on_ready(&mut self, Token(token): Token, readiness: Readiness) {
        match token.checked_sub(LINGERING_TOKENS) {
            Some(index) => self.connections.on_lingering_ready(index),
            None => self.connections.on_ready(token, readiness),
        }
    }

    /// Announces input that transports hold, which the kernel does not know of.
    fn announce_readable(&mut self) {
        for token in std::mem::take(&mut self.records.readable) {
            self.on_ready(token, Readiness { readable: true, ..Readiness::default() });
        }
    }

    fn wait(&mut self, events: &mut Events, now_ms: i64) -> io::Result<()> {
        let mailbox = &self.shared.mailboxes[usize::from(self.number)];
        let delayed_ms = self.delayed.front().map(|(at_ms, _)| *at_ms);
        let wake_ms = [self.accept_retry_ms, delayed_ms].into_iter().flatten().min().unwrap_or(i64::MAX);
        let wake_ms = self.connections.wake_ms(now_ms).min(wake_ms);
        let timeout = Duration::from_millis((wake_ms - now_ms).max(0).unsigned_abs());
        let busy = self.connections.is_busy() || !mailbox.may_sleep();
        let result = self.poll.poll(events, Some(if busy { Duration::ZERO } else { timeout }));
        mailbox.is_awake();
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }

    /// Accepts new connections and spreads them over the threads.
    fn accept(&mut self, now_ms: i64) {
        self.accept_retry_ms = None;
        let was_paused = std::mem::replace(&mut self.accept_paused, false);
        for port in ClientPort::ALL {
            self.accept_from(port, now_ms, was_paused);
        }
    }

    fn accept_from(&mut self, port: ClientPort, now_ms: i64, was_paused: bool) {
        for _ in 0..ACCEPTS_PER_ITERATION_MAX {
            let listener = match port {
                ClientPort::Client => &self.listener,
                ClientPort::Secure => &self.secure_listener,
            };
            let Some(listener) = listener else { return };
            if self.connections_max <= self.shared.connections.descriptors() {
                return self.pause_accept(now_ms, was_paused, "no free file descriptors");
            }
            match accept(listener, port, &self.shared) {
                Ok(AcceptOutcome::Admitted(stream, address)) => {
                    self.on_admitted(WaitingClient { tcp: stream, address, port }, now_ms)
                }
                Ok(AcceptOutcome::Refused(address, reason)) => {
                    self.shared.metrics.connection_rejected.add(1);
                    if let Some(suppressed) = self.refusal_log.allow(now_ms) {
                        let limits = self.shared.live();
                        let max = if reason == Refused::Address { limits.max_client_cnxns } else { limits.max_cnxns };
                        tracing::warn!(suppressed, "Too many connections from /{} - max is {max}", address.ip());
                    }
                }
                Ok(AcceptOutcome::Aborted) => (),
                Ok(AcceptOutcome::Empty) => return,
                Err(error) => return self.pause_accept(now_ms, was_paused, &error.to_string()),
            }
        }
        self.accept_retry_ms = Some(now_ms); // more may be pending, and the event for them is already consumed
    }

    /// Passes a connection on, after a delay if logins from its address have failed.
    fn on_admitted(&mut self, client: WaitingClient, now_ms: i64) {
        match self.shared.failed_logins.delay_ms(client.address.ip(), now_ms) {
            0 => self.pass_on(client),
            delay_ms => {
                self.shared.metrics.delayed_connections.add(1);
                self.delayed.push_back((now_ms + delay_ms, client));
            }
        }
    }

    /// Passes a connection to its thread, or to a handshake thread first.
    fn pass_on(&mut self, WaitingClient { tcp, address, port }: WaitingClient) {
        if let Some(tls) = self.shared.tls.as_ref().filter(|tls| tls.covers(port)) {
            return tls.begin_handshake(WaitingClient { tcp, address, port });
        }
        let client = AcceptedClient { transport: Transport::plain(tcp, port), address, identities: Vec::new() };
        let thread = self.next_thread;
        self.next_thread = (thread + 1) % self.shared.mailboxes.len();
        if thread == usize::from(self.number) {
            self.add(client);
        } else {
            self.shared.mailboxes[thread].put(|mail| mail.accepted.push(client));
        }
    }

    /// Stops accepting until connections close. Open connections are served on.
    fn pause_accept(&mut self, now_ms: i64, was_paused: bool, reason: &str) {
        if !was_paused && let Some(suppressed) = self.refusal_log.allow(now_ms) {
            let connections = self.shared.connections.descriptors();
            tracing::error!(connections, suppressed, "accept paused: {reason}; raise ulimit -n or lower maxCnxns");
        }
        self.accept_paused = true;
        self.accept_retry_ms = Some(now_ms + ACCEPT_PAUSE_MS);
    }

    fn add(&mut self, AcceptedClient { transport, address, identities }: AcceptedClient) {
        let (now, port) = (self.shared.clock.now(), transport.port);
        if self.shared.tls.is_some() && !transport.is_tls() {
            let stats = &self.shared.stats;
            if address.ip().is_loopback() { &stats.plain_local } else { &stats.plain_remote }.add(1);
        }
        let mut host = Host { shared: &self.shared, registry: self.poll.registry(), records: &mut self.records };
        if self.connections.add(transport, address, identities, now, &mut host).is_err() {
            self.shared.connections.abandon(port, address.ip());
        }
    }
}

fn readiness(event: &Event) -> Readiness {
    Readiness {
        readable: event.is_readable(),
        writable: event.is_writable(),
        read_closed: event.is_read_closed() || event.is_error(),
        broken: event.is_error() || event.is_write_closed(),
    }
}
