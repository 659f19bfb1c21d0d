//! The log of the built binary: its file, thresholds, rotation, and levels that change at run time.

use crate::process::{Site, start};
use crate::quorum_tls::client_hello;
use ox_testkit::{HttpReply, free_port, http, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

/// Of the password `secret`.
pub(crate) const SUPER_DIGEST: &str = "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n";
pub(crate) const SUPER: &str = "digest super:secret";

/// Lines that open an AdminServer, and its address.
pub(crate) fn admin_lines() -> (String, SocketAddr) {
    let port = free_port();
    let lines = format!("admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={port}\n");
    (lines + SUPER_DIGEST, (Ipv4Addr::LOCALHOST, port).into())
}

pub(crate) fn post(admin: SocketAddr, path: &str, authorization: &str) -> HttpReply {
    http(admin, "POST", path, &[("Authorization", authorization)], b"").unwrap()
}

/// The reply to a four-letter command.
pub(crate) fn four_letter(address: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(command.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn tls_client_on_the_plain_port_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let mut running = Site::new(directory.path(), "").start();
    TcpStream::connect(running.address).unwrap().write_all(&client_hello()).unwrap();
    running.process.wait_for("the client uses TLS, and this port does not");
    running.stop();
}

#[test]
fn log_file_rotates_and_has_its_own_threshold() {
    let directory = tempfile::tempdir().unwrap();
    let logs = directory.path().join("logs");
    let settings = format!(
        "log.dir={}\nlog.file=zk.log\nlog.maxfilesize=16KB\nlog.maxbackupindex=2\nlog.threshold=DEBUG\nconsole.threshold=WARN\n",
        logs.display()
    );
    let site = Site::new(directory.path(), &settings);
    let process = start(&["server", "zoo.cfg"], directory.path());
    wait_until("it logs that it listens", || read(&logs.join("zk.log")).contains("binding to port "));
    assert!(read(&logs.join("zk.log")).contains("oxkeeper starts"), "lines from before the configuration was read");
    let line = read(&logs.join("zk.log")).lines().find(|line| line.contains("binding to port ")).unwrap().to_owned();
    let address: SocketAddr = line
        .split("binding to port ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .trim_start_matches('/')
        .parse()
        .unwrap();
    // Each four-letter command is worth a line at the level debug, and the signal some more.
    wait_until("the file was rotated twice", || {
        four_letter(address, "srvr");
        process.signal("USR1");
        logs.join("zk.log.2").exists()
    });
    assert!(!logs.join("zk.log.3").exists());
    let newest = read(&logs.join("zk.log.1"));
    assert!(newest.len() <= 16 << 10 && newest.contains("DEBUG"), "{}", newest.len());
    process.signal("TERM");
    let ended = process.end();
    assert_eq!(ended.status.code(), Some(0));
    assert!(!ended.said.contains("INFO"), "the console has warnings only: {}", ended.said);
    assert!(read(&logs.join("zk.log")).contains("Exiting normally"));
    drop(site);
}

/// As logrotate does it: rename, then SIGHUP.
#[test]
fn renamed_log_files_are_opened_again_at_sighup() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let settings = format!(
        "log.file={}\naudit.enable=true\noxkeeper.audit.file={}\n",
        path("zk.log").display(),
        path("audit.log").display()
    );
    let running = Site::new(directory.path(), &settings).start();
    running.client().create("/a", b"");
    wait_until("the create is recorded", || read(&path("audit.log")).contains("/a"));
    for name in ["zk.log", "audit.log"] {
        fs::rename(path(name), path(&format!("{name}-old"))).unwrap();
    }
    running.process.signal("HUP");
    wait_until("a new log file is written", || read(&path("zk.log")).contains("configuration reloaded"));
    running.client().create("/b", b"");
    wait_until("the create is recorded", || read(&path("audit.log")).contains("/b"));
    assert!(!read(&path("audit.log-old")).contains("/b"));
    running.stop();
}

/// A disk without space, as `/dev/full` imitates it, costs lines, which are counted, and nothing else.
#[test]
fn full_disk_of_the_log_file_does_not_stop_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "log.dir=/dev\nlog.file=full\n4lw.commands.whitelist=mntr\n").start();
    let mut client = running.client();
    assert_eq!(client.create("/a", b"").path(), "/a");
    drop(client);
    wait_until("dropped lines are counted", || {
        let metrics = four_letter(running.address, "mntr");
        let dropped = metrics.lines().find_map(|line| line.strip_prefix("zk_log_lines_dropped\t"));
        dropped.unwrap().parse::<u64>().unwrap() > 0
    });
    let said = running.stop();
    assert_eq!(said.matches("cannot write the log file: lines are dropped").count(), 1, "{said}");
}

#[test]
fn level_of_a_module_changes_at_run_time() {
    let directory = tempfile::tempdir().unwrap();
    let (lines, admin) = admin_lines();
    let mut running = Site::new(directory.path(), &lines).start();
    let show = || http(admin, "GET", "/commands/log_level", &[], b"").unwrap().text();
    assert!(show().contains("\"levels\" : \"info\""), "{}", show());
    for (authorization, status) in [("", 401), ("ip", 403), ("digest someone:else", 403)] {
        let headers: &[(&str, &str)] = if authorization.is_empty() { &[] } else { &[("Authorization", authorization)] };
        let refused = http(admin, "POST", "/commands/log_level?level=debug", headers, b"").unwrap();
        assert_eq!(refused.status, status, "{authorization}: {}", refused.text());
    }
    assert!(show().contains("\"levels\" : \"info\""));
    let oxkeeper = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        command.arg("admin").args(arguments).args(["-s", &admin.to_string()]).env("OXKEEPER_ADMIN_AUTH", SUPER);
        let ended = command.output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap())
    };
    let (code, out, err) = oxkeeper(&["log_level", "module=ox_server", "level=debug"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("\"levels\" : \"info,ox_server=debug\""), "{out}");
    running.process.wait_for("log levels changed");
    four_letter(running.address, "srvr");
    running.process.wait_for("DEBUG ox_server");
    let (code, out, _) = oxkeeper(&["log_level", "module=ox_servr", "level=debug"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("ox_servr is not a module of this server"), "{out}");
    let (code, out, _) = oxkeeper(&["log_level", "level=loud"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("`loud` is not a log level"), "{out}");
    let (code, out, _) = oxkeeper(&["log_level", "module="]);
    assert_eq!(code, Some(0));
    assert!(out.contains("\"levels\" : \"info\""), "back to the configuration: {out}");
    let (code, out, _) = oxkeeper(&["srvr"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("\"read_only\" : false"), "{out}");
    assert_eq!(oxkeeper(&["nosuch"]).0, Some(2));
    running.stop();
}
