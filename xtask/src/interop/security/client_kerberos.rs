//! Kerberos: a KDC of MIT on loopback, an Apache server, and our client and shell.

use crate::interop::servers::Software;
use crate::interop::tool;
use crate::interop::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use ox_client::{Client, SaslLogin};
use ox_testkit::free_port;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REALM: &str = "OXKEEPER.TEST";
const SERVICE: &str = "zookeeper/localhost@OXKEEPER.TEST";
const CLIENT: &str = "bob@OXKEEPER.TEST";
const PROGRAMS: [&str; 4] = ["/usr/sbin/krb5kdc", "/usr/sbin/kdb5_util", "/usr/sbin/kadmin.local", "/usr/bin/kinit"];
/// Time for the KDC to listen, and for a session.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs if MIT's programs are installed.
pub(super) fn run(workspace: &Workspace, binary: &Path, dir: &Path) -> Result<()> {
    if let Some(missing) = PROGRAMS.iter().find(|program| !Path::new(program).exists()) {
        println!("  Kerberos: skipped, {missing} is not installed (krb5-kdc, krb5-admin-server, krb5-user)");
        return Ok(());
    }
    let kdc = Kdc::start(&dir.join("kdc"))?;
    let jaas = dir.join("jaas-krb5.conf");
    std::fs::write(&jaas, kdc.jaas())?;
    let server = Software::Apache
        .spec(workspace)?
        .property("zookeeper.authProvider.1", super::client::SASL_PROVIDER)
        .property("java.security.auth.login.config", jaas.display())
        .property("java.security.krb5.conf", kdc.path("krb5.conf"))
        .start_in(&dir.join("krb5"))?;
    let servers = format!("localhost:{}", server.address().port());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let keytab = SaslLogin::keytab(CLIENT, kdc.path("bob.keytab"));
    runtime.block_on(connects(&servers, keytab.clone().krb5_conf(kdc.path("krb5.conf")))).context("keytab")?;
    kdc.run("/usr/bin/kinit", &["-k", "-t", &kdc.path("bob.keytab"), CLIENT])?;
    let cache = SaslLogin::ticket_cache(Some(&kdc.directory.join("ccache")));
    runtime.block_on(connects(&servers, cache.krb5_conf(kdc.path("krb5.conf")))).context("ticket cache")?;

    let unknown = keytab.server_principal("zookeeper/other").krb5_conf(kdc.path("krb5.conf"));
    let builder = Client::builder().servers(&servers)?.sasl(unknown).connect_timeout(Duration::from_secs(3));
    let Err(error) = runtime.block_on(builder.connect()) else { bail!("a ticket for an unknown server") };
    ensure!(error.to_string().contains("ticket for zookeeper/other@OXKEEPER.TEST: the KDC refuses"), "{error}");

    let flags = format!(
        "-Djava.security.auth.login.config={} -Djava.security.krb5.conf={}",
        jaas.display(),
        kdc.path("krb5.conf")
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

/// A realm of its own, with all files in one directory.
struct Kdc {
    directory: PathBuf,
    process: Child,
}

impl Kdc {
    fn start(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let (port, path) = (free_port(), directory.display());
        let conf = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n\
             [realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n[domain_realm]\n localhost = {REALM}\n"
        );
        let kdc_conf = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
             [realms]\n {REALM} = {{\n  database_name = {path}/principal\n  key_stash_file = {path}/stash\n\
             acl_file = {path}/acl\n  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n\
             default_principal_flags = +preauth\n }}\n[logging]\n kdc = FILE:{path}/kdc.log\n"
        );
        std::fs::write(directory.join("krb5.conf"), conf)?;
        std::fs::write(directory.join("kdc.conf"), kdc_conf)?;
        command(directory, "/usr/sbin/kdb5_util", &["create", "-s", "-r", REALM, "-P", "master"])?;
        for query in [
            format!("addprinc -randkey {CLIENT}"),
            format!("addprinc -randkey {SERVICE}"),
            format!("ktadd -norandkey -k {path}/bob.keytab {CLIENT}"),
            format!("ktadd -norandkey -k {path}/zk.keytab {SERVICE}"),
        ] {
            command(directory, "/usr/sbin/kadmin.local", &["-r", REALM, "-q", &query])?;
        }
        let mut program = Command::new("/usr/sbin/krb5kdc");
        program.args(["-n", "-r", REALM]).envs(environment(directory)).stdout(Stdio::null()).stderr(Stdio::null());
        let kdc = Self { directory: directory.to_owned(), process: program.spawn().context("start krb5kdc")? };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(Instant::now() < deadline, "the KDC does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(kdc)
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        command(&self.directory, program, arguments)
    }

    fn jaas(&self) -> String {
        let section = |name: &str, principal: &str, keytab: &str| {
            format!(
                "{name} {{\n  com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=\"{}\"\n  \
                 storeKey=true useTicketCache=false principal=\"{principal}\";\n}};\n",
                self.path(keytab)
            )
        };
        section("Server", SERVICE, "zk.keytab") + &section("Client", CLIENT, "bob.keytab")
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(directory: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    tool::run(Command::new(program).args(arguments).envs(environment(directory)))
}

fn environment(directory: &Path) -> [(&'static str, String); 3] {
    let file = |name: &str| directory.join(name).display().to_string();
    [
        ("KRB5_CONFIG", file("krb5.conf")),
        ("KRB5_KDC_PROFILE", file("kdc.conf")),
        ("KRB5CCNAME", format!("FILE:{}", file("ccache"))),
    ]
}
