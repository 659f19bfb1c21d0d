//! Listeners of the ports that other servers connect to, each on all of its addresses.
//!
//! Host names are resolved and ports bound on separate threads, so that the peers thread does not wait. An address that
//! cannot be bound is retried, while the others are used.

use super::commands::PeerCommands;
use super::resolver::NameLookup;
use crate::limits::ACCEPTS_PER_ITERATION_MAX;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use ox_proto::ensemble::Address;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between two attempts to bind a port, as in Apache.
const BIND_PAUSE: Duration = Duration::from_secs(1);
/// Connections that the kernel accepts ahead of the server.
const BACKLOG: i32 = 1024;

/// The purpose of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Port {
    /// Connections that carry notifications.
    Election,
    /// Links from learners of a leader.
    Quorum,
    /// Links from observers of an observer master.
    Observers,
}

impl Port {
    fn name(self) -> &'static str {
        match self {
            Port::Election => "election",
            Port::Quorum => "quorum",
            Port::Observers => "observer master",
        }
    }
}

/// The result of an attempt to bind.
struct Bound {
    port: Port,
    address: Address,
    listener: io::Result<std::net::TcpListener>,
}

#[derive(Default)]
struct PortBindings {
    wanted: Vec<Address>,
    open: Vec<(Address, Token, TcpListener)>,
    /// Addresses whose failure has been logged.
    failed_before: Vec<Address>,
    retry_at: Option<Instant>,
}

/// The listeners of all ports.
pub(super) struct Listeners {
    commands: Arc<PeerCommands>,
    lookup: NameLookup,
    listeners: BTreeMap<Port, PortBindings>,
    /// Attempts in progress, at most one per address.
    pending: Vec<(Port, Address)>,
    done: Arc<Mutex<Vec<Bound>>>,
    /// Listeners with possible pending connections, and whether any is certain.
    ready: BTreeSet<Token>,
    has_more: bool,
}

impl Listeners {
    pub(super) fn new(commands: Arc<PeerCommands>, lookup: NameLookup) -> Self {
        let (listeners, pending, ready) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { commands, lookup, listeners, pending, done: Arc::default(), ready, has_more: false }
    }

    /// Binds a port before the server runs, with retries: another process may be about to release it.
    pub(super) fn bind_with_retry(&mut self, port: Port, wanted: Vec<Address>, attempts_max: u32) -> io::Result<()> {
        let mut attempts = 1;
        loop {
            let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in &wanted {
                match bind(address, &self.lookup) {
                    Ok(listener) => {
                        self.done.lock().push(Bound { port, address: address.clone(), listener: Ok(listener) })
                    }
                    Err(error) => failed = error,
                }
            }
            if !self.done.lock().is_empty() {
                self.open(port, wanted);
                return Ok(());
            }
            if attempts_max != 0 && attempts_max <= attempts {
                return Err(failed);
            }
            log_retry(&wanted, &failed, attempts);
            attempts += 1;
            std::thread::sleep(BIND_PAUSE);
        }
    }

    /// Binds a port to these addresses, and closes its listeners on others.
    pub(super) fn open(&mut self, port: Port, wanted: Vec<Address>) {
        let bindings = self.listeners.entry(port).or_default();
        bindings.open.retain(|(address, ..)| wanted.contains(address));
        (bindings.wanted, bindings.retry_at) = (wanted, None);
        self.bind_missing(port);
    }

    /// Closes all listeners of a port.
    pub(super) fn close(&mut self, port: Port) {
        self.listeners.remove(&port);
    }

    pub(super) fn is_open(&self, port: Port) -> bool {
        self.listeners.contains_key(&port)
    }

    fn bind_missing(&mut self, port: Port) {
        let Some(bindings) = self.listeners.get(&port) else { return };
        let bound: Vec<Address> = self.done.lock().iter().map(|bound| bound.address.clone()).collect();
        let is_open = |address: &Address| bindings.open.iter().any(|(open, ..)| open == address);
        let missing = bindings.wanted.iter().filter(|address| !is_open(address) && !bound.contains(address));
        for address in missing.cloned().collect::<Vec<_>>() {
            if self.pending.contains(&(port, address.clone())) {
                continue;
            }
            self.pending.push((port, address.clone()));
            let (done, commands, lookup) = (Arc::clone(&self.done), Arc::clone(&self.commands), self.lookup.clone());
            let tried = address.clone();
            let work = move || {
                let listener = bind(&tried, &lookup);
                done.lock().push(Bound { port, address: tried, listener });
                commands.wake();
            };
            if address.host.parse::<IpAddr>().is_ok() {
                work(); // no name to resolve, and learners may be dialling already
            } else if let Err(error) = std::thread::Builder::new().name("bind".to_owned()).spawn(work) {
                self.done.lock().push(Bound { port, address, listener: Err(error) });
            }
        }
    }

    /// Takes the results of attempts. Returns ports without any listener.
    pub(super) fn take(&mut self, mut token: impl FnMut() -> Token, registry: &Registry) -> Vec<Port> {
        let mut unbound = Vec::new();
        let done = std::mem::take(&mut *self.done.lock());
        for Bound { port, address, listener } in done {
            self.pending.retain(|(of, tried)| (*of, tried) != (port, &address));
            let Some(bindings) = self.listeners.get_mut(&port).filter(|bindings| bindings.wanted.contains(&address))
            else {
                continue;
            };
            let token = token();
            let listener = listener.and_then(|listener| {
                listener.set_nonblocking(true)?;
                let mut listener = TcpListener::from_std(listener);
                registry.register(&mut listener, token, Interest::READABLE)?;
                Ok(listener)
            });
            match listener {
                Ok(listener) => {
                    bindings.failed_before.retain(|failed_before| *failed_before != address);
                    bindings.open.push((address, token, listener));
                    self.ready.insert(token);
                }
                Err(error) => {
                    if !bindings.failed_before.contains(&address) {
                        tracing::error!(
                            %error, %address, port = port.name(),
                            "cannot listen; retrying. Stop the process that uses the port, or correct the server line of \
                             this server"
                        );
                        bindings.failed_before.push(address);
                    }
                    bindings.retry_at = Some(Instant::now() + BIND_PAUSE);
                    if bindings.open.is_empty() && !self.pending.iter().any(|(of, _)| *of == port) {
                        unbound.push(port);
                    }
                }
            }
        }
        unbound
    }

    /// Retries addresses that could not be bound.
    pub(super) fn on_time(&mut self, now: Instant) {
        let is_due = |bindings: &mut PortBindings| bindings.retry_at.take_if(|at| *at <= now).is_some();
        let due = self.listeners.iter_mut().filter_map(|(port, bindings)| is_due(bindings).then_some(*port));
        for port in due.collect::<Vec<_>>() {
            self.bind_missing(port);
        }
    }

    /// Marks a listener ready; false if the token belongs to none.
    pub(super) fn on_ready(&mut self, token: Token) -> bool {
        let is_listener = self.listeners.values().any(|bindings| bindings.open.iter().any(|(_, of, _)| *of == token));
        if is_listener {
            self.ready.insert(token);
        }
        is_listener
    }

    /// Whether a connection is known to be pending.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Accepts pending connections, up to a limit per listener, and to the `room` of its port. Without room they stay pending.
    pub(super) fn accept(&mut self, room: impl Fn(Port) -> usize) -> Vec<(Port, TcpStream, SocketAddr)> {
        let (mut accepted, mut again) = (Vec::new(), BTreeSet::new());
        self.has_more = false;
        if self.ready.is_empty() {
            return accepted;
        }
        let open = self
            .listeners
            .iter()
            .flat_map(|(port, bindings)| bindings.open.iter().map(|(_, of, way)| (*port, *of, way)));
        for (port, token, listener) in open.filter(|(_, of, _)| self.ready.contains(of)) {
            let mut left = ACCEPTS_PER_ITERATION_MAX.min(room(port));
            if left == 0 {
                again.insert(token);
                continue;
            }
            loop {
                match listener.accept() {
                    Ok((stream, address)) => {
                        accepted.push((port, stream, address));
                        left -= 1;
                        if left == 0 {
                            self.has_more = true;
                            again.insert(token);
                            break;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection from a server");
                        again.insert(token); // in the next iteration
                        break;
                    }
                }
            }
        }
        self.ready = again;
        accepted
    }
}

/// Binds one of the addresses for a moment, without listening, with retries as [`Listeners::bind_with_retry`].
pub(super) fn check(wanted: &[Address], attempts_max: u32) -> io::Result<()> {
    let (lookup, mut attempts) = (NameLookup::system(), 1);
    loop {
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in wanted {
            match bind_socket(address, &lookup) {
                Ok(_) => return Ok(()),
                Err(error) => failed = error,
            }
        }
        if attempts_max != 0 && attempts_max <= attempts {
            return Err(failed);
        }
        log_retry(wanted, &failed, attempts);
        attempts += 1;
        std::thread::sleep(BIND_PAUSE);
    }
}

fn log_retry(wanted: &[Address], error: &io::Error, attempts: u32) {
    let addresses: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    let address = addresses.join(" and ");
    tracing::warn!(%error, address, attempts, "cannot bind the election port; retrying");
}

/// Listens on an address; if its name has several, on the first that can be bound.
fn bind(address: &Address, lookup: &NameLookup) -> io::Result<std::net::TcpListener> {
    let socket = bind_socket(address, lookup)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn bind_socket(address: &Address, lookup: &NameLookup) -> io::Result<Socket> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in lookup.look_up(address)? {
        // Compat: Java's wildcard address covers IPv4 and IPv6, where the system supports both.
        let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port()));
        let first = address.ip().is_unspecified().then(|| bound(everywhere).ok()).flatten();
        match first.map_or_else(|| bound(address), Ok) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn bound(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests;
