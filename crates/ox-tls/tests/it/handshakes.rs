//! Handshakes between our own two sides.

use crate::harness::{EXPIRED, Fixture, NOW, VALID, client, connect, localhost, server, testdata};
use ox_tls::generate::DevelopmentCa;
use ox_tls::{PeerDecision, PeerEndpoint, SettingsGroup, StorePassword, TlsSettings, TlsWarning};
use rustls::{HandshakeKind, ServerConnection};

#[test]
fn client_auth_decides_about_clients_without_certificate() {
    let fixture = Fixture::new();
    let mut of_server = fixture.settings(SettingsGroup::Client, "localhost");
    let with_certificate = fixture.settings(SettingsGroup::Client, "client");
    let mut without_certificate = with_certificate.clone();
    without_certificate.key_store.location = None;
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        of_server.enabled_protocols = Some(protocol.to_owned());
        for (client_auth, has_certificate, expected) in [
            (None, true, Ok(Some("CN=client"))),
            (None, false, Err(())),
            (Some("need"), true, Ok(Some("CN=client"))),
            (Some("want"), true, Ok(Some("CN=client"))),
            (Some("want"), false, Ok(None)),
            (Some("none"), true, Ok(None)),
            (Some("none"), false, Ok(None)),
        ] {
            of_server.client_auth = client_auth.map(str::to_owned);
            let of_client = if has_certificate { &with_certificate } else { &without_certificate };
            let endpoint = client(of_client).unwrap().endpoint(localhost());
            let subject = connect(&endpoint, &server(&of_server).unwrap())
                .map(|handshake| handshake.client_certificate.map(|certificate| certificate.subject));
            let expected = expected.map(|subject| subject.map(str::to_owned));
            assert_eq!(subject.map_err(|_| ()), expected, "{protocol} {client_auth:?} {has_certificate}");
        }
    }
}

#[test]
fn certificates_of_another_ca_and_expired_ones_are_refused() {
    let fixture = Fixture::new();
    let good = fixture.settings(SettingsGroup::Client, "localhost");
    let other = Fixture::new(); // with the same name
    let of_other_ca = other.settings(SettingsGroup::Client, "localhost");
    let expired = fixture.settings_of(SettingsGroup::Client, "old", &fixture.issue("localhost", EXPIRED));
    for (wrong, reason) in [(of_other_ca, "BadSignature"), (expired, "Expired")] {
        let mut wrong = wrong;
        wrong.trust_store = good.trust_store.clone();
        for (of_client, of_server) in [(&good, &wrong), (&wrong, &good)] {
            let endpoint = client(of_client).unwrap().endpoint(localhost());
            let error = connect(&endpoint, &server(of_server).unwrap()).unwrap_err();
            assert!(format!("{error:?}").contains(reason), "{error:?}");
        }
    }
}

#[test]
fn wrong_ca_is_reported_before_wrong_name() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    let of_client = fixture.settings(SettingsGroup::Client, "client");
    let endpoint = client(&of_client).unwrap().endpoint(localhost());
    let of_server = other.settings(SettingsGroup::Client, "elsewhere");
    let error = connect(&endpoint, &server(&of_server).unwrap()).unwrap_err();
    assert!(format!("{error:?}").contains("BadSignature"), "{error:?}");
}

#[test]
fn k160_client_refuses_server_with_wrong_name() {
    let fixture = Fixture::new();
    let of_server = server(&fixture.settings(SettingsGroup::Client, "localhost")).unwrap();
    let mut of_client = fixture.settings(SettingsGroup::Client, "client");
    let peer = |address: &str, name: Option<&str>| PeerEndpoint::new(address.parse().unwrap(), name.map(str::to_owned));
    for (fips_mode, endpoint, expected) in [
        (true, peer("10.0.0.1", Some("localhost")), true),
        (true, peer("10.0.0.1", Some("LocalHost.")), true),
        (true, peer("127.0.0.1", None), true),
        (true, peer("127.0.0.1", Some("zk_1")), false),
        (true, peer("10.0.0.1", None), false),
        (false, peer("127.0.0.1", Some("zk1")), true),
        (false, peer("10.0.0.1", Some("zk1")), false),
    ] {
        of_client.fips_mode = fips_mode;
        let result = connect(&client(&of_client).unwrap().endpoint(endpoint.clone()), &of_server);
        assert_eq!(result.is_ok(), expected, "{fips_mode} {endpoint:?}");
        if let Err(error) = result {
            assert!(error.to_string().contains("Failed to verify"), "{error}");
        }
    }
    of_client.hostname_verification = false;
    assert!(connect(&client(&of_client).unwrap().endpoint(peer("10.0.0.1", None)), &of_server).is_ok());
}

#[test]
fn quorum_peer_with_wrong_name_is_reported_in_fips_mode_and_refused_otherwise() {
    let fixture = Fixture::new();
    let mut settings = fixture.settings(SettingsGroup::Quorum, "elsewhere");
    let peer = localhost();
    let (of_client, of_server) = (client(&settings).unwrap(), server(&settings).unwrap());
    assert!(of_server.warnings().contains(&TlsWarning::HostNamesNotEnforced));
    let handshake = connect(&of_client.endpoint(peer.clone()), &of_server).unwrap();
    let decision = of_client.check_peer(&handshake.server_certificate, &peer, NOW);
    assert!(matches!(decision, PeerDecision::AcceptMismatch(_)), "{decision:?}");
    let decision = of_server.check_peer(&handshake.client_certificate.unwrap(), &peer, NOW);
    assert!(matches!(decision, PeerDecision::AcceptMismatch(_)), "{decision:?}");
    settings.fips_mode = false;
    let (of_client, of_server) = (client(&settings).unwrap(), server(&settings).unwrap());
    assert!(connect(&of_client.endpoint(peer.clone()), &of_server).is_err());
    let elsewhere = PeerEndpoint::new(peer.address, ["elsewhere".to_owned()]);
    let certificate = connect(&of_client.endpoint(elsewhere), &of_server).unwrap().client_certificate.unwrap();
    assert!(matches!(of_server.check_peer(&certificate, &peer, NOW), PeerDecision::Refuse(_)));
    let unnamed = PeerEndpoint::new(peer.address, []);
    assert_eq!(of_server.check_peer(&certificate, &unnamed, NOW), PeerDecision::LookUpName(peer.address));
    assert_eq!(of_server.check_peer(&certificate, &unnamed, VALID.not_after + 1), PeerDecision::RefuseExpired);
}

#[test]
fn session_is_resumed_with_the_identity_of_the_client() {
    let fixture = Fixture::new();
    let mut settings = fixture.settings(SettingsGroup::Client, "localhost");
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        settings.enabled_protocols = Some(protocol.to_owned());
        let of_server = server(&settings).unwrap();
        let endpoint = client(&settings).unwrap().endpoint(localhost());
        let first = connect(&endpoint, &of_server).unwrap();
        assert!(matches!(first.kind, HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest), "{protocol}");
        for _ in 0..3 {
            let next = connect(&endpoint, &of_server).unwrap();
            assert_eq!(next.kind, HandshakeKind::Resumed, "{protocol}");
            assert_eq!(next.client_certificate.unwrap().subject, "CN=localhost");
        }
        // A new configuration, as after a reload, knows no session of the old one.
        assert_ne!(connect(&endpoint, &server(&settings).unwrap()).unwrap().kind, HandshakeKind::Resumed, "{protocol}");
    }
}

#[test]
fn certificate_in_the_trust_store_is_trusted_directly() {
    let fixture = Fixture::new();
    for (key_store, trust_store) in
        [("self-signed.pem", "self-signed.pem"), ("self-signed.jks", "self-signed-trust.pem")]
    {
        let mut settings = TlsSettings::new(SettingsGroup::Quorum);
        settings.fips_mode = false;
        settings.key_store.location = Some(testdata(key_store));
        settings.key_store.password = Some(StorePassword::new("changeit"));
        settings.trust_store.location = Some(testdata(trust_store));
        let of_server = server(&settings).unwrap();
        let handshake = connect(&client(&settings).unwrap().endpoint(localhost()), &of_server).unwrap();
        assert!(handshake.client_certificate.is_some(), "{key_store}");
        let of_other_ca = client(&fixture.settings(SettingsGroup::Quorum, "client")).unwrap();
        assert!(connect(&of_other_ca.endpoint(localhost()), &of_server).is_err(), "{key_store}");
    }
}

#[test]
fn k161_two_cas_with_one_subject_are_both_trusted() {
    let (fixture, second) = (Fixture::new(), Fixture::new());
    let both = format!("{}{}", fixture.ca.certificate(), second.ca.certificate());
    let mut of_client = fixture.settings(SettingsGroup::Client, "client");
    of_client.trust_store.location = Some(fixture.write("both.pem", &both));
    let endpoint = client(&of_client).unwrap().endpoint(localhost());
    for issuer in [&fixture, &second] {
        let mut of_server = issuer.settings(SettingsGroup::Client, "localhost");
        of_server.trust_store = of_client.trust_store.clone();
        assert!(connect(&endpoint, &server(&of_server).unwrap()).is_ok());
    }
}

#[test]
fn key_is_chosen_by_what_the_client_can_verify() {
    let mut of_server = TlsSettings::new(SettingsGroup::Client);
    of_server.client_auth = Some("none".to_owned());
    of_server.key_store.location = Some(testdata("two-keys.p12"));
    of_server.key_store.password = Some(StorePassword::new("changeit"));
    let of_server = server(&of_server).unwrap();
    let mut of_client = TlsSettings::new(SettingsGroup::Client);
    of_client.trust_store.location = Some(testdata("two-keys-trust.pem"));
    for (suite, subject) in [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "CN=rsa,O=Example,C=US"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "CN=ec,O=Example,C=US"),
    ] {
        of_client.cipher_suites = Some(suite.to_owned());
        let handshake = connect(&client(&of_client).unwrap().endpoint(localhost()), &of_server).unwrap();
        assert_eq!((handshake.suite.as_str(), handshake.server_certificate.subject.as_str()), (suite, subject));
    }
}

#[test]
fn sides_without_common_protocol_do_not_connect() {
    let fixture = Fixture::new();
    let mut settings = fixture.settings(SettingsGroup::Client, "localhost");
    settings.enabled_protocols = Some("TLSv1.3".to_owned());
    let of_server = server(&settings).unwrap();
    settings.enabled_protocols = Some("TLSv1.2".to_owned());
    assert!(connect(&client(&settings).unwrap().endpoint(localhost()), &of_server).is_err());
}

#[test]
fn garbage_instead_of_a_handshake_is_an_error() {
    let fixture = Fixture::new();
    let of_server = server(&fixture.settings(SettingsGroup::Client, "localhost")).unwrap();
    for garbage in
        [&b"ruok"[..], b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 0xff, 0xff, 1], &[0x16, 3, 1, 0, 4, 1, 0, 0, 0]]
    {
        let mut connection = ServerConnection::new(of_server.config().clone()).unwrap();
        let mut bytes = garbage;
        while !bytes.is_empty() {
            connection.read_tls(&mut bytes).unwrap();
        }
        assert!(connection.process_new_packets().is_err(), "{garbage:?}");
    }
}

#[test]
fn loaded_ca_issues_certificates_that_its_certificate_covers() {
    let fixture = Fixture::new();
    let loaded = DevelopmentCa::load(fixture.ca.certificate(), &fixture.ca.key()).unwrap();
    let again = Fixture { directory: tempfile::tempdir().unwrap(), ca: loaded };
    let of_server = server(&fixture.settings(SettingsGroup::Client, "localhost")).unwrap();
    let mut of_client = again.settings(SettingsGroup::Client, "client");
    of_client.trust_store.location = Some(fixture.directory.path().join("ca.pem"));
    let endpoint = client(&of_client).unwrap().endpoint(localhost());
    assert_eq!(connect(&endpoint, &of_server).unwrap().client_certificate.unwrap().issuer, "CN=Test CA");
}
