//! What a service manager such as systemd is notified of.

use crate::process::{self, Running, Site, TIMEOUT_MS};
use ox_testkit::{PATIENCE, Process, RawClient};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

/// The socket of a service manager that restarts services after four seconds without a sign of life.
struct Manager(UnixDatagram);

impl Manager {
    fn start(directory: &Path) -> (Self, Process) {
        let path = directory.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        command.args(["server", "zoo.cfg"]).current_dir(directory);
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "4000000");
        (Self(socket), Process::run(command))
    }

    /// Receives messages until this one. Returns those before it.
    fn wait_for(&self, wanted: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let mut bytes = [0; 256];
            let count = self.0.recv(&mut bytes).unwrap_or_else(|error| panic!("no {wanted}: {error}; {before:?}"));
            let message = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if message.lines().any(|line| line == wanted) {
                return before;
            }
            before.push(message);
        }
    }
}

#[test]
fn standalone_server_is_ready_when_it_serves_and_reports_its_stop() {
    let directory = tempfile::tempdir().unwrap();
    Site::new(directory.path(), "");
    let (manager, mut process) = Manager::start(directory.path());
    let line = process.wait_for(process::LISTENS);
    let before = manager.wait_for("READY=1");
    assert!(!before.iter().any(|message| message.contains("STATUS=standalone")), "{before:?}");
    let running = Running::bound(process, &line);
    RawClient::open(running.address, TIMEOUT_MS).create("/a", b"");
    manager.wait_for("STATUS=standalone");
    manager.wait_for("WATCHDOG=1");
    manager.wait_for("WATCHDOG=1");
    running.process.signal("TERM");
    manager.wait_for("STOPPING=1");
    assert_eq!(running.process.end().status.code(), Some(0));
}

/// Otherwise the first members of an ensemble would wait for each other's start.
#[test]
fn member_is_ready_before_there_is_a_leader() {
    let directory = tempfile::tempdir().unwrap();
    let ports: Vec<u16> = (0..6).map(|_| ox_testkit::free_port()).collect();
    let servers: Vec<String> =
        (0..3).map(|n| format!("server.{}=127.0.0.1:{}:{}", n + 1, ports[2 * n], ports[2 * n + 1])).collect();
    Site::new(directory.path(), &format!("initLimit=10\nsyncLimit=5\n{}\n", servers.join("\n")));
    std::fs::create_dir_all(directory.path().join("data")).unwrap();
    std::fs::write(directory.path().join("data/myid"), "1\n").unwrap();
    let (manager, process) = Manager::start(directory.path());
    manager.wait_for("READY=1");
    manager.wait_for("STATUS=waiting for a leader");
    manager.wait_for("WATCHDOG=1");
    drop(process);
}
