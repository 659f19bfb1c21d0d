//! TLS on the client port: which keys are read, and what is refused.

use crate::harness::Harness;
use ox_config::TlsConfig;

const STORES: &str = "ssl.keyStore.location=/k.p12\nssl.trustStore.location=/t.pem\n";

fn tls(lines: &str, flags: &str) -> TlsConfig {
    let harness = Harness::with_config(&format!("dataDir=/d\n{lines}")).and_flags(flags);
    harness.start().config().tls.expect("a port uses TLS")
}

fn check_refused(lines: &str, expected: &[&str]) {
    let error = Harness::with_config(&format!("dataDir=/d\n{lines}")).start().error();
    for text in expected {
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn defaults_are_apaches() {
    let tls = tls(&format!("secureClientPort=2281\n{STORES}"), "");
    assert_eq!((tls.secure_port, tls.secure_address, tls.is_client_port_unified), (Some(2281), None, false));
    assert_eq!((tls.reloads, tls.detection_ms, tls.handshakes_max, tls.super_user), (false, 5000, None, None));
    let keys = tls.keys;
    assert_eq!(keys.key_store.location.as_deref(), Some("/k.p12".as_ref()));
    assert_eq!(keys.trust_store.location.as_deref(), Some("/t.pem".as_ref()));
    assert_eq!((keys.key_store.password, keys.key_store.store_type), (None, None));
    assert_eq!((keys.protocol.as_deref(), keys.client_auth.as_deref()), (Some("TLSv1.3"), Some("need")));
    assert!(keys.hostname_verification && keys.fips_mode);
    assert!(!keys.client_hostname_verification && !keys.allow_reverse_dns_lookup && !keys.crl && !keys.ocsp);
}

#[test]
fn every_key_is_read_from_file_and_property() {
    let lines = "secureClientPort=0\nsecureClientPortAddress=127.0.0.1\nssl.keyStore.location=/k\n\
                 ssl.keyStore.password=one\nssl.keyStore.type=pem\nssl.trustStore.location=/t\n\
                 ssl.enabledProtocols=TLSv1.2\nssl.ciphersuites=A,B\nssl.clientAuth=Want\nssl.crl=TRUE\n\
                 ssl.clientHostnameVerification=true\noxkeeper.ssl.crlFiles=/a.crl, /b.crl\n\
                 client.certReload=true\nX509AuthenticationProvider.superUser=CN=admin\n\
                 netty.server.outstandingHandshake.limit=7\n";
    let flags = "-Dzookeeper.ssl.trustStore.password=two -Dzookeeper.ssl.keyStore.passwordPath=/p \
                 -Dzookeeper.ssl.protocol=TLSv1.2 -Dzookeeper.client.portUnification=true \
                 -Dzookeeper.ssl.handshakeDetectionTimeoutMillis=250 -Dzookeeper.fips-mode=false";
    let tls = tls(lines, flags);
    assert_eq!((tls.secure_port, tls.secure_address), (Some(0), Some([127, 0, 0, 1].into())));
    assert_eq!((tls.is_client_port_unified, tls.reloads, tls.detection_ms), (true, true, 250));
    assert_eq!((tls.handshakes_max, tls.super_user.as_deref()), (Some(7), Some("CN=admin")));
    let keys = tls.keys;
    assert_eq!(keys.key_store.password.as_ref().map(|secret| secret.reveal()), Some("one"));
    assert_eq!(keys.trust_store.password.as_ref().map(|secret| secret.reveal()), Some("two"));
    assert_eq!(keys.key_store.password_path.as_deref(), Some("/p".as_ref()));
    assert_eq!(keys.key_store.store_type.as_deref(), Some("pem"));
    assert_eq!((keys.protocol.as_deref(), keys.enabled_protocols.as_deref()), (Some("TLSv1.2"), Some("TLSv1.2")));
    assert_eq!((keys.cipher_suites.as_deref(), keys.client_auth.as_deref()), (Some("A,B"), Some("Want")));
    assert!(keys.crl && keys.client_hostname_verification && !keys.fips_mode);
    assert_eq!(keys.crl_files.len(), 2);
}

#[test]
fn passwords_are_not_printed() {
    let lines = format!("secureClientPort=1\n{STORES}ssl.keyStore.password=s3cret\n");
    let text = format!("{:?}", tls(&lines, ""));
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn missing_stores_are_refused_together() {
    let both = ["needs ssl.keyStore.location", "needs ssl.trustStore.location"];
    let outcome = Harness::with_config("dataDir=/d\nsecureClientPort=1\n").start();
    let errors = outcome.errors.join("\n");
    assert!(both.iter().all(|text| errors.contains(text)), "{errors}");
    check_refused(
        "clientPort=1\nclient.portUnification=true\n",
        &["client.portUnification needs ssl.keyStore.location"],
    );
    let lines = "secureClientPort=1\nssl.keyStore.location=/k\nssl.clientAuth=none\n";
    assert!(tls(lines, "").keys.trust_store.location.is_none(), "no client certificate is verified");
}

#[test]
fn protection_that_does_not_exist_is_refused() {
    let lines = format!("secureClientPort=1\n{STORES}");
    let class = "org.apache.zookeeper.server.auth.X509AuthenticationProvider";
    check_refused(
        &format!("{lines}ssl.authProvider=mine\nauthProvider.mine={class}\n"),
        &["ssl.authProvider: mine is not a valid value for ssl.authProvider; expected x509"],
    );
}

#[test]
fn keys_without_port_have_no_effect_and_a_warning() {
    let outcome = Harness::with_config(&format!("dataDir=/d\n{STORES}")).start();
    let warnings = outcome.warnings();
    assert!(warnings.iter().any(|text| text.contains("the ssl keys have no effect")), "{warnings:?}");
    assert!(outcome.config().tls.is_none());
}

#[test]
fn unification_without_a_plain_port_is_a_warning() {
    let is_warned = |lines: &str| {
        let lines = format!("dataDir=/d\nsecureClientPort=1\nclient.portUnification=true\n{STORES}{lines}");
        let outcome = Harness::with_config(&lines).and_file("/d/myid", "1").start();
        outcome.warnings().iter().any(|text| text.contains("client.portUnification has no effect"))
    };
    let member = "initLimit=5\nsyncLimit=5\nserver.2=127.0.0.1:5:6\nserver.1=127.0.0.1:3:4";
    assert!(is_warned(""));
    assert!(!is_warned("clientPort=2\n"));
    assert!(is_warned(&format!("{member}\n")));
    assert!(!is_warned(&format!("{member};2\n")), "the port in the line of this server");
}

#[test]
fn x509_scheme_exists_with_tls_or_with_its_provider() {
    let is_enabled =
        |lines: &str| Harness::with_config(&format!("dataDir=/d\n{lines}")).start().config().auth.x509_scheme_enabled;
    assert!(!is_enabled(""));
    assert!(is_enabled(&format!("secureClientPort=1\n{STORES}")));
    assert!(is_enabled("authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n"));
}
