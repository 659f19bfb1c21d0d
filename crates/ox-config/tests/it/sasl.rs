//! SASL on the client port: JAAS files, names, and enforced authentication.

use crate::harness::{Harness, Outcome};
use ox_config::{Cause, ConfigError};
use ox_sasl::jaas::modules::AcceptorLogin;

const DIGEST: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";
const JAAS: &str = "-Djava.security.auth.login.config=/jaas.conf";

/// A start with this JAAS file and these lines and flags.
fn start(jaas: &str, lines: &str, flags: &str) -> Outcome {
    let harness = Harness::with_config(&format!("dataDir=/d\n{lines}")).and_file("/jaas.conf", jaas);
    harness.and_flags(&format!("{JAAS} {flags}")).start()
}

fn server_section() -> String {
    format!("Server {{\n {DIGEST} required\n user_bob=\"hunter2\"\n user_super=\"swordfish\";\n}};\n")
}

fn password(outcome: Outcome, user: &str) -> Vec<u8> {
    let Some(AcceptorLogin::DigestMd5(accounts)) = outcome.config().sasl.login else { panic!("DIGEST-MD5") };
    accounts.password(user).expect("an account").bytes().to_vec()
}

#[test]
fn section_server_gives_the_accounts() {
    assert_eq!(password(start(&server_section(), "", ""), "bob"), b"hunter2");
    for path in ["file:/jaas.conf", "=/jaas.conf"] {
        let flag = format!("-Djava.security.auth.login.config={path}");
        let harness = Harness::with_config("dataDir=/d\n").and_file("/jaas.conf", &server_section()).and_flags(&flag);
        assert_eq!(password(harness.start(), "bob"), b"hunter2", "{path}");
    }
}

#[test]
fn super_password_replaces_the_one_of_the_file() {
    let line = "SASLAuthenticationProvider.superPassword=other\n";
    assert_eq!(password(start(&server_section(), line, ""), "super"), b"other");
    assert_eq!(password(start(&server_section(), "", ""), "super"), b"swordfish");
}

#[test]
fn section_name_is_configurable() {
    let jaas = server_section().replace("Server", "Zoo");
    assert_eq!(password(start(&jaas, "sasl.serverconfig=Zoo\n", ""), "bob"), b"hunter2");
    let outcome = start(&jaas, "", "");
    assert_eq!(
        outcome.warnings(),
        ["-Djava.security.auth.login.config: /jaas.conf has no section 'Server': no SASL on the client port"]
    );
    assert_eq!(outcome.config().sasl.login, None);
}

fn error(outcome: Outcome) -> ConfigError {
    outcome.result.expect_err("a configuration that is refused")
}

#[test]
fn section_that_is_asked_for_must_exist() {
    let error = error(start(&server_section(), "sasl.serverconfig=Zoo\n", ""));
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains("No JAAS configuration section named 'Zoo' was found in '/jaas.conf'."));
}

#[test]
fn jaas_error_names_file_and_line_and_no_secret() {
    for (jaas, expected) in [
        (server_section().replace("\"swordfish\";", "\"swordfish\""), "/jaas.conf:5: "),
        (server_section().replace("required", "perhaps"), "/jaas.conf:2: "),
        (server_section().replace(DIGEST, "com.X"), "/jaas.conf:2: section 'Server': unknown login module 'com.X'"),
        (server_section().replace("\"hunter2\"", "hunter2 swordfish"), "/jaas.conf:"),
    ] {
        let error = error(start(&jaas, "", ""));
        let text = error.to_string();
        assert!(matches!(error.cause, Cause::Jaas(_)) && error.exit_code() == 1, "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn passwords_are_not_in_the_debug_output_of_the_configuration() {
    let config = start(&server_section(), "SASLAuthenticationProvider.superPassword=open-sesame\n", "").config();
    let text = format!("{config:?}");
    assert!(!["hunter2", "swordfish", "open-sesame"].iter().any(|secret| text.contains(secret)), "{text}");
    assert!(text.contains("bob"));
}

#[test]
fn digest_md5_warns_and_is_refused_in_explicit_fips_mode() {
    let warnings = start(&server_section(), "", "").warnings();
    assert!(warnings.iter().any(|warning| warning.contains("DIGEST-MD5")), "{warnings:?}");
    let error = error(start(&server_section(), "fips-mode=true\n", ""));
    assert_eq!(error.cause, Cause::DigestMd5InFipsMode);
}

#[test]
fn name_rules_and_super_users_are_read() {
    let lines = "superUser=a\nsuperUser.2=b@R\nletAnySaslUserDoX=x\nkerberos.removeHostFromPrincipal=true\n\
                 kerberos.removeRealmFromPrincipal=TRUE\nallowSaslFailedClients=true\n\
                 security.auth_to_local=RULE:[1:$1]DEFAULT\n";
    let sasl = start(&server_section(), lines, "-Dzookeeper.superUser.3=c").config().sasl;
    assert_eq!(sasl.super_users, ["a", "b@R", "c"]);
    assert_eq!(sasl.any_user.as_deref(), Some("x"));
    assert!(sasl.remove_host && !sasl.remove_realm && sasl.keeps_failed_clients, "only exactly true removes");
    let error = error(start(&server_section(), "security.auth_to_local=RULE:x\n", ""));
    assert!(matches!(error.cause, Cause::AuthToLocal(_)) && error.place.line() == Some(2), "{error}");
}

#[test]
fn enforced_schemes_are_listed() {
    let schemes = |lines: &str| start(&server_section(), lines, "").config().auth.enforced_schemes;
    assert_eq!(schemes("enforce.auth.enabled=true\nenforce.auth.schemes=digest, ip\n"), ["digest", "ip"]);
    assert_eq!(schemes("enforce.auth.schemes=digest\n"), [""; 0]);
    let both = "sessionRequireClientSASLAuth=true\nenforce.auth.enabled=true\nenforce.auth.schemes=digest\n";
    assert_eq!(schemes(both), ["sasl"]);
    let warnings = Harness::with_config("dataDir=/d\nsessionRequireClientSASLAuth=true\n").start().warnings();
    assert!(warnings.iter().any(|warning| warning.contains("no client can connect")), "{warnings:?}");
}

#[test]
fn ensemble_names_are_a_comma_list() {
    let provider = "authProvider.e=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider\n";
    let auth = |lines: &str| Harness::with_config(&format!("dataDir=/d\n{lines}")).start().config().auth;
    let named = auth(&format!("{provider}ensembleAuthName=one, two\n"));
    assert!(named.ensemble_scheme_enabled);
    assert_eq!(named.ensemble_names.unwrap(), ["one", "two"]);
    assert_eq!(auth(provider).ensemble_names, None);
    assert!(!auth("").ensemble_scheme_enabled && !auth("").sasl_scheme_enabled);
}
