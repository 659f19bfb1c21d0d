//! Kerberos tickets that live for seconds: a client that reconnects after their end gets new ones from its keytab, and a
//! session survives.

use super::kdc::{Kdc, REALM};
use super::sasl::PACKAGE;
use crate::interop::servers::Software;
use crate::interop::workspace::Workspace;
use anyhow::{Result, ensure};
use ox_client::{Client, SaslLogin};
use ox_testkit::ClientProxy;
use std::path::Path;
use std::time::{Duration, Instant};

/// The client does not use the last ten seconds of a ticket.
const LIFETIME: Duration = Duration::from_secs(15);
/// The difference of clocks that the KDC admits, and one second because times of tickets are rounded.
const MARGIN: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(workspace: &Workspace, home: &Path) -> Result<()> {
    let (service, bob) = (format!("zookeeper/localhost@{REALM}"), format!("bob@{REALM}"));
    let kdc = Kdc::start_with(&home.join("kdc"), &[&service, &bob], LIFETIME)?;
    let jaas = home.join("jaas.conf");
    std::fs::write(&jaas, kdc.jaas_section("Server", &service))?;
    let server = Software::Oxkeeper
        .spec(workspace)?
        .setting("authProvider.1", format!("{PACKAGE}.SASLAuthenticationProvider"))
        .property("java.security.auth.login.config", jaas.display())
        .property("java.security.krb5.conf", kdc.conf().display())
        .start_in(&home.join("server"))?;
    let proxy = ClientProxy::start(server.address());
    let servers = format!("localhost:{}", proxy.address().port());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let login = SaslLogin::keytab(&bob, kdc.keytab("bob")).krb5_conf(kdc.conf());
        let begun = Instant::now();
        let connected = Client::builder().servers(&servers)?.sasl(login).session_timeout(PATIENCE).connect();
        let client = tokio::time::timeout(PATIENCE, connected).await??;
        let session = client.session().map(|ticket| ticket.id);
        for lifetime in 1..=2 {
            tokio::time::sleep_until((begun + (LIFETIME + MARGIN) * lifetime).into()).await;
            let sessions = proxy.sessions();
            ensure!(sessions.iter().any(|known| proxy.close_session_connection(*known)), "no connection to close");
            let ids = tokio::time::timeout(PATIENCE, identities(&client)).await??;
            ensure!(ids.iter().any(|id| id == &format!("sasl:{bob}")), "after lifetime {lifetime}: {ids:?}");
            ensure!(
                client.session().map(|ticket| ticket.id) == session,
                "the session is lost after lifetime {lifetime}"
            );
        }
        client.close().await?;
        Ok(())
    })
}

/// The identities of the connection, as soon as there is one again.
async fn identities(client: &Client) -> Result<Vec<String>> {
    loop {
        match client.who_am_i().await {
            Ok(ids) => return Ok(ids.iter().map(|id| format!("{}:{}", id.scheme, id.id)).collect()),
            Err(error) if error.is_retriable() => tokio::task::yield_now().await,
            Err(error) => return Err(error.into()),
        }
    }
}
