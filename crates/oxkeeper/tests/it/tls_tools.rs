//! `oxkeeper tls init` and `oxkeeper tls check`.

use crate::tools::{CommandOutput, run_command};
use ox_tls::generate::{CertificateSubject, DevelopmentCa, Validity};
use ox_tls::{ServerTls, SettingsGroup, StoreFiles, TlsSettings};
use rustls::{ServerConnection, StreamOwned};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use tempfile::TempDir;

const DAY: i64 = 24 * 60 * 60;
/// From 2020 to the end of 2119.
const VALID: Validity = Validity { not_before: 1_577_836_800, not_after: 4_733_510_400 };
const EXPIRED: Validity = Validity { not_before: 1_577_836_800, not_after: 1_609_459_200 };

fn run(directory: &TempDir, arguments: &[&str]) -> CommandOutput {
    run_command(directory.path(), arguments)
}

/// The lines that `init` prints for zoo.cfg, with those that every server has.
fn config(directory: &TempDir, printed: &str, more: &str) {
    fs::write(directory.path().join("myid"), "1").unwrap();
    let is_setting = |line: &&str| line.contains('=') && !line.contains(' ');
    let lines: Vec<&str> = printed.lines().filter(is_setting).collect();
    let data = directory.path().display();
    fs::write(directory.path().join("zoo.cfg"), format!("dataDir={data}\n{more}\n{}\n", lines.join("\n"))).unwrap();
}

#[test]
fn init_makes_stores_that_check_accepts() {
    let directory = tempfile::tempdir().unwrap();
    let servers = "server.1=zk1.example.com:2888:3888\nserver.2=10.0.0.2:2888:3888;2181\n";
    fs::write(directory.path().join("servers.cfg"), servers).unwrap();
    let made = run(&directory, &["tls", "init", "--config", "servers.cfg", "--client", "bob"]);
    assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    for (name, mode) in [("ca.pem", 0o644), ("ca-key.pem", 0o600), ("server.1.pem", 0o600), ("client.pem", 0o600)] {
        let metadata = fs::metadata(directory.path().join("tls").join(name)).unwrap();
        let found = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        assert_eq!(found & mode, found, "{name} has mode {found:o}");
    }
    config(&directory, &made.out, servers);
    let checked = run(&directory, &["tls", "check", "zoo.cfg"]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    for expected in [
        "clients: secureClientPort 2281",
        "valid for zk1.example.com, localhost, 127.0.0.1, ::1",
        "clientAuth=need",
        "servers: connects with TLS, accepts TLS only",
        "valid for zk1.example.com of server.1",
        "issued by a CA of the trust store, which the other servers should share",
        "0 failures, 0 warnings",
    ] {
        assert!(checked.out.contains(expected), "{expected}: {}", checked.out);
    }
    let properties = fs::read_to_string(directory.path().join("tls/client.properties")).unwrap();
    assert!(properties.contains("zookeeper.client.secure=true\n"), "{properties}");
}

#[test]
fn init_reads_the_members_of_a_dynamic_file() {
    let directory = tempfile::tempdir().unwrap();
    let dynamic = directory.path().join("zoo.cfg.dynamic.0");
    fs::write(&dynamic, "server.1=zk1:2888:3888;2181\nserver.2=zk2:2888:3888;2181\n").unwrap();
    fs::write(directory.path().join("zoo.cfg"), format!("dynamicConfigFile={}\n", dynamic.display())).unwrap();
    let made = run(&directory, &["tls", "init", "--config", "zoo.cfg"]);
    assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    assert!(made.out.contains("server.2.pem, valid for zk2, "), "{}", made.out);
}

#[test]
fn init_for_one_server_prints_no_settings_of_an_ensemble() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("zoo.cfg"), "dataDir=data\nclientPort=2181\n").unwrap();
    for arguments in [&["tls", "init", "--config", "zoo.cfg"][..], &["tls", "init"]] {
        let made = run(&directory, arguments);
        assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
        assert!(made.out.contains("secureClientPort=") && !made.out.contains("sslQuorum="), "{}", made.out);
    }
}

#[test]
fn check_names_the_file_whose_id_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let made = run(&directory, &["tls", "init", "zk1", "zk2"]);
    config(&directory, &made.out, "server.1=zk1:2888:3888\nserver.2=zk2:2888:3888\ndataDir=elsewhere");
    let checked = run(&directory, &["tls", "check", "zoo.cfg"]);
    let expected =
        "elsewhere/myid has no id of a server.N line: names of this server are not checked; run this where the";
    assert!(checked.out.contains(expected), "{}", checked.out);
}

#[test]
fn init_keeps_what_exists() {
    let directory = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(directory.path().join("tls").join(name)).unwrap();
    assert_eq!(run(&directory, &["tls", "init", "zk1"]).code, Some(0));
    let (ca, server) = (read("ca.pem"), read("server.1.pem"));
    let more = run(&directory, &["tls", "init", "zk1", "zk2"]);
    assert_eq!(more.code, Some(0), "{}", more.err);
    assert!(more.out.contains("server.1.pem, which exists; --force replaces it"), "{}", more.out);
    assert_eq!((read("ca.pem"), read("server.1.pem")), (ca.clone(), server.clone()));
    assert!(directory.path().join("tls/server.2.pem").exists(), "a server is added");
    let forced = run(&directory, &["tls", "init", "zk1", "zk2", "--force"]);
    assert_eq!(forced.code, Some(0), "{}", forced.err);
    assert!(forced.out.contains("using the CA"), "{}", forced.out);
    assert_eq!(read("ca.pem"), ca, "the CA is kept");
    assert_ne!(read("server.1.pem"), server);
    let renamed = run(&directory, &["tls", "init", "zk9", "zk2"]).out;
    assert_eq!(renamed.matches("warning: it is not valid for zk9\n").count(), 1, "{renamed}");
    assert_eq!(renamed.matches("warning: ").count(), 1, "{renamed}");
    let bad = run(&directory, &["tls", "init", "not a host", "--out", "other"]);
    assert_eq!(bad.code, Some(2));
    assert!(bad.err.contains("`not a host` is not a host name"), "{}", bad.err);
}

#[test]
fn check_reports_what_would_fail() {
    let directory = tempfile::tempdir().unwrap();
    let made = run(&directory, &["tls", "init", "zk1", "zk2"]);
    let server = "server.1=zk1:2888:3888";
    let check = |more: &str, code: i32, expected: &str| {
        config(&directory, &made.out, more);
        let checked = run(&directory, &["tls", "check", "zoo.cfg"]);
        assert_eq!(checked.code, Some(code), "{more}: {}{}", checked.out, checked.err);
        assert!(checked.out.contains(expected), "{more}: {}", checked.out);
    };
    check(server, 0, "0 failures, 0 warnings");
    check("server.1=other:2888:3888", 0, "accepted with a warning, because fips-mode is on");
    check(
        "server.1=other:2888:3888\nfips-mode=false",
        1,
        "not valid for other of server.1: the other servers refuse it",
    );
    check(
        &format!("{server}\nssl.protocol=TLSv1.1"),
        1,
        "the server does not start: ssl.protocol: protocol \"TLSv1.1\"",
    );
    check(
        &format!("{server}\nssl.quorum.ciphersuites=TLS_RSA_WITH_AES_128_CBC_SHA"),
        1,
        "no secure cipher suite is left",
    );
    check(&format!("{server}\nportUnification=true"), 0, "meant for a rolling change");
    let ca = DevelopmentCa::load(
        &fs::read_to_string(directory.path().join("tls/ca.pem")).unwrap(),
        &fs::read_to_string(directory.path().join("tls/ca-key.pem")).unwrap(),
    )
    .unwrap();
    let store = directory.path().join("tls/server.1.pem");
    let subject =
        CertificateSubject { common_name: "zk1".to_owned(), host_names: vec!["zk1".to_owned()], addresses: vec![] };
    fs::write(&store, ca.issue(&subject, EXPIRED).unwrap().key_store().as_str()).unwrap();
    check(server, 1, "expired on 2021-01-01: peers refuse it");
    // Each cause is named, and each once per port.
    let foreign = DevelopmentCa::create("Other CA", VALID).unwrap();
    fs::write(&store, foreign.issue(&subject, EXPIRED).unwrap().key_store().as_str()).unwrap();
    let all_wrong = "server.1=other:2888:3888\nfips-mode=false";
    for cause in ["expired on 2021-01-01", "not valid for other of server.1", "not issued by a CA of the trust store"] {
        check(all_wrong, 1, cause);
    }
    check(all_wrong, 1, "4 failures");
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let soon = Validity { not_before: VALID.not_before, not_after: i64::try_from(soon).unwrap() + 5 * DAY + 60 };
    fs::write(&store, ca.issue(&subject, soon).unwrap().key_store().as_str()).unwrap();
    check(server, 0, "in 5 days");
    fs::write(&store, foreign.issue(&subject, VALID).unwrap().key_store().as_str()).unwrap();
    check(server, 1, "not issued by a CA of the trust store");
    fs::remove_file(&store).unwrap();
    check(server, 1, "server.1.pem: cannot be read");
    fs::write(directory.path().join("tls/ca.pem"), "").unwrap();
    check(server, 1, "ca.pem: has no trusted certificate");
    check(server, 1, "4 failures"); // both stores of both ports
    let checked = run(&directory, &["check-config", "zoo.cfg"]); // a single server has no ports for others
    assert_eq!(checked.out.matches("error: ").count(), 2, "{}", checked.out);
    fs::write(directory.path().join("zoo.cfg"), "clientPort=2181\n").unwrap();
    let plain = run(&directory, &["tls", "check", "zoo.cfg", "--json"]);
    assert_eq!(plain.code, Some(0));
    assert!(plain.out.contains("no port uses TLS") && plain.out.contains("\"passes\":true"), "{}", plain.out);
    assert_eq!(run(&directory, &["tls", "check", "nowhere.cfg"]).code, Some(2));
}

/// A server starts with such a certificate.
#[test]
fn check_config_warns_of_a_certificate_that_peers_refuse() {
    let directory = tempfile::tempdir().unwrap();
    let made = run(&directory, &["tls", "init", "zk1", "zk2"]);
    let foreign = DevelopmentCa::create("Other CA", VALID).unwrap();
    let subject = CertificateSubject { common_name: "zk1".to_owned(), host_names: vec![], addresses: vec![] };
    let store = directory.path().join("tls/server.1.pem");
    fs::write(store, foreign.issue(&subject, EXPIRED).unwrap().key_store().as_str()).unwrap();
    let member =
        "server.1=127.0.0.2:2888:3888\nserver.2=127.0.0.3:2888:3888\ninitLimit=5\nsyncLimit=2\nfips-mode=false";
    config(&directory, &made.out, member);
    let checked = run(&directory, &["check-config", "-q", "zoo.cfg"]);
    assert_eq!(checked.code, Some(0), "{}", checked.out);
    for cause in [
        "TLS for clients: expired on 2021-01-01",
        "TLS between servers: expired on 2021-01-01",
        "TLS between servers: not valid for 127.0.0.2 of server.1",
        "TLS between servers: not issued by a CA of the trust store",
    ] {
        assert_eq!(checked.out.matches(cause).count(), 1, "{cause}: {}", checked.out);
    }
}

/// Sends `reply` to clients whose first bytes are a command; returns the address.
fn plain_server(reply: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut command) = (stream.unwrap(), [0; 4]);
            if stream.read_exact(&mut command).is_ok() && command[0].is_ascii_lowercase() {
                let _ = stream.write_all(reply.as_bytes());
            }
        }
    });
    address
}

/// Serves `srvr` over TLS by the settings; returns the address.
fn tls_server(settings: &TlsSettings) -> SocketAddr {
    tls_server_with(settings, String::new())
}

/// The same with a reply to `conf`.
fn tls_server_with(settings: &TlsSettings, conf: String) -> SocketAddr {
    let tls = ServerTls::build(settings, &StoreFiles::read(settings).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(tls.config().clone()).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            let mut command = [0; 4];
            if stream.read_exact(&mut command).is_ok() {
                let mode = if conf.is_empty() { "standalone" } else { "leader" };
                let srvr = format!("Zookeeper version: 3.9.3\nMode: {mode}\n");
                let _ = stream.write_all(if command == *b"conf" { conf.as_bytes() } else { srvr.as_bytes() });
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    address
}

fn server_settings(directory: &Path, ca: &DevelopmentCa, host: &str, validity: Validity) -> TlsSettings {
    let subject =
        CertificateSubject { common_name: host.to_owned(), host_names: vec![host.to_owned()], addresses: vec![] };
    let store = directory.join("running.pem");
    fs::write(&store, ca.issue(&subject, validity).unwrap().key_store().as_str()).unwrap();
    fs::write(directory.join("ca.pem"), ca.certificate()).unwrap();
    let mut settings = TlsSettings::new(SettingsGroup::Client);
    settings.key_store.location = Some(store);
    settings.trust_store.location = Some(directory.join("ca.pem"));
    settings.client_auth = Some("none".to_owned());
    settings
}

#[test]
fn check_looks_at_a_running_server() {
    let directory = tempfile::tempdir().unwrap();
    let ca = DevelopmentCa::create("Test CA", VALID).unwrap();
    let check = |host: &str, validity: Validity, trust: &str| {
        let address = tls_server(&server_settings(directory.path(), &ca, host, validity));
        let server = format!("localhost:{}", address.port());
        let trust = format!("-Dzookeeper.ssl.trustStore.location={trust}");
        run(&directory, &["tls", "check", &server, &trust])
    };
    let good = check("localhost", VALID, "ca.pem");
    assert_eq!(good.code, Some(0), "{}{}", good.out, good.err);
    for expected in
        ["TLSv1.3 with TLS_", "TLSv1.2 with TLS_", "valid for localhost", "accepted, and accepts the server"]
    {
        assert!(good.out.contains(expected), "{expected}: {}", good.out);
    }
    let other = check("other.example.com", VALID, "ca.pem");
    assert_eq!(other.code, Some(1), "{}", other.out);
    assert!(other.out.contains("not valid for localhost: clients that verify host names refuse it"), "{}", other.out);
    assert!(other.out.contains("1 failure, "), "one cause: {}", other.out);
    let expired = check("localhost", EXPIRED, "ca.pem");
    assert_eq!(expired.code, Some(1), "{}", expired.out);
    assert!(expired.out.contains("expired on 2021-01-01"), "{}", expired.out);
    fs::write(directory.path().join("foreign.pem"), DevelopmentCa::create("X", VALID).unwrap().certificate()).unwrap();
    let foreign = check("localhost", VALID, "foreign.pem");
    assert_eq!(foreign.code, Some(1), "{}", foreign.out);
    assert!(foreign.out.contains("a client with these settings cannot connect"), "{}", foreign.out);
}

#[test]
fn check_recognises_plain_and_closed_ports() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let plain = run(&directory, &["tls", "check", &address]);
    assert_eq!(plain.code, Some(1), "{}", plain.out);
    assert!(plain.out.contains("the server does not speak TLS on this port"), "{}", plain.out);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let refused = run(&directory, &["tls", "check", &closed]);
    assert_eq!(refused.code, Some(2), "{}", refused.out);
    assert!(refused.err.contains("connect to"), "{}", refused.err);
}

/// A client with TLS settings knows a member's secure port, and the others' plain ports from the configuration.
#[test]
fn status_with_tls_asks_plain_ports_of_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let ca = DevelopmentCa::create("Test CA", VALID).unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plain = plain_server("Zookeeper version: 3.9.3\nMode: follower\n");
    let settings = server_settings(directory.path(), &ca, "localhost", VALID);
    let conf = format!(
        "clientPort=1\nserverId=1\nelectionAlg=3\nmembership: \nserver.1=127.0.0.1:1:2:participant;{closed}\n\
         server.2=127.0.0.1:3:4:participant;{plain}\nversion=0"
    );
    let secure = tls_server_with(&settings, conf);
    let text = format!(
        "zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location={}\n",
        directory.path().join("ca.pem").display()
    );
    fs::write(directory.path().join("client.properties"), text).unwrap();
    let ask = |command: &[&str], server: &str| {
        run(&directory, &[command, &[server, "--client-configuration", "client.properties"]].concat())
    };
    let told = ask(&["status"], &format!("localhost:{}", secure.port()));
    assert_eq!(told.code, Some(0), "{}{}", told.out, told.err);
    assert!(told.out.contains("healthy: 2 of 2 serve clients, server 1 leads"), "{}", told.out);
    assert!(told.out.contains(&format!("localhost:{}", secure.port())), "asked at the given address: {}", told.out);
    // A given address is asked with TLS only.
    let not_tls = "perhaps it does not speak TLS on this port";
    let told = ask(&["status"], &plain.to_string());
    assert!(told.code == Some(2) && told.out.contains(not_tls), "{}", told.out);
    let told = ask(&["4lw", "srvr"], &plain.to_string());
    assert!(told.code == Some(2) && told.err.contains(not_tls), "{}", told.err);
    let missing = run(&directory, &["4lw", "srvr", "--client-configuration", "nofile"]);
    assert_eq!(missing.err, "error: client configuration nofile: No such file or directory (os error 2)\n");
}

#[test]
fn four_letter_command_uses_tls() {
    let directory = tempfile::tempdir().unwrap();
    let ca = DevelopmentCa::create("Test CA", VALID).unwrap();
    let address = tls_server(&server_settings(directory.path(), &ca, "localhost", VALID));
    let flags = format!(
        "-Dzookeeper.client.secure=true -Dzookeeper.ssl.trustStore.location={}",
        directory.path().join("ca.pem").display()
    );
    let ask = |flags: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        command.args(["4lw", "srvr", &format!("localhost:{}", address.port())]).env("CLIENT_JVMFLAGS", flags);
        command.output().unwrap()
    };
    let good = ask(&flags);
    assert!(good.status.success() && String::from_utf8_lossy(&good.stdout).contains("Mode: standalone"), "{good:?}");
    let plain = ask("");
    assert!(!plain.status.success(), "plain text on a TLS port");
    assert!(String::from_utf8_lossy(&plain.stderr).contains("the server speaks TLS on this port"), "{plain:?}");
    let unusable = ask("-Dzookeeper.client.secure=true");
    assert!(
        String::from_utf8_lossy(&unusable.stderr).contains("ssl.trustStore.location: not specified"),
        "{unusable:?}"
    );
}
