//! Members whose ports are flooded with connections that do not identify themselves, from the address of a member.

use crate::members::Ensemble;
use crate::strangers::addresses;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than a connect takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than the ports take; before there were shares for unidentified connections, 256 and 64 were enough.
const CONNECTIONS: usize = 320;

/// What each connection sends; the argument numbers connections.
type Payload = fn(i64) -> Vec<u8>;

/// A thread that keeps a port full: a connection that is closed is replaced.
struct Flood {
    stops: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Floods a port. With a `pause` of zero it connects as fast as it can.
    fn start(address: SocketAddr, payload: Payload, pause: Duration) -> Self {
        let (stops, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (Arc::clone(&stops), Arc::clone(&opened));
        let thread = std::thread::spawn(move || {
            let (mut open, mut number) = (Vec::new(), 0);
            while !stopped.load(Ordering::Relaxed) {
                open.retain_mut(is_open);
                while open.len() < CONNECTIONS && !stopped.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) else {
                        break;
                    };
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

    /// Waits until so many connections have been opened.
    fn wait_for(&self, count: usize) {
        let until = Instant::now() + PATIENCE;
        while self.opened() < count {
            assert!(Instant::now() < until, "{} connections were opened", self.opened());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

fn is_open(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 512];
    !matches!(stream.read(&mut bytes), Ok(0)) && stream.take_error().is_ok_and(|error| error.is_none())
}

fn silent(_: i64) -> Vec<u8> {
    Vec::new()
}

/// The first bytes of a learner's hello, or of an election hello: both begin with a part of a number.
fn partial(_: i64) -> Vec<u8> {
    vec![0, 0, 0]
}

/// The hello of an observer that is in no configuration: FOLLOWERINFO's counterpart, with another number each time.
fn observer(number: i64) -> Vec<u8> {
    let info = [&(1_000 + number).to_be_bytes()[..], &0x10000_i32.to_be_bytes(), &0_i64.to_be_bytes()].concat();
    let length = (info.len() as i32).to_be_bytes();
    [&16_i32.to_be_bytes()[..], &0_i64.to_be_bytes(), &length, &info, &0_i32.to_be_bytes()].concat()
}

/// An election hello of a server that is in no configuration, with another number each time.
fn voter(number: i64) -> Vec<u8> {
    let address = b"127.0.0.1:1";
    let length = (address.len() as i32).to_be_bytes();
    [&(-65536_i64).to_be_bytes()[..], &(1_000 + number).to_be_bytes(), &length, address].concat()
}

/// Restarts a follower, in peace and during floods of the leader's quorum port and of all election ports.
fn check(home: &Path, quorum: Payload, election: Payload, pause: Duration) {
    // The time for a hello is long: otherwise the port would be free now and then by itself.
    let mut ensemble = Ensemble::start(home, 3, 0, "initLimit=400\nquorumCnxnTimeoutMs=200000");
    let leader = ensemble.leader_but(&[]);
    let follower = (leader + 1) % 3;
    ensemble.kill(follower);
    let began = Instant::now();
    ensemble.restart(follower);
    let in_peace = began.elapsed();
    ensemble.kill(follower);
    let ports = addresses(home);
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
    // The flood still goes on, and costs no more than the shares of the ports.
    let descriptors = ensemble.processes[leader].as_ref().unwrap().descriptors();
    assert!(descriptors < 900, "{descriptors} descriptors");
}

#[test]
fn silent_connections_do_not_keep_a_member_out() {
    let home = tempfile::tempdir().unwrap();
    check(home.path(), silent, silent, Duration::from_millis(1));
}

#[test]
fn partial_hellos_do_not_keep_a_member_out() {
    let home = tempfile::tempdir().unwrap();
    check(home.path(), partial, partial, Duration::from_millis(1));
}

#[test]
fn hellos_of_unknown_servers_do_not_keep_a_member_out() {
    let home = tempfile::tempdir().unwrap();
    check(home.path(), observer, voter, Duration::from_millis(1));
}

/// As many connections as one thread per port can open.
#[test]
fn connections_at_full_rate_do_not_keep_a_member_out() {
    let home = tempfile::tempdir().unwrap();
    check(home.path(), silent, silent, Duration::ZERO);
}
