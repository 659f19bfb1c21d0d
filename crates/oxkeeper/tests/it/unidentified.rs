//! Floods of the ports of members: connections without a hello from a member's address, and hellos with members' ids
//! from another address.

use crate::members;
use crate::quorum_tls::{self, QuorumCa};
use crate::unknown_peers::addresses;
use ox_testkit::{FailoverClient, TestEnsemble, wait_until};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// More than the ports accept; before unidentified connections had separate limits, 256 and 64 were enough.
const CONNECTIONS: usize = 320;

/// The address that members dial from here, which is one of theirs, and one that no member has.
const MEMBER: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 99);

/// Refused hellos per pause; more would use up the ports of the system.
const REFUSED: usize = 8;

/// What each connection sends; the argument numbers the connections.
type Payload = fn(i64) -> Vec<u8>;

/// A thread that keeps a port full: closed connections are replaced.
struct Flood {
    stops: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Floods a port. With a `pause` of zero it connects as fast as possible.
    fn start(address: SocketAddr, payload: Payload, pause: Duration) -> Self {
        Self::start_from((MEMBER, CONNECTIONS), address, payload, pause)
    }

    /// As `start`, from a given address and with a given number of connections.
    fn start_from(
        (from, open_max): (Ipv4Addr, usize),
        address: SocketAddr,
        payload: impl Fn(i64) -> Vec<u8> + Send + 'static,
        pause: Duration,
    ) -> Self {
        let (stops, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (Arc::clone(&stops), Arc::clone(&opened));
        let thread = std::thread::spawn(move || {
            let (mut open, mut number) = (Vec::new(), 0);
            while !stopped.load(Ordering::Relaxed) {
                open.retain_mut(is_open);
                while open.len() < open_max && !stopped.load(Ordering::Relaxed) {
                    let Some(mut stream) = connect(from, address) else { break };
                    let _ = stream.write_all(&payload(number));
                    stream.set_nonblocking(true).unwrap();
                    open.push(stream);
                    number += 1;
                    counted.store(number as usize, Ordering::Relaxed);
                }
                std::thread::sleep(pause);
            }
        });
        Self { stops, opened, thread: Some(thread) }
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// Waits until this many connections have been opened.
    fn wait_for(&self, count: usize) {
        wait_until(&format!("{count} connections are opened"), || count <= self.opened());
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

fn connect(from: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.bind(&SocketAddr::new(IpAddr::V4(from), 0).into()).ok()?;
    socket.connect_timeout(&to.into(), Duration::from_millis(200)).ok()?;
    Some(socket.into())
}

fn is_open(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 512];
    !matches!(stream.read(&mut bytes), Ok(0)) && stream.take_error().is_ok_and(|error| error.is_none())
}

fn silent(_: i64) -> Vec<u8> {
    Vec::new()
}

/// The first bytes of a hello, of a learner or of an election connection: part of a number.
fn partial(_: i64) -> Vec<u8> {
    vec![0, 0, 0]
}

const FOLLOWERINFO: i32 = 11;
const OBSERVERINFO: i32 = 16;

/// The first packet of a learner that has accepted an epoch.
fn learner_hello(kind: i32, server: i64, epoch: i64) -> Vec<u8> {
    let info = [&server.to_be_bytes()[..], &0x10000_i32.to_be_bytes(), &0_i64.to_be_bytes()].concat();
    let length = (info.len() as i32).to_be_bytes();
    [&kind.to_be_bytes()[..], &(epoch << 32).to_be_bytes(), &length, &info, &0_i32.to_be_bytes()].concat()
}

fn election_hello(server: i64, address: &str) -> Vec<u8> {
    let length = (address.len() as i32).to_be_bytes();
    [&(-65536_i64).to_be_bytes()[..], &server.to_be_bytes(), &length, address.as_bytes()].concat()
}

/// The hello of an observer that is in no configuration, with a different id each time.
fn observer(number: i64) -> Vec<u8> {
    learner_hello(OBSERVERINFO, 1_000 + number, 0)
}

/// The election hello of a server that is in no configuration, with a different id each time.
fn voter(number: i64) -> Vec<u8> {
    election_hello(1_000 + number, "127.0.0.1:1")
}

/// Restarts a follower without a flood, and during floods of the leader's quorum port and all election ports.
fn check(quorum: Payload, election: Payload, pause: Duration) {
    check_in(members::prepare(3, 0, SLOW_HELLO, &[]), quorum, election, pause);
}

/// The hello timeout is long: otherwise the port would become free now and then.
const SLOW_HELLO: &str = "initLimit=400\nquorumCnxnTimeoutMs=200000\n";

fn check_in(ensemble: TestEnsemble, quorum: Payload, election: Payload, pause: Duration) {
    let mut ensemble = ensemble.start();
    let leader = ensemble.leader();
    let follower = (leader + 1) % 3;
    ensemble.kill(follower);
    let began = Instant::now();
    ensemble.restart(follower);
    let in_peace = began.elapsed();
    ensemble.kill(follower);
    let ports = addresses(&ensemble);
    let start = |(at, port): (usize, &SocketAddr)| match at {
        at if at == 2 * leader => Some(Flood::start(*port, quorum, pause)),
        at if at % 2 == 1 && at != 2 * follower + 1 => Some(Flood::start(*port, election, pause)),
        _ => None,
    };
    let mut floods: Vec<Flood> = ports.iter().enumerate().filter_map(start).collect();
    floods.iter().for_each(|flood| flood.wait_for(CONNECTIONS));
    let began = Instant::now();
    ensemble.launch(follower);
    floods.push(Flood::start(ports[2 * follower + 1], election, pause));
    ensemble.wait_until_serving(follower);
    let in_flood = began.elapsed();
    let opened: Vec<usize> = floods.iter().map(Flood::opened).collect();
    eprintln!("back after {in_peace:?}, in the flood after {in_flood:?}, {opened:?} connections");
    ensemble.client_of(follower).create("/served", 0);
    assert_eq!(ensemble.mode(leader).as_deref(), Some("leader"), "the leader was not disturbed");
    // The flood continues, and costs no more descriptors than the limits of the ports.
    let descriptors = ensemble.process(leader).descriptors();
    assert!(descriptors < 900, "{descriptors} descriptors");
}

#[test]
fn silent_connections_do_not_keep_a_member_out() {
    check(silent, silent, Duration::from_millis(1));
}

#[test]
fn partial_hellos_do_not_keep_a_member_out() {
    check(partial, partial, Duration::from_millis(1));
}

#[test]
fn hellos_of_unknown_servers_do_not_keep_a_member_out() {
    check(observer, voter, Duration::from_millis(1));
}

/// As many connections as one thread per port can open.
#[test]
fn connections_at_full_rate_do_not_keep_a_member_out() {
    check(silent, silent, Duration::ZERO);
}

/// The same flood with TLS between servers, whose handshakes take several messages.
fn check_with_tls(payload: Payload) {
    let ensemble = members::prepare(3, 0, &format!("{SLOW_HELLO}{}", quorum_tls::ENABLED), &[]);
    QuorumCa::new("Quorum CA").issue(&ensemble);
    check_in(ensemble, payload, payload, Duration::from_millis(1));
}

/// The first bytes of a TLS handshake.
fn tls_start(_: i64) -> Vec<u8> {
    vec![0x16, 3, 1, 2, 0, 1]
}

/// A complete first flight of a TLS handshake, which costs the server a public-key operation.
fn client_hello(_: i64) -> Vec<u8> {
    static HELLO: OnceLock<Vec<u8>> = OnceLock::new();
    HELLO.get_or_init(quorum_tls::client_hello).clone()
}

#[test]
fn silent_connections_do_not_keep_a_member_with_tls_out() {
    check_with_tls(silent);
}

#[test]
fn partial_tls_handshakes_do_not_keep_a_member_out() {
    check_with_tls(tls_start);
}

#[test]
fn tls_handshakes_that_are_not_completed_do_not_keep_a_member_out() {
    check_with_tls(client_hello);
}

/// Hellos with members' ids, from an address that no member has, on all ports of all members.
fn impostors(ports: &[SocketAddr], epoch: i64) -> Vec<Flood> {
    let elections: Vec<SocketAddr> = ports.iter().skip(1).step_by(2).copied().collect();
    let count = elections.len() as i64;
    let floods = ports.iter().enumerate().map(|(at, port)| {
        // Never the id of the flooded member itself.
        let server = move |number: i64| (at as i64 / 2 + 1 + number % (count - 1)) % count + 1;
        let elections = elections.clone();
        let payload = move |number: i64| match at % 2 {
            0 => learner_hello(FOLLOWERINFO, server(number), epoch),
            _ => election_hello(server(number), &elections[server(number) as usize - 1].to_string()),
        };
        Flood::start_from((ELSEWHERE, REFUSED), *port, payload, Duration::from_millis(1))
    });
    floods.collect()
}

/// Links and election connections of the followers stay, no election runs, and a restarted follower is accepted.
#[test]
fn hellos_with_members_ids_from_other_addresses_do_not_keep_them_out() {
    let mut ensemble = members::start(3, 0, "");
    let leader = ensemble.leader();
    let ports = addresses(&ensemble);
    // How often each member has been LOOKING since its start.
    let elections = |ensemble: &TestEnsemble, members: &[usize]| -> Vec<String> {
        members.iter().map(|at| ensemble.metric(*at, "looking_count").unwrap()).collect()
    };
    let epoch = |ensemble: &TestEnsemble| {
        let reply = ensemble.four_letter(leader, "srvr");
        let zxid = reply.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).expect("it serves").to_owned();
        i64::from_str_radix(&zxid, 16).unwrap() >> 32
    };
    // From now on the leader's zxid contains the epoch. A follower may apply a write before the leader does.
    ensemble.client_of(leader).create("/before", 0);
    let before = elections(&ensemble, &[0, 1, 2]);
    let epoch_before = epoch(&ensemble);
    let floods = impostors(&ports, epoch_before);
    let mut clients: Vec<_> = (0..3).map(|at| ensemble.client_of(at)).collect();
    let write = |clients: &mut [FailoverClient], phase: &str| {
        for number in 0..100 {
            for (at, client) in clients.iter_mut().enumerate() {
                client.create(&format!("/{phase}-{at}-{number}"), 0);
            }
        }
    };
    // Some more connections to each port of these members; only the leader listens for learners.
    let wait = |members: &[usize]| {
        let ports = members.iter().map(|at| 2 * at + 1).chain([2 * leader]);
        ports.for_each(|at| floods[at].wait_for(floods[at].opened() + CONNECTIONS));
    };
    wait(&[0, 1, 2]);
    write(&mut clients, "flooded");
    wait(&[0, 1, 2]);
    assert_eq!(elections(&ensemble, &[0, 1, 2]), before, "a member lost its leader");

    for follower in (0..3).filter(|at| *at != leader) {
        let others: Vec<usize> = (0..3).filter(|at| *at != follower).collect();
        let before = elections(&ensemble, &others);
        ensemble.kill(follower);
        wait(&others); // its id is used by the flood now
        let began = Instant::now();
        ensemble.restart(follower);
        eprintln!("server {} is back after {:?}", follower + 1, began.elapsed());
        write(&mut clients, &format!("restarted-{follower}"));
        assert_eq!(elections(&ensemble, &others), before, "one of {others:?} lost its leader");
    }
    assert_eq!((ensemble.mode(leader).as_deref(), epoch(&ensemble)), (Some("leader"), epoch_before));
    eprintln!("{:?} connections", floods.iter().map(Flood::opened).collect::<Vec<_>>());
}

/// As with network address translation: every member dials from an address that is in no configuration.
#[test]
fn members_that_dial_from_unknown_addresses_restart_and_elect() {
    let mut ensemble = members::prepare(3, 0, "", &[]);
    ensemble.route(|_, to, target| target.map(|address| ([127, 0, 0, to as u8 + 2], address.port()).into()));
    let mut ensemble = ensemble.start();
    for round in 0..3 {
        let leader = ensemble.leader();
        ensemble.kill((leader + 1) % 3);
        ensemble.restart((leader + 1) % 3);
        ensemble.kill(leader);
        ensemble.client().create(&format!("/without-{round}"), 0);
        ensemble.restart(leader);
        ensemble.client_of(leader).create(&format!("/with-{round}"), 0);
    }
    ensemble.check_equal();
}
