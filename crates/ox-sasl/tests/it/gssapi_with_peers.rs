//! Kerberos with a KDC of MIT, and with MIT's and Java's GSS-API at the other end.

use crate::mit_kdc::{CLIENT, MitKdc, PASSWORD, SERVICE, now, random};
use crate::peer::{Line, Peer, is_installed, is_java_installed};
use ox_sasl::gssapi::{GssapiAcceptor, GssapiInitiator};
use ox_sasl::krb5::KerberosError;
use ox_sasl::krb5::acceptor::AcceptorCredentials;
use ox_sasl::krb5::ccache::CredentialCache;
use ox_sasl::krb5::crypto::Etype;
use ox_sasl::krb5::kdc::{InitialSecret, TgsExchange};
use ox_sasl::krb5::principal::Principal;
use ox_sasl::krb5::refresh::{RefreshMethod, refresh_method};
use ox_sasl::krb5::replay_cache::ReplayCache;
use ox_sasl::mechanism::AcceptorStep;
use ox_sasl::secret::SecretBytes;
use std::process::Command;
use std::sync::Arc;

const ALL_TYPES: &str = "aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal aes256-cts-hmac-sha384-192:normal \
                         aes128-cts-hmac-sha256-128:normal";
const TYPES: [(&str, Etype); 4] = [
    ("aes256-cts-hmac-sha1-96:normal", Etype::Aes256Sha1),
    ("aes128-cts-hmac-sha1-96:normal", Etype::Aes128Sha1),
    ("aes256-cts-hmac-sha384-192:normal", Etype::Aes256Sha384),
    ("aes128-cts-hmac-sha256-128:normal", Etype::Aes128Sha256),
];
const PYTHON: &str = "/usr/bin/python3";

fn is_gssapi_installed() -> bool {
    is_installed(PYTHON, &["-c", "import gssapi"])
}

fn mit_peer(kdc: &MitKdc, side: &str) -> Peer {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/gss_peer.py");
    Peer::start(Command::new(PYTHON).args([script, side, "zookeeper", "localhost"]).envs(kdc.environment()))
}

fn java_peer(kdc: &MitKdc, side: &str) -> Peer {
    let conf = format!("-Djava.security.krb5.conf={}", kdc.file("krb5.conf").display());
    let (principal, keytab) = if side == "client" { (CLIENT, "bob.keytab") } else { (SERVICE, "zk.keytab") };
    let keytab = kdc.file(keytab).display().to_string();
    Peer::java(&[side, "GSSAPI", "zookeeper", "localhost", principal, &keytab], &[conf])
}

/// Accepts a peer, and returns its name and the number of tokens that it sent.
fn accept(kdc: &MitKdc, peer: &mut Peer) -> (String, usize) {
    let service = Some(Principal::parse(SERVICE, None).unwrap());
    let credentials = AcceptorCredentials { keytab: kdc.keytab("zk.keytab"), service };
    let mut acceptor = GssapiAcceptor::new(Arc::new(credentials));
    let replays = ReplayCache::default();
    for count in 1.. {
        match acceptor.step(now(), &peer.token(), &replays, &mut random).unwrap() {
            AcceptorStep::Challenge(challenge) => peer.write(&challenge),
            AcceptorStep::Complete(end) => {
                assert_eq!((end.token, &end.authorization_id), (None, &end.authentication_id));
                return (end.authentication_id, count);
            }
        }
    }
    unreachable!()
}

/// Authenticates to a peer that accepts.
fn initiate(kdc: &MitKdc, peer: &mut Peer) {
    let tgt = kdc.login(InitialSecret::Keytab(kdc.keytab("bob.keytab")), &Etype::ALL).unwrap();
    let ticket = kdc.service_ticket(tgt, SERVICE).unwrap();
    let (mut initiator, token) = GssapiInitiator::start(&ticket, now(), &mut random);
    peer.write(&token);
    loop {
        let step = initiator.step(&peer.token()).unwrap();
        peer.write(&step.token.unwrap());
        if step.is_complete {
            assert_eq!(peer.read(), Line::Token(None));
            assert_eq!(peer.read(), Line::Done(CLIENT.to_owned()));
            return;
        }
    }
}

#[test]
fn kdc_grants_tickets_for_every_encryption_type() {
    for (name, etype) in TYPES {
        let Some(kdc) = MitKdc::start(name) else { return };
        let tgt = kdc.login(InitialSecret::Keytab(kdc.keytab("bob.keytab")), &Etype::ALL).unwrap();
        assert_eq!(tgt.service.to_string(), "krbtgt/OXKEEPER.TEST@OXKEEPER.TEST");
        let tgt = kdc.login(InitialSecret::Password(SecretBytes::new(PASSWORD)), &[etype]).unwrap();
        assert!((3500..=3600).contains(&(tgt.end - now().seconds())), "the lifetime of krb5.conf");
        assert_eq!(refresh_method(&tgt, now(), false), RefreshMethod::Renew);
        let mut renewal = TgsExchange::renewal(tgt.clone(), &Etype::ALL);
        let first = renewal.request(now(), &mut random);
        let renewed = kdc.exchange(first, |reply| renewal.on_reply(now(), reply, &mut random)).unwrap();
        assert_eq!(renewed.service, tgt.service);
        let ticket = kdc.service_ticket(renewed, SERVICE).unwrap();
        assert_eq!(ticket.service.to_string(), SERVICE);

        let replays = ReplayCache::default();
        let credentials = AcceptorCredentials { keytab: kdc.keytab("zk.keytab"), service: None };
        let mut acceptor = GssapiAcceptor::new(Arc::new(credentials));
        let (_, token) = GssapiInitiator::start(&ticket, now(), &mut random);
        assert!(acceptor.step(now(), &token, &replays, &mut random).is_ok());
    }
}

#[test]
fn kdc_refusals_are_reported() {
    let Some(kdc) = MitKdc::start(ALL_TYPES) else { return };
    let code = |result: Result<_, KerberosError>| match result {
        Err(KerberosError::Kdc { code, .. }) => code,
        other => panic!("{other:?}"),
    };
    let login = |password: &str| kdc.login(InitialSecret::Password(SecretBytes::new(password)), &Etype::ALL);
    assert_eq!(code(login("wrong").map(|_| ())), 24);
    let tgt = login(PASSWORD).unwrap();
    assert_eq!(code(kdc.service_ticket(tgt, "nothing/localhost@OXKEEPER.TEST").map(|_| ())), 7);
    let keytab = InitialSecret::Keytab(kdc.keytab("zk.keytab"));
    assert_eq!(kdc.login(keytab, &Etype::ALL).unwrap_err(), KerberosError::NoCredentials(CLIENT.to_owned()));
}

#[test]
fn ticket_cache_of_kinit_is_used() {
    let Some(kdc) = MitKdc::start(ALL_TYPES) else { return };
    kdc.kinit(&[]);
    let cache = CredentialCache::parse(&std::fs::read(kdc.file("ccache")).unwrap()).unwrap();
    assert_eq!(cache.client.to_string(), CLIENT);
    let tgt = cache.ticket_granting_ticket().unwrap().clone();
    assert_eq!(kdc.service_ticket(tgt, SERVICE).unwrap().client, cache.client);
}

#[test]
fn mit_initiator_is_accepted() {
    if !is_gssapi_installed() {
        return;
    }
    for (name, _) in TYPES {
        let Some(kdc) = MitKdc::start(name) else { return };
        kdc.kinit(&[]);
        let mut peer = mit_peer(&kdc, "client");
        assert_eq!(accept(&kdc, &mut peer), (CLIENT.to_owned(), 3));
        assert_eq!(peer.read(), Line::Done(CLIENT.to_owned()));
    }
}

#[test]
fn mit_acceptor_accepts_initiator() {
    if !is_gssapi_installed() {
        return;
    }
    for (name, _) in TYPES {
        let Some(kdc) = MitKdc::start(name) else { return };
        initiate(&kdc, &mut mit_peer(&kdc, "server"));
    }
}

#[test]
fn java_initiator_is_accepted_without_mutual_authentication() {
    if !is_java_installed() {
        return;
    }
    let Some(kdc) = MitKdc::start(ALL_TYPES) else { return };
    let mut peer = java_peer(&kdc, "client");
    assert_eq!(accept(&kdc, &mut peer), (CLIENT.to_owned(), 2));
    assert_eq!(peer.read(), Line::Done(CLIENT.to_owned()));
}

#[test]
fn java_acceptor_accepts_initiator() {
    if !is_java_installed() {
        return;
    }
    let Some(kdc) = MitKdc::start(ALL_TYPES) else { return };
    initiate(&kdc, &mut java_peer(&kdc, "server"));
}
