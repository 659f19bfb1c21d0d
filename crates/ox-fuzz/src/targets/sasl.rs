//! SASL: tokens of clients and servers, JAAS files, rules for names, keytabs and ticket caches.

use ox_sasl::digest_md5::CLIENT_PORT;
use ox_sasl::digest_md5::acceptor::DigestAcceptor;
use ox_sasl::digest_md5::initiator::DigestInitiator;
use ox_sasl::gssapi::{GssapiAcceptor, GssapiInitiator};
use ox_sasl::jaas::JaasFile;
use ox_sasl::jaas::modules::{DigestAccounts, DigestCredentials};
use ox_sasl::kerberos_name::KerberosName;
use ox_sasl::kerberos_name::auth_to_local::AuthToLocal;
use ox_sasl::kerberos_name::identity::is_authorized_peer;
use ox_sasl::krb5::WallTime;
use ox_sasl::krb5::acceptor::AcceptorCredentials;
use ox_sasl::krb5::ccache::CredentialCache;
use ox_sasl::krb5::crypto::{Etype, KerberosKey};
use ox_sasl::krb5::initiator::Credential;
use ox_sasl::krb5::keytab::Keytab;
use ox_sasl::krb5::krb5_conf::Krb5Conf;
use ox_sasl::krb5::principal::Principal;
use ox_sasl::krb5::replay_cache::ReplayCache;
use ox_sasl::secret::SecretBytes;
use std::sync::Arc;

const NOW: WallTime = WallTime(1_700_000_000_000_000);
const PASSWORD: &str = "hunter2";

const JAAS: [&str; 3] = [
    "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_a=\"b${x}\\n\" /* c */; }; // d",
    "Client {\n com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=\"/k\" storeKey=true\n \
     useTicketCache=false principal=\"bob@R\" renewTGT=true;\n};\n",
    "A { m requisite; n optional x=y; }; B { org.apache.zookeeper.server.auth.DigestLoginModule Required \
     username=\"u\" password=\"p\"; };",
];
const RULES: [&str; 3] = [
    "RULE:[2:$1@$0](.*@R)s/@.*/$0x/g/L RULE:[1:$1](b.b) DEFAULT",
    "RULE:[1:$1@$0](.*@EXAMPLE\\.COM)s/@.*//\nRULE:[2:$2;$1](^.*;admin$)s/;admin$//\nDEFAULT",
    "DEFAULT",
];
const CONF: &str = "[libdefaults]\ndefault_realm = R\nticket_lifetime = 1d\ninclude /a\n[realms]\nR = {\nkdc = a:1\n}\n\
                    [domain_realm]\n.x = R\n";

pub(super) fn text_corpus() -> Vec<Vec<u8>> {
    JAAS.iter().chain(&RULES).chain([&CONF]).map(|text| text.as_bytes().to_vec()).collect()
}

/// JAAS files and `krb5.conf`.
pub(super) fn run_jaas(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(file) = JaasFile::parse("f", &text, &|_| Some("y".to_owned())) {
        for section in &file.sections {
            let _ = (section.acceptor_login(), section.initiator_login());
        }
    }
    let _ = Krb5Conf::parse("f", &text, &mut |_| Ok(vec![("g".to_owned(), text.clone().into_owned())]));
}

/// Rules before a zero byte, and a name after it.
pub(super) fn rules_corpus() -> Vec<Vec<u8>> {
    let names = ["bob@R", "bob/host@EXAMPLE.COM", "bob/admin@R"];
    RULES.iter().zip(names).map(|(rules, name)| format!("{rules}\0{name}").into_bytes()).collect()
}

pub(super) fn run_rules(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (rules, name) = text.split_once('\0').unwrap_or((&text, "bob/host@R"));
    if let (Ok(rules), Ok(name)) = (AuthToLocal::parse(rules), KerberosName::parse(name)) {
        let _ = rules.short_name(&name, "R");
    }
    let _ = (is_authorized_peer(name, name, ["host"]), Principal::parse(name, Some("R")));
}

/// Tokens of complete exchanges.
pub(super) fn token_corpus() -> Vec<Vec<u8>> {
    let mut acceptor = digest_acceptor();
    let challenge = match acceptor.step(b"", &mut |bytes| bytes.fill(0)) {
        Ok(ox_sasl::mechanism::AcceptorStep::Challenge(token)) => token,
        _ => Vec::new(),
    };
    let response = digest_initiator().step(&challenge, &mut |bytes| bytes.fill(5)).ok().and_then(|step| step.token);
    let (_, request) = GssapiInitiator::start(&credential(), NOW, &mut |bytes| bytes.fill(7));
    [challenge, response.unwrap_or_default(), request].into()
}

/// One token of a peer, for each mechanism and side.
pub(super) fn run_token(bytes: &[u8]) {
    let mut acceptor = digest_acceptor();
    let _ = acceptor.step(b"", &mut |bytes| bytes.fill(0));
    let _ = acceptor.step(bytes, &mut |_| ());
    assert!(acceptor.step(bytes, &mut |_| ()).is_err(), "an exchange has one response");
    let mut initiator = digest_initiator();
    let _ = initiator.step(bytes, &mut |_| ());
    let credentials = AcceptorCredentials { keytab: Keytab::default(), service: None };
    let mut acceptor = GssapiAcceptor::new(Arc::new(credentials));
    assert!(acceptor.step(NOW, bytes, &ReplayCache::new(4), &mut |_| ()).is_err(), "the keytab is empty");
    let (mut initiator, _) = GssapiInitiator::start(&credential(), NOW, &mut |_| ());
    assert!(initiator.step(bytes).is_err(), "the peer does not know the key");
}

pub(super) fn keytab_corpus() -> Vec<Vec<u8>> {
    let mut entry = vec![0, 1, 0, 1, b'R', 0, 3, b'b', b'o', b'b', 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 17, 0, 16];
    entry.extend([9; 16]);
    let length = u32::try_from(entry.len()).unwrap_or(0).to_be_bytes();
    let keytab = [&[5, 2][..], &length, &entry].concat();
    let cache = [&[5, 4, 0, 0][..], &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, b'R', 0, 0, 0, 3, b'b', b'o', b'b']].concat();
    vec![keytab, cache]
}

pub(super) fn run_keytab(bytes: &[u8]) {
    if let Ok(keytab) = Keytab::parse(bytes) {
        assert!(keytab.entries().len() <= bytes.len());
    }
    if let Ok(cache) = CredentialCache::parse(bytes) {
        assert!(cache.credentials.len() <= bytes.len());
    }
}

fn digest_acceptor() -> DigestAcceptor {
    let accounts = DigestAccounts::new([("bob".to_owned(), SecretBytes::new(PASSWORD))]);
    DigestAcceptor::new(CLIENT_PORT, Arc::new(accounts))
}

fn digest_initiator() -> DigestInitiator {
    let credentials = DigestCredentials { username: "bob".to_owned(), password: SecretBytes::new(PASSWORD) };
    DigestInitiator::new(CLIENT_PORT, credentials)
}

fn credential() -> Credential {
    let principal = |text: &str| Principal::parse(text, None).expect("a valid name");
    Credential {
        client: principal("bob@R"),
        service: principal("zookeeper/host@R"),
        ticket: vec![0x61, 0],
        key: KerberosKey::new(Etype::Aes128Sha1, &[1; 16]).expect("a key of the right length"),
        start: 0,
        end: 2_000_000_000,
        renew_till: None,
    }
}
