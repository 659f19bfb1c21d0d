//! Auth packets, SASL exchanges and enforced authentication on a connection.

use crate::harness::{Harness, Reply};
use ox_proto::acl::put_acls;
use ox_proto::request::{AuthPacket, CreateRequest, SaslToken, put_request};
use ox_proto::{Acl, ErrorCode, OpCode, RawAcls, Reader};
use ox_replica::{ConnAuth, EnforcedSchemes, SaslOutcome, SaslServer, ServerLogin};
use ox_sasl::digest_md5::CLIENT_PORT;
use ox_sasl::digest_md5::initiator::DigestInitiator;
use ox_sasl::jaas::modules::{DigestAccounts, DigestCredentials};
use ox_sasl::kerberos_name::identity::NameMapping;
use ox_sasl::secret::SecretBytes;
use ox_tree::auth::SchemeSettings;
use ox_tree::{State, TreeOptions};
use std::sync::Arc;

const AUTH_FAILED: i32 = -115;
const REQUIRED: i32 = -124;
/// The body of a reply with a null token.
const NULL_TOKEN: [u8; 4] = [0xFF; 4];

fn world(auth: ConnAuth, schemes: SchemeSettings) -> Harness {
    let mut world = Harness::new();
    world.state = State::new(TreeOptions { schemes, ..TreeOptions::default() });
    world.settings.auth = auth;
    world
}

/// A server with the accounts bob, super and admin; admin is a super user.
fn sasl_world(auth: ConnAuth) -> Harness {
    let mut world =
        world(ConnAuth { has_sasl: true, ..auth }, SchemeSettings { sasl: true, ..SchemeSettings::default() });
    let accounts = ["bob", "super", "admin"].map(|user| (user.to_owned(), SecretBytes::new(format!("{user}-pw"))));
    world.sasl = Some(SaslServer {
        login: ServerLogin::DigestMd5(Arc::new(DigestAccounts::new(accounts))),
        names: NameMapping::default(),
        super_users: vec!["admin".to_owned()],
    });
    world
}

fn enforce(schemes: &[&str]) -> ConnAuth {
    let enforced = EnforcedSchemes::of(schemes.iter().copied()).unwrap();
    ConnAuth { enforced, ..ConnAuth::NONE }
}

fn auth(world: &mut Harness, side: usize, xid: i32, scheme: &str, data: &[u8]) {
    let packet = AuthPacket { kind: 0, scheme: Some(scheme.into()), auth: Some(data) };
    put_request(&mut world.sides[side].input, xid, OpCode::Auth.code(), &packet);
}

fn token(world: &mut Harness, side: usize, xid: i32, token: &[u8]) {
    put_request(&mut world.sides[side].input, xid, OpCode::Sasl.code(), &SaslToken { token: Some(token) });
}

fn create_for(world: &mut Harness, side: usize, xid: i32, path: &str, acl: Acl) {
    let mut bytes = Vec::new();
    put_acls(&mut bytes, &[acl]);
    let acl = RawAcls::from_encoded(&bytes).unwrap();
    let body = CreateRequest { path: Some(path.into()), data: Some(b""), acl, flags: 0 };
    put_request(&mut world.sides[side].input, xid, OpCode::Create.code(), &body);
}

/// Sends an empty token, and returns the response to the challenge.
fn respond(world: &mut Harness, side: usize, user: &str, password: &str) -> Vec<u8> {
    token(world, side, 1, b"");
    world.settle();
    let replies = world.replies(side);
    let [(1, 0, 0, body)] = &replies[..] else { panic!("{replies:?}") };
    let challenge = Reader::new(body).get::<SaslToken<'_>>().unwrap().token.unwrap();
    let credentials = DigestCredentials { username: user.to_owned(), password: SecretBytes::new(password) };
    let mut initiator = DigestInitiator::new(CLIENT_PORT, credentials);
    initiator.step(challenge, &mut |bytes| bytes.fill(3)).unwrap().token.unwrap()
}

fn codes(replies: &[Reply]) -> Vec<(i32, i32)> {
    replies.iter().map(|(xid, _, err, _)| (*xid, *err)).collect()
}

fn is_closing(world: &mut Harness, side: usize) -> bool {
    world.sides[side].is_closed
}

#[test]
fn enforced_scheme_refuses_every_request_before_authentication() {
    for op in [OpCode::Ping, OpCode::CloseSession, OpCode::WhoAmI] {
        let mut world = world(enforce(&["digest"]), SchemeSettings::default());
        let (side, session) = world.client();
        world.bare(side, 7, op);
        world.settle();
        assert_eq!(world.replies(side), [(7, 0, REQUIRED, vec![])], "{op:?}");
        assert!(is_closing(&mut world, side), "{op:?}");
        assert!(world.state.sessions().any(|(known, _)| known == session), "the session stays until it expires");
    }
}

#[test]
fn enforced_scheme_admits_authenticated_connections() {
    let mut world = world(enforce(&["digest"]), SchemeSettings::default());
    let (side, _) = world.client();
    auth(&mut world, side, -4, "digest", b"bob:pw");
    world.create(side, 1, "/a", 0);
    world.settle();
    assert_eq!(codes(&world.replies(side)), [(-4, 0), (1, 0)]);
}

#[test]
fn ensemble_name_of_another_ensemble_closes_without_a_reply() {
    let schemes = SchemeSettings {
        ensemble: true,
        ensemble_names: Some(vec!["one".to_owned(), "two".to_owned()]),
        ..SchemeSettings::default()
    };
    let mut world = world(ConnAuth::NONE, schemes);
    let (side, _) = world.client();
    auth(&mut world, side, -4, "ensemble", b"two");
    auth(&mut world, side, -4, "ensemble", b"");
    world.settle();
    assert_eq!(codes(&world.replies(side)), [(-4, 0), (-4, 0)]);
    assert_eq!(world.sides[side].conn.ids().iter().count(), 1, "a name is no identity");
    auth(&mut world, side, -4, "ensemble", b"three");
    world.settle();
    assert!(world.replies(side).is_empty() && is_closing(&mut world, side));
}

#[test]
fn sasl_login_gives_the_identity_to_requests_that_follow() {
    let mut world = sasl_world(ConnAuth::NONE);
    let (side, _) = world.client();
    let response = respond(&mut world, side, "bob", "bob-pw");
    // A write is in flight when the token arrives, and the next one follows without a pause.
    create_for(&mut world, side, 2, "/before", Acl::new(31, "auth", ""));
    token(&mut world, side, 3, &response);
    create_for(&mut world, side, 4, "/after", Acl::new(31, "auth", ""));
    world.settle();
    let replies = world.replies(side);
    assert_eq!(codes(&replies), [(2, ErrorCode::InvalidAcl.code()), (3, 0), (4, 0)]);
    assert!(replies[1].3.len() == 4 + "rspauth=".len() + 32);
    let id = world.sides[side].conn.ids().iter().last().unwrap().clone();
    assert_eq!((&*id.scheme, &*id.id), ("sasl", "bob"));

    let (other, _) = world.client();
    world.get(other, 1, "/after", false);
    world.settle();
    assert_eq!(codes(&world.replies(other)), [(1, ErrorCode::NoAuth.code())]);
}

#[test]
fn configured_super_user_gets_super_permissions() {
    let mut world = sasl_world(ConnAuth::NONE);
    for (user, schemes) in [("admin", &["ip", "sasl", "super"][..]), ("super", &["ip", "sasl"])] {
        let (side, _) = world.client();
        let response = respond(&mut world, side, user, &format!("{user}-pw"));
        token(&mut world, side, 2, &response);
        world.settle();
        let found: Vec<_> = world.sides[side].conn.ids().iter().map(|identity| identity.scheme.clone()).collect();
        assert_eq!(found, schemes);
    }
}

#[test]
fn failed_sasl_login_is_replied_to_and_closes() {
    for (auth, code) in [(ConnAuth::NONE, AUTH_FAILED), (enforce(&["sasl"]), REQUIRED)] {
        for password in ["wrong", ""] {
            let mut world = sasl_world(auth);
            let (side, _) = world.client();
            let response = respond(&mut world, side, "bob", password);
            token(&mut world, side, 2, &response);
            world.bare(side, 3, OpCode::WhoAmI);
            world.settle();
            assert_eq!(world.replies(side), [(2, 0, code, NULL_TOKEN.to_vec())]);
            assert!(is_closing(&mut world, side));
            let Some(SaslOutcome::Failed(failure)) = world.sasl_outcomes.last() else { panic!("failed") };
            assert_eq!(failure.to_string(), "DIGEST-MD5: the response of user 'bob' does not match");
        }
    }
}

#[test]
fn failed_sasl_login_may_stay_connected_without_identity() {
    let mut world = sasl_world(ConnAuth { keeps_failed_sasl: true, ..ConnAuth::NONE });
    let (side, _) = world.client();
    let response = respond(&mut world, side, "bob", "wrong");
    token(&mut world, side, 2, &response);
    token(&mut world, side, 3, &response);
    world.bare(side, 4, OpCode::WhoAmI);
    world.settle();
    let replies = world.replies(side);
    assert_eq!(codes(&replies), [(2, 0), (3, 0), (4, 0)]);
    assert_eq!(replies[0].3, NULL_TOKEN);
    assert_eq!(world.sides[side].conn.ids().iter().count(), 1);
    assert!(!is_closing(&mut world, side));
}

#[test]
fn token_after_the_end_of_the_exchange_fails() {
    let mut world = sasl_world(ConnAuth::NONE);
    let (side, _) = world.client();
    let response = respond(&mut world, side, "bob", "bob-pw");
    token(&mut world, side, 2, &response);
    token(&mut world, side, 3, b"");
    world.settle();
    assert_eq!(codes(&world.replies(side)), [(2, 0), (3, AUTH_FAILED)]);
}

#[test]
fn token_without_a_sasl_configuration_gets_a_null_token() {
    let mut world = world(ConnAuth::NONE, SchemeSettings::default());
    let (side, _) = world.client();
    token(&mut world, side, 1, b"x");
    world.settle();
    assert_eq!(world.replies(side), [(1, 0, 0, NULL_TOKEN.to_vec())]);
}

#[test]
fn oversized_token_fails() {
    let mut world = sasl_world(ConnAuth::NONE);
    let (side, _) = world.client();
    token(&mut world, side, 1, &vec![0; 500_000]);
    world.settle();
    assert_eq!(codes(&world.replies(side)), [(1, AUTH_FAILED)]);
}
