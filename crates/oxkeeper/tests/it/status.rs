//! `oxkeeper status`, `oxkeeper 4lw` and the report of `oxkeeper ensemble`.

use crate::ensemble::children_of;
use crate::members;
use crate::process::Site;
use crate::terminal::{Terminal, without_colours};
use crate::tools::{CommandOutput, run_command};
use ox_testkit::{free_port, wait_until};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read as _};
use std::process::{Command, Stdio};

/// The hint for a local port on which no process listens.
const UNNAMED: &str = "warning: no reply, so the members of its ensemble are unknown, if it belongs to one; give the addresses of several, \
         separated by commas";
const STATUS_HINT: &str = "hint: is the server of this host running? Start its service; `oxkeeper server` without a \
                            configuration starts a new, empty server for development\n";

fn run(arguments: &[&str]) -> CommandOutput {
    run_command(&std::env::temp_dir(), arguments)
}

/// The distinct zxids of all members.
fn zxids(server: &str) -> BTreeSet<String> {
    let json = run(&["status", "--json", server]);
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    value["members"].as_array().unwrap().iter().map(|member| member["zxid"].to_string()).collect()
}

/// The servers that `top` of the shell shows.
fn servers_in_top(server: &str) -> Vec<String> {
    let top = run(&["cli", "-server", server, "top", "--count", "1", "--json"]);
    assert_eq!(top.code, Some(0), "{}", top.out);
    let value: serde_json::Value = serde_json::from_str(&top.out).unwrap();
    let rows = value["servers"].as_array().unwrap().iter();
    rows.map(|row| row["server"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn status_finds_all_members_and_tells_health_by_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    let port = free_port();
    let base = port.min(60_000).to_string();
    command.args(["ensemble", "--observers", "1", "--base-port", &base, "--dir"]).arg(home.path());
    let mut ensemble = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(ensemble.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut report: Vec<String> = Vec::new();
    for line in lines.by_ref() {
        let is_last = line.starts_with("  ready in ");
        report.push(line);
        if is_last {
            break;
        }
    }
    let address = |at: u16| format!("127.0.0.1:{}", base.parse::<u16>().unwrap() + at);
    let count = |role: &str| report.iter().filter(|line| line.contains(&format!("  {role} "))).count();
    assert_eq!((count("leader"), count("follower"), count("observer")), (1, 2, 1), "{report:#?}");
    assert!(report[0].ends_with(" ensemble of 3 voters and 1 observer"), "{report:#?}");
    assert!(report[1].starts_with(&format!("  server 1  {}  ", address(0))), "{report:#?}");
    assert!(report[4].contains("  observer "), "{report:#?}");
    let pids = children_of(ensemble.id());
    assert!(pids.iter().all(|pid| report.iter().any(|line| line.contains(&format!("  pid {pid}, ")))), "{report:#?}");
    assert!(report[9].ends_with(" ms") && report.len() == 10, "{report:#?}");
    let all: Vec<String> = (0..4).map(address).collect();
    assert_eq!(report[5], format!("  connect   {}", all.join(",")));

    let log = std::fs::read_to_string(home.path().join("1/server.log")).unwrap();
    assert!(!log.contains("is relative"), "no warning about our own configuration: {log}");
    let other = home.path().join("other");
    let again = run(&["ensemble", "--base-port", &base, "--dir", &other.display().to_string()]);
    let expected = format!("error: port {base} of server 1 is in use by pid ");
    assert!(again.code == Some(1) && again.err.starts_with(&expected), "{}", again.err);
    assert!(again.err.ends_with("(oxkeeper)\nhint: stop that process, or use another --base-port\n"));
    assert!(!other.exists(), "the next attempt may use other ports");

    // A learner has the zxid 0x0 until it has applied the first transaction.
    assert_eq!(run(&["cli", "-server", &address(3), "create", "/a"]).code, Some(0));
    wait_until("all members have the zxid of the last transaction", || zxids(&address(2)).len() == 1);
    let before = zxids(&address(2));
    let status = run(&["status", &address(2)]);
    assert_eq!(zxids(&address(2)), before, "status causes no transactions where conf is allowed");
    assert_eq!((status.code, status.err.as_str()), (Some(0), ""), "{}", status.out);
    let table: Vec<Vec<&str>> = status.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(table[0][..5], ["ID", "SERVER", "ROLE", "ZXID", "EPOCH"]);
    assert!(table[0].join(" ").contains(" MS MIN/AVG/MAX "), "{}", status.out);
    for (at, row) in table[1..5].iter().enumerate() {
        assert_eq!((row[0], row[1], row[3]), (&*(at + 1).to_string(), &*all[at], "1"), "{}", status.out);
        assert_eq!(row[5], "0", "the lag: {}", status.out);
        assert!(row.contains(&"MB") || row.contains(&"KB"), "the size on disk: {}", status.out);
    }
    assert!(status.out.contains("\nhealthy: 4 of 4 serve clients, server "), "{}", status.out);

    let json = run(&["status", "--json", &address(0)]);
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&value["health"], value["members"].as_array().unwrap().len()), (&"healthy".into(), 4));
    assert_eq!(value["members"][3]["role"], "observer");
    assert!(value["members"][0]["uptime_ms"].is_u64() && value["members"][0]["lag"].is_i64(), "{value}");

    assert_eq!(servers_in_top(&address(1)), all);

    let observer = children_of(ensemble.id()).into_iter().max().unwrap();
    assert!(Command::new("kill").args(["-KILL", &observer.to_string()]).status().unwrap().success());
    assert!(lines.any(|line| line.contains("server 4 was killed")));
    while std::net::TcpStream::connect(address(3)).is_ok() {}
    let status = run(&["status", &address(0)]);
    assert_eq!(status.code, Some(1), "{}", status.out);
    assert!(status.out.contains("connection refused\ndegraded: 3 of 4 serve clients"), "{}", status.out);

    assert!(Command::new("kill").args(["-INT", &ensemble.id().to_string()]).status().unwrap().success());
    assert_eq!(ensemble.wait().unwrap().code(), Some(0));
    let status = run(&["status", "-s", &address(0)]);
    assert_eq!((status.code, status.err.as_str()), (Some(2), STATUS_HINT), "{}", status.out);
    let lines: Vec<&str> = status.out.lines().skip(1).collect();
    let expected = [&format!("-   {}  connection refused", address(0)), UNNAMED, "down: 0 of 1 serve clients"];
    assert_eq!(lines, expected);
}

#[test]
fn status_shows_what_srvr_alone_gives() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let status = run(&["status", &running.address.to_string()]);
    assert_eq!(status.code, Some(0), "{}", status.out);
    let row: Vec<&str> = status.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[2], row[9]), ("-", "standalone", "-"), "{}", status.out);
    assert!(status.out.ends_with("healthy: 1 of 1 serve clients\n"), "{}", status.out);
    running.stop();
    let running = Site::new(directory.path(), "4lw.commands.whitelist=*\n").start();
    let status = run(&["status", &running.address.to_string()]);
    assert!(status.out.lines().nth(1).unwrap().starts_with("-   "), "no id, as without conf: {}", status.out);
    running.stop();
}

#[test]
fn wrong_servers_are_refused_with_the_remedy() {
    for (words, error) in [
        (
            &["status", ":2191", "--watch", "1"][..],
            "\"1\": did you mean localhost:1?\nhint: seconds follow a `=`: --watch=1\n",
        ),
        (&["status", "http://a:2191"], "\"http://a:2191\": omit http://\n"),
        (&["4lw", "srvr", "http://a:2191"], "\"http://a:2191\": omit http://\n"),
    ] {
        let refused = run(words);
        assert_eq!(
            (refused.code, refused.err),
            (Some(2), format!("error: invalid address of a server: {error}")),
            "{words:?}"
        );
    }
    for command in [&["4lw", "srvr"][..], &["status"]] {
        let both = run(&[command, &[":1", "-s", ":2"]].concat());
        assert!(both.code == Some(2) && both.err.contains("cannot be used with"), "{}", both.err);
    }
}

#[test]
fn trace_mask_is_sent_with_its_command() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "4lw.commands.whitelist=*\n").start();
    let address = running.address.to_string();
    assert_eq!(run(&["4lw", "stmk=-2", &address]).out, "-2\n");
    assert_eq!(run(&["4lw", "gtmk", &address]).out, "-2\n");
    for (command, cause) in [
        ("stmk", "the trace mask is missing, for example stmk=306"),
        ("stmk=x", "the trace mask is missing, for example stmk=306"),
        ("srvr=1", "srvr takes no argument"),
        ("kill", "it is not a command; the commands are "),
    ] {
        let refused = run(&["4lw", command, &address]);
        assert!(refused.code == Some(2) && refused.err.contains(cause), "{command}: {}", refused.err);
    }
    running.stop();
}

#[test]
fn port_of_another_service_is_mentioned() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        listener.incoming().for_each(|stream| drop(stream.unwrap().read(&mut [0; 4096])));
    });
    let refused = run(&["4lw", "srvr", &format!(":{port}")]);
    assert!(
        refused.err.ends_with(&format!("hint: is {port} the client port of a ZooKeeper server?\n")),
        "{}",
        refused.err
    );
    let refused = run(&["admin", "srvr", "-s", &format!(":{port}")]);
    let hint = "hint: is this the port of an AdminServer? One with TLS needs https://\n";
    assert!(refused.code == Some(2) && refused.err.ends_with(hint), "{}", refused.err);
}

/// Members of one machine without client ports in the configuration cannot be found.
#[test]
fn status_is_unknown_if_members_were_not_asked() {
    let mut ensemble = members::prepare(3, 0, "4lw.commands.whitelist=*\n", &[]);
    ensemble.route(|_, _, target| members::at_localhost(target));
    let ensemble = ensemble.start();
    let addresses: Vec<String> = (0..3).map(|at| ensemble.addresses[at].to_string()).collect();
    let one = run(&["status", &addresses[1]]);
    assert_eq!(one.code, Some(1), "{}", one.out);
    assert!(one.out.contains("\nwarning: 2 of 3 members were not asked: "), "{}", one.out);
    let last = one.out.lines().last().unwrap();
    assert!(last.starts_with("unknown: 1 of 3 members asked, 1 of these serve clients"), "{}", one.out);
    let json = run(&["status", "--json", &addresses[1]]);
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&value["health"], &value["configured"]), (&"unknown".into(), &3.into()));
    assert_eq!(value["members"][0]["id"], 2, "the id that the server reports: {value}");
    assert!(value["members"][0]["latency_avg_ms"].is_f64(), "{value}");
    let all = run(&["status", &addresses.join(",")]);
    assert_eq!(all.code, Some(0), "{}", all.out);
    let ids: Vec<&str> = all.out.lines().skip(1).take(3).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(ids, ["1", "2", "3"], "{}", all.out);
    let wrong = run(&["status", "127.0.0.1:abc"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(2), ""));
    assert!(wrong.err.starts_with("error: invalid address of a server: \"127.0.0.1:abc\""), "{}", wrong.err);
}

/// No warning about other members if all of them were given.
#[test]
fn status_of_given_servers_without_quorum_is_down() {
    let ports = [free_port(), free_port()];
    let addresses = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let status = run(&["status", &addresses]);
    assert_eq!(status.code, Some(2), "{}", status.out);
    assert!(!status.out.contains("warning:") && status.out.ends_with("down: 0 of 2 serve clients\n"), "{}", status.out);
}

#[test]
fn status_is_repeated_on_a_terminal_without_a_size() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let command = format!("status --watch {}", running.address);
    let mut terminal = Terminal::start_sized(directory.path(), (0, 0), &command);
    for _ in 0..2 {
        assert!(2 < terminal.lines_until("serve clients").len());
    }
    drop(terminal);
    running.stop();
}

#[test]
fn status_is_repeated_and_fits_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "4lw.commands.whitelist=*\n").start();
    let width = 50;
    let mut terminal = Terminal::start(directory.path(), width, &format!("status --watch=1 {}", running.address));
    for _ in 0..2 {
        let lines = terminal.lines_until("serve clients");
        // From the first line of the screen on, and each line replaces what was there.
        assert!(lines[0].contains("\x1b[H") && lines.iter().all(|line| line.ends_with("\x1b[K")), "{lines:#?}");
        let plain = |line: &String| {
            without_colours(&line.trim_end_matches("\x1b[K").replace("\x1b[J", "").replace("\x1b[H", ""))
        };
        let lines: Vec<String> = lines.iter().map(plain).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
        assert!(lines[0].ends_with("  every 1 s, Ctrl-C stops"), "the time: {lines:#?}");
        assert!(lines[1].contains("ROLE") && !lines[1].contains("VERSION"), "{lines:#?}");
    }
    drop(terminal);
    running.stop();
}

#[test]
fn repeated_status_for_scripts_is_a_json_object_per_line() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    command.args(["status", "--json", "--watch=1", &running.address.to_string()]);
    let mut status = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(status.stdout.take().unwrap()).lines().map(Result::unwrap);
    let values: Vec<serde_json::Value> = lines.take(3).map(|line| serde_json::from_str(&line).unwrap()).collect();
    wait_until("it ends with the reader of its output", || status.try_wait().unwrap().is_some());
    assert!(values.iter().all(|value| value["health"] == "healthy"), "{values:?}");
    // srvr alone is allowed, so the first look needs a session: its opening and its end. The others need none.
    let zxids: Vec<_> = values.iter().map(|value| value["members"][0]["zxid"].as_str().unwrap()).collect();
    assert_eq!(zxids[1..], ["0x2", "0x2"]);
    running.stop();
}

/// A number is a port without a host for all tools, and never an address of the Internet.
#[test]
fn port_alone_is_refused_by_all_tools() {
    let mistaken = "did you mean localhost:2182?";
    for arguments in [
        &["cli", "-s", "2182", "ls", "/"][..],
        &["status", "2182"],
        &["4lw", "srvr", "-s", "2182"],
        &["bench", "-s", "2182"],
    ] {
        let refused = run(arguments);
        let is_refused = refused.code != Some(0) && refused.out.is_empty();
        assert!(is_refused && refused.err.contains(mistaken), "{arguments:?}: {}", refused.err);
    }
    let refused = run(&["status", "--watch", "3"]);
    let hint = "did you mean localhost:3?\nhint: seconds follow a `=`: --watch=3\n";
    assert!(refused.code == Some(2) && refused.err.ends_with(hint), "{}", refused.err);
}

/// `:port` is this machine for all tools, and profiles and both spellings of an option mean the same to them.
#[test]
fn tools_name_servers_in_the_same_way() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let (address, short) = (running.address.to_string(), format!(":{}", running.address.port()));
    for arguments in [&["cli", "-s", &short, "ls", "/"][..], &["status", &short], &["4lw", "srvr", &short]] {
        let done = run(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {}", done.err);
    }
    let (profiles, properties) = (directory.path().join("cli.conf"), directory.path().join("client.properties"));
    std::fs::write(&profiles, format!("[dev]\nserver = {address}\n")).unwrap();
    std::fs::write(&properties, "").unwrap();
    let properties = properties.to_str().unwrap();
    let with_profile = |name: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
        command.env_remove("OXKEEPER_SERVER").env("OXKEEPER_CLI_CONFIG", &profiles).env("OXKEEPER_PROFILE", name);
        let output = command.args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for arguments in [&["cli", "ls", "/"][..], &["status"], &["4lw", "srvr"]] {
        let (code, _, err) = with_profile("dev", arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
        let (code, _, err) = with_profile("none", arguments);
        assert!(code == Some(2) && err.contains("has no profile none"), "{arguments:?}: {err}");
    }
    assert!(with_profile("", &["status", "--profile", "dev"]).1.contains(&address));
    for option in ["-client-configuration", "--client-configuration"] {
        for command in ["cli", "status"] {
            let rest: &[&str] = if command == "cli" { &["-s", &address, "ls"] } else { &[&address] };
            let done = run(&[&[command, option, properties], rest].concat());
            assert_eq!(done.code, Some(0), "{command} {option}: {}", done.err);
        }
    }
    running.stop();
}

#[test]
fn four_letter_command_prints_the_reply() {
    let directory = tempfile::tempdir().unwrap();
    let running = Site::new(directory.path(), "").start();
    let address = running.address.to_string();
    let reply = run(&["4lw", "srvr", &address]);
    assert_eq!(reply.code, Some(0));
    let version = run(&["--version"]).out;
    let commit = version.split("(commit ").nth(1).unwrap().split(',').next().unwrap();
    let expected = format!("Zookeeper version: 3.9.3-oxkeeper-{}-{commit}, built on ", env!("CARGO_PKG_VERSION"));
    assert!(reply.out.starts_with(&expected) && reply.out.contains("\nMode: standalone\n"), "{}", reply.out);
    let wrong = run(&["4lw", "sr", &address]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("a command has four letters, for example srvr"), "{}", wrong.err);
    let unknown = run(&["4lw", "foob", &address]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("it is not a command; the commands are conf, cons, crst, "), "{}", unknown.err);
    let refused = run(&["4lw", "mntr", &address]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    let expected = format!(
        "error: {address} does not execute mntr: add it to 4lw.commands.whitelist, then reload the server by SIGHUP \
                 (restart one of Apache)\n"
    );
    let hint = "hint: without a zoo.cfg, start the server with -Dzookeeper.4lw.commands.whitelist=srvr,mntr\n";
    assert_eq!(refused.err, expected + hint);
    running.stop();
    let nothing = run(&["4lw", "srvr", &address]);
    let port = address.rsplit(':').next().unwrap();
    assert_eq!(
        (nothing.code, nothing.err),
        (
            Some(2),
            format!(
                "error: no reply from {address}: connection refused\n\
                 hint: is a server running, and is {port} its client port?\n"
            )
        )
    );
    // The hints are right.
    let mut site = Site::new(directory.path(), "");
    site.flags = vec!["-Dzookeeper.4lw.commands.whitelist=srvr,mntr".to_owned()];
    let running = site.start();
    let reply = run(&["4lw", "mntr", "-s", &running.address.to_string()]);
    assert!(reply.code == Some(0) && reply.out.contains("zk_version\t"), "{}{}", reply.out, reply.err);
    running.stop();
}

/// Changes are outstanding on the leader only, as in Apache.
#[test]
fn outstanding_changes_are_counted_on_the_leader_only() {
    let ensemble = members::start(3, 0, "");
    let leader = ensemble.leader();
    for number in 0..5 {
        ensemble.client().create(&format!("/n{number}"), 0);
    }
    for at in 0..3 {
        let text = ensemble.four_letter(at, "mntr");
        for name in ["outstanding_changes_queued", "outstanding_changes_removed"] {
            let line = text.lines().find(|line| line.starts_with(&format!("zk_{name}\t"))).unwrap();
            let count: u64 = line.split('\t').nth(1).unwrap().parse().unwrap();
            assert_eq!(0 < count, at == leader, "server {}: {line}", at + 1);
        }
    }
}
