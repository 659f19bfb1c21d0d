//! Tickets made by the test, accepted and refused.

use super::*;
use crate::gssapi::{GssapiAcceptor, GssapiInitiator};
use crate::krb5::crypto::{Etype, KerberosKey};
use crate::krb5::initiator::Credential;
use crate::krb5::keytab::tests::{entry, file};
use crate::mechanism::{AcceptorStep, SaslError};
use std::sync::Arc;

const NOW: i64 = 1_700_000_000;

struct Realm {
    service: Principal,
    service_key: KerberosKey,
    ticket: EncTicketPart,
}

fn principal(text: &str) -> Principal {
    Principal::parse(text, None).unwrap()
}

fn realm(etype: Etype) -> Realm {
    let ticket = EncTicketPart {
        flags: 0,
        key: KerberosKey::random(etype, &mut |bytes| bytes.fill(2)),
        client: principal("bob/client.host@R"),
        has_transited: false,
        start: NOW,
        end: NOW + 3600,
    };
    Realm {
        service: principal("zookeeper/h@R"),
        service_key: KerberosKey::random(etype, &mut |bytes| bytes.fill(1)),
        ticket,
    }
}

impl Realm {
    fn credentials(&self) -> AcceptorCredentials {
        let etype = u16::try_from(self.service_key.etype.number()).unwrap();
        let keytab = file(&[entry("zookeeper/h@R", 3, etype, self.service_key.bytes())]);
        AcceptorCredentials { keytab: Keytab::parse(&keytab).unwrap(), service: Some(principal("zookeeper/h@R")) }
    }

    fn credential(&self) -> Credential {
        let cipher = self.service_key.encrypt(KeyUsage::Ticket, &self.ticket.encode(), &mut |bytes| bytes.fill(8));
        let mut enc_part = EncryptedData::new(self.service_key.etype, cipher);
        enc_part.kvno = Some(3);
        let ticket = Ticket { service: self.service.clone(), enc_part }.encode();
        let EncTicketPart { key, client, start, end, .. } = &self.ticket;
        let (client, service, key) = (client.clone(), self.service.clone(), key.clone());
        Credential { client, service, ticket, key, start: *start, end: *end, renew_till: None }
    }

    fn token(&self, seconds: i64) -> Vec<u8> {
        GssapiInitiator::start(&self.credential(), WallTime::from_seconds(seconds), &mut |bytes| bytes.fill(4)).1
    }

    fn accept(&self, token: &[u8]) -> Result<Accepted, KerberosError> {
        let replays = ReplayCache::default();
        self.credentials().accept(WallTime::from_seconds(NOW), token, &replays, &mut |bytes| bytes.fill(6))
    }
}

#[test]
fn exchange_proves_both_sides() {
    for etype in Etype::ALL {
        let realm = realm(etype);
        let now = WallTime(NOW * 1_000_000 + 123_456);
        let replays = ReplayCache::default();
        let mut acceptor = GssapiAcceptor::new(Arc::new(realm.credentials()));
        let (mut initiator, mut token) = GssapiInitiator::start(&realm.credential(), now, &mut |bytes| bytes.fill(4));
        let first = token.clone();
        let peer = loop {
            match acceptor.step(now, &token, &replays, &mut |bytes| bytes.fill(6)).unwrap() {
                AcceptorStep::Challenge(challenge) => token = initiator.step(&challenge).unwrap().token.unwrap(),
                AcceptorStep::Complete(peer) => break peer,
            }
        };
        assert_eq!(peer.token, None);
        assert_eq!(peer.authentication_id, "bob/client.host@R");
        assert_eq!(peer.authorization_id, "bob/client.host@R");
        assert_eq!(acceptor.step(now, b"", &replays, &mut |_| ()), Err(SaslError::IllegalState("GSSAPI")));
        assert!(initiator.step(b"").is_err());
        let replay = GssapiAcceptor::new(Arc::new(realm.credentials())).step(now, &first, &replays, &mut |_| ());
        assert_eq!(replay, Err(SaslError::Kerberos(KerberosError::Replay)));
    }
}

#[test]
fn unsuitable_tickets_are_refused() {
    let good = realm(Etype::Aes256Sha1);
    assert!(good.accept(&good.token(NOW)).is_ok());
    let refused = |realm: Realm| good.accept(&realm.token(NOW)).unwrap_err();
    let altered = |change: fn(&mut Realm)| {
        let mut realm = realm(Etype::Aes256Sha1);
        change(&mut realm);
        realm
    };
    assert_eq!(refused(altered(|realm| realm.ticket.end = NOW - 301)), KerberosError::Expired);
    assert_eq!(refused(altered(|realm| realm.ticket.start = NOW + 301)), KerberosError::NotYetValid);
    assert_eq!(refused(altered(|realm| realm.ticket.flags = 1 << 24)), KerberosError::NotYetValid);
    assert!(matches!(refused(altered(|realm| realm.ticket.has_transited = true)), KerberosError::Unsupported(_)));
    let service = refused(altered(|realm| realm.service = principal("other/h@R")));
    assert_eq!(service.to_string(), "the ticket is for other/h@R, not for zookeeper/h@R");
    let other_key =
        |realm: &mut Realm| realm.service_key = KerberosKey::random(Etype::Aes256Sha1, &mut |bytes| bytes.fill(77));
    assert_eq!(refused(altered(other_key)), KerberosError::Integrity("ticket"));
    assert!(matches!(refused(realm(Etype::Aes128Sha1)), KerberosError::NoKey { .. }));
    for (seconds, skew) in [(NOW + 301, 301), (NOW - 301, -301)] {
        assert_eq!(good.accept(&good.token(seconds)).unwrap_err(), KerberosError::Skew(skew));
    }
    let mut other_client = good.credential();
    other_client.client = principal("super@R");
    let token = GssapiInitiator::start(&other_client, WallTime::from_seconds(NOW), &mut |_| ()).1;
    assert_eq!(good.accept(&token).unwrap_err(), KerberosError::Mismatch("client of the authenticator"));
}

#[test]
fn altered_and_truncated_tokens_are_refused() {
    let realm = realm(Etype::Aes128Sha256);
    let token = realm.token(NOW);
    for at in 0..token.len() {
        assert!(realm.accept(&token[..at]).is_err(), "{at}");
        for bit in [1, 0x80] {
            let mut altered = token.clone();
            altered[at] ^= bit;
            // Types of names, AP options and versions are not protected, and not used.
            if let Ok(accepted) = realm.accept(&altered) {
                assert_eq!(accepted.client, realm.ticket.client);
            }
        }
    }
}
