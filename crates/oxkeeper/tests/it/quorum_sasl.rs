//! SASL between servers with DIGEST-MD5: required logins, wrong passwords, servers without SASL, and the rolling change.

use crate::members;
use crate::quorum_tls::{self, QuorumCa};
use ox_testkit::{TestEnsemble, wait_until};
use std::fs;

const ENABLED: &str = "quorum.auth.enableSasl=true\n";
const LEARNER: &str = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n";
const REQUIRED: &str =
    "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n";

const JAAS: &str = "java.security.auth.login.config=jaas.conf";

/// Writes the JAAS file of a member, whose path is relative to its directory.
fn write_jaas(ensemble: &TestEnsemble, at: usize, password: &str) {
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let text = format!(
        "QuorumServer {{ {module} user_zk=\"{password}\"; }};\n\
         QuorumLearner {{ {module} username=\"zk\" password=\"{password}\"; }};\n"
    );
    fs::write(ensemble.directory(at).join("jaas.conf"), text).unwrap();
}

fn prepare(voters: usize, observers: usize, settings: &str) -> TestEnsemble {
    let ensemble = members::prepare(voters, observers, settings, &[JAAS]);
    (0..ensemble.len()).for_each(|at| write_jaas(&ensemble, at, "quorum-secret"));
    ensemble
}

fn check_serves(ensemble: &TestEnsemble, path: &str) {
    for at in 0..ensemble.len() {
        ensemble.client_of(at).create(&format!("{path}-{at}"), 0);
    }
    ensemble.wait_until_in_sync();
    ensemble.check_equal();
}

/// Replaces the lines about SASL in the configuration of a member.
fn set_lines(ensemble: &TestEnsemble, at: usize, lines: &str) {
    let file = ensemble.directory(at).join("zoo.cfg");
    let text = fs::read_to_string(&file).unwrap();
    let kept = text.lines().filter(|line| !line.starts_with("quorum.auth."));
    fs::write(file, kept.map(|line| format!("{line}\n")).collect::<String>() + lines).unwrap();
}

fn check_secret_is_not_logged(ensemble: &TestEnsemble) {
    for server in &ensemble.servers {
        assert!(!server.log().contains("quorum-secret"));
    }
}

#[test]
fn ensemble_with_required_sasl_serves_and_elects() {
    let mut ensemble = prepare(3, 1, REQUIRED).start();
    check_serves(&ensemble, "/first");
    let leader = ensemble.leader();
    ensemble.kill(leader);
    ensemble.client_of((leader + 1) % 3).create("/without", 0);
    ensemble.restart(leader);
    check_serves(&ensemble, "/second");
    check_secret_is_not_logged(&ensemble);
}

#[test]
fn ensemble_with_tls_and_sasl_serves_and_elects() {
    let mut ensemble = prepare(3, 0, &format!("{REQUIRED}{}", quorum_tls::ENABLED));
    QuorumCa::new("Quorum CA").issue(&ensemble);
    ensemble = ensemble.start();
    check_serves(&ensemble, "/first");
    let leader = ensemble.leader();
    ensemble.kill(leader);
    ensemble.restart(leader);
    check_serves(&ensemble, "/second");
}

/// The first server cannot join; the other two serve.
fn check_refused(ensemble: &mut TestEnsemble, reason: &str) {
    ensemble.start_members(&[1, 2]);
    ensemble.launch(0);
    let log = |at: usize| ensemble.servers[at].log();
    wait_until("it is refused", || (1..3).any(|at| log(at).contains(reason)));
    ensemble.client_of(1).create("/served", 0);
    assert_eq!(ensemble.mode(0), None);
    check_secret_is_not_logged(ensemble);
}

#[test]
fn member_with_wrong_password_is_refused() {
    let mut ensemble = prepare(3, 0, REQUIRED);
    write_jaas(&ensemble, 0, "another-secret");
    check_refused(&mut ensemble, "Failed to authenticate using SASL");
}

#[test]
fn k155_member_without_sasl_is_refused_where_it_is_required() {
    let mut ensemble = prepare(3, 0, REQUIRED);
    set_lines(&ensemble, 0, "");
    check_refused(&mut ensemble, "Learner not trying to authenticate and authentication is required");
    ensemble.process_mut(0).wait_for("the server authenticates with SASL, and this server does not");
}

/// The server with the largest id dials the others, and only sees that they close the connections.
#[test]
fn member_without_sasl_logs_the_likely_cause_once() {
    let mut ensemble = prepare(3, 0, REQUIRED);
    set_lines(&ensemble, 2, "");
    ensemble.start_members(&[0, 1]);
    ensemble.launch(2);
    let line = ensemble.process_mut(2).wait_for("closes each connection before it sends a notification");
    assert!(line.contains("It may require SASL (quorum.auth.*)"), "{line}");
    ensemble.process_mut(2).wait_for("no leader elected");
    let log = ensemble.servers[2].log();
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert!(count("election connection closed") <= 2, "{log}");
    assert!(count("closes each connection before") <= 2 * 6, "{log}");
}

#[test]
fn rolling_change_to_sasl_and_back_loses_no_service() {
    let mut ensemble = prepare(3, 0, "").start();
    let mut client = ensemble.client();
    for (number, lines) in [ENABLED, LEARNER, REQUIRED, LEARNER, ENABLED, ""].into_iter().enumerate() {
        for at in 0..3 {
            ensemble.kill(at);
            set_lines(&ensemble, at, lines);
            ensemble.restart(at);
            client.create(&format!("/step-{number}-{at}"), 0);
        }
    }
    check_serves(&ensemble, "/end");
}

#[test]
fn missing_sections_and_keytabs_stop_the_start() {
    let module =
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=k storeKey=true principal=p";
    for (text, code, expected) in [
        ("Other { x.Y required; };", 1, "JAAS configuration section 'QuorumServer' could not be found"),
        (&*format!("QuorumServer {{ {module}; }}; QuorumLearner {{ {module}; }};"), 1, "SASL between servers: "),
    ] {
        let mut ensemble = prepare(3, 0, REQUIRED);
        fs::write(ensemble.directory(0).join("jaas.conf"), text).unwrap();
        ensemble.launch(0);
        let ended = ensemble.take(0).end();
        assert!(ended.said.contains(expected), "{}", ended.said);
        assert_eq!(ended.status.code(), Some(code), "{}", ended.said);
    }
}
