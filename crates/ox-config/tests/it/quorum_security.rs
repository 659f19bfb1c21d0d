//! TLS and SASL between servers: which keys are read, and what is refused.

use crate::harness::{Harness, Outcome};
use ox_config::{Cause, MemberConfig};
use ox_sasl::jaas::modules::{AcceptorLogin, InitiatorLogin};

const MEMBERS: &str = "dataDir=/d\ninitLimit=5\nsyncLimit=4\nserver.1=a:1:2\nserver.2=b:3:4\n";
const STORES: &str = "ssl.quorum.keyStore.location=/k.p12\nssl.quorum.trustStore.location=/t.pem\n";
const JAAS_FLAG: &str = "-Djava.security.auth.login.config=/jaas.conf";
const DIGEST: &str = "org.apache.zookeeper.server.auth.DigestLoginModule required";

fn start(lines: &str, flags: &str, jaas: &str) -> Outcome {
    let harness = Harness::with_config(&format!("{MEMBERS}{lines}")).and_file("/d/myid", "2");
    harness.and_file("/jaas.conf", jaas).and_flags(flags).start()
}

fn member(lines: &str, flags: &str, jaas: &str) -> MemberConfig {
    start(lines, flags, jaas).config().member.expect("a member")
}

fn jaas() -> String {
    format!(
        "QuorumServer {{ {DIGEST} user_zk=\"hunter2\"; }};\n\
         QuorumLearner {{ {DIGEST} username=\"zk\" password=\"hunter2\"; }};\n"
    )
}

#[test]
fn tls_defaults_are_apaches() {
    assert_eq!(member("", "", "").tls, None);
    let tls = member(&format!("sslQuorum=true\n{STORES}"), "", "").tls.expect("TLS");
    assert_eq!((tls.dials_tls, tls.accepts_plain, tls.reloads, tls.detection_ms), (true, false, false, 5000));
    let keys = tls.keys;
    assert_eq!(keys.key_store.location.as_deref(), Some("/k.p12".as_ref()));
    assert_eq!((keys.protocol.as_deref(), keys.client_auth.as_deref()), (Some("TLSv1.3"), Some("need")));
    assert!(keys.hostname_verification && keys.client_hostname_verification && keys.fips_mode);
    assert!(!keys.crl && !keys.ocsp);
}

#[test]
fn tls_keys_are_read_from_file_and_property() {
    let lines = "portUnification=true\nsslQuorumReloadCertFiles=true\nssl.quorum.trustStore.location=/t.jks\n\
                 ssl.quorum.trustStore.password=one\nssl.quorum.crl=true\n\
                 oxkeeper.ssl.quorum.crlFiles=/a.crl\n";
    let flags = "-Dzookeeper.ssl.quorum.keyStore.location=/k.jks -Dzookeeper.ssl.quorum.keyStore.password=two \
                 -Dzookeeper.ssl.quorum.clientHostnameVerification=false \
                 -Dzookeeper.ssl.quorum.handshakeDetectionTimeoutMillis=250";
    let tls = member(lines, flags, "").tls.expect("TLS");
    assert_eq!((tls.dials_tls, tls.accepts_plain, tls.reloads, tls.detection_ms), (false, true, true, 250));
    assert_eq!(tls.keys.key_store.password.as_ref().map(|secret| secret.reveal()), Some("two"));
    assert_eq!(tls.keys.trust_store.password.as_ref().map(|secret| secret.reveal()), Some("one"));
    assert!(tls.keys.crl && !tls.keys.client_hostname_verification);
    assert_eq!(tls.keys.crl_files.len(), 1);
}

#[test]
fn tls_without_stores_is_refused_for_members_only() {
    let errors = start("sslQuorum=true\n", "", "").errors.join("\n");
    assert!(errors.contains("sslQuorum needs ssl.quorum.keyStore.location"), "{errors}");
    assert!(errors.contains("sslQuorum needs ssl.quorum.trustStore.location"), "{errors}");
    let standalone = Harness::with_config("dataDir=/d\nsslQuorum=true\n").start();
    assert!(standalone.config().member.is_none(), "a standalone server has no such ports");
}

#[test]
fn tls_settings_that_protect_less_are_reported() {
    let outcome = start(&format!("sslQuorum=true\n{STORES}ssl.quorum.clientAuth=want\n"), "", "");
    assert!(outcome.warnings().iter().any(|text| text.contains("servers without a certificate are accepted")));
    let outcome = start(STORES, "", "");
    assert!(outcome.warnings().iter().any(|text| text.contains("the ssl.quorum keys have no effect")));
}

#[test]
fn sasl_sections_give_the_logins() {
    assert_eq!(member("", JAAS_FLAG, &jaas()).sasl, None);
    let sasl = member("quorum.auth.enableSasl=true\n", JAAS_FLAG, &jaas()).sasl.expect("SASL");
    assert_eq!((sasl.is_required, sasl.authenticates), (false, false));
    let lines = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n\
                 quorum.auth.serverRequireSasl=true\nquorum.auth.server.saslLoginContext=S\n\
                 quorum.auth.learner.saslLoginContext=L\n";
    let renamed = jaas().replace("QuorumServer", "S").replace("QuorumLearner", "L");
    let sasl = member(lines, JAAS_FLAG, &renamed).sasl.expect("SASL");
    assert_eq!((sasl.is_required, sasl.authenticates), (true, true));
    let AcceptorLogin::DigestMd5(accounts) = &sasl.acceptor else { panic!("DIGEST-MD5") };
    assert_eq!(accounts.password("zk").map(|secret| secret.bytes().to_vec()), Some(b"hunter2".to_vec()));
    let InitiatorLogin::DigestMd5(credentials) = &sasl.initiator else { panic!("DIGEST-MD5") };
    assert_eq!(credentials.username, "zk");
    assert!(!format!("{sasl:?}").contains("hunter2"));
}

#[test]
fn sasl_that_cannot_be_given_stops_the_start() {
    let enabled = "quorum.auth.enableSasl=true\n";
    for (flags, text) in [("", ""), (JAAS_FLAG, "Server { a.B required; };")] {
        let error = start(enabled, flags, text).result.unwrap_err();
        assert!(matches!(error.cause, Cause::QuorumJaasSectionMissing { .. }), "{error}");
        assert_eq!(error.exit_code(), 1);
    }
}

#[test]
fn sasl_sections_with_kerberos_are_read() {
    let module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=k storeKey=true \
                  principal=p";
    let jaas = format!("QuorumServer {{ {module}; }}; QuorumLearner {{ {module}; }};");
    let lines = "quorum.auth.enableSasl=true\nquorum.auth.kerberos.servicePrincipal=zk/_HOST\n";
    let sasl = member(lines, &format!("{JAAS_FLAG} -Djava.security.krb5.conf=/k"), &jaas).sasl.expect("SASL");
    assert!(matches!(sasl.acceptor, AcceptorLogin::Gssapi(_)) && matches!(sasl.initiator, InitiatorLogin::Gssapi(_)));
    assert_eq!((sasl.service_principal.as_str(), sasl.krb5_conf.as_deref()), ("zk/_HOST", Some("/k".as_ref())));
}
