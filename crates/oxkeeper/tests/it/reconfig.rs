//! Reconfiguration of running ensembles.

use crate::members;
use ox_testkit::ReconfigArguments as Change;
use ox_testkit::{FailoverClient, MemberRole, RawClient, RawHandshake, RawPacket, TestEnsemble, free_port, wait_until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Every client may reconfigure.
const OPEN: &str = "reconfigEnabled=true\nskipACL=yes";

/// Repeats the request until a reply arrives; the outcome of attempts without a reply is unknown. Returns the code and
/// the text of the new configuration.
fn ask(change: Change<'_>, client: &mut FailoverClient) -> (i32, String) {
    client.ask(|packet, xid| change.put(packet, xid)).config()
}

fn make(change: Change<'_>, ensemble: &TestEnsemble) -> String {
    let mut client = ensemble.client();
    let (code, text) = ask(change, &mut client);
    assert_eq!(code, 0);
    client.close();
    text
}

fn write_some(ensemble: &TestEnsemble) {
    let mut client = ensemble.client();
    let session = client.session();
    (0..20).for_each(|number| client.create(&format!("/n-{session}-{number}"), 0));
    client.close();
}

/// The dynamic file that the last line of `zoo.cfg` names.
fn members_file(ensemble: &TestEnsemble, at: usize) -> Option<String> {
    let cfg = ensemble.file(at, "zoo.cfg")?;
    let path = cfg.lines().last()?.strip_prefix("dynamicConfigFile=")?.to_owned();
    std::fs::read_to_string(path).ok()
}

#[test]
fn server_joins_changes_its_role_and_leaves() {
    let mut ensemble = members::start(3, 0, OPEN);
    write_some(&ensemble);
    let first = ensemble.config_of(0);
    assert!(first.ends_with("version=100000000"), "{first}");
    let (joiner, addresses) = ensemble.join(members::program(), MemberRole::Participant);
    ensemble.restart(joiner);
    ensemble.wait_for_mode(joiner, "follower");
    assert_eq!(ensemble.config_of(joiner), first, "it has learnt that it is no member");
    let client = ensemble.addresses[joiner];

    let spec = format!("server.4={addresses}:participant;{client}");
    let text = make(Change::joining(&spec), &ensemble);
    assert!(text.contains(&format!("server.4={addresses}:participant;{client}\n")), "{text}");
    for at in 0..4 {
        wait_until("everybody knows", || ensemble.config_of(at) == text);
        assert!(ensemble.four_letter(at, "conf").ends_with(&format!("membership: \n{text}")));
        wait_until("files", || members_file(&ensemble, at).is_some_and(|file| file.contains("server.4=")));
        assert!(ensemble.file(at, "zoo.cfg.bak").unwrap().contains("server.1="));
        assert_eq!(ensemble.file(at, "zoo.cfg.dynamic.next"), None);
        assert!(!ensemble.file(at, "zoo.cfg").unwrap().contains("server."));
    }
    let cfg = ensemble.file(joiner, "zoo.cfg").unwrap();
    assert!(!cfg.contains("clientPort=") && cfg.contains("tickTime=500\n"), "{cfg}");

    make(Change::joining(&format!("4={addresses}:observer;{client}")), &ensemble);
    ensemble.wait_for_mode(joiner, "observer");
    write_some(&ensemble);
    make(Change::joining(&spec), &ensemble);
    ensemble.wait_for_mode(joiner, "follower");

    // Its vote counts: without two others there is no quorum of four.
    ensemble.check_equal();
    let text = make(Change::leaving("4"), &ensemble);
    assert!(!text.contains("server.4="));
    wait_until("it knows", || ensemble.config_of(joiner) == text);
    ensemble.wait_for_mode(joiner, "follower");
    write_some(&ensemble);
    ensemble.check_equal();
    ensemble.kill(joiner);
    ensemble.launch(joiner);
    let ended = ensemble.take(joiner).end();
    assert!(ended.said.contains("server"), "who is no member does not start: {}", ended.said);
    assert!(!ended.status.success());
}

/// Quorums of the old and of the new configuration suffice; an absent member need not know.
#[test]
fn k107_server_joins_while_another_is_down() {
    let mut ensemble = members::start(3, 0, OPEN);
    let (joiner, addresses) = ensemble.join(members::program(), MemberRole::Participant);
    ensemble.restart(joiner);
    ensemble.wait_for_mode(joiner, "follower");
    let down = (0..3).find(|at| ensemble.mode(*at).as_deref() == Some("follower")).unwrap();
    ensemble.kill(down);
    let spec = format!("server.4={addresses}:participant;{}", ensemble.addresses[joiner]);
    let text = make(Change::joining(&spec), &ensemble);
    assert!(text.contains("server.4="), "{text}");
    write_some(&ensemble);
    ensemble.restart(down);
    wait_until("it is told", || ensemble.config_of(down) == text);
    ensemble.check_equal();
}

#[test]
fn removed_leader_hands_over() {
    let mut ensemble = members::start(3, 1, OPEN);
    write_some(&ensemble);
    let leader = ensemble.leader();
    let mut client = ensemble.client_of(leader);
    let begun = Instant::now();
    let (code, text) = ask(Change::leaving(&(leader + 1).to_string()), &mut client);
    assert_eq!(code, 0, "who asked is answered");
    let next = ensemble.leader_but(&[leader]);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_ne!(next, leader);
    ensemble.wait_for_mode(leader, "follower");
    for at in 0..4 {
        wait_until("everybody knows", || ensemble.config_of(at) == text);
    }
    write_some(&ensemble);
    ensemble.check_equal();
    // It has no vote: the two remaining voters are the whole ensemble.
    let other = (0..3).find(|at| ![leader, next].contains(at)).unwrap();
    ensemble.kill(other);
    wait_until("one of two is no quorum", || ensemble.mode(next).is_none());
    ensemble.restart(other);
    write_some(&ensemble);
    ensemble.check_equal();
}

/// Opens sessions at one server until `stop` is set. Returns how many were opened.
fn open_sessions(address: SocketAddr, stop: &AtomicBool) -> usize {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        assert!(RawClient::try_open(address, &RawHandshake::new(60_000)).is_some(), "connection {count} was refused");
        count += 1;
    }
    count
}

/// Members without a leader park new connections until the next leader; none is refused.
#[test]
fn new_connections_are_served_while_the_leader_is_removed() {
    let mut ensemble = members::start(3, 1, &format!("{OPEN}\noxkeeper.parkLimitMs=15000"));
    let stop = Arc::new(AtomicBool::new(false));
    let opening = |address| {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || open_sessions(address, &stop))
    };
    let openers: Vec<_> = ensemble.addresses.iter().copied().map(opening).collect();
    for _ in 0..3 {
        let leader = ensemble.leader();
        let text = ensemble.config_of(leader);
        let line = text.lines().find(|line| line.starts_with(&format!("server.{}=", leader + 1))).unwrap();
        let line = format!("{};{}", line.split(';').next().unwrap(), ensemble.addresses[leader]);
        ask(Change::leaving(&(leader + 1).to_string()), &mut ensemble.client());
        ensemble.leader_but(&[leader]);
        ensemble.wait_for_mode(leader, "follower");
        make(Change::joining(&line), &ensemble);
    }
    stop.store(true, Ordering::Relaxed);
    let opened: Vec<_> = openers.into_iter().map(|opener| opener.join().expect("no refusal")).collect();
    assert!(!opened.contains(&0));
    let parked = (0..4).filter_map(|at| ensemble.metric(at, "parked_handshakes")?.parse::<usize>().ok());
    assert_ne!(parked.sum::<usize>(), 0, "some connections waited");
    ensemble.check_equal();
    // A member that has lost its leader for good refuses, so that clients find the others.
    let lone = ensemble.addresses[3];
    (0..3).for_each(|at| ensemble.kill(at));
    wait_until("it refuses", || RawClient::try_open(lone, &RawHandshake::new(4_000)).is_none());
}

#[test]
fn newest_configuration_survives_a_restart() {
    let mut ensemble = members::start(3, 1, OPEN);
    let text = make(Change::leaving("4"), &ensemble);
    for at in 0..3 {
        wait_until("files", || ensemble.file(at, "zoo.cfg").is_some_and(|cfg| cfg.ends_with(&version_end(&text))));
    }
    ensemble.kill(3);
    (0..3).for_each(|at| ensemble.kill(at));
    ensemble.start_members(&[0, 1, 2]);
    (0..3).for_each(|at| assert_eq!(ensemble.config_of(at), text));
}

/// The end of the name of a dynamic file with this configuration.
fn version_end(text: &str) -> String {
    format!(".dynamic.{}\n", text.rsplit_once("version=").unwrap().1)
}

/// The client port moves with the configuration; existing connections stay open.
#[test]
fn client_port_moves_without_closing_connections() {
    let mut ensemble = members::start(3, 0, OPEN);
    let follower = (0..3).find(|at| ensemble.mode(*at).as_deref() == Some("follower")).unwrap();
    let text = ensemble.config_of(follower);
    let line = text.lines().find(|line| line.starts_with(&format!("server.{}=", follower + 1))).unwrap().to_owned();
    let mut stays = ensemble.client_of(follower);
    let mut moved = ensemble.addresses[follower];
    moved.set_port(free_port());
    let text = make(Change::joining(&format!("{line};{moved}")), &ensemble);
    let old = std::mem::replace(&mut ensemble.addresses[follower], moved);
    ensemble.wait_for_mode(follower, "follower");
    wait_until("the old port is closed", || std::net::TcpStream::connect(old).is_err());
    assert_eq!(ensemble.config_of(follower), text);
    stays.create("/stays", 0);
    assert!(ensemble.four_letter(follower, "conf").starts_with(&format!("clientPort={}\n", moved.port())));
}

/// Every refused reconfiguration has its error code and changes nothing (K166, S24).
#[test]
fn k166_invalid_reconfigurations_are_refused() {
    let digest = "DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
    let ensemble = members::start(3, 0, &format!("reconfigEnabled=true\n{digest}"));
    let before = ensemble.config_of(0);
    for at in 0..3 {
        let mut client = ensemble.client_of(at);
        let unknown_server = Change::joining("server.4=127.0.0.1:1:2;3");
        let none = Change::default();
        for (change, code) in [
            (none, -102),
            (Change { version: Some(5), ..none }, -103),
            (Change { version: Some(0x1_0000_0000), ..none }, -102),
            (Change::leaving("x"), -5),
            (Change::leaving("1,2"), -8),
            (Change::joining("server.4=127.0.0.1:1:2"), -8),
            (Change { members: Some("server.7=127.0.0.1:1:2;3,server.8=127.0.0.1:4:5;6"), ..none }, -13),
            (Change { members: Some(""), ..none }, -8),
            (unknown_server, -102),
        ] {
            assert_eq!(ask(change, &mut client).0, code, "{:?}", (change.joining, change.leaving, change.members));
        }
        client.close();
        assert_eq!(ensemble.config_of(at), before);
    }
    let mut admin = RawClient::open(ensemble.addresses[0], 10_000);
    admin.send(&RawPacket::default().auth(-4, "digest", b"super:test"));
    assert_eq!(admin.reply().err, 0);
    let version = Change { version: Some(0x1_0000_0000), ..Change::default() };
    let reply = admin.ask(|packet, xid| version.put(packet, xid));
    let text = String::from_utf8(reply.data().unwrap()).unwrap();
    assert_eq!(text, before.replace("version=100000000", &format!("version={:x}", reply.zxid)));
}

#[test]
fn k103_static_ensemble_leaves_its_files_unchanged() {
    let ensemble = members::start(3, 0, "skipACL=yes");
    let mut client = ensemble.client();
    assert_eq!(ask(Change::default(), &mut client).0, -123);
    for at in 0..3 {
        assert!(ensemble.config_of(at).ends_with("version=0"));
        assert_eq!(ensemble.file(at, "zoo.cfg.bak"), None);
        assert!(ensemble.file(at, "zoo.cfg").unwrap().contains("server.1="));
    }
}

/// An ensemble that starts with one server and grows.
#[test]
fn single_server_grows_to_an_ensemble() {
    let mut ensemble = members::start(1, 0, &format!("{OPEN}\nstandaloneEnabled=false"));
    write_some(&ensemble);
    ensemble.wait_for_mode(0, "leader");
    for id in 2..=3 {
        let (at, addresses) = ensemble.join(members::program(), MemberRole::Participant);
        ensemble.restart(at);
        let client = ensemble.addresses[at];
        // An observer has no vote: two voters would be a quorum that needs both.
        let spec = format!("server.{id}={addresses}:participant;{client}");
        let text = make(Change::joining(&spec), &ensemble);
        wait_until("it knows", || ensemble.config_of(at) == text);
    }
    write_some(&ensemble);
    ensemble.check_equal();
    ensemble.kill(0);
    let leader = ensemble.leader_but(&[0]);
    assert_ne!(leader, 0);
    write_some(&ensemble);
    ensemble.restart(0);
    ensemble.check_equal();
}
