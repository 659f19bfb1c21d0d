//! Clients over TLS, with key and trust stores of every type.
//!
//! The suites of Java, kazoo and Go run unchanged on the secure port. Their clients have no certificates, because some cases
//! need clients without identities. Then `zkCli` connects with certificates, and shows the identity that the server has
//! read in them. The stores are those of the tests of `ox-tls`, which keytool and openssl have written.

use crate::interop::clients::{SuiteResult, print_summary, run_suite, standard_spec};
use crate::interop::fixture::ServerFixture;
use crate::interop::servers::{Software, apache};
use crate::interop::suites::{GO, JAVA, KAZOO, Suite};
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use ox_testkit::{ServerUnderTest, free_port};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PASSWORD: &str = "changeit";

/// How `whoami` shows the identity of a certificate.
pub(super) const IDENTITY_PREFIX: &str = "x509: ";
/// The subject of the certificate in all key stores.
const SUBJECT: &str = "CN=server,O=Example,C=US";
/// How long `zkCli` waits for a connection.
pub(super) const CLI_PATIENCE: Duration = Duration::from_secs(20);

/// A key store and a trust store of one type.
struct Stores {
    key: &'static str,
    trust: &'static str,
}

const JKS: Stores = Stores { key: "keytool.jks", trust: "trust.jks" };
const PKCS12: Stores = Stores { key: "keytool.p12", trust: "trust.p12" };
const PEM: Stores = Stores { key: "pkcs8.pem", trust: "ca.pem" };

pub(super) fn run(workspace: &Workspace, verbose: bool) -> Result<()> {
    Software::Oxkeeper.prepare(workspace)?;
    Software::Apache.prepare(workspace)?;
    for (of_server, of_client) in [(&JKS, &PEM), (&PKCS12, &JKS), (&PEM, &PKCS12)] {
        check_identity(workspace, of_server, of_client)?;
    }
    let mut results = Vec::new();
    for (suite, of_server) in [(&JAVA, &PKCS12), (&KAZOO, &JKS), (&GO, &PEM)] {
        suite.prepare(workspace)?;
        results.push(run_over_tls(workspace, suite, of_server, verbose)?);
    }
    if !print_summary(&results) {
        bail!("some suites failed over TLS\nhint: the full output is in target/interop/");
    }
    Ok(())
}

/// Starts a server with a secure port.
fn start(
    workspace: &Workspace,
    stores: &Stores,
    client_auth: &str,
    home: &Path,
) -> Result<(ServerUnderTest, SocketAddr)> {
    let secure = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut spec = standard_spec(workspace, Software::Oxkeeper)?
        .setting("secureClientPort", secure.port())
        .setting("ssl.clientAuth", client_auth);
    for (name, value) in [key_store(workspace, stores), trust_store(workspace, stores)].concat() {
        spec = spec.setting(&name, value);
    }
    Ok((spec.start_in(home)?, secure))
}

/// Connects with a certificate.
fn check_identity(workspace: &Workspace, of_server: &Stores, of_client: &Stores) -> Result<()> {
    let home = tempfile::Builder::new().prefix("oxkeeper-security-").tempdir()?;
    let (_server, secure) = start(workspace, of_server, "need", &home.path().join("server"))?;
    let properties = [key_store(workspace, of_client), trust_store(workspace, of_client)].concat();
    let shown = zkcli(workspace, home.path(), secure, &java_properties(&properties), CLI_PATIENCE)?;
    ensure!(shown.contains(&format!("{IDENTITY_PREFIX}{SUBJECT}")), "zkCli with {} shows\n{shown}", of_client.key);
    println!("zkCli with {} on a server with {}: {SUBJECT}", of_client.key, of_server.key);
    Ok(())
}

/// What `zkCli whoami` prints: no identity, if there is no connection in time.
pub(super) fn zkcli(
    workspace: &Workspace,
    home: &Path,
    server: SocketAddr,
    properties: &[String],
    patience: Duration,
) -> Result<String> {
    let output = Command::new("timeout")
        .args(["60", "java"])
        .args(properties)
        .arg("-cp")
        .arg(apache::class_path(workspace, home)?)
        .args(["org.apache.zookeeper.ZooKeeperMain", "-waitforconnection"])
        .args(["-timeout", &patience.as_millis().to_string(), "-server", &server.to_string(), "whoami"])
        .output()
        .context("start zkCli")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run_over_tls(workspace: &Workspace, suite: &Suite, of_server: &Stores, verbose: bool) -> Result<SuiteResult> {
    let home = tempfile::Builder::new().prefix("oxkeeper-security-").tempdir()?;
    let (server, secure) = start(workspace, of_server, "want", home.path())?;
    let fixture = ServerFixture::over_tls(server, secure)?;
    let environment = [
        ("JAVA_TOOL_OPTIONS", java_properties(&trust_store(workspace, &JKS)).join(" ")),
        ("INTEROP_TLS_CA", path(workspace, PEM.trust).display().to_string()),
    ];
    Ok(run_suite(workspace, suite, &fixture, &environment, verbose))
}

fn path(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.root().join("crates/ox-tls/testdata").join(name)
}

/// Names and values, which are the same for servers and clients.
type SslSettings = Vec<(String, String)>;

fn key_store(workspace: &Workspace, stores: &Stores) -> SslSettings {
    store(workspace, "keyStore", stores.key)
}

fn trust_store(workspace: &Workspace, stores: &Stores) -> SslSettings {
    store(workspace, "trustStore", stores.trust)
}

fn store(workspace: &Workspace, name: &str, file: &str) -> SslSettings {
    let location = path(workspace, file).display().to_string();
    let mut settings = vec![(format!("ssl.{name}.location"), location)];
    // The PEM files are not encrypted, and Java would try to decrypt them.
    if !file.ends_with(".pem") {
        settings.push((format!("ssl.{name}.password"), PASSWORD.to_owned()));
    }
    settings
}

/// The system properties with which Apache's client uses TLS.
pub(super) fn java_properties(settings: &[(String, String)]) -> Vec<String> {
    let mut properties = vec![
        "-Dzookeeper.client.secure=true".to_owned(),
        "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty".to_owned(),
    ];
    properties.extend(settings.iter().map(|(name, value)| format!("-Dzookeeper.{name}={value}")));
    properties
}
