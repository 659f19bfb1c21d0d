//! Our client, shell and tools against an Apache server with TLS and with SASL.

use super::client_kerberos;
use super::client_stores::{CLIENT_NAME, KeytoolStores, flags};
use super::client_transcripts::replay;
use crate::interop::servers::{Software, oxkeeper};
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use ox_client::acl::{Acl, perms};
use ox_client::{Client, ClientProperties, CreateMode, CreateOptions, ErrorKind, SaslLogin, SessionState};
use ox_testkit::{Proxy, ServerUnderTest, free_port};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(super) const NETTY: &str = "org.apache.zookeeper.server.NettyServerCnxnFactory";
pub(super) const SASL_PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
/// Time limit of a single wait.
const PATIENCE: Duration = Duration::from_secs(30);

const JAAS: &str = r#"Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="adminsecret"
    user_bob="bobsecret";
};
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="bob"
    password="bobsecret";
};
"#;

pub(super) fn run(workspace: &Workspace) -> Result<()> {
    let binary = oxkeeper::build(workspace, workspace.profile())?;
    Software::Apache.prepare(workspace)?;
    println!("our client with Apache ZooKeeper, TLS and SASL");
    let dir = tempfile::Builder::new().prefix("oxkeeper-security-").tempdir()?;
    let stores = KeytoolStores::make(&dir.path().join("stores"))?;
    let jaas = dir.path().join("jaas.conf");
    std::fs::write(&jaas, JAAS)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let transcripts = workspace.root().join("crates/ox-shell/testdata");

    let tls = Tls::start(workspace, &dir.path().join("tls"), &stores, &jaas)?;
    let tls_flags = flags(&stores.client_properties());
    replay(&binary, &transcripts.join("11-tls-x509.txt"), &format!("127.0.0.1:{}", tls.port), &tls_flags)?;
    runtime.block_on(tls_sessions(&tls, &stores))?;
    tools(&binary, &tls, &tls_flags)?;

    let sasl_flags = format!("-Djava.security.auth.login.config={}", jaas.display());
    let address = tls.server.address().to_string();
    replay(&binary, &transcripts.join("12-sasl-digest-md5.txt"), &address, &sasl_flags)?;
    runtime.block_on(sasl_sessions(&tls, &stores))?;
    bench(&binary, &tls, &format!("{tls_flags} {sasl_flags}"))?;
    client_kerberos::run(workspace, &binary, dir.path())
}

/// A server with a plain port and a TLS port, which knows SASL on both.
struct Tls {
    server: ServerUnderTest,
    port: u16,
}

impl Tls {
    fn start(workspace: &Workspace, dir: &Path, stores: &KeytoolStores, jaas: &Path) -> Result<Self> {
        let port = free_port();
        let mut spec = Software::Apache
            .spec(workspace)?
            .setting("secureClientPort", port)
            .property("zookeeper.serverCnxnFactory", NETTY)
            .property("zookeeper.X509AuthenticationProvider.superUser", CLIENT_NAME)
            .property("zookeeper.authProvider.1", SASL_PROVIDER)
            .property("java.security.auth.login.config", jaas.display());
        for (key, value) in stores.server_settings() {
            spec = spec.setting(&key, value);
        }
        Ok(Self { server: spec.start_in(dir)?, port })
    }

    fn secure_address(&self) -> String {
        format!("localhost:{}", self.port)
    }
}

async fn within<T>(what: &str, work: impl Future<Output = Result<T, ox_client::Error>>) -> Result<T> {
    tokio::time::timeout(PATIENCE, work)
        .await
        .with_context(|| format!("{what}: timeout"))?
        .with_context(|| what.to_owned())
}

fn properties(stores: &KeytoolStores) -> ClientProperties {
    let mut properties = ClientProperties::default();
    stores.client_properties().iter().for_each(|(name, value)| properties.set(name, value));
    properties
}

async fn tls_sessions(tls: &Tls, stores: &KeytoolStores) -> Result<()> {
    let servers = tls.secure_address();
    let builder = properties(stores).apply(Client::builder().servers(&servers)?)?;
    let client = within("connect with TLS", builder.connect()).await?;
    let ids = within("whoami", client.who_am_i()).await?;
    ensure!(ids.iter().any(|id| id.scheme == "x509" && id.id == CLIENT_NAME), "no x509 identity: {ids:?}");
    let data = vec![7; 500_000];
    within("create", client.create("/tls-large", &data, CreateMode::Persistent)).await?;
    ensure!(within("get", client.get("/tls-large")).await?.data == data, "data differs");
    within("close", client.close()).await?;

    let mut without = properties(stores);
    without.set("zookeeper.ssl.keyStore.location", "");
    expect_refusal("without a client certificate", &without, &servers, &["certificate", "closed the connection"])
        .await?;
    let mut foreign = properties(stores);
    foreign.set("zookeeper.ssl.trustStore.location", &stores.path("trust-client.jks"));
    expect_refusal("with another trust store", &foreign, &servers, &["not issued by a CA of the trust store"]).await?;
    let plain_port = format!("localhost:{}", tls.server.address().port());
    let causes = &["closed the connection during the handshake", "does not speak TLS"];
    expect_refusal("to the plain port", &properties(stores), &plain_port, causes).await?;
    println!("  sessions over TLS: identity, large data, refused certificates, plain port");
    Ok(())
}

async fn expect_refusal(what: &str, properties: &ClientProperties, servers: &str, causes: &[&str]) -> Result<()> {
    let builder = properties.apply(Client::builder().servers(servers)?)?.connect_timeout(Duration::from_secs(3));
    match builder.connect().await {
        Ok(_) => bail!("a client {what} is accepted"),
        Err(error) => {
            let text = error.to_string();
            ensure!(causes.iter().any(|cause| text.contains(cause)), "a client {what} is refused with: {text}");
            Ok(())
        }
    }
}

async fn sasl_sessions(tls: &Tls, stores: &KeytoolStores) -> Result<()> {
    let proxy = Proxy::start(tls.server.address());
    let builder = Client::builder().servers(&proxy.address().to_string())?.sasl(SaslLogin::digest("bob", "bobsecret"));
    let client = within("connect with SASL", builder.connect()).await?;
    let acl = Acl::new(perms::ALL, "sasl", "bob");
    let options = CreateOptions::new(CreateMode::Persistent).with_acl([acl]);
    within("create", client.create("/sasl-only", b"x", &options)).await?;
    let mut states = client.states();
    states.next().await;
    proxy.close_all();
    ensure!(matches!(states.next().await, Some(SessionState::Suspended { .. })), "the connection was not lost");
    ensure!(states.next().await == Some(SessionState::Connected), "the client does not reconnect");
    within("get after a reconnect", client.get("/sasl-only")).await?;
    within("close", client.close()).await?;

    let plain = Client::builder().servers(&tls.server.address().to_string())?;
    let other = within("connect without SASL", plain.clone().connect()).await?;
    ensure!(other.get("/sasl-only").await.is_err(), "a client without SASL reads the node");
    let Err(error) = plain.sasl(SaslLogin::digest("bob", "wrong")).connect().await else { bail!("wrong password") };
    ensure!(matches!(error.kind(), ErrorKind::SaslFailed(_)), "wrong password: {error}");

    let secure = properties(stores).apply(Client::builder().servers(&tls.secure_address())?)?;
    let client =
        within("connect with TLS and SASL", secure.sasl(SaslLogin::digest("bob", "bobsecret")).connect()).await?;
    let mut schemes: Vec<String> = within("whoami", client.who_am_i()).await?.into_iter().map(|id| id.scheme).collect();
    schemes.sort();
    ensure!(schemes == ["ip", "sasl", "super", "x509"], "identities: {schemes:?}");
    within("close", client.close()).await?;
    println!("  sessions with SASL: ACL, again after a reconnect, wrong password, together with TLS");
    Ok(())
}

/// The load generator, over TLS and with SASL.
fn bench(binary: &Path, tls: &Tls, flags: &str) -> Result<()> {
    for workload in ["get=9,set=1", "session", "notify"] {
        let run = Command::new(binary)
            .args([
                "bench",
                "-s",
                &tls.secure_address(),
                "-w",
                workload,
                "-c",
                "4",
                "-d",
                "10",
                "-t",
                "1",
                "--warm-up",
                "0.2",
            ])
            .args(["--keys", "100", "--json"])
            .env("CLIENT_JVMFLAGS", flags)
            .output()?;
        let text = String::from_utf8_lossy(&run.stderr).into_owned();
        ensure!(run.status.success(), "oxkeeper bench -w {workload}: {}\n{text}", run.status);
    }
    println!("  oxkeeper bench over TLS with SASL: requests, sessions, notifications");
    Ok(())
}

/// The commands that need no session, over TLS.
fn tools(binary: &Path, tls: &Tls, flags: &str) -> Result<()> {
    let run = |arguments: &[&str], is_expected: &dyn Fn(&str) -> bool| {
        let output = Command::new(binary).args(arguments).env("CLIENT_JVMFLAGS", flags).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = arguments.join(" ");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success() && is_expected(&text), "`oxkeeper {line}`: {}\n{text}{errors}", output.status);
        Ok(())
    };
    let server = tls.secure_address();
    run(&["4lw", "srvr", &server], &|text| text.contains("Mode: standalone"))?;
    run(&["status", &server], &|text| text.contains("standalone"))?;
    run(&["tls", "check", &server], &|text| {
        text.contains("valid for localhost") && text.contains("a client with these settings is accepted")
    })?;
    println!("  oxkeeper 4lw, status and tls check over TLS");
    Ok(())
}
