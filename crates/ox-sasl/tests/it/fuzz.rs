//! Arbitrary and slightly altered input: no panic, and no memory beyond the input's size.

use ox_sasl::digest_md5::CLIENT_PORT;
use ox_sasl::digest_md5::acceptor::DigestAcceptor;
use ox_sasl::digest_md5::initiator::DigestInitiator;
use ox_sasl::gssapi::{GssapiAcceptor, GssapiInitiator};
use ox_sasl::jaas::JaasFile;
use ox_sasl::jaas::modules::{DigestAccounts, DigestCredentials};
use ox_sasl::kerberos_name::auth_to_local::AuthToLocal;
use ox_sasl::kerberos_name::{KerberosName, identity};
use ox_sasl::krb5::WallTime;
use ox_sasl::krb5::acceptor::AcceptorCredentials;
use ox_sasl::krb5::ccache::CredentialCache;
use ox_sasl::krb5::crypto::{Etype, KerberosKey};
use ox_sasl::krb5::initiator::Credential;
use ox_sasl::krb5::kdc::{AsExchange, InitialSecret, TgsExchange};
use ox_sasl::krb5::keytab::Keytab;
use ox_sasl::krb5::krb5_conf::Krb5Conf;
use ox_sasl::krb5::principal::Principal;
use ox_sasl::krb5::replay_cache::ReplayCache;
use ox_sasl::secret::SecretBytes;
use proptest::prelude::*;
use std::sync::Arc;

const NOW: WallTime = WallTime(1_700_000_000_000_000);

fn principal(text: &str) -> Principal {
    Principal::parse(text, None).unwrap()
}

fn credential() -> Credential {
    Credential {
        client: principal("bob@R"),
        service: principal("krbtgt/R@R"),
        ticket: vec![0x61, 0],
        key: KerberosKey::new(Etype::Aes128Sha1, &[1; 16]).unwrap(),
        start: 0,
        end: 2_000_000_000,
        renew_till: None,
    }
}

/// Bytes that look like DER: tags that Kerberos uses, short lengths, and content that nests.
fn der_like() -> impl Strategy<Value = Vec<u8>> {
    let tags = prop::sample::select(vec![
        0x02, 0x03, 0x04, 0x18, 0x1B, 0x30, 0x61, 0x6B, 0x6E, 0x6F, 0x7E, 0xA0, 0xA1, 0xA2, 0xA3, 0xA4,
    ]);
    let leaf = prop::collection::vec(any::<u8>(), 0..20);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        (tags.clone(), prop::collection::vec(inner, 0..6)).prop_map(|(tag, parts): (u8, Vec<Vec<u8>>)| {
            let content = parts.concat();
            let length = u8::try_from(content.len()).unwrap_or(0x7F);
            [vec![tag, length], content].concat()
        })
    })
}

/// A valid text with some bytes replaced.
fn altered(text: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((0..text.len(), any::<u8>()), 0..6).prop_map(move |changes| {
        let mut bytes = text.to_vec();
        changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        bytes
    })
}

fn frame(message: &[u8], kind: u8) -> Vec<u8> {
    let inner = [&[6, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 1, 2, 2, kind, 0], message].concat();
    [vec![0x60, 0x82, u8::try_from(inner.len() >> 8).unwrap_or(0xFF), inner.len().to_le_bytes()[0]], inner].concat()
}

const JAAS: &[u8] =
    b"Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_a=\"b${x}\\n\" /* c */; }; // d";
const RULES: &[u8] = b"RULE:[2:$1@$0](.*@R)s/@.*/$0x/g/L RULE:[1:$1](b.b) DEFAULT";
const CONF: &[u8] =
    b"[libdefaults]\ndefault_realm = R\nticket_lifetime = 1d\n[realms]\nR = {\nkdc = a:1\n}\n[domain_realm]\n.x = R\n";
const RESPONSE: &[u8] = b"charset=utf-8,username=\"bob\",realm=\"zk-sasl-md5\",nonce=\"AAAA\",nc=00000001,cnonce=\"x\",digest-uri=\"zookeeper/zk-sasl-md5\",response=00,qop=auth";

fn jaas(text: &str) {
    if let Ok(file) = JaasFile::parse("f", text, &|_| Some("y".to_owned())) {
        for section in &file.sections {
            let _ = (section.acceptor_login(), section.initiator_login());
        }
    }
}

fn rules(text: &str, name: &str) {
    if let (Ok(rules), Ok(name)) = (AuthToLocal::parse(text), KerberosName::parse(name)) {
        let _ = rules.short_name(&name, "R");
    }
    let _ = identity::is_authorized_peer(name, name, ["host"]);
}

fn digest(token: &[u8]) {
    let accounts = DigestAccounts::new([("bob".to_owned(), SecretBytes::new("x"))]);
    let mut acceptor = DigestAcceptor::new(CLIENT_PORT, Arc::new(accounts));
    acceptor.step(b"", &mut |bytes| bytes.fill(0)).unwrap();
    assert!(acceptor.step(token, &mut |_| ()).is_err());
    let credentials = DigestCredentials { username: "bob".to_owned(), password: SecretBytes::new("x") };
    let mut initiator = DigestInitiator::new(CLIENT_PORT, credentials);
    let _ = initiator.step(token, &mut |_| ());
    assert!(initiator.step(token, &mut |_| ()).is_err());
}

fn files(bytes: &[u8]) {
    if let Ok(keytab) = Keytab::parse(bytes) {
        assert!(keytab.entries().len() <= bytes.len());
    }
    if let Ok(cache) = CredentialCache::parse(bytes) {
        assert!(cache.credentials.len() <= bytes.len());
    }
}

fn kerberos(message: &[u8]) {
    let credentials = AcceptorCredentials { keytab: Keytab::default(), service: None };
    let replays = ReplayCache::default();
    for kind in [1, 2, 3] {
        let token = frame(message, kind);
        assert!(GssapiAcceptor::new(Arc::new(credentials.clone())).step(NOW, &token, &replays, &mut |_| ()).is_err());
        let (mut initiator, _) = GssapiInitiator::start(&credential(), NOW, &mut |_| ());
        assert!(initiator.step(&token).is_err());
    }
    let secret = InitialSecret::Password(SecretBytes::new("x"));
    let mut login = AsExchange::new(principal("bob@R"), secret, &[Etype::Aes128Sha1]).unwrap();
    login.start(NOW, &mut |_| ());
    let _ = login.on_reply(NOW, message, &mut |_| ());
    let mut service = TgsExchange::new(credential(), principal("zk/h@R"), &Etype::ALL);
    service.request(NOW, &mut |_| ());
    let _ = service.on_reply(NOW, message, &mut |_| ());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,200}", name in "[a-z/@]{0,20}") {
        jaas(&text);
        rules(&text, &name);
        let _ = Principal::parse(&text, Some("R"));
        let _ = Krb5Conf::parse("f", &text, &mut |_| Ok(vec![("g".to_owned(), text.clone())]));
    }

    #[test]
    fn altered_text_does_not_panic(file in altered(JAAS), list in altered(RULES), conf in altered(CONF), name in "[a-z/@R]{0,20}") {
        jaas(&String::from_utf8_lossy(&file));
        rules(&String::from_utf8_lossy(&list), &name);
        let _ = Krb5Conf::parse("f", &String::from_utf8_lossy(&conf), &mut |_| Err(String::new()));
    }

    #[test]
    fn digest_messages_do_not_panic(token in altered(RESPONSE), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        digest(&token);
        digest(&bytes);
    }

    #[test]
    fn binary_files_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), version in 1_u8..5) {
        files(&bytes);
        files(&[&[5, version], bytes.as_slice()].concat());
        files(&[&[5, version, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, b'R'], bytes.as_slice()].concat());
    }

    #[test]
    fn kerberos_messages_do_not_panic(bytes in der_like(), application in prop::sample::select(vec![0x6B_u8, 0x6D, 0x6E, 0x6F, 0x7E])) {
        kerberos(&bytes);
        let content = [vec![0x30, u8::try_from(bytes.len()).unwrap_or(0x7F)], bytes].concat();
        kerberos(&[vec![application, u8::try_from(content.len()).unwrap_or(0x7F)], content].concat());
    }
}
