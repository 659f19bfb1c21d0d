//! Certificates in a temporary directory, and handshakes in memory.

use ox_tls::generate::{CertificateSubject, DevelopmentCa, IssuedCertificate, Validity};
use ox_tls::{
    CertificateInfo, ClientEndpoint, ClientTls, PeerEndpoint, ServerTls, SettingsGroup, StoreFiles, TlsError,
    TlsSettings,
};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, HandshakeKind, ServerConnection};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// From 2020 to the end of 2119.
pub(crate) const VALID: Validity = Validity { not_before: 1_577_836_800, not_after: 4_733_510_400 };
/// The whole year of 2020.
pub(crate) const EXPIRED: Validity = Validity { not_before: 1_577_836_800, not_after: 1_609_459_200 };
/// In 2100, after which `VALID` is valid still.
pub(crate) const NOW: i64 = 4_102_444_800;

pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) ca: DevelopmentCa,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let ca = DevelopmentCa::create("Test CA", VALID).unwrap();
        let fixture = Self { directory: tempfile::tempdir().unwrap(), ca };
        fixture.write("ca.pem", fixture.ca.certificate());
        fixture
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A certificate for a host name, and for 127.0.0.1 if it is `localhost`.
    pub(crate) fn issue(&self, name: &str, validity: Validity) -> IssuedCertificate {
        let addresses = if name == "localhost" { vec!["127.0.0.1".parse().unwrap()] } else { Vec::new() };
        let subject = CertificateSubject { common_name: name.to_owned(), host_names: vec![name.to_owned()], addresses };
        self.ca.issue(&subject, validity).unwrap()
    }

    /// Settings with a new certificate for `name`, and the CA as trust store.
    pub(crate) fn settings(&self, group: SettingsGroup, name: &str) -> TlsSettings {
        self.settings_of(group, name, &self.issue(name, VALID))
    }

    pub(crate) fn settings_of(&self, group: SettingsGroup, name: &str, issued: &IssuedCertificate) -> TlsSettings {
        let mut settings = TlsSettings::new(group);
        settings.key_store.location = Some(self.write(&format!("{name}.pem"), &issued.key_store()));
        settings.trust_store.location = Some(self.directory.path().join("ca.pem"));
        settings
    }
}

pub(crate) fn server(settings: &TlsSettings) -> Result<ServerTls, TlsError> {
    ServerTls::build(settings, &StoreFiles::read(settings)?)
}

pub(crate) fn client(settings: &TlsSettings) -> Result<ClientTls, TlsError> {
    ClientTls::build(settings, &StoreFiles::read(settings)?)
}

pub(crate) fn localhost() -> PeerEndpoint {
    PeerEndpoint::new("127.0.0.1".parse().unwrap(), ["localhost".to_owned()])
}

/// What a successful handshake has negotiated.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) kind: HandshakeKind,
    pub(crate) client_certificate: Option<CertificateInfo>,
    pub(crate) server_certificate: CertificateInfo,
    pub(crate) suite: String,
}

/// Connects, exchanges application data in both directions, and closes.
pub(crate) fn connect(client: &ClientEndpoint, server: &ServerTls) -> Result<Handshake, rustls::Error> {
    let mut client = ClientConnection::new(client.config.clone(), client.server_name.clone())?;
    let mut server = ServerConnection::new(server.config().clone())?;
    loop {
        let sent = transfer(&mut client, &mut server)?;
        let received = transfer(&mut server, &mut client)?;
        if sent + received == 0 {
            break;
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    let info = |chain: Option<&[CertificateDer<'_>]>| chain.map(|chain| CertificateInfo::parse(&chain[0]).unwrap());
    assert_eq!(client.handshake_kind(), server.handshake_kind());
    Ok(Handshake {
        kind: server.handshake_kind().unwrap(),
        client_certificate: info(server.peer_certificates()),
        server_certificate: info(client.peer_certificates()).unwrap(),
        suite: format!("{:?}", server.negotiated_cipher_suite().unwrap().suite()),
    })
}

/// Moves the records that one side has to send. Returns their bytes.
fn transfer<A, B, S, T>(from: &mut A, to: &mut B) -> Result<usize, rustls::Error>
where
    A: std::ops::DerefMut<Target = rustls::ConnectionCommon<S>>,
    B: std::ops::DerefMut<Target = rustls::ConnectionCommon<T>>,
    S: rustls::SideData,
    T: rustls::SideData,
{
    let mut records = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut records).unwrap();
    }
    let mut rest = &records[..];
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets()?;
    }
    Ok(records.len())
}

pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}
