//! SASL on the client port: the Java client with DIGEST-MD5 and Kerberos, kazoo with DIGEST-MD5. The clients are
//! connected to a follower, whose leader checks the ACLs of forwarded requests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use ox_testkit::{MemberRole, TestEnsemble, free_port};

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
    Case { name: "kerberos-kazoo", run: kerberos_kazoo },
    Case { name: "rust-client", run: rust_client },
    Case { name: "ticket-lifetime", run: super::ticket_lifetime::run },
];

pub(super) const PACKAGE: &str = "org.apache.zookeeper.server.auth";

pub(super) fn prepare(workspace: &Workspace) -> Result<()> {
    Software::Oxkeeper.prepare(workspace)?;
    for suite in [&suites::JAVA, &suites::KAZOO, &suites::RUST] {
        suite.prepare(workspace)?;
    }
    suites::prepare_kazoo_kerberos(workspace)
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
        command.args([&server, "/kazoo", expected, "DIGEST-MD5", "bob", password]);
        expect_ok(&mut command).context(expected)?;
    }
    Ok(())
}

/// kazoo with MIT's library: with a ticket, and without.
fn kerberos_kazoo(workspace: &Workspace, home: &Path) -> Result<()> {
    let (service, bob) = (format!("zookeeper/localhost@{REALM}"), format!("bob@{REALM}"));
    let kdc = Kdc::start(&home.join("kdc"), &[&service, &bob])?;
    let conf = format!("java.security.krb5.conf={}", kdc.conf().display());
    let ensemble = ensemble(workspace, home, &kdc.jaas_section("Server", &service), &[conf])?;
    let login = |expected: &str| {
        let mut command = suites::kazoo_program(workspace, "sasl_login.py");
        command.args([&follower(&ensemble), "/kazoo-krb", expected, "GSSAPI", &bob]).envs(kdc.environment());
        expect_ok(&mut command).context(expected.to_owned())
    };
    login("refused").context("without a ticket")?;
    kdc.run("/usr/bin/kinit", &["-k", "-t", &kdc.keytab("bob").display().to_string(), &bob])?;
    login("accepted")
}

/// The crate zookeeper-client: certificates, passwords, both.
fn rust_client(workspace: &Workspace, home: &Path) -> Result<()> {
    let testdata = workspace.root().join("crates/ox-tls/testdata");
    let [keys, ca] = ["pkcs8.pem", "ca.pem"].map(|name| testdata.join(name).display().to_string());
    let jaas = home.join("server-jaas.conf");
    fs::write(&jaas, digest_server())?;
    let port = free_port();
    let spec = Software::Oxkeeper.spec(workspace)?.setting("secureClientPort", port);
    let spec = spec.setting("ssl.keyStore.location", &keys).setting("ssl.trustStore.location", &ca);
    let spec = spec.setting("ssl.clientAuth", "want");
    let spec = spec.setting("authProvider.1", format!("{PACKAGE}.SASLAuthenticationProvider"));
    let server = spec.property("java.security.auth.login.config", jaas.display()).start_in(&home.join("server"))?;
    let (plain, secure) = (format!("localhost:{}", server.address().port()), format!("localhost:{port}"));
    let (tls, bob, wrong) = (["ca", &ca, "key", &keys], ["user", "bob", "bobsecret"], ["user", "bob", "guess"]);
    let both = [&tls[..], &bob].concat();
    let of_key = "x509:CN=server,O=Example,C=US";
    for (server, path, expected, words) in [
        (&secure, "/rust-tls", of_key, &tls[..]),
        (&plain, "/rust-sasl", "sasl:bob", &bob),
        (&secure, "/rust-both", &format!("sasl:bob,{of_key}"), &both),
        (&plain, "/rust-wrong", "refused", &wrong),
        (&plain, "/rust-plain-port", "refused", &tls),
    ] {
        let mut command = suites::rust_program(workspace, "login");
        expect_ok(command.args([server, path, expected]).args(words)).with_context(|| path.to_owned())?;
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
