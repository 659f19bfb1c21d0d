//! Replies have the format of Apache's, recorded in `testdata/4lw`. Values differ; everything else is equal.

use crate::four_letter_client::ALL_COMMANDS;
use crate::server_fixture::ServerFixture;
use ox_proto::OpCode;
use ox_testkit::RawClient;
use std::collections::BTreeSet;

macro_rules! golden {
    ($command:literal) => {
        include_str!(concat!("../../testdata/4lw/", $command, ".txt"))
    };
}

/// Replaces numbers by `#`, hexadecimal ones by `0x#`, names in dates by `Day` and `Mon`, and cuts the rest of a
/// version.
fn mask(line: &str) -> String {
    let (line, version) = line.split_once("3.9.3-").map_or((line, ""), |(before, _)| (before, "3.9.3-"));
    let mut masked = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (found, shown) = if let Some(digits) = rest.strip_prefix("0x") {
            (2 + digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len()), "0x#")
        } else if first.is_ascii_digit() {
            (rest.find(|c| !is_number(c)).unwrap_or(rest.len()), "#")
        } else {
            (first.len_utf8(), &rest[..first.len_utf8()])
        };
        masked.push_str(shown);
        rest = &rest[found..];
    }
    for day in ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] {
        masked = masked.replace(&format!(" {day} "), " Day ");
    }
    for month in ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"] {
        masked = masked.replace(&format!(" {month} "), " Mon ");
    }
    masked + version
}

/// Compares masked lines in order.
fn check(reply: &str, golden: &str) {
    let masked = |text: &str| text.split('\n').map(mask).collect::<Vec<_>>();
    assert_eq!(masked(reply), masked(golden), "\n{reply}\nas\n{golden}");
}

/// Compares masked lines where Apache's order is that of a hash.
fn check_unordered(reply: &str, golden: &str) {
    let masked = |text: &str| {
        let mut lines: Vec<String> = text.split('\n').map(mask).collect();
        lines.sort();
        lines
    };
    assert_eq!(masked(reply), masked(golden), "\n{reply}\nas\n{golden}");
}

/// Creates the data of the recording.
fn recorded_scene(server: &ServerFixture) -> RawClient {
    let mut client = server.client();
    client.create("/app", b"");
    client.create("/app/cfg", b"v");
    client.create_as("/app/eph-standalone", 1);
    client.watch(OpCode::GetChildren, "/app");
    client.watch(OpCode::Exists, "/app/cfg");
    client.watch(OpCode::Exists, "/app/missing");
    client
}

#[test]
fn mask_replaces_numbers_and_dates() {
    assert_eq!(mask("Latency min/avg/max: 0/0.6448/7"), "Latency min/avg/max: #/#/#");
    assert_eq!(mask("1 expire at Sun Nov 15 06:32:50 UTC 2026:"), "# expire at Day Mon # #:#:# UTC #:");
    assert_eq!(mask("sid=0x10ab,lop=GETD"), "sid=0x#,lop=GETD");
    assert_eq!(mask("v: 3.9.3-abc, built on x"), "v: 3.9.3-");
}

#[test]
fn one_line_replies_match() {
    let server = ServerFixture::with(ALL_COMMANDS);
    assert_eq!(server.command("ruok"), golden!("ruok"));
    assert_eq!(server.command("isro"), golden!("isro"));
    assert_eq!(server.command("gtmk"), golden!("gtmk"));
    assert_eq!(server.send_and_read(b"stmk\0\0\0\0\0\0\x01\x32"), golden!("stmk"));
    assert_eq!(server.command("crst"), golden!("crst"));
    assert_eq!(server.command("srst"), golden!("srst"));
}

#[test]
fn srvr_and_stat_match() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let _client = recorded_scene(&server);
    check(&server.command("srvr"), golden!("srvr"));
    check_unordered(&server.command("stat"), golden!("stat"));
    let stat = server.command("stat");
    let empty = stat.lines().position(str::is_empty);
    assert_eq!(empty, Some(4), "version, title, two clients, then an empty line");
}

#[test]
fn version_has_the_format_that_tools_parse() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let srvr = server.command("srvr");
    let version = srvr.strip_prefix("Zookeeper version: ").expect("the line tools look for");
    let numbers: Vec<&str> = version.split('-').next().unwrap().split('.').collect();
    assert_eq!(numbers, ["3", "9", "3"]);
    assert!(version.lines().next().unwrap().contains(", built on "));
}

#[test]
fn cons_matches_before_and_after_crst() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let _client = recorded_scene(&server);
    check_unordered(&server.command("cons"), golden!("cons"));
    server.command("crst");
    check_unordered(&server.command("cons"), golden!("cons-after-crst"));
}

#[test]
fn srvr_matches_after_srst() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let _client = recorded_scene(&server);
    server.command("srst");
    let srvr = server.command("srvr");
    check(&srvr, golden!("srvr-after-srst"));
    assert_eq!(srvr.lines().nth(1), golden!("srvr-after-srst").lines().nth(1));
    assert!(srvr.contains("\nReceived: 1\nSent: 1\n"), "the reply to srst and srvr itself: {srvr}");
}

#[test]
fn conf_and_dirs_match() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let conf = server.command("conf");
    let golden =
        golden!("conf").replace("/data/sa", &server.config().data_dir.canonicalize().unwrap().display().to_string());
    check(&conf, &golden);
    assert!(conf.contains(&format!("clientPort={}\n", server.address().port())));
    check(&server.command("dirs"), golden!("dirs"));
}

#[test]
fn dump_matches() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let _client = recorded_scene(&server);
    // Apache keeps empty buckets for a while.
    let golden: Vec<&str> = golden!("dump").split('\n').filter(|line| !line.starts_with("0 expire")).collect();
    check(&server.command("dump"), &golden.join("\n"));
}

#[test]
fn envi_matches() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let keys = |text: &str| {
        let lines = text.lines().map(|line| line.split('=').next().unwrap_or_default().to_owned());
        lines.collect::<Vec<_>>()
    };
    let envi = server.command("envi");
    assert_eq!(keys(&envi), keys(golden!("envi")));
    assert!(envi.contains("\nzookeeper.version=3.9.3-") && envi.contains("\njava.compiler=<NA>\n"), "{envi}");
    assert!(envi.lines().filter(|line| line.contains(".memory.")).all(|line| line.ends_with("MB")), "{envi}");
}

#[test]
fn watch_commands_match() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let client = recorded_scene(&server);
    check(&server.command("wchs"), golden!("wchs"));
    check(&server.command("wchc"), golden!("wchc"));
    check(&server.command("wchp"), golden!("wchp"));
    client.close();
    server.await_metric("watch_count", "0");
    assert_eq!(server.command("wchs"), "0 connections watching 0 paths\nTotal watches:0\n");
    assert_eq!((server.command("wchc"), server.command("wchp")), ("\n".to_owned(), "\n".to_owned()));
}

#[test]
fn hash_matches() {
    let server = ServerFixture::with(ALL_COMMANDS);
    assert_eq!(server.command("hash"), "");
    let mut client = server.client();
    client.create("/n", b"");
    for _ in 0..256 {
        client.set("/n", b"x");
    }
    let reply = server.command("hash");
    let lines: Vec<&str> = reply.lines().collect();
    assert_eq!(lines.len(), 2, "{reply}");
    assert!(lines[0].starts_with("80: ") && lines[1].starts_with("100: "), "{reply}");
    assert!(lines.iter().all(|line| line[line.find(' ').unwrap() + 1..].parse::<i64>().is_ok()), "{reply}");
}

#[test]
fn mntr_has_the_keys_of_apache() {
    let server = ServerFixture::with(ALL_COMMANDS);
    let mut client = recorded_scene(&server);
    client.create("/a", b"");
    client.get("/a");
    client.get("/app/cfg");
    client.children("/zookeeper/quota");
    server.await_metric("cnt_app_write_per_namespace", "3");
    server.await_metric("cnt_a_write_per_namespace", "1");
    let mntr = server.command("mntr");
    let keys = |text: &'static str| text.lines().map(|line| line.split('\t').next().unwrap()).collect::<BTreeSet<_>>();
    let ours: BTreeSet<&str> = mntr.lines().map(|line| line.split('\t').next().unwrap()).collect();
    let own = BTreeSet::from([
        "zk_client_memory_bytes",
        "zk_client_memory_limit_bytes",
        "zk_parked_handshakes",
        "zk_sessions_rejected",
        "zk_thread_stalls",
        "zk_watches_rejected",
        "zk_audit_events_dropped",
        "zk_log_lines_dropped",
        "zk_quorum_handshakes_rejected",
        "zk_quorum_host_name_mismatches",
        "zk_delayed_connections",
        "zk_weak_settings",
    ]);
    assert_eq!(ours, &keys(golden!("mntr")) | &own);
    assert_eq!(mntr.lines().count(), golden!("mntr").lines().count() + own.len(), "no duplicate keys");
    assert!(mntr.starts_with("zk_version\t3.9.3-oxkeeper-") && mntr.contains("\nzk_server_state\tstandalone\n"));
    for line in mntr.lines().skip(2) {
        assert!(line.split('\t').nth(1).is_some_and(|value| value.parse::<f64>().is_ok()), "{line}");
    }
}

#[test]
fn default_whitelist_enables_srvr_only() {
    let server = ServerFixture::start();
    for section in golden!("default-whitelist").split("== ").skip(1) {
        let (command, reply) = section.split_once('\n').unwrap();
        let bytes = if command == "0xfff4fffd" { &[0xff, 0xf4, 0xff, 0xfd][..] } else { command.as_bytes() };
        check(&server.send_and_read(bytes), reply);
    }
}
