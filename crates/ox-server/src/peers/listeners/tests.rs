//! Listeners on real addresses.

use super::*;
use mio::{Poll, Waker};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

struct Fixture {
    listeners: Listeners,
    poll: Poll,
    tokens: usize,
    accepted: Vec<Port>,
    unbound: Vec<Port>,
}

impl Fixture {
    fn new() -> Self {
        Self::with(NameLookup::system())
    }

    fn with(lookup: NameLookup) -> Self {
        let poll = Poll::new().unwrap();
        let commands = PeerCommands::new(Waker::new(poll.registry(), Token(usize::MAX)).unwrap());
        Self {
            listeners: Listeners::new(Arc::new(commands), lookup),
            poll,
            tokens: 0,
            accepted: Vec::new(),
            unbound: Vec::new(),
        }
    }

    /// Runs iterations until a condition holds.
    fn until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        let until = Instant::now() + TEST_TIMEOUT;
        while !is_so(self) {
            assert!(Instant::now() < until, "{:?} {:?}", self.accepted, self.unbound);
            let mut events = mio::Events::with_capacity(16);
            self.poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
            events.iter().for_each(|event| _ = self.listeners.on_ready(event.token()));
            let tokens = &mut self.tokens;
            let token = || {
                *tokens += 1;
                Token(*tokens)
            };
            let unbound = self.listeners.take(token, self.poll.registry());
            self.unbound.extend(unbound);
            self.accepted.extend(self.listeners.accept(|_| usize::MAX).into_iter().map(|(port, ..)| port));
            self.listeners.on_time(Instant::now());
        }
    }

    /// Connects, and waits until the connection is accepted.
    fn check_open(&mut self, address: &str, port: u16) {
        let before = self.accepted.len();
        let mut caller = None;
        self.until(|fixture| {
            caller = caller.take().or_else(|| std::net::TcpStream::connect((address, port)).ok());
            before < fixture.accepted.len()
        });
    }
}

fn free(host: &str) -> Address {
    Address::new(host, std::net::TcpListener::bind((host, 0)).unwrap().local_addr().unwrap().port())
}

/// An unknown name and an address in use do not affect the other addresses (K88).
#[test]
fn k088_port_is_open_on_every_address_that_can_be_bound() {
    let mut fixture = Fixture::new();
    let (first, second) = (free("127.0.0.1"), free("127.0.0.2"));
    let holder = std::net::TcpListener::bind(("127.0.0.3", 0)).unwrap();
    let held = Address::new("127.0.0.3", holder.local_addr().unwrap().port());
    let unknown = Address::new("no-such-host.invalid", 1);
    fixture.listeners.open(Port::Quorum, vec![unknown, held.clone(), first.clone(), second.clone()]);
    fixture.check_open("127.0.0.1", first.port);
    fixture.check_open("127.0.0.2", second.port);
    assert_eq!(fixture.accepted, [Port::Quorum; 2]);
    drop(holder);
    fixture.check_open("127.0.0.3", held.port);
    fixture.listeners.open(Port::Quorum, vec![second.clone()]);
    assert!(std::net::TcpStream::connect(("127.0.0.1", first.port)).is_err(), "it has moved");
    fixture.check_open("127.0.0.2", second.port);
    fixture.listeners.close(Port::Quorum);
    assert!(std::net::TcpStream::connect(("127.0.0.2", second.port)).is_err());
}

#[test]
fn port_without_any_address_is_reported() {
    let mut fixture = Fixture::new();
    fixture.listeners.open(Port::Quorum, vec![Address::new("no-such-host.invalid", 1)]);
    fixture.until(|fixture| !fixture.unbound.is_empty());
    assert_eq!(fixture.unbound[0], Port::Quorum);
    let error = fixture.listeners.bind_with_retry(Port::Election, vec![Address::new("no-such-host.invalid", 1)], 1);
    assert!(error.is_err());
}

/// The wildcard address covers IPv4 and IPv6.
#[test]
fn wildcard_address_listens_on_ipv4_and_ipv6() {
    let mut fixture = Fixture::new();
    let port = free("0.0.0.0").port;
    fixture.listeners.bind_with_retry(Port::Election, vec![Address::new("0.0.0.0", port)], 1).unwrap();
    fixture.check_open("127.0.0.1", port);
    if std::net::TcpListener::bind(("::1", 0)).is_ok() {
        fixture.check_open("::1", port);
    }
}

#[test]
fn slow_lookup_delays_no_other_port() {
    let held = [0; 2].map(|port| std::net::TcpListener::bind(("127.0.0.1", port)).unwrap());
    let [slow, fast] = held.map(|listener| listener.local_addr().unwrap().port());
    let (lookup, release) = NameLookup::slow("127.0.0.1:0".parse().unwrap());
    let mut fixture = Fixture::with(lookup);
    fixture.listeners.open(Port::Quorum, vec![Address::new("slow", slow)]);
    fixture.listeners.open(Port::Election, vec![Address::new("fast", fast)]);
    fixture.check_open("127.0.0.1", fast);
    release.send(()).unwrap();
    fixture.check_open("127.0.0.1", slow);
    assert_eq!((fixture.accepted, fixture.unbound), (vec![Port::Election, Port::Quorum], vec![]));
}

/// The followers of an elected leader may dial it in the same moment.
#[test]
fn port_at_an_address_without_a_name_is_bound_when_open_returns() {
    let mut fixture = Fixture::new();
    let address = free("127.0.0.1");
    fixture.listeners.open(Port::Quorum, vec![address.clone()]);
    std::net::TcpStream::connect((address.host.as_str(), address.port)).unwrap();
}
