//! Handshakes with the JDK, in both directions. They are skipped where there is no `java`.

use crate::harness::{client, localhost, server, testdata};
use ox_tls::{CertificateInfo, SettingsGroup, StorePassword, TlsSettings};
use rustls::{ClientConnection, HandshakeKind, ServerConnection, Stream};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));

fn has_java() -> bool {
    Command::new("java").arg("-version").stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn java(mode: &str, key_store: &str, trust_store: &str, protocol: &str, port: u16) -> Child {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/Peer.java");
    let mut command = Command::new("java");
    command.arg(program).arg(mode).arg(testdata(key_store)).arg(testdata(trust_store)).arg(protocol);
    command.arg(port.to_string()).stdout(Stdio::piped()).spawn().unwrap()
}

fn settings(key_store: &str, trust_store: &str, protocol: &str) -> TlsSettings {
    let mut settings = TlsSettings::new(SettingsGroup::Client);
    settings.key_store.location = Some(testdata(key_store));
    settings.key_store.password = Some(StorePassword::new("changeit"));
    settings.trust_store.location = Some(testdata(trust_store));
    settings.trust_store.password = Some(StorePassword::new("changeit"));
    settings.enabled_protocols = Some(protocol.to_owned());
    settings
}

#[test]
fn jdk_client_connects_and_resumes() {
    if !has_java() {
        return;
    }
    for (protocol, ours, theirs) in
        [("TLSv1.2", ("keytool.jks", "trust.jks"), "keytool.p12"), ("TLSv1.3", ("sec1.pem", "ca.pem"), "keytool.jks")]
    {
        let of_server = server(&settings(ours.0, ours.1, protocol)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let child = java("client", theirs, "trust.jks", protocol, listener.local_addr().unwrap().port());
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(TIMEOUT).unwrap();
            let mut connection = ServerConnection::new(of_server.config().clone()).unwrap();
            let mut stream = Stream::new(&mut connection, &mut socket);
            stream.write_all(b"welcome\n").unwrap();
            let _ = stream.read(&mut [0]); // until the client closes
            let peer = CertificateInfo::parse(&connection.peer_certificates().unwrap()[0]).unwrap();
            assert_eq!(peer.subject, "CN=server,O=Example,C=US");
            kinds.push(connection.handshake_kind().unwrap());
        }
        assert_eq!(kinds[1], HandshakeKind::Resumed, "{protocol}");
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "welcome\nwelcome\n");
    }
}

#[test]
fn jdk_server_accepts_and_resumes() {
    if !has_java() {
        return;
    }
    for (protocol, ours, theirs) in [
        ("TLSv1.2", ("ec-pkcs8.pem", "trust.p12"), "keytool-legacy.p12"),
        ("TLSv1.3", ("sec1.pem", "ca.pem"), "keytool.jks"),
    ] {
        let endpoint = client(&settings(ours.0, ours.1, protocol)).unwrap().endpoint(localhost());
        let mut child = java("server", theirs, "trust.p12", protocol, 0);
        let mut port = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let mut socket = TcpStream::connect(("127.0.0.1", port.trim().parse().unwrap())).unwrap();
            socket.set_read_timeout(TIMEOUT).unwrap();
            let mut connection = ClientConnection::new(endpoint.config.clone(), endpoint.server_name.clone()).unwrap();
            let mut line = String::new();
            let mut stream = Stream::new(&mut connection, &mut socket);
            BufReader::new(&mut stream).read_line(&mut line).unwrap();
            assert_eq!(line, "CN=client,O=Example,C=US\n");
            stream.write_all(b"x").unwrap();
            kinds.push(connection.handshake_kind().unwrap());
        }
        assert_eq!(kinds[1], HandshakeKind::Resumed, "{protocol}");
        assert!(child.wait().unwrap().success());
    }
}
