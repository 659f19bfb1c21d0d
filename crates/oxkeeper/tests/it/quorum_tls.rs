//! TLS between servers: ensembles with certificates, peers that are refused, the rolling change from plain text to TLS
//! and back, and certificates that change while the servers run.

use crate::members;
use crate::unknown_peers::addresses;
use ox_testkit::{MemberRole, TestEnsemble, wait_until};
use ox_tls::CertificateInfo;
use ox_tls::generate::{CertificateSubject, DevelopmentCa, Validity};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// From 2020 to the end of 2119.
const VALID: Validity = Validity { not_before: 1_577_836_800, not_after: 4_733_510_400 };
/// The whole year of 2020.
const EXPIRED: Validity = Validity { not_before: 1_577_836_800, not_after: 1_609_459_200 };

/// In this time a refused member dials more than once.
const REPETITION: Duration = Duration::from_secs(1);

/// The whole year of 2100.
const EARLY: Validity = Validity { not_before: 4_102_444_800, not_after: 4_133_980_800 };

/// Paths are relative to the directory of each server.
const STORES: &str = "ssl.quorum.keyStore.location=key.pem\nssl.quorum.trustStore.location=ca.pem\n";
const TLS: &str = "sslQuorum=true\n";
const UNIFIED: &str = "portUnification=true\n";
const STRICT: &str = "fips-mode=false\n";

/// All lines of a configuration with TLS.
pub(crate) const ENABLED: &str =
    "sslQuorum=true\nssl.quorum.keyStore.location=key.pem\nssl.quorum.trustStore.location=ca.pem\n";

/// The first flight of a client with an empty trust store.
pub(crate) fn client_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let mut client = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

pub(crate) struct QuorumCa(DevelopmentCa);

impl QuorumCa {
    pub(crate) fn new(name: &str) -> Self {
        Self(DevelopmentCa::create(name, VALID).unwrap())
    }

    /// Writes the stores of a member, whose certificate names `host`.
    fn issue_for(&self, ensemble: &TestEnsemble, at: usize, host: &str, validity: Validity) -> CertificateInfo {
        let name = format!("zk{}", at + 1);
        let addresses = vec![host.parse().unwrap()];
        let subject = CertificateSubject { common_name: name, host_names: Vec::new(), addresses };
        let directory = ensemble.directory(at);
        let issued = self.0.issue(&subject, validity).unwrap();
        fs::write(directory.join("new.pem"), &*issued.key_store()).unwrap();
        fs::rename(directory.join("new.pem"), directory.join("key.pem")).unwrap();
        fs::write(directory.join("ca.pem"), self.0.certificate()).unwrap();
        issued.info().unwrap()
    }

    /// Writes the stores of all members, with the addresses of their `server.N` lines.
    pub(crate) fn issue(&self, ensemble: &TestEnsemble) {
        for at in 0..ensemble.len() {
            self.issue_for(ensemble, at, &host(at), VALID);
        }
    }
}

/// The host of a member in `server.N`.
fn host(at: usize) -> String {
    format!("127.0.0.{}", at + 1)
}

fn prepare(settings: &str) -> (TestEnsemble, QuorumCa) {
    let ensemble = members::prepare(3, 0, &format!("{STORES}{settings}"), &[]);
    let ca = QuorumCa::new("Quorum CA");
    ca.issue(&ensemble);
    (ensemble, ca)
}

fn check_serves(ensemble: &TestEnsemble, path: &str) {
    for at in 0..ensemble.len() {
        ensemble.client_of(at).create(&format!("{path}-{at}"), 0);
    }
    ensemble.wait_until_in_sync();
    ensemble.check_equal();
}

/// Replaces the lines about TLS in the configuration of a member.
fn set_lines(ensemble: &TestEnsemble, at: usize, lines: &str) {
    let file = ensemble.directory(at).join("zoo.cfg");
    let text = fs::read_to_string(&file).unwrap();
    let is_kept = |line: &&str| !line.starts_with("sslQuorum=") && !line.starts_with("portUnification=");
    let kept: String = text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    fs::write(file, kept + lines).unwrap();
}

/// What a port sends after the first bytes of a connection: nothing, if it closes the connection.
fn reply(address: SocketAddr, first: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(first).unwrap();
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply); // a reset ends the reply, too
    reply
}

#[test]
fn ensemble_with_tls_serves_elects_and_synchronises() {
    let (ensemble, _ca) = prepare(&format!("{TLS}{STRICT}"));
    let mut ensemble = ensemble.start();
    check_serves(&ensemble, "/first");
    let leader = ensemble.leader();
    ensemble.kill(leader);
    ensemble.client().create("/without", 0);
    // More than fits into the buffers of a connection, by snapshot or by diff.
    let mut client = ensemble.client();
    let data = vec![7; 500_000];
    (0..20).for_each(|number| client.create_with(&format!("/large-{number}"), &data, 0));
    ensemble.restart(leader);
    check_serves(&ensemble, "/second");
    let log = ensemble.servers[0].log();
    assert!(log.contains("Using TLS encrypted quorum communication"), "{log}");
    assert!(log.contains("Port unification disabled"), "{log}");
    let days = ensemble.metric(0, "quorum_certificate_days_left");
    assert!(days.is_some_and(|days| days.parse::<i64>().unwrap() > 30_000));
}

#[test]
fn observer_with_tls_follows_leader_and_observer_master() {
    let settings = format!("{STORES}{TLS}{STRICT}observerMasterPort={}\n", ox_testkit::free_port());
    let ensemble = members::prepare(3, 1, &settings, &[]);
    QuorumCa::new("Quorum CA").issue(&ensemble);
    let ensemble = ensemble.start();
    check_serves(&ensemble, "/observed");
}

/// The member with the bad certificate does not get in; the other two serve.
fn check_refused(prepared: impl Fn(&TestEnsemble), settings: &str, reason: &str) -> TestEnsemble {
    let (mut ensemble, _ca) = prepare(settings);
    prepared(&ensemble);
    ensemble.start_members(&[1, 2]);
    ensemble.launch(0);
    let log = |at: usize| ensemble.servers[at].log();
    wait_until("the refusal is logged", || (1..3).any(|at| log(at).contains(reason)) || log(0).contains(reason));
    ensemble.client_of(1).create("/served", 0);
    assert_eq!(ensemble.mode(0), None, "server 1 must not serve");
    assert!(!log(0).contains(" - broadcast"), "{}", log(0));
    ensemble
}

/// The same where the others refuse the certificate by an alert: the member logs the cause, too. It has the lowest id, so
/// the others refuse it only after its own handshake is complete.
fn check_refused_by_alert(prepared: impl Fn(&TestEnsemble), settings: &str, reason: &str) -> String {
    let ensemble = check_refused(prepared, settings, reason);
    let log = || ensemble.servers[0].log();
    let refusals = |peer: i64| {
        let sentence = format!("Cannot open channel to {peer} ");
        let is_refusal = |line: &&str| line.contains("the peer refuses the certificate of this side");
        log().lines().filter(|line| line.contains(&sentence)).filter(is_refusal).count()
    };
    wait_until("its own log names the cause", || [2, 3].iter().all(|peer| refusals(*peer) != 0));
    thread::sleep(REPETITION);
    assert_eq!([2, 3].map(refusals), [1, 1], "{}", log());
    log()
}

#[test]
fn member_of_another_ca_is_refused() {
    let prepared = |ensemble: &TestEnsemble| {
        let other = QuorumCa::new("Other CA");
        other.issue_for(ensemble, 0, &host(0), VALID);
        // It trusts the others, so that only they can refuse it.
        let (own, theirs) = (other.0.certificate(), ensemble.file(1, "ca.pem").unwrap());
        fs::write(ensemble.directory(0).join("ca.pem"), format!("{own}{theirs}")).unwrap();
    };
    check_refused_by_alert(prepared, TLS, "UnknownIssuer");
}

#[test]
fn member_with_expired_certificate_is_refused() {
    let ca = QuorumCa::new("Quorum CA");
    let prepared = |ensemble: &TestEnsemble| {
        ca.issue(ensemble);
        ca.issue_for(ensemble, 0, &host(0), EXPIRED);
    };
    check_refused_by_alert(prepared, TLS, "Expired");
}

#[test]
fn member_whose_certificate_is_not_yet_valid_is_refused_and_logs_that() {
    let ca = QuorumCa::new("Quorum CA");
    let prepared = |ensemble: &TestEnsemble| {
        ca.issue(ensemble);
        ca.issue_for(ensemble, 0, &host(0), EARLY);
    };
    let log = check_refused_by_alert(prepared, TLS, "NotValidYet");
    assert!(
        log.contains("the certificate for other servers is not valid yet; they refuse it; check the clock"),
        "{log}"
    );
}

/// Revocation holds on the ports for servers as on those for clients.
#[test]
fn member_with_revoked_certificate_is_refused() {
    let ca = QuorumCa::new("Quorum CA");
    let prepared = |ensemble: &TestEnsemble| {
        ca.issue(ensemble);
        let revoked = ca.issue_for(ensemble, 0, &host(0), VALID);
        let list = ca.0.revocation_list(&[revoked], VALID).unwrap();
        (0..3).for_each(|at| fs::write(ensemble.directory(at).join("revoked.pem"), &list).unwrap());
    };
    let settings = format!("{TLS}ssl.quorum.crl=true\noxkeeper.ssl.quorum.crlFiles=revoked.pem\n");
    check_refused_by_alert(prepared, &settings, "Revoked");
}

#[test]
fn member_with_certificate_of_another_host_is_refused_without_fips_mode() {
    let ca = QuorumCa::new("Quorum CA");
    let prepared = |ensemble: &TestEnsemble| {
        ca.issue(ensemble);
        ca.issue_for(ensemble, 0, "192.0.2.1", VALID);
    };
    check_refused(prepared, &format!("{TLS}{STRICT}"), "Failed to verify both host address and host name");
}

#[test]
fn member_with_certificate_of_another_host_is_reported_in_fips_mode() {
    let (ensemble, ca) = prepare(TLS);
    ca.issue_for(&ensemble, 0, "192.0.2.1", VALID);
    let ensemble = ensemble.start();
    check_serves(&ensemble, "/served");
    let mismatches = |at: usize| ensemble.metric(at, "quorum_host_name_mismatches").unwrap().parse::<u64>().unwrap();
    wait_until("a mismatch is counted", || (1..3).any(|at| 0 < mismatches(at)));
    let logs: String = (1..3).map(|at| ensemble.servers[at].log()).collect();
    assert!(logs.contains("server accepted with a certificate of another host"), "{logs}");
}

#[test]
fn k155_plain_member_is_refused_without_unification() {
    let (mut ensemble, _ca) = prepare(TLS);
    set_lines(&ensemble, 0, "");
    ensemble.start_members(&[1, 2]);
    ensemble.launch(0);
    let log = |at: usize| ensemble.servers[at].log();
    wait_until("it is refused", || (1..3).any(|at| log(at).contains("Blocked insecure connection attempt")));
    ensemble.client_of(1).create("/served", 0);
    assert_eq!(ensemble.mode(0), None);
}

/// Peers without a certificate, with plain text and with garbage reach neither port.
#[test]
fn k155_unauthenticated_peers_reach_neither_port() {
    let (ensemble, _ca) = prepare(TLS);
    let ensemble = ensemble.start();
    let leader = ensemble.leader();
    for port in &addresses(&ensemble)[2 * leader..2 * leader + 2] {
        let hello = [&(-65536_i64).to_be_bytes()[..], &9_i64.to_be_bytes(), &4_i32.to_be_bytes(), b"x:12"].concat();
        assert_eq!(reply(*port, &hello), b"", "a plain hello");
        let garbage = reply(*port, &[0x16, 3, 1, 0, 4, 99, 0, 0, 0]);
        assert!(garbage.first().is_none_or(|first| *first == 0x15), "an alert at most: {garbage:?}");
    }
    wait_until("four rejected handshakes are counted", || {
        let rejected = ensemble.metric(leader, "quorum_handshakes_rejected").unwrap();
        4 <= rejected.parse::<u64>().unwrap()
    });
    check_serves(&ensemble, "/served");
}

/// The documented steps: plain, plain with unification, TLS with unification, TLS alone; and back.
#[test]
fn rolling_change_to_tls_and_back_loses_no_service() {
    let (mut ensemble, _ca) = prepare("");
    ensemble = ensemble.start();
    let mut client = ensemble.client();
    let steps = [UNIFIED, "sslQuorum=true\nportUnification=true\n", TLS];
    let back = [steps[1], steps[0], ""];
    for (number, lines) in steps.into_iter().chain(back).enumerate() {
        for at in 0..3 {
            ensemble.kill(at);
            set_lines(&ensemble, at, lines);
            ensemble.restart(at);
            client.create(&format!("/step-{number}-{at}"), 0);
        }
    }
    check_serves(&ensemble, "/end");
}

/// New connections use new certificates without a restart; a broken store changes nothing.
#[test]
fn certificates_of_a_new_ca_are_used_without_restart() {
    let (ensemble, old) = prepare(&format!("{TLS}sslQuorumReloadCertFiles=true\n"));
    let mut ensemble = ensemble.start();
    let new = QuorumCa::new("New CA");
    let both = format!("{}{}", old.0.certificate(), new.0.certificate());
    for at in 0..3 {
        fs::write(ensemble.directory(at).join("ca.pem"), &both).unwrap();
        ensemble.process_mut(at).wait_for("certificates for other servers reloaded");
    }
    // The leader has only connections of the old CA. A follower comes back with a certificate of the new one.
    let follower = (ensemble.leader() + 1) % 3;
    ensemble.kill(follower);
    new.issue_for(&ensemble, follower, &host(follower), VALID);
    fs::write(ensemble.directory(follower).join("ca.pem"), &both).unwrap();
    ensemble.restart(follower);
    check_serves(&ensemble, "/renewed");
    let other = (follower + 1) % 3;
    fs::write(ensemble.directory(other).join("key.pem"), "broken").unwrap();
    ensemble.process_mut(other).wait_for("certificates for other servers not reloaded, the old ones stay");
    check_serves(&ensemble, "/kept");
}

/// Without `sslQuorumReloadCertFiles`, a reload reads the stores. Links keep the certificates with which they began.
#[test]
fn reload_uses_new_certificates_for_other_servers_and_keeps_links() {
    let (ensemble, old) = prepare(TLS);
    let mut ensemble = ensemble.start();
    let new = QuorumCa::new("New CA");
    let both = format!("{}{}", old.0.certificate(), new.0.certificate());
    let leader = ensemble.leader();
    let (renewed, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let looked = |ensemble: &TestEnsemble| [leader, other].map(|at| ensemble.metric(at, "looking_count"));
    let before = looked(&ensemble);
    for at in 0..3 {
        fs::write(ensemble.directory(at).join("ca.pem"), &both).unwrap();
        ensemble.process(at).signal("HUP");
        ensemble.process_mut(at).wait_for("certificates for other servers reloaded");
    }
    ensemble.kill(renewed);
    new.issue_for(&ensemble, renewed, &host(renewed), VALID);
    fs::write(ensemble.directory(renewed).join("ca.pem"), &both).unwrap();
    ensemble.restart(renewed);
    check_serves(&ensemble, "/renewed");
    assert_eq!((ensemble.leader(), looked(&ensemble)), (leader, before), "the others have kept their links");
    fs::write(ensemble.directory(leader).join("key.pem"), "broken").unwrap();
    ensemble.process(leader).signal("HUP");
    ensemble.process_mut(leader).wait_for("certificates for other servers not reloaded, the old ones stay");
    check_serves(&ensemble, "/kept");
}

#[test]
fn missing_or_broken_stores_stop_the_start() {
    for (lines, expected) in [
        ("sslQuorum=true\n", "sslQuorum needs ssl.quorum.keyStore.location"),
        ("portUnification=true\n", "portUnification needs ssl.quorum.keyStore.location"),
        (
            "sslQuorum=true\nssl.quorum.keyStore.location=none.pem\nssl.quorum.trustStore.location=none.pem\n",
            "none.pem",
        ),
    ] {
        let mut ensemble = members::prepare(3, 0, lines, &[]);
        ensemble.launch(0);
        let ended = ensemble.take(0).end();
        assert!(ended.said.contains(expected), "{}", ended.said);
        assert_eq!(ended.status.code(), Some(2), "{}", ended.said);
    }
}

#[test]
fn joiner_with_a_certificate_is_accepted() {
    let (ensemble, ca) = prepare(&format!("{TLS}{STRICT}reconfigEnabled=true\nskipACL=yes\n"));
    let mut ensemble = ensemble.start();
    let (at, addresses) = ensemble.join(members::program(), MemberRole::Observer);
    ca.issue_for(&ensemble, at, &addresses.election.ip().to_string(), VALID);
    ensemble.launch(at);
    ensemble.process_mut(at).wait_for(" - broadcast");
    ensemble.client_of(0).create("/joined", 0);
}
