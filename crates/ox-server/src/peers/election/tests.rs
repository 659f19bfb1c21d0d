//! Hellos, dials and connections, with a clock that the test moves.

use super::super::commands::PeerCommands;
use super::super::resolver::{NameLookup, Resolver};
use super::super::security::PeerSecurity;
use super::*;
use crate::limits::SUSPECT_REDIAL_INTERVAL;
use ox_proto::quorum::hello;

fn sent_hello(mine: &[Address], local: &str) -> Hello {
    let bytes = hello_of(ServerId(3), mine, Some(local.parse().unwrap())).unwrap();
    hello::next(&bytes).unwrap().unwrap().0
}

/// Servers before 3.6 know a single address only, so one address is sent in their format (K90).
#[test]
fn k090_single_address_is_sent_in_the_old_format() {
    let (one, other) = (Address::new("one", 5), Address::new("other", 6));
    assert_eq!(sent_hello(std::slice::from_ref(&one), "10.0.0.1").version, HelloVersion::V1);
    assert_eq!(sent_hello(&[one, other], "10.0.0.1").version, HelloVersion::V2);
}

#[test]
fn k089_wildcard_address_is_sent_as_the_local_address() {
    let mine = [Address::new("0.0.0.0", 5), Address::new("::", 5), Address::new("one", 6)];
    let expected = [Address::new("10.0.0.1", 5), Address::new("one", 6)];
    assert_eq!(sent_hello(&mine, "10.0.0.1").addresses, expected);
    assert_eq!(
        sent_hello(&mine[1..2], "fe80::1").addresses,
        [Address::new("fe80:0:0:0:0:0:0:1", 5)],
        "as Java writes it"
    );
}

#[test]
fn hello_with_many_addresses_leaves_a_few_to_dial() {
    let named: Vec<Address> = (1..200).map(|port| Address::new("one", port)).collect();
    let sent = std::iter::once(Address::new("0.0.0.0", 5)).chain(named.clone()).collect();
    assert_eq!(dialable(sent), named[..UNKNOWN_ADDRESSES_MAX]);
}

fn elections(me: i64, configured: &[i64]) -> Elections {
    let addresses = |server: i64| vec![Address::new(&format!("10.0.0.{server}"), 1)];
    Elections {
        me: ServerId(me),
        mine: vec![Address::new("127.0.0.1", 1)],
        config: String::new(),
        version: 0,
        is_dynamic: false,
        configured: configured.iter().map(|server| (ServerId(*server), addresses(*server))).collect(),
        voters: BTreeSet::new(),
        keep_alive: false,
        unacked_max: Duration::from_millis(4_321),
        servers: BTreeMap::new(),
        conns: BTreeMap::new(),
        ready: BTreeSet::new(),
        votes: BTreeMap::new(),
        malformed_log: TimedLogLimit::new(),
        closed_log: TimedLogLimit::new(),
        sasl_log: TimedLogLimit::new(),
        shared_id_log: TimedLogLimit::new(),
        sockets: PeerSockets::default(),
    }
}

/// Knows the addresses of servers 1 to 3. Tests do not run its iterations, so it starts no connect.
fn dialer() -> Dialer {
    let poll = mio::Poll::new().unwrap();
    let commands = Arc::new(PeerCommands::new(mio::Waker::new(poll.registry(), Token(0)).unwrap()));
    let security = PeerSecurity::none(Arc::clone(&commands));
    let mut resolver = Resolver::new(commands, NameLookup::system());
    let hosts = (1..=3).map(|server| (ServerId(server), BTreeSet::from([format!("10.0.0.{server}")])));
    resolver.set_members(hosts.collect(), Instant::now());
    Dialer::with(resolver, Duration::from_secs(60), Duration::from_secs(60), security)
}

/// Both ends of a connection.
fn pair() -> (std::net::TcpStream, Stream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.set_nonblocking(true).unwrap();
    (listener.accept().unwrap().0, Stream::Plain(mio::net::TcpStream::from_std(near)))
}

/// Elections, with the remote ends of accepted connections.
struct Fixture {
    elections: Elections,
    far: Vec<std::net::TcpStream>,
}

impl Fixture {
    fn new(me: i64, configured: &[i64]) -> Self {
        Self { elections: elections(me, configured), far: Vec::new() }
    }

    /// Accepts a connection from `10.0.0.<host>` with the hello of a server. Returns whether that server is dialled.
    fn hello(&mut self, server: i64, host: u8, now: Instant) -> bool {
        let (mut dialer, (far, stream)) = (dialer(), pair());
        self.far.push(far);
        let addresses = vec![Address::new("10.0.0.9", 1)];
        let hello = Hello { version: HelloVersion::V1, server: ServerId(server), addresses };
        let (token, address) = (Token(self.far.len()), [10, 0, 0, host].into());
        let conn = Accepted { stream, token, address, input: Vec::new() };
        self.elections.on_hello(hello, conn, now, &mut dialer, &mut Vec::new());
        dialer.is_dialing(self.elections.target(ServerId(server)))
    }

    /// Whether the passage of time alone has a server dialled.
    fn is_dialed(&mut self, server: i64, now: Instant) -> bool {
        let mut dialer = dialer();
        self.elections.on_time(now, &mut dialer);
        dialer.is_dialing(self.elections.target(ServerId(server)))
    }

    /// Sends a notification to server 2, which has a connection.
    fn notify(&mut self, state: PeerState) {
        let vote = ox_zab::Vote { leader: ServerId(1), zxid: ox_proto::Zxid(0), epoch: 0 };
        let note = VoteNotification { state, vote, round: 1, has_version: true };
        let mut dialer = dialer();
        self.elections.notify(ServerId(2), &note, &mut dialer, &mut Vec::new());
        assert!(!dialer.is_dialing(Target::Election(ServerId(2))));
    }
}

#[test]
fn repeated_hello_from_an_unknown_address_is_dialled_back_once_per_interval() {
    // Server 2 is configured, or is not.
    for configured in [&[1, 2, 3][..], &[1, 3]] {
        let (mut fixture, mut now) = (Fixture::new(3, configured), Instant::now());
        let mut dials = 0;
        for _ in 0..40 {
            dials += usize::from(fixture.hello(2, 9, now));
            assert!(!fixture.is_dialed(2, now));
            now += DIAL_BACK_INTERVAL / 10;
        }
        assert_eq!(dials, 4, "{configured:?}");
    }
}

#[test]
fn hello_from_the_address_of_a_member_is_dialled_back_immediately() {
    let (mut fixture, now) = (Fixture::new(3, &[1, 2, 3]), Instant::now());
    assert!(fixture.hello(2, 9, now) && !fixture.hello(2, 9, now));
    assert!(fixture.hello(2, 2, now) && fixture.hello(2, 1, now), "servers may share a host");
}

#[test]
fn unknown_server_without_a_connection_is_evicted_first() {
    let (mut fixture, now) = (Fixture::new(100, &[]), Instant::now());
    fixture.hello(101, 9, now);
    for server in 0..2 * UNKNOWN_SERVERS_MAX as i64 {
        fixture.hello(server % 100, 9, now + Duration::from_millis(1));
        assert!(fixture.elections.servers.len() <= UNKNOWN_SERVERS_MAX);
    }
    assert_eq!(fixture.elections.conns.len(), 1);
    assert!(fixture.elections.servers.contains_key(&ServerId(101)));
}

/// Another host may have connected with the id of the leader, which does not dial by itself.
#[test]
fn connection_from_an_unknown_address_does_not_keep_an_election_from_dialing_the_server() {
    let (mut fixture, now) = (Fixture::new(1, &[1, 2, 3]), Instant::now());
    fixture.hello(2, 9, now);
    fixture.notify(PeerState::Following);
    assert!(!fixture.is_dialed(2, now), "there is no election");
    fixture.notify(PeerState::Looking);
    assert!(fixture.is_dialed(2, now));
    assert!(!fixture.is_dialed(2, now + SUSPECT_REDIAL_INTERVAL / 2), "it may have dialled back");
    assert!(fixture.is_dialed(2, now + SUSPECT_REDIAL_INTERVAL));
    fixture.hello(2, 2, now);
    fixture.notify(PeerState::Looking);
    assert!(!fixture.is_dialed(2, now + 3 * SUSPECT_REDIAL_INTERVAL), "it is from the server's address");
    assert_eq!(fixture.elections.address_of(ServerId(2)), Some([10, 0, 0, 2].into()));
}

#[test]
fn connection_with_a_competing_one_is_probed() {
    let mut elections = elections(1, &[1, 2, 3]);
    let (_far, near) = pair();
    let socket = SockRef::from(near.tcp()).try_clone().unwrap();
    elections.insert(near, Token(1), ServerId(2), Some([10, 0, 0, 2].into()), Vec::new());
    elections.keep(ServerId(2), Token(1), &mut Vec::new());
    assert!(!socket.keepalive().unwrap());
    elections.probe(ServerId(2));
    assert!(socket.keepalive().unwrap());
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_AFTER);
}

/// A connection that was accepted, and one that was dialled.
#[cfg(target_os = "linux")]
#[test]
fn unacknowledged_data_closes_a_connection() {
    let mut elections = Elections { keep_alive: true, ..elections(3, &[]) };
    let timeout = elections.unacked_max;
    let poll = mio::Poll::new().unwrap();
    let ((_far, accepted), (_other_far, dialled)) = (pair(), pair());
    let sockets = [&dialled, &accepted].map(|stream| SockRef::from(stream.tcp()).try_clone().unwrap());
    elections.insert(accepted, Token(1), ServerId(9), None, Vec::new());
    elections.on_dialed(
        ServerId(1),
        Ok(Established { stream: dialled, input: Vec::new(), is_greeted: false }),
        Token(2),
        poll.registry(),
        &mut Vec::new(),
    );
    for socket in &sockets {
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(timeout));
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
    }
}

#[test]
fn version_of_a_configuration_is_read_as_a_hexadecimal_number() {
    assert_eq!(version_of("server.1=one:2:3:participant\nversion=10000000a"), Some(0x1_0000_000a));
    assert_eq!(version_of("server.1=one:2:3:participant\n"), None);
    assert_eq!(version_of("version=?"), None);
}

/// Two hosts with the same `myid` take each other's connections; an operator must be able to see that in a log.
#[test]
fn second_server_with_one_id_is_reported() {
    let fixture = Fixture::new(3, &[1, 2, 3]);
    let problem = |server: i64, port: u16| fixture.elections.shared_id(ServerId(server), &[Address::new("h", port)]);
    assert!(problem(3, 1).unwrap().contains("correct myid"));
    assert!(problem(2, 7).unwrap().contains("two servers use one myid"));
    assert_eq!((problem(2, 1), problem(9, 7)), (None, None), "as configured, and not configured");
    assert_eq!(fixture.elections.shared_id(ServerId(2), &[]), None, "wildcard addresses are not sent");
}
