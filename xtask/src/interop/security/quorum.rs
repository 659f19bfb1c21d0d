//! TLS and SASL between servers, in ensembles of Apache 3.9 and Oxkeeper.
//!
//! A name such as `aao` describes the servers, numbered from 1: `a` is Apache, `o` Oxkeeper. The last one leads first.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ox_testkit::{MemberRole, Program, TestEnsemble};

use super::Case;
use super::kdc::{Kdc, REALM};
use crate::interop::servers::Software;
use crate::interop::workspace::Workspace;

pub(super) const CASES: &[Case] = &[
    Case { name: "quorum-tls-aao", run: |workspace, home| tls(workspace, home, "aao", &PKCS12) },
    Case { name: "quorum-tls-ooa", run: |workspace, home| tls(workspace, home, "ooa", &JKS) },
    Case { name: "quorum-tls-rolling-change", run: rolling_change },
    Case { name: "quorum-sasl-aao", run: |workspace, home| sasl(workspace, home, "aao") },
    Case { name: "quorum-sasl-ooa", run: |workspace, home| sasl(workspace, home, "ooa") },
    Case { name: "quorum-kerberos-aao", run: |workspace, home| kerberos(workspace, home, "aao") },
    Case { name: "quorum-kerberos-ooa", run: |workspace, home| kerberos(workspace, home, "ooa") },
    Case { name: "quorum-tls-sasl-migration", run: super::migration::run },
];

/// Of the tests of `ox-tls`; keytool has written them.
struct Stores {
    key: &'static str,
    trust: &'static str,
}

const JKS: Stores = Stores { key: "keytool.jks", trust: "trust.jks" };
const PKCS12: Stores = Stores { key: "keytool.p12", trust: "trust.p12" };

const TLS: &str = "sslQuorum=true\n";
const UNIFIED: &str = "portUnification=true\n";
const BOTH: &str = "sslQuorum=true\nportUnification=true\n";
const SASL: &str =
    "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n";

const KERBEROS_SERVICE: &str = "zkquorum";

/// Longer than Oxkeeper's own tests need, because a JVM starts slowly.
const TIMES: &str = "syncLimit=6\n";

fn stores(workspace: &Workspace, stores: &Stores) -> String {
    let of = |kind: &str, file: &str| {
        let path = workspace.root().join("crates/ox-tls/testdata").join(file);
        format!("ssl.quorum.{kind}.location={}\nssl.quorum.{kind}.password=changeit\n", path.display())
    };
    of("keyStore", stores.key) + &of("trustStore", stores.trust)
}

fn program(workspace: &Workspace, letter: char) -> Result<Program> {
    let software = if letter == 'a' { Software::Apache } else { Software::Oxkeeper };
    software.prepare(workspace)?;
    software.program(workspace)
}

/// Starts the first and the last server, of which the last leads, and then the others.
fn start(
    workspace: &Workspace,
    home: &Path,
    letters: &str,
    settings: &str,
    properties: &[&str],
) -> Result<TestEnsemble> {
    let member = |letter| Ok((program(workspace, letter)?, MemberRole::Participant));
    let members = letters.chars().map(member).collect::<Result<Vec<_>>>()?;
    let last = members.len() - 1;
    let mut ensemble = TestEnsemble::new(home, members, &format!("{TIMES}{settings}"), properties);
    ensemble.start_members(&[0, last]);
    ensemble.start_members(&(1..last).collect::<Vec<_>>());
    ensure!(ensemble.leader() == last, "the last server does not lead");
    Ok(ensemble)
}

fn check_serves(ensemble: &TestEnsemble, path: &str) {
    for at in 0..ensemble.len() {
        ensemble.client_of(at).create(&format!("{path}-{at}"), 0);
    }
    ensemble.wait_until_in_sync();
    ensemble.check_equal();
}

/// Serves, loses its leader, elects another one, and takes the old one back.
fn check_failover(mut ensemble: TestEnsemble) {
    check_serves(&ensemble, "/first");
    let leader = ensemble.leader();
    ensemble.kill(leader);
    ensemble.client().create("/without", 0);
    ensemble.restart(leader);
    check_serves(&ensemble, "/second");
}

fn tls(workspace: &Workspace, home: &Path, letters: &str, of: &Stores) -> Result<()> {
    let settings = format!("{TLS}{}", stores(workspace, of));
    check_failover(start(workspace, home, letters, &settings, &[])?);
    Ok(())
}

/// The sections of a JAAS file for SASL between servers.
pub(super) fn jaas_sections() -> String {
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    format!(
        "QuorumServer {{ {module} user_zk=\"quorum-secret\"; }};\n\
         QuorumLearner {{ {module} username=\"zk\" password=\"quorum-secret\"; }};\n"
    )
}

/// The settings of an ensemble with TLS and SASL between its servers.
pub(super) fn protected(workspace: &Workspace) -> String {
    format!("{TLS}{SASL}{}", stores(workspace, &JKS))
}

/// Builds and downloads both servers.
pub(super) fn prepare(workspace: &Workspace) -> Result<()> {
    [Software::Apache, Software::Oxkeeper].iter().try_for_each(|software| software.prepare(workspace))
}

/// A JAAS file with both sections, and the property that names it.
fn jaas(home: &Path) -> Result<String> {
    let file = home.join("jaas.conf");
    fs::write(&file, jaas_sections()).context("write the JAAS file")?;
    Ok(format!("java.security.auth.login.config={}", file.display()))
}

fn sasl(workspace: &Workspace, home: &Path, letters: &str) -> Result<()> {
    let property = jaas(home)?;
    check_failover(start(workspace, home, letters, SASL, &[&property])?);
    Ok(())
}

/// Replaces the lines about TLS in the configuration of a server that has ended.
fn set_lines(ensemble: &TestEnsemble, at: usize, lines: &str) -> Result<()> {
    let file = ensemble.directory(at).join("zoo.cfg");
    let is_kept = |line: &&str| !line.starts_with("sslQuorum=") && !line.starts_with("portUnification=");
    let kept: String = fs::read_to_string(&file)?.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    fs::write(file, kept + lines).context("change zoo.cfg")
}

/// Plain text to TLS in three rolling restarts, and back.
fn rolling_change(workspace: &Workspace, home: &Path) -> Result<()> {
    let mut ensemble = start(workspace, home, "oao", &stores(workspace, &PKCS12), &[])?;
    let mut client = ensemble.client();
    for (number, lines) in [UNIFIED, BOTH, TLS, BOTH, UNIFIED, ""].into_iter().enumerate() {
        for at in 0..ensemble.len() {
            ensemble.servers[at].terminate()?;
            set_lines(&ensemble, at, lines)?;
            ensemble.start_members(&[at]);
            client.create(&format!("/step-{number}-{at}"), 0);
        }
    }
    check_serves(&ensemble, "/end");
    Ok(())
}

/// Kerberos between servers, with a real KDC.
fn kerberos(workspace: &Workspace, home: &Path, letters: &str) -> Result<()> {
    let host = |at: usize| format!("127.0.0.{}", at + 1);
    let principals: Vec<String> =
        (0..letters.len()).map(|at| format!("{KERBEROS_SERVICE}/{}@{REALM}", host(at))).collect();
    let kdc = Kdc::start(&home.join("kdc"), &principals.iter().map(String::as_str).collect::<Vec<_>>())?;
    let conf = format!("java.security.krb5.conf={}", kdc.conf().display());
    // The path is relative to the directory of each server.
    let properties = ["java.security.auth.login.config=jaas.conf", &conf];
    let settings = format!("{SASL}quorum.auth.kerberos.servicePrincipal={KERBEROS_SERVICE}/_HOST\n");
    let servers = home.join("servers");
    for (at, principal) in principals.iter().enumerate() {
        let directory = servers.join((at + 1).to_string());
        fs::create_dir_all(&directory)?;
        let text = kdc.jaas_section("QuorumServer", principal) + &kdc.jaas_section("QuorumLearner", principal);
        fs::write(directory.join("jaas.conf"), text).context("write a JAAS file")?;
    }
    check_failover(start(workspace, &servers, letters, &settings, &properties)?);
    Ok(())
}
