//! Dials over real sockets, with a clock that the test moves.

use super::super::commands::PeerCommands;
use super::super::resolver::NameLookup;
use super::*;
use mio::{Events, Poll, Waker};
use socket2::{Domain, Socket, Type};
use std::net::{Shutdown, TcpListener};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(600);

struct Caller {
    dialer: Dialer,
    poll: Poll,
    tokens: Tokens,
    now: Instant,
}

impl Caller {
    fn new(lookup: NameLookup) -> Self {
        let poll = Poll::new().unwrap();
        let commands = Arc::new(PeerCommands::new(Waker::new(poll.registry(), Token(0)).unwrap()));
        let security = PeerSecurity::none(Arc::clone(&commands));
        let dialer = Dialer::with(Resolver::new(commands, lookup), TIMEOUT, TIMEOUT, security);
        Self { dialer, poll, tokens: Tokens(0), now: Instant::now() }
    }

    fn run_iteration(&mut self) {
        let mut events = Events::with_capacity(16);
        self.poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
        for event in &events {
            self.dialer.on_ready(event.token(), self.poll.registry());
        }
        self.dialer.run_iteration(self.now, &mut self.tokens, self.poll.registry());
    }

    /// The result of the next dial.
    fn next(&mut self) -> Dialed {
        let until = Instant::now() + TEST_TIMEOUT;
        loop {
            self.run_iteration();
            if let Some(dialed) = self.dialer.take().pop() {
                return dialed;
            }
            assert!(Instant::now() < until);
        }
    }

    fn local_ports(&self) -> Vec<u16> {
        self.dialer.connects.values().map(|connect| connect.stream.local_addr().unwrap().port()).collect()
    }
}

/// A listener that leaves SYNs unanswered, because its backlog is full; `None` where the system answers nevertheless.
fn swallowing() -> Option<(TcpListener, Vec<std::net::TcpStream>)> {
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    full.listen(0).unwrap();
    let listener = TcpListener::from(full);
    let address = listener.local_addr().unwrap();
    let waiting = (0..4).map(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)));
    let waiting: Vec<_> = waiting.collect();
    waiting.iter().any(Result::is_err).then(|| (listener, waiting.into_iter().flatten().collect()))
}

fn at(port: u16) -> Address {
    Address::new("127.0.0.1", port)
}

#[test]
fn k086_all_addresses_are_tried_at_the_same_time() {
    let open = TcpListener::bind("127.0.0.1:0").unwrap();
    // Bound and not listening: it refuses connections, and no other test gets its port.
    let refusing = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    refusing.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let closed = refusing.local_addr().unwrap().as_socket().unwrap().port();
    let Some((full, _waiting)) = swallowing() else { return };
    let ports = [full.local_addr().unwrap().port(), closed, open.local_addr().unwrap().port()];
    let mut addresses: Vec<Address> = ports.map(at).into();
    addresses.insert(1, Address::new("no-such-host.invalid", 1));
    let (mut caller, target) = (Caller::new(NameLookup::system()), Target::Election(ServerId(1)));
    caller.dialer.dial(target, addresses.clone(), Duration::ZERO, caller.now);
    let stream = caller.next().stream.unwrap();
    let (accepted, _) = open.accept().unwrap();
    assert_eq!(accepted.peer_addr().unwrap(), stream.stream.tcp().local_addr().unwrap());
    accepted.shutdown(Shutdown::Both).unwrap();
    caller.dialer.dial(target, addresses[1..3].to_vec(), Duration::ZERO, caller.now);
    assert!(caller.next().stream.is_err(), "refused and unresolved addresses end a dial early");
}

/// The first SYN is lost: the kernel repeats it after a second, and the dialer does not wait for that.
#[test]
fn unanswered_connect_is_followed_by_further_ones() {
    let Some((listener, _waiting)) = swallowing() else { return };
    let (mut caller, target) = (Caller::new(NameLookup::system()), Target::Leader(ServerId(1)));
    caller.dialer.dial(target, vec![at(listener.local_addr().unwrap().port())], Duration::ZERO, caller.now);
    caller.run_iteration();
    let first = caller.local_ports();
    caller.now += CONNECT_RETRY / 2;
    caller.run_iteration();
    assert_eq!((first.len(), caller.local_ports()), (1, first.clone()), "the next connect is not due");
    for number in 2..10 {
        caller.now += CONNECT_RETRY;
        caller.run_iteration();
        assert_eq!(caller.local_ports().len(), number.min(CONNECTS_MAX));
    }
    assert!(!caller.local_ports().contains(&first[0]), "the oldest is abandoned");
    // The network works again.
    listener.set_nonblocking(true).unwrap();
    while listener.accept().is_ok() {}
    caller.now += CONNECT_RETRY;
    let dialed = caller.next();
    assert!(dialed.target == target && dialed.stream.is_ok() && caller.dialer.connects.is_empty());
}

#[test]
fn unanswered_dial_ends_after_its_timeout() {
    let Some((listener, _waiting)) = swallowing() else { return };
    let (mut caller, target) = (Caller::new(NameLookup::system()), Target::Election(ServerId(1)));
    caller.dialer.dial(target, vec![at(listener.local_addr().unwrap().port())], Duration::ZERO, caller.now);
    caller.run_iteration();
    assert!(caller.dialer.is_dialing(target) && caller.dialer.take().is_empty());
    caller.now += TIMEOUT;
    assert!(caller.next().stream.is_err() && caller.dialer.connects.is_empty());
}

#[test]
fn slow_lookup_delays_no_other_dial() {
    let open = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = open.local_addr().unwrap();
    let (lookup, release) = NameLookup::slow(address);
    let mut caller = Caller::new(lookup);
    let (slow, fast) = (Target::Leader(ServerId(1)), Target::Election(ServerId(2)));
    for (target, host) in [(slow, "slow"), (fast, "fast"), (slow, "slow")] {
        caller.dialer.dial(target, vec![Address::new(host, address.port())], Duration::ZERO, caller.now);
    }
    assert_eq!(caller.next().target, fast);
    assert!(caller.dialer.is_dialing(slow) && !caller.dialer.is_dialing(fast));
    release.send(()).unwrap();
    let dialed = caller.next();
    assert!(dialed.target == slow && dialed.stream.is_ok() && !caller.dialer.is_dialing(slow));
}

#[test]
fn dials_to_unknown_servers_are_bounded() {
    let mut caller = Caller::new(NameLookup::system());
    for server in 0..1_000 {
        caller.dialer.dial(Target::Unknown(ServerId(server)), vec![at(1)], Duration::ZERO, caller.now);
    }
    assert_eq!(caller.dialer.dials.len(), UNKNOWN_DIALS_MAX);
    caller.dialer.dial(Target::Election(ServerId(1)), vec![at(1)], Duration::ZERO, caller.now);
    assert!(caller.dialer.is_dialing(Target::Election(ServerId(1))));
}

/// Its hello may name the addresses of other hosts.
#[test]
fn unknown_server_gets_one_connect_to_each_of_a_few_addresses() {
    let Some((listener, _waiting)) = swallowing() else { return };
    let port = listener.local_addr().unwrap().port();
    let loopback = |number: u32| Address::new(&format!("127.0.0.{number}"), port);
    let addresses: Vec<Address> = std::iter::once(at(port)).chain((2..200).map(loopback)).collect();
    let (mut caller, target) = (Caller::new(NameLookup::system()), Target::Unknown(ServerId(1)));
    caller.dialer.dial(target, addresses, Duration::ZERO, caller.now);
    for _ in 0..10 {
        caller.run_iteration();
        assert!(caller.dialer.is_dialing(target), "the first address does not reply");
        caller.now += CONNECT_RETRY;
        caller.dialer.hurry(target, caller.now);
    }
    assert_eq!(caller.tokens.0, UNKNOWN_ADDRESSES_MAX);
}
