//! TLS on the client ports, with real handshakes.

use crate::four_letter_client::{ALL_COMMANDS, send_and_read};
use crate::server_fixture::{ServerFixture, TIMEOUT_MS};
use crate::tls_client::{Certificates, EXPIRED, TlsClient};
use ox_proto::{ErrorCode, OpCode};
use ox_server::{Build, Server, StartError};
use ox_testkit::{RawClient, RawConnection, RawPacket};
use rustls::HandshakeKind;
use std::path::{Path, PathBuf};

const NO_AUTH: i32 = ErrorCode::NoAuth as i32;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-tls/testdata").join(name)
}

/// An ACL with one entry of all permissions.
fn acl(scheme: &str, id: &str) -> Vec<u8> {
    let text = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
    [&1_i32.to_be_bytes()[..], &31_i32.to_be_bytes(), &text(scheme), &text(id)].concat()
}

fn create_for(client: &mut RawClient, path: &str, scheme: &str, id: &str) -> i32 {
    client.ask(|packet, xid| packet.create_with_acl(xid, path, &acl(scheme, id))).err
}

#[test]
fn requests_are_served_and_certificates_are_identities() {
    let certificates = Certificates::new();
    let server = ServerFixture::with(&certificates.secure_port());
    let mut alice = certificates.client("alice").open(server.secure_address());
    assert_eq!(create_for(&mut alice, "/own", "auth", ""), 0);
    assert_eq!(create_for(&mut alice, "/named", "x509", "CN=alice"), 0);
    assert_eq!(create_for(&mut alice, "/invalid", "x509", "alice"), ErrorCode::InvalidAcl as i32);
    let list = alice.ask(|packet, xid| packet.of_path(xid, OpCode::GetAcl, "/own")).body;
    assert!(String::from_utf8_lossy(&list).contains("CN=alice"), "{list:?}");
    let mut bob = certificates.client("bob").open(server.secure_address());
    let mut plain = server.client();
    for path in ["/own", "/named"] {
        assert_eq!(alice.get(path).err, 0);
        assert_eq!((bob.get(path).err, plain.get(path).err), (NO_AUTH, NO_AUTH), "{path}");
    }
    assert_eq!(alice.ask(|packet, _| packet.auth(-4, "x509", b"")).err, 0, "the certificate has proven it already");
    assert_eq!(plain.ask(|packet, _| packet.auth(-4, "x509", b"")).err, ErrorCode::AuthFailed as i32);
    assert_eq!(alice.close().err, 0);
}

#[test]
fn subject_of_super_user_has_all_permissions() {
    let certificates = Certificates::new();
    let settings = format!("{}X509AuthenticationProvider.superUser=CN=admin\n", certificates.secure_port());
    let server = ServerFixture::with(&settings);
    let mut alice = certificates.client("alice").open(server.secure_address());
    assert_eq!(create_for(&mut alice, "/own", "auth", ""), 0);
    let mut admin = certificates.client("admin").open(server.secure_address());
    assert_eq!(admin.get("/own").err, 0);
    let names = admin.ask(|packet, xid| packet.raw(xid, OpCode::WhoAmI.code(), &[])).body;
    let names = String::from_utf8_lossy(&names).replace(|letter: char| letter.is_control(), "");
    assert_eq!(names, "ip127.0.0.1superx509CN=admin", "the super user has no name");
}

#[test]
fn certificate_is_needed_wanted_or_ignored() {
    let certificates = Certificates::new();
    let start = |mode: &str| ServerFixture::with(&format!("{}ssl.clientAuth={mode}\n", certificates.secure_port()));
    let need = start("NEED");
    let refusal = certificates.anonymous().refusal(need.secure_address());
    assert!(refusal.contains("CertificateRequired"), "{refusal}");
    for (mode, expected) in [("want", 0), ("none", ErrorCode::InvalidAcl as i32)] {
        let server = start(mode);
        let mut anonymous = certificates.anonymous().open(server.secure_address());
        assert_eq!(create_for(&mut anonymous, "/a", "auth", ""), ErrorCode::InvalidAcl as i32, "no identity");
        let mut alice = certificates.client("alice").open(server.secure_address());
        assert_eq!(create_for(&mut alice, "/b", "auth", ""), expected, "{mode}");
    }
}

#[test]
fn unacceptable_certificates_are_refused() {
    let (certificates, other) = (Certificates::new(), Certificates::of_ca("Other CA"));
    let server = ServerFixture::with(&format!("{}{ALL_COMMANDS}", certificates.secure_port()));
    let trust = certificates.path("ca.pem");
    let expired = TlsClient::new(Some((&certificates.issue("late", EXPIRED), None)), &trust);
    let foreign = TlsClient::new(Some((&other.path("server.pem"), None)), &trust);
    for (client, expected) in [(&expired, "CertificateExpired"), (&foreign, "UnknownCA")] {
        let refusal = client.refusal(server.secure_address());
        assert!(refusal.contains(expected), "{refusal}");
    }
    let distrusting = TlsClient::new(None, &other.path("ca.pem"));
    assert!(distrusting.connect(server.secure_address()).is_err(), "the client refuses the server");
    server.await_metric("unsuccessful_handshake", "3");
    server.await_metric("auth_failed_count", "3");
    server.await_metric("outstanding_tls_handshake", "0");
    certificates.client("alice").open(server.secure_address());
}

/// The name of the peer is checked only where the key asks for it, and looked up only where another key asks for that.
#[test]
fn k160_certificate_of_another_host_is_refused_with_client_host_name_verification() {
    let certificates = Certificates::new();
    let client = |name: &str, host: &str| {
        let store = certificates.issue_for(name, host);
        TlsClient::new(Some((&store, None)), &certificates.path("ca.pem"))
    };
    let elsewhere = client("elsewhere", "10.255.0.1");
    let (named, misnamed) = (client("named", "localhost"), client("misnamed", "otherhost.example.com"));
    let start = |keys: &str| ServerFixture::with(&format!("{}{keys}", certificates.secure_port()));

    let unverified = start("ssl.allowReverseDnsLookup=true\n");
    elsewhere.open(unverified.secure_address());

    let verified = start("ssl.clientHostnameVerification=true\n");
    certificates.client("local").open(verified.secure_address());
    for client in [&elsewhere, &named, &misnamed] {
        client.refusal(verified.secure_address());
    }

    let looks_up = start("ssl.clientHostnameVerification=true\nssl.allowReverseDnsLookup=true\n");
    certificates.client("local").open(looks_up.secure_address());
    named.open(looks_up.secure_address());
    named.open(looks_up.secure_address()); // by the cached name
    for client in [&elsewhere, &misnamed] {
        client.refusal(looks_up.secure_address());
    }
}

#[test]
fn session_of_tls_is_resumed_with_its_identity() {
    let certificates = Certificates::new();
    for protocol in ["TLSv1.3", "TLSv1.2"] {
        let server = ServerFixture::with(&format!("{}ssl.protocol={protocol}\n", certificates.secure_port()));
        let client = certificates.client("alice");
        let mut first = client.open(server.secure_address());
        assert_eq!(create_for(&mut first, "/own", "auth", ""), 0);
        first.ping();
        let (raw, report) = client.connect(server.secure_address()).unwrap();
        assert_eq!(report.lock().unwrap().kind, Some(HandshakeKind::Resumed), "{protocol}");
        let mut second = RawClient::try_open_over(raw, &first.handshake()).expect("the session moves");
        assert_eq!(second.get("/own").err, 0, "{protocol}");
    }
}

#[test]
fn stores_of_all_types_are_served() {
    let trust = testdata("ca.pem");
    for (key_store, trust_store) in [
        ("keytool.jks", "trust.jks"),
        ("keytool.p12", "trust.p12"),
        ("encrypted.pem", "ca.pem"),
        ("pkcs1.pem", "ca.pem"),
    ] {
        let (key_store, trust_store) = (testdata(key_store), testdata(trust_store));
        let server = ServerFixture::with(&format!(
            "secureClientPort=0\nsecureClientPortAddress=127.0.0.1\nssl.keyStore.location={}\n\
             ssl.keyStore.password=changeit\nssl.trustStore.location={}\nssl.trustStore.password=changeit\n",
            key_store.display(),
            trust_store.display()
        ));
        let client = TlsClient::with(Some((&testdata("sec1.pem"), None)), &trust, |settings| {
            settings.hostname_verification = false;
        });
        client.open(server.secure_address()).create("/a", b"");
    }
}

#[test]
fn unusable_stores_stop_the_start() {
    let certificates = Certificates::new();
    let check = |lines: &str, expected: &str| {
        let fixture = ServerFixture::with("");
        let mut config = fixture.config();
        config.tls = fixture_tls(&format!("{}{lines}", certificates.secure_port()));
        let Err(error) = Server::start(Build::UNKNOWN, config) else { panic!("{lines} is accepted") };
        assert!(matches!(error, StartError::Tls(_)) && error.exit_code() == 2, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("ssl.keyStore.location=/nowhere.pem\n", "ssl.keyStore.location=/nowhere.pem: cannot be read");
    let jks = testdata("keytool.jks");
    check(
        &format!("ssl.keyStore.location={}\nssl.keyStore.password=wrong\n", jks.display()),
        "cannot be decrypted: the password is wrong",
    );
    check("ssl.ciphersuites=TLS_FOO\n", "TLS_FOO");
    check("ssl.protocol=SSLv3\n", "ssl.protocol");
    check("ssl.clientAuth=maybe\n", "ssl.clientAuth: value \"maybe\" is unknown");
    check("ssl.context.supplier.class=com.X\n", "the Java class \"com.X\" cannot be loaded");
    check("ssl.crl=true\n", "oxkeeper.ssl.crlFiles");
}

fn fixture_tls(lines: &str) -> Option<ox_config::TlsConfig> {
    ServerFixture::config_with(Path::new("/d"), lines, "").tls
}

#[test]
fn plain_and_tls_clients_share_a_unified_port() {
    let certificates = Certificates::new();
    let server = ServerFixture::with(&format!("{}client.portUnification=true\n{ALL_COMMANDS}", certificates.stores()));
    let mut plain = server.client();
    let mut secure = certificates.client("alice").open(server.address());
    assert_eq!(create_for(&mut secure, "/own", "auth", ""), 0);
    assert_eq!((secure.get("/own").err, plain.get("/own").err), (0, NO_AUTH));
    assert_eq!(server.command("ruok"), "imok");
    assert_eq!(send_and_read(certificates.client("alice").raw(server.address()), b"ruok"), "imok");
    let stat = server.command("stat");
    assert_eq!(stat.lines().filter(|line| line.starts_with(" /127.0.0.1")).count(), 3, "one port: {stat}");
    assert_ne!(server.metric("non_mtls_local_conn_count"), "0");
}

#[test]
fn four_letter_commands_show_the_secure_port() {
    let certificates = Certificates::new();
    let server = ServerFixture::with(&format!("{}{ALL_COMMANDS}", certificates.secure_port()));
    let alice = certificates.client("alice");
    let command = |name: &str| send_and_read(alice.raw(server.secure_address()), name.as_bytes());
    let (plain, secure) = (server.client(), alice.open(server.secure_address()));
    assert_eq!(command("ruok"), "imok");
    assert!(command("srvr").contains("\nConnections: 3\n"));
    let conf = command("conf");
    assert!(conf.contains(&format!("\nsecureClientPort={}\n", server.secure_address().port())), "{conf}");
    let (of_secure, of_plain) = (command("cons"), server.command("cons"));
    let sid = |client: &RawClient| format!("sid={}", client.session());
    assert!(of_secure.contains(&sid(&secure)) && !of_secure.contains(&sid(&plain)), "{of_secure}");
    assert!(of_plain.contains(&sid(&plain)) && !of_plain.contains(&sid(&secure)), "{of_plain}");
    let days: i64 = server.metric("client_certificate_days_left").parse().unwrap();
    assert!(30_000 < days, "{days}");
}

#[test]
fn large_frames_pass_in_both_directions() {
    let certificates = Certificates::new();
    let server = ServerFixture::with_properties(&certificates.secure_port(), "-Djute.maxbuffer=4194304");
    let mut client = certificates.client("alice").open(server.secure_address());
    let data: Vec<u8> = (0..1 << 20).map(|at: u32| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
    assert_eq!(client.create("/large", &data).err, 0);
    assert_eq!(client.get("/large").data().as_deref(), Some(&data[..]));
}

/// The client sends for a while without reading: requests and replies fill every buffer of the connection.
#[test]
fn pipelined_requests_are_replied_to_in_order() {
    const REQUESTS: i32 = 20_000;
    let certificates = Certificates::new();
    let server = ServerFixture::with(&certificates.secure_port());
    let mut client = certificates.client("alice").open(server.secure_address());
    client.create("/node", &[7; 1000]);
    let mut packet = RawPacket::default();
    for xid in 10..10 + REQUESTS {
        packet = if xid % 10 == 0 { packet.set(xid, "/node", &[7; 1000]) } else { packet.get(xid, "/node") };
    }
    let mut writer = client.raw.writer();
    let sender = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &packet.0).unwrap());
    for xid in 10..10 + REQUESTS {
        let reply = client.reply();
        assert_eq!((reply.xid, reply.err), (xid, 0));
    }
    sender.join().unwrap();
}

#[test]
fn watch_events_reach_a_silent_tls_client() {
    let certificates = Certificates::new();
    let server = ServerFixture::with(&certificates.secure_port());
    let mut watcher = certificates.client("alice").open(server.secure_address());
    watcher.create("/watched", b"");
    watcher.watch(OpCode::GetData, "/watched");
    server.client().set("/watched", b"new");
    assert_eq!(watcher.event().path, "/watched");
}

/// The server ends the stream of TLS before that of TCP, so that a client can tell the end from an attack.
#[test]
fn close_of_a_session_ends_tls_cleanly() {
    let certificates = Certificates::new();
    let server = ServerFixture::with(&certificates.secure_port());
    let (raw, report) = certificates.client("alice").connect(server.secure_address()).unwrap();
    let client = RawClient::try_open_over(raw, &ox_testkit::RawHandshake::new(TIMEOUT_MS)).unwrap();
    assert_eq!(client.close().err, 0);
    assert_eq!(report.lock().unwrap().error, None);
}

#[test]
fn plain_text_on_the_secure_port_is_closed() {
    let certificates = Certificates::new();
    let server = ServerFixture::with(&format!("{}{ALL_COMMANDS}", certificates.secure_port()));
    for bytes in [&b"ruok"[..], b"GET / HTTP/1.0\r\n\r\n", &[0; 45], &[0xff; 10_000]] {
        let mut raw = RawConnection::connect(server.secure_address());
        raw.try_send(bytes);
        raw.finish();
        let reply = raw.rest();
        assert!(!reply.windows(4).any(|part| part == b"imok"), "{reply:?}");
    }
    server.await_metric("unsuccessful_handshake", "4");
}
