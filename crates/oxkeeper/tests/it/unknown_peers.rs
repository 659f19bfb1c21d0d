//! Unknown peers on the ports of members, and members that dial unreachable servers.

use crate::members;
use crate::process;
use ox_proto::ensemble::Address;
use ox_proto::quorum::hello::{self, Hello, HelloVersion};
use ox_proto::quorum::notification::{self, Notification, PeerState};
use ox_proto::{ServerId, Zxid};
use ox_testkit::{PATIENCE, Process, TestEnsemble, free_port, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// The quorum and election addresses of the members.
pub(crate) fn addresses(ensemble: &TestEnsemble) -> Vec<SocketAddr> {
    ensemble.peer_addresses().into_iter().flat_map(|member| [member.quorum, member.election]).collect()
}

/// Malformed input: impossible lengths, unknown server ids, invalid texts, and truncated messages.
fn nonsense() -> Vec<Vec<u8>> {
    let long = |number: i64| number.to_be_bytes().to_vec();
    let int = |number: i32| number.to_be_bytes().to_vec();
    let greeting =
        |server: i64, text: &[u8]| [long(-65536), long(server), int(text.len() as i32), text.to_vec()].concat();
    vec![
        int(i32::MAX),
        int(-1),
        vec![0xff; 5_000],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        long(99),
        long(2)[..3].to_vec(),
        greeting(99, b"127.0.0.1:1"),
        greeting(2, b"\xff\xfe\xc3\x28"),
        [long(-65536), long(1), int(i32::MAX)].concat(),
        [greeting(2, b"127.0.0.1:1"), int(i32::MAX), vec![7; 100]].concat(),
        [greeting(2, b"127.0.0.1:1"), int(40), vec![0xee; 40]].concat(),
        [int(11), vec![0; 40]].concat(),
        [int(17), long(i64::MAX), int(i32::MAX)].concat(),
    ]
}

/// Whatever arrives at these ports, members communicate, elect and serve.
#[test]
fn k083_k092_k096_malformed_input_on_peer_ports_is_harmless() {
    let mut ensemble = members::start(3, 0, "");
    let mut lingering = Vec::new();
    for address in addresses(&ensemble) {
        for bytes in nonsense() {
            if let Ok(mut stream) = TcpStream::connect(address) {
                _ = stream.write_all(&bytes);
                lingering.push(stream);
            }
        }
    }
    assert!(40 < lingering.len(), "{} were let in", lingering.len());
    ensemble.client().create("/before", 0);
    let leader = ensemble.leader();
    ensemble.kill(leader);
    ensemble.client().create("/between", 0);
    ensemble.restart(leader);
    ensemble.client().create("/behind", 0);
    let there = ensemble.check_equal();
    assert!(["/before", "/between", "/behind"].iter().all(|path| there.contains_key(*path)));
}

/// Unresolvable names and unreachable addresses delay no other connection.
#[test]
fn k086_k088_unreachable_servers_delay_no_election() {
    let began = Instant::now();
    let unreachable = "server.8=no-such-host.invalid:2888:3888\nserver.9=192.0.2.1:2888:3888";
    let ensemble = members::start(3, 0, unreachable);
    ensemble.client().create("/served", 0);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// Connects to an election port as an unknown server with a higher id than all members.
fn unknown_server(address: SocketAddr, server: i64) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut hello = Vec::new();
    let addresses = vec![Address::new("127.0.0.1", 1)];
    Hello { version: HelloVersion::V1, server: ServerId(server), addresses }.put(&mut hello).unwrap();
    stream.write_all(&hello).unwrap();
    stream
}

/// The notification of a LOOKING server.
fn looking() -> Vec<u8> {
    let (leader, peer_epoch) = (ServerId(i64::MIN), -1);
    let note = Notification { state: PeerState::Looking, leader, zxid: Zxid(0), round: 1, peer_epoch };
    let mut frame = Vec::new();
    note.put("", &mut frame);
    frame
}

/// A server that sends notifications without end costs at most its own connection.
#[test]
fn p68_flood_of_notifications_is_harmless() {
    let ensemble = members::start(3, 0, "");
    let leader = ensemble.leader();
    let process = ensemble.process(leader);
    process.forget_peak();
    let before = process.peak_bytes();
    let mut flood = unknown_server(addresses(&ensemble)[2 * leader + 1], 99);
    let notes = looking().repeat(10_000);
    let mut client = ensemble.client();
    for number in 0..(200 << 20) / notes.len() {
        flood.write_all(&notes).unwrap();
        if number % 16 == 0 {
            client.create(&format!("/n{number}"), 0);
        }
    }
    let grown = process.peak_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more than {before}");
    assert_eq!(ensemble.mode(leader).as_deref(), Some("leader"), "the leader is still the same");
}

/// Servers in no configuration may ask for the leader, however many have done so before.
#[test]
fn unknown_servers_do_not_exclude_later_ones() {
    let ensemble = members::start(3, 0, "");
    let address = addresses(&ensemble)[1];
    let mut crowd = Vec::new();
    for server in 100..300 {
        let mut later_server = unknown_server(address, server);
        later_server.set_read_timeout(Some(PATIENCE)).unwrap();
        later_server.write_all(&looking()).unwrap();
        let (mut input, mut desk) = (Vec::new(), [0; 4096]);
        while notification::split(&input).unwrap().is_none() {
            let count = later_server.read(&mut desk).unwrap();
            assert!(0 < count, "{server} was turned away");
            input.extend_from_slice(&desk[..count]);
        }
        crowd.push(later_server);
    }
    ensemble.client().create("/served", 0);
}

/// Starts a server with the given `server.N` line, and another one that the test simulates.
fn start_alone(home: &Path, own: &str, other: SocketAddr, properties: &[&str]) -> Process {
    let text = format!(
        "dataDir=data\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n\
         tickTime=500\ninitLimit=20\nsyncLimit=4\n\
         server.1=127.0.0.1:{}:{}\nserver.2={own}\n",
        free_port(),
        other.port()
    );
    std::fs::create_dir(home.join("data")).unwrap();
    std::fs::write(home.join("data/myid"), "2\n").unwrap();
    std::fs::write(home.join("zoo.cfg"), text).unwrap();
    process::start(&[&["server", "zoo.cfg"], properties].concat(), home)
}

/// A wildcard address cannot be dialled: other servers receive the configured address.
#[test]
fn k089_wildcard_address_is_not_sent_to_other_servers() {
    let home = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let election = free_port();
    let own = format!("0.0.0.0:{}:{election}", free_port());
    let mut process = start_alone(home.path(), &own, listener.local_addr().unwrap(), &[]);
    process.wait_for("LOOKING");
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut input, mut desk) = (Vec::new(), [0; 4096]);
    let told = loop {
        let count = stream.read(&mut desk).unwrap();
        assert!(0 < count, "it hangs up after {input:?}");
        input.extend_from_slice(&desk[..count]);
        if let Some((hello, _)) = hello::next(&input).unwrap() {
            break hello;
        }
    };
    assert_eq!((told.server, told.addresses), (ServerId(2), vec![Address::new("127.0.0.1", election)]));
}

/// A server with several addresses listens on each of them.
#[test]
fn server_listens_on_all_its_addresses() {
    let home = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let elections: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let line = |(at, port): (usize, &u16)| format!("127.0.0.{}:{}:{port}", at + 1, free_port());
    let own: Vec<String> = elections.iter().enumerate().map(line).collect();
    let multi = ["-Dzookeeper.multiAddress.enabled=true"];
    let mut process = start_alone(home.path(), &own.join("|"), listener.local_addr().unwrap(), &multi);
    process.wait_for("LOOKING");
    for (at, port) in elections.into_iter().enumerate() {
        let connects = || TcpStream::connect((format!("127.0.0.{}", at + 1), port)).is_ok();
        wait_until(&format!("a server listens at address {at}"), connects);
    }
}
