//! Replies compared with recordings of Apache 3.9.3, except for the values.

use crate::harness::{Harness, start};
use ox_testkit::{OpCode, http};
use std::collections::BTreeSet;
use std::path::Path;

fn golden(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The text with numbers and texts replaced by their types, except for `command` and `error`.
fn shape(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let Some((key, value)) = line.split_once(" : ") else { return line.to_owned() };
        let (value, comma) = value.strip_suffix(',').map_or((value, ""), |value| (value, ","));
        let is_kept = key.contains("\"command\"") || key.contains("\"error\"");
        // Keys that are ids, times or paths.
        let name = key.trim().trim_matches('"');
        let is_data = name.starts_with('/') || name.bytes().all(|byte| byte.is_ascii_digit());
        let key = if is_data { "    DATA" } else { key };
        let value = match value.as_bytes() {
            _ if is_kept => value,
            [b'"', ..] => "TEXT",
            [b'-' | b'0'..=b'9', ..] => "NUMBER",
            [b'[', b' ', b'"' | b'0'..=b'9', ..] => "LIST",
            _ => value,
        };
        format!("{key} : {value}{comma}")
    });
    lines.collect()
}

/// A server with a session that has an ephemeral node and two watches, and with enough transactions for a digest.
fn busy() -> (Harness, ox_testkit::RawClient) {
    let harness = Harness::new();
    let mut client = harness.client();
    for at in 0..130 {
        client.create(&format!("/n{at}"), b"");
    }
    client.ask(|packet, xid| packet.create(xid, "/eph", b"", 1));
    client.ask(|packet, xid| packet.read(xid, OpCode::Exists, "/n1", true));
    client.ask(|packet, xid| packet.read(xid, OpCode::Exists, "/missing", true));
    (harness, client)
}

#[test]
fn replies_have_the_fields_of_apache() {
    let (harness, _client) = busy();
    let same = [
        "configuration",
        "connection_stat_reset",
        "connections",
        "dirs",
        "dump",
        "environment",
        "get_trace_mask",
        "is_read_only",
        "last_snapshot",
        "leader",
        "observer_connection_stat_reset",
        "observers",
        "ruok",
        "stat_reset",
        "voting_view",
        "watch_summary",
        "zabstate",
    ];
    for name in same {
        let reply = harness.get(&format!("/commands/{name}"));
        assert_eq!(reply.header("content-type"), Some("application/json"), "{name}");
        assert_eq!(shape(&reply.text()), shape(&golden(&format!("standalone/{name}.json"))), "{name}");
    }
    // The order of these fields depends on the Java process; the one of the leader is kept.
    let leaders = golden("leader/server_stats.json");
    let (head, tail) = leaders.split_once("  \"proposal_stats\"").unwrap();
    let expected = format!("{head}{}", tail.split_once("  },\n").unwrap().1);
    assert_eq!(shape(&harness.get("/commands/srvr").text()), shape(&expected));
}

#[test]
fn listings_have_apaches_form() {
    let (harness, _client) = busy();
    let watches = harness.get("/commands/wchc").text();
    let paths = watches.lines().nth(2).unwrap();
    assert!(paths.contains("[ \"/") && paths.contains("/n1\"") && paths.contains("/missing\""), "{watches}");
    assert_eq!(shape(&watches), shape(&golden("standalone/watches.json")));
    assert_eq!(shape(&harness.get("/commands/wchp").text()), shape(&golden("standalone/watches_by_path.json")));
    let digests = harness.get("/commands/hash").text();
    assert_eq!(shape(&digests).len(), 9, "{digests}");
    let stats = harness.get("/commands/stats").text();
    let connections = stats.split_once("  \"connections\"").unwrap().1;
    let expected = golden("standalone/stats.json");
    assert_eq!(shape(connections), shape(expected.split_once("  \"connections\"").unwrap().1));
}

#[test]
fn monitor_has_the_names_of_apache() {
    let (harness, _client) = busy();
    let names = |text: &str| -> BTreeSet<String> {
        let keys = text.lines().filter_map(|line| line.split_once(" : ")).map(|(key, _)| key.trim().to_owned());
        keys.filter(|key| !key.ends_with("_per_namespace\"")).collect()
    };
    let (ours, theirs) = (names(&harness.get("/commands/monitor").text()), names(&golden("standalone/monitor.json")));
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_alias_runs_its_command() {
    let harness = Harness::new();
    for (alias, primary) in
        [("conf", "configuration"), ("mntr", "monitor"), ("isro", "is_read_only"), ("gtmk", "get_trace_mask")]
    {
        let text = harness.get(&format!("/commands/{alias}")).text();
        assert!(text.contains(&format!("\"command\" : \"{primary}\"")), "{text}");
    }
}

#[test]
fn unknown_commands_and_paths_are_reported() {
    let harness = Harness::new();
    let reply = harness.get("/commands/nosuch");
    assert_eq!((reply.status, reply.text()), (200, golden("not-serving/nosuch.json")));
    assert_eq!(harness.get("/commands/RUOK").status, 200);
    assert_eq!(harness.get("/nowhere").status, 404);
    for path in ["/commands", "/commands/"] {
        assert_eq!(harness.get(path).text(), golden("standalone/commands-listing.html"));
    }
}

#[test]
fn methods_are_treated_as_by_apache() {
    let harness = Harness::new();
    for (method, status) in
        [("TRACE", 403), ("PUT", 405), ("DELETE", 405), ("POST", 405), ("HEAD", 200), ("OPTIONS", 200)]
    {
        let reply = harness.send(method, "/commands/ruok", &[]);
        assert_eq!((reply.status, reply.body.len()), (status, 0), "{method}");
    }
    let options = harness.send("OPTIONS", "/commands/ruok", &[]);
    assert_eq!(options.header("allow"), Some("GET, HEAD, POST, TRACE, OPTIONS"));
    assert_eq!(harness.get("/commands/restore").status, 405);
}

#[test]
fn trace_mask_is_set_by_a_parameter() {
    let harness = Harness::new();
    let reply = harness.get("/commands/set_trace_mask?traceMask=9").text();
    assert!(reply.contains("\"tracemask\" : 9"), "{reply}");
    assert!(harness.get("/commands/gtmk").text().contains("\"tracemask\" : 9"));
    let error = |path: &str| {
        let text = harness.get(path).text();
        text.lines().nth(1).unwrap().trim().to_owned()
    };
    let needed = "\"error\" : \"setTraceMask requires long traceMask argument";
    assert_eq!(error("/commands/stmk"), format!("{needed}\","));
    assert_eq!(error("/commands/stmk?traceMask=x"), format!("{needed}, got x\","));
}

/// The AdminServer answers before there is a server.
#[test]
fn commands_answer_while_no_server_runs() {
    let admin = start(|_| ());
    let get = |path: &str| http(admin.address().unwrap(), "GET", path, &[], b"").unwrap();
    for name in ["leader", "ruok", "srvr", "stats", "voting_view", "zabstate", "get_trace_mask"] {
        assert_eq!(get(&format!("/commands/{name}")).text(), golden(&format!("not-serving/{name}.json")), "{name}");
    }
    assert!(get("/commands/monitor").text().contains("not currently serving requests"));
    assert_eq!((get("/livez").status, get("/healthz").status, get("/readyz").status), (200, 503, 503));
    assert!(get("/metrics").text().contains("# TYPE looking_count counter"));
}

#[test]
fn readiness_has_role_and_zxid() {
    let harness = Harness::new();
    harness.client().create("/a", b"");
    let ready = harness.get("/readyz");
    assert_eq!(ready.status, 200);
    let text = ready.text();
    assert!(text.starts_with("{\n  \"ready\" : true,\n  \"mode\" : \"standalone\",\n  \"last_zxid\" : \"0x"), "{text}");
}
