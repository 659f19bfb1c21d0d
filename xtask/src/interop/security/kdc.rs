//! A KDC of MIT Kerberos with a realm of its own, on loopback.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ox_testkit::{free_port, wait_until};

use crate::interop::tool;

pub(super) const REALM: &str = "OXKEEPER.TEST";
/// Ports below 1024 are not needed, and the programs are outside of the PATH of most users.
const PROGRAMS: [&str; 4] = ["/usr/sbin/krb5kdc", "/usr/sbin/kadmin.local", "/usr/sbin/kdb5_util", "/usr/bin/kinit"];

/// A running KDC. Dropping it stops it.
pub(super) struct Kdc {
    directory: PathBuf,
    process: Child,
}

impl Kdc {
    /// Starts a KDC with these principals. The keys of each are in a keytab with the name of its first part.
    pub(super) fn start(directory: &Path, principals: &[&str]) -> Result<Self> {
        Self::start_with(directory, principals, Duration::from_secs(24 * 60 * 60))
    }

    /// The same with tickets that live as long as `lifetime`. Clocks may differ by a second only, because expired tickets
    /// are accepted for that time.
    pub(super) fn start_with(directory: &Path, principals: &[&str], lifetime: Duration) -> Result<Self> {
        if let Some(program) = missing_program() {
            bail!("{program} is missing\nhint: install krb5-kdc, krb5-admin-server and krb5-user of Debian");
        }
        let seconds = lifetime.as_secs();
        fs::create_dir_all(directory)?;
        let (port, path) = (free_port(), directory.display());
        let conf = format!(
            "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = \
             false\n dns_canonicalize_hostname = false\n udp_preference_limit = 1\n clockskew = 1\n[realms]\n {REALM} = {{\n  kdc = \
             127.0.0.1:{port}\n }}\n[domain_realm]\n localhost = {REALM}\n"
        );
        let kdc_conf = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n {REALM} = \
             {{\n  database_name = {path}/principal\n  key_stash_file = {path}/stash\n  acl_file = {path}/acl\n  \
             max_life = {seconds}s\n  default_principal_flags = +preauth\n }}\n[logging]\n kdc = FILE:{path}/kdc.log\n"
        );
        fs::write(directory.join("krb5.conf"), conf)?;
        fs::write(directory.join("kdc.conf"), kdc_conf)?;
        let run = |program: &str, arguments: &[&str]| {
            tool::run(Command::new(program).args(arguments).envs(environment(directory))).context("set up the KDC")
        };
        run("/usr/sbin/kdb5_util", &["create", "-s", "-r", REALM, "-P", "master"])?;
        for principal in principals {
            let keytab = directory.join(format!("{}.keytab", principal.split(['/', '@']).next().unwrap_or_default()));
            run("/usr/sbin/kadmin.local", &["-r", REALM, "-q", &format!("addprinc -randkey {principal}")])?;
            let query = format!("ktadd -norandkey -k {} {principal}", keytab.display());
            run("/usr/sbin/kadmin.local", &["-r", REALM, "-q", &query])?;
        }
        let mut kdc = Command::new("/usr/sbin/krb5kdc");
        kdc.args(["-n", "-r", REALM]).envs(environment(directory)).stderr(Stdio::null());
        let kdc = Self { directory: directory.to_owned(), process: kdc.spawn().context("start krb5kdc")? };
        wait_until("the KDC listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        Ok(kdc)
    }

    pub(super) fn conf(&self) -> PathBuf {
        self.directory.join("krb5.conf")
    }

    pub(super) fn keytab(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.keytab"))
    }

    /// The ticket cache of [`Self::run`].
    pub(super) fn ticket_cache(&self) -> PathBuf {
        self.directory.join("ccache")
    }

    /// Runs a program of MIT with the files of this realm.
    pub(super) fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        tool::run(Command::new(program).args(arguments).envs(environment(&self.directory)))
    }

    /// Variables with which programs of MIT's library use this realm and the ticket cache.
    pub(super) fn environment(&self) -> [(&'static str, PathBuf); 3] {
        environment(&self.directory)
    }

    /// A section of a JAAS file, for a principal that has a keytab.
    pub(super) fn jaas_section(&self, name: &str, principal: &str) -> String {
        let keytab = self.keytab(principal.split(['/', '@']).next().unwrap_or_default());
        format!(
            "{name} {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true \
             useTicketCache=false doNotPrompt=true keyTab=\"{}\" principal=\"{principal}\"; }};\n",
            keytab.display()
        )
    }

    /// Gives a principal a new key, and adds it to the keytab.
    pub(super) fn rotate(&self, name: &str, principal: &str) -> Result<()> {
        let query = format!("ktadd -k {} {principal}", self.keytab(name).display());
        self.run("/usr/sbin/kadmin.local", &["-r", REALM, "-q", &query])
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program of MIT that is not installed.
pub(super) fn missing_program() -> Option<&'static str> {
    PROGRAMS.into_iter().find(|program| !Path::new(program).exists())
}

fn environment(directory: &Path) -> [(&'static str, PathBuf); 3] {
    [
        ("KRB5_CONFIG", directory.join("krb5.conf")),
        ("KRB5_KDC_PROFILE", directory.join("kdc.conf")),
        ("KRB5CCNAME", directory.join("ccache")),
    ]
}
