//! Reload of the configuration while the server runs, and sessions that an operator closes.

use crate::process::Site;
use crate::server_log::{SUPER, admin_lines, four_letter, post};
use crate::tools::run_command;
use ox_testkit::{RawClient, RawHandshake, free_port, http, wait_until};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::net::TcpStream;

/// Replaces lines of the configuration of a site.
fn change(site: &Site, from: &str, to: &str) {
    let path = site.directory.join("zoo.cfg");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn texts(reply: &Value, key: &str) -> Vec<String> {
    let list = reply[key].as_array().unwrap_or_else(|| panic!("{key} in {reply}"));
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn reload_applies_what_can_change_and_reports_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let (lines, admin) = admin_lines();
    let site = Site::new(directory.path(), &format!("{lines}4lw.commands.whitelist=srvr\n"));
    let mut running = site.start();
    assert!(four_letter(running.address, "ruok").contains("not in the whitelist"));
    change(&site, "whitelist=srvr", "whitelist=srvr,ruok,conf");
    change(&site, "maxClientCnxns=0", "maxClientCnxns=1");
    change(&site, "tickTime=2000", "tickTime=3000\noxkeeper.log.levels=debug");
    for (authorization, status) in [("ip", 403), ("digest a:b", 403)] {
        assert_eq!(post(admin, "/commands/reload", authorization).status, status);
    }
    assert_eq!(http(admin, "GET", "/commands/reload", &[("Authorization", SUPER)], b"").unwrap().status, 405);
    assert!(four_letter(running.address, "ruok").contains("not in the whitelist"), "nothing has changed yet");
    let reply: Value = serde_json::from_str(&post(admin, "/commands/reload", SUPER).text()).unwrap();
    assert_eq!(texts(&reply, "applied"), ["4lw.commands.whitelist", "maxClientCnxns", "oxkeeper.log.levels"]);
    assert_eq!(texts(&reply, "needs_restart"), ["tickTime"]);
    assert_eq!((texts(&reply, "errors"), &reply["error"]), (Vec::new(), &Value::Null));
    assert_eq!(four_letter(running.address, "ruok"), "imok");
    assert!(four_letter(running.address, "conf").contains("maxClientCnxns=1\n"));
    let _first = running.client();
    let mut second = TcpStream::connect(running.address).unwrap();
    assert!(second.read(&mut [0]).is_ok_and(|count| count == 0), "one connection per address");
    running.process.wait_for("changed settings need a restart");
    let again: Value = serde_json::from_str(&post(admin, "/commands/reload", SUPER).text()).unwrap();
    assert_eq!((texts(&again, "applied"), texts(&again, "needs_restart")), (Vec::new(), vec!["tickTime".to_owned()]));
    running.process.signal("TERM");
}

#[test]
fn bad_configuration_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (lines, admin) = admin_lines();
    let site = Site::new(directory.path(), &format!("{lines}4lw.commands.whitelist=srvr\n"));
    let mut running = site.start();
    change(&site, "whitelist=srvr", "whitelist=*");
    change(&site, "tickTime=2000", "tickTime=fast");
    running.process.signal("HUP");
    let line = running.process.wait_for("configuration not reloaded");
    assert!(line.contains("zoo.cfg") && line.contains("tickTime"), "{line}");
    let reply: Value = serde_json::from_str(&post(admin, "/commands/reload", SUPER).text()).unwrap();
    assert!(texts(&reply, "errors")[0].contains("tickTime"), "{reply}");
    assert!(reply["error"].as_str().unwrap().contains("tickTime"), "{reply}");
    assert!(four_letter(running.address, "ruok").contains("not in the whitelist"));
    change(&site, "tickTime=fast", "tickTime=2000");
    running.process.signal("HUP");
    running.process.wait_for("configuration reloaded");
    wait_until("the whitelist applies", || four_letter(running.address, "ruok") == "imok");
    running.stop();
}

#[test]
fn limits_of_sessions_and_watches_change() {
    let directory = tempfile::tempdir().unwrap();
    let (lines, admin) = admin_lines();
    let limits = "oxkeeper.maxSessionsPerAddress=100\noxkeeper.maxWatchesPerAddress=100\n";
    let site = Site::new(directory.path(), &format!("{lines}{limits}"));
    let running = site.start();
    let mut first = running.client();
    let reply = |client: &mut RawClient, path: &str| client.watch(ox_proto::OpCode::Exists, path).err;
    assert_eq!(reply(&mut first, "/a"), -101, "a watch of a node that does not exist");
    change(&site, limits, "oxkeeper.maxSessionsPerAddress=1\noxkeeper.maxWatchesPerAddress=1\n");
    assert_eq!(post(admin, "/commands/reload", SUPER).status, 200);
    wait_until("a second session is refused", || {
        RawClient::try_open(running.address, &RawHandshake::new(30_000)).is_none()
    });
    assert_eq!(reply(&mut first, "/b"), -127, "a second watch is refused");
    change(&site, "maxSessionsPerAddress=1\n", "maxSessionsPerAddress=0\n");
    assert_eq!(post(admin, "/commands/reload", SUPER).status, 200);
    wait_until("sessions are accepted", || RawClient::try_open(running.address, &RawHandshake::new(30_000)).is_some());
    running.stop();
}

#[test]
fn operator_closes_a_session() {
    let directory = tempfile::tempdir().unwrap();
    let (lines, admin) = admin_lines();
    let running = Site::new(directory.path(), &lines).start();
    let (mut victim, mut other) = (running.client(), running.client());
    victim.create_as("/ephemeral", 1);
    let id = victim.session().0;
    assert_eq!(post(admin, &format!("/commands/close_session?sessionId={id:#x}"), "ip").status, 403);
    assert_eq!(other.exists("/ephemeral").err, 0);
    let reply = post(admin, &format!("/commands/close_session?sessionId={id:#x}"), SUPER);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(other.exists("/ephemeral").err, -101, "its node is gone");
    assert!(victim.receive().is_none(), "its connection is closed");
    assert_eq!(post(admin, &format!("/commands/close_session?sessionId={id:#x}"), SUPER).status, 404);
    let wrong = post(admin, "/commands/close_session?sessionId=x", SUPER);
    assert!(wrong.status == 400 && wrong.text().contains("needs sessionId"), "{}", wrong.text());
    running.stop();
}

#[test]
fn shed_connections_closes_connections_and_keeps_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let (lines, admin) = admin_lines();
    let running = Site::new(directory.path(), &lines).start();
    let mut clients = [running.client(), running.client(), running.client()];
    clients[0].create_as("/ephemeral", 1);
    let shed = |query: &str, authorization: &str, body: &str| {
        let (path, headers) = (format!("/commands/shed_connections{query}"), [("Authorization", authorization)]);
        let reply = http(admin, "POST", &path, &headers, body.as_bytes()).unwrap();
        (reply.status, reply.text())
    };
    assert_eq!(shed("", "ip", "{\"percentage\": 100}").0, 403);
    for (body, error) in [
        ("", "Request body is required"),
        ("{}", "Missing required field: percentage"),
        ("{\"percentage\": 101}", "Percentage must be between 0 and 100"),
        ("{\"percentage\": -1}", "Percentage must be between 0 and 100"),
        ("{", "Invalid JSON or failed to read request body: "),
    ] {
        let (status, text) = shed("", SUPER, body);
        assert!(status == 400 && text.contains(error), "{body}: {text}");
    }
    assert!(shed("?percentage=0", SUPER, "").1.contains("\"connections_shed\" : 0"));
    assert_eq!(clients[0].exists("/ephemeral").err, 0, "no connection is closed yet");
    let (status, text) = shed("", SUPER, "{\"percentage\": 100}");
    let expected = "{\n  \"connections_shed\" : 3,\n  \"percentage_requested\" : 100,\n  \
                    \"command\" : \"shed_connections\",\n  \"error\" : null\n}";
    assert_eq!((status, text.as_str()), (200, expected));
    assert!(clients.iter_mut().all(|client| client.receive().is_none()), "all connections are closed");
    let back = RawClient::try_open(running.address, &clients[0].handshake()).expect("the session is open");
    assert_eq!(back.session(), clients[0].session());
    assert_eq!(running.client().exists("/ephemeral").err, 0);
    running.stop();
}

/// The disk of a test is fast, so the limit is as low as it can be, and the writes queue behind each other.
#[test]
fn slow_requests_are_logged_with_their_stages() {
    let directory = tempfile::tempdir().unwrap();
    let (lines, admin) = admin_lines();
    let site = Site::new(directory.path(), &format!("{lines}oxkeeper.slowRequestMs=0\n"));
    let mut running = site.start();
    let mut client = running.client();
    client.create("/slow", &[0; 100]);
    change(&site, "slowRequestMs=0", "slowRequestMs=1");
    assert_eq!(post(admin, "/commands/reload", SUPER).status, 200);
    wait_until("a write takes a millisecond", || {
        client.set("/slow", &[1; 100_000]);
        running.process.log_so_far().iter().any(|line| line.contains("slow request"))
    });
    let said = running.process.log_so_far();
    let line = said.iter().find(|line| line.contains("slow request")).unwrap();
    let session = format!("session={}", client.session());
    for part in
        ["WARN", "operation=\"setData\"", "path=\"/slow\"", &session, "total_ms=", "queue_ms=", "log_ms=", "commit_ms="]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    running.stop();
}

/// Without `client.certReload`, certificates are read at the start and by a reload.
#[test]
fn reload_uses_new_certificates_and_keeps_the_old_ones_after_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let make = || {
        let made = run_command(directory.path(), &["tls", "init", "127.0.0.1", "--force"]);
        assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    };
    make();
    let (lines, admin) = admin_lines();
    let store = directory.path().join("tls/server.1.pem");
    let ca = directory.path().join("tls/ca.pem");
    let tls = format!(
        "secureClientPort={}\nsecureClientPortAddress=127.0.0.1\nssl.keyStore.location={}\nssl.trustStore.location={}\n",
        free_port(),
        store.display(),
        ca.display()
    );
    let mut running = Site::new(directory.path(), &format!("{lines}{tls}")).start();
    let reload = || -> Value { serde_json::from_str(&post(admin, "/commands/reload", SUPER).text()).unwrap() };
    let unchanged = reload();
    assert_eq!((texts(&unchanged, "certificates"), texts(&unchanged, "errors")), (Vec::new(), Vec::new()));
    make();
    let changed = reload();
    assert_eq!(texts(&changed, "certificates"), ["client"], "{changed}");
    running.process.wait_for("certificates of the client port reloaded");
    fs::write(&store, "no certificate").unwrap();
    for _ in 0..2 {
        let broken = reload();
        assert!(texts(&broken, "errors")[0].starts_with("certificates of the client port: "), "{broken}");
    }
    make();
    assert_eq!(texts(&reload(), "certificates"), ["client"]);
    running.stop();
}
