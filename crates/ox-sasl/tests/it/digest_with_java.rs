//! DIGEST-MD5 with Java's implementation at the other end.

use crate::peer::{Line, Peer, is_java_installed};
use ox_sasl::digest_md5::acceptor::DigestAcceptor;
use ox_sasl::digest_md5::initiator::DigestInitiator;
use ox_sasl::digest_md5::{BETWEEN_SERVERS, CLIENT_PORT, DigestNames};
use ox_sasl::jaas::modules::{DigestAccounts, DigestCredentials};
use ox_sasl::mechanism::AcceptorStep;
use ox_sasl::secret::SecretBytes;
use std::sync::Arc;

const ACCOUNTS: [(DigestNames, &str, &str); 3] = [
    (CLIENT_PORT, "bob", "bobsecret"),
    (BETWEEN_SERVERS, "zk \"quoted\" \\", "pass:word,"),
    (CLIENT_PORT, "Zoë", "päss→"),
];

fn peer(side: &str, names: DigestNames, user: &str, password: &str) -> Peer {
    Peer::java(&[side, "DIGEST-MD5", names.protocol, names.realm, user, password], &[])
}

#[test]
fn java_client_is_accepted() {
    if !is_java_installed() {
        return;
    }
    for (names, user, password) in ACCOUNTS {
        let accounts = DigestAccounts::new([(user.to_owned(), SecretBytes::new(password))]);
        let mut acceptor = DigestAcceptor::new(names, Arc::new(accounts));
        let mut client = peer("client", names, user, password);
        let AcceptorStep::Challenge(challenge) = acceptor.step(&client.token(), &mut |bytes| bytes.fill(7)).unwrap()
        else {
            panic!("complete without a response")
        };
        client.write(&challenge);
        let AcceptorStep::Complete(end) = acceptor.step(&client.token(), &mut |_| ()).unwrap() else {
            panic!("no end")
        };
        assert_eq!((end.authentication_id.as_str(), end.authorization_id.as_str()), (user, user));
        client.write(&end.token.unwrap());
        assert_eq!(client.read(), Line::Done(user.to_owned()));
    }
}

#[test]
fn java_server_accepts_initiator() {
    if !is_java_installed() {
        return;
    }
    for (names, user, password) in ACCOUNTS {
        let mut server = peer("server", names, user, password);
        let credentials = DigestCredentials { username: user.to_owned(), password: SecretBytes::new(password) };
        let mut initiator = DigestInitiator::new(names, credentials);
        server.write(b"");
        let response = initiator.step(&server.token(), &mut |bytes| bytes.fill(9)).unwrap();
        server.write(&response.token.unwrap());
        assert!(initiator.step(&server.token(), &mut |_| ()).unwrap().is_complete);
        assert_eq!(server.read(), Line::Done(user.to_owned()));
    }
}

#[test]
fn wrong_password_is_refused_by_java_and_of_java() {
    if !is_java_installed() {
        return;
    }
    let mut server = peer("server", CLIENT_PORT, "bob", "bobsecret");
    let credentials = DigestCredentials { username: "bob".to_owned(), password: SecretBytes::new("wrong") };
    let mut initiator = DigestInitiator::new(CLIENT_PORT, credentials);
    server.write(b"");
    let response = initiator.step(&server.token(), &mut |_| ()).unwrap();
    server.write(&response.token.unwrap());
    assert!(matches!(server.read(), Line::Failed(reason) if reason.contains("Mismatched response")));

    let accounts = DigestAccounts::new([("bob".to_owned(), SecretBytes::new("bobsecret"))]);
    let mut acceptor = DigestAcceptor::new(CLIENT_PORT, Arc::new(accounts));
    let mut client = peer("client", CLIENT_PORT, "bob", "wrong");
    let AcceptorStep::Challenge(challenge) = acceptor.step(&client.token(), &mut |_| ()).unwrap() else {
        panic!("end")
    };
    client.write(&challenge);
    assert!(acceptor.step(&client.token(), &mut |_| ()).is_err());
}
