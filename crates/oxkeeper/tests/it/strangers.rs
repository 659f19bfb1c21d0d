//! Members whose ports are called by strangers, and who call servers that are not there.

use crate::members::Ensemble;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Where members hear each other.
fn addresses(home: &std::path::Path) -> Vec<SocketAddr> {
    let text = std::fs::read_to_string(home.join("1/zoo.cfg")).unwrap();
    let servers = text.lines().filter_map(|line| line.strip_prefix("server.")?.split_once('='));
    let addresses = servers.flat_map(|(_, server)| {
        let (host, ports) = server.split_once(':').unwrap();
        let ports = ports.split(':').filter_map(|port| port.parse::<u16>().ok());
        ports.map(|port| SocketAddr::new(host.parse().unwrap(), port)).collect::<Vec<_>>()
    });
    addresses.collect()
}

/// What no member would say: lengths that cannot be, numbers of nobody, texts that are none, and half of anything.
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

/// Whatever comes to these ports, members hear each other, elect, and serve.
#[test]
fn k083_k092_k096_strangers_do_no_harm() {
    let home = tempfile::tempdir().unwrap();
    let mut ensemble = Ensemble::start(home.path(), 3, 0, "");
    let mut lingering = Vec::new();
    for address in addresses(home.path()) {
        for bytes in nonsense() {
            if let Ok(mut stream) = TcpStream::connect(address) {
                _ = stream.write_all(&bytes);
                lingering.push(stream);
            }
        }
    }
    assert!(40 < lingering.len(), "{} were let in", lingering.len());
    ensemble.client().create("/before", 0);
    let leader = ensemble.leader_but(&[]);
    ensemble.kill(leader);
    ensemble.client().create("/between", 0);
    ensemble.restart(leader);
    ensemble.client().create("/behind", 0);
    let there = ensemble.check_equal();
    assert!(["/before", "/between", "/behind"].iter().all(|path| there.contains_key(*path)));
}

/// Names that nobody knows and addresses that nobody has hold up nobody else.
#[test]
fn k086_k088_servers_that_cannot_be_reached_hold_up_nobody() {
    let home = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let nobody = "server.8=no-such-host.invalid:2888:3888\nserver.9=192.0.2.1:2888:3888";
    let ensemble = Ensemble::start(home.path(), 3, 0, nobody);
    ensemble.client().create("/served", 0);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}
