//! An Apache ensemble with TLS and SASL becomes one of Oxkeeper and goes back, server by server, under load.
//!
//! The servers use TLS and SASL between each other. Their client ports accept plain connections, which the usual load
//! uses, and TLS: a client with a certificate and a SASL login writes too.

use super::client::{NETTY, SASL_PROVIDER};
use super::client_stores::KeytoolStores;
use super::quorum;
use crate::interop::ensembles;
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use ox_client::{BlockingClient, Client, ClientProperties, CreateMode, SaslLogin, SessionTicket};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const X509_PROVIDER: &str = "org.apache.zookeeper.server.auth.X509AuthenticationProvider";

/// Longer than a JVM needs to start.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(workspace: &Workspace, home: &Path) -> Result<()> {
    quorum::prepare(workspace)?;
    let stores = KeytoolStores::make(&home.join("stores"))?;
    let jaas = home.join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let text = format!("{}Server {{ {module} user_bob=\"bobsecret\"; }};\n", quorum::jaas_sections());
    std::fs::write(&jaas, text).context("write the JAAS file")?;
    let of_clients = stores.server_settings().into_iter().map(|(key, value)| format!("{key}={value}\n"));
    let settings =
        format!("{}client.portUnification=true\n{}", quorum::protected(workspace), of_clients.collect::<String>());
    let properties = [
        format!("zookeeper.serverCnxnFactory={NETTY}"),
        format!("zookeeper.authProvider.1={SASL_PROVIDER}"),
        // Without a secure port, Apache knows this one only by name.
        format!("zookeeper.authProvider.x509={X509_PROVIDER}"),
        format!("java.security.auth.login.config={}", jaas.display()),
    ];
    let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
    let writer = |addresses: &[SocketAddr]| ProtectedWriter::start(addresses, &stores);
    let figures =
        ensembles::migrates_protected(workspace, &home.join("servers"), "aoa", &settings, &properties, writer)?;
    println!("     {figures}");
    Ok(())
}

/// A client with TLS and SASL that creates nodes until it is stopped.
pub(in crate::interop) struct ProtectedWriter {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<usize>>,
}

impl ProtectedWriter {
    fn start(addresses: &[SocketAddr], stores: &KeytoolStores) -> Result<Self> {
        let servers: Vec<String> = addresses.iter().map(|address| format!("localhost:{}", address.port())).collect();
        let mut properties = ClientProperties::default();
        stores.client_properties().iter().for_each(|(name, value)| properties.set(name, value));
        let builder = properties.apply(Client::builder().servers(&servers.join(","))?)?;
        let builder = builder.sasl(SaslLogin::digest("bob", "bobsecret")).session_timeout(SESSION_TIMEOUT);
        let client = builder.connect_blocking().context("connect with TLS and SASL")?;
        let ids = client.who_am_i()?;
        let has = |scheme: &str| ids.iter().any(|id| id.scheme == scheme);
        ensure!(has("x509") && has("sasl"), "the client is {ids:?}");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Ok(Self { stop, thread: std::thread::spawn(move || write(&client, &stopped)) })
    }

    /// Ends the load. Returns the number of writes, all of which are present.
    pub(in crate::interop) fn stop(self) -> Result<usize> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the thread does not panic")
    }
}

fn write(client: &BlockingClient, stop: &AtomicBool) -> Result<usize> {
    let session = |ticket: Option<SessionTicket>| ticket.map(|ticket| ticket.id);
    let first = session(client.session());
    client.create("/tls-owner", b"", CreateMode::Ephemeral)?;
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let path = format!("/tls-{number}");
        match client.create(&path, b"", CreateMode::Persistent) {
            Ok(_) => acknowledged.push(path),
            Err(error) if error.is_retriable() => (), // its outcome is unknown
            Err(error) => return Err(error).with_context(|| format!("create {path}")),
        }
    }
    client.sync("/")?;
    for path in &acknowledged {
        ensure!(client.exists(path)?.is_some(), "an acknowledged write is lost: {path}");
    }
    ensure!(client.exists("/tls-owner")?.is_some(), "the ephemeral node of a session is lost");
    ensure!(first == session(client.session()), "the session was lost");
    client.close()?;
    Ok(acknowledged.len())
}
