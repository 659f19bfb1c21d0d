//! The AdminServer and the metrics provider of the built binary.

use crate::process::{Running, Site, start};
use crate::tools::run_command;
use ox_testkit::{HttpReply, free_port, http, wait_for};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

/// A server whose AdminServer has a port of its own.
struct WithAdmin {
    running: Running,
    admin: SocketAddr,
}

fn start_with(directory: &std::path::Path, settings: &str) -> WithAdmin {
    let port = free_port();
    let lines = format!("admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={port}\n{settings}");
    let running = Site::new(directory, &lines).start();
    WithAdmin { running, admin: (Ipv4Addr::LOCALHOST, port).into() }
}

impl WithAdmin {
    fn get(&self, path: &str) -> HttpReply {
        http(self.admin, "GET", path, &[], b"").unwrap()
    }
}

#[test]
fn admin_server_answers_commands_health_checks_and_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let secrets = "ssl.quorum.keyStore.password=hush-hush\n4lw.commands.whitelist=*\n";
    let server = start_with(directory.path(), secrets);
    server.running.client().create("/a", b"");
    let reply = server.get("/commands/ruok");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    assert_eq!(reply.text(), "{\n  \"command\" : \"ruok\",\n  \"error\" : null\n}");
    assert!(server.get("/commands/stat").text().contains("\"server_state\" : \"standalone\""));
    let properties = server.get("/commands/sysp").text();
    assert!(properties.contains("\"zookeeper.ssl.quorum.keyStore.password\" : \"(hidden)\""), "{properties}");
    let config = server.get("/commands/icfg").text();
    assert!(config.contains("4lw.commands.whitelist=*") && !config.contains("hush"), "{config}");
    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("# TYPE znode_count gauge\nznode_count 6.0\n"), "{metrics}");
    let foreign = http(server.admin, "GET", "/commands/ruok", &[("Host", "evil.example:8080")], b"").unwrap();
    assert_eq!(foreign.status, 421);
    server.running.stop();
}

#[test]
fn admin_command_ends_quietly_without_a_reader() {
    let directory = tempfile::tempdir().unwrap();
    let server = start_with(directory.path(), "");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxkeeper"));
    let ended = command.args(["admin", "mntr", "-s", &server.admin.to_string()]).stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap().as_str()), (Some(0), ""));
    server.running.stop();
}

/// The body of such a reply has no error, as Apache's.
#[test]
fn refused_command_is_reported_with_its_status() {
    let replies = [
        ("429 Too Many Requests", "error: HTTP status 429: nothing was done, because the last such command was"),
        ("401 Unauthorized", "error: HTTP status 401: the command needs rights\nhint: set OXKEEPER_ADMIN_AUTH to"),
    ];
    for (status, expected) in replies {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let head = format!("HTTP/1.0 {status}\r\nContent-Type: application/json\r\n\r\n");
            stream.write_all((head + "{\"command\":\"reload\",\"error\":null}").as_bytes()).unwrap();
        });
        let told = run_command(&std::env::temp_dir(), &["admin", "reload", "-s", &url]);
        server.join().unwrap();
        assert_eq!((told.code, told.out.as_str()), (Some(1), "{\"command\":\"reload\",\"error\":null}\n"));
        assert!(told.err.starts_with(expected), "{}", told.err);
    }
}

/// Apache's exit code, and a text that names the port and what to do.
#[test]
fn admin_port_in_use_ends_the_start_with_4() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    Site::new(
        directory.path(),
        &format!("admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={port}\n"),
    );
    let ended = start(&["server", "zoo.cfg"], directory.path()).end();
    assert_eq!(ended.status.code(), Some(4), "{}", ended.said);
    let text = format!("Problem starting AdminServer on address 127.0.0.1, port {port} and command URL /commands");
    assert!(ended.said.contains(&text) && ended.said.contains("change admin.serverPort"), "{}", ended.said);
}

/// As in Apache: only the AdminServer is missing.
#[test]
fn member_starts_without_admin_port() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("data")).unwrap();
    std::fs::write(directory.path().join("data/myid"), "1\n").unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let admin = format!("admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={port}\n");
    let [quorum, election] = [free_port(), free_port()];
    let members = format!("initLimit=5\nsyncLimit=5\nserver.1=127.0.0.1:{quorum}:{election}\nserver.2=127.0.0.1:1:2\n");
    Site::new(directory.path(), &(admin + &members));
    let mut process = start(&["server", "zoo.cfg"], directory.path());
    let warning = process.wait_for("Problem starting AdminServer on address 127.0.0.1, port");
    assert!(warning.contains("WARN") && warning.contains("change admin.serverPort"), "{warning}");
    process.wait_for("LOOKING");
}

#[test]
fn metrics_provider_has_a_port_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let settings = format!(
        "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         metricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort={port}\nmetricsProvider.exportJvmInfo=false\n"
    );
    let running = Site::new(directory.path(), &settings).start();
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
    let page = http(address, "GET", "/metrics", &[("Host", "prometheus.example")], b"").unwrap();
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(page.text().contains("# TYPE commit_count counter\n") && !page.text().contains("\nprocess_"));
    assert_eq!(http(address, "GET", "/commands/ruok", &[], b"").unwrap().status, 404);
    running.stop();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let ended = start(&["server", "zoo.cfg"], directory.path()).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
    assert!(ended.said.contains("Cannot boot MetricsProvider"), "{}", ended.said);
    drop(taken);
}

/// A member without a quorum is alive and healthy, but not ready.
#[test]
fn member_without_quorum_is_not_ready() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("data")).unwrap();
    std::fs::write(directory.path().join("data/myid"), "1\n").unwrap();
    let [quorum, election] = [free_port(), free_port()];
    let members = format!(
        "initLimit=5\nsyncLimit=5\nserver.1=127.0.0.1:{quorum}:{election}\nserver.2=127.0.0.1:1:2\nserver.3=127.0.0.1:1:2\n"
    );
    let server = start_with(directory.path(), &members);
    wait_for(|| (server.get("/healthz").status == 200).then_some(())).expect("the server runs");
    assert_eq!(server.get("/livez").status, 200);
    let ready = server.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("\"reason\" : \"there is no leader"), "{}", ready.text());
    let ruok = server.get("/commands/ruok").text();
    assert!(ruok.contains("\"error\" : \"This ZooKeeper instance is not currently serving requests\""), "{ruok}");
    let state = server.get("/commands/zabstate").text();
    assert!(state.contains("\"voting\" : false,\n  \"zabstate\" : \"\""), "{state}");
    server.running.stop();
}
