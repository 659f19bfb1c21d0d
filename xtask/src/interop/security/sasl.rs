//! SASL on the client port: the Java client with DIGEST-MD5 and Kerberos, kazoo with DIGEST-MD5. The clients are
//! connected to a follower, whose leader checks the ACLs of forwarded requests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use ox_testkit::{MemberRole, TestEnsemble};

use super::Case;
use super::kdc::{Kdc, REALM};
use crate::interop::servers::Software;
use crate::interop::suites::{self, java};
use crate::interop::tool;
use crate::interop::workspace::Workspace;

pub(super) const CASES: &[Case] = &[
    Case { name: "digest-md5-java", run: digest_md5_java },
    Case { name: "digest-md5-kazoo", run: digest_md5_kazoo },
    Case { name: "kerberos-java", run: kerberos_java },
    Case { name: "ticket-lifetime", run: super::ticket_lifetime::run },
];

pub(super) const PACKAGE: &str = "org.apache.zookeeper.server.auth";

pub(super) fn prepare(workspace: &Workspace) -> Result<()> {
    Software::Oxkeeper.prepare(workspace)?;
    for suite in [&suites::JAVA, &suites::KAZOO] {
        suite.prepare(workspace)?;
    }
    Ok(())
}

/// Three servers with the JAAS file `server` and these properties.
fn ensemble(workspace: &Workspace, home: &Path, server: &str, properties: &[String]) -> Result<TestEnsemble> {
    let jaas = home.join("server-jaas.conf");
    fs::write(&jaas, server)?;
    let mut all = vec![format!("java.security.auth.login.config={}", jaas.display())];
    all.extend_from_slice(properties);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let program = Software::Oxkeeper.program(workspace)?;
    let members = vec![(program, MemberRole::Participant); 3];
    let settings = format!("authProvider.1={PACKAGE}.SASLAuthenticationProvider\n");
    Ok(TestEnsemble::new(&home.join("servers"), members, &settings, &all).start())
}

/// The client address of a member that does not lead.
fn follower(ensemble: &TestEnsemble) -> String {
    let at = (0..ensemble.len()).find(|at| *at != ensemble.leader()).expect("three members");
    ensemble.addresses[at].to_string().replace("127.0.0.1:", "localhost:")
}

/// Runs the Java client with a JAAS file.
fn java_login(workspace: &Workspace, jaas: &Path, properties: &[String], arguments: &[&str]) -> Result<()> {
    let mut properties = properties.to_vec();
    properties.push(format!("java.security.auth.login.config={}", jaas.display()));
    let flags: Vec<String> = properties.iter().map(|property| format!("-D{property}")).collect();
    let mut command = java::java_command(workspace, "oxkeeper.interop.SaslLogin");
    command.args(arguments).env("JAVA_TOOL_OPTIONS", flags.join(" "));
    expect_ok(&mut command)
}

fn expect_ok(command: &mut Command) -> Result<()> {
    let output = tool::output(command)?;
    ensure!(output.lines().any(|line| line == "ok"), "the client printed {output}");
    Ok(())
}

fn client_file(home: &Path, name: &str, module: &str) -> Result<PathBuf> {
    let path = home.join(name);
    fs::write(&path, format!("Client {{ {module}; }};\n")).context("write a JAAS file")?;
    Ok(path)
}

fn digest_server() -> String {
    format!("Server {{ {PACKAGE}.DigestLoginModule required user_bob=\"bobsecret\" user_eve=\"evesecret\"; }};\n")
}

fn digest_md5_java(workspace: &Workspace, home: &Path) -> Result<()> {
    let ensemble = ensemble(workspace, home, &digest_server(), &[])?;
    let server = follower(&ensemble);
    for (user, password, path, expected) in [
        ("eve", "evesecret", "/java-of-another-user", "eve"),
        ("bob", "bobsecret", "/java", "bob"),
        ("bob", "wrong", "/none", "refused"),
        ("unknown", "bobsecret", "/none", "refused"),
    ] {
        let module = format!("{PACKAGE}.DigestLoginModule required username=\"{user}\" password=\"{password}\"");
        let jaas = client_file(home, "client-jaas.conf", &module)?;
        java_login(workspace, &jaas, &[], &[&server, path, expected]).with_context(|| format!("{user} {expected}"))?;
    }
    Ok(())
}

fn digest_md5_kazoo(workspace: &Workspace, home: &Path) -> Result<()> {
    let ensemble = ensemble(workspace, home, &digest_server(), &[])?;
    let server = follower(&ensemble);
    for (password, expected) in [("bobsecret", "accepted"), ("wrong", "refused")] {
        let mut command = suites::kazoo_program(workspace, "sasl_login.py");
        command.args([&server, "/kazoo", "bob", password, expected]);
        expect_ok(&mut command).context(expected)?;
    }
    Ok(())
}

fn kerberos_java(workspace: &Workspace, home: &Path) -> Result<()> {
    let service = format!("zookeeper/localhost@{REALM}");
    let (bob, eve) = (format!("bob/host1@{REALM}"), format!("eve@{REALM}"));
    let kdc = Kdc::start(&home.join("kdc"), &[&service, &bob, &eve])?;
    let conf = format!("java.security.krb5.conf={}", kdc.conf().display());
    let properties = [conf.clone(), "zookeeper.kerberos.removeHostFromPrincipal=true".to_owned()];
    let ensemble = ensemble(workspace, home, &kdc.jaas_section("Server", &service), &properties)?;
    let server = follower(&ensemble);
    let login = |principal: &str, path: &str, expected: &str| {
        let jaas = home.join("client-jaas.conf");
        fs::write(&jaas, kdc.jaas_section("Client", principal))?;
        let properties = [conf.clone(), "zookeeper.sasl.client.canonicalize.hostname=false".to_owned()];
        java_login(workspace, &jaas, &properties, &[&server, path, expected]).with_context(|| principal.to_owned())
    };
    login(&eve, "/krb-of-another-user", &format!("eve@{REALM}"))?;
    login(&bob, "/krb", &format!("bob@{REALM}"))?;
    // The servers read the keytab again, so that tickets with the new key are accepted.
    kdc.rotate("zookeeper", &service)?;
    for at in 0..ensemble.len() {
        ox_testkit::wait_until("the keytab is reloaded", || ensemble.servers[at].log().contains("keytab reloaded"));
    }
    login(&bob, "/rotated", &format!("bob@{REALM}"))
}
