//! Stores of certificates, and the first bytes of a connection to a port that accepts plain text and TLS.

use super::connection;
use ox_tls::{FirstByte, ServerTls, SettingsGroup, StoreFiles, TlsSettings};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// One has no MAC, which would stop altered bytes before they are read.
const STORES: [&str; 7] = [
    "pkcs8.pem",
    "encrypted.pem",
    "keytool.jks",
    "keytool.p12",
    "trust.jks",
    "openssl-legacy.p12",
    "openssl-no-mac.p12",
];

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ox-tls/testdata").join(name)
}

pub(super) fn store_corpus() -> Vec<Vec<u8>> {
    STORES.iter().map(|name| std::fs::read(testdata(name)).expect("the repository contains it")).collect()
}

pub(super) fn run_store(bytes: &[u8]) {
    for store_type in ["PEM", "PKCS12", "JKS"] {
        ox_tls::fuzz_store(store_type, bytes, "changeit");
    }
}

/// Hellos of TLS clients, and the handshake of a plain one.
pub(super) fn hello_corpus() -> Vec<Vec<u8>> {
    let mut corpus = connection::corpus();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    for versions in [&[&rustls::version::TLS13][..], &[&rustls::version::TLS12], rustls::ALL_VERSIONS] {
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("the provider has suites for them")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a host name");
        let mut client = ClientConnection::new(Arc::new(config), name).expect("a valid configuration");
        let mut hello = Vec::new();
        client.write_tls(&mut hello).expect("a buffer takes every write");
        corpus.push(hello);
    }
    corpus
}

/// Feeds the bytes to what the first of them selects.
pub(super) fn run_hello(bytes: &[u8]) {
    match bytes.first().map(|first| FirstByte::classify(*first)) {
        None => (),
        Some(FirstByte::Plain) => connection::run(bytes),
        Some(FirstByte::Tls) => {
            let mut tls = ServerConnection::new(server_config()).expect("a valid configuration");
            let mut rest = bytes;
            while !rest.is_empty() && tls.read_tls(&mut rest).is_ok_and(|count| 0 < count) {
                if tls.process_new_packets().is_err() {
                    break;
                }
                assert!(tls.is_handshaking(), "no client can complete a handshake without the server's key share");
            }
        }
    }
}

fn server_config() -> Arc<ServerConfig> {
    static CONFIG: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    Arc::clone(CONFIG.get_or_init(|| {
        let mut settings = TlsSettings::new(SettingsGroup::Client);
        settings.key_store.location = Some(testdata("ec-pkcs8.pem"));
        settings.trust_store.location = Some(testdata("ca.pem"));
        let files = StoreFiles::read(&settings).expect("the repository contains them");
        Arc::clone(ServerTls::build(&settings, &files).expect("valid stores").config())
    }))
}
