//! Certificates that are replaced while clients are connected.

use crate::four_letter_client::ALL_COMMANDS;
use crate::server_fixture::ServerFixture;
use crate::tls_client::{Certificates, TlsClient, VALID};
use ox_testkit::{RawClient, RawHandshake};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Sessions that stay while certificates are replaced.
const SESSIONS: usize = 100;

/// The server compares the files once per second.
const SEVERAL_CHECKS: Duration = Duration::from_secs(2);

/// Connects until the server shows the certificate.
fn await_subject(client: &TlsClient, address: SocketAddr, expected: &str) {
    let until = Instant::now() + RELOAD_TIMEOUT;
    loop {
        let (_raw, report) = client.connect(address).unwrap();
        let subject = report.lock().unwrap().server_subject.clone();
        if subject == expected {
            return;
        }
        assert!(Instant::now() < until, "{subject} is not replaced");
    }
}

fn check_all(sessions: &mut [RawClient]) {
    for client in sessions {
        assert_eq!(client.get("/a").err, 0);
    }
}

/// Kubernetes replaces the target of a symbolic link, and leaves the files alone.
#[test]
fn certificate_is_replaced_while_sessions_stay() {
    let certificates = Certificates::new();
    for (directory, name) in [("one", "first"), ("two", "second")] {
        std::fs::create_dir(certificates.path(directory)).unwrap();
        std::fs::rename(certificates.issue(name, VALID), certificates.path(directory).join("tls.pem")).unwrap();
    }
    symlink("one", certificates.path("..data")).unwrap();
    let settings = format!(
        "{}ssl.keyStore.location={}\nclient.certReload=true\n{ALL_COMMANDS}",
        certificates.secure_port(),
        certificates.path("..data/tls.pem").display()
    );
    let server = ServerFixture::with(&settings);
    let (client, address) = (certificates.client("alice"), server.secure_address());
    await_subject(&client, address, "CN=first");
    let mut sessions: Vec<_> = (0..SESSIONS).map(|_| client.open(address)).collect();
    sessions[0].create("/a", b"");
    symlink("two", certificates.path("..next")).unwrap();
    std::fs::rename(certificates.path("..next"), certificates.path("..data")).unwrap();
    await_subject(&client, address, "CN=second");
    check_all(&mut sessions);
    std::fs::write(certificates.path("two/tls.pem"), "not a certificate").unwrap();
    std::fs::write(certificates.path("one/tls.pem"), "not a certificate").unwrap();
    let until = Instant::now() + SEVERAL_CHECKS;
    while Instant::now() < until {
        await_subject(&client, address, "CN=second");
    }
    check_all(&mut sessions);
    assert_eq!(server.metric("global_sessions"), SESSIONS.to_string());
}

/// A list that is replaced while the server runs refuses new connections, also those that would resume a session of TLS.
#[test]
fn revoked_client_is_refused_as_soon_as_the_list_is_replaced() {
    let certificates = Certificates::new();
    let (alice, bob) = (certificates.client("alice"), certificates.client("bob"));
    let list = certificates.revoke(&[]);
    let settings = format!(
        "{}ssl.crl=true\noxkeeper.ssl.crlFiles={}\nclient.certReload=true\n",
        certificates.secure_port(),
        list.display()
    );
    let server = ServerFixture::with(&settings);
    let address = server.secure_address();
    let mut open = alice.open(address);
    open.create("/a", b"");
    certificates.revoke(&["alice"]);
    let until = Instant::now() + RELOAD_TIMEOUT;
    while let Ok((raw, _report)) = alice.connect(address) {
        if RawClient::try_open_over(raw, &RawHandshake::new(10_000)).is_none() {
            break;
        }
        assert!(Instant::now() < until, "the client is not refused");
    }
    bob.open(address);
    assert_eq!(open.get("/a").err, 0, "open connections stay");
}
