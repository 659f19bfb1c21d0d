//! Vectors of RFC 2831 and of Apache's servers, and both sides against each other.

use super::acceptor::DigestAcceptor;
use super::hash::ResponseInput;
use super::initiator::DigestInitiator;
use super::{BETWEEN_SERVERS, CLIENT_PORT, DigestNames};
use crate::jaas::modules::{DigestAccounts, DigestCredentials};
use crate::mechanism::{AcceptorStep, SaslError};
use crate::secret::SecretBytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;

fn acceptor(names: DigestNames, accounts: &[(&str, &str)]) -> DigestAcceptor {
    let accounts = accounts.iter().map(|(user, password)| ((*user).to_owned(), SecretBytes::new(*password)));
    DigestAcceptor::new(names, Arc::new(DigestAccounts::new(accounts)))
}

fn initiator(names: DigestNames, username: &str, password: &str) -> DigestInitiator {
    let credentials = DigestCredentials { username: username.to_owned(), password: SecretBytes::new(password) };
    DigestInitiator::new(names, credentials)
}

/// A generator that gives the bytes of a recorded nonce.
fn recorded(nonce: &'static str) -> impl FnMut(&mut [u8]) {
    move |bytes| bytes.copy_from_slice(&STANDARD.decode(nonce).unwrap())
}

fn challenge(step: AcceptorStep) -> Vec<u8> {
    match step {
        AcceptorStep::Challenge(token) => token,
        AcceptorStep::Complete(_) => panic!("complete"),
    }
}

fn run(acceptor: &mut DigestAcceptor, initiator: &mut DigestInitiator) -> Result<(String, String), SaslError> {
    let first = challenge(acceptor.step(b"", &mut |bytes| bytes.fill(1))?);
    let response = initiator.step(&first, &mut |bytes| bytes.fill(2))?.token.unwrap();
    let AcceptorStep::Complete(peer) = acceptor.step(&response, &mut |_| ())? else { panic!("not complete") };
    let end = initiator.step(&peer.token.unwrap(), &mut |_| ())?;
    assert!(end.is_complete && end.token.is_none());
    assert!(acceptor.step(b"", &mut |_| ()).is_err(), "a token after the end");
    assert!(initiator.step(b"", &mut |_| ()).is_err());
    Ok((peer.authentication_id, peer.authorization_id))
}

#[test]
fn rfc_2831_example_is_reproduced() {
    let input = ResponseInput {
        username: "chris",
        realm: "elwood.innosoft.com",
        password: "secret",
        nonce: b"OA6MG9tEQGm2hh",
        cnonce: b"OA6MHXh6VqTrRk",
        uri: "imap/elwood.innosoft.com",
        authzid: None,
    };
    assert_eq!(input.response(), "d388dad90d4bbd760a152321f2143af7");
    assert_eq!(input.response_auth(), "ea40f60335c427b5527b84dbabcdfffd");
}

/// Recorded between two servers of Apache ZooKeeper 3.9.3, user `zk` with password `zkpass`.
#[test]
fn exchange_between_apache_servers_is_reproduced() {
    let mut acceptor = acceptor(BETWEEN_SERVERS, &[("zk", "zkpass")]);
    let mut initiator = initiator(BETWEEN_SERVERS, "zk", "zkpass");
    let first = challenge(acceptor.step(b"", &mut recorded("WF9uZ69TxI3//7SWnUxtZYXCAqhLtlNXVVRtlbZt")).unwrap());
    assert_eq!(
        first,
        b"realm=\"zk-quorum-sasl-md5\",nonce=\"WF9uZ69TxI3//7SWnUxtZYXCAqhLtlNXVVRtlbZt\",charset=utf-8,algorithm=md5-sess"
    );
    let step = initiator.step(&first, &mut recorded("KLDIJa6uet9QOyYBCa8P6Vjp/SVBLWyJdUSrIzSe")).unwrap();
    assert_eq!(
        String::from_utf8(step.token.clone().unwrap()).unwrap(),
        "charset=utf-8,username=\"zk\",realm=\"zk-quorum-sasl-md5\",nonce=\"WF9uZ69TxI3//7SWnUxtZYXCAqhLtlNXVVRtlbZt\",\
         nc=00000001,cnonce=\"KLDIJa6uet9QOyYBCa8P6Vjp/SVBLWyJdUSrIzSe\",digest-uri=\"zookeeper-quorum/zk-quorum-sasl-md5\",\
         maxbuf=65536,response=f52713d4047ada85e768ce35d251d574,qop=auth,authzid=\"zk\""
    );
    let AcceptorStep::Complete(peer) = acceptor.step(&step.token.unwrap(), &mut |_| ()).unwrap() else { panic!("end") };
    assert_eq!(peer.token.as_deref(), Some(b"rspauth=4b5e5cd842b4c362a1f59cdb917cb901".as_slice()));
    assert!(initiator.step(&peer.token.unwrap(), &mut |_| ()).unwrap().is_complete);
}

#[test]
fn both_sides_agree_on_accounts() {
    let accounts = [("bob", "bobsecret"), ("Zoë \"x\\", "pass:wörd"), ("日本", "語")];
    for (user, password) in accounts {
        let result = run(&mut acceptor(CLIENT_PORT, &accounts), &mut initiator(CLIENT_PORT, user, password));
        assert_eq!(result, Ok((user.to_owned(), user.to_owned())));
    }
    for (user, password, expected) in [
        ("bob", "wrong", "the response of user 'bob' does not match"),
        ("eve\n", "", "user 'eve\\n' not found in list"),
    ] {
        let error =
            run(&mut acceptor(CLIENT_PORT, &accounts), &mut initiator(CLIENT_PORT, user, password)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = run(&mut acceptor(CLIENT_PORT, &accounts), &mut initiator(BETWEEN_SERVERS, "bob", "bobsecret"));
    assert_eq!(error, Err(SaslError::DigestRefused("digest-uri is not zookeeper/zk-sasl-md5".to_owned())));
}

#[test]
fn altered_responses_are_refused() {
    let response = |acceptor: &mut DigestAcceptor| {
        let first = challenge(acceptor.step(b"ignored", &mut |bytes| bytes.fill(1)).unwrap());
        let step = initiator(CLIENT_PORT, "bob", "bobsecret").step(&first, &mut |bytes| bytes.fill(2)).unwrap();
        String::from_utf8(step.token.unwrap()).unwrap()
    };
    for (from, to) in [
        ("nonce=\"AQ", "nonce=\"BQ"),
        ("nc=00000001", "nc=00000002"),
        ("zk-sasl-md5\",nonce", "other\",nonce"),
        ("qop=auth,", "qop=auth-int,"),
        ("charset=utf-8", "charset=latin1"),
        ("authzid=\"bob\"", "authzid=\"super\""),
        ("username=\"bob\",", ""),
        ("username=\"bob\"", "username=\"bob\",username=\"bob\""),
        ("username=\"bob\"", "username=\"bob"),
        ("cnonce=", "cn once="),
        ("response=", "response=0"),
        ("\"zookeeper/zk-sasl-md5\"", "\"zookeeper/elsewhere\""),
    ] {
        let mut acceptor = acceptor(CLIENT_PORT, &[("bob", "bobsecret")]);
        let altered = response(&mut acceptor).replacen(from, to, 1);
        assert!(acceptor.step(altered.as_bytes(), &mut |_| ()).is_err(), "{to}");
        assert!(acceptor.step(b"", &mut |_| ()).is_err(), "a failed exchange stays failed");
    }
    let mut lenient = acceptor(CLIENT_PORT, &[("bob", "bobsecret")]);
    let spaced = response(&mut lenient).replace("charset=utf-8,", " CHARSET = utf-8 ,, unknown=x\t");
    assert!(lenient.step(spaced.as_bytes(), &mut |_| ()).is_ok());
    let mut limited = acceptor(CLIENT_PORT, &[]);
    assert!(limited.step(&[b' '; 4097], &mut |_| ()).is_err());
}

#[test]
fn unsuitable_challenges_are_refused() {
    let good = "realm=\"r\",nonce=\"n\",charset=utf-8,algorithm=md5-sess";
    assert!(initiator(CLIENT_PORT, "bob", "x").step(good.as_bytes(), &mut |_| ()).is_ok());
    for challenge in [
        good.replace("md5-sess", "md5"),
        good.replace("utf-8", "latin1"),
        good.replace("nonce=\"n\",", ""),
        good.replace(",charset", ",qop=\"auth-int\",charset"),
        "x".repeat(2049),
        "rspauth=00".to_owned(),
    ] {
        assert!(initiator(CLIENT_PORT, "bob", "x").step(challenge.as_bytes(), &mut |_| ()).is_err(), "{challenge}");
    }
    let mut wrong = initiator(CLIENT_PORT, "bob", "x");
    wrong.step(good.as_bytes(), &mut |_| ()).unwrap();
    assert!(wrong.step(b"rspauth=00000000000000000000000000000000", &mut |_| ()).is_err());
}
