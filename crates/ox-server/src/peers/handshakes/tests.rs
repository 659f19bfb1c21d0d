//! Connections over real sockets.

use super::super::commands::PeerCommands;
use super::super::port_tls::{self, PeerPortTls};
use super::*;
use mio::{Events, Poll, Waker};
use ox_config::{Config, Environment, StartArgs, SystemProperties};
use ox_proto::ensemble::Address;
use ox_proto::quorum::hello::HelloVersion;
use ox_tls::generate::{CertificateSubject, DevelopmentCa, Validity};
use std::io::Write;
use std::net::{TcpListener, TcpStream as Plain};
use std::path::Path;
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
        Self::with_tls(None)
    }

    fn with_tls(tls: Option<PeerPortTls>) -> Self {
        let poll = Poll::new().unwrap();
        let commands = Arc::new(PeerCommands::new(Waker::new(poll.registry(), Token(0)).unwrap()));
        let security = PeerSecurity::new(tls, None, commands, Arc::default());
        let mut handshakes = Handshakes::new(IDENTIFY_MS, Arc::new(security));
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

/// The stores of a member with TLS, in a directory.
fn member_tls(dir: &Path) -> PeerPortTls {
    let valid = Validity { not_before: 1_577_836_800, not_after: 4_733_510_400 };
    let ca = DevelopmentCa::create("Quorum CA", valid).unwrap();
    let subject = CertificateSubject { common_name: "zk1".to_owned(), host_names: Vec::new(), addresses: Vec::new() };
    std::fs::write(dir.join("key.pem"), &*ca.issue(&subject, valid).unwrap().key_store()).unwrap();
    std::fs::write(dir.join("ca.pem"), ca.certificate()).unwrap();
    std::fs::write(dir.join("myid"), "1").unwrap();
    let file = dir.join("zoo.cfg");
    let dir = dir.display();
    let text = format!(
        "dataDir={dir}\nclientPort=0\ninitLimit=10\nsyncLimit=5\nsslQuorum=true\nssl.quorum.keyStore.location={dir}/key.pem\n\
         ssl.quorum.trustStore.location={dir}/ca.pem\nserver.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\n"
    );
    std::fs::write(&file, text).unwrap();
    let environment = Environment { read: &|path| std::fs::read(path), resolve: &|host| host.parse().ok() };
    let start = StartArgs::File(file);
    let config = Config::load(&start, &SystemProperties::default(), &environment, &mut Vec::new()).unwrap();
    let stores = port_tls::load(&config).unwrap().unwrap();
    PeerPortTls::new(config.member.unwrap().tls.as_ref().unwrap(), &stores)
}

/// The first flight of a client with an empty trust store.
fn client_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let mut client = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
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

#[test]
fn swapped_ports_are_named_on_both_sides() {
    let swapped = learner(&election_hello(7)).err().unwrap();
    assert!(swapped.starts_with("this is a connection to the election port"), "{swapped}");
    assert!(hello::next(&learner_hello(7)).unwrap_err().to_string().starts_with("this is a connection to the quorum"));
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

/// What a member's address sends beyond the capacity stays in the queue of the kernel; other addresses cannot fill it.
#[test]
fn handshakes_of_members_wait_for_workers_and_for_second_flights() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::with_tls(Some(member_tls(dir.path())));
    let (hello, port) = (client_hello(), Port::Quorum);
    let limits = fixture.handshakes.limits;
    let max = first_flights_max(limits);
    let _others: Vec<Plain> = (0..20).map(|_| fixture.connect(port, Origin::Other, &hello)).collect();
    assert_eq!(fixture.handshakes.room(port), max);
    let mut members = vec![fixture.connect(port, Origin::Member, &hello[..20])];
    assert_eq!(fixture.handshakes.room(port), max, "an incomplete flight needs no worker");

    while members.len() <= negotiating_max(limits, Origin::Member) {
        assert_eq!(fixture.handshakes.room(port), max);
        members.extend((0..max).map(|_| fixture.connect(port, Origin::Member, &hello)));
        assert_eq!((fixture.handshakes.room(port), fixture.handshakes.room(Port::Election)), (0, max));
        (0..max).for_each(|_| assert!(fixture.handshakes.security.workers.run_next(), "members come first"));
        for result in fixture.handshakes.security.workers.take() {
            assert!(fixture.handshakes.on_tls(result).is_none());
        }
    }
    fixture.handshakes.began = Instant::now(); // however slow this test is, all are young
    assert_eq!(fixture.handshakes.room(port), 0, "the answered ones get time for their second flights");
    fixture.handshakes.began -= TEST_TIMEOUT;
    assert_eq!(fixture.handshakes.room(port), max);
    let is_open = |member: &mut Plain| {
        member.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        !matches!(std::io::Read::read(member, &mut [0; 4096]), Ok(0))
    };
    assert!(members.iter_mut().all(is_open), "none was displaced");
}

#[test]
fn ports_without_tls_always_have_room() {
    assert_eq!(Fixture::new().handshakes.room(Port::Quorum), usize::MAX);
}
