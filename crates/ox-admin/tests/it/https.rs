//! HTTPS: alone, beside plain text, and with client certificates.

use crate::harness::Harness;
use ox_config::{AdminConfig, AdminTls, Config, SslKeys};
use ox_testkit::{HttpReply, http_request};
use ox_tls::generate::{CertificateSubject, DevelopmentCa, Validity};
use ox_tls::{ClientTls, PeerEndpoint, SettingsGroup, StoreFiles, TlsSettings};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// From 2020 to the end of 2119.
const VALID: Validity = Validity { not_before: 1_577_836_800, not_after: 4_733_510_400 };

struct Certificates {
    directory: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Self {
        let this = Self { directory: tempfile::tempdir().unwrap() };
        let ca = DevelopmentCa::create("Test CA", VALID).unwrap();
        std::fs::write(this.path("ca.pem"), ca.certificate()).unwrap();
        for name in ["server", "alice"] {
            let addresses = vec!["127.0.0.1".parse().unwrap()];
            let subject = CertificateSubject { common_name: name.to_owned(), host_names: Vec::new(), addresses };
            let issued = ca.issue(&subject, VALID).unwrap();
            std::fs::write(this.path(&format!("{name}.pem")), issued.key_store().as_bytes()).unwrap();
        }
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The keys of `zoo.cfg`, read as the server reads them.
    fn keys(&self, settings: &str) -> SslKeys {
        let (key, trust) = (self.path("server.pem"), self.path("ca.pem"));
        let text = format!(
            "dataDir=/d\nadmin.forceHttps=true\nssl.quorum.keyStore.location={}\nssl.quorum.trustStore.location={}\n{settings}",
            key.display(),
            trust.display()
        );
        let read = |path: &Path| match path.ends_with("zoo.cfg") {
            true => Ok(text.clone().into_bytes()),
            false => Err(std::io::ErrorKind::NotFound.into()),
        };
        let environment = ox_config::Environment { read: &read, resolve: &|_: &str| None };
        let start = ox_config::StartArgs::File("zoo.cfg".into());
        let config = Config::load(&start, &ox_config::SystemProperties::default(), &environment, &mut Vec::new());
        config.unwrap().admin.unwrap().tls.unwrap().keys
    }

    fn start(&self, is_unified: bool, settings: &str, change: impl FnOnce(&mut AdminConfig)) -> Harness {
        let keys = self.keys(settings);
        Harness::with(
            |config| config.auth.x509_scheme_enabled = true,
            |admin| {
                admin.tls = Some(AdminTls { is_unified, keys });
                change(admin);
            },
        )
    }

    /// Sends a request over TLS, with or without a certificate.
    fn get(
        &self,
        harness: &Harness,
        key_store: Option<&str>,
        path: &str,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<HttpReply> {
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        settings.key_store.location = key_store.map(|name| self.path(name));
        settings.trust_store.location = Some(self.path("ca.pem"));
        let tls = ClientTls::build(&settings, &StoreFiles::read(&settings)?)?;
        let endpoint = tls.endpoint(PeerEndpoint::new("127.0.0.1".parse()?, []));
        let connection =
            tokio_rustls::rustls::ClientConnection::new(endpoint.config.clone(), endpoint.server_name.clone())?;
        let mut stream = tokio_rustls::rustls::StreamOwned::new(connection, TcpStream::connect(harness.address())?);
        stream.write_all(&http_request("GET", path, headers, b""))?;
        HttpReply::read(&mut stream)
    }
}

#[test]
fn https_replies_forbid_plain_text() {
    let certificates = Certificates::new();
    let harness = certificates.start(false, "", |_| ());
    let reply = certificates.get(&harness, None, "/commands/ruok", &[]).unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("strict-transport-security"), Some("max-age=86400; includeSubDomains"));
    let plain = ox_testkit::http(harness.address(), "GET", "/commands/ruok", &[], b"");
    assert!(plain.is_err(), "{plain:?}");
}

#[test]
fn unified_port_serves_both_and_counts_plain_text() {
    let certificates = Certificates::new();
    let harness = certificates.start(true, "", |_| ());
    assert_eq!(certificates.get(&harness, None, "/commands/ruok", &[]).unwrap().status, 200);
    assert_eq!(harness.get("/commands/ruok").header("strict-transport-security"), None);
    let metrics = harness.get("/metrics").text();
    assert!(metrics.contains("\ninsecure_admin_count 2.0\n"), "{metrics}");
}

#[test]
fn client_certificate_is_required_and_an_identity() {
    let certificates = Certificates::new();
    let harness = certificates.start(false, "admin.needClientAuth=true\n", |admin| {
        admin.super_subject = Some("CN=alice".to_owned());
    });
    assert!(certificates.get(&harness, None, "/commands/ruok", &[]).is_err());
    let reply = certificates.get(&harness, Some("alice.pem"), "/commands/snapshot", &[("Authorization", "x509")]);
    assert_eq!(reply.unwrap().status, 200);
}
