//! Settings that weaken protection, which the server logs and counts.

use crate::harness::Harness;
use ox_config::weak_settings;

fn check(lines: &str, expected: &[&str]) {
    let config = Harness::with_config(&format!("dataDir=/d\n{lines}")).and_file("/d/myid", "1").start().config();
    let found: Vec<&str> = weak_settings(&config).iter().map(|weak| weak.key).collect();
    assert_eq!(found, expected, "{lines}");
}

const LOCAL: &str = "clientPort=2181\nclientPortAddress=127.0.0.1\n";
const STORES: &str = "ssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem\n";
const PLAIN: [&str; 2] = ["clientPort", "DigestAuthenticationProvider.enabled"];

#[test]
fn s2_each_weak_setting_is_found() {
    check(LOCAL, &[]);
    check(&format!("secureClientPort=2281\n{STORES}"), &[]);
    check("clientPort=2181\n", &PLAIN);
    check("clientPort=2181\nDigestAuthenticationProvider.enabled=false\n", &PLAIN[..1]);
    check("clientPort=2181\n4lw.commands.whitelist=*\n", &[PLAIN[0], PLAIN[1], "4lw.commands.whitelist"]);
    for (key, value) in [
        ("skipACL", "yes"),
        ("forceSync", "no"),
        ("DigestAuthenticationProvider.superDigest", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="),
        ("superUser", "admin"),
        ("letAnySaslUserDoX", "x"),
    ] {
        check(&format!("{LOCAL}{key}={value}\n"), &[key]);
    }
    let super_user = "X509AuthenticationProvider.superUser";
    check(&format!("secureClientPort=2281\n{STORES}{super_user}=CN=admin\n"), &[super_user]);
}

#[test]
fn s12_unified_port_is_weak() {
    check(&format!("{LOCAL}{STORES}client.portUnification=true\n"), &["client.portUnification"]);
}

#[test]
fn links_without_authentication_are_weak_if_they_leave_the_host() {
    let members = |host: &str| {
        let servers: String = (1..=3).map(|id| format!("server.{id}={host}:2888:3888\n")).collect();
        format!("{LOCAL}initLimit=5\nsyncLimit=5\n{servers}")
    };
    check(&members("127.0.0.1"), &[]);
    check(&members("zk.example.com"), &["sslQuorum"]);
    let stores = "ssl.quorum.keyStore.location=/k.pem\nssl.quorum.trustStore.location=/t.pem\n";
    let remote = |lines: &str| format!("{}{stores}{lines}", members("zk.example.com"));
    check(&remote("sslQuorum=true\n"), &[]);
    check(&remote("sslQuorum=true\nportUnification=true\n"), &["sslQuorum"]);
    check(&remote("sslQuorum=true\nssl.quorum.clientAuth=want\n"), &["sslQuorum"]);
}
