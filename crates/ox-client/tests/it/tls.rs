//! TLS, with a proxy in this process that ends it in front of the server.

use crate::{PATIENCE, server, with_timeout};
use ox_client::tls::{SettingsGroup, TlsSettings};
use ox_client::{Builder, Client, ConnectCause, CreateMode, ErrorKind, RetryPolicy, TlsFailure};
use ox_tls::generate::{CertificateSubject, DevelopmentCa, IssuedCertificate, Validity};
use ox_tls::{CertificateInfo, ServerTls, StoreFiles};
use parking_lot::Mutex;
use rustls::HandshakeKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// From 2020 to the end of 2119.
const VALID: Validity = Validity { not_before: 1_577_836_800, not_after: 4_733_510_400 };
/// The whole year of 2020.
const EXPIRED: Validity = Validity { not_before: 1_577_836_800, not_after: 1_609_459_200 };
/// From the year 2100 on.
const LATER: Validity = Validity { not_before: 4_102_444_800, not_after: 4_733_510_400 };

/// A CA, and stores in a temporary directory.
struct Fixture {
    directory: TempDir,
    ca: DevelopmentCa,
}

impl Fixture {
    fn new() -> Self {
        let ca = DevelopmentCa::create("Test CA", VALID).unwrap();
        let fixture = Self { directory: tempfile::tempdir().unwrap(), ca };
        fixture.write("ca.pem", fixture.ca.certificate());
        fixture
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn issue(&self, name: &str, validity: Validity) -> IssuedCertificate {
        let subject =
            CertificateSubject { common_name: name.to_owned(), host_names: vec![name.to_owned()], addresses: vec![] };
        self.ca.issue(&subject, validity).unwrap()
    }

    /// Settings with the CA as trust store, and without a certificate.
    fn client(&self) -> TlsSettings {
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        settings.trust_store.location = Some(self.directory.path().join("ca.pem"));
        settings
    }

    fn server(&self, issued: &IssuedCertificate) -> TlsSettings {
        let mut settings = self.client();
        settings.key_store.location = Some(self.write("server.pem", &issued.key_store()));
        settings.client_auth = Some("none".to_owned());
        settings
    }
}

/// What the proxy has seen of a connection.
#[derive(Clone, Debug)]
struct Seen {
    kind: HandshakeKind,
    server_name: Option<String>,
    client: Option<String>,
}

struct TlsProxy {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl TlsProxy {
    /// Ends TLS by the settings, and copies bytes to `target`.
    async fn start(settings: &TlsSettings, target: SocketAddr) -> Self {
        let tls = ServerTls::build(settings, &StoreFiles::read(settings).unwrap()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::clone(tls.config()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Seen>>>::default());
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let connection = stream.get_ref().1;
                    let certificate = connection.peer_certificates().map(|chain| CertificateInfo::parse(&chain[0]));
                    log.lock().push(Seen {
                        kind: connection.handshake_kind().unwrap(),
                        server_name: connection.server_name().map(str::to_owned),
                        client: certificate.map(|info| info.unwrap().subject),
                    });
                    let mut plain = TcpStream::connect(target).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut plain).await;
                });
            }
        });
        Self { address, seen }
    }

    fn builder(&self, settings: TlsSettings) -> Builder {
        let servers = format!("localhost:{}", self.address.port());
        Client::builder().servers(&servers).unwrap().tls(settings).seed(7)
    }
}

/// The cause why a server establishes no session. Waits until every address of the host was tried.
async fn cause(builder: Builder) -> ConnectCause {
    let client = builder.retry(RetryPolicy::None).start().unwrap();
    let mut events = client.session_events();
    with_timeout(async {
        while let Some(event) = events.next().await {
            if event == ox_client::SessionEvent::NoServer {
                break;
            }
        }
    })
    .await;
    client.connect_failures().remove(0).cause
}

#[tokio::test]
async fn session_works_over_tls_and_resumes_tls_sessions() {
    let (server, fixture) = (server(), Fixture::new());
    let proxy = TlsProxy::start(&fixture.server(&fixture.issue("localhost", VALID)), server.address()).await;
    let client = with_timeout(proxy.builder(fixture.client()).connect()).await.unwrap();
    // Larger than several records and than the buffers of sockets.
    let data = vec![7; 1_000_000];
    client.create("/large", &data, CreateMode::Persistent).await.unwrap();
    assert!(with_timeout(client.get("/large")).await.unwrap().data == data);
    let reads: Vec<_> = (0..50)
        .map(|_| {
            tokio::spawn({
                let client = client.clone();
                async move { client.get("/large").await }
            })
        })
        .collect();
    for read in reads {
        assert_eq!(with_timeout(read).await.unwrap().unwrap().data.len(), data.len());
    }
    let mut states = client.states();
    states.next().await;
    server.drop_connection(client.session().unwrap().id);
    with_timeout(states.next()).await;
    assert!(with_timeout(states.next()).await.unwrap().is_connected());
    let seen = proxy.seen.lock().clone();
    assert_eq!(seen[0].server_name.as_deref(), Some("localhost"));
    assert_eq!((seen[0].kind, seen[1].kind), (HandshakeKind::Full, HandshakeKind::Resumed));
    with_timeout(client.close()).await.unwrap();
}

#[tokio::test]
async fn replaced_key_store_is_used_for_the_next_connection() {
    let (server, fixture) = (server(), Fixture::new());
    let mut settings = fixture.server(&fixture.issue("localhost", VALID));
    settings.client_auth = Some("need".to_owned());
    let proxy = TlsProxy::start(&settings, server.address()).await;
    let mut settings = fixture.client();
    settings.key_store.location = Some(fixture.write("client.pem", &fixture.issue("first", VALID).key_store()));
    let client = with_timeout(proxy.builder(settings).connect()).await.unwrap();
    fixture.write("client.pem", &fixture.issue("second", VALID).key_store());
    let mut states = client.states();
    states.next().await;
    for (change, expected) in [(None, "CN=second"), (Some("damaged"), "CN=second")] {
        if let Some(content) = change {
            fixture.write("client.pem", content);
        }
        server.drop_connection(client.session().unwrap().id);
        with_timeout(states.next()).await;
        assert!(with_timeout(states.next()).await.unwrap().is_connected());
        assert_eq!(proxy.seen.lock().last().unwrap().client.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn server_that_cannot_be_trusted_is_refused_with_the_cause() {
    let (server, fixture, other) = (server(), Fixture::new(), Fixture::new());
    let check = async |issued: IssuedCertificate, is_expected: fn(&TlsFailure) -> bool| {
        let proxy = TlsProxy::start(&fixture.server(&issued), server.address()).await;
        let ConnectCause::Tls(failure) = cause(proxy.builder(fixture.client())).await else { panic!("not TLS") };
        assert!(is_expected(&failure), "{failure}");
    };
    check(other.issue("localhost", VALID), |failure| *failure == TlsFailure::UnknownIssuer).await;
    check(fixture.issue("localhost", EXPIRED), |failure| *failure == TlsFailure::Expired).await;
    check(fixture.issue("localhost", LATER), |failure| *failure == TlsFailure::NotValidYet).await;
    let is_other_host = |failure: &TlsFailure| matches!(failure, TlsFailure::WrongHostName(text) if text.contains("certificate for other.example.com"));
    check(fixture.issue("other.example.com", VALID), is_other_host).await;

    let proxy = TlsProxy::start(&fixture.server(&fixture.issue("other.example.com", VALID)), server.address()).await;
    let mut settings = fixture.client();
    settings.hostname_verification = false;
    with_timeout(proxy.builder(settings).connect()).await.unwrap();
}

#[tokio::test]
async fn protocols_without_overlap_and_missing_certificates_are_reported() {
    let (server, fixture) = (server(), Fixture::new());
    let mut settings = fixture.server(&fixture.issue("localhost", VALID));
    settings.protocol = Some("TLSv1.2".to_owned());
    let proxy = TlsProxy::start(&settings, server.address()).await;
    let mut modern = fixture.client();
    modern.enabled_protocols = Some("TLSv1.3".to_owned());
    let found = cause(proxy.builder(modern)).await;
    assert!(matches!(found, ConnectCause::Tls(TlsFailure::NothingInCommon(_))), "{found}");
    with_timeout(proxy.builder(fixture.client()).connect()).await.unwrap();

    for protocol in ["TLSv1.2", "TLSv1.3"] {
        let mut settings = fixture.server(&fixture.issue("localhost", VALID));
        (settings.client_auth, settings.enabled_protocols) = (Some("need".to_owned()), Some(protocol.to_owned()));
        let proxy = TlsProxy::start(&settings, server.address()).await;
        let found = cause(proxy.builder(fixture.client())).await;
        let is_expected = [TlsFailure::CertificateRequired, TlsFailure::ClosedWithoutCertificate];
        assert!(matches!(&found, ConnectCause::Tls(failure) if is_expected.contains(failure)), "{protocol}: {found}");
        let mut foreign = fixture.client();
        let issued = Fixture::new().issue("client", VALID);
        foreign.key_store.location = Some(fixture.write("foreign.pem", &issued.key_store()));
        let found = cause(proxy.builder(foreign)).await;
        let refused = matches!(found, ConnectCause::Tls(TlsFailure::CertificateRefused(_)) | ConnectCause::NotServing);
        assert!(refused, "{protocol}: {found}");
    }
}

#[tokio::test]
async fn plain_and_tls_ends_notice_each_other() {
    let (server, fixture) = (server(), Fixture::new());
    let servers = format!("localhost:{}", server.address().port());
    let builder = Client::builder().servers(&servers).unwrap().tls(fixture.client());
    assert_eq!(cause(builder).await, ConnectCause::Tls(TlsFailure::Closed));
    // A port with another protocol replies with text.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example.com\r\n").await;
                let mut rest = [0; 1024];
                while tokio::io::AsyncReadExt::read(&mut stream, &mut rest).await.is_ok_and(|count| count != 0) {}
            });
        }
    });
    let builder = Client::builder().servers(&address.to_string()).unwrap().tls(fixture.client());
    assert_eq!(cause(builder).await, ConnectCause::Tls(TlsFailure::NotTls));

    let proxy = TlsProxy::start(&fixture.server(&fixture.issue("localhost", VALID)), server.address()).await;
    let plain = Client::builder().servers(&proxy.address.to_string()).unwrap();
    assert_eq!(cause(plain).await, ConnectCause::ServerSpeaksTls);
}

#[tokio::test]
async fn unusable_settings_stop_the_start() {
    let fixture = Fixture::new();
    let start = |change: fn(&mut TlsSettings)| {
        let mut settings = fixture.client();
        change(&mut settings);
        let started = Client::builder().servers("localhost").unwrap().tls(settings).start();
        let error = started.unwrap_err();
        let ErrorKind::BadSecurity(text) = error.kind() else { panic!("{error}") };
        text.clone()
    };
    let missing = start(|settings| settings.trust_store.location = None);
    assert!(missing.starts_with("ssl.trustStore.location: not specified; "), "{missing}");
    let unreadable = start(|settings| settings.key_store.location = Some("/nonexistent.pem".into()));
    assert!(unreadable.starts_with("ssl.keyStore.location=/nonexistent.pem: cannot be read"), "{unreadable}");
}

#[tokio::test]
async fn rustls_configuration_of_the_caller_is_used() {
    let (server, fixture) = (server(), Fixture::new());
    let proxy = TlsProxy::start(&fixture.server(&fixture.issue("localhost", VALID)), server.address()).await;
    let settings = fixture.client();
    let tls = ox_tls::ClientTls::build(&settings, &StoreFiles::read(&settings).unwrap()).unwrap();
    let endpoint = tls.endpoint(ox_tls::PeerEndpoint::new(proxy.address.ip(), ["localhost".to_owned()]));
    let servers = format!("localhost:{}", proxy.address.port());
    let builder = Client::builder().servers(&servers).unwrap().tls_config(endpoint.config).connect_timeout(PATIENCE);
    let client = builder.session_timeout(Duration::from_secs(20)).connect().await.unwrap();
    client.exists("/").await.unwrap();
}
