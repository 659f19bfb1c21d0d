//! Kerberos: a KDC of MIT on loopback, an Apache server, and our client and shell.

use super::kdc::{self, Kdc};
use crate::interop::servers::Software;
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use ox_client::{Client, SaslLogin};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SERVICE: &str = "zookeeper/localhost@OXKEEPER.TEST";
const CLIENT: &str = "bob@OXKEEPER.TEST";
/// Time for a session.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs if MIT's programs are installed.
pub(super) fn run(workspace: &Workspace, binary: &Path, dir: &Path) -> Result<()> {
    if let Some(missing) = kdc::missing_program() {
        println!("  Kerberos: skipped, {missing} is not installed (krb5-kdc, krb5-admin-server, krb5-user)");
        return Ok(());
    }
    let kdc = Kdc::start(&dir.join("kdc"), &[SERVICE, CLIENT])?;
    let jaas = dir.join("jaas-krb5.conf");
    std::fs::write(&jaas, kdc.jaas_section("Server", SERVICE) + &kdc.jaas_section("Client", CLIENT))?;
    let server = Software::Apache
        .spec(workspace)?
        .property("zookeeper.authProvider.1", super::client::SASL_PROVIDER)
        .property("java.security.auth.login.config", jaas.display())
        .property("java.security.krb5.conf", kdc.conf().display())
        .start_in(&dir.join("krb5"))?;
    let servers = format!("localhost:{}", server.address().port());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let keytab = SaslLogin::keytab(CLIENT, kdc.keytab("bob"));
    runtime.block_on(connects(&servers, keytab.clone().krb5_conf(kdc.conf()))).context("keytab")?;
    kdc.run("/usr/bin/kinit", &["-k", "-t", &kdc.keytab("bob").display().to_string(), CLIENT])?;
    let cache = SaslLogin::ticket_cache(Some(&kdc.ticket_cache()));
    runtime.block_on(connects(&servers, cache.krb5_conf(kdc.conf()))).context("ticket cache")?;

    let unknown = keytab.server_principal("zookeeper/other").krb5_conf(kdc.conf());
    let builder = Client::builder().servers(&servers)?.sasl(unknown).connect_timeout(Duration::from_secs(3));
    let Err(error) = runtime.block_on(builder.connect()) else { bail!("a ticket for an unknown server") };
    ensure!(error.to_string().contains("ticket for zookeeper/other@OXKEEPER.TEST: the KDC refuses"), "{error}");

    let flags = format!(
        "-Djava.security.auth.login.config={} -Djava.security.krb5.conf={}",
        jaas.display(),
        kdc.conf().display()
    );
    let shell =
        Command::new(binary).args(["cli", "-server", &servers, "whoami"]).env("CLIENT_JVMFLAGS", flags).output()?;
    let text = String::from_utf8_lossy(&shell.stdout).into_owned();
    let errors = String::from_utf8_lossy(&shell.stderr).into_owned();
    ensure!(shell.status.success() && text.contains(CLIENT), "oxkeeper cli: {text}{errors}");
    println!("  Kerberos with an MIT KDC: keytab, ticket cache, unknown server, JAAS section of oxkeeper cli");
    Ok(())
}

async fn connects(servers: &str, login: SaslLogin) -> Result<()> {
    let client = tokio::time::timeout(PATIENCE, Client::builder().servers(servers)?.sasl(login).connect()).await??;
    let ids = client.who_am_i().await?;
    ensure!(ids.iter().any(|id| id.scheme == "sasl" && id.id == CLIENT), "identities: {ids:?}");
    client.close().await?;
    Ok(())
}
