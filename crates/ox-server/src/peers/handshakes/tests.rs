//! Connections over real sockets.

use super::super::commands::PeerCommands;
use super::*;
use mio::{Events, Poll, Waker};
use ox_proto::ensemble::Address;
use ox_proto::quorum::hello::HelloVersion;
use std::io::Write;
use std::net::{TcpListener, TcpStream as Plain};
use std::time::Duration;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

struct Fixture {
    handshakes: Handshakes,
    poll: Poll,
    listener: TcpListener,
    tokens: usize,
    identified: Vec<Identified>,
}

impl Fixture {
    fn new() -> Self {
        let poll = Poll::new().unwrap();
        let commands = Arc::new(PeerCommands::new(Waker::new(poll.registry(), Token(0)).unwrap()));
        let mut handshakes = Handshakes::new(IDENTIFY_MS, PeerSecurity::none(commands));
        handshakes.limits = UnidentifiedLimits { deadline_ms: 600_000, silent_max: 16, partial_max: 4 };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { handshakes, poll, listener, tokens: 0, identified: Vec::new() }
    }

    /// Connects and sends `first` before the connection is accepted.
    fn connect(&mut self, port: Port, origin: Origin, first: &[u8]) -> Plain {
        let mut caller = Plain::connect(self.listener.local_addr().unwrap()).unwrap();
        caller.write_all(first).unwrap();
        let (stream, address) = self.listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        self.tokens += 1;
        let stream = (TcpStream::from_std(stream), address);
        self.handshakes.add(port, stream, origin, Token(self.tokens), self.poll.registry());
        caller
    }

    /// Iterations until a connection is identified.
    fn next(&mut self) -> Identified {
        let until = Instant::now() + TEST_TIMEOUT;
        loop {
            let mut events = Events::with_capacity(16);
            self.poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
            events.iter().for_each(|event| _ = self.handshakes.on_ready(event.token()));
            self.handshakes.run_iteration();
            self.identified.extend(self.handshakes.take());
            if let Some(identified) = self.identified.pop() {
                return identified;
            }
            assert!(Instant::now() < until);
        }
    }
}

fn election_hello(server: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let addresses = vec![Address::new("127.0.0.1", 1)];
    Hello { version: HelloVersion::V1, server: ServerId(server), addresses }.put(&mut bytes).unwrap();
    bytes
}

fn learner_hello(server: i64) -> Vec<u8> {
    let (kind, accepted) = (ox_zab::LearnerKind::Follower, ox_zab::Epoch(1));
    let mut bytes = Vec::new();
    Message::Hello { server: ServerId(server), kind, accepted, config_version: 0 }.put(&mut bytes);
    bytes
}

#[test]
fn hello_in_pieces_identifies_its_connection_and_the_rest_is_handed_over() {
    let mut fixture = Fixture::new();
    let hello = election_hello(7);
    let mut caller = fixture.connect(Port::Election, Origin::Other, &hello[..9]);
    assert_eq!(fixture.handshakes.conns.len(), 1);
    caller.write_all(&[&hello[9..], b"rest"].concat()).unwrap();
    let identified = fixture.next();
    assert!(matches!(identified.peer, Peer::Election(hello) if hello.server == ServerId(7)));
    assert_eq!((identified.conn.input.as_slice(), fixture.handshakes.conns.len()), (&b"rest"[..], 0));
    let hello = learner_hello(8);
    let _caller = fixture.connect(Port::Quorum, Origin::Other, &hello);
    let identified = fixture.next();
    assert!(matches!(identified.peer, Peer::Learner(ServerId(8))) && identified.conn.input == hello);
}

#[test]
fn connection_with_garbage_is_closed_and_not_counted() {
    let mut fixture = Fixture::new();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0; 4096]] {
        let _caller = fixture.connect(Port::Quorum, Origin::Other, bytes);
    }
    let _caller = fixture.connect(Port::Election, Origin::Other, &(-1_i64).to_be_bytes());
    assert!(fixture.handshakes.conns.is_empty() && fixture.handshakes.take().is_empty());
    let empty = fixture.handshakes.pools.values().all(Unidentified::is_empty);
    assert!(empty);
}

/// The hello of a member is in its socket when a flood from the same address closes the oldest connections.
#[test]
fn hello_that_has_arrived_is_read_before_its_connection_is_closed() {
    let mut fixture = Fixture::new();
    let mut member = fixture.connect(Port::Quorum, Origin::Member, b"");
    let mut flood: Vec<Plain> = (1..16).map(|_| fixture.connect(Port::Quorum, Origin::Member, b"")).collect();
    member.write_all(&learner_hello(3)).unwrap();
    for _ in 0..100 {
        flood.push(fixture.connect(Port::Quorum, Origin::Member, b""));
    }
    let identified = fixture.handshakes.take().pop().expect("it was read before it would have been closed");
    assert!(matches!(identified.peer, Peer::Learner(ServerId(3))));
    assert_eq!(fixture.handshakes.conns.len(), 16);
}

#[test]
fn flood_of_other_addresses_leaves_a_silent_member_connection_open() {
    let mut fixture = Fixture::new();
    let mut member = fixture.connect(Port::Quorum, Origin::Member, b"");
    let partial = &learner_hello(9)[..5];
    let _flood: Vec<Plain> = (0..200)
        .map(|number| fixture.connect(Port::Quorum, Origin::Other, if number % 2 == 0 { b"" } else { partial }))
        .collect();
    assert!(fixture.handshakes.conns.len() <= fixture.handshakes.limits.connections_max());
    member.write_all(&learner_hello(3)).unwrap();
    assert!(matches!(fixture.next().peer, Peer::Learner(ServerId(3))));
    fixture.handshakes.close_port(Port::Quorum);
    assert!(fixture.handshakes.conns.is_empty());
}
