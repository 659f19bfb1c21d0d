//! Starts that succeed or are refused: exit codes, and one sentence with the cause.

use crate::process::{self, Running, Site};
use ox_testkit::{Ended, Process, RawClient, RawHandshake, RawPacket};
use std::path::Path;
use std::process::Command;

/// Runs a server that refuses to start.
fn refused(arguments: &[&str], directory: &Path) -> Ended {
    process::start(arguments, directory).end()
}

fn check(ended: &Ended, code: i32, text: &str) {
    assert_eq!(ended.status.code(), Some(code), "{}", ended.said);
    assert!(ended.said.contains(text), "{text}: {}", ended.said);
}

#[test]
fn bad_configurations_are_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    check(&refused(&["server", "missing.cfg"], path), 2, "missing.cfg");
    for (text, reason) in [
        ("clientPort=0\n", "dataDir"),
        ("dataDir=d\nclientPort=none\n", "clientPort"),
        ("dataDir=d\nclientPort=0\ntickTime=0\n", "tickTime"),
        ("dataDir=d\nclientPort=0\nminSessionTimeout=9\nmaxSessionTimeout=8\n", "minSessionTimeout"),
        ("dataDir=d\nsecureClientPort=0\n", "secureClientPort"),
        ("dataDir=d\nclientPort=0\nauthProvider.1=com.example.X\n", "authProvider.1: com.example.X cannot be loaded"),
    ] {
        std::fs::write(path.join("zoo.cfg"), text).unwrap();
        check(&refused(&["server", "zoo.cfg"], path), 2, reason);
    }
    check(&refused(&["server", "1", "2", "3", "4", "5"], path), 2, "5 arguments; expected a configuration file");
}

#[test]
fn key_auth_provider_checks_clients_by_its_node() {
    let directory = tempfile::tempdir().unwrap();
    let provider = "authProvider.1=org.apache.zookeeper.server.auth.KeyAuthenticationProvider\n";
    let running = Site::new(directory.path(), provider).start();
    let (mut client, mut wrong) = (running.client(), running.client());
    assert_eq!(client.create("/key", b"25").err, 0);
    client.send(&RawPacket::default().auth(-4, "key", b"50"));
    assert_eq!(client.reply().err, 0);
    wrong.send(&RawPacket::default().auth(-4, "key", b"51"));
    assert_eq!(wrong.reply().err, -115);
    wrong.raw.expect_closed();
    running.stop();
}

#[test]
fn misspelt_log_level_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for filter in ["inf", "ox_server", "ox_server=nonsense", "info,warm"] {
        let ended = refused(&["server", "--log", filter, "zoo.cfg"], path);
        check(&ended, 2, "--log");
        check(&ended, 2, "off, error, warn, info, debug or trace");
    }
    let mut command = Command::new("env");
    command.args(["OXKEEPER_LOG=bogus", env!("CARGO_BIN_EXE_oxkeeper"), "server", "zoo.cfg"]).current_dir(path);
    check(&Process::run(command).end(), 2, "`bogus` is not a log level");
    for filter in ["", "INFO", "warn,ox_server=debug", "ox_server=info,oxkeeper=info"] {
        check(&refused(&["server", "--log", filter, "missing.cfg"], path), 2, "missing.cfg");
    }
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let site = Site::new(directory.path(), "");
    let running = site.start();
    running.client().create("/a", b"");
    let second = refused(&["server", "zoo.cfg"], directory.path());
    let owner = format!("version-2 is in use by pid {} (oxkeeper); stop the other process, or ", running.process.id());
    assert!(second.said.contains(&owner), "{owner}: {}", second.said);
    assert_ne!(second.status.code(), Some(0));
    assert_eq!(running.client().exists("/a").err, 0, "the first one goes on");
    running.stop();
    site.start().stop();
}

/// An operator who starts a server twice looks for the port for clients.
#[test]
fn taken_client_port_is_reported_before_that_of_the_admin_server() {
    let directory = tempfile::tempdir().unwrap();
    let taken = ["127.0.0.1:0"; 2].map(|address| std::net::TcpListener::bind(address).unwrap());
    let [client, admin] = taken.each_ref().map(|listener| listener.local_addr().unwrap().port());
    let loopback = "clientPortAddress=127.0.0.1\nadmin.serverAddress=127.0.0.1\n";
    let config = format!("dataDir=./d\n{loopback}clientPort={client}\nadmin.serverPort={admin}\n");
    std::fs::write(directory.path().join("zoo.cfg"), config).unwrap();
    let ended = refused(&["server", "zoo.cfg"], directory.path());
    check(&ended, 1, &format!("port {client} is in use by pid {} (", std::process::id()));
    assert!(!ended.said.contains(&format!("port {admin} is in use")), "{}", ended.said);
}

#[test]
fn unusable_directory_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("zoo.cfg"), "dataDir=./nowhere\nclientPort=0\nadmin.enableServer=false\n")
        .unwrap();
    let arguments = ["server", "-Dzookeeper.datadir.autocreate=false", "zoo.cfg"];
    check(&refused(&arguments, directory.path()), 3, "zookeeper.datadir.autocreate is false: create it by hand");
}

#[test]
fn file_as_data_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("zoo.cfg"), "dataDir=./data\nclientPort=0\nadmin.enableServer=false\n")
        .unwrap();
    let data = directory.path().join("data");
    std::fs::write(&data, "").unwrap();
    check(&refused(&["server", "zoo.cfg"], directory.path()), 3, "data/version-2");
    std::fs::remove_file(&data).unwrap();
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("version-2"), "").unwrap();
    check(&refused(&["server", "zoo.cfg"], directory.path()), 3, "data/version-2");
}

#[test]
fn server_without_configuration_listens_on_loopback_only() {
    let directory = tempfile::tempdir().unwrap();
    let mut help = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    let output = help.args(["server", "--help"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("127.0.0.1:2181"));
    // Port and directory may be given on the command line, as with Apache.
    let running = Running::wait(process::start(&["server", "0", "data", "2000", "2"], directory.path()));
    assert!(running.address.ip().is_loopback(), "{}", running.address);
    running.client().create("/a", b"");
    assert!(directory.path().join("data/version-2").is_dir());
    running.stop();
}

#[test]
fn properties_come_from_flags_and_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path(), "");
    site.flags = vec!["-Dzookeeper.extendedTypesEnabled=true".to_owned()];
    let running = site.start();
    assert_eq!(running.client().ask(|packet, xid| packet.create_ttl(xid, "/t", 5, 100_000)).err, 0);
    running.stop();
}

/// Secrets and payloads never appear in the log, whatever a client sends and at any log level.
#[test]
fn k164_log_contains_no_secrets_and_no_injected_lines() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path(), "");
    site.flags = vec!["--log".to_owned(), "trace".to_owned()];
    let running = site.start();
    let mut client = running.client();
    client.ask(|packet, xid| packet.auth(xid, "digest", b"bob:secret-word"));
    client.create("/a", b"secret-payload");
    client.create("/line\nbreak-in", b"");
    let wrong = RawHandshake { password: Some(b"secret-password!".to_vec()), ..RawHandshake::resume(&client.hello) };
    assert!(RawClient::try_open(running.address, &wrong).is_none());
    let mut unknown_server = running.client();
    unknown_server.send(&RawPacket::default().auth(1, "secret-scheme", b"secret-credential"));
    unknown_server.raw.rest();
    let said = running.stop();
    assert!(!said.contains("secret"), "{said}");
    assert!(!said.lines().any(|line| line.contains("break-in")), "{said}");
}

/// Weak settings are visible to operators; S3: a server of the user root is one.
#[test]
fn s2_s3_each_weak_setting_is_one_line_of_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let said = Site::new(directory.path(), "skipACL=yes\nforceSync=no\n").start().stop();
    let weak = |text: &str| said.lines().filter(|line| line.contains("weak protection") && line.contains(text)).count();
    assert_eq!((weak("setting=\"skipACL\""), weak("setting=\"forceSync\"")), (1, 1), "{said}");
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    assert_eq!(weak("runs as root"), usize::from(is_root), "{said}");
}

/// S22: one event is one line, whatever text a client sends.
#[test]
fn s22_text_of_clients_stays_on_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let mut site = Site::new(directory.path(), "audit.enable=true\n");
    site.flags = vec!["--log".to_owned(), "debug".to_owned()];
    let running = site.start();
    let mut client = running.client();
    client.create(&format!("/a\n2026-01-01 INFO forged{}", "x".repeat(20_000)), b"");
    client.ask(|packet, xid| packet.auth(xid, "digest", b"eve\n2026-01-01 INFO forged:pw"));
    client.create("/b", b"");
    let said = running.stop();
    assert!(said.lines().all(|line| !line.starts_with("2026-01-01 INFO forged") && line.len() < 10_000), "{said}");
    assert!(said.lines().any(|line| line.contains("\\n2026-01-01 INFO forged")), "{said}");
}
