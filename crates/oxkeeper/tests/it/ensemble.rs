//! Three servers that are killed, restarted and stopped while clients write.

use crate::members;
use crate::process;
use crate::tools::run_command;
use ox_testkit::{FailoverClient, RawHandshake, TestEnsemble, WriteLoad, wait_for, wait_until};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Three servers, and the parent node for writes.
fn start(observers: usize, settings: &str) -> TestEnsemble {
    let ensemble = members::start(3, observers, settings);
    let mut client = ensemble.client();
    client.create("/n", 0);
    client.close();
    ensemble
}

#[test]
fn all_members_accept_writes() {
    let ensemble = start(1, "");
    for at in 0..4 {
        let mut client = ensemble.client_of(at);
        for number in 0..20 {
            client.create(&format!("/n/{at}-{number}"), 0);
        }
        client.create(&format!("/n/{at}-gone"), 1);
        client.close();
    }
    assert_eq!(ensemble.check_equal().keys().filter(|path| path.starts_with("/n/")).count(), 80);
}

#[test]
fn acknowledged_writes_survive_the_kill_of_any_server() {
    let mut ensemble = start(0, "snapCount=500");
    let load = WriteLoad::start(&ensemble.addresses, "any");
    load.wait_for_more(200);
    for round in 0..4 {
        let leader = ensemble.leader();
        let victim = if round % 2 == 0 { leader } else { (leader + 1) % 3 };
        ensemble.kill(victim);
        load.wait_for_more(200); // the others continue
        ensemble.restart(victim);
        load.wait_for_more(100);
    }
    load.check(|| ensemble.check_equal());
}

#[test]
fn acknowledged_writes_survive_the_kill_of_all_servers() {
    let mut ensemble = start(0, "snapCount=500");
    let load = WriteLoad::start(&ensemble.addresses, "all");
    for _ in 0..2 {
        load.wait_for_more(300);
        (0..3).for_each(|at| ensemble.kill(at));
        ensemble.start_members(&[0, 1, 2]);
    }
    load.wait_for_more(100);
    load.check(|| ensemble.check_equal());
}

/// The others replace a frozen leader; when it resumes, it follows.
#[test]
fn k087_frozen_leader_is_replaced_and_rejoins() {
    let mut ensemble = start(0, "");
    let load = WriteLoad::start(&ensemble.addresses, "still");
    load.wait_for_more(100);
    let old = ensemble.leader();
    ensemble.process(old).signal("STOP");
    ensemble.leader_but(&[old]);
    load.wait_for_more(100);
    let process = ensemble.process_mut(old);
    process.signal("CONT");
    process.wait_for("Peer state changed: following - broadcast");
    load.wait_for_more(100);
    load.check(|| ensemble.check_equal());
}

/// The kernels of frozen followers accept pings; that is no sign of life.
#[test]
fn p28_leader_with_frozen_followers_stops_serving() {
    let ensemble = start(0, "");
    let leader = ensemble.leader();
    let followers: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    followers.iter().for_each(|at| ensemble.process(*at).pause());
    if wait_for(|| ensemble.mode(leader).is_none().then_some(())).is_none() {
        let states: Vec<_> = followers.iter().map(|at| ensemble.process(*at).thread_states()).collect();
        panic!("the leader still serves; threads of followers: {states:?}\n{}", ensemble.four_letter(leader, "mntr"));
    }
    followers.iter().for_each(|at| ensemble.process(*at).signal("CONT"));
    ensemble.client().create("/n/again", 0);
}

/// Requests of clients sent to a frozen leader are no sign of life of it.
#[test]
fn p65_frozen_leader_is_replaced_under_client_load() {
    let ensemble = start(0, "");
    let leader = ensemble.leader();
    let follower = (leader + 1) % 3;
    ensemble.process(leader).signal("STOP");
    let mut clients = Vec::new();
    wait_until("the follower gives up", || {
        let mut client = TcpStream::connect(ensemble.addresses[follower]).unwrap();
        client.write_all(&RawHandshake::new(10_000).frame()).unwrap();
        clients.push(client);
        ensemble.mode(follower).as_deref() != Some("follower")
    });
    ensemble.process(leader).signal("CONT");
}

/// A leader's metrics about its learners, under Apache's names.
#[test]
fn leader_reports_metrics_of_its_learners() {
    const SUMMARY: &[&str] = &["avg", "min", "max", "cnt", "sum"];
    const PERCENTILES: &[&str] = &["p50", "p95", "p99", "p999"];
    let ensemble = start(1, "leader.ackLoggingFrequency=1\n");
    let leader = ensemble.leader();
    ensemble.client().create("/n/one", 0);
    let mut expected = BTreeSet::new();
    let mut expect = |parts: &[&str], at: usize, name: &str| {
        expected.extend(parts.iter().map(|part| format!("zk_{part}_{}_{name}", at + 1)));
    };
    for at in (0..4).filter(|at| *at != leader) {
        expect(SUMMARY, at, "learner_handler_qp_size");
        expect(&[SUMMARY, PERCENTILES].concat(), at, "learner_handler_qp_time_ms");
    }
    (0..3).for_each(|at| expect(&[SUMMARY, PERCENTILES].concat(), at, "ack_latency")); // an observer sends no ACK
    let of_servers = |at| {
        let mntr = ensemble.four_letter(at, "mntr");
        let names = mntr.lines().filter_map(|line| line.split_once('\t')).map(|(name, _)| name);
        let is_one = |name: &&str| name.contains("_learner_handler_qp_") || name.ends_with("_ack_latency");
        names.filter(is_one).filter(|name| !name.contains("quorum")).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    wait_until("all servers are told of", || of_servers(leader) == expected);
    for at in (0..4).filter(|at| *at != leader) {
        assert_eq!(of_servers(at), BTreeSet::new(), "server {} has no learners", at + 1);
        let packets = ensemble.metric(leader, &format!("cnt_{}_learner_handler_qp_size", at + 1)).unwrap();
        assert!(1 < packets.parse::<u64>().unwrap(), "{packets}");
    }
}

#[test]
fn members_report_their_roles() {
    let mut ensemble = start(1, "");
    let leader = ensemble.leader();
    assert_eq!(ensemble.mode(3).as_deref(), Some("observer"));
    let mntr = ensemble.four_letter(leader, "mntr");
    let lines =
        ["zk_server_state\tleader", "zk_peer_state\tleading - broadcast", "zk_quorum_size\t3", "zk_learners\t3"];
    for line in lines.into_iter().chain(["zk_synced_followers\t2", "zk_synced_observers\t1", "zk_pending_syncs\t0"]) {
        assert!(mntr.lines().any(|shown| shown == line), "{line} is not in {mntr}");
    }
    let observed = ensemble.four_letter(3, "mntr");
    assert!(observed.contains(&format!("\nzk_observer_master_id\t{}\n", leader + 1)), "{observed}");
    assert!(ensemble.four_letter(leader, "srvr").contains("\nProposal sizes last/min/max: "));
    let conf = ensemble.four_letter(3, "conf");
    for part in ["serverId=4\ninitLimit=20\nsyncLimit=4\nelectionAlg=3\n", "\npeerType=1\nmembership: \nserver.1="] {
        assert!(conf.contains(part), "{part} is not in {conf}");
    }
    assert!(conf.ends_with("version=0"), "{conf}");
    let config = ensemble.client_of(0).ask(|packet, xid| packet.get(xid, "/zookeeper/config"));
    assert_eq!(
        (config.stat().version, config.data().unwrap().len()),
        (-1, conf.len() - conf.find("server.1").unwrap())
    );
    assert!(ensemble.four_letter(3, "dump").contains("Global Sessions("));
    (0..4).filter(|at| *at != 3).for_each(|at| ensemble.kill(at));
    ensemble.process_mut(3).wait_for("LOOKING");
    let alone =
        ["srvr", "mntr", "conf", "dump", "isro", "ruok"].map(|four_letter| ensemble.four_letter(3, four_letter));
    let nothing = "This ZooKeeper instance is not currently serving requests\n";
    assert_eq!(alone, [nothing, nothing, nothing, nothing, "null", "imok"]);
}

#[test]
fn local_ensemble_starts_and_stops_with_one_command() {
    let home = tempfile::tempdir().unwrap();
    for number in 0..2 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        let command = command.args(["ensemble", "--servers", "3", "--dir"]).arg(home.path().join("servers"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = lines.find_map(|line| line.unwrap().strip_prefix("  connect   ").map(str::to_owned));
        let addresses = told.unwrap().split(',').map(|address| address.parse().unwrap()).collect();
        let mut client = FailoverClient::new(addresses);
        client.create(&format!("/start-{number}"), 0);
        assert_eq!(client.children("/").len(), 2 + number, "the data is kept");
        client.close();
        assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap().success());
        assert_eq!(lines.last().unwrap().unwrap(), "stopped");
        assert_eq!(child.wait().unwrap().code(), Some(0));
        for server in 1..=3 {
            let log = std::fs::read_to_string(home.path().join(format!("servers/{server}/server.log"))).unwrap();
            assert!(log.trim_end().ends_with("Exiting normally"), "server {server} has ended well");
        }
    }
}

/// The command restarts a server that is killed. If the command itself is killed, all servers end.
#[test]
fn local_ensemble_restarts_killed_servers_and_takes_them_down_with_it() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    let command = command.args(["ensemble", "--servers", "3", "--dir"]).arg(home.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let report: Vec<String> = lines.by_ref().take_while(|line| !line.starts_with("  ready in ")).collect();
    let told = report.iter().find_map(|line| line.strip_prefix("  connect   ")).unwrap();
    let addresses: Vec<SocketAddr> = told.split(',').map(|address| address.parse().unwrap()).collect();
    let leader = report.iter().find(|line| line.contains("  leader ")).unwrap();
    let pid = leader.split("pid ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let mut client = FailoverClient::new(addresses.clone());
    client.create("/before", 0);
    assert_eq!(children_of(child.id()).len(), 3);
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    assert!(lines.any(|line| line.contains("was killed by signal")));
    let leads = lines.find(|line| line.ends_with(" leads")).unwrap();
    assert!(!leader.trim_start().starts_with(leads.trim_end_matches(" leads")), "{leader}; {leads}");
    client.create("/meanwhile", 0);
    assert!(lines.any(|line| line.contains("was restarted")));
    assert!(lines.any(|line| line.contains(" serves clients again: follower")));
    client.create("/after", 0);
    assert_eq!(client.children("/").len(), 4);
    let servers = children_of(child.id());
    assert_eq!(servers.len(), 3);
    child.kill().unwrap();
    child.wait().unwrap();
    for address in addresses {
        while TcpStream::connect(address).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Only a server that is killed is restarted.
#[test]
fn local_ensemble_ends_with_a_server_that_is_stopped() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    let command = command.args(["ensemble", "--servers", "2", "--dir"]).arg(home.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let report: Vec<String> = lines.take_while(|line| !line.starts_with("  ready in ")).collect();
    let first = report.iter().find(|line| line.contains("pid ")).unwrap();
    let pid = first.split("pid ").nth(1).unwrap().split(',').next().unwrap();
    assert!(Command::new("kill").arg(pid).status().unwrap().success());
    let done = child.wait_with_output().unwrap();
    let expected = "error: server 1 was stopped, and with it all others\n\
                    hint: only a server that is killed (kill -9) is restarted\n";
    assert_eq!((String::from_utf8(done.stderr).unwrap().as_str(), done.status.code()), (expected, Some(1)));
}

/// With two of three servers down, no server leads until one is restarted.
#[test]
fn local_ensemble_reports_a_lost_quorum() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    let command = command.args(["ensemble", "--servers", "3", "--dir"]).arg(home.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("  ready in ")));
    let pids: Vec<String> = children_of(child.id()).iter().take(2).map(ToString::to_string).collect();
    assert!(Command::new("kill").arg("-KILL").args(&pids).status().unwrap().success());
    assert!(lines.any(|line| line == "no quorum: 1 of 3 voters run, and writes need 2"));
    assert!(lines.any(|line| line.contains(" serves clients again: ")));
    assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(lines.last().unwrap(), "stopped");
    child.wait().unwrap();
    let refused = run_command(home.path(), &["ensemble", "--servers", "2", "--observers", "1", "--dir", "."]);
    let expected = "error: . contains an ensemble of 3 voters and 0 observers\nhint: give --servers 3 --observers 0, or use \
                    another --dir\n";
    assert_eq!((refused.code, refused.err.as_str()), (Some(1), expected));
    let larger = run_command(home.path(), &["ensemble", "--servers", "5", "--dir", "."]);
    assert_eq!((larger.code, larger.err.as_str()), (Some(1), expected));
    std::fs::remove_file(home.path().join("1/zoo.cfg")).unwrap();
    let incomplete = run_command(home.path(), &["ensemble", "--dir", "."]);
    let expected = "error: . contains an incomplete ensemble: 1/zoo.cfg is missing\nhint: use another --dir\n";
    assert_eq!((incomplete.code, incomplete.err.as_str()), (Some(1), expected));
}

#[test]
fn local_ensemble_in_a_directory_that_cannot_be_written_names_a_remedy() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "").unwrap();
    let failed = run_command(home.path(), &["ensemble", "--dir", "file/servers"]);
    assert_eq!(failed.code, Some(1));
    let start = "error: cannot write to file/servers as the user with uid ";
    let end = "\nhint: choose another directory with --dir: a part of this path is a file\n";
    assert!(failed.err.starts_with(start) && failed.err.ends_with(end), "{}", failed.err);
}

pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let listed = Command::new("ps").args(["-o", "pid=", "--ppid", &parent.to_string()]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// A proxy that accepts connections and closes them must not cause immediate redials.
#[test]
fn k147_port_that_closes_connections_is_not_redialled_immediately() {
    let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = door.local_addr().unwrap().port();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || door.incoming().for_each(|_| _ = counted.fetch_add(1, Ordering::Relaxed)));
    let home = tempfile::tempdir().unwrap();
    let own = [0; 2].map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port());
    let text = format!(
        "dataDir=data\nadmin.enableServer=false\nclientPort=0\nclientPortAddress=127.0.0.1\ntickTime=500\ninitLimit=20\nsyncLimit=4\n\
         server.1=127.0.0.1:1:{port}\nserver.2=127.0.0.1:{}:{}\nserver.3=127.0.0.1:1:{port}\n",
        own[0], own[1]
    );
    std::fs::create_dir(home.path().join("data")).unwrap();
    std::fs::write(home.path().join("data/myid"), "2\n").unwrap();
    std::fs::write(home.path().join("zoo.cfg"), text).unwrap();
    let mut process = process::start(&["server", "zoo.cfg"], home.path());
    process.wait_for("LOOKING");
    std::thread::sleep(Duration::from_secs(3));
    let calls = calls.load(Ordering::Relaxed);
    assert!((2..40).contains(&calls), "{calls} calls");
}

/// Clients of an ensemble with TLS need its settings; the commands that it prints work.
#[test]
fn local_ensemble_with_tls_serves_clients_with_its_certificates_only() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    let command = command.args(["ensemble", "--tls", "--dir"]).arg(home.path());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    // Open until the end: the ensemble writes a last line when it stops.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut printed = Vec::new();
    for line in lines.by_ref() {
        let is_last = line.starts_with("  ready in ");
        printed.push(line);
        if is_last {
            break;
        }
    }
    let count = |role: &str| printed.iter().filter(|line| line.contains(&format!("  {role} "))).count();
    assert_eq!((count("leader"), count("follower")), (1, 2), "{printed:#?}");
    let printed_command = |start: &str| {
        let found = printed.iter().find_map(|line| line.split_once(start)).map(|(_, rest)| rest);
        found.unwrap_or_else(|| panic!("{start}: {printed:#?}")).split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |subcommand: &str, arguments: Vec<String>, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        let output = command.arg(subcommand).args(arguments).args(more).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, error) = run("status", printed_command("oxkeeper status "), &["--json"]);
    assert_eq!(code, Some(0), "{out}{error}");
    assert!(out.contains("\"health\":\"healthy\"") && out.matches("follower").count() == 2, "{out}");
    let shell = printed_command("oxkeeper cli ");
    let (code, out, error) = run("cli", shell.clone(), &["whoami"]);
    assert_eq!(code, Some(0), "{out}{error}");
    assert!(out.contains("CN=client"), "{out}");
    let (code, ..) = run("cli", shell[..2].to_vec(), &["-timeout", "3000", "whoami"]);
    assert_ne!(code, Some(0), "a client without TLS");

    let other = home.path().display().to_string();
    let (code, _, error) = run("ensemble", vec!["--dir".to_owned(), other], &[]);
    assert!(code != Some(0) && error.contains("contains an ensemble with TLS"), "{error}");
    let (code, out, error) =
        run("tls", vec!["check".to_owned()], &[&home.path().join("1/zoo.cfg").display().to_string()]);
    assert_eq!(code, Some(0), "{out}{error}");
    assert!(out.contains("servers: connects with TLS, accepts TLS only") && out.contains("\n0 failures"), "{out}");
    let log = std::fs::read_to_string(home.path().join("1/server.log")).unwrap();
    assert!(log.contains("Using TLS encrypted quorum communication"), "{log}");
    assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!((child.wait().unwrap().code(), lines.last().as_deref()), (Some(0), Some("stopped")));
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    std::fs::rename(home.path(), &moved).unwrap();
    let (code, _, error) =
        run("ensemble", vec!["--tls".to_owned(), "--dir".to_owned(), moved.display().to_string()], &[]);
    assert!(code == Some(1) && error.contains(" was moved or changed"), "{error}");
}

/// Requests of clients of a follower, which the leader checks.
#[test]
fn s14_forwarded_operations_need_the_permission_of_the_table() {
    let ensemble = members::start(3, 0, "extendedTypesEnabled=true\n");
    let leader = ensemble.leader();
    let follower = (0..3).find(|at| *at != leader).unwrap();
    ox_testkit::check_permissions(ensemble.addresses[follower]);
}
