//! Answers look like Apache's, recorded in `testdata/4lw`. Values differ; everything around them is the same.

use crate::four_letter_client::ALL_WORDS;
use crate::raw::Client;
use crate::server_fixture::Served;
use ox_proto::OpCode;
use std::collections::BTreeSet;

macro_rules! golden {
    ($word:literal) => {
        include_str!(concat!("../../testdata/4lw/", $word, ".txt"))
    };
}

/// Puts `#` for numbers, `0x#` for hexadecimal ones, `Day` and `Mon` in dates, and nothing for the rest of a version.
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
fn check(answer: &str, golden: &str) {
    let masked = |text: &str| text.split('\n').map(mask).collect::<Vec<_>>();
    assert_eq!(masked(answer), masked(golden), "\n{answer}\nas\n{golden}");
}

/// Compares masked lines where Apache's order is that of a hash.
fn check_unordered(answer: &str, golden: &str) {
    let masked = |text: &str| {
        let mut lines: Vec<String> = text.split('\n').map(mask).collect();
        lines.sort();
        lines
    };
    assert_eq!(masked(answer), masked(golden), "\n{answer}\nas\n{golden}");
}

/// What was there when the recordings were made.
fn recorded_scene(served: &Served) -> Client {
    let mut client = served.client();
    client.create("/app", b"");
    client.create("/app/cfg", b"v");
    client.create_as("/app/eph-standalone", 1);
    client.watch(OpCode::GetChildren, "/app");
    client.watch(OpCode::Exists, "/app/cfg");
    client.watch(OpCode::Exists, "/app/missing");
    client
}

#[test]
fn masks() {
    assert_eq!(mask("Latency min/avg/max: 0/0.6448/7"), "Latency min/avg/max: #/#/#");
    assert_eq!(mask("1 expire at Sun Nov 15 06:32:50 UTC 2026:"), "# expire at Day Mon # #:#:# UTC #:");
    assert_eq!(mask("sid=0x10ab,lop=GETD"), "sid=0x#,lop=GETD");
    assert_eq!(mask("v: 3.9.3-abc, built on x"), "v: 3.9.3-");
}

#[test]
fn short_words() {
    let served = Served::with(ALL_WORDS);
    assert_eq!(served.word("ruok"), golden!("ruok"));
    assert_eq!(served.word("isro"), golden!("isro"));
    assert_eq!(served.word("gtmk"), golden!("gtmk"));
    assert_eq!(served.say(b"stmk\0\0\0\0\0\0\x01\x32"), golden!("stmk"));
    assert_eq!(served.word("crst"), golden!("crst"));
    assert_eq!(served.word("srst"), golden!("srst"));
}

#[test]
fn srvr_and_stat() {
    let served = Served::with(ALL_WORDS);
    let _client = recorded_scene(&served);
    check(&served.word("srvr"), golden!("srvr"));
    check_unordered(&served.word("stat"), golden!("stat"));
    let stat = served.word("stat");
    let empty = stat.lines().position(str::is_empty);
    assert_eq!(empty, Some(4), "version, title, two clients, then an empty line");
}

#[test]
fn the_version_is_one_that_tools_know() {
    let served = Served::with(ALL_WORDS);
    let srvr = served.word("srvr");
    let version = srvr.strip_prefix("Zookeeper version: ").expect("the line tools look for");
    let numbers: Vec<&str> = version.split('-').next().unwrap().split('.').collect();
    assert_eq!(numbers, ["3", "9", "3"]);
    assert!(version.lines().next().unwrap().contains(", built on "));
}

#[test]
fn cons_before_and_after_crst() {
    let served = Served::with(ALL_WORDS);
    let _client = recorded_scene(&served);
    check_unordered(&served.word("cons"), golden!("cons"));
    served.word("crst");
    check_unordered(&served.word("cons"), golden!("cons-after-crst"));
}

#[test]
fn srvr_after_srst() {
    let served = Served::with(ALL_WORDS);
    let _client = recorded_scene(&served);
    served.word("srst");
    let srvr = served.word("srvr");
    check(&srvr, golden!("srvr-after-srst"));
    assert_eq!(srvr.lines().nth(1), golden!("srvr-after-srst").lines().nth(1));
    assert!(srvr.contains("\nReceived: 1\nSent: 1\n"), "the reply to srst and srvr itself: {srvr}");
}

#[test]
fn conf_and_dirs() {
    let served = Served::with(ALL_WORDS);
    let conf = served.word("conf");
    let golden =
        golden!("conf").replace("/data/sa", &served.config().data_dir.canonicalize().unwrap().display().to_string());
    check(&conf, &golden);
    assert!(conf.contains(&format!("clientPort={}\n", served.address().port())));
    check(&served.word("dirs"), golden!("dirs"));
}

#[test]
fn dump() {
    let served = Served::with(ALL_WORDS);
    let _client = recorded_scene(&served);
    // Apache keeps empty buckets for a while.
    let golden: Vec<&str> = golden!("dump").split('\n').filter(|line| !line.starts_with("0 expire")).collect();
    check(&served.word("dump"), &golden.join("\n"));
}

#[test]
fn envi() {
    let served = Served::with(ALL_WORDS);
    let keys = |text: &str| {
        let lines = text.lines().map(|line| line.split('=').next().unwrap_or_default().to_owned());
        lines.collect::<Vec<_>>()
    };
    let envi = served.word("envi");
    assert_eq!(keys(&envi), keys(golden!("envi")));
    assert!(envi.contains("\nzookeeper.version=3.9.3-") && envi.contains("\njava.compiler=<NA>\n"), "{envi}");
    assert!(envi.lines().filter(|line| line.contains(".memory.")).all(|line| line.ends_with("MB")), "{envi}");
}

#[test]
fn watches() {
    let served = Served::with(ALL_WORDS);
    let client = recorded_scene(&served);
    check(&served.word("wchs"), golden!("wchs"));
    check(&served.word("wchc"), golden!("wchc"));
    check(&served.word("wchp"), golden!("wchp"));
    client.close();
    served.await_metric("watch_count", "0");
    assert_eq!(served.word("wchs"), "0 connections watching 0 paths\nTotal watches:0\n");
    assert_eq!((served.word("wchc"), served.word("wchp")), ("\n".to_owned(), "\n".to_owned()));
}

#[test]
fn hash() {
    let served = Served::with(ALL_WORDS);
    assert_eq!(served.word("hash"), "");
    let mut client = served.client();
    client.create("/n", b"");
    for _ in 0..256 {
        client.set("/n", b"x");
    }
    let answer = served.word("hash");
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines.len(), 2, "{answer}");
    assert!(lines[0].starts_with("80: ") && lines[1].starts_with("100: "), "{answer}");
    assert!(lines.iter().all(|line| line[line.find(' ').unwrap() + 1..].parse::<i64>().is_ok()), "{answer}");
}

#[test]
fn mntr_has_apaches_keys() {
    let served = Served::with(ALL_WORDS);
    let mut client = recorded_scene(&served);
    client.create("/a", b"");
    client.get("/a");
    client.get("/app/cfg");
    client.children("/zookeeper/quota");
    served.await_metric("cnt_app_write_per_namespace", "3");
    served.await_metric("cnt_a_write_per_namespace", "1");
    let mntr = served.word("mntr");
    let keys = |text: &'static str| text.lines().map(|line| line.split('\t').next().unwrap()).collect::<BTreeSet<_>>();
    let ours: BTreeSet<&str> = mntr.lines().map(|line| line.split('\t').next().unwrap()).collect();
    let own = BTreeSet::from([
        "zk_client_memory_bytes",
        "zk_client_memory_limit_bytes",
        "zk_parked_handshakes",
        "zk_sessions_rejected",
        "zk_thread_stalls",
        "zk_watches_rejected",
    ]);
    assert_eq!(ours, &keys(golden!("mntr")) | &own);
    assert_eq!(mntr.lines().count(), golden!("mntr").lines().count() + own.len(), "no key stands twice");
    assert!(mntr.starts_with("zk_version\t3.9.3-oxkeeper-") && mntr.contains("\nzk_server_state\tstandalone\n"));
    for line in mntr.lines().skip(2) {
        assert!(line.split('\t').nth(1).is_some_and(|value| value.parse::<f64>().is_ok()), "{line}");
    }
}

#[test]
fn the_default_whitelist() {
    let served = Served::start();
    for section in golden!("default-whitelist").split("== ").skip(1) {
        let (word, answer) = section.split_once('\n').unwrap();
        let bytes = if word == "0xfff4fffd" { &[0xff, 0xf4, 0xff, 0xfd][..] } else { word.as_bytes() };
        check(&served.say(bytes), answer);
    }
}
