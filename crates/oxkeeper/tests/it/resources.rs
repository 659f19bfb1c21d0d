//! Descriptors and processor time: nothing leaks, and nothing spins.

use crate::process::{Process, Running, Site, TIMEOUT_MS};
use crate::raw::{Client, Hello, Packet, Raw};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn k147_failed_connections_leak_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let mut steady = running.client();
    let before = running.process.descriptors();
    for round in 0..10_000 {
        let mut raw = Raw::connect(running.address);
        match round % 4 {
            0 => (),
            1 => _ = raw.try_send(&[0xff; 4]),
            2 => _ = raw.try_send(&[0, 0, 0, 45, 1, 2, 3]),
            _ => _ = raw.try_send(&Hello { last_zxid_seen: i64::MAX, ..Hello::new(TIMEOUT_MS) }.frame()),
        }
    }
    let begun = Instant::now();
    while before < running.process.descriptors() {
        assert!(begun.elapsed() < Duration::from_secs(9), "before idle connections are looked for");
        assert_eq!(steady.ping().err, 0);
    }
    running.stop();
}

/// F6: those who are connected go on, newcomers wait, and the server does not spin meanwhile.
#[test]
fn k147_without_descriptors_newcomers_wait() {
    let directory = tempfile::tempdir().unwrap();
    Site::new(directory.path(), "");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 60; exec \"$0\" server zoo.cfg", env!("CARGO_BIN_EXE_oxkeeper")]);
    command.current_dir(directory.path());
    let mut running = Running::wait(Process::run(command));
    let mut steady = running.client();
    let mut crowd: Vec<Raw> = (0..100).map(|_| Raw::connect(running.address)).collect();
    running.process.wait_for("cannot accept a connection");
    assert_eq!(steady.create("/a", b"").err, 0, "the log has what it needs");
    running.process.check_idle();
    // One after the other gets in as others go.
    crowd.truncate(20);
    assert_eq!(running.client().exists("/a").err, 0);
    running.stop();
}

/// Connections that wait for something, each in its own way, cost no processor time.
#[test]
fn k139_waiting_is_not_spinning() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "4lw.commands.whitelist=*\n").start();
    let mut client = running.client();
    client.create("/big", &vec![1; 1_000_000]);
    // A client that does not read its answers and goes on asking.
    let mut deaf = running.client();
    deaf.send(&(0..2000).fold(Packet::default(), |packet, xid| packet.get(xid, "/big")));
    // Incomplete frames, before and after the handshake, with and without an end.
    let mut halves: Vec<Raw> = (0..10).map(|_| Raw::connect(running.address)).collect();
    for (number, raw) in halves.iter_mut().enumerate() {
        if number % 2 == 0 {
            raw.handshake(&Hello::new(TIMEOUT_MS));
        }
        raw.send(&[0, 0, 4, 0, 1, 2, 3]);
    }
    // Connections that have their answer and do not go, and one that said more than a word.
    let mut worded = Raw::connect(running.address);
    worded.send(b"srvr and then some");
    let mut dead = Client::open(running.address, TIMEOUT_MS);
    dead.send(&Packet::default().raw(1, 99, b""));
    assert_eq!(client.ping().err, 0);
    running.process.check_idle();
    running.stop();
}

/// R28: whoever is to read the log has gone to sleep; the server goes on, and ends when it is asked to.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    Site::new(directory.path(), "4lw.commands.whitelist=*\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    command.args(["server", "--log", "trace", "zoo.cfg"]).current_dir(directory.path());
    let mut running = Running::wait(Process::run_until(command, "binding to port "));
    let mut client = running.client();
    // Each leaves a line or more, and a pipe holds some hundred.
    for _ in 0..3000 {
        let mut raw = Raw::connect(running.address);
        raw.send(b"ruok");
        assert_eq!(raw.rest(), b"imok");
    }
    assert_eq!(client.create("/a", b"").err, 0);
    running.process.signal("TERM");
    assert_eq!(running.process.end_unheard().code(), Some(0));
}

/// Answers wait for the client, and requests wait for the answers.
#[test]
fn k146_answers_to_a_client_that_does_not_read_are_bounded() {
    const COUNT: i32 = 60;
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let mut client = running.client();
    let data = vec![5; 1_000_000];
    client.create("/big", &data);
    assert_eq!(client.get("/big").data().unwrap(), data);
    running.process.forget_peak();
    let before = running.process.peak_bytes();
    client.send(&(1..=COUNT).fold(Packet::default(), |packet, xid| packet.get(xid, "/big")));
    // Others are served meanwhile, long enough for all of the answers to be made if they were.
    let (mut other, begun) = (running.client(), Instant::now());
    while begun.elapsed() < Duration::from_secs(1) {
        assert_eq!(other.ping().err, 0);
    }
    let grown = running.process.peak_bytes() - before;
    assert!(grown < 20 << 20, "{grown} bytes of {COUNT} MB");
    for xid in 1..=COUNT {
        let reply = client.reply();
        assert_eq!((reply.xid, reply.body.len()), (xid, 4 + data.len() + 68));
    }
    running.stop();
}

/// Memory follows what has come, not what was announced.
#[test]
fn k151_announced_frames_cost_nothing() {
    const LIARS: usize = 500;
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let mut liars: Vec<_> = (0..LIARS).map(|_| running.client()).collect();
    running.process.forget_peak();
    let before = running.process.peak_bytes();
    for liar in &mut liars {
        liar.raw.send(&1_048_575_i32.to_be_bytes());
        liar.raw.send(&[0; 10]);
    }
    assert_eq!(running.client().create("/a", b"").err, 0);
    let grown = running.process.peak_bytes() - before;
    assert!(grown < LIARS * (16 << 10), "{grown} bytes for {LIARS} announced megabytes");
    running.stop();
}
