//! Authentication schemes, enforced authentication, and SASL DIGEST-MD5 over real connections.

use crate::server_fixture::ServerFixture;
use ox_proto::acl::put_acls;
use ox_proto::request::SaslToken;
use ox_proto::{Acl, OpCode, Reader};
use ox_sasl::digest_md5::CLIENT_PORT;
use ox_sasl::digest_md5::initiator::DigestInitiator;
use ox_sasl::jaas::modules::DigestCredentials;
use ox_sasl::secret::SecretBytes;
use ox_testkit::{RawClient, RawReply};
use std::fs;
use tempfile::TempDir;

const PACKAGE: &str = "org.apache.zookeeper.server.auth";
const AUTH_FAILED: i32 = -115;
const REQUIRED: i32 = -124;

fn auth(client: &mut RawClient, scheme: &str, data: &[u8]) -> Option<RawReply> {
    client.try_ask(|packet, xid| packet.auth(xid, scheme, data)).ok()
}

fn create_for(client: &mut RawClient, path: &str, scheme: &str, id: &str) -> i32 {
    let mut acl = Vec::new();
    put_acls(&mut acl, &[Acl::new(31, scheme, id)]);
    client.ask(|packet, xid| packet.create_with_acl(xid, path, &acl)).err
}

fn four_letter(server: &ServerFixture, command: &str) -> String {
    ox_testkit::four_letter(server.address(), command).unwrap()
}

fn send_token(client: &mut RawClient, token: &[u8]) -> RawReply {
    client.ask(|packet, xid| packet.request(xid, OpCode::Sasl, &SaslToken { token: Some(token) }))
}

/// Authenticates by DIGEST-MD5. Returns the last reply.
pub(crate) fn login(client: &mut RawClient, user: &str, password: &str) -> RawReply {
    let challenge = send_token(client, b"");
    let challenge = Reader::new(&challenge.body).get::<SaslToken<'_>>().unwrap().token.unwrap().to_vec();
    let credentials = DigestCredentials { username: user.to_owned(), password: SecretBytes::new(password) };
    let mut initiator = DigestInitiator::new(CLIENT_PORT, credentials);
    let response = initiator.step(&challenge, &mut |bytes| bytes.fill(5)).unwrap().token.unwrap();
    let reply = send_token(client, &response);
    if reply.err == 0 {
        let token = Reader::new(&reply.body).get::<SaslToken<'_>>().unwrap().token.unwrap().to_vec();
        assert!(
            initiator.step(&token, &mut |_| ()).unwrap().is_complete,
            "the server proves that it knows the password"
        );
    }
    reply
}

/// A server with the DIGEST-MD5 accounts bob and admin, of which admin is a super user.
pub(crate) fn sasl_server(settings: &str) -> (ServerFixture, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let jaas = dir.path().join("jaas.conf");
    let text =
        format!("Server {{ {PACKAGE}.DigestLoginModule required user_bob=\"hunter2\" user_admin=\"swordfish\"; }};");
    fs::write(&jaas, text).unwrap();
    let settings = format!("authProvider.1={PACKAGE}.SASLAuthenticationProvider\nsuperUser=admin\n{settings}");
    let flag = format!("-Djava.security.auth.login.config={}", jaas.display());
    (ServerFixture::with_properties(&settings, &flag), dir)
}

#[test]
fn sasl_user_owns_what_it_creates() {
    let (server, _dir) = sasl_server("");
    let (mut bob, mut other) = (server.client(), server.client());
    assert_eq!(login(&mut bob, "bob", "hunter2").err, 0);
    assert_eq!(create_for(&mut bob, "/own", "auth", ""), 0);
    assert_eq!(create_for(&mut bob, "/named", "sasl", "bob"), 0);
    assert_eq!((bob.get("/own").err, other.get("/own").err), (0, -102));
    assert_eq!(create_for(&mut other, "/bad", "sasl", "a@b@c"), -114);
    let who = bob.ask(|packet, xid| packet.raw(xid, OpCode::WhoAmI.code(), &[]));
    assert!(who.body.windows(7).any(|text| text == b"\0\0\0\x03bob"), "{:?}", who.body);

    let mut admin = server.client();
    assert_eq!(login(&mut admin, "admin", "swordfish").err, 0);
    assert_eq!(admin.get("/own").err, 0, "a super user passes every ACL");
}

#[test]
fn failed_sasl_login_is_closed_after_its_reply() {
    let (server, _dir) = sasl_server("");
    for (user, password) in [("bob", "wrong"), ("eve", "hunter2")] {
        let mut client = server.client();
        let reply = login(&mut client, user, password);
        assert_eq!((reply.err, &*reply.body), (AUTH_FAILED, &[0xFF; 4][..]));
        assert!(client.receive().is_none(), "the connection is closed");
    }
}

#[test]
fn k125_failed_sasl_login_is_kept_without_an_identity_where_that_is_allowed() {
    let (server, _dir) = sasl_server("allowSaslFailedClients=true\n");
    let mut client = server.client();
    let challenge = send_token(&mut client, b"");
    assert_eq!(challenge.err, 0);
    let reply = send_token(&mut client, b"nonsense");
    assert_eq!((reply.err, &*reply.body), (0, &[0xFF; 4][..]));
    assert_eq!(client.create("/a", b"").err, 0);
    assert_eq!(create_for(&mut client, "/b", "auth", ""), -114, "it has no identity");
}

#[test]
fn required_sasl_refuses_clients_without_it() {
    let (server, _dir) = sasl_server("sessionRequireClientSASLAuth=true\n");
    let mut plain = server.client();
    assert_eq!(plain.exists("/").err, REQUIRED);
    assert!(plain.receive().is_none());
    let mut wrong = server.client();
    assert_eq!(login(&mut wrong, "bob", "wrong").err, REQUIRED);
    let mut bob = server.client();
    assert_eq!(login(&mut bob, "bob", "hunter2").err, 0);
    assert_eq!(bob.exists("/").err, 0);
}

#[test]
fn pipelined_requests_wait_for_the_sasl_token_before_them() {
    let (server, _dir) = sasl_server("");
    let mut client = server.client();
    let empty = SaslToken { token: Some(b"") };
    let mut packet = ox_testkit::RawPacket::default();
    for xid in 1..=3 {
        packet = packet.create(xid, &format!("/n{xid}"), b"", 0);
    }
    packet = packet.request(4, OpCode::Sasl, &empty).get(5, "/n3").get(6, "/missing");
    client.send(&packet);
    let xids: Vec<i32> = (0..6).map(|_| client.reply().xid).collect();
    assert_eq!(xids, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn enforced_digest_admits_only_authenticated_clients() {
    let server = ServerFixture::with("enforce.auth.enabled=true\nenforce.auth.schemes=digest\n");
    let mut plain = server.client();
    assert_eq!(plain.ping().err, REQUIRED);
    assert!(plain.receive().is_none());
    let mut bob = server.client();
    assert_eq!(auth(&mut bob, "digest", b"bob:pw").unwrap().err, 0);
    assert_eq!(bob.create("/a", b"").err, 0);
}

#[test]
fn client_of_another_ensemble_is_disconnected_and_counted() {
    let server = ServerFixture::with(&format!(
        "authProvider.e={PACKAGE}.EnsembleAuthenticationProvider\nensembleAuthName=one\n4lw.commands.whitelist=*\n"
    ));
    let mut client = server.client();
    assert_eq!(auth(&mut client, "ensemble", b"one").unwrap().err, 0);
    assert_eq!(auth(&mut client, "ensemble", b"").unwrap().err, 0);
    assert!(auth(&mut client, "ensemble", b"two").is_none(), "closed without a reply");
    let metrics = four_letter(&server, "mntr");
    for counter in ["success", "skip", "fail"] {
        assert!(metrics.contains(&format!("zk_ensemble_auth_{counter}\t1")), "{counter}");
    }
}

#[test]
fn digest_hash_is_that_of_the_configuration() {
    let super_digest = "super:WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw="; // of super:secret
    let provider = "DigestAuthenticationProvider";
    let server = ServerFixture::with(&format!("{provider}.digestAlg=SHA-256\n{provider}.superDigest={super_digest}\n"));
    let (mut bob, mut admin) = (server.client(), server.client());
    assert_eq!(auth(&mut bob, "digest", b"bob:pw").unwrap().err, 0);
    assert_eq!(create_for(&mut bob, "/own", "auth", ""), 0);
    assert_eq!(auth(&mut admin, "digest", b"super:secret").unwrap().err, 0);
    assert_eq!(admin.get("/own").err, 0);
    let acl = admin.ask(|packet, xid| packet.read(xid, OpCode::GetAcl, "/own", false));
    assert!(String::from_utf8_lossy(&acl.body).contains("bob:lXdkgIa9O1CDDWAryQ0pe9wUYi2LkG6M7Uocn/Vyn2g="));
}

#[test]
fn disabled_digest_scheme_refuses_auth_packets() {
    let server = ServerFixture::with("DigestAuthenticationProvider.enabled=false\n");
    let mut client = server.client();
    assert_eq!(auth(&mut client, "digest", b"bob:pw").unwrap().err, AUTH_FAILED);
    assert!(client.receive().is_none());
    assert_eq!(create_for(&mut server.client(), "/a", "digest", "a:b"), -114);
}

#[test]
fn server_without_its_keytab_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let jaas = dir.path().join("jaas.conf");
    let module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true";
    let keytab = dir.path().join("zk.keytab");
    let text = format!("Server {{ {module} keyTab=\"{}\" principal=\"zookeeper/h@R\"; }};", keytab.display());
    fs::write(&jaas, text).unwrap();
    let flag = format!("-Djava.security.auth.login.config={}", jaas.display());
    let start = || ServerFixture::try_start("", &flag).err().unwrap();
    assert!(start().to_string().contains("zk.keytab: No such file"), "{}", start());
    fs::write(&keytab, [5, 2]).unwrap();
    assert!(start().to_string().ends_with("zk.keytab: it has no AES key of zookeeper/h@R"), "{}", start());
    assert_eq!(start().exit_code(), 1);
}

#[test]
fn passwords_are_in_no_four_letter_reply() {
    let settings = "4lw.commands.whitelist=*\nSASLAuthenticationProvider.superPassword=open-sesame\n";
    let (server, _dir) = sasl_server(settings);
    let mut bob = server.client();
    assert_eq!(login(&mut bob, "bob", "hunter2").err, 0);
    for command in ["conf", "envi", "cons", "dump", "mntr", "srvr", "stat"] {
        let text = four_letter(&server, command);
        assert!(
            !["hunter2", "swordfish", "open-sesame"].iter().any(|secret| text.contains(secret)),
            "{command}: {text}"
        );
    }
}
