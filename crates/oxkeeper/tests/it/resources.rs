//! Descriptors, memory and CPU time: nothing leaks, and no thread spins.

use crate::process::{LISTENS, Running, Site, TIMEOUT_MS};
use ox_testkit::{Process, RawClient, RawConnection, RawHandshake, RawPacket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn k147_failed_connections_leak_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let mut steady = running.client();
    let before = running.process.descriptors();
    for round in 0..10_000 {
        let mut raw = RawConnection::connect(running.address);
        match round % 4 {
            0 => (),
            1 => _ = raw.try_send(&[0xff; 4]),
            2 => _ = raw.try_send(&[0, 0, 0, 45, 1, 2, 3]),
            _ => _ = raw.try_send(&RawHandshake { last_zxid_seen: i64::MAX, ..RawHandshake::new(TIMEOUT_MS) }.frame()),
        }
    }
    let begun = Instant::now();
    while before < running.process.descriptors() {
        assert!(begun.elapsed() < Duration::from_secs(9), "before idle connections are looked for");
        assert_eq!(steady.ping().err, 0);
    }
    running.stop();
}

/// A server whose shell lowers its limit of open files first.
fn limited(limit: &str, directory: &Path, settings: &str) -> Process {
    Site::new(directory, settings);
    let mut command = Command::new("sh");
    let script = format!("ulimit {limit}; exec \"$0\" server zoo.cfg");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_oxkeeper")]).current_dir(directory);
    Process::run(command)
}

/// Existing connections continue, new ones wait, and the server does not spin meanwhile (F6).
#[test]
fn k147_new_connections_wait_without_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let mut running = Running::wait(limited("-n 64", directory.path(), "snapCount=20\n"));
    let mut steady = running.client();
    let mut crowd: Vec<RawConnection> = (0..100).map(|_| RawConnection::connect(running.address)).collect();
    running.process.wait_for("accept paused");
    for number in 0..200 {
        assert_eq!(steady.create(&format!("/n{number}"), b"").err, 0, "logs and snapshots have what they need");
    }
    running.process.wait_for("Snapshot taken");
    running.process.check_idle();
    // New connections are accepted as others close.
    crowd.truncate(5);
    assert_eq!(running.client().exists("/n0").err, 0);
    let said = running.stop();
    assert!(!said.contains("Too many open files"), "{said}");
}

#[test]
fn descriptor_limit_is_raised_to_the_hard_limit() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::wait(limited("-Sn 40; ulimit -Hn 300", directory.path(), ""));
    let mut crowd: Vec<RawClient> = (0..100).map(|_| running.client()).collect();
    assert!(crowd.iter_mut().all(|client| client.ping().err == 0));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.process.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("300"), "{line}");
    assert!(running.process.said.iter().any(|line| line.contains("limit=300")));
    running.stop();
}

#[test]
fn start_without_enough_descriptors_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let ended = limited("-n 30", directory.path(), "").end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
    assert!(ended.said.contains("the limit of open files is 30"), "{}", ended.said);
}

/// Connections that wait, each for a different reason, use no CPU time.
#[test]
fn k139_waiting_connections_use_no_cpu_time() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "4lw.commands.whitelist=*\n").start();
    let mut client = running.client();
    client.create("/big", &vec![1; 1_000_000]);
    // A client that sends requests and does not read the replies.
    let mut deaf = running.client();
    deaf.send(&(0..2000).fold(RawPacket::default(), |packet, xid| packet.get(xid, "/big")));
    // Incomplete frames, before and after the handshake.
    let mut halves: Vec<RawConnection> = (0..10).map(|_| RawConnection::connect(running.address)).collect();
    for (number, raw) in halves.iter_mut().enumerate() {
        if number % 2 == 0 {
            raw.handshake(&RawHandshake::new(TIMEOUT_MS));
        }
        raw.send(&[0, 0, 4, 0, 1, 2, 3]);
    }
    // Connections that have their reply and stay open, and one that sent more than a four-letter command.
    let mut worded = RawConnection::connect(running.address);
    worded.send(b"srvr and then some");
    let mut dead = RawClient::open(running.address, TIMEOUT_MS);
    dead.send(&RawPacket::default().raw(1, 99, b""));
    assert_eq!(client.ping().err, 0);
    running.process.check_idle();
    running.stop();
}

/// The reader of the log is stopped: the server continues, and stops when requested (R28).
#[test]
fn unread_log_does_not_stop_the_server() {
    let directory = tempfile::tempdir().unwrap();
    Site::new(directory.path(), "4lw.commands.whitelist=*\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    command.args(["server", "--log", "trace", "zoo.cfg"]).current_dir(directory.path());
    let mut running = Running::wait(Process::run_until(command, Some(LISTENS)));
    let mut client = running.client();
    // Each connection logs a line or more, and a pipe holds some hundred.
    for _ in 0..3000 {
        let mut raw = RawConnection::connect(running.address);
        raw.send(b"ruok");
        assert_eq!(raw.rest(), b"imok");
    }
    assert_eq!(client.create("/a", b"").err, 0);
    let asked = Instant::now();
    running.process.signal("TERM");
    assert_eq!(running.process.wait_for_exit().code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
}

/// The log goes to a full disk, or to a reader that has exited.
#[test]
fn unwritable_log_does_not_stop_the_server() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let (_, closed) = std::io::pipe().unwrap();
    for stderr in [Stdio::from(full), Stdio::from(closed)] {
        let directory = tempfile::tempdir().unwrap();
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], ox_testkit::free_port()));
        Site::new(directory.path(), &format!("4lw.commands.whitelist=*\nclientPort={}\n", address.port()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        command.args(["server", "--log", "trace", "zoo.cfg"]).current_dir(directory.path());
        let mut process = Process::run_with_stderr(command, stderr);
        let begun = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not start");
        }
        let mut client = RawClient::open(address, TIMEOUT_MS);
        for number in 0..100 {
            assert_eq!(client.create(&format!("/n{number}"), b"").err, 0);
            let mut raw = RawConnection::connect(address);
            raw.send(b"ruok");
            assert_eq!(raw.rest(), b"imok");
        }
        process.signal("TERM");
        assert_eq!(process.wait_for_exit().code(), Some(0));
    }
}

#[test]
fn closed_stderr_is_no_crash() {
    for arguments in [&["server", "missing.cfg"][..], &["server", "--log", "x=y"], &["log", "dump", "missing"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        command.args(arguments);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let code = Process::run_with_stderr(command, full.into()).wait_for_exit().code();
        assert!(matches!(code, Some(1 | 2)), "{arguments:?}: {code:?}");
    }
}

#[test]
fn k164_unknown_peers_do_not_fill_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path(), "4lw.commands.whitelist=*\n");
    site.flags = vec!["--log".to_owned(), "info,ox_server::status::four_letter=debug".to_owned()];
    let running = site.start();
    for _ in 0..1000 {
        let mut raw = RawConnection::connect(running.address);
        raw.send(b"ruok");
        assert_eq!(raw.rest(), b"imok");
        drop(running.client());
    }
    let said = running.stop();
    for text in ["Processing ruok command", "Unable to read additional data from client"] {
        let count = said.lines().filter(|line| line.contains(text)).count();
        assert!((10..100).contains(&count), "{count} times: {text}");
    }
}

/// Replies wait for the client, and requests wait for the replies.
#[test]
fn k146_replies_to_a_slow_reader_are_bounded() {
    const COUNT: i32 = 60;
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let mut client = running.client();
    let data = vec![5; 1_000_000];
    client.create("/big", &data);
    assert_eq!(client.get("/big").data().unwrap(), data);
    running.process.forget_peak();
    let before = running.process.peak_bytes();
    client.send(&(1..=COUNT).fold(RawPacket::default(), |packet, xid| packet.get(xid, "/big")));
    // Other clients are served meanwhile, long enough for all replies to be produced if the server did.
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

/// Memory grows with received bytes, not with announced lengths.
#[test]
fn k151_announced_frames_use_no_memory() {
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

/// Writes of a megabyte, large replies that are not read, and incomplete requests, all together.
#[test]
fn memory_after_a_flood_returns_to_the_system() {
    const BUDGET: usize = 64 << 20;
    const CLIENTS: usize = 100;
    const LARGE: usize = 1_000_000;
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), &format!("oxkeeper.memoryBudget={BUDGET}\nmaxClientCnxns=0\n")).start();
    let mut client = running.client();
    client.create("/large", &vec![1; LARGE]);
    running.process.forget_peak();
    let before = running.process.memory_bytes();
    let mut readers: Vec<_> = (0..CLIENTS).map(|_| running.client()).collect();
    let reads = (1..=50).fold(RawPacket::default(), |packet, xid| packet.get(xid, "/large"));
    readers.iter_mut().for_each(|reader| reader.send(&reads));
    let set = RawPacket::default().set(1, "/large", &vec![2; LARGE]);
    let mut halves: Vec<_> = (0..CLIENTS).map(|_| running.client()).collect();
    for half in &mut halves {
        half.raw.writer().set_nonblocking(true).unwrap();
        half.raw.try_send(&set.0[..LARGE / 10 * 9]); // as much as the socket accepts
    }
    let address = running.address;
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let mut writer = RawClient::open(address, TIMEOUT_MS);
                (0..5).for_each(|_| writer.send(&set));
                (0..5).for_each(|_| assert_eq!(writer.reply().err, 0));
            });
        }
        (0..20).for_each(|_| assert_eq!(client.ping().err, 0));
    });
    let grown = running.process.peak_bytes() - before;
    assert!(grown < 2 * BUDGET, "{grown} bytes with a budget of {BUDGET}");
    drop((readers, halves));
    let begun = Instant::now();
    while before + (24 << 20) < running.process.memory_bytes() {
        let now = running.process.memory_bytes();
        assert!(begun.elapsed() < Duration::from_secs(60), "{now} bytes, {before} before the flood");
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(client.ping().err, 0);
    }
    running.stop();
}
